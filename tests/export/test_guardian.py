"""A consumer never takes half of an export for the whole, whoever is killed: real processes, real kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.support.switches import LONG
from tests.support.waiting import wait_for

ROUNDS, FEW = (30, 5) if LONG else (5, 2)
EXPORTER = """
import sys
from lcc.export.consumers import Command
command = Command(sys.argv[1:], {})
sink = command.open()
files = [open("/dev/null") for _ in range(900)]  # it takes a while until all are closed
sink.write(b"half of it\\n" * 1000)
command._input.flush()
print("half", flush=True)
sys.stdin.readline()
sink.write(b"the rest\\n")
command.close()
print("done", flush=True)
sys.stdin.readline()
"""
READER = """
import os
got = os.open("got", os.O_WRONLY | os.O_CREAT)
while data := os.read(0, 65536):
    os.write(got, data)
os.mkdir("ended")
"""
CONSUMER = (sys.executable, "-S", "-c", READER)
"""It says so at once when its input has ended."""


def begin(folder: Path, consumer: tuple[str, ...] = CONSUMER) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        # Whatever the tests run under: nohup and shells in the background ignore some.
        ["env", "--default-signal=INT,HUP", sys.executable, "-c", EXPORTER, *consumer],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"half\n"
    wait_for("the consumer gets something", lambda: (folder / "got").exists(), every_seconds=0.005)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.wait(60)
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def children(pid: int) -> dict[str, int]:
    """Its children: the consumer and the guardian."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    found = {}
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        is_fork = Path(f"/proc/{each}/cmdline").read_bytes() == own
        found["guardian" if is_fork else "consumer"] = int(each)
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def are_gone(there: dict[str, int]) -> bool:
    return all(map(is_gone, there.values()))


@pytest.mark.parametrize("victim", ["exporter", "its group", "guardian, then nobody", "consumer"])
def test_no_half_is_taken_for_the_whole(tmp_path: Path, victim: str) -> None:
    random = Random(victim)
    for number in range(ROUNDS if victim in ("exporter", "its group") else FEW):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = begin(folder)
        there = children(process.pid)
        assert there.keys() == {"consumer", "guardian"}
        time.sleep(random.choice((0, 0, 0.001, 0.01)))
        if victim == "exporter":
            process.kill()
        elif victim == "its group":
            os.killpg(process.pid, signal.SIGKILL)
        elif victim == "consumer":
            os.killpg(there["consumer"], signal.SIGKILL)
        else:
            os.kill(there["guardian"], signal.SIGKILL)
        if victim.startswith("guardian"):  # all is well without it
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"\n\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"done\n"
            assert (folder / "got").read_bytes().endswith(b"the rest\n") and (folder / "ended").exists()
        elif victim == "consumer":
            process.kill()
        end(process)
        wait_for("all are gone", partial(are_gone, there), every_seconds=0.005)
        assert (folder / "ended").exists() is victim.startswith("guardian"), number


def test_all_of_its_group_is_killed_first(tmp_path: Path) -> None:
    """A pipeline, whose last part would see an end, too."""
    for number in range(FEW):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = begin(folder, ("sh", "-c", "cat | cat | (cat > got; echo > ended)"))
        process.kill()
        end(process)
        time.sleep(0.05)
        assert not (folder / "ended").exists()


def test_an_export_that_goes_well(tmp_path: Path) -> None:
    process = begin(tmp_path)
    there = children(process.pid)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"done\n"
    assert (tmp_path / "got").read_bytes() == b"half of it\n" * 1000 + b"the rest\n"
    assert (tmp_path / "ended").exists() and are_gone(there)
    assert not children(process.pid)  # and none is left as a zombie
    process.kill()
    end(process)


def test_who_asks_it_to_end_in_order(tmp_path: Path) -> None:
    """SIGTERM and Ctrl-C, as a terminal and systemd send them: to all of them at once."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        folder = tmp_path / str(int(number))
        folder.mkdir()
        process = begin(folder)
        there = children(process.pid)
        for pid in (there["guardian"], process.pid):
            os.kill(pid, number)
        end(process)
        wait_for("all are gone", partial(are_gone, there), every_seconds=0.005)
        assert not (folder / "ended").exists()


BEFORE_IT_RUNS = """
import os, signal
from lcc.export import guardian
guardian._guard = lambda control, pipe: signal.pause()
reading, writing = os.pipe()
pid = guardian.Guardian(writing)._pid
print(os.getpgid(pid) == pid)
os.kill(pid, signal.SIGKILL)
"""


def test_a_kill_of_the_group_never_reaches_the_guardian() -> None:
    """Not even before it was run for the first time."""
    done = subprocess.run([sys.executable, "-c", BEFORE_IT_RUNS], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
