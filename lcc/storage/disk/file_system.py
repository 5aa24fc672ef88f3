"""The file system calls of the roles.

Roles open no files themselves but through a :class:`Disk`, so that a test can watch the order of the calls, or let
them fail, and a simulation can replace it.  Paths may be plain strings: that is cheaper, and each fetch makes a file.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from fcntl import ioctl
from os import PathLike
from typing import BinaryIO

import attrs
from zope.interface import implementer

from lcc.interfaces import IContentReader

AnyPath = str | PathLike[str]


@implementer(IContentReader)
class FileReader:
    """An open file; it stays readable when it is removed meanwhile.

    :ivar size_bytes: of the whole file.
    """

    def __init__(self, path: AnyPath) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """At most ``length`` bytes from this offset.

        :raises OSError: read error.
        """
        return os.pread(self._descriptor, length, offset)

    def forget(self) -> None:
        """Drop it from the page cache, as far as it has been written to the disk."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


_FLAGS = struct.Struct("l")
_GET_FLAGS = 2 << 30 | _FLAGS.size << 16 | ord("f") << 8 | 1
_SET_FLAGS = 1 << 30 | _FLAGS.size << 16 | ord("f") << 8 | 2
_TOP_OF_FOLDERS = 0x00020000
"""Linux, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_TOPDIR_FL: ioctl_iflags(2)."""


@attrs.frozen
class Space:
    """Free space of a file system.

    :ivar free_bytes: for unprivileged processes.
    :ivar free_files: free inodes; None: the file system does not count them.
    :ivar writable: False: mounted read-only.
    """

    free_bytes: int
    free_files: int | None
    writable: bool


class Disk:
    """Every method raises OSError as the system reports it."""

    # Folders.

    def make_folder(self, path: AnyPath, mode: int = 0o700) -> list[str]:
        """Make a folder and its parents, unless it exists.

        :returns: the folders that were made, the outermost first.
        """
        folder = os.path.abspath(path)  # noqa: PTH100
        missing = []
        while not os.path.isdir(folder):  # noqa: PTH112
            missing.append(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120
        missing.reverse()
        for each in missing:
            try:
                os.mkdir(each, mode)  # noqa: PTH102
            except FileExistsError:
                if not os.path.isdir(each):  # noqa: PTH112  # else another process was quicker
                    raise
        return missing

    def names(self, folder: AnyPath) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of each regular file in a folder, in any order."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False).st_size

    def folders(self, folder: AnyPath) -> list[str]:
        """The names of the folders in a folder, sorted, without symbolic links."""
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def spread(self, folder: AnyPath) -> bool:
        """Ask the file system to spread new folders in this one over the disk (ext4: ``chattr +T``).

        :returns: False: the file system does not support it.
        """
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            (flags,) = _FLAGS.unpack(ioctl(descriptor, _GET_FLAGS, _FLAGS.pack(0)))
            ioctl(descriptor, _SET_FLAGS, _FLAGS.pack(flags | _TOP_OF_FOLDERS))
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def space(self, folder: AnyPath) -> Space:
        """Free space of the file system with this folder."""
        found = os.statvfs(folder)
        free_files = found.f_favail if found.f_files else None
        return Space(found.f_bavail * found.f_frsize, free_files, not found.f_flag & os.ST_RDONLY)

    # Files by name.

    def read(self, path: AnyPath) -> bytes:
        """The content of a (small) file."""
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.readall()

    def patch(self, path: AnyPath, offset: int, data: bytes, *, create: bool = False) -> None:
        """Overwrite bytes of a file in place.

        :param create: create a missing file; else that is an error.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        try:
            if os.pwrite(descriptor, data, offset) != len(data):
                raise OSError(f"short write to {os.fspath(path)}")
        finally:
            os.close(descriptor)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file, replacing the target."""
        os.rename(source, target)  # noqa: PTH104

    def remove(self, path: AnyPath) -> bool:
        """Remove a file; False: there was none."""
        try:
            os.unlink(path)  # noqa: PTH108
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def let_read(self, path: AnyPath) -> None:
        """Let whoever knows its name read a file, and nobody write to it."""
        os.chmod(path, 0o444)  # noqa: PTH101

    # Open files.

    def create(self, path: AnyPath) -> BinaryIO:
        """Create or truncate a file for writing and reading, unbuffered, mode 600."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "w+b", buffering=0)

    def extend(self, path: AnyPath, size_bytes: int) -> BinaryIO:
        """Open a file for writing at its end, unbuffered, after it was cut to this size; it must be as long."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size_bytes)
            os.lseek(descriptor, size_bytes, os.SEEK_SET)
        except OSError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "r+b", buffering=0)

    def open(self, path: AnyPath) -> BinaryIO:
        """Open a file for reading, unbuffered."""
        return open(path, "rb", buffering=0)  # noqa: PTH123

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write all of the data at the current offset."""
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]

    def reader(self, path: AnyPath) -> FileReader:
        """Open a file for random access; does not follow symbolic links."""
        return FileReader(path)

    # Content files, while they are written: as little as can be, since each fetch does it.

    def begin(self, path: str) -> int:
        """Create a file for writing, mode 640; returns its descriptor.  FileExistsError if it exists."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)

    def append(self, descriptor: int, data: bytes) -> int:
        """Write some of the data; returns the number of bytes written."""
        return os.write(descriptor, data)

    def end(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    # What survives a power cut.

    def sync_file(self, path: AnyPath) -> None:
        """Fsync a file; after an OSError nothing is known of its content."""
        _fsync(path, os.O_RDONLY)

    def sync_folder(self, path: AnyPath) -> None:
        """Fsync a folder: its names (new, renamed, removed)."""
        _fsync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_all(self, folder: AnyPath) -> None:
        """Sync the whole file system with this folder (syncfs)."""
        library = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if library.syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), os.fspath(folder))
        finally:
            os.close(descriptor)


def _fsync(path: AnyPath, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


DISK = Disk()
"""The real one."""
