"""Text that a peer does not take yet: a first-in, first-out store that goes to the disk when it grows.

A provider may send a whole set before it reads the first error container.  What does not fit into the transport's
buffer waits here: a little of it in memory, more in a file that has no name, so that it is gone with the connection,
whatever happens.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from lcc.storage.disk.file_system import DISK, Disk

MEMORY_BYTES = 65536


class ErrorFileFull(Exception):
    """More is waiting than is allowed."""


class ErrorFile:
    """Whole lines in, whole lines out, in order: what is not taken any more leaves nothing half said.

    :param path: where the file is made when it is needed; its name is removed at once.
    :param size_max_bytes: more than this is refused.
    """

    def __init__(self, path: Path, size_max_bytes: int, disk: Disk = DISK) -> None:
        self._path = path
        self._size_max_bytes = size_max_bytes
        self._disk = disk
        self._file: BinaryIO | None = None
        self._read_offset = 0
        self._write_offset = 0
        self._newest = bytearray()

    def __bool__(self) -> bool:
        """Something is waiting."""
        return bool(self._newest) or self._read_offset < self._write_offset

    def append(self, text: str, *, bounded: bool = True) -> None:
        """Take a text; its last line has its end.

        :param bounded: False: take it whatever is waiting (the last words).
        :raises ErrorFileFull: it is not taken.
        :raises OSError: the disk has failed; the store is of no use any more.
        """
        data = text.encode()
        if bounded and self._write_offset + len(self._newest) + len(data) > self._size_max_bytes:
            raise ErrorFileFull
        self._newest += data
        if len(self._newest) > MEMORY_BYTES:
            if self._file is None:
                self._file = self._disk.create(self._path)
                self._disk.remove(self._path)
            self._file.seek(self._write_offset)
            self._disk.write(self._file, bytes(self._newest))
            self._write_offset += len(self._newest)
            self._newest.clear()

    def take(self, size_bytes: int = MEMORY_BYTES) -> bytes:
        """The oldest lines, not more than this many bytes at once from the file, but at least one line.

        :returns: empty: nothing is waiting.

        :raises OSError: as :meth:`append`.
        """
        if self._file is not None and self._read_offset < self._write_offset:
            self._file.seek(self._read_offset)
            data = self._read_lines(self._file, size_bytes)
            self._read_offset += len(data)
            if self._read_offset == self._write_offset:
                self._file.truncate(0)
                self._read_offset = self._write_offset = 0
            return data
        data = bytes(self._newest)
        self._newest.clear()
        return data

    @staticmethod
    def _read_lines(file: BinaryIO, size_bytes: int) -> bytes:
        data = b""
        while True:
            piece = file.read(size_bytes)
            if not piece:
                raise OSError("a temporary file lost its content")
            data += piece
            end = data.rfind(b"\n") + 1
            if end:
                return data[:end]

    def close(self) -> None:
        """Forget everything."""
        self._newest.clear()
        self._read_offset = self._write_offset = 0
        if self._file is not None:
            self._file.close()
            self._file = None
