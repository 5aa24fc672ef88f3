"""Sinks for content that an operator fetches by hand (``lcc-admin fetch``): into a named file, or nowhere."""

from __future__ import annotations

import re
from hashlib import md5
from pathlib import Path

from zope.interface import implementer

from lcc.interfaces import IAttemptFile
from lcc.storage.disk.content_folder import ContentSink
from lcc.storage.disk.file_system import DISK, Disk

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


@implementer(IAttemptFile)
class MeasuringSink:
    """Keeps nothing but length and hash."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._hash = md5(usedforsecurity=False)

    @property
    def md5(self) -> str:
        """As :attr:`lcc.interfaces.IAttemptFile.md5`."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size_bytes += len(data)
        self._hash.update(data)

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Nothing was stored."""


class NamedFolder:
    """A folder whose files get plain names from outside; an existing file is never overwritten.

    :param path: created with the first file.
    """

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self._path = str(path)
        self._disk = disk

    def sink(self, name: str) -> IAttemptFile:
        """A sink for this name; its first write raises FileExistsError if the file exists.

        :param name: empty: nothing is stored.
        :raises OSError: not a plain file name, or the folder cannot be made.
        """
        if not name:
            return MeasuringSink()
        if not _NAME.fullmatch(name):
            raise PermissionError(f"{name[:100]!r} is not a plain file name")
        self._disk.make_folder(self._path)
        return ContentSink(f"{self._path}/{name}", self._disk)
