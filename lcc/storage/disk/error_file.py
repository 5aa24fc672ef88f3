"""Output that a peer does not read yet: a FIFO that spills to the disk.

A provider may send a whole set before it reads the first error container.  What does not fit into the transport's
buffer waits here: a little of it in memory, more in an unlinked file, which is gone with the connection, whatever
happens.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from lcc.storage.disk.file_system import DISK, Disk

MEMORY_BYTES = 65536


class ErrorFileFull(Exception):
    """The limit of waiting output is reached."""


class ErrorFile:
    """Whole lines in, whole lines out, in order, so that no line is cut off.

    :param path: of the file, which is unlinked at once.
    :param size_max_bytes: limit of waiting output.
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
        """Whether output is waiting."""
        return bool(self._newest) or self._read_offset < self._write_offset

    def append(self, text: str, *, bounded: bool = True) -> None:
        """Append lines, each with its line end.

        :param bounded: False: ignore the limit (for the end of the stream).
        :raises ErrorFileFull: the text would exceed the limit.
        :raises OSError: disk error; the file is unusable from then on.
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
                raise OSError("temporary file truncated")
            data += piece
            end = data.rfind(b"\n") + 1
            if end:
                return data[:end]

    def close(self) -> None:
        """Discard everything."""
        self._newest.clear()
        self._read_offset = self._write_offset = 0
        if self._file is not None:
            self._file.close()
            self._file = None
