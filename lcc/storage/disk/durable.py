"""Files that survive a power cut."""

from __future__ import annotations

import errno
from pathlib import Path

from lcc.storage.disk.file_system import DISK, AnyPath, Disk

_UNREADABLE = frozenset([errno.EACCES, errno.EPERM])
_NOTHING_TO_SYNC = _UNREADABLE | {errno.EINVAL, errno.EROFS}
"""Errors of a folder that this process cannot have changed, or whose file system has no fsync."""


def make_folder_durably(path: AnyPath, disk: Disk = DISK, mode: int = 0o700) -> None:
    """Make a folder and its parents, unless it exists; it survives a crash.

    Existing folders are synced, too: the process that made one may have been killed before its name was on the disk.

    :raises OSError: it cannot be made, or synced.
    """
    disk.make_folder(path, mode)
    parents = Path(path).absolute().parents
    for parent in reversed(parents):
        try:
            disk.sync_folder(parent)
        except OSError as error:
            if parent == parents[0] and error.errno in _UNREADABLE:
                disk.sync_all(path)  # a /home that cannot be listed (0711); its names are on the disk after this, too
            elif parent == parents[0] or error.errno not in _NOTHING_TO_SYNC:
                raise


def write_durably(path: Path, data: bytes, disk: Disk = DISK) -> None:
    """Replace a file atomically and durably: after a crash it has the old content or the new one.

    :raises OSError: the old content stays.
    """
    temporary = path.with_name(path.name + ".new")
    with disk.create(temporary) as file:
        disk.write(file, data)
    disk.sync_file(temporary)
    disk.rename(temporary, path)
    disk.sync_folder(path.parent)


class DurableCounter:
    """Allocates numbers, each once, whatever crashes.

    Blocks of numbers are reserved durably in the file, before the first of a block is given out; a restart continues
    behind the last reserved block, so it skips up to a block of numbers.

    :param path: the file; its folder must exist.
    :param block: numbers reserved at once.
    :param first: the first number of a new file.
    :raises OSError: the file cannot be read.
    :raises ValueError: the file holds no number; starting over would give out numbers twice.
    """

    def __init__(self, path: Path, block: int, disk: Disk = DISK, first: int = 1) -> None:
        self._path = path
        self._block = block
        self._disk = disk
        try:
            text = disk.read(path).decode("ascii", "replace").strip()
        except FileNotFoundError:
            self._next = first
        else:
            if not text.isdigit():
                raise ValueError(f"{path} holds {text[:40]!r}, not the next free number")
            self._next = int(text)
        self._reserved = self._next

    @property
    def reserved_upto(self) -> int:
        """No number from this one on was ever given out."""
        return self._reserved

    @property
    def next_number(self) -> int:
        """No number from this one on was given out by this process."""
        return self._next

    def next(self) -> int:
        """The next number.

        :raises OSError: no further block can be reserved; may be retried.
        """
        if self._next >= self._reserved:
            self._reserve(self._next + self._block)
        number = self._next
        self._next = number + 1
        return number

    def skip_to(self, number: int) -> None:
        """Give out only numbers from this one on (a peer knows higher ones than this counter).

        :raises OSError: as :meth:`next`.
        """
        if number > self._next:
            if number > self._reserved:
                self._reserve(number)
            self._next = number

    def _reserve(self, upto: int) -> None:
        write_durably(self._path, b"%d\n" % upto, self._disk)
        self._reserved = upto
