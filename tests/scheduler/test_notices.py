"""Notices of jobs on their way to the UNS: what it answers, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed

from lcc.errors import code
from lcc.model import Provider
from lcc.model.notifiers import NoticeOutcome, RefusedElement, SourcedSet
from lcc.model.tasks import Effects, JobNotice, JobState
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler.counters import Counters
from lcc.roles.scheduler.notices import Notices
from lcc.storage.providers.providers import add_provider, change_provider, locked_provider, order_removal
from lcc.storage.providers.watched import SiteMoved
from lcc.storage.tasks.outbox import OutboxSet
from lcc.storage.tasks.polling.polls import Asked
from tests.support.databases import DirectDatabase, result_of
from tests.support.roles.scheduler import Bench

URL = "http://site/page"


class Link:
    """To an UNS that is played by the test."""

    connected = has_room = True
    waiting_count = 0

    def __init__(self) -> None:
        self.told: list[SourcedSet] = []
        self.answers: list[tuple[int, Any]] = []
        self.before_answer: Callable[[], None] = lambda: None
        self.pid = 7

    def watch(self, root: str) -> Deferred[int]:
        return succeed(self.pid)

    def tell(self, told: SourcedSet) -> Deferred[NoticeOutcome]:
        self.told.append(told)
        self.before_answer()
        number, refused = self.answers.pop(0) if self.answers else (0, ())
        return succeed(NoticeOutcome(told.number, number, "", refused))

    def close(self) -> None:
        """Nothing more."""


class Notifying(Bench):
    """A scheduler whose jobs notify."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.link: Any = Link()
        self.start()
        self.tasks.no_robots_txt("http://site/", "http://other/")
        self.main = DirectDatabase("sqlite:lcc.db", folder)
        main: Any = self.main  # stands in for one with threads
        self.notices = Notices(self.link, self.engine.store, main, self.now, Counters())
        self.giving = self.manager()

    def register(self, *roots: str) -> int:
        """A provider with these roots."""
        return self.main.now(add_provider, Provider(0, roots, f"hashed {roots}"))

    def notify(self, *urls: str) -> list[tuple[str, str]]:
        """A job notifies of pages; its log."""
        notices = tuple(JobNotice(url, "link") for url in urls or (URL,))
        self.add(every=10**6)
        self.pass_time(2)
        [job] = self.giving.given()
        self.giving.end(job, effects=Effects(notices=notices))
        assert self.state(job.id) is JobState.COMPLETED
        for _ in range(4):
            self.notices.tick()
            self.settle()
        assert self.database.query("SELECT COUNT(*) FROM tasknotices") == [(0,)]
        return [(level, text) for _, level, text in self.tasks.log(job.id) if level != "end"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Notifying]:
    bench = Notifying(tmp_path)
    yield bench
    bench.engine.stop()
    bench.database.blocking.close()
    bench.main.blocking.close()


def test_what_is_accepted(bench: Notifying) -> None:
    assert bench.notify() == [] and [each.pid for each in bench.link.told] == [7]


@pytest.mark.parametrize("name", ["bad-order", "provider-gone"])
def test_a_set_that_is_refused_is_an_error_of_its_job(bench: Notifying, name: str) -> None:
    bench.link.answers = [(code(name), ())]
    [(level, text)] = bench.notify()
    assert level == "error" and text.startswith(f"The UNS refuses 1 URLs of http://site/: {code(name)} ")


def test_a_url_is_that_of_the_provider_with_the_longest_root(bench: Notifying) -> None:
    """As polls of the same site are: what a registered provider has below a folder is not the watched site's."""
    whole, folder = bench.register("http://other/"), bench.register("http://site/docs/")
    assert bench.notify(URL, "http://site/docs/a", "http://site/docs/b", "http://other/") == []
    told = {each.pid: [url["c"] for url in each.urls] for each in bench.link.told}
    assert told == {7: [URL], folder: ["http://site/docs/a", "http://site/docs/b"], whole: ["http://other/"]}
    numbers = [each.number for each in bench.link.told]
    assert numbers == sorted(set(numbers))


def test_a_provider_that_has_lost_its_root_gets_no_more(bench: Notifying) -> None:
    first = bench.register("http://site/")
    bench.notify()
    before = bench.main.now(locked_provider, first)
    assert before is not None
    bench.main.now(change_provider, attrs.evolve(before, roots=("http://site/docs/",)))
    assert bench.notify() == [] and [each.pid for each in bench.link.told] == [first, 7]


def test_a_provider_that_has_gone_since_is_asked_for_again(bench: Notifying) -> None:
    first = bench.register("http://site/")

    def removed() -> None:
        bench.main.now(order_removal, first)

    bench.link.before_answer = removed
    bench.link.answers = [(code("provider-gone"), ())]
    assert bench.notify() == []
    assert [each.pid for each in bench.link.told] == [first, 7]
    numbers = [each.number for each in bench.link.told]
    assert numbers == sorted(set(numbers))
    # It is gone as well: that is told.
    bench.link.answers = [(code("provider-gone"), ())]
    assert "The UNS refuses" in bench.notify()[0][1]


