"""The wheel: built from the tree, installed in a fresh virtual environment, tried from the outside."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from lcc.admin.help.programs import ROLES
from lcc.fetchers.registry import schemes_fetched
from tests.support.servers.finger import answer_for, finger_server, write_plugin

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = tuple(ROLES)


def run(*command: str | Path, cwd: Path, extra: dict[str, str] | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LCC"))}
    environment.update(extra or {})
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: setuptools would leave a build folder, whose old files get into later wheels."""
    tree = tmp_path_factory.mktemp("tree")
    unwanted = shutil.ignore_patterns("__pycache__", "dropin.cache")
    for folder in ("lcc", "twisted"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=unwanted)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "COPYING"):
        shutil.copy(ROOT / name, tree)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tree / "dist", tree, cwd=tree)
    (built,) = (tree / "dist").glob("lcc-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh virtual environment that holds the wheel.

    What the LCC depends on is lent by the environment that runs the tests; the LCC itself is not, as paths in .pth
    files (the editable install is one) count only in an environment's own folder.
    """
    place = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel, cwd=place)
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    (own / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import lcc; print(lcc.__file__)", cwd=place).strip()
    assert Path(where).is_relative_to(place)
    return place / "bin"


def test_the_wheel_holds_all_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "lcc").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != "dropin.cache"
    }
    assert wanted <= names
    assert any(name.startswith("lcc/storage/sql/") and name.endswith(".sql") for name in names)
    assert "twisted/plugins/lcc_plugins.py" in names
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "demo", "scripts"))]
    assert "twisted/__init__.py" not in names


def test_twistd_lists_every_role(installed: Path, tmp_path: Path) -> None:
    python = installed / "python"
    code = "import sys; from twisted.scripts.twistd import run; sys.argv = ['twistd', '--help']; run()"
    listed = {line.split()[0] for line in run(python, "-c", code, cwd=tmp_path).splitlines() if line.strip()}
    assert set(PROGRAMS) <= listed


@pytest.mark.parametrize("role", PROGRAMS)
def test_each_role_tells_its_options(installed: Path, tmp_path: Path, role: str) -> None:
    assert "--config" in run(installed / role, "--help", cwd=tmp_path)


@pytest.mark.long
def test_all_console_scripts_are_there(installed: Path, tmp_path: Path) -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    scripts = [
        line.split("=")[0].strip() for line in metadata["options.entry_points"]["console_scripts"].splitlines()
    ]
    for script in filter(None, scripts):
        assert run(installed / script, "--help", cwd=tmp_path), script


def test_it_sets_up_an_lcc(installed: Path, tmp_path: Path) -> None:
    """The SQL files and the sample configuration are found where the wheel puts them."""
    run(installed / "lcc-admin", "init", cwd=tmp_path)
    assert (tmp_path / "lcc.toml").exists()
    assert (tmp_path / "lcc-home" / "lcc.db").exists()
    assert run(installed / "lcc-admin", "provider", "list", "--json", cwd=tmp_path) == ""


def test_it_fetches_with_the_plugin_of_a_third_party(installed: Path, tmp_path: Path) -> None:
    """The one of doc/fetchers.md, first from a folder on the path, then as a package that pip installs."""
    add = (installed / "lcc-admin", "provider", "add", "--root", "finger://localhost/")
    run(installed / "lcc-admin", "init", cwd=tmp_path)
    refused = subprocess.run(add, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 2 and ", ".join(schemes_fetched(())) in " ".join(refused.stderr.split())
    write_plugin(tmp_path / "theirs")
    with finger_server() as port:
        fetch = (installed / "lcc-admin", "fetch", "--allow-private", "--json", f"finger://127.0.0.1:{port}/anne")
        folder = {"PYTHONPATH": str(tmp_path / "theirs")}
        assert json.loads(run(*fetch, cwd=tmp_path, extra=folder))["size"] == len(answer_for("anne"))

        built = tmp_path / "built"
        build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", built, tmp_path / "theirs")
        run(*build, cwd=tmp_path)
        (wheel,) = built.glob("lcc_finger-*.whl")
        pip = (sys.executable, "-m", "pip", "--python", installed / "python")
        run(*pip, "install", "--no-deps", "--no-index", "-q", wheel, cwd=tmp_path)
        try:
            told = json.loads(run(*fetch, cwd=tmp_path))
            run(*add, cwd=tmp_path)
        finally:
            run(*pip, "uninstall", "-y", "-q", "lcc-finger", cwd=tmp_path)
    assert (told["code"], told["mimetype"]) == (0, "text/plain")
    assert told["md5"] == hashlib.md5(answer_for("anne")).hexdigest()
    # Ours are still there.
    assert json.loads(run(installed / "lcc-admin", "provider", "list", "--json", cwd=tmp_path))["pid"] == 1
    assert "finger" not in run(installed / "python", "-c", SCHEMES, cwd=tmp_path)
    assert "http" in run(installed / "python", "-c", SCHEMES, cwd=tmp_path)


SCHEMES = "from lcc.fetchers.registry import schemes_fetched; print(schemes_fetched(()))"
