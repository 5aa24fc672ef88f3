"""``lcc-admin init``, ``check``, ``config``; what goes wrong is said in a line and by the exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from lcc.admin.cli import main
from lcc.admin.context import Admin, DatabaseFailed
from lcc.admin.setup.configuration import SAMPLES, read_sample
from lcc.config import Config, parse_config
from lcc.errors import StoreFull
from tests.support.admin import Lcc

ROOT = Path(__file__).resolve().parents[2]


def test_init_makes_what_is_missing_and_changes_nothing(tmp_path: Path) -> None:
    config = tmp_path / "lcc.toml"
    for _ in range(2):
        result = CliRunner().invoke(main, ["--config", str(config), "init"])
        assert result.exit_code == 0, result.output
    assert config.read_text() == read_sample("lcc.toml")
    assert (tmp_path / "lcc-home").stat().st_mode & 0o777 == 0o700
    config.write_text('home = "elsewhere"\n')
    assert CliRunner().invoke(main, ["--config", str(config), "init"]).exit_code == 0
    assert config.read_text() == 'home = "elsewhere"\n'
    assert (tmp_path / "elsewhere" / "lcc.db").exists()


def test_init_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["init"]).exit_code == 0
    assert (tmp_path / "lcc.toml").exists()
    # From now on it is found without being named.
    (tmp_path / "lcc.toml").write_text("nonsense = 1\n")
    assert "nonsense" in CliRunner().invoke(main, ["urls"]).output


def test_the_sample_is_the_defaults(tmp_path: Path) -> None:
    assert parse_config(read_sample("lcc.toml"), tmp_path) == parse_config("", tmp_path)


def test_what_the_sample_comments_out_is_valid(tmp_path: Path) -> None:
    lines = [line.removeprefix("# ") for line in read_sample("lcc.toml").splitlines()]
    settings = [line for line in lines if line.strip().startswith(("[", '"')) or " = " in line]
    seen: set[str] = set()
    # Alternatives for one setting: the first of each section counts.
    kept = []
    for line in settings:
        name = line.partition(" = ")[0]
        seen = set() if line.startswith("[") else seen
        if name not in seen:
            kept.append(line)
        seen.add(name)
    assert parse_config("\n".join(kept), tmp_path).bot.concurrency == 32


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_printed_and_lie_in_etc(name: str) -> None:
    printed = CliRunner().invoke(main, ["config", "--sample", name]).stdout
    assert printed == (ROOT / "etc" / name).read_text() == read_sample(name)


def test_the_defaults_are_a_configuration(tmp_path: Path) -> None:
    printed = CliRunner().invoke(main, ["config", "--defaults"]).stdout
    tomllib.loads(printed)
    assert parse_config(printed, tmp_path) == parse_config("", tmp_path) == Config(home=tmp_path / "lcc-home")


def test_check_finds_no_fault(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--root", "http://www.example.org/", "--hours", "0-8", "--timezone", "UTC")
    said = lcc.admin("check").stdout
    assert "no errors found" in said and "bot.contact is empty" in said
    with lcc.config_path.open("a") as file:
        file.write('\n[bot]\ncontact = "webmaster@example.org"\n')
    said = lcc.admin("check").stdout
    assert "contact" not in said and "deadline" not in said
    with lcc.config_path.open("a") as file:
        file.write("[qm]\nlease = 130\n")
    assert "115 seconds for a fetch, less than bot.deadline (120)" in lcc.admin("check").stdout


def test_check_tells_of_a_disk_that_is_too_full(lcc: Lcc) -> None:
    with lcc.config_path.open("a") as file:
        file.write(f"[uns]\nspool_reserve = {10**17}\n[botm]\ncontent_reserve = {10**17}\n")
    said = lcc.admin("check").stdout
    assert "a UNS here tells providers to try again later" in said and "(uns.spool_reserve)" in said
    assert "a BOT-M here gets no orders" in said and "(botm.content_reserve): make room on that disk" in said


def test_a_database_that_is_full_needs_room_first(lcc: Lcc) -> None:
    with pytest.raises(DatabaseFailed) as caught, Admin(lcc.config_path).database():
        raise StoreFull("lcc.db: make room on its disk")
    assert str(caught.value) == "cannot write to the database: lcc.db: make room on its disk"
    assert caught.value.then == "do so, then try again"


def test_only_init_makes_an_lcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    add = ["provider", "add", "--root", "http://www.example.org/"]
    for code, command in ((4, add), (4, ["provider", "list"]), (4, ["urls"]), (4, ["queue"]), (1, ["check"])):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == code, command
        assert "no LCC here" in result.output and "--config" in result.output
    assert list(tmp_path.iterdir()) == []
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    assert "lcc-admin init" in lcc.admin(*add, code=4).output
    assert [path.name for path in tmp_path.iterdir()] == ["lcc.toml"]
    lcc.admin("init")
    lcc.admin(*add)


def test_check_makes_nothing(tmp_path: Path) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    lcc.admin("check")
    assert [path.name for path in tmp_path.iterdir()] == ["lcc.toml"]


FAULTY = f"""
home = "lcc.toml"
mimetypes = ["text", "text/html"]
timezone = "Europe/Nowhere"
surprise = 1
[database]
url = "mysql://nobody@127.0.0.1:1/lcc"
connect_timeout = -1
[uns]
listen = "tcp:many"
[qm]
listen = "unix:/{"x" * 200}"
[botm]
machine = 0
[bot]
extra_roots = "/nowhere.pem"
conect = "x"
"""
FAULTS = (
    "surprise",
    "connect_timeout",
    "botm.machine",
    "did you mean 'connect'",
    "mimetypes: 'text'",
    "Europe/Nowhere",
    "is not a folder",
    "uns.listen",
    "qm.listen: the socket path is longer",
    "/nowhere.pem",
    "database.url",
)


def test_check_reports_every_fault_at_once(tmp_path: Path) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    lcc.config_path.write_text(FAULTY)
    output = lcc.admin("check", code=1).output
    assert [fault for fault in FAULTS if fault not in output] == []
    assert len(output.splitlines()) == len(FAULTS)


def test_check_tells_what_the_spider_lacks(lcc: Lcc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.spider.stores.warc.find_spec", lambda name: None)
    with lcc.config_path.open("a") as file:
        file.write('[spider]\nlisten = "tcp:9350:interface=127.0.0.1"\nstores = ["warc"]\n')
    notes = lcc.admin("check").stdout
    token = lcc.config_path.parent / "home" / "spider-http-token"
    assert f"spider.listen_token_file: there is no {token}" in notes
    assert "the store warc needs warcio and surt, not installed here" in notes
    token.write_text("0123456789abcdef\n")
    assert "listen_token_file" not in lcc.admin("check").stdout


MORE_FAULTY = """
[database]
url = "sqlite:"
[uns]
listen = "tcp:99999"
spool = "lcc.toml"
[botm]
content = "{file}/content"
"""
MORE_FAULTS = ("database.url", "uns.listen", "uns.spool", "botm.content")


def test_check_looks_at_what_is_named(tmp_path: Path) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    lcc.config_path.write_text('home = "."\n' + MORE_FAULTY.replace("{file}", str(lcc.config_path)))
    tmp_path.chmod(0o700)
    lines = lcc.admin("check", code=1).output.splitlines()
    assert [fault for fault in MORE_FAULTS if not any(fault in line for line in lines)] == []
    assert len(lines) == len(MORE_FAULTS)
    lcc.config_path.write_text(f'home = "."\n[database]\nurl = "sqlite:{lcc.config_path}/lcc.db"\n')
    assert "is not a folder" in lcc.admin("check", code=1).output


@pytest.mark.parametrize("text", ["home = ", "\udcff", None])
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    config = tmp_path / "lcc.toml"
    if text is not None:
        config.write_bytes(text.encode("utf-8", "surrogateescape"))
    for command in (["check"], ["urls"], ["provider", "list"]):
        result = CliRunner().invoke(main, ["--config", str(config), *command])
        assert result.exit_code == 1
        assert str(config) in result.output


def test_a_database_that_cannot_be_reached(tmp_path: Path) -> None:
    lcc = Lcc(tmp_path, "mysql://nobody:secret@127.0.0.1:1/lcc")
    for command in (["init"], ["urls"], ["queue"], ["provider", "list"]):
        output = lcc.admin(*command, code=4).output
        assert "database" in output
        assert "secret" not in output


def test_as_a_process(lcc: Lcc) -> None:
    """The real script: no traceback, also when nobody reads to the end."""
    command = [str(Path(sys.executable).parent / "lcc-admin"), "--config", str(lcc.config_path)]
    done = subprocess.run([*command, "provider", "show", "1"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: there is no provider 1\nNext: ")
    lcc.put([{"key": key} for key in range(2000)])
    read, write = os.pipe()
    with subprocess.Popen([*command, "urls"], stdout=write, stderr=subprocess.PIPE, text=True) as process:
        os.close(write)
        os.read(read, 10)
        os.close(read)
        assert process.stderr is not None
        assert process.stderr.read() == ""
