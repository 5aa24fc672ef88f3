"""A site's own feed: its items are the site's word, as of the moment when its poll began, and of no other site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from lcc.errors import code
from lcc.insight.feed_why import feed_facts, say_why
from lcc.model import Provider, Source, UrlNotice
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.model.tasks import Effects, JobNotice, JobState
from lcc.protocols.jobs import RunJob
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler.counters import Counters
from lcc.roles.scheduler.notices import Notices
from lcc.storage.providers.providers import add_provider, order_removal
from tests.scheduler.polls.polling import FEED, Polling, given, notice, worker
from tests.support.databases import result_of
from tests.support.roles.scheduler import FakeManager

LISTED = ("--full-content", "--listed")
PAGE = "http://site/page"


class Listing(Polling):
    """With the outbox; the UNS passes everything on to the queue, as it is numbered.

    :ivar told: sets that it was told, polls left out.
    :ivar rejects: it rejects the next of them, with these codes.
    """

    connected = has_room = True
    waiting_count = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told: list[SourcedSet] = []
        self.rejects: list[str] = []
        self.notices = self._notices()
        self.background()

    def background(self) -> None:
        self.engine.background[:] = [self._poll, lambda: self.notices.tick()]

    def restart(self) -> None:
        super().restart()
        self.polls, self.notices = self._polls(), self._notices()
        self.background()

    def _notices(self) -> Notices:
        main: Any = self.queue.database  # stands in for one with threads
        link: Any = self
        return Notices(link, self.engine.store, main, self.now, Counters())

    def watch(self, root: str) -> Deferred[int]:
        return self._watch(root)

    def close(self) -> None:
        """Nothing more."""

    def tell(self, told: SourcedSet) -> Deferred[NoticeOutcome]:
        if told.source != Source.POLLED:
            self.told.append(told)
            if self.rejects:
                return succeed(NoticeOutcome(told.number, code(self.rejects.pop(0)), ""))
        hint = told.source == Source.FEED
        notices = [notice(url["c"])._replace(delete=url.get("op") == "delete", ifabsent=hint) for url in told.urls]
        self.queue.send(told.order, *notices, source=told.source, pid=told.pid, now=self.queue_now())
        return succeed(NoticeOutcome(told.number))

    def site_says(self, *notices: UrlNotice) -> int:
        """The provider tells these; the number of that set."""
        self.drawn += 1
        self.queue.send(self.drawn, *notices, now=self.queue_now())
        return self.drawn

    def queued(self) -> dict[str, int]:
        """URL -> sources, of what waits to be fetched."""
        return dict(self.queue.database.query("SELECT curl, source FROM qdb WHERE operation = 1"))

    def read(self, manager: FakeManager, *notices: JobNotice) -> RunJob:
        """The feed is fetched, and its worker notifies of these."""
        self.fetch()
        self.pass_time(3)
        job, _ = given(manager)
        manager.end(job, effects=Effects(notices=notices))
        self.pass_time(3)
        return job

    def until_polled(self) -> None:
        for _ in range(1000):
            if FEED in self.queued():
                return
            self.pass_time(10, 10)
        raise AssertionError("it is not polled")

    def log(self, job: RunJob) -> list[tuple[str, str]]:
        return [(level, text) for _, level, text in self.tasks.log(job.id) if level != "end"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Listing]:
    bench = Listing(tmp_path)
    bench.start()
    bench.tasks.no_robots_txt("http://site/", "http://other/")
    yield bench
    bench.engine.stop()
    bench.database.blocking.close()
    bench.queue.database.blocking.close()


def listed(*urls: str, op: str = "update") -> tuple[JobNotice, ...]:
    return tuple(JobNotice(url, "listed", op) for url in urls)


def test_what_the_site_told_while_its_feed_was_read_is_newer(bench: Listing) -> None:
    manager = worker(bench)
    bench.feed(options=LISTED)
    assert bench.drawn == 1
    # The feed still lists a page that its site deletes before its worker has read that.
    bench.site_says(notice(PAGE, "*/*")._replace(delete=True))
    bench.read(manager, *listed(PAGE, "http://site/other"))
    assert [(each.pid, each.source, each.order) for each in bench.told] == [(bench.queue.pid, Source.LISTED, 1)]
    assert bench.queued() == {"http://site/other": Source.LISTED}
    # The next poll is newer than that deletion.
    bench.queue.fetch_all()
    bench.until_polled()
    bench.read(manager, *listed(PAGE))
    assert bench.told[-1].order == 3 and bench.queued() == {PAGE: Source.LISTED}


def test_other_polls_draw_no_number(bench: Listing) -> None:
    manager = worker(bench)
    bench.feed(options=("--full-content",))
    job = bench.read(manager, *listed(PAGE))
    assert bench.drawn == 0 and bench.told == []
    found = bench.tasks.job(job.id)
    assert found.state is JobState.PERMANENT and "only a feed with --listed" in found.message


def test_a_poll_that_waits_to_be_fetched_draws_no_further_numbers(bench: Listing) -> None:
    bench.feed(options=LISTED)
    bench.pass_time(4000, 10)
    assert bench.drawn == 1 and list(bench.queued()) == [FEED]


def test_a_poll_waits_for_its_number(bench: Listing) -> None:
    bench.refused = NotifierRefused(code("try-later"), "later")
    task = bench.feed(options=LISTED)
    bench.pass_time(100, 10)
    assert bench.queued() == {} and bench.tasks.task(task).failures == 0
    bench.refused = NotifierRefused(code("provider-gone"), "gone")
    bench.pass_time(2)
    assert "gone" in bench.tasks.task(task).message and bench.tasks.task(task).failures == 1
    # What is fetched meanwhile is nobody's word: it waits for a poll that has a number.
    manager = worker(bench)
    bench.fetch()
    bench.pass_time(3)
    assert manager.given() == []
    bench.refused = None
    bench.until_polled()
    bench.confirm()
    bench.pass_time(1300, 10)
    job, _ = given(manager)
    assert job.task == task


def test_content_of_an_unknown_moment_is_polled_first(bench: Listing) -> None:
    """It was fetched because its site told it, maybe before something that the site told later."""
    bench.site_says(notice(FEED))
    bench.fetch()
    manager = worker(bench)
    bench.feed(options=LISTED)
    assert manager.given() == [] and bench.drawn == 2 and FEED in bench.queued()
    bench.site_says(notice(PAGE))
    bench.read(manager, *listed(PAGE))
    assert [each.order for each in bench.told] == [2]


def test_what_is_fetched_after_a_poll_has_a_number_of_its_own(bench: Listing) -> None:
    """Else a page that its site has deleted and lists again would not be one, until its feed changes once more."""
    manager = worker(bench)
    bench.feed(options=LISTED)
    bench.read(manager)
    bench.until_polled()
    bench.confirm()
    bench.pass_time(5)
    assert bench.drawn == 2
    bench.site_says(notice(PAGE)._replace(delete=True), notice(FEED))
    bench.fetch()
    bench.pass_time(5)
    assert manager.given() == []
    bench.until_polled()
    bench.confirm()
    bench.pass_time(5)
    job, _ = given(manager)
    manager.end(job, effects=Effects(notices=listed(PAGE)))
    bench.pass_time(3)
    assert [each.order for each in bench.told] == [4] and bench.queued() == {PAGE: Source.LISTED}


@pytest.mark.parametrize("ahead_seconds", [-7200, 7200])
def test_the_queue_is_on_a_host_with_another_clock(bench: Listing, ahead_seconds: int) -> None:
    bench.ahead_seconds = ahead_seconds
    bench.site_says(notice(FEED))
    bench.fetch()
    manager = worker(bench)
    bench.feed(options=LISTED)
    # Its clock may say that this was fetched after the poll had begun.
    bench.pass_time(5)
    assert manager.given() == [] and bench.drawn == 2
    bench.read(manager, *listed(PAGE))
    assert [each.order for each in bench.told] == [2] and bench.queued() == {PAGE: Source.LISTED}


OTHERS = ("http://other/feed.xml", "http://nobody/feed.xml", "https://site/docs/feed.xml", "http://site:81/feed.xml")
OWN = ("http://site/moved.xml", "https://site/feed.xml")


@pytest.mark.parametrize("moved", [*OTHERS, *OWN])
def test_no_site_sends_its_own_word_to_another(bench: Listing, moved: str) -> None:
    """An operator has said that this document is its site's word: not that any other is, to which that site leads."""
    for root in ("http://other/", "https://site/docs/"):
        bench.queue.database.now(add_provider, Provider(0, (root,), f"hashed {root}"))
    manager = worker(bench)
    task = bench.feed(options=LISTED)
    bench.fetch(moved=moved)
    bench.pass_time(3)
    job, _ = given(manager)
    manager.end(job)
    there = moved if moved in OWN else FEED
    assert bench.tasks.task(task).spec.args == (there, *LISTED)
    if moved in OTHERS:
        for _ in range(2):
            bench.until_polled()
            bench.confirm()
            bench.pass_time(70, 10)
        found = bench.tasks.task(task)
        assert found.spec.args[0] == FEED and found.failures == 0
        assert found.message.startswith(f"It has moved for good to {moved}, which is another site's")
        facts = bench.database.blocking.interact(feed_facts, found)
        assert f"  {found.message}" in say_why(facts, 0)


