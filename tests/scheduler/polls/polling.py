"""A scheduler on a bench that polls, with the tables of a real queue; the UNS is played by the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from lcc.model import FetchResult, Source, UrlNotice
from lcc.model.polled import PolledContent
from lcc.protocols.jobs import RunJob
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler.polls import Polls
from lcc.storage.tasks.outbox import Answer, OutboxSet
from tests.support.databases import DirectDatabase, result_of
from tests.support.queue import Queue
from tests.support.roles.scheduler import Bench, FakeManager

FEED = "http://site/feed.xml"
HEADERS = '["Content-Type","application/rss+xml; charset=utf-8"]'


def notice(url: str, mimetype: str = "*/*") -> UrlNotice:
    return UrlNotice(url, "", "", mimetype, "", "", None, None, "", False, False, False, "[]")


class Polling(Bench):
    """With the queue of an LCC, whose UNS is played by the test.

    :ivar ahead_seconds: of the wall clock of the queue's host before that of the scheduler's.
    """

    ahead_seconds = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.queue = Queue(DirectDatabase("sqlite:lcc.db", folder))
        self.room = True
        self.made: list[OutboxSet] = []
        """Sets that the polls have put into the outbox."""
        self.refused: NotifierRefused | None = None
        self.polls = self._polls()
        self.engine.background.append(self._poll)
        self.sets = 0
        self.drawn = 0

    def _polls(self) -> Polls:
        main: Any = self.queue.database  # stands in for one with threads
        told = (lambda: self.room), self.made.extend
        return Polls(self.engine, self.engine.store, main, *told, self._watch, self._draw)

    def _poll(self) -> None:
        # One store writes: that of the engine.
        self.polls._store = self.engine.store
        self.polls.tick()

    def _watch(self, root: str) -> Deferred[int]:
        return succeed(self.queue.pid) if self.refused is None else fail(self.refused)

    def _draw(self, pid: int) -> Deferred[int]:
        """As the UNS does: one counter for each provider, which its own sets have numbers of, too."""
        if self.refused is not None:
            return fail(self.refused)
        self.drawn += 1
        return succeed(self.drawn)

    def feed(self, url: str = FEED, every: int = 600, kind: str = "feed", options: tuple[str, ...] = ()) -> int:
        """A task that polls this."""
        number = self.add(every=every, kind=kind, command="", args=(url, *options))
        self.pass_time(2)
        return number

    def outbox(self) -> list[str]:
        """URLs that the UNS was notified of since it was asked last; it takes them, and tells the queue of them."""
        sets = self.taken()
        urls = [url["c"] for each in sets for url in each.urls]
        for url in urls:
            self.sets += 1
            self.queue.send(0, notice(url), source=Source.POLLED, now=self.queue_now())
        return urls

    def queue_now(self) -> int:
        """The wall clock of the queue's host."""
        return int(self.now()) + self.ahead_seconds

    def taken(self) -> list[OutboxSet]:
        """Sets that the UNS takes now."""
        sets = result_of(self.engine.store.outbox(0, 100))
        result_of(self.engine.store.answer_sets([Answer(each.number) for each in sets], int(self.now())))
        return sets

    def until_asked(self, step: int = 10) -> None:
        """Time goes by until something is polled."""
        for _ in range(1000):
            self.pass_time(step, step)
            if self.outbox():
                return
        raise AssertionError("nothing was polled")

    def fetch(self, **more: Any) -> None:
        """The robot fetches what is queued."""
        for row in self.queue.rows():
            known = {"headers": HEADERS, "etag": '"1"', "revalidate": True, **more}
            result = self.queue.fetched(row, str(self.queue.file), mimetype="application/rss+xml", **known)
            self.queue.record(result, now=self.queue_now())

    def fail(self, code: int, text: str = "") -> None:
        """The robot cannot have it."""
        for row in self.queue.rows():
            self.queue.record(self.queue.failed(row, code, text), now=self.queue_now())

    def confirm(self) -> None:
        """The robot finds it unchanged."""
        for row in self.queue.rows():
            assert row.stored is not None
            values = {"code": 0, "status": 304, "unchanged": row.stored.token, "url": FEED}
            self.queue.record(FetchResult(row.pid, row.key, row.generation, **values), now=self.queue_now())


def worker(bench: Polling) -> FakeManager:
    return bench.manager(feed=5, sitemap=5)


def given(manager: FakeManager) -> tuple[RunJob, PolledContent]:
    [job] = manager.given()
    return job, PolledContent.from_json(job.input)
