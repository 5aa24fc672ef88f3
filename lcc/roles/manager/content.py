"""The content that a job of a built-in kind is given: fetched from the BOT-M's content port into a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer
from zope.interface import implementer

from lcc.client.content import ContentClient, ContentGone, ContentUnavailable
from lcc.model.polled import PolledContent
from lcc.protocols.jobs import RunJob
from lcc.storage.disk.file_system import Disk
from lcc.workers.folders import let_read

PREFIX = "content-"


class NoContent(Exception):
    """The content of a job cannot be had; says why."""


class Contents:
    """
    :param folder: gives where the files are; workers must be able to open what is in it.
    :param bytes_max: longer content is refused.
    :param in_thread: runs what blocks.
    """

    def __init__(
        self,
        client: ContentClient,
        disk: Disk,
        folder: Callable[[], Path],
        bytes_max: int,
        in_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self._in_thread = in_thread
        self._client = client
        self._disk = disk
        self._folder = folder
        self._bytes_max = bytes_max

    async def fetch(self, order: RunJob) -> Path:
        """The path of a job's content.

        :raises NoContent: it cannot be had now, or its input makes no sense.
        """
        try:
            polled = PolledContent.from_json(order.input)
        except ValueError as error:
            raise NoContent(str(error)) from None
        if polled.size_bytes > self._bytes_max:
            raise NoContent(f"The content has {polled.size_bytes:,} bytes ([manager] content_bytes)")
        path = self._folder() / f"{PREFIX}{order.id}-{order.attempt}"
        try:
            content = await self._client.open(polled.machine, polled.file)
            if content.size_bytes != polled.size_bytes:
                content.drop()
                raise NoContent("The content has another length than the row of the cache says")
            with self._disk.create(path) as file:
                await content.pipe_to(_Writer(self._disk, file))
            await self._in_thread(let_read, path)
        except ContentGone:
            raise NoContent("The content was replaced meanwhile") from None
        except (ContentUnavailable, OSError) as error:
            self.remove(path)
            raise NoContent(f"The content cannot be read now: {error}") from None
        return path

    def remove(self, path: Path) -> None:
        """The job has ended."""
        self._disk.remove(path)


@implementer(IConsumer)
class _Writer:
    """Writes what it gets; it takes everything at once."""

    def __init__(self, disk: Disk, file: BinaryIO) -> None:
        self._disk = disk
        self._file = file

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """It never makes its producer wait."""

    def unregisterProducer(self) -> None:
        """That was all."""

    def write(self, data: bytes) -> None:
        self._disk.write(self._file, data)
