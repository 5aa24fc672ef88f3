"""Files that survive a power cut: what is said to be on the disk is on the disk.

Roles open no files themselves: whoever keeps files takes a :class:`Files`, so that a test can watch the order of what
is done, and a simulation can replace the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def fsync_file(path: Path) -> None:
    """Wait until the content of this file is on the disk.

    :raises OSError: the disk reported a fault; nothing is known of the content then.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_folder(path: Path) -> None:
    """Wait until the names in this folder (new, renamed, removed) are on the disk.

    :raises OSError: as :func:`fsync_file`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Files:
    """The disk.  Every method raises OSError as the system reports it."""

    def make_folder(self, path: Path) -> None:
        """Make a folder, with its parents, for the owner alone; nothing happens if it exists."""
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def create(self, path: Path) -> BinaryIO:
        """A new, empty file for writing and reading back, unbuffered, readable by the owner alone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "w+b", buffering=0)

    def open(self, path: Path) -> BinaryIO:
        """An existing file for reading, unbuffered."""
        return path.open("rb", buffering=0)

    def read(self, path: Path) -> bytes:
        """The whole content of a (small) file."""
        return path.read_bytes()

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write all of the data at the file's place."""
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]

    def patch(self, path: Path, offset: int, data: bytes, *, create: bool = False) -> None:
        """Overwrite bytes of a file in place.

        :param create: make the file if it does not exist; else that is an error.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        try:
            if os.pwrite(descriptor, data, offset) != len(data):
                raise OSError(f"short write to {path}")
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, replacing what had it."""
        source.rename(target)

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens if it is gone."""
        path.unlink(missing_ok=True)

    def names(self, folder: Path) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of each ordinary file in a folder."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False).st_size

    def sync_file(self, path: Path) -> None:
        """See :func:`fsync_file`."""
        fsync_file(path)

    def sync_folder(self, path: Path) -> None:
        """See :func:`fsync_folder`."""
        fsync_folder(path)


FILES = Files()
"""The real disk."""


def write_durably(path: Path, data: bytes, files: Files = FILES) -> None:
    """Replace a file's content at once and for good: after a crash it has the old content or the new, never a part.

    :raises OSError: the old content stands.
    """
    temporary = path.with_name(path.name + ".new")
    with files.create(temporary) as file:
        files.write(file, data)
    files.sync_file(temporary)
    files.rename(temporary, path)
    files.sync_folder(path.parent)


class DurableCounter:
    """Numbers that are never given twice, whatever crashes.

    Blocks of numbers are reserved in the file, durably, before the first of a block is given; a restart goes on
    behind the last block that was reserved, so that up to a block of numbers is skipped.

    :param path: the file; its folder must exist.
    :param block: numbers reserved at once.
    :param first: the first number of a new file.
    :raises OSError: the file cannot be read.
    :raises ValueError: the file holds no number; starting again at the first would give numbers twice.
    """

    def __init__(self, path: Path, block: int, files: Files = FILES, first: int = 1) -> None:
        self._path = path
        self._block = block
        self._files = files
        try:
            text = files.read(path).decode("ascii", "replace").strip()
        except FileNotFoundError:
            self._next = first
        else:
            if not text.isdigit():
                raise ValueError(f"{path} holds {text[:40]!r}, not the next free number")
            self._next = int(text)
        self._reserved = self._next

    @property
    def reserved_upto(self) -> int:
        """No number from this one on has ever been given."""
        return self._reserved

    @property
    def next_number(self) -> int:
        """No number from this one on was given by this counter."""
        return self._next

    def next(self) -> int:
        """The next number.

        :raises OSError: no further block can be reserved; the counter can be asked again.
        """
        if self._next >= self._reserved:
            self._reserve(self._next + self._block)
        number = self._next
        self._next = number + 1
        return number

    def skip_to(self, number: int) -> None:
        """Give only numbers from this one on (somebody knows of higher ones than this counter has given).

        :raises OSError: as :meth:`next`.
        """
        if number > self._next:
            if number > self._reserved:
                self._reserve(number)
            self._next = number

    def _reserve(self, upto: int) -> None:
        write_durably(self._path, b"%d\n" % upto, self._files)
        self._reserved = upto
