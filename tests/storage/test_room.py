"""Whether a folder has room, on a disk that says what the test wants."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.storage.disk.file_system import Disk, Space
from lcc.storage.disk.free_space import Room, fault_text


class ToldDisk(Disk):
    """A disk whose space is told by the test, and which fails as it is told.

    :ivar space_left: what :meth:`space` says.
    :ivar fault: the error of each write; 0: none.
    """

    def __init__(self) -> None:
        self.space_left = Space(1000, 10, True)
        self.fault = 0

    def space(self, folder: Any) -> Space:
        return self.space_left

    def write(self, file: Any, data: bytes) -> None:
        if self.fault:
            raise OSError(self.fault, os.strerror(self.fault))
        super().write(file, data)


def test_the_reserve_is_kept_and_what_comes_and_goes_at_its_edge_is_not_believed(tmp_path: Path) -> None:
    disk = ToldDisk()
    room = Room(tmp_path, 1000, "[x] reserve", disk)
    assert room.missing() == ""
    for free, full in (
        (999, True),
        (1000, True),
        (1099, True),
        (1100, False),
        (1000, False),
        (0, True),
        (2000, False),
    ):
        disk.space_left = attrs.evolve(disk.space_left, free_bytes=free)
        assert bool(room.missing()) is full, free
    disk.space_left = attrs.evolve(disk.space_left, free_bytes=10)
    assert room.missing() == (
        f"{tmp_path}: 10 bytes are free on its disk, and 1,000 are kept free ([x] reserve): make room on that disk"
    )


def test_a_disk_without_inodes_or_read_only_has_no_room(tmp_path: Path) -> None:
    disk = ToldDisk()
    room = Room(tmp_path, 0, "[x] reserve", disk)
    disk.space_left = Space(1 << 40, 0, True)
    assert "inodes" in room.missing()
    disk.space_left = Space(1 << 40, None, True)
    assert room.missing() == ""
    disk.space_left = Space(1 << 40, 5, False)
    assert "Read-only file system: see the system log" in room.missing()


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_it_is_tried(tmp_path: Path, fault: int) -> None:
    disk = ToldDisk()
    room = Room(tmp_path, 0, "[x] reserve", disk)
    probe = tmp_path / "probe"
    disk.fault = fault
    assert room.missing() == ""
    assert room.missing(probe) == fault_text(tmp_path, OSError(fault, os.strerror(fault)))
    assert not probe.exists()
    disk.fault = 0
    assert room.missing(probe) == "" and not probe.exists()


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert "No such file" in Room(tmp_path / "gone", 0, "[x] reserve").missing()


def test_the_real_disk_says_what_it_has(tmp_path: Path) -> None:
    space, found = Disk().space(tmp_path), os.statvfs(tmp_path)
    assert space.writable and abs(space.free_bytes - found.f_bavail * found.f_frsize) < 1 << 30
