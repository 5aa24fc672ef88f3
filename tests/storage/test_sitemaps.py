"""What follows from what sitemaps list, on each backend."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from lcc.domain.keys import url_key
from lcc.domain.tasks.rules import TaskRules
from lcc.feeds.faults import FeedFault
from lcc.feeds.sitemap_worker import read_sitemap
from lcc.model.polled import PolledContent
from lcc.model.sitemaps import INDEX_OPTION, index_of, level_of
from lcc.model.tasks import Effects, JobSpec, JobState, StartedJob
from lcc.storage.tasks.orders import SITEMAP_CONFIRM, TASK_REMOVE
from lcc.storage.tasks.polling import sitemaps
from lcc.storage.tasks.polling.polls import Asked, Found, Poll
from lcc.storage.tasks.polling.sitemaps import Gone, documents_of, gone_of
from lcc.workers.api import Job
from tests.support.databases import result_of
from tests.support.sitemaps import Said, capable, changed, pages, resync, urlset
from tests.support.tasks import NOW, Tasks, task_database

URL = "http://h.example/sitemap.xml"
PID = 7


class Sitemaps(Tasks):
    """Sitemaps that are read.

    :ivar drawn: the order number that was drawn last.
    """

    drawn = 0
    now = NOW
    pid = PID

    def sitemap(self, url: str = URL) -> int:
        return self.add(spec=JobSpec("sitemap", args=(url,)))

    def poll_of(self, task: int) -> Poll:
        [poll] = [each for each in self.due_polls(NOW + 10**7) if each.task.id == task]
        return poll

    def begin(self, task: int) -> StartedJob:
        """A job of what a poll has found."""
        self.now += 10
        self.drawn += 1
        url = self.task(task).spec.args[0]
        key = url_key(self.pid, url, "")
        self.ask([Asked(self.poll_of(task), self.pid, key, self.drawn)], self.now)
        poll = self.poll_of(task)
        content = PolledContent(url, 1, 2, 3, "ab" * 16, key.hex())
        making = self.store.make_found_jobs([Found(poll, poll.seen + 1, content, poll.order)], self.now)
        [job] = self.start(*result_of(Deferred.fromCoroutine(making)), now=self.now)
        return job

    def read(self, task: int, document: str) -> list[tuple[str, str, str]]:
        """A poll of this task finds the document; what is notified of then."""
        job = self.begin(task)
        said = Said()
        args = self.task(task).spec.args
        read_sitemap(cast(Job, said), io.BytesIO(document.encode()), args[0], job.data, level_of(args))
        items = tuple(json.dumps(each) for each in said.stored)
        self.told()
        self.end(job, now=self.now, effects=Effects(items=items, data=said.data))
        assert self.job(job.id).state is JobState.COMPLETED, self.job(job.id).message
        return self.told()

    def told(self) -> list[tuple[str, str, str]]:
        """New words of the outbox: operation, URL, time; forgotten then."""
        sets = [each for each in result_of(self.store.outbox(0, 1000)) if each.source == "listed"]
        assert all((each.pid, each.order) != (0, 0) for each in sets)
        self.database.now(lambda txn: txn.execute("DELETE FROM tasknotices"))
        return sorted((url.get("op", "update"), url["c"], url.get("mtime", "")) for each in sets for url in each.urls)

    def retracted(self) -> list[str]:
        result_of(self.store.retract_gone(self.now))
        return [url for op, url, _ in self.told() if op == "retract"]

    def gone(self, task: int) -> Gone:
        return self.database.blocking.interact(gone_of, TaskRules(), task)

    def documents(self, index: int) -> list[int]:
        return [task.id for task in self.database.blocking.select(documents_of, index)]


@pytest.fixture
def tasks(backend: Any) -> Iterator[Sitemaps]:
    tasks = Sitemaps(task_database(backend))
    yield tasks
    tasks.database.blocking.close()


def new(*names: object, time: str = "") -> list[tuple[str, str, str]]:
    return sorted(("update", url, time) for url in pages(*names))


def index(*names: str) -> str:
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc></sitemap>' for url in pages(*names))}</sitemapindex>"


def test_what_is_new_changed_and_gone(tasks: Sitemaps) -> None:
    task = tasks.sitemap()
    assert tasks.read(task, urlset(*pages(1, 2, 3), lastmod="2026-01-01")) == new(1, 2, 3, time="1767225600")
    assert tasks.read(task, urlset(*pages(1, 2, 3), lastmod="2026-01-01")) == []
    assert tasks.read(task, urlset(*pages(1, 2, 4))) == new(1, 2, 4)
    assert tasks.gone(task) == Gone(3, 1)
    assert tasks.retracted() == pages(3)
    assert tasks.retracted() == [] and tasks.gone(task) == Gone(3)
    # One that comes back is new again, also before it was retracted.
    assert tasks.read(task, urlset(*pages(1, 2))) == []
    assert tasks.read(task, urlset(*pages(1, 2, 3, 4))) == new(3, 4)
    assert tasks.retracted() == []


def test_a_reading_that_fails_retracts_nothing(tasks: Sitemaps) -> None:
    task = tasks.sitemap()
    tasks.read(task, urlset(*pages(1, 2)))
    job = tasks.begin(task)
    tasks.commit(job, 1, Effects(items=('{"sitemap": {"bucket": 1, "urls": ""}}',)))
    tasks.end(job, JobState.PERMANENT, now=tasks.now)
    assert tasks.retracted() == []


def test_half_of_a_site_goes_only_with_the_operators_word(tasks: Sitemaps) -> None:
    task = tasks.sitemap()
    tasks.read(task, urlset(*pages(*range(300))))
    tasks.read(task, urlset(*pages(*range(100))))
    assert tasks.gone(task) == Gone(100, 200, held=True)
    assert tasks.retracted() == []
    # Some of it comes back, and it still is too much; what is new is told all the same.
    assert len(tasks.read(task, urlset(*pages(*range(110), "new")))) == 11
    assert tasks.gone(task).held and tasks.retracted() == []
    assert tasks.order(SITEMAP_CONFIRM, task) == {"task": task, "urls": 190}
    assert tasks.retracted() == sorted(pages(*range(110, 300)))
    # The next one is held again.
    tasks.read(task, urlset(*pages(*range(300))))
    tasks.read(task, urlset(*pages(*range(10))))
    assert tasks.gone(task).held


def test_held_deletions_that_come_back_are_forgotten(tasks: Sitemaps) -> None:
    task = tasks.sitemap()
    tasks.read(task, urlset(*pages(*range(300))))
    tasks.read(task, urlset(*pages(0)))
    assert tasks.gone(task).held
    assert len(tasks.read(task, urlset(*pages(*range(290))))) == 289
    assert tasks.gone(task) == Gone(290, 10) and len(tasks.retracted()) == 10


def test_what_another_document_still_lists_stays(tasks: Sitemaps) -> None:
    first, second = tasks.sitemap(), tasks.sitemap("http://h.example/other.txt")
    tasks.read(first, urlset(*pages(1, 2, 3)))
    tasks.read(second, "\n".join(pages(2, 5)))
    tasks.read(first, urlset(*pages(3)))
    assert tasks.retracted() == pages(1)


def test_an_index_and_its_documents(tasks: Sitemaps) -> None:
    top = tasks.sitemap()
    tasks.read(top, index("a.xml", "b.xml"))
    a, b = tasks.documents(top)
    assert tasks.task(a).spec.args == ("http://h.example/a.xml", INDEX_OPTION, str(top))
    assert tasks.task(b).when == tasks.task(top).when
    assert tasks.read(a, urlset(*pages(1, 2))) == new(1, 2)
    assert tasks.read(b, urlset(*pages(3, 4))) == new(3, 4)
    # A URL moves on to the next document: until that is polled it is not known whether it has gone.
    assert tasks.read(a, urlset(*pages(0, 1))) == new(0)
    assert tasks.gone(top) == Gone(4, 1, waits=True) and tasks.retracted() == []
    assert tasks.read(b, urlset(*pages(2, 3))) == new(2)
    assert tasks.retracted() == []
    tasks.read(a, urlset(*pages(0, 1)))
    assert tasks.retracted() == pages(4)
    # A document that is listed no longer goes with what it lists.
    tasks.read(top, index("b.xml", "c.xml"))
    assert tasks.documents(top)[0] == b and len(tasks.documents(top)) == 2
    tasks.read(b, urlset(*pages(2, 3)))
    assert tasks.gone(top).waits
    tasks.read(tasks.documents(top)[1], urlset(*pages(1)))
    assert tasks.retracted() == pages(0)
    assert tasks.database.query("SELECT COUNT(*) FROM sitemaps") == [(3,)]


def test_a_document_that_cannot_be_read_holds_nothing_up(tasks: Sitemaps) -> None:
    top = tasks.sitemap()
    tasks.read(top, index("a.xml", "b.xml"))
    a, b = tasks.documents(top)
    tasks.read(a, urlset(*pages(1, 2)))
    tasks.end(tasks.begin(b), JobState.PERMANENT, now=tasks.now)
    tasks.read(a, urlset(*pages(1)))
    assert tasks.retracted() == pages(2)


def test_a_sitemap_that_becomes_an_index_and_back(tasks: Sitemaps) -> None:
    task = tasks.sitemap()
    tasks.read(task, urlset(*pages(1, 2)))
    tasks.read(task, index("a.xml"))
    [child] = tasks.documents(task)
    assert tasks.read(child, urlset(*pages(1))) == new(1)
    assert tasks.retracted() == pages(2)
    assert tasks.read(task, urlset(*pages(1, 2))) == new(1, 2)
    assert tasks.documents(task) == [] and tasks.retracted() == []


def test_a_removed_sitemap_is_retracted_whatever_its_size(tasks: Sitemaps) -> None:
    top = tasks.sitemap()
    tasks.read(top, index("a.xml"))
    [child] = tasks.documents(top)
    tasks.read(child, urlset(*pages(*range(300))))
    tasks.order(TASK_REMOVE, top)
    assert sorted(tasks.retracted()) == sorted(pages(*range(300)))
    for table in ("sitemaps", "sitemapurls", "tasks"):
        assert tasks.database.query(f"SELECT COUNT(*) FROM {table}") == [(0,)]


def test_another_provider_of_the_site_hears_of_all_of_it(tasks: Sitemaps) -> None:
    task = tasks.sitemap()
    tasks.read(task, urlset(*pages(1, 2)))
    tasks.pid = 9
    assert tasks.read(task, urlset(*pages(1, 2))) == []
    assert tasks.read(task, urlset(*pages(1, 2))) == new(1, 2)
    assert tasks.retracted() == []


def test_a_job_that_stores_something_else(tasks: Sitemaps) -> None:
    job = tasks.begin(tasks.sitemap())
    tasks.end(job, now=tasks.now, effects=Effects(items=('{"item": {"id": "x"}}',)))
    assert "'sitemap' only" in tasks.job(job.id).message


def test_more_urls_than_a_site_may_have(tasks: Sitemaps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.storage.tasks.polling.sitemaps.SITE_URLS_MAX", 5)
    top = tasks.sitemap()
    tasks.read(top, index("a.xml", "b.xml"))
    first, second = tasks.documents(top)
    assert tasks.read(first, urlset(*pages(1, 2, 3))) == new(1, 2, 3)
    with pytest.raises(AssertionError, match="list 6 URLs: 5 are allowed"):
        tasks.read(second, urlset(*pages(4, 5, 6)))
    assert tasks.told() == []


# ResourceSync.


def published(tasks: Sitemaps) -> tuple[int, int, int]:
    """A source: its task, those of its resource list and its change list."""
    top = tasks.sitemap("http://h.example/.well-known/resourcesync")
    assert tasks.read(top, resync("description", capable("caps", "capabilitylist"))) == []
    [caps] = tasks.documents(top)
    lists = (capable("list", "resourcelist"), capable("changes", "changelist"), capable("dump", "resourcedump"))
    assert tasks.read(caps, resync("capabilitylist", *lists)) == []
    _, resources, changes = tasks.documents(top)
    return top, resources, changes


def test_a_source_of_resourcesync(tasks: Sitemaps) -> None:
    top, resources, changes = published(tasks)
    listed = urlset(*pages(1, 2, 3), lastmod="2026-01-01")
    assert tasks.read(resources, listed) == new(1, 2, 3, time="1767225600")
    said = [
        changed(1, "updated", "2026-01-02T00:00:00Z"),
        changed(2, "deleted", "2026-01-02T00:00:01Z"),
        changed(4, "created", "2026-01-02T00:00:02Z", lastmod="2026-01-01"),
        changed(5, "created", "2026-01-02T00:00:02Z"),
        changed(5, "deleted", "2026-01-02T00:00:03Z"),
    ]
    stamps = [("update", *pages(1), "1767312000"), ("update", *pages(4), "1767225600")]
    assert tasks.read(changes, resync("changelist", *said)) == stamps
    assert sorted(tasks.retracted()) == pages(2, 5), "at once, though the resource list has them still"
    assert tasks.read(changes, resync("changelist", *said)) == [] == tasks.retracted()
    # What is named no longer stays; what is deleted once more, or comes back, is news.
    said = [changed(2, "created", "2026-01-03T00:00:00Z"), changed(5, "deleted", "2026-01-03T00:00:00Z")]
    assert tasks.read(changes, resync("changelist", *said)) == [("update", *pages(2), "1767398400")]
    assert tasks.retracted() == pages(5)
    assert tasks.read(changes, resync("changelist")) == [] == tasks.retracted()
    # The resource list follows.
    assert tasks.read(resources, urlset(*pages(1, 2, 4), lastmod="2026-01-01")) == new(4, time="1767225600")
    tasks.order(TASK_REMOVE, top)
    assert sorted(tasks.retracted()) == pages(1, 2, 3, 4)


def test_change_lists_that_disagree(tasks: Sitemaps) -> None:
    """Parts of a change list are read in any order: what one says is there is not deleted by another."""
    top = tasks.sitemap("http://h.example/changes")
    parts = [f"<sitemap><loc>{url}</loc></sitemap>" for url in pages("new", "old")]
    assert tasks.read(top, resync("changelist", *parts, root="sitemapindex")) == []
    later, earlier = tasks.documents(top)
    tasks.read(later, resync("changelist", changed(1, "created", "2026-01-03")))
    tasks.read(
        earlier, resync("changelist", changed(1, "deleted", "2026-01-02"), changed(2, "deleted", "2026-01-02"))
    )
    assert tasks.retracted() == pages(2)
    # A part that goes has said nothing against what it names.
    assert tasks.read(top, resync("changelist", parts[1], root="sitemapindex")) == []
    assert tasks.documents(top) == [earlier] and tasks.retracted() == []


def test_an_index_of_other_documents_looks_at_each_once(tasks: Sitemaps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has a site says what its index lists: that must not hold up the scheduler."""
    top = tasks.sitemap()
    tasks.read(top, index(*(f"a{number}" for number in range(50))))
    looked = []
    monkeypatch.setattr(sitemaps, "index_of", lambda args: looked.append(args) or index_of(args))
    tasks.read(top, index(*(f"b{number}" for number in range(50))))
    assert len(tasks.documents(top)) == 50 and len(looked) < 150


