"""The content of a row, checked before anything of it is given away.

A package cannot take back what it has begun: the length stands in front of the content.  So each content is read and
held against its row (length, md5) first: in memory if it is small, else from its own file, or, if it is another
machine's, through a temporary file.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import md5
from pathlib import Path
from typing import BinaryIO

from lcc.model import CachedUrl
from lcc.roles.cu.packages.ports import PIECE_BYTES, BodyUnavailable, ContentPorts
from lcc.storage.disk.content_paths import content_path

SMALL_BYTES = 1 << 20
"""Held in memory up to here."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class Body:
    """The content of a URL.

    :ivar size_bytes: its length.
    :ivar data: all of it; None: it is large, read :meth:`pieces`.
    """

    def __init__(self, size_bytes: int, data: bytes | None, file: BinaryIO | None = None) -> None:
        self.size_bytes = size_bytes
        self.data = data
        self._file = file

    def pieces(self) -> Iterator[bytes]:
        """The content, piece by piece.

        :raises OSError: the disk reported a fault.
        """
        if self.data is not None:
            yield self.data
            return
        file = self.file()
        left = self.size_bytes
        while left:
            piece = file.read(min(PIECE_BYTES, left))
            if not piece:
                raise OSError("a content file is shorter than it was")
            left -= len(piece)
            yield piece

    def file(self) -> BinaryIO:
        """The content as a file, at its beginning."""
        if self._file is None:
            self._file = io.BytesIO(self.data or b"")
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """It is not needed any longer."""
        if self._file is not None:
            with suppress(OSError):  # of a full disk: what was not written yet is not wanted
                self._file.close()


class Bodies:
    """Reads content into temporary files; for one thread at a time, but for :meth:`abort`.

    :param folder: the content folder of this machine.
    :param machine: whose content is there.
    :param ports: for what is not there.
    :param temporary: a folder for temporary files.
    """

    def __init__(self, folder: Path, machine: int, ports: ContentPorts, temporary: Path) -> None:
        self._folder = f"{folder}/"
        self._machine = machine
        self._ports = ports
        self._temporary = temporary

    def open(self, row: CachedUrl) -> Body:
        """The content of a row.

        :raises BodyGone: its file is not there (any longer).
        :raises BodyUnavailable: it cannot be read now, or is not what the row says.
        :raises OSError: there is no room for a temporary file.
        """
        machine, file_id, length = row.fetched_machineid, row.fetched_fileid, row.length
        if machine is None or file_id is None or length is None:
            raise BodyUnavailable("it was lost and is being refetched")
        body = self._own(file_id, length, row.md5) if machine == self._machine else None
        return self._distant(machine, file_id, length, row.md5) if body is None else body

    def abort(self) -> None:
        """From another thread: who is waiting for content of another machine waits no longer."""
        self._ports.abort()

    def close(self) -> None:
        """Nothing more is read."""
        self._ports.close()

    def _own(self, file_id: int, length: int, wanted: str) -> Body | None:
        """A file of this machine; None: the BOT-M of this machine must be asked what is wrong with it."""
        try:
            descriptor = os.open(self._folder + content_path(file_id), _FLAGS)
        except OSError:
            return None
        if length < SMALL_BYTES:
            try:
                data = os.read(descriptor, length + 1)
            except OSError:
                return None
            finally:
                os.close(descriptor)
            good = len(data) == length and md5(data, usedforsecurity=False).hexdigest() == wanted
            return Body(length, data) if good else None
        file = os.fdopen(descriptor, "rb", buffering=0)
        body = Body(length, None, file)
        try:
            if os.fstat(descriptor).st_size == length and _digest(body) == wanted:
                return body
        except OSError:
            pass
        file.close()
        return None

    def _distant(self, machine: int, file_id: int, length: int, wanted: str) -> Body:
        file = _Taking(io.BytesIO() if length < SMALL_BYTES else _temporary_file(self._temporary))
        body = Body(length, None, file.file)
        try:
            self._ports.read(machine, file_id, length, file)
            if _digest(body) != wanted:
                raise BodyUnavailable("it is damaged: its md5 is not that of its row")
        except BaseException as error:
            body.close()
            if file.fault is not None and isinstance(error, BodyUnavailable):
                raise file.fault from None  # the fault is here, not at the machine that has it
            raise
        return Body(length, file.file.getvalue()) if isinstance(file.file, io.BytesIO) else body


class _Taking:
    """A file that remembers its fault.

    :ivar fault: why it could not be written.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.fault: OSError | None = None

    def write(self, data: bytes, /) -> None:
        with self._watching():
            self.file.write(data)

    def seek(self, offset: int, /) -> None:
        with self._watching():
            self.file.seek(offset)

    def truncate(self) -> None:
        with self._watching():
            self.file.truncate()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.fault = error
            raise


def _temporary_file(folder: Path) -> BinaryIO:
    file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # the body's
    return file


def _digest(body: Body) -> str:
    found = md5(usedforsecurity=False)
    for piece in body.pieces():
        found.update(piece)
    return found.hexdigest()
