"""No role needs root; and whatever a role makes is for its user alone, whatever the umask it was started with."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes.system import BIN, OriginServer, System
from tests.support.waiting import wait_for

NOBODY = 65534
DROP = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
DROP += ["--bounding-set=-all", "--inh-caps=-all"]


class Unprivileged(System):
    """An LCC whose roles, and whose ``lcc-admin``, run as nobody, started with this umask."""

    umask = 0o022

    def start(self, *names: str) -> None:
        for name in names:
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [*unprivileged(), BIN / "twistd", "-n", "--pidfile=", "lcc", "--config", str(self.config)],
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    env=self.environment,
                    umask=self.umask,
                )

    def admin(self, *arguments: str) -> str:
        done = subprocess.run(
            [*unprivileged(), BIN / "lcc-admin", "--config", str(self.config), *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=120,
            umask=self.umask,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def unprivileged() -> list[str]:
    """What makes a command run as nobody; nothing, if this is no privileged user."""
    return DROP if os.geteuid() == 0 else []


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of nobody's, at a place that nobody can reach."""
    path = Path(tempfile.mkdtemp(prefix="lcc-nobody-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


def others_may(home: Path) -> list[str]:
    """What others than the user may read, write, or connect to."""
    found = []
    for path in (home, *home.rglob("*")):
        with suppress(FileNotFoundError):  # roles at work remove files
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                found.append(f"{path.relative_to(home.parent)} {stat.filemode(mode)}")
    return found


@pytest.mark.parametrize("umask", [0o000, pytest.param(0o077, marks=pytest.mark.long)], ids=["000", "077"])
def test_a_whole_lcc_as_nobody(folder: Path, origin: OriginServer, umask: int) -> None:
    Unprivileged.umask = umask
    sockets = ("qm", "qm-botm", "botm", "content", "cu", "cu-xml", "console", "uns")
    extra = '[manhole]\nlisten = "unix:{home}/console.sock"\n'
    system = Unprivileged(folder, origin, None, extra)
    # A socket whose mode nobody has named is for this user alone, too.
    text = system.config.read_text()
    system.config.write_text(text.replace(f'"tcp:{system.port}:interface=127.0.0.1"', '"unix:{home}/uns.sock"'))
    home = folder / "home"
    system.admin("console-password", "bob")
    try:
        pages = origin.root / "site"
        pages.mkdir()
        (pages / "a.html").write_text("<p>a</p>")
        site = system.add_site("site")
        system.start("all")
        wait_for("it listens", lambda: all((home / f"{name}.sock").exists() for name in sockets))
        element = f'<url c="{site.url}a.html" m="text/html"/>\n'
        command = [
            *unprivileged(),
            BIN / "lcccp",
            f"--uns=unix:{home}/uns.sock",
            f"--pid={site.pid}",
            "--no-end-mark",
        ]
        environment = dict(system.environment, LCC_PASSWORD=site.password)
        subprocess.run(command, input=element, text=True, env=environment, timeout=120, check=True)
        wait_for("it is cached", lambda: "a.html" in system.admin("urls"))
        status = Path(f"/proc/{system.processes['all'].pid}/status").read_text()
        assert others_may(home) == []
        if os.geteuid() == 0:
            assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}" in status and "CapEff:\t0000000000000000" in status
        assert "running as root" not in system.log("all")
        system.stop("all")
        assert others_may(home) == []
    finally:
        system.stop_all()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root, for once")
def test_a_role_that_runs_as_root_says_so(tmp_path: Path) -> None:
    system = System(tmp_path, None, None)
    system.start("bot")
    try:
        wait_for("its reactor runs", lambda: "is unreachable" in system.log("bot"))
        assert "bot is running as root" in system.log("bot")
        system.stop("bot")
    finally:
        system.stop_all()