def test_too_many_deletions_of_a_change_list_are_held(tasks: Sitemaps) -> None:
    top, resources, changes = published(tasks)
    tasks.read(resources, urlset(*pages(*range(300))))
    tasks.read(changes, resync("changelist", *[changed(number, "deleted", "2026-01-02") for number in range(290)]))
    assert tasks.retracted() == [] and tasks.gone(top).held
    tasks.order(SITEMAP_CONFIRM, top)
    assert len(tasks.retracted()) == 290


def test_documents_list_only_what_is_below_them(tasks: Sitemaps) -> None:
    top = tasks.sitemap("http://h.example/.well-known/resourcesync")
    tasks.read(top, resync("description", capable("caps", "capabilitylist")))
    [caps] = tasks.documents(top)
    again = resync("capabilitylist", capable("caps2", "capabilitylist"))
    tasks.read(caps, again)
    inner = tasks.documents(top)[1]
    with pytest.raises(FeedFault, match="may be no capability list itself"):
        tasks.read(inner, again)


def test_a_capability_list_that_goes_takes_its_lists_along(tasks: Sitemaps) -> None:
    top, resources, changes = published(tasks)
    tasks.read(resources, urlset(*pages(1)))
    tasks.read(changes, resync("changelist", changed(2, "created", "2026-01-02")))
    tasks.read(top, resync("description", capable("other", "capabilitylist")))
    assert tasks.documents(top) == [max(resources, changes) + 1]
    tasks.read(tasks.documents(top)[0], resync("capabilitylist", capable("l", "resourcelist")))
    tasks.read(tasks.documents(top)[1], urlset(*pages(9)))
    assert tasks.retracted() == pages(1)