def test_a_site_follows_to_https_where_that_has_a_provider_of_its_own(bench: Listing) -> None:
    """By http it is watched, by https somebody has registered it."""
    bench.queue.database.now(lambda txn: txn.execute("UPDATE pidb SET watched = 1"))
    bench.queue.database.now(add_provider, Provider(0, ("https://site/",), "hashed"))
    manager = worker(bench)
    task = bench.feed(options=LISTED)
    bench.fetch(moved="https://site/feed.xml")
    bench.pass_time(3)
    manager.end(given(manager)[0])
    assert bench.tasks.task(task).spec.args[0] == "https://site/feed.xml"


def test_a_poll_that_failed_does_not_make_older_content_its_own(bench: Listing) -> None:
    bench.site_says(notice(FEED))
    bench.fetch()
    manager = worker(bench)
    task = bench.feed(options=LISTED)
    assert FEED in bench.queued()
    bench.fail(403, "no")
    bench.pass_time(5)
    assert manager.given() == [] and bench.tasks.task(task).failures == 1


def test_a_killed_scheduler_repeats_the_number(bench: Listing) -> None:
    worker(bench)
    bench.feed(options=LISTED)
    bench.pass_time(2)
    bench.restart()
    manager = worker(bench)
    bench.fetch()
    bench.pass_time(3)
    job, _ = given(manager)
    manager.end(job, JobState.TEMPORARY)
    bench.restart()
    manager = worker(bench)
    bench.pass_time(120, 5)
    again, _ = given(manager)
    assert (again.id, again.attempt) == (job.id, 2)
    # Its sets are in the outbox when it is killed once more, and the UNS gets them twice.
    bench.site_says(notice(PAGE))
    bench.engine.background.clear()
    manager.end(again, effects=Effects(notices=listed(PAGE, op="delete")))
    bench.engine.background[:] = [lambda: bench.notices.tick()]
    bench.notices._store = bench.engine.store
    answer = bench.engine.store.answer_sets
    bench.engine.store.answer_sets = lambda *_: Deferred()  # type: ignore[method-assign]  # it is not heard
    bench.pass_time(2)
    bench.engine.store.answer_sets = answer  # type: ignore[method-assign]
    assert len(bench.told) == 1
    bench.restart()
    bench.pass_time(3)
    first, second = bench.told
    assert first == second and first.order == 1 and bench.drawn == 2
    assert bench.queued() == {PAGE: Source.TOLD}  # which was told after the poll had begun
    assert result_of(bench.engine.store.outbox(0, 10)) == []


