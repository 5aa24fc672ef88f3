"""A disk in memory, whose machine may lose its power.

What was written is there for every process at once; what was synced survives a power cut.  Of the rest, any part may
survive: of a file the first bytes, zeros, a later piece without an earlier one; of the names in folders either as a
journal keeps them (everything up to some moment) or each by itself.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, BinaryIO, cast

import attrs
from zope.interface import implementer

from lcc.interfaces import IContentReader
from lcc.storage.disk.file_system import AnyPath, Disk, Space


def _fault(number: int, path: str = "") -> OSError:
    return OSError(number, os.strerror(number), path)


class _File:
    """A file, by whatever name."""

    __slots__ = ("data", "durable", "pending")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.pending: list[tuple[int, bytes] | int] = []
        """Not synced: (place, bytes), or the size that it was cut to."""

    def write(self, offset: int, data: bytes) -> None:
        end = len(self.data)
        if offset > end:
            self.data += bytes(offset - end)
        self.data[offset : offset + len(data)] = data
        self.pending.append((offset, data))

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.pending.append(size)

    def sync(self) -> None:
        if self.pending:
            self.durable = bytes(self.data)
            self.pending.clear()

    def crash(self, chance: Random) -> None:
        """What is left of it after a power cut."""
        data = bytearray(self.durable)
        mode = chance.choice(("nothing", "all", "first", "mixed", "zeros"))
        kept = chance.randint(0, len(self.pending)) if mode == "first" else len(self.pending)
        for change in self.pending[:kept] if mode != "nothing" else []:
            if isinstance(change, int):
                del data[change:]
                continue
            offset, piece = change
            if mode == "mixed":
                if chance.random() < 0.3:
                    continue
                if chance.random() < 0.3:
                    piece = piece[: chance.randint(0, len(piece))]
            elif mode == "zeros":
                piece = bytes(len(piece))
            if offset > len(data):
                data += bytes(offset - len(data))
            data[offset : offset + len(piece)] = piece
        self.data = data
        self.durable = bytes(data)
        self.pending.clear()


@attrs.frozen
class _Change:
    """One change of names: what is at ``path`` from now on (None: nothing), and what has left ``source``."""

    path: str
    file: _File | None
    source: str = ""
    is_folder: bool = False

    def touches(self, folder: str) -> bool:
        return posixpath.dirname(self.path) == folder or (
            bool(self.source) and posixpath.dirname(self.source) == folder
        )


class _Handle:
    """An open file, as far as a BinaryIO is used."""

    def __init__(self, disk: SimulatedDisk, file: _File, path: str) -> None:
        self._disk = disk
        self._file = file
        self._path = path
        self._place = 0
        self.closed = False

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        self._disk.check("read", self._path)
        end = len(self._file.data) if size < 0 else self._place + size
        data = bytes(self._file.data[self._place : end])
        self._place += len(data)
        return data

    def write(self, data: bytes) -> int:
        written = self._disk.put(self._file, self._place, bytes(data), self._path)
        self._place += written
        return written

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = offset if whence == 0 else len(self._file.data) + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def truncate(self, size: int | None = None) -> int:
        size = self._place if size is None else size
        self._file.truncate(size)
        return size

    def close(self) -> None:
        self.closed = True


@implementer(IContentReader)
class _Reader:
    def __init__(self, disk: SimulatedDisk, file: _File, path: str) -> None:
        self._disk, self._file, self._path = disk, file, path
        self.size_bytes = len(file.data)

    def read(self, offset: int, length: int) -> bytes:
        self._disk.check("read", self._path)
        return bytes(self._file.data[offset : offset + length])

    def forget(self) -> None:
        """There is nothing in between."""

    def close(self) -> None:
        """Nothing is held."""


class SimulatedDisk(Disk):
    """In place of :class:`lcc.storage.disk.file_system.Disk`.

    :ivar is_full: nothing can be made longer.
    :ivar fault_rates: operation (``read``, ``write``, ``sync``, ``name``) -> how likely it fails with EIO.
    :ivar journaled: names survive in order; False: each folder's by themselves.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.is_full = False
        self.fault_rates: dict[str, float] = {}
        self.journaled = chance.random() < 0.7
        self._names: dict[str, _File] = {}
        self._folders: set[str] = {"/"}
        self._durable_names: dict[str, _File] = {}
        self._durable_folders: set[str] = {"/"}
        self._changes: list[_Change] = []
        self._descriptors: dict[int, tuple[_File, str]] = {}
        self._next_descriptor = 1000

    # What goes wrong.

    def check(self, operation: str, path: str) -> None:
        """Fail, if this is the time."""
        rate = self.fault_rates.get(operation)
        if rate and self._chance.random() < rate:
            raise _fault(errno.EIO, path)

    def put(self, file: _File, place: int, data: bytes, path: str) -> int:
        """Write some of the data; how many bytes."""
        self.check("write", path)
        room = len(file.data) - place
        if self.is_full and len(data) > room:
            room = max(room, 0)
            if room == 0:
                room = self._chance.choice((0, 0, 0, 1, 10))
            if not room:
                raise _fault(errno.ENOSPC, path)
            data = data[:room]
        elif len(data) > 1 and self._chance.random() < 0.02:
            data = data[: self._chance.randint(1, len(data))]  # as the system may
        file.write(place, data)
        return len(data)

    def power_cut(self) -> None:
        """The machine stops; see what is left."""
        chance, changes = self._chance, self._changes
        if self.journaled:
            changes = changes[: chance.randint(0, len(changes))]
        else:
            changes = [change for change in changes if chance.random() < 0.5]
        self._make_durable(changes)
        self._folders = {folder for folder in self._durable_folders if self._is_reached(folder)}
        self._names = {
            path: file for path, file in self._durable_names.items() if posixpath.dirname(path) in self._folders
        }
        for file in dict.fromkeys(self._names.values()):
            file.crash(chance)
        self._durable_names = dict(self._names)
        self._durable_folders = set(self._folders)
        self._changes = []
        self._descriptors.clear()

    def _is_reached(self, folder: str) -> bool:
        while folder != "/":
            if folder not in self._durable_folders:
                return False
            folder = posixpath.dirname(folder)
        return True

    def _make_durable(self, changes: list[_Change]) -> None:
        for change in changes:
            if change.is_folder:
                self._durable_folders.add(change.path)
                continue
            if change.source:
                self._durable_names.pop(change.source, None)
            if change.file is None:
                self._durable_names.pop(change.path, None)
            else:
                self._durable_names[change.path] = change.file

    # What a test asks.

    def paths(self) -> dict[str, bytes]:
        """Every file, with its content."""
        return {path: bytes(file.data) for path, file in self._names.items()}

    def paths_at(self, path: str) -> bytes | None:
        """The content of a file; None: there is none."""
        file = self._names.get(path)
        return None if file is None else bytes(file.data)

    def rot(self, which: Callable[[str], bool], chance: Random) -> bool:
        """A bit of one of these files is another one from now on, or its end is gone, behind a whole line or not.

        :returns: whether there is such a file.
        """
        paths = [path for path, file in self._names.items() if which(path) and file.data]
        if not paths:
            return False
        file = self._names[chance.choice(paths)]
        where = chance.randrange(len(file.data))
        if chance.random() < 0.5:
            file.data[where] ^= 1 << chance.randrange(8)
        elif chance.random() < 0.5:
            del file.data[where:]
        else:
            del file.data[file.data.rfind(b"\n", 0, where) + 1 :]
        file.durable = bytes(file.data)
        file.pending.clear()
        return True

    def lose(self, which: Callable[[str], bool], chance: Random) -> None:
        """One of these files is gone."""
        paths = [path for path in self._names if which(path)]
        if paths:
            self._forget(chance.choice(paths))

    def after_a_power_cut(self, path: str) -> bytes | None:
        """What of this file would certainly be there after a power cut now; None: it might be gone."""
        file = self._durable_names.get(path)
        if file is None or not self._is_reached(posixpath.dirname(path)) or file.pending:
            return None
        return file.durable

    # Folders.

    def make_folder(self, path: AnyPath, mode: int = 0o700) -> list[str]:
        folder = self._path(path)
        missing = []
        while folder not in self._folders:
            if folder in self._names:
                raise _fault(errno.EEXIST, folder)
            missing.append(folder)
            folder = posixpath.dirname(folder)
        missing.reverse()
        for folder in missing:
            self.check("name", folder)
            self._no_more_when_full(folder)
            self._folders.add(folder)
            self._changes.append(_Change(folder, None, is_folder=True))
        return missing

    def names(self, folder: AnyPath) -> Iterator[tuple[str, int]]:
        where = self._path(folder)
        if where not in self._folders:
            raise _fault(errno.ENOENT, where)
        for path, file in self._names.items():
            if posixpath.dirname(path) == where:
                yield posixpath.basename(path), len(file.data)

    def folders(self, folder: AnyPath) -> list[str]:
        where = self._path(folder)
        if where not in self._folders:
            raise _fault(errno.ENOENT, where)
        found = (path for path in self._folders if path != where and posixpath.dirname(path) == where)
        return sorted(posixpath.basename(path) for path in found)

    def spread(self, folder: AnyPath) -> bool:
        return False

    def space(self, folder: AnyPath) -> Space:
        if self._path(folder) not in self._folders:
            raise _fault(errno.ENOENT, self._path(folder))
        return Space(0 if self.is_full else 1 << 40, None, True)

    # Files by name.

    def read(self, path: AnyPath) -> bytes:
        name = self._path(path)
        file = self._file(name)
        self.check("read", name)
        return bytes(file.data)

    def patch(self, path: AnyPath, offset: int, data: bytes, *, create: bool = False) -> None:
        name = self._path(path)
        file = self._names.get(name)
        if file is None:
            if not create:
                raise _fault(errno.ENOENT, name)
            file = self._make(name)
        if self.is_full and offset + len(data) > len(file.data):
            raise _fault(errno.ENOSPC, name)
        self.check("write", name)
        file.write(offset, data)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        old, new = self._path(source), self._path(target)
        file = self._file(old)
        if posixpath.dirname(new) not in self._folders:
            raise _fault(errno.ENOENT, new)
        self.check("name", new)
        del self._names[old]
        self._names[new] = file
        self._changes.append(_Change(new, file, source=old))

    def remove(self, path: AnyPath) -> bool:
        name = self._path(path)
        if name not in self._names:
            return False
        self.check("name", name)
        self._forget(name)
        return True

    def _forget(self, name: str) -> None:
        del self._names[name]
        self._changes.append(_Change(name, None))

    # Open files.

    def let_read(self, path: AnyPath) -> None:
        self.read(path)  # there are no users

    def create(self, path: AnyPath) -> BinaryIO:
        name = self._path(path)
        file = self._names.get(name)
        if file is None:
            file = self._make(name)
        else:
            file.truncate(0)
        return cast(BinaryIO, _Handle(self, file, name))

    def extend(self, path: AnyPath, size_bytes: int) -> BinaryIO:
        name = self._path(path)
        handle = _Handle(self, self._file(name), name)
        handle.truncate(size_bytes)
        handle.seek(size_bytes)
        return cast(BinaryIO, handle)

    def open(self, path: AnyPath) -> BinaryIO:
        name = self._path(path)
        return cast(BinaryIO, _Handle(self, self._file(name), name))

    def reader(self, path: AnyPath) -> Any:
        name = self._path(path)
        return _Reader(self, self._file(name), name)

    def begin(self, path: str) -> int:
        name = self._path(path)
        if name in self._names:
            raise _fault(errno.EEXIST, name)
        self._next_descriptor += 1
        self._descriptors[self._next_descriptor] = (self._make(name), name)
        return self._next_descriptor

    def append(self, descriptor: int, data: bytes) -> int:
        file, path = self._descriptor(descriptor)
        return self.put(file, len(file.data), data, path)

    def end(self, descriptor: int) -> None:
        self._descriptor(descriptor)
        del self._descriptors[descriptor]

    # What survives.

    def sync_file(self, path: AnyPath) -> None:
        name = self._path(path)
        file = self._file(name)
        try:
            self.check("sync", name)
        except OSError:
            file.pending = []  # the system forgets what it could not write, and will not try again
            raise
        file.sync()

    def sync_folder(self, path: AnyPath) -> None:
        folder = self._path(path)
        if folder not in self._folders:
            raise _fault(errno.ENOENT, folder)
        self.check("sync", folder)
        touched = [at for at, change in enumerate(self._changes) if change.touches(folder)]
        if not touched:
            return
        if self.journaled:
            self._make_durable(self._changes[: touched[-1] + 1])
            del self._changes[: touched[-1] + 1]
            return
        self._make_durable([self._changes[at] for at in touched])
        self._changes = [change for change in self._changes if not change.touches(folder)]

    def sync_all(self, folder: AnyPath) -> None:
        self.check("sync", self._path(folder))
        self._make_durable(self._changes)
        self._changes = []
        for file in self._names.values():
            file.sync()

    # Inside.

    @staticmethod
    def _path(path: AnyPath) -> str:
        return posixpath.normpath(os.fspath(path))

    def _file(self, path: str) -> _File:
        file = self._names.get(path)
        if file is None:
            raise _fault(errno.ENOENT, path)
        return file

    def _make(self, path: str) -> _File:
        if posixpath.dirname(path) not in self._folders:
            raise _fault(errno.ENOENT, path)
        self.check("name", path)
        self._no_more_when_full(path)
        file = self._names[path] = _File()
        self._changes.append(_Change(path, file))
        return file

    def _no_more_when_full(self, path: str) -> None:
        if self.is_full and self._chance.random() < 0.5:
            raise _fault(errno.ENOSPC, path)

    def _descriptor(self, descriptor: int) -> tuple[_File, str]:
        try:
            return self._descriptors[descriptor]
        except KeyError:
            raise _fault(errno.EBADF) from None
