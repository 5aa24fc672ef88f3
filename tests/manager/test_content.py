"""The content that jobs are given: written by threads, with a disk that may be full."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, BinaryIO, cast

import attrs
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.python.threadable import isInIOThread

from lcc.model.tasks import JobState
from lcc.roles.manager.content import PREFIX, WAITING_BYTES_MAX, _Writer
from lcc.storage.disk.file_system import Disk
from tests.support.servers.content_host import ContentHost
from tests.support.waiting import until

from .kit import Rig
from .test_feed_worker import FEED, host, polled_input, worked

__all__ = ["host"]


class FullDisk(Disk):
    """Has room for little content, and is never asked on the reactor's thread."""

    def __init__(self) -> None:
        self.files: dict[Any, int] = {}
        self.wrong: list[str] = []

    def create(self, path: Any) -> BinaryIO:
        file = super().create(path)
        if Path(path).name.startswith(PREFIX):
            self.files[file] = 100_000
            self._ask("create")
        return file

    def write(self, file: BinaryIO, data: bytes) -> None:
        if file in self.files:
            self._ask("write")
            self.files[file] -= len(data)
            if self.files[file] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        super().write(file, data)

    def remove(self, path: Any) -> bool:
        if Path(path).name.startswith(PREFIX):
            self._ask("remove")
        return super().remove(path)

    def _ask(self, what: str) -> None:
        if isInIOThread():
            self.wrong.append(what)


@pytest_twisted.ensureDeferred
async def test_a_full_disk_is_a_temporary_error_of_that_job(rig: Rig, host: ContentHost) -> None:
    disk = FullDisk()
    rig.environment = attrs.evolve(rig.environment, disk=disk)
    await rig.start()
    long = rig.give("", "http://x/", kind="feed", task=4, input=polled_input(host, FEED + b" " * 8_000_000))
    assert (await worked(rig, host, FEED)).state is JobState.COMPLETED
    ended = await rig.ended(long)
    assert ended.state is JobState.TEMPORARY
    assert "cannot be written" in ended.message and "No space left on device" in ended.message
    assert (await worked(rig, host, FEED)).state is JobState.COMPLETED
    await until(lambda: not [path for path in rig.home.rglob(f"{PREFIX}*") if path.is_file()])
    assert len(disk.files) == 3 and not disk.wrong


@pytest_twisted.ensureDeferred
async def test_content_that_is_no_more_than_it_may_be(rig: Rig, host: ContentHost) -> None:
    rig.text += "content_bytes = 100\n"
    await rig.start()
    long = await worked(rig, host, FEED)
    assert long.state is JobState.PERMANENT and "[manager] content_bytes" in long.message
    odd = await rig.run("", "http://x/", kind="feed", input='{"machine": 1}')
    assert odd.state is JobState.PERMANENT, odd


class Slow:
    """Threads that end when they are told to; a producer that notes what it is told."""

    def __init__(self) -> None:
        self.running: list[Deferred[None]] = []
        self.written: list[bytes] = []
        self.told: list[str] = []
        self.writer = _Writer(cast(Any, self), cast(Any, None), self.in_thread)
        self.writer.registerProducer(self, True)

    def in_thread(self, function: Any, *arguments: Any) -> Deferred[None]:
        function(*arguments)
        self.running.append(Deferred())
        return self.running[-1]

    def write(self, file: Any, data: bytes) -> None:
        self.written.append(data)

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")

    def stopProducing(self) -> None:
        self.told.append("stop")


def test_who_gives_more_than_the_disk_takes_is_paused() -> None:
    slow = Slow()
    for _ in range(4):
        slow.writer.write(b"x" * (WAITING_BYTES_MAX // 2))
    assert slow.told == ["pause"] and len(slow.written) == 1
    slow.running.pop().callback(None)
    assert slow.told == ["pause", "resume"]
    ended: list[Any] = []
    slow.writer.unregisterProducer()
    slow.writer.done().addBoth(ended.append)
    assert not ended
    slow.running.pop().callback(None)
    assert ended == [None] and sum(map(len, slow.written)) == 2 * WAITING_BYTES_MAX


def test_nothing_more_is_taken_for_a_disk_that_fails() -> None:
    slow = Slow()
    slow.writer.write(b"a")
    slow.writer.write(b"b")
    slow.running.pop().errback(OSError(errno.EIO, "broken"))
    slow.writer.write(b"c")
    assert slow.told == ["stop"] and slow.written == [b"a"]
    ended: list[Any] = []
    slow.writer.done().addErrback(lambda failure: ended.append(str(failure.value)))
    assert ended == ["[Errno 5] broken"]