def test_no_site_speaks_for_another(bench: Listing) -> None:
    docs = bench.queue.database.now(add_provider, Provider(0, ("http://site/docs/",), "hashed"))
    other = bench.queue.database.now(add_provider, Provider(0, ("http://other/",), "hashed other"))
    manager = worker(bench)
    bench.feed(options=LISTED)
    theirs = ("http://site/docs/a", "http://other/b")
    job = bench.read(manager, *listed(PAGE, *theirs), *listed("http://other/c", op="delete"))
    told = sorted((each.pid, each.source, each.order, [url["c"] for url in each.urls]) for each in bench.told)
    assert told == [
        (bench.queue.pid, Source.LISTED, 1, [PAGE]),
        (docs, Source.FEED, 0, [theirs[0]]),
        (other, Source.FEED, 0, [theirs[1]]),
    ]
    why = f"they are not those of provider {bench.queue.pid}, whose document names them"
    assert sorted(bench.log(job)) == [
        ("error", f"1 URLs are neither deleted nor retracted: {why}"),
        ("info", f"1 URLs go on as hints: {why}"),
        ("info", f"1 URLs go on as hints: {why}"),
    ]


@pytest.mark.parametrize("name", ["provider-gone", "bad-order"])
def test_words_that_are_refused_are_not_lost(bench: Listing, name: str) -> None:
    """The provider was removed in that moment; the counter was put back from a backup."""
    bench.rejects = [name]
    manager = worker(bench)
    bench.feed(options=LISTED)
    job = bench.read(manager, *listed(PAGE))
    assert [(each.source, each.order) for each in bench.told] == [(Source.LISTED, 1), (Source.FEED, 0)]
    [(level, text)] = bench.log(job)
    assert level == "info" and text.startswith("1 URLs go on as hints: not the own words of provider")
    assert bench.queued() == {PAGE: Source.FEED}


def test_another_provider_of_the_feed_has_numbers_of_its_own(bench: Listing) -> None:
    """Its site was registered anew while it was fetched: the number of its poll is that of the one before."""
    manager = worker(bench)
    bench.feed(options=LISTED)
    bench.queue.database.now(order_removal, bench.queue.pid)
    before, bench.queue.pid = bench.queue.pid, bench.queue.add_provider()
    bench.drawn = 40
    bench.pass_time(1300, 10)
    bench.until_polled()
    bench.read(manager, *listed(PAGE))
    assert [(each.pid, each.order > 40) for each in bench.told] == [(bench.queue.pid, True)] and before != 0


def test_a_feed_that_is_listed_no_longer_gives_hints_again(bench: Listing) -> None:
    from lcc.storage.tasks import orders

    manager = worker(bench)
    task = bench.feed(options=LISTED)
    bench.read(manager, *listed(PAGE))
    bench.order(orders.TASK_SET, task, spec={"args": [FEED, "--full-content"]})
    bench.pass_time(1300, 10)
    job, _ = given(manager)
    manager.end(job, effects=Effects(notices=(JobNotice("http://site/new", "feed"),)))
    bench.pass_time(3)
    assert bench.drawn == 1
    assert bench.told[-1].source == Source.FEED
