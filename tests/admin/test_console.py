"""The console scripts: roles in the foreground, and plain words when one cannot start."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from lcc.admin.help.programs import ROLES as PROGRAM_MODULES

BIN = Path(sys.executable).parent
RUNNING = {
    "lcc": "Queue manager run",
    "lcc-uns": "is unreachable",
    "lcc-qm": "Queue manager run",
    "lcc-botm": "is unreachable",
    "lcc-bot": "is unreachable",
}
"""Role -> what it logs once its reactor runs, alone as it is."""
ROLES = tuple(RUNNING)
PATIENCE_SECONDS = 60.0


def start(role: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [BIN / role, "--config", "lcc.toml"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """The role's log up to a line with this text."""
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} was not in the log:\n{''.join(lines)}")


def configure(folder: Path, uns_port: int = 0) -> None:
    (folder / "lcc.toml").write_text(f'home = "new/home"\n[uns]\nlisten = "tcp:{uns_port}:interface=127.0.0.1"\n')


@pytest.mark.parametrize("role", ROLES)
def test_a_role_starts_in_a_new_home_and_stops_when_told(role: str, tmp_path: Path) -> None:
    configure(tmp_path)
    with start(role, tmp_path) as process:
        try:
            read_until(process, RUNNING[role])
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert "Server Shut Down" in output
    assert "Traceback" not in output
    assert process.returncode == -signal.SIGTERM
    assert not (tmp_path / "twistd.pid").exists()
    if role != "lcc-bot":  # which keeps nothing
        assert (tmp_path / "new" / "home").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("role", ROLES)
def test_a_bad_configuration_is_told_in_lines(role: str, tmp_path: Path) -> None:
    (tmp_path / "lcc.toml").write_text("surprise = 1\n[uns]\nlisten = 2\n")
    with start(role, tmp_path) as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert output.startswith(f"{role}: ")
    surprise, listen, then = output.splitlines()
    assert "surprise" in surprise and "uns.listen" in listen and then == "Next: lcc-admin check"


@pytest.mark.parametrize("role", ["lcc", "lcc-uns"])
def test_what_is_no_option(role: str, tmp_path: Path) -> None:
    done = subprocess.run([BIN / role, "--foo"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"{role}: option --foo not recognized", f"Next: {role} --help"]


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        configure(tmp_path, taken.getsockname()[1])
        with start("lcc-uns", tmp_path) as process:
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    what, step = output.splitlines()[-2:]
    assert what.startswith("lcc-uns: ") and "in use" in what
    assert step.startswith("lcc-uns: next: ") and "ss -ltnp" in step
    assert "Traceback" not in output


def test_a_port_that_there_cannot_be(tmp_path: Path) -> None:
    configure(tmp_path, 99999)
    with start("lcc-uns", tmp_path) as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "port must be 0-65535" in output.splitlines()[-1]
    assert "Traceback" not in output


def test_a_second_one_in_the_same_home_is_refused(tmp_path: Path) -> None:
    configure(tmp_path)
    with start("lcc-uns", tmp_path) as first:
        try:
            read_until(first, "starting on")
            with start("lcc-uns", tmp_path) as second:
                output, _ = second.communicate(timeout=PATIENCE_SECONDS)
        finally:
            first.kill()
    assert second.returncode == 1
    assert "another process of this role" in output.splitlines()[-1]
    assert "Traceback" not in output


@pytest.mark.parametrize("role", ["lcc", "lcc-qm"])
def test_help_says_what_a_role_is(role: str) -> None:
    def said(*command: str | Path) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0 and not done.stderr
        return " ".join(done.stdout.split())

    text = said(BIN / role, "--help")
    assert text.startswith(f"Usage: {role} [options] ") and "twistd [options]" not in text
    under_twistd = said(sys.executable, BIN / "twistd", role, "--help")
    assert under_twistd.startswith(f"Usage: twistd [options] {role} [options] ")
    for each in (text, under_twistd):
        assert " of an LCC" in each and "--config" in each and "doc/operating.md" in each
        assert "lcc-admin config --defaults" in each and "Exit codes: 1 start failed" in each
    assert said(BIN / role, "--version") == f"{role}, version {version('lcc')}"


def test_each_role_says_what_it_is() -> None:
    for name, module in PROGRAM_MODULES.items():
        options = import_module(f"lcc.services.{module}").Options
        assert " of an LCC" in options.summary and name in " ".join(options.notes(name))


def twistd(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, BIN / "twistd", *options, "lcc-uns", "--config", "lcc.toml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("how", ["foreground", "log file", "daemon"])
def test_twistd_says_in_a_line_why_a_role_does_not_start(tmp_path: Path, how: str) -> None:
    """Where its log goes to a file, and it is not a daemon, on the terminal, too."""
    options = {"foreground": "-n", "log file": "-n --logfile=log", "daemon": "--logfile=log --pidfile=pid"}[how]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        configure(tmp_path, taken.getsockname()[1])
        done = twistd(tmp_path, *options.split())
    assert done.returncode == 1
    log = done.stdout if how == "foreground" else (tmp_path / "log").read_text()
    if how == "daemon":  # the one that has started it does not wait for its last words
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "cannot start" not in log and time.monotonic() < deadline:
            time.sleep(0.05)
            log = (tmp_path / "log").read_text()
    last = log.splitlines()[-1]
    assert (
        "lcc-uns cannot start: Couldn't listen on 127.0.0.1:" in last
        and "next: find the process that uses it" in last
    )
    assert "Traceback" not in log + done.stdout + done.stderr
    if how == "log file":
        what, step = done.stderr.splitlines()
        assert what.startswith("lcc-uns: Couldn't listen") and step.startswith("lcc-uns: next: ")


def test_twistd_says_in_a_line_that_the_home_is_locked(tmp_path: Path) -> None:
    configure(tmp_path)
    with start("lcc-uns", tmp_path) as first:
        try:
            read_until(first, "starting on")
            done = twistd(tmp_path, "-n")
        finally:
            first.kill()
    assert done.returncode == 1
    assert f"is running in this folder (process {first.pid})" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stdout + done.stderr


def test_a_home_that_cannot_be_written_to_is_told_in_lines(tmp_path: Path) -> None:
    configure(tmp_path)
    (tmp_path / "new").write_text("in the way")
    with start("lcc-uns", tmp_path) as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1 and "Traceback" not in output
    what, step = output.splitlines()[-2:]
    assert what.startswith(f"lcc-uns: {tmp_path}/new") and step.startswith("lcc-uns: next: check that")
    done = twistd(tmp_path, "-n")
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    assert f"lcc-uns cannot start: {tmp_path}/new" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "command",
    ["lcc-admin config --defaults", "lcc-admin --version", "file2url test_console.py", "lcccp --help"],
)
def test_output_that_cannot_be_written_is_told_in_a_line(command: str) -> None:
    program, *arguments = command.split()
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [BIN / program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parent
        )
    assert result.returncode == 1
    what, *step = result.stderr.splitlines()
    assert "No space left on device" in what
    assert not step or (len(step) == 1 and "next:" in step[0].lower())
