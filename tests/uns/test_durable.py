"""The durable counter and durable writing: nothing is given twice, whatever crashes when."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lcc.storage.disk.durable import DurableCounter, make_folder_durably, write_durably
from lcc.storage.disk.file_system import Disk


class CrashingDisk(Disk):
    """A disk on which the n-th operation, and all after it, do not happen."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def _operation(self) -> None:
        if self.left <= 0:
            raise OSError("crash")
        self.left -= 1

    def create(self, path):
        self._operation()
        return super().create(path)

    def write(self, file, data):
        self._operation()
        super().write(file, data)

    def sync_file(self, path):
        self._operation()
        super().sync_file(path)

    def rename(self, source, target):
        self._operation()
        super().rename(source, target)

    def sync_folder(self, path):
        self._operation()
        super().sync_folder(path)


def test_numbers_grow_by_one_and_a_restart_skips_the_rest_of_the_block(tmp_path: Path) -> None:
    counter = DurableCounter(tmp_path / "numbers", 10)
    assert [counter.next() for _ in range(12)] == list(range(1, 13))
    assert counter.reserved_upto == 21
    assert DurableCounter(tmp_path / "numbers", 10).next() == 21


@pytest.mark.parametrize("operations", range(12))
def test_a_crash_at_any_operation_gives_no_number_twice(tmp_path: Path, operations: int) -> None:
    given = []
    counter = DurableCounter(tmp_path / "numbers", 3, CrashingDisk(operations))
    try:
        for _ in range(8):
            given.append(counter.next())
    except OSError:
        pass
    again = DurableCounter(tmp_path / "numbers", 3)
    given += [again.next() for _ in range(8)]
    assert len(set(given)) == len(given)
    assert given == sorted(given)


def test_skip_to_leaves_out_numbers_for_good(tmp_path: Path) -> None:
    counter = DurableCounter(tmp_path / "numbers", 10)
    counter.next()
    counter.skip_to(5)
    assert counter.next() == 5
    counter.skip_to(3)
    assert counter.next() == 6
    counter.skip_to(1000)
    assert counter.next() == 1000
    assert DurableCounter(tmp_path / "numbers", 10).next() >= 1001


def test_a_damaged_counter_is_not_started_again(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_text("")
    with pytest.raises(ValueError, match="not the next free number"):
        DurableCounter(tmp_path / "numbers", 10)


@pytest.mark.parametrize("operations", range(6))
def test_a_durable_write_is_all_or_nothing(tmp_path: Path, operations: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    try:
        write_durably(path, b"new content", CrashingDisk(operations))
    except OSError:
        assert path.read_bytes() in (b"old", b"new content")
    else:
        assert path.read_bytes() == b"new content"
    assert operations == 5 or path.read_bytes() == (b"new content" if operations >= 4 else b"old")


class SyncingDisk(Disk):
    """Notes which folders are synced; some fail."""

    def __init__(self, fails: dict[Path, int] | None = None) -> None:
        self.synced: list[Path] = []
        self.fails = fails or {}

    def sync_folder(self, path):
        if path in self.fails:
            raise OSError(self.fails[path], "sync")
        self.synced.append(path)

    def sync_all(self, folder):
        if folder in self.fails:
            raise OSError(self.fails[folder], "sync")
        self.synced.append(folder)


@pytest.mark.parametrize("mode", [0o700, 0o750])
def test_a_durable_folder_is_synced_up_to_the_root_also_if_it_was_there(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "home" / "spool"
    for _ in range(2):  # the second process knows nothing of what the first one had synced before it was killed
        disk = SyncingDisk()
        make_folder_durably(folder, disk, mode)
        assert disk.synced == list(reversed(folder.parents))
        assert folder.stat().st_mode & 0o777 == mode


def test_a_folder_whose_parent_cannot_be_synced_is_an_error_but_not_one_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "spool"
    make_folder_durably(folder, SyncingDisk({tmp_path.parent: errno.EACCES, Path("/"): errno.EINVAL}))
    for fails in ({tmp_path: errno.EIO}, {folder.parent: errno.EINVAL}, {folder.parent: errno.EIO}):
        with pytest.raises(OSError, match="sync"):
            make_folder_durably(folder, SyncingDisk(fails))


def test_under_a_parent_that_cannot_be_listed_the_whole_file_system_is_synced(tmp_path: Path) -> None:
    """As a home under a ``/home`` of mode 0711."""
    folder = tmp_path / "home"
    disk = SyncingDisk({tmp_path: errno.EACCES})
    make_folder_durably(folder, disk)
    assert disk.synced == [*reversed(tmp_path.parents), folder]
    with pytest.raises(OSError, match="sync"):
        make_folder_durably(folder, SyncingDisk({tmp_path: errno.EACCES, folder: errno.EIO}))