def test_a_site_that_has_moved_is_an_error_of_its_job(bench: Notifying) -> None:
    """What waits behind its set is told."""
    pid = bench.register("http://other/")
    refused = NotifierRefused(code("site-moved"), SiteMoved(9).text)
    bench.link.watch = lambda root: fail(refused)
    [(level, text)] = bench.notify(URL, "http://other/page")
    said = "1108 the site has moved to another sub-LCC: provider 9"
    assert (level, text) == ("error", f"The UNS refuses 1 URLs of http://site/: {said}")
    assert [(each.pid, each.urls[0]["c"]) for each in bench.link.told] == [(pid, "http://other/page")]


def test_a_url_that_is_refused_is_an_error_of_its_job(bench: Notifying) -> None:
    bench.link.answers = [(0, (RefusedElement(1, code("bad-url"), "no", URL),))]
    [(level, text)] = bench.notify()
    assert level == "error" and text == f"The UNS refuses 1 of 1 URLs: {URL}: {code('bad-url')} no"


def polled(bench: Notifying, *names: str) -> list[OutboxSet]:
    """Polls that were put into the outbox just now."""
    for name in names:
        bench.add(kind="feed", command="", args=(f"http://site/{name}",))
    bench.pass_time(2)
    now = int(bench.now())
    due = result_of(bench.engine.store.polls_to_do(now, 0, 10)).due
    return list(
        result_of(bench.engine.store.note_polls([], [], [Asked(each, 7, bytes(20)) for each in due], now)).sets
    )


@pytest.mark.parametrize("change", [{"pid": 0}, {"order": 5}])
def test_sets_whose_provider_is_to_be_looked_up_are_not_told_at_once(
    bench: Notifying, change: dict[str, int]
) -> None:
    """Nor are those that were made with them: numbers of what is told grow."""
    first, second = polled(bench, "a", "b")
    bench.notices.made([first, second._replace(**change)])  # type: ignore[arg-type]  # both are numbers
    assert bench.link.told == []
    bench.notices.tick()
    assert [each.number for each in bench.link.told] == [first.number, second.number]


def test_a_set_that_is_parted_keeps_no_others_waiting(bench: Notifying) -> None:
    folder = bench.register("http://site/docs/")
    bench.add(every=10**6)
    bench.pass_time(2)
    [job] = bench.giving.given()
    notices = tuple(JobNotice(url, "link") for url in (URL, "http://site/docs/a"))
    bench.giving.end(job, effects=Effects(notices=notices))
    [poll] = polled(bench, "feed")
    bench.notices.tick()
    assert [each.number for each in bench.link.told] == [poll.number]
    bench.notices.tick()
    assert {each.pid for each in bench.link.told} == {7, folder}


def test_sets_that_were_just_made_are_told_without_being_read(
    bench: Notifying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless others come first: the numbers of what is told grow."""
    store, reads = bench.engine.store, []
    read = store.outbox
    monkeypatch.setattr(store, "outbox", lambda *which: reads.append(which) or read(*which))  # type: ignore[func-returns-value]  # None
    for number in range(4):
        bench.add(kind="feed", command="", args=(f"http://site/{number}",))
    bench.pass_time(2)
    now = int(bench.now())

    def polled() -> list[OutboxSet]:
        [poll, *_] = result_of(store.polls_to_do(now, 0, 10)).due
        return result_of(store.note_polls([], [], [Asked(poll, 7, bytes(20))], now)).sets

    bench.notices.made(polled())
    bench.notices.made(polled())
    assert [each.number for each in bench.link.told] == [1, 2] and reads == []
    bench.notices.tick()
    bench.settle()
    assert reads == [] and bench.database.query("SELECT COUNT(*) FROM tasknotices") == [(0,)]
    polled()  # its commit was not heard of
    bench.notices.made(polled())
    assert len(bench.link.told) == 2
    for _ in range(3):
        bench.notices.tick()
        bench.settle()
    assert [each.number for each in bench.link.told] == [1, 2, 3, 4] and reads == [(2, 200)]
    assert {each.pid for each in bench.link.told} == {7}
    # The next run reads what the last one has left, and then nothing any more.
    bench.restart()
    notices = Notices(bench.link, bench.engine.store, bench.notices._main, bench.now, Counters())
    store, reads = bench.engine.store, []
    read = store.outbox
    monkeypatch.setattr(store, "outbox", lambda *which: reads.append(which) or read(*which))  # type: ignore[func-returns-value]  # None
    for _ in range(3):
        notices.tick()
        bench.settle()
    assert reads == [(0, 200)]
