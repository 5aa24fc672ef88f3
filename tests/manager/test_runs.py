"""Which runs of a manager are known to be over."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from lcc.protocols.jobs import RUNS_MAX
from lcc.roles.manager.remains import WorkersLock, enter_run
from lcc.storage.disk.file_system import DISK, Disk


def test_runs_of_one_place_are_over_when_the_next_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    assert enter_run(path, "boot 1:2", "a", DISK) == ()
    assert enter_run(path, "boot 1:2", "b", DISK) == ("a",)
    assert enter_run(path, "boot 1:2", "c", DISK) == ("a", "b")
    for number in range(RUNS_MAX):
        over = enter_run(path, "boot 1:2", f"r{number}", DISK)
    assert len(over) == RUNS_MAX and over[-1] == f"r{RUNS_MAX - 2}"


def test_those_of_another_place_are_not(tmp_path: Path) -> None:
    """The machine was started again, or this is a copy of the home: the other may go on."""
    path = tmp_path / "runs"
    enter_run(path, "boot 1:2", "a", DISK)
    assert enter_run(path, "boot 1:3", "b", DISK) == ()
    assert enter_run(path, "boot 1:3", "c", DISK) == ("b",)
    assert enter_run(path, "", "d", DISK) == () == enter_run(path, "", "e", DISK)


def test_a_file_that_cannot_be_used_is_no_obstacle(tmp_path: Path, logged: list[Any]) -> None:
    class Full(Disk):
        def create(self, path: Any, *more: Any) -> Any:
            raise OSError(errno.ENOSPC, "no space left")

    path = tmp_path / "runs"
    for text in (b"", b"\xff\n\xff\n"):
        path.write_bytes(text)
        assert enter_run(path, "boot", "a", DISK) == ()
    assert enter_run(path, "boot", "b", Full()) == ("a",)
    assert any("Cannot note that this run begins" in str(event.get("log_format")) for event in logged)
    assert enter_run(path, "boot", "c", DISK) == ("a",)


def test_a_copy_of_a_home_has_another_lock(tmp_path: Path) -> None:
    one, other = WorkersLock(tmp_path / "a"), WorkersLock(tmp_path / "b")
    assert one.acquire() and other.acquire()
    assert one.file != other.file
    one.release()
    assert one.acquire()
    again = WorkersLock(tmp_path / "a")
    assert not again.acquire() and again.file == one.file
    for each in (one, other, again):
        each.release()
