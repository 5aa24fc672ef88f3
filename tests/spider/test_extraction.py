"""The pool of extraction workers, its workers played in this process, and one clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from lcc.model.spider.links import ExtractionLimits, Page, PageLinks
from lcc.roles.extraction import PAGES_AT_ONCE, ExtractionPool
from lcc.spider.messages import frame
from lcc.testing.inline_extraction import InlineWorker
from tests.support.logs import LoggedErrors
from tests.support.pages import page

POISON = b"<!-- poison -->"


class World:
    """A pool on a clock; pages with :data:`POISON` end their worker."""

    def __init__(self, workers: int = 2, **limits: Any) -> None:
        self.clock = Clock()
        self.limits = ExtractionLimits(**limits)
        self.started: list[Any] = []
        self.build: Callable[[ProcessProtocol], Any] = self.inline
        self.pool = ExtractionPool(self.clock, self._spawn, self.limits, workers)
        self.pool.start()
        self.clock.advance(0)

    def inline(self, protocol: ProcessProtocol) -> Any:
        return InlineWorker(self.clock, protocol, self.limits, doomed=lambda data: POISON in data)

    def _spawn(self, protocol: ProcessProtocol) -> Any:
        worker = self.build(protocol)
        self.started.append(worker)
        return worker

    def extracted(self, pages: Sequence[Page], seconds: float = 30) -> list[PageLinks]:
        asked = self.pool.extract(pages)
        return self.result(asked, seconds)

    def result(self, asked: Deferred[list[PageLinks]], seconds: float = 30) -> list[PageLinks]:
        found: list[list[PageLinks]] = []
        asked.addCallback(found.append)
        for _ in range(int(seconds * 10)):
            if found:
                break
            self.clock.advance(0.1)
        assert found, "no answer"
        return found[0]


class Silent:
    """A worker that never answers, or only what it is given."""

    def __init__(self, protocol: ProcessProtocol, *says: bytes) -> None:
        self._protocol = protocol
        self._says = [*says]
        self.killed = False
        self.written = 0

    def begin(self, clock: Clock) -> Silent:
        if self._says:
            clock.callLater(0, self._protocol.outReceived, self._says.pop(0))
        return self

    def write(self, data: bytes) -> None:
        self.written += 1
        if self._says:
            self._protocol.outReceived(self._says.pop(0))

    def signalProcess(self, signal: str) -> None:
        assert signal == "KILL"
        self.killed = True
        self._protocol.processEnded(Failure(ProcessTerminated(signal=9)))


GREETING = frame(b'{"types": ["text/html"]}')


def numbered(count: int) -> list[Page]:
    return [page(f"http://h.example/{n}", f"<a href=/to/{n}>{n}</a>") for n in range(count)]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_page_has_its_links_in_order(workers: int) -> None:
    world = World(workers)
    first, second = world.pool.extract(numbered(3 * PAGES_AT_ONCE + 1)), world.pool.extract(numbered(5))
    for links in (*world.result(first), *world.result(second)):
        (link,) = links.links
        assert link.url == f"http://h.example/to/{link.text}"
    assert [each.base for each in world.extracted(numbered(40))] == [f"http://h.example/{n}" for n in range(40)]
    assert world.extracted([]) == []
    assert len(world.started) == workers


def test_links_are_relative_to_the_url_that_answered() -> None:
    (found,) = World().extracted([page("http://h.example/a", "<a href=x>", fetched_url="http://h.example/b/c")])
    assert found.links[0].url == "http://h.example/b/x"


def test_headers_are_read_of_every_type_and_contents_of_those_that_somebody_reads() -> None:
    headers = '["Link", "<next>; rel=next", "X-Robots-Tag", "nofollow"]'
    image = page("http://h.example/i", b"\x89PNG" * 1000, "image/png", headers=headers)
    found, plain = World().extracted([image, page("http://h.example/j", b"\x89PNG", "image/png")])
    assert (found.links[0].url, found.links[0].rel, found.nofollow) == ("http://h.example/next", "next", True)
    assert plain == PageLinks(base="http://h.example/j")


def test_what_is_cut_is_told(workers: int = 1) -> None:
    world = World(workers, document_bytes=40)
    (found,) = world.extracted(
        [page("http://h.example/", "<a href=/first>1</a>" + " " * 40 + "<a href=/second>2</a>")]
    )
    assert [link.url for link in found.links] == ["http://h.example/first"]
    assert found.truncated


def test_texts_come_along_if_they_are_wanted() -> None:
    markup = "<title>T &amp; t</title><p>One</p><script>no</script><p>two"
    pages = [page("http://h.example/", markup), page("http://h.example/t", "plain", "text/plain")]
    found, plain = World(page_chars=100).extracted(pages)
    assert (found.title, found.text) == ("T & t", "One\ntwo")
    assert plain.text == "plain"
    assert World().extracted(pages)[0].text == ""


def test_a_page_that_ends_its_worker_twice_is_named_and_set_aside_and_nothing_else_is_lost(logged: Any) -> None:
    world = World(2)
    pages = numbered(100)
    pages[40] = page("http://h.example/poison", POISON + b"<a href=/x>")
    found = world.extracted(pages)
    assert [each.failed for each in found].index(True) == 40
    assert sum(each.failed for each in found) == 1
    assert all(each.links for at, each in enumerate(found) if at != 40)
    assert "signal 11" in found[40].faults[0]
    assert (world.pool.set_aside, world.pool.deaths) == (1, 3)
    assert "http://h.example/poison" in str(logged)
    assert world.extracted(numbered(3))[2].links


def test_each_of_many_bad_pages_is_set_aside_alone(logged: Any) -> None:
    world = World(2)
    pages = [page(f"http://h.example/{n}", (POISON if n % 3 == 0 else b"") + b"<a href=/x>") for n in range(12)]
    assert [each.failed for each in world.extracted(pages, 600)] == [n % 3 == 0 for n in range(12)]


def test_a_page_that_takes_too_long_is_set_aside(logged: Any) -> None:
    world = World(1, page_seconds=5.0)
    workers: list[Silent] = []

    def silent(protocol: ProcessProtocol) -> Silent:
        workers.append(Silent(protocol, GREETING).begin(world.clock))
        return workers[-1]

    world.build = silent
    world.started[0].signalProcess("KILL")
    world.clock.advance(0)
    (found,) = world.extracted(numbered(1), 60)
    assert (found.failed, found.faults) == (True, ("its worker ended: more than 5 s",))
    assert [each.killed for each in workers[:2]] == [True, True]


def test_a_worker_that_is_killed_costs_no_page() -> None:
    world = World(1)
    for _ in range(20):
        asked = world.pool.extract(numbered(10))
        world.started[-1].signalProcess("KILL")
        assert all(each.links for each in world.result(asked))


@pytest.mark.parametrize(
    "answer",
    [frame(b"[]"), frame(b"nonsense"), b"\xff\xff\xff\xff", frame(b"[[[1]],2,3,4,5,6,7,8,9]"), frame(b"[" * 100_000)],
    ids=["too little", "no JSON", "a frame without end", "no links", "deep"],
)
def test_a_worker_that_talks_nonsense_is_killed(answer: bytes, logged: Any) -> None:
    world = World(1)
    world.build = lambda protocol: Silent(protocol, GREETING, answer).begin(world.clock)
    world.clock.advance(0)
    world.started[0].signalProcess("KILL")
    (found,) = world.extracted(numbered(1), 60)
    assert found.failed
    assert "no answer" in found.faults[0]


def test_pages_wait_for_workers_that_cannot_be_started(logged_errors: LoggedErrors) -> None:
    world = World(1)
    starts: list[float] = []

    def fails(protocol: ProcessProtocol) -> Any:
        starts.append(world.clock.seconds())
        raise OSError(12, "Cannot allocate memory")

    world.build = fails
    world.clock.advance(0)
    world.started[0].signalProcess("KILL")
    asked = world.pool.extract(numbered(2))
    for _ in range(300):
        world.clock.advance(1)
    assert not asked.called
    delays = [later - earlier for earlier, later in pairwise(starts)]
    assert delays == sorted(delays)
    assert delays[-1] == 60
    world.build = world.inline
    assert world.result(asked, 100)[1].links
    logged_errors.flush("Cannot allocate memory")


def test_a_worker_that_does_not_begin_is_killed(logged: Any) -> None:
    world = World(1)
    silent: list[Silent] = []

    def mute(protocol: ProcessProtocol) -> Silent:
        silent.append(Silent(protocol))
        return silent[-1]

    world.build = mute
    world.clock.advance(0)
    world.started[0].signalProcess("KILL")
    for _ in range(65):
        world.clock.advance(1)
    assert silent[0].killed


def test_what_is_cancelled_is_not_looked_for() -> None:
    world = World(1)
    gone = world.pool.extract(numbered(200))
    kept = world.pool.extract(numbered(3))
    gone.cancel()
    gone.addErrback(lambda failure: failure.trap(CancelledError))
    assert len(world.result(kept)) == 3
    assert world.pool.waiting == 0
    assert world.pool.pages <= 3 + 2 * PAGES_AT_ONCE


def test_the_pool_stops_with_all_its_workers() -> None:
    world = World(3)
    asked = world.pool.extract(numbered(300))
    cancelled: list[Any] = []
    asked.addErrback(lambda failure: cancelled.append(failure.trap(CancelledError)))
    stopped = world.pool.stop()
    world.clock.advance(1)
    assert cancelled == [CancelledError]
    assert stopped.called
    assert len(world.started) == 3
    assert world.clock.getDelayedCalls() == []
