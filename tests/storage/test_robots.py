"""Hints wait until the robots.txt of their site is known, on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lcc.domain.tasks.items import ItemRules
from lcc.domain.tasks.rules import TaskRules
from lcc.errors import code
from lcc.model.items import as_json
from lcc.model.states import SiteRobots
from lcc.model.tasks import Effects, JobNotice
from lcc.storage.tasks.feeds.items import ItemStore
from lcc.storage.tasks.orders import ROBOTS_AGAIN
from lcc.storage.tasks.polling import robots
from lcc.storage.tasks.polling.robots import EVERY_SECONDS
from lcc.storage.tasks.views import tasks_page
from lcc.storage.tasks.write import TaskWrite
from tests.support.databases import result_of
from tests.support.tasks import NOW, Tasks, task_database
from tests.support.tasks import robots_known_as as known

TEXT = "User-agent: *\nDisallow: /no\n"


@pytest.fixture
def tasks(backend: Any) -> Iterator[Tasks]:
    database = task_database(backend)
    tasks = Tasks(database)
    tasks.items = ItemStore(ItemRules())  # type: ignore[assignment]  # the real one
    tasks.store = tasks.another_store()
    result_of(tasks.store.claim())
    yield tasks
    database.blocking.close()


def notify(tasks: Tasks, *notices: JobNotice) -> int:
    """A job that notifies of these; its id."""
    tasks.add(every=10**6)
    [due] = [each for each in tasks.make() if each.kind == "command"]
    [job] = tasks.start(due)
    tasks.end(job, effects=Effects(notices=notices))
    return job.id


def logged_of(tasks: Tasks, job: int) -> list[tuple[str, str]]:
    return [(level, text) for _, level, text in tasks.log(job) if level != "end"]


def told(tasks: Tasks) -> list[tuple[str, str, list[str]]]:
    sets = result_of(tasks.store.outbox(0, 100))
    return [(each.root, each.source, [url["c"] for url in each.urls]) for each in sets]


def hint(path: str, host: str = "a", source: str = "feed") -> JobNotice:
    return JobNotice(f"http://{host}/{path}", source)


def test_the_first_hint_of_a_site_has_its_robots_txt_polled(tasks: Tasks) -> None:
    notify(tasks, hint("1"), hint("no"), hint("x", "b", "link"), JobNotice("http://c/", "link", "retract"))
    # What takes a hint back needs no leave.
    assert told(tasks) == [("http://c/", "link", ["http://c/"])]
    polled = tasks.database.blocking.select(tasks_page, 0, "robots")
    assert sorted(each.spec.args for each in polled) == [("http://a/robots.txt",), ("http://b/robots.txt",)]
    assert all(each.due_time == NOW for each in polled)
    known(tasks, TEXT, "rules", 200)
    assert told(tasks)[1:] == [("http://a/", "feed", ["http://a/1"])]
    # From now on at once, and once only.
    notify(tasks, hint("2"), hint("no/3"))
    assert told(tasks)[2:] == [("http://a/", "feed", ["http://a/2"])]
    assert len(tasks.database.blocking.select(tasks_page, 0, "robots")) == 2
    assert tasks.database.query("SELECT COUNT(*) FROM heldnotices WHERE origin = 'http://a/'") == [(0,)]


def test_what_could_not_be_read_is_asked_for_again_at_once_where_somebody_wants_that(tasks: Tasks) -> None:
    notify(tasks, hint("1"))
    [task] = tasks.database.blocking.select(tasks_page, 0, "robots")
    forbidden = code("address-forbidden")
    known(tasks, "", "none", forbidden)
    tasks.database.now(lambda txn: txn.execute("UPDATE tasks SET due_time = ? WHERE id = ?", [NOW + 3600, task.id]))

    def asked() -> tuple[list[str], SiteRobots, int]:
        refused = tasks.database.now(robots.refused_robots, forbidden, 10)
        [due] = [each.due_time for each in tasks.database.blocking.select(tasks_page, 0, "robots")]
        return refused, tasks.database.now(robots.read_robots, ["http://a/"])["http://a/"], due

    assert asked() == (["http://a/"], SiteRobots("http://a/", "none", checked_time=NOW), NOW + 3600)
    origins = ["http://a/", "http://nobody/"]
    assert tasks.order(ROBOTS_AGAIN, origins=origins, after_seconds=3, now=NOW + 6) == {"tasks": [task.id]}
    assert asked() == ([], SiteRobots("http://a/"), NOW + 9)
    known(tasks, TEXT, "rules", 200)
    assert tasks.order(ROBOTS_AGAIN, origins=origins, after_seconds=3, now=NOW + 7) == {"tasks": []}, (
        "it could be read"
    )
    assert told(tasks) == [("http://a/", "feed", ["http://a/1"])]


def test_a_host_whose_name_is_too_long_is_left_out(tasks: Tasks) -> None:
    """It has no room in the tables, and must not keep the ending of its job from being recorded."""
    job = notify(tasks, hint("x", "a" * 300), hint("1"))
    assert tasks.database.query("SELECT origin FROM robots") == [("http://a/",)]
    assert tasks.database.query("SELECT origin FROM heldnotices") == [("http://a/",)]
    [(level, text)] = logged_of(tasks, job)
    assert level == "warn" and text.startswith("1 URLs of a host whose name is too long are left out: http://aaa")


def test_a_site_without_robots_txt_allows_everything(tasks: Tasks) -> None:
    notify(tasks, hint("no"))
    known(tasks, "", TaskRules().robots_in_place(404), 404)
    assert told(tasks) == [("http://a/", "feed", ["http://a/no"])]


def test_a_site_whose_robots_txt_cannot_be_had_allows_nothing_for_now(tasks: Tasks) -> None:
    notify(tasks, hint("1"))
    known(tasks, "", TaskRules().robots_in_place(503), 503)
    job = notify(tasks, hint("no"), hint("3"))
    assert told(tasks) == []
    text = "2 URLs of http://a/ wait: its robots.txt could not be read (503); it is asked for again"
    assert logged_of(tasks, job) == [("info", text)]
    known(tasks, TEXT, "rules", 200)
    assert told(tasks) == [("http://a/", "feed", ["http://a/1"]), ("http://a/", "feed", ["http://a/3"])]
    assert logged_of(tasks, job)[1:] == [("info", "robots.txt forbids 1 of 2 URLs of http://a/")]
    # Rules that were read once hold while it is away.
    known(tasks, "", "none", 503, NOW + 5)
    notify(tasks, hint("2"), hint("no"))
    assert told(tasks)[2:] == [("http://a/", "feed", ["http://a/2"])]


def test_a_hint_does_not_wait_for_ever(tasks: Tasks) -> None:
    job = notify(tasks, hint("1"))
    result_of(tasks.store.purge_page(NOW + 8 * 86400, 10**9, 400))
    known(tasks, TEXT, "rules", 200)
    assert told(tasks) == []
    text = "1 URLs of http://a/ are left out: its robots.txt could not be read for a week"
    assert logged_of(tasks, job) == [("warn", text)]


def test_no_more_hints_wait_than_may(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "HELD_MAX", 2)
    job = notify(tasks, hint("1"), hint("2"), hint("3"))
    assert logged_of(tasks, job) == [("warn", "1 URLs of http://a/ are left out: 2 wait for its robots.txt already")]
    known(tasks, "User-agent: *\nDisallow: /2", "rules", 200)
    assert told(tasks) == [("http://a/", "feed", ["http://a/1"])]
    assert logged_of(tasks, job)[1:] == [("info", "robots.txt forbids 1 of 2 URLs of http://a/")]


def test_a_job_names_new_sites_without_end(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody's feed may: they need not even exist."""
    monkeypatch.setattr(robots, "NEW_SITES_MAX", 2)
    monkeypatch.setattr(robots, "UNREAD_SITES_MAX", 3)
    job = notify(tasks, hint("1", "a"), hint("1", "b"), hint("1", "c"), hint("2", "c"))
    bounds = "there may be 2 of a task a day, and 3 that wait for their robots.txt"
    assert logged_of(tasks, job) == [("warn", f"2 URLs of 1 new sites are left out: {bounds}")]
    # Sites that are known are no new ones.
    job = notify(tasks, hint("2", "a"), hint("2", "b"), hint("1", "d"), hint("1", "e"))
    assert logged_of(tasks, job) == [("warn", f"1 URLs of 1 new sites are left out: {bounds}")]
    known(tasks, TEXT, "rules", 200)
    assert told(tasks) == [("http://a/", "feed", ["http://a/1"]), ("http://a/", "feed", ["http://a/2"])]
    notify(tasks, hint("1", "f"), hint("1", "g"))
    origins = [origin for (origin,) in tasks.database.query("SELECT origin FROM robots ORDER BY task")]
    assert origins == ["http://a/", "http://b/", "http://d/", "http://f/"]


