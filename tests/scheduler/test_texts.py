"""Jobs for the text of pages that items of feeds lead to, with real tables of both databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcc.domain.tasks.items import ItemRules, identify
from lcc.model.feed_options import FeedOptions, feed_args
from lcc.model.feeds import FeedItem, PageText
from lcc.model.items import as_json, item_object, text_object
from lcc.model.polled import PolledContent
from lcc.model.tasks import DueJob, JobSpec
from lcc.roles.scheduler import texts
from lcc.roles.scheduler.texts import Texts
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.maintenance.repair import JUMP
from lcc.storage.tasks.feeds.items import ItemStore
from lcc.storage.tasks.jobs.text_jobs import pages_changed
from lcc.storage.tasks.orders import TASK_SET
from tests.support.cache import Cache
from tests.support.databases import Backend, DirectDatabase
from tests.support.tasks import NOW, Tasks, sqlite_tasks

SITE = "http://a.example.org/"
_EVERY = 5


class World:
    """A cache, tasks, and what makes texts."""

    def __init__(self, main: DirectDatabase, database: DirectDatabase) -> None:
        self.cache = Cache(main)
        self.tasks = Tasks(database)
        self.database = database
        self.made: list[DueJob] = []
        self.texts = self.another()

    def another(self) -> Texts:
        return Texts(self.tasks.store, self.cache.database, lambda: NOW, self.made.extend)  # type: ignore[arg-type]  # stands in

    def feed(self, full_content: bool = True) -> int:
        args = feed_args(f"{SITE}feed", FeedOptions(full_content=full_content))
        return self.tasks.add(spec=JobSpec("feed", args=args))

    def items(self, task: int, *links: str) -> None:
        items = [FeedItem(id=link, link=link) for link in links]
        objects = [
            item_object(item.record(), identity, digest, "") for identity, digest, item in identify(items, "id")
        ]
        self.database.now(ItemStore(ItemRules()).store, task, 1, "", [as_json(each) for each in objects], NOW)

    def follow(self) -> list[list[Any]]:
        """The arguments of new jobs."""
        del self.made[:]
        for _ in range(_EVERY):
            self.texts.tick()
        jobs = [self.tasks.job(each.id) for each in self.made]
        assert all(job.spec.kind == "text" and job.task == 0 for job in jobs)
        return [list(job.spec.args) for job in jobs]


@pytest.fixture
def world(backend: Backend, tmp_path: Path) -> Iterator[World]:
    main = DirectDatabase(backend.url, backend.home)
    database = sqlite_tasks(backend.home) if backend.kind == "sqlite" else main
    world = World(main, database)
    world.cache.clear()
    main.now(_provider)
    yield world
    main.blocking.close()
    database.blocking.close()


def _provider(txn: Any) -> None:
    from lcc.config import WatchedConfig
    from lcc.storage.providers.watched import find_or_make_watched

    find_or_make_watched(txn, SITE, WatchedConfig())


def pid_of(world: World) -> int:
    return int(world.cache.database.query("SELECT MAX(pid) FROM pidb")[0][0])


def test_a_page_that_is_cached_after_its_item(world: World) -> None:
    feed = world.feed()
    world.follow()
    world.items(feed, f"{SITE}1", f"{SITE}2")
    assert world.follow() == []
    world.cache.put(pid_of(world), f"{SITE}1", charset="utf-8")
    world.cache.put(pid_of(world), f"{SITE}other")
    [(url, task, identity)] = world.follow()
    assert (url, task, len(identity)) == (f"{SITE}1", str(feed), 32)
    given = json.loads(world.database.query("SELECT input FROM jobs WHERE kind = 'text'")[0][0])
    assert given["content_type"] == "text/html; charset=utf-8" and given["file"] == 1
    assert world.follow() == []


def test_pages_after_the_database_was_put_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their numbers have jumped: what lies between is not looked through."""
    reads: list[int] = []

    def counted(txn: Txn, after: int, upto: int) -> list[PolledContent]:
        reads.append(after)
        assert len(reads) < 20, "it looks through numbers that were never given"
        return pages_changed(txn, after, upto)

    feed = world.feed()
    world.follow()
    world.items(feed, f"{SITE}1")
    world.cache.put(pid_of(world), f"{SITE}other")
    assert world.follow() == []
    world.cache.change += JUMP
    world.cache.put(pid_of(world), f"{SITE}1")
    monkeypatch.setattr(texts, "pages_changed", counted)
    assert len(world.follow()) == 1 and reads


def test_a_page_that_was_cached_before_its_item(world: World) -> None:
    feed = world.feed()
    world.cache.put(pid_of(world), f"{SITE}1")
    world.follow()
    world.items(feed, "HTTP://A.example.org:80/1", "http://nobody.example.org/", "mailto:x")
    [(url, task, _)] = world.follow()
    assert (url, task) == (f"{SITE}1", str(feed))


