"""A consumer never takes half of an export for the whole, whoever is killed: real processes, real kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

ROUNDS = 30
EXPORTER = """
import sys
from lcc.export.consumers import Command
words = ["sh", "-c", sys.argv[1]]
command = Command(words, {})
sink = command.open()
sink.write(b"half of it\\n" * 1000)
command._input.flush()
print("half", flush=True)
sys.stdin.readline()
sink.write(b"the rest\\n")
command.close()
print("done", flush=True)
sys.stdin.readline()
"""
CONSUMER = "cat > got; echo > ended"
"""It says so when its input has ended."""


def begin(folder: Path, consumer: str = CONSUMER) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", EXPORTER, consumer],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"half\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.wait(60)
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def children(pid: int) -> dict[str, int]:
    """Its children: the consumer and the guardian."""
    found = {}
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")[0]
        found["consumer" if command == b"sh" else "guardian"] = int(each)
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def are_gone(there: dict[str, int]) -> bool:
    return all(map(is_gone, there.values()))


def wait_until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.005)


@pytest.mark.parametrize("victim", ["exporter", "its group", "guardian, then nobody", "consumer"])
def test_no_half_is_taken_for_the_whole(tmp_path: Path, victim: str) -> None:
    random = Random(victim)
    for number in range(ROUNDS if victim in ("exporter", "its group") else 5):
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
        wait_until(partial(are_gone, there))
        assert (folder / "ended").exists() is victim.startswith("guardian"), number


def test_all_of_its_group_is_killed_first(tmp_path: Path) -> None:
    """A pipeline, whose last part would see an end, too."""
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = begin(folder, "cat | cat | (cat > got; echo > ended)")
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
        wait_until(partial(are_gone, there))
        assert not (folder / "ended").exists()
