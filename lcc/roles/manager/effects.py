"""The effects of a running job, until they go to the scheduler: bounded, a large number of them in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lcc.model.tasks import LogRow
from lcc.protocols.flat import Flat
from lcc.protocols.jobs import Log
from lcc.storage.disk.file_system import Disk

IN_MEMORY_BYTES = 256 * 1024
_READ_BYTES = 256 * 1024


class TooMuch(Exception):
    """A limit of effects is reached; says which."""


class Collected:
    """Effects as messages, in the order in which they were said; written to a file where they are many.

    :param path: of that file, which is made when it is needed.
    :ivar count: of messages.
    """

    def __init__(self, path: Path, disk: Disk, count_max: int, bytes_max: int) -> None:
        self._path = path
        self._disk = disk
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._texts: list[str] = []
        self._in_memory = 0
        self._file: BinaryIO | None = None
        self._bytes = 0
        self.count = 0

    def add(self, *messages: Flat) -> None:
        """One more effect, in one message or several.

        :raises TooMuch: a limit is reached; the effect is not taken.
        :raises OSError: the file cannot be written; nothing that was collected may be used any longer.
        """
        texts = [message.to_xml() for message in messages]
        size = sum(map(len, texts))
        if self.count + len(texts) > self._count_max:
            raise TooMuch(f"more than {self._count_max:,} effects ([manager] effects_max)")
        if self._bytes + size > self._bytes_max:
            raise TooMuch(f"effects of more than {self._bytes_max:,} bytes ([manager] effects_bytes)")
        self.count += len(texts)
        self._bytes += size
        self._texts += texts
        self._in_memory += size
        if self._in_memory > IN_MEMORY_BYTES:
            if self._file is None:
                self._file = self._disk.create(self._path)
            self._disk.write(self._file, "".join(self._texts).encode())
            self._texts.clear()
            self._in_memory = 0

    def pieces(self) -> Iterator[bytes]:
        """All of it, as XML.  It may block.

        :raises OSError: the file cannot be read.
        """
        if self._file is not None:
            self._file.seek(0)
            while piece := self._file.read(_READ_BYTES):
                yield piece
        yield "".join(self._texts).encode()

    def close(self) -> None:
        """Forget it, and remove the file."""
        self._texts.clear()
        if self._file is not None:
            self._file.close()
            self._disk.remove(self._path)


class CollectedLog:
    """The rows of a job's log that have not gone to the scheduler yet.

    :param rows_max: of the job; what comes later is counted only.
    """

    def __init__(self, rows_max: int) -> None:
        self._left = rows_max
        self._rows: list[Log] = []
        self._left_out = 0

    def add(self, row: LogRow) -> None:
        """One more."""
        if self._left > 0:
            self._left -= 1
            self._rows.append(Log(row.time, row.level, row.text))
        else:
            self._left_out += 1

    def take(self, now: int, *, is_end: bool) -> list[Flat]:
        """The rows so far; those that follow are new ones.

        :param is_end: there are none, and it is said how many were left out.
        """
        rows: list[Flat] = [*self._rows]
        self._rows.clear()
        if is_end and self._left_out:
            rows.append(Log(now, "warn", f"{self._left_out:,} more rows were left out ([manager] log_rows)"))
        return rows