def test_only_pages_of_feeds_that_want_it(world: World) -> None:
    feed = world.feed(full_content=False)
    world.items(feed, f"{SITE}1")
    world.cache.put(pid_of(world), f"{SITE}1")
    assert world.follow() == []
    # It is wanted now, for what comes.
    wanting = world.feed()
    assert world.follow() == []
    world.items(wanting, f"{SITE}1")
    assert [each[1] for each in world.follow()] == [str(wanting)]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_feeds_that_want_none_cost_nothing(world: World) -> None:
    def steps() -> int:
        """Of SQLite's machine, in tens."""
        connection = world.database.blocking._holder.connect()
        seen: list[None] = []
        connection.set_progress_handler(lambda: seen.append(None), 10)
        assert world.follow() == []
        connection.set_progress_handler(None, 0)
        return len(seen)

    world.feed(full_content=False)
    world.follow()
    few = steps()
    for _ in range(200):
        world.feed(full_content=False)
    assert steps() <= few
    wanting = world.feed()
    world.follow()
    world.items(wanting, f"{SITE}1")
    one = steps()
    for _ in range(200):
        world.feed()
    world.items(wanting, f"{SITE}2")
    assert steps() <= one + 2


def test_a_feed_whose_options_change(world: World) -> None:
    feed = world.feed(full_content=False)
    world.follow()
    world.tasks.order(TASK_SET, feed, spec={"args": [f"{SITE}feed", "--full-content"]})
    world.follow()
    world.items(feed, f"{SITE}1")
    world.cache.put(pid_of(world), f"{SITE}1")
    assert [each[1] for each in world.follow()] == [str(feed)]
    world.tasks.order(TASK_SET, feed, spec={"args": [f"{SITE}feed"]})
    world.items(feed, f"{SITE}2")
    world.cache.put(pid_of(world), f"{SITE}2")
    assert world.follow() == []


def test_pictures_have_no_text(world: World) -> None:
    feed = world.feed()
    world.follow()
    world.items(feed, f"{SITE}1")
    world.cache.put(pid_of(world), f"{SITE}1", "image/png")
    assert world.follow() == []


def test_a_text_that_is_there_is_not_made_again(world: World) -> None:
    feed = world.feed()
    world.follow()
    world.items(feed, f"{SITE}1")
    world.cache.put(pid_of(world), f"{SITE}1")
    world.follow()
    [(given,)] = world.database.query("SELECT input FROM jobs WHERE kind = 'text'")
    page = json.loads(given)
    stored = as_json(text_object(page["key"], page["md5"], PageText("T", "text")))
    world.database.now(ItemStore(ItemRules()).store, 0, 1, page["key"], [stored], NOW)
    world.database.now(lambda txn: txn.execute("DELETE FROM jobs"))
    # Followed once more, as after a restored backup.
    world.database.now(lambda txn: txn.execute("UPDATE schedulerfence SET value = 0 WHERE name LIKE 'text%'"))
    world.texts = world.another()
    assert world.follow() == []
    # Changed content is.
    world.cache.put(pid_of(world), f"{SITE}1")
    assert len(world.follow()) == 1


def test_a_restart_goes_on_where_it_was(world: World) -> None:
    feed = world.feed()
    world.follow()
    world.items(feed, f"{SITE}1")
    world.cache.put(pid_of(world), f"{SITE}1")
    assert len(world.follow()) == 1
    world.cache.put(pid_of(world), f"{SITE}1")
    world.texts = world.another()
    assert len(world.follow()) == 1
    world.texts = world.another()
    assert world.follow() == []


def test_the_text_of_a_page_that_is_gone_goes_with_it(world: World) -> None:
    feed = world.feed()
    world.follow()
    world.items(feed, f"{SITE}1", f"{SITE}2")
    for name in ("1", "2"):
        world.cache.put(pid_of(world), f"{SITE}{name}")
    assert len(world.follow()) == 2
    for (given,) in world.database.query("SELECT input FROM jobs WHERE kind = 'text'"):
        page = json.loads(given)
        stored = as_json(text_object(page["key"], page["md5"], PageText("T", "text")))
        world.database.now(ItemStore(ItemRules()).store, 0, 1, page["key"], [stored], NOW)
    gone, kept = sorted(bytes(key) for (key,) in world.database.query("SELECT urlkey FROM texts"))
    world.cache.database.now(lambda txn: txn.execute("DELETE FROM lccurl WHERE urlkey = ?", [gone]))
    world.texts = world.another()
    world.follow()
    assert [bytes(key) for (key,) in world.database.query("SELECT urlkey FROM texts")] == [kept]
    # It comes back as it was: its text is made again.
    assert world.database.query("SELECT COUNT(*) FROM jobs WHERE dedup IS NULL AND kind = 'text'") == [(1,)]


def test_texts_wait_while_too_many_jobs_are_open(world: World) -> None:
    feed = world.feed()
    world.follow()
    world.items(feed, f"{SITE}1")
    world.cache.put(pid_of(world), f"{SITE}1")
    sql = "UPDATE schedulerfence SET value = value + ? WHERE name = 'open'"
    world.database.now(lambda txn: txn.execute(sql, [1000]))
    assert world.follow() == []
    world.database.now(lambda txn: txn.execute(sql, [-1000]))
    assert len(world.follow()) == 1