def test_a_feed_names_new_sites_at_each_poll(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs together have a bound: else it would soon have made all watched providers that may be."""
    monkeypatch.setattr(robots, "NEW_SITES_MAX", 3)
    task = tasks.add(every=3600)

    def poll(now: int, *hosts: str) -> list[str]:
        [job] = tasks.start(*[each for each in tasks.make(now) if each.kind == "command"], now=now)
        tasks.end(job, now=now, effects=Effects(notices=tuple(hint("1", host) for host in hosts)))
        return [text.split(":")[0] for _, text in logged_of(tasks, job.id)]

    assert task and poll(NOW, "a", "b") == []
    assert poll(NOW + 7200, "c", "d", "e") == ["2 URLs of 2 new sites are left out"]
    assert poll(NOW + 14_400, "a", "f") == ["1 URLs of 1 new sites are left out"]
    assert poll(NOW + 86_400 + 3600, "g", "h", "i") == ["1 URLs of 1 new sites are left out"]
    origins = {origin for (origin,) in tasks.database.query("SELECT origin FROM robots")}
    assert origins == {f"http://{host}/" for host in "abcgh"}


def test_sites_that_nobody_may_watch_are_forgotten_with_their_hints(tasks: Tasks) -> None:
    notify(tasks, hint("1", "a"), hint("1", "b"))
    later = NOW + 3 * 86400
    sql = "UPDATE tasks SET pid = 7 WHERE id = (SELECT task FROM robots WHERE origin = 'http://b/')"
    tasks.database.now(lambda txn: txn.execute(sql))
    tasks.add(later, every=10**6)
    [job] = tasks.start(*[each for each in tasks.make(later) if each.kind == "command"], now=later)
    tasks.end(job, now=later, effects=Effects(notices=(hint("2", "a"), hint("1", "c"))))
    result_of(tasks.store.purge_page(NOW + 8 * 86400, 10**9, 400))
    assert tasks.database.query("SELECT origin, url FROM heldnotices ORDER BY url") == [
        ("http://a/", "http://a/2"),
        ("http://c/", "http://c/1"),
    ]
    result_of(tasks.store.purge_page(NOW + 11 * 86400, 10**9, 400))
    # What is watched is polled as long as it is watched.
    assert tasks.database.query("SELECT origin FROM robots") == [("http://b/",)]
    assert len(tasks.database.blocking.select(tasks_page, 0, "robots")) == 1


def test_the_worker_of_robots_txt(tasks: Tasks) -> None:
    notify(tasks, hint("1"), hint("no"))
    [task] = tasks.database.blocking.select(tasks_page, 0, "robots")
    job = _job_of(tasks, task.id)
    tasks.end(job, effects=Effects(items=(as_json({"robots": TEXT}),)))
    assert told(tasks) == [("http://a/", "feed", ["http://a/1"])]
    assert tasks.task(task.id).when.every_seconds == EVERY_SECONDS


def _job_of(tasks: Tasks, task: int) -> Any:
    """A running job of a polled task, as a poll that has found something makes it."""
    from lcc.model.tasks import Job, JobSpec
    from lcc.storage.tasks.jobs.due import insert_job

    run = tasks.counters()["run"]
    made: list[Any] = []

    def work(txn: Any) -> None:
        write = TaskWrite(txn, run, NOW, 1000)
        job = Job(write.next("job"), JobSpec("robots"), task, scheduled_time=NOW, due_time=NOW, updated_time=NOW)
        made[:] = [insert_job(write, job, f"task/{task}")]
        write.save()

    tasks.database.now(work)
    [job] = tasks.start(*made)
    return job
