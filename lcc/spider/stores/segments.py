"""Files that grow, one after the other: each is closed when it is full, and the next one begun.

``links-00000001.ndjson.gz``, ``links-00000002.ndjson.gz`` … are closed: they are never written again, and may be
moved away.  The one that grows has ``.open`` behind its name.  A *place* is the number of a file and the bytes that
count of it: what is behind a place can be taken back, so that files and a database agree after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from twisted.logger import Logger

from lcc.numbers import INT64_MAX, parse_number
from lcc.storage.disk.file_system import Disk

_log = Logger()
_OPEN = ".open"
_NUMBER_MAX = 10**8 - 1


class Segments:
    """
    :param folder: it exists.
    :param name: of the files, with a ``{}`` in place of their number.
    :param place: where to go on, as :meth:`sync` gave it; what is behind it is taken back.  Empty: none was kept yet;
        closed files are those of another series, and stay.
    :param full_bytes: a file that has as many is closed at the next :meth:`sync`.
    :param closing: called with a file that is going to be closed (its path, and what its name will be).
    :param taken_back: called with the name of a file that was closed behind the place, and is open again, or gone.
    :raises OSError: files cannot be read or changed.
    :ivar number: of the file that grows.
    :ivar size_bytes: of it.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        place: str,
        disk: Disk,
        full_bytes: int,
        closing: Callable[[Path, str], None] = lambda path, name: None,
        taken_back: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._folder = folder
        self._name = name
        self._disk = disk
        self._full_bytes = full_bytes
        self._closing = closing
        self._file: BinaryIO | None = None
        self._unsynced = False
        known = self._existing()
        number, size = _parsed(place)
        if not place and (len(known) > 1 or (known and not self._is_open(1))):
            # Of another frontier, which is gone: they stay.
            self._begin(max(known) + 1)
            return
        for later in sorted(each for each in known if each > number):
            for suffix in ("", _OPEN):
                disk.remove(self._path(later, suffix))
            taken_back(self._path(later).name)
        whole = known.get(number)
        if whole is not None and whole >= size:
            if not self._is_open(number):
                disk.rename(self._path(number), self._path(number, _OPEN))
                taken_back(self._path(number).name)
            self.number, self.size_bytes = number, size
            self._file = disk.extend(self._path(number, _OPEN), size)
            return
        if size:
            # Somebody has moved it away, which is no fault if it was closed; or it was damaged.
            _log.warn(
                "{path}: {found} where {size} bytes were written; what follows goes into the next file",
                path=str(self._path(number)),
                found="gone" if whole is None else f"{whole} bytes",
                size=size,
            )
            if whole is not None and self._is_open(number):
                disk.rename(self._path(number, _OPEN), self._path(number))
            number += 1
        self._begin(number)

    @property
    def path(self) -> Path:
        """Of the file that grows."""
        return self._path(self.number, _OPEN)

    @property
    def final_name(self) -> str:
        """That it will have when it is closed."""
        return self._path(self.number).name

    def write(self, data: bytes) -> None:
        """Add this.

        :raises OSError: some of it may be there; begin anew at the last place.
        """
        assert self._file is not None
        self._disk.write(self._file, data)
        self.size_bytes += len(data)
        self._unsynced = True

    def sync(self) -> str:
        """What was written survives a crash; gives the place behind it.  A full file is closed.

        :raises OSError: as :meth:`write`.
        """
        if self._unsynced:
            self._disk.sync_file(self.path)
            self._unsynced = False
        if self.size_bytes >= self._full_bytes:
            self.close_file()
            self._begin(self.number + 1)
        return f"{self.number}:{self.size_bytes}"

    def close_file(self) -> None:
        """Close the file that grows, under its own name."""
        assert self._file is not None
        self._closing(self.path, self.final_name)
        self._file.close()
        self._file = None
        self._disk.rename(self.path, self._path(self.number))
        self._disk.sync_folder(self._folder)

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _begin(self, number: int) -> None:
        self.number, self.size_bytes = number, 0
        self._file = self._disk.create(self.path)
        self._disk.sync_folder(self._folder)

    def _path(self, number: int, suffix: str = "") -> Path:
        return self._folder / (self._name.format(f"{number:08}") + suffix)

    def _is_open(self, number: int) -> bool:
        return self._path(number, _OPEN).name in {name for name, _ in self._disk.names(self._folder)}

    def _existing(self) -> dict[int, int]:
        """Number -> size."""
        before, after = map(re.escape, self._name.split("{}"))
        match = re.compile(rf"{before}([0-9]{{8}}){after}(?:{re.escape(_OPEN)})?").fullmatch
        return {
            parse_number(found[1], _NUMBER_MAX): size
            for name, size in self._disk.names(self._folder)
            if (found := match(name))
        }


def _parsed(place: str) -> tuple[int, int]:
    if not place:
        return 1, 0
    number, _, size = place.partition(":")
    try:
        return parse_number(number, _NUMBER_MAX, 1), parse_number(size, INT64_MAX)
    except ValueError:
        raise OSError(f"{place[:40]!r} is no place in a series of files") from None
