"""A role that is forked is a process like one that is started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.processes.starting import ForkServer, Mixed, Process, plainly
from tests.support.processes.system import BIN
from tests.support.waiting import wait_for

TWISTD = str(BIN / "twistd")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """What it has forked ends with it."""
    with ForkServer() as server:
        yield server
        left = start_robot(server, tmp_path_factory.mktemp("left"))
        handle = os.pidfd_open(left.pid)
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(handle, 0)
    os.close(handle)


def start_robot(server: ForkServer, folder: Path) -> Process:
    """It waits for a BOT-M that is not there."""
    config = folder / "lcc.toml"
    config.write_text(f'home = "home"\n[bot]\nname = "bot"\nconnect = "unix:{folder}/nobody.sock"\n')
    return server([TWISTD, "-n", "lcc-bot", "--config", str(config)], folder, folder / "log", os.environ)


@pytest.fixture
def robot(server: ForkServer, tmp_path: Path) -> Iterator[Process]:
    process = start_robot(server, tmp_path)
    try:
        # Its log begins before its reactor does, which ends it in order.
        wait_for("it runs", lambda: "is unreachable" in log(tmp_path))
        yield process
    finally:
        process.kill()
        process.wait()


def opened(pid: int) -> set[Path]:
    return {each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir()}


def log(folder: Path) -> str:
    path = folder / "log"
    return path.read_text() if path.exists() else ""


def test_it_has_its_folder_its_environment_and_nothing_of_the_server(robot: Process, tmp_path: Path) -> None:
    proc = Path(f"/proc/{robot.pid}")
    assert (proc / "cwd").readlink() == tmp_path
    files = [(proc / "fd" / str(number)).readlink() for number in range(3)]
    assert files == [Path(os.devnull), tmp_path / "log", tmp_path / "log"]
    parent = int((proc / "stat").read_text().rpartition(")")[2].split()[1])
    of_server = opened(parent)
    # Its two pipes, and where it reports errors.  It has no thread that a fork would lose.
    assert len(of_server) <= 3 and not opened(robot.pid) & {
        each for each in of_server if str(each).startswith("pipe:")
    }
    assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1


def test_it_ends_in_order(robot: Process, tmp_path: Path) -> None:
    assert robot.poll() is None
    robot.terminate()
    assert robot.wait(60) == -signal.SIGTERM
    assert "Server Shut Down" in log(tmp_path) and "Traceback" not in log(tmp_path)


def test_it_is_killed(robot: Process) -> None:
    robot.kill()
    assert robot.wait() == robot.wait() == robot.poll() == -signal.SIGKILL
    robot.send_signal(signal.SIGTERM)  # to nobody


def test_it_stands_still_and_goes_on(robot: Process) -> None:
    robot.send_signal(signal.SIGSTOP)
    robot.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        robot.wait(0.1)
    robot.send_signal(signal.SIGCONT)
    assert robot.wait(60) == -signal.SIGTERM


def test_a_command_that_cannot_run_fails_as_one_that_was_started(server: ForkServer, tmp_path: Path) -> None:
    said = []
    for name, how in (("forked", server), ("plain", plainly)):
        path = tmp_path / name
        process = how([TWISTD, "-n", "lcc-nothing"], tmp_path, path, os.environ)
        said.append((process.wait(60), path.read_text()))
    assert said[0] == said[1] and said[0][0] == 1 and "lcc-nothing" in said[0][1]


def test_both_ways_are_used(server: ForkServer, tmp_path: Path) -> None:
    how = Mixed(server, Random(1), 0.5)
    processes = [how([TWISTD, "--version"], tmp_path, tmp_path / "log", os.environ) for _ in range(4)]
    for process in processes:
        process.wait(60)
    assert how.counts.keys() == {"plain", "forked"} and how.counts.total() == 4
