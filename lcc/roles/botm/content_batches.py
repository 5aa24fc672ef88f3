"""Sends a batch of content files from the content port (:mod:`lcc.protocols.content_batch`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.web.server import Request
from zope.interface import implementer

from lcc.interfaces import IContentFolder
from lcc.model.content_batches import FILE_BYTES_MAX
from lcc.protocols.content_batch import CONTENT_TYPE, TOO_LARGE, write_file
from lcc.transport.http.client import Watch

_log = Logger()

PIECE_BYTES = 1 << 16


@implementer(IPushProducer)
class BatchSender:
    """Sends these files, as fast as the connection takes them.

    :param is_suspect: a crash of the machine may have damaged this file; it is being verified.
    :param abort: breaks the connection.
    """

    def __init__(
        self,
        request: Request,
        content: IContentFolder,
        is_suspect: Callable[[int], bool],
        files: Sequence[int],
        watch: Watch,
        abort: Callable[[], None],
    ) -> None:
        self._request = request
        self._content = content
        self._is_suspect = is_suspect
        self._pieces = self._read(files)
        self._watch = watch
        self._abort = abort
        self._paused = False
        self._over = False

    def start(self) -> None:
        """Begin."""
        self._request.setHeader("Content-Type", CONTENT_TYPE)
        self._watch.start(self._abort)
        self._request.notifyFinish().addBoth(lambda _: self.stopProducing())
        self._request.registerProducer(self, True)
        self.resumeProducing()

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        while not (self._paused or self._over):
            self._watch.moved()
            piece = next(self._pieces, None)
            if piece is not None:
                self._request.write(piece)
            else:
                self.stopProducing()
                self._request.unregisterProducer()
                self._request.finish()

    def stopProducing(self) -> None:
        if not self._over:
            self._over = True
            self._watch.stop()

    def _read(self, files: Sequence[int]) -> Iterator[bytes]:
        pieces: list[bytes] = []
        size = 0
        for file in files:
            piece = self._file(file)
            pieces.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                yield b"".join(pieces)
                pieces, size = [], 0
        if pieces:
            yield b"".join(pieces)

    def _file(self, file: int) -> bytes:
        if self._is_suspect(file):
            return write_file(503)
        try:
            reader = self._content.read(file)
        except (FileNotFoundError, NotADirectoryError):
            return write_file(410)
        except OSError as error:
            _log.error("Cannot read content file {file}: {error}", file=file, error=str(error))
            return write_file(500)
        try:
            size = reader.size_bytes
            if size > FILE_BYTES_MAX:
                return write_file(TOO_LARGE)
            content = reader.read(0, size)
            if len(content) != size:
                raise OSError("the file is shorter than it was")
        except OSError as error:
            _log.error("Cannot read content file {file}: {error}", file=file, error=str(error))
            return write_file(500)
        finally:
            reader.close()
        return write_file(200, content)
