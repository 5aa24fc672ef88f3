"""The content that a job of a built-in kind is given: fetched from the BOT-M's content port into a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer, IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.client.content import Content, ContentClient, ContentGone, ContentUnavailable
from lcc.model.polled import PolledContent
from lcc.protocols.jobs import RunJob
from lcc.roles.manager.job import NotStarted
from lcc.storage.disk.file_system import Disk

_log = Logger()

PREFIX = "content-"
WAITING_BYTES_MAX = 1 << 20
"""Content of a job that waits for the disk; with more, no more is read of the BOT-M."""

InThread = Callable[..., Deferred[Any]]


class Contents:
    """
    :param folder: gives where the files are; workers must be able to open what is in it.
    :param bytes_max: longer content is refused.
    :param in_thread: runs what blocks.
    """

    def __init__(
        self, client: ContentClient, disk: Disk, folder: Callable[[], Path], bytes_max: int, in_thread: InThread
    ) -> None:
        self._in_thread = in_thread
        self._client = client
        self._disk = disk
        self._folder = folder
        self._bytes_max = bytes_max

    async def fetch(self, order: RunJob) -> Path:
        """The path of a job's content.

        :raises NotStarted: it cannot be had now, or its input makes no sense.
        """
        try:
            polled = PolledContent.from_json(order.input)
        except ValueError as error:
            raise NotStarted(str(error), again=False) from None
        if polled.size_bytes > self._bytes_max:
            raise NotStarted(f"The content has {polled.size_bytes:,} bytes ([manager] content_bytes)", again=False)
        try:
            content = await self._client.open(polled.machine, polled.file)
        except ContentGone:
            raise NotStarted("The content was replaced meanwhile") from None
        except ContentUnavailable as error:
            raise NotStarted(f"The content cannot be read now: {error}") from None
        if content.size_bytes != polled.size_bytes:
            content.drop()
            raise NotStarted("The content has another length than the row of the cache says")
        path = self._folder() / f"{PREFIX}{order.id}-{order.attempt}"
        try:
            await self._store(content, path)
            await self._in_thread(self._disk.let_read, path)
        except ContentUnavailable as error:
            self.remove(path)
            raise NotStarted(f"The content cannot be read now: {error}") from None
        except OSError as error:
            self.remove(path)
            raise NotStarted(f"The content cannot be written to {path.parent}: {error.strerror or error}") from None
        return path

    async def _store(self, content: Content, path: Path) -> None:
        """
        :raises OSError: the disk fails.
        :raises ContentUnavailable: the connection was lost.
        """
        try:
            file = await self._in_thread(self._disk.create, path)
        except OSError:
            content.drop()
            raise
        writer = _Writer(self._disk, file, self._in_thread)
        try:
            try:
                await content.pipe_to(writer)
            finally:
                await writer.done()
        finally:
            await self._in_thread(file.close)

    def remove(self, path: Path) -> None:
        """The job has ended."""
        self._in_thread(self._disk.remove, path).addErrback(_cannot_remove, path)


def _cannot_remove(failure: Failure, path: Path) -> None:
    _log.warn("Cannot remove {path}: {error}", path=str(path), error=failure.getErrorMessage())


@implementer(IConsumer)
class _Writer:
    """Writes what it gets in threads, one piece after the other."""

    def __init__(self, disk: Disk, file: BinaryIO, in_thread: InThread) -> None:
        self._disk = disk
        self._file = file
        self._in_thread = in_thread
        self._producer: IPushProducer | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._writing = False
        self._paused = False
        self._fault: Failure | None = None
        self._done: Deferred[None] | None = None

    def done(self) -> Deferred[None]:
        """Fires when all that it got is written.

        :raises OSError: it could not be.
        """
        done: Deferred[None] = Deferred()
        self._done = done
        self._perhaps_done()
        return done

    # IConsumer.

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def write(self, data: bytes) -> None:
        if self._fault is not None:
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if not self._writing:
            self._write_waiting()
        elif self._waiting_bytes > WAITING_BYTES_MAX and not self._paused and self._producer is not None:
            self._paused = True
            self._producer.pauseProducing()

    def _write_waiting(self) -> None:
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._writing = True
        self._in_thread(self._disk.write, self._file, data).addCallbacks(self._written, self._failed)

    def _written(self, _: object) -> None:
        self._writing = False
        if self._waiting:
            self._write_waiting()
        if self._paused:
            self._paused = False
            if self._producer is not None:
                self._producer.resumeProducing()
        self._perhaps_done()

    def _failed(self, failure: Failure) -> None:
        self._writing = False
        self._fault = failure
        self._waiting.clear()
        if self._producer is not None:
            self._producer.stopProducing()
        self._perhaps_done()

    def _perhaps_done(self) -> None:
        if self._done is not None and not self._writing:
            done, self._done = self._done, None
            done.callback(self._fault)  # a failure calls its errbacks
