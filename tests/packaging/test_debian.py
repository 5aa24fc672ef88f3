"""The Debian package: what it is made from, and, in a root of its own, two versions of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.ports import free_port
from tests.support.waiting import wait_for

DEBIAN = ROOT / "etc" / "debian"
SESSION = Path(__file__).parent / "debian" / "session.sh"
NEEDED = "python3,systemd-standalone-sysusers,systemd-standalone-tmpfiles,tzdata,iproute2,libstdc++6,zlib1g"
"""What the package depends on, and what moves it into its namespaces."""


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_its_scripts_are_of_the_plainest_shell(name: str) -> None:
    done = subprocess.run(["sh", "-n", DEBIAN / f"lcc.{name}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "#DEBHELPER#" in (DEBIAN / f"lcc.{name}").read_text(encoding="utf-8")


def test_its_units_find_their_programs() -> None:
    """All of etc/ are packaged; the place that they name is the one that is replaced."""
    for path in [*(ROOT / "etc").glob("*.service")]:
        assert re.search(r"^ExecStart=/opt/lcc/bin/", path.read_text(encoding="utf-8"), re.MULTILINE), path
    rules = (DEBIAN / "rules").read_text(encoding="utf-8")
    assert "etc/*.service etc/*.socket" in rules and "s|/opt/lcc/bin/|$(PLACE)/bin/|" in rules
    sample = (ROOT / "etc" / "lcc.toml").read_text(encoding="utf-8")
    assert len(re.findall(r"^home = ", sample, re.MULTILINE)) == 1


@pytest.mark.parametrize("target", ["wheel", "deb"])
def test_who_builds_needs_no_tools_of_tests(target: str) -> None:
    command = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "setuptools" in done.stdout and "--editable" not in done.stdout and "pywb" not in done.stdout


def test_logcheck_is_quiet_about_a_start(tmp_path: Path) -> None:
    (tmp_path / "lcc.toml").write_text(f'home = "home"\n[uns]\nlisten = "tcp:{free_port()}:interface=127.0.0.1"\n')
    log = tmp_path / "log"
    with log.open("wb") as file:
        program = Path(sys.executable).parent / "lcc"
        process = subprocess.Popen([program, "--config", "lcc.toml"], cwd=tmp_path, stdout=file, stderr=file)
    try:

        def connected() -> bool:
            assert process.poll() is None, log.read_text()
            return "uns uns has connected" in log.read_text()

        wait_for("the roles have found each other", connected)
    finally:
        process.terminate()
        process.wait(60)
    lines = log.read_text().splitlines()
    # The roles of the package have a user of their own.
    lines = [line for line in lines if "running as root" not in line and "Workers run as nobody" not in line]
    assert len(lines) > 20
    assert reported(lines) == []
    bad = "2026-11-24T12:53:14+0000 [lcc.services.common#error] Cannot write to the database"
    assert len(reported([bad])) == 1


def reported(lines: list[str]) -> list[str]:
    """What logcheck would report."""
    text = "".join(f"Nov 24 12:00:00 host.example lcc[71]: {line}\n" for line in lines)
    rules = DEBIAN / "lcc.logcheck.ignore.server"
    done = subprocess.run(["grep", "-E", "-v", "-f", rules], input=text, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def version_before(folder: Path) -> Path:
    """The tree before the newest change of the tables; where nobody knows it, today's."""
    git = ["git", "-C", str(ROOT)]
    log = [*git, "log", "-1", "--format=%H", "--diff-filter=A", "--", "lcc/storage/sql"]
    newest = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    archive = subprocess.run([*git, "archive", f"{newest}^"], capture_output=True, check=False)
    if not newest or archive.returncode:
        return ROOT
    subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
    return folder


@pytest.mark.long
def test_a_life_of_the_package(tmp_path: Path) -> None:
    """Built, looked over, installed, started, upgraded with work queued, removed, purged."""
    if os.geteuid() != 0:
        pytest.skip("debootstrap and chroot need root")
    for program in ("debootstrap", "lintian", "dh", "unshare"):
        assert shutil.which(program), f"there is no {program}: scripts/system-packages deb"
    debs = tmp_path / "debs"
    (tmp_path / "before").mkdir()
    for name, version, tree in (
        ("before", "0.1.0-1", version_before(tmp_path / "before")),
        ("after", "0.1.0-2", ROOT),
    ):
        subprocess.run([ROOT / "scripts" / "make-deb", version, tree, debs], check=True)
        (debs / f"lcc_{version}_{architecture()}.deb").rename(debs / f"{name}.deb")
    looked = subprocess.run(
        ["lintian", "--fail-on", "error", debs / "after.deb"], capture_output=True, text=True, check=False
    )
    assert looked.returncode == 0, looked.stdout + looked.stderr
    root = tmp_path / "root"
    suite = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert suite is not None
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={NEEDED}", suite[1], root], check=True)
    live(debs, root)


def live(debs: Path, root: Path) -> None:
    """The session, in a root of its own."""
    shutil.copytree(debs, root / "debs")
    shutil.copy(SESSION, root / "session.sh")
    namespaces = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--propagation=private"]
    inside = f"mount -t proc proc {root}/proc && exec chroot {root} /bin/bash /session.sh"
    done = subprocess.run([*namespaces, "sh", "-c", inside], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith("all is well\n"), done.stdout + done.stderr[-8000:]


def architecture() -> str:
    """As dpkg calls it."""
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
