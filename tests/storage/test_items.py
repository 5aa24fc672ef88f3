"""Items, feeds and texts in their tables, on each backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lcc.domain.tasks.items import ItemRules, choose_policy, identify
from lcc.model.feeds import Body, FeedInfo, FeedItem, PageText
from lcc.model.items import as_json, feed_object, item_object, text_object
from lcc.model.tasks import Effects, ItemsStored, JobNotice
from lcc.storage.tasks.feeds.item_purge import PAGE_ROWS, Place, purge_items
from lcc.storage.tasks.feeds.item_views import (
    count_items,
    feeds_of,
    items_of_task,
    items_since,
    last_change,
    text_of_page,
)
from lcc.storage.tasks.feeds.items import SEEN_WITHIN_SECONDS, ItemStore
from lcc.storage.tasks.write import TaskWrite
from tests.support.databases import DirectDatabase, result_of
from tests.support.tasks import NOW, Tasks, task_database

DAY = 86400


class World:
    """A store of items, and feeds that are polled."""

    def __init__(self, database: DirectDatabase) -> None:
        self.database = database
        self.store = ItemStore(ItemRules())

    def put(
        self, objects: list[Any], task: int = 1, now: int = NOW, page: str = "", listed: bool = False
    ) -> ItemsStored:
        return self.database.now(self.store.store, task, 7, page, [as_json(each) for each in objects], now, listed)

    def poll(self, *items: FeedItem, task: int = 1, now: int = NOW, policy: str = "", **more: Any) -> ItemsStored:
        chosen = policy or choose_policy(items)
        found = identify(items, chosen) if chosen else []
        rows = [item_object(item.record(), identity, digest, item.link) for identity, digest, item in found]
        return self.put([feed_object(FeedInfo(title="F"), chosen), *rows], task, now, **more)

    def since(self, after: int = 0, tasks: Any = None, limit: int = 500) -> list[tuple[int, str]]:
        rows = self.database.blocking.interact(items_since, after, tasks, None, limit)
        return [(row.change, json.loads(row.record)["title"]) for row in rows]

    def page(self, now: int, kept: int, place: Place) -> Place | None:
        run = self.database.query("SELECT value FROM schedulerfence WHERE name = 'run'")[0][0]
        return self.database.now(lambda txn: purge_items(TaskWrite(txn, run, now, 1000), kept, place))

    def purge(self, now: int, kept: int) -> int:
        before = self.database.query("SELECT COUNT(*) FROM feeditems")[0][0]
        place: Place | None = Place()
        while place is not None:
            place = self.page(now, kept, place)
        return int(before - self.database.query("SELECT COUNT(*) FROM feeditems")[0][0])


@pytest.fixture
def world(backend: Any) -> Iterator[World]:
    database = task_database(backend)
    yield World(database)
    database.blocking.close()


def item(number: int, **others: Any) -> FeedItem:
    return FeedItem(**{"id": f"id{number}", "link": f"http://a/{number}", "title": f"t{number}", **others})


def test_what_a_site_lists_is_fetched_again_where_its_item_has_changed(world: World) -> None:
    """A hint only fetches what is not there; the own word of the site says that it is different now."""
    old, new = (FeedItem(id="1", title=title, link="http://a/1", text=title) for title in ("old", "new"))
    for listed, source in ((True, "listed"), (False, "feed")):
        task = 1 + listed
        assert world.poll(old, task=task, listed=listed).notices == (JobNotice("http://a/1", source),)
        assert world.poll(old, task=task, listed=listed).notices == ()
        again = world.poll(new, task=task, listed=listed)
        assert again.changed == 1 and again.notices == ((JobNotice("http://a/1", source),) if listed else ())


def test_new_changed_and_unchanged_items(world: World) -> None:
    first = world.poll(item(1), item(2))
    assert first == ItemsStored(2, 0, (JobNotice("http://a/1", "feed"), JobNotice("http://a/2", "feed")))
    assert world.poll(item(1), item(2)) == ItemsStored()
    changed = world.poll(item(3), item(2, summary=Body("other")), item(1), now=NOW + 60)
    assert changed == ItemsStored(1, 1, (JobNotice("http://a/3", "feed"),))
    assert world.since() == [(1, "t1"), (3, "t3"), (4, "t2")]
    assert world.since(1) == [(3, "t3"), (4, "t2")] and world.since(4) == []
    assert world.since(0, None, 1) == [(1, "t1")]
    assert world.database.blocking.interact(last_change) == 4
    (_, three, two) = world.database.blocking.interact(items_since, 0, None)
    assert (two.found_time, two.changed_time, three.found_time) == (NOW, NOW + 60, NOW + 60)


def test_tasks_do_not_share_items(world: World) -> None:
    world.poll(item(1), task=1)
    assert world.poll(item(1), task=2).new == 1
    assert world.since(0, {2}) == [(2, "t1")] and world.since(0, {1, 2}, 1) == [(1, "t1")]
    assert world.since(0, set()) == []
    (row,) = world.database.blocking.interact(items_of_task, 1, 10)
    assert world.database.blocking.interact(count_items, 1) == (1, len(row.record))
    (row,) = world.database.blocking.interact(items_of_task, 2, 10)
    assert (row.task, row.change) == (2, 2)


def test_ids_that_change_while_links_stay(world: World) -> None:
    world.poll(*(item(n) for n in range(4)))
    assert world.poll(*(item(n, id=f"x{n}") for n in range(4))) == ItemsStored()
    assert world.poll(item(0, id="y", title="T"), item(1, id="x1")) == ItemsStored(0, 1)
    assert world.since() == [(2, "t1"), (3, "t2"), (4, "t3"), (5, "T")]
    # They are known by the new ones.
    assert world.poll(item(0, id="y", title="T"), item(1, id="x1")) == ItemsStored()


def test_items_that_flap(world: World) -> None:
    versions = [item(1), item(1, summary=Body("advertisement"))]
    found = [world.poll(versions[n % 2]) for n in range(20)]
    assert [each.new + each.changed for each in found] == [1] * 5 + [0] * 15


def test_what_a_feed_says_of_itself(world: World) -> None:
    world.poll()
    feed = world.database.blocking.interact(feeds_of, [1, 2])[1]
    assert (feed.policy, feed.read_time, feed.changed_time) == ("", NOW, 0)
    world.poll(item(1), now=NOW + 1)
    world.poll(item(1), now=NOW + 2, policy="link")
    feed = world.database.blocking.interact(feeds_of, [1])[1]
    # What was decided first is kept.
    assert (feed.policy, feed.read_time, feed.changed_time) == ("id", NOW + 2, NOW + 1)
    assert json.loads(feed.record) == {"title": "F"}


def test_texts_of_pages(world: World) -> None:
    key = "ab" * 20
    world.put([text_object(key, "cd" * 16, PageText("T", "ä" * 100_000, "de", "lxml", True))], page=key)
    world.put([text_object(key, "ef" * 16, PageText("T2", "text", "", "plain"))], now=NOW + 1, page=key)
    found = world.database.blocking.interact(text_of_page, bytes.fromhex(key))
    assert found is not None
    assert found == (("ef" * 16), PageText("T2", "text", "", "plain"), NOW + 1)
    assert world.database.blocking.interact(text_of_page, b"x" * 20) is None
    for other in ("", "cd" * 20):
        with pytest.raises(ValueError, match="of its own page only"):
            world.put([text_object(key, "ef" * 16, PageText("T3", "text"))], page=other)


def test_items_of_any_worker(world: World) -> None:
    assert world.put([{"id": "1", "title": "a"}, {"title": "b"}], task=0).new == 2
    assert world.put([{"id": "1", "title": "A"}, {"title": "b"}], task=0) == ItemsStored(0, 1)
    assert [title for _, title in world.since()] == ["b", "A"]


def test_texts_of_all_alphabets_and_long_ones(world: World) -> None:
    title = "ä\u20ac\U0001f600'\"\\;-- %s ?"
    world.poll(item(1, title=title, content=Body("x" * 300_000)))
    assert world.since() == [(1, title)]


def test_what_makes_no_sense_is_refused(world: World) -> None:
    with pytest.raises(ValueError, match="stored object 2: it is no object"):
        world.put([{"title": "a"}, 7])
    assert world.since() == []


def test_a_transaction_that_is_run_again_changes_nothing(world: World) -> None:
    world.database.lose = 1
    objects = [as_json({"id": "1", "title": "a"})]
    result_of(world.database.write(world.store.store, 1, 7, "", objects, NOW))
    assert [title for _, title in world.since()] == ["a"]


def test_unchanged_items_are_rarely_written(world: World) -> None:
    world.poll(item(1), item(2))
    world.poll(item(1), item(2), now=NOW + SEEN_WITHIN_SECONDS - 1)
    assert world.database.query("SELECT DISTINCT seen_time FROM feeditems") == [(NOW,)]
    world.poll(item(1), now=NOW + SEEN_WITHIN_SECONDS)
    assert sorted(world.database.query("SELECT seen_time FROM feeditems")) == [(NOW,), (NOW + SEEN_WITHIN_SECONDS,)]


def add_task(world: World, task: int) -> None:
    tasks = Tasks(world.database)
    while tasks.add() < task:
        pass


def test_items_are_forgotten_a_time_after_they_were_seen_last(world: World) -> None:
    add_task(world, 1)
    world.poll(item(1), item(2))
    for day in range(1, 11):
        world.poll(item(2), now=NOW + day * DAY)
    assert world.purge(NOW + 10 * DAY, 11 * DAY) == 0
    assert world.purge(NOW + 10 * DAY, 5 * DAY) == 1
    assert [title for _, title in world.since()] == ["t2"]


def test_items_of_a_feed_that_does_not_change_are_kept(world: World) -> None:
    """An unchanged document is not read: its items would all be new again when it changes."""
    add_task(world, 1)
    world.poll(item(1), item(2))
    assert world.purge(NOW + 1000 * DAY, 5 * DAY) == 0
    assert world.poll(item(1), item(2), item(3), now=NOW + 1000 * DAY).new == 1


def test_a_feed_whose_ids_and_links_change_at_each_poll_keeps_no_more_than_it_may(world: World) -> None:
    """What its document has is kept in any case, also if that was seen long ago; then what was seen last."""
    world.store = ItemStore(ItemRules(), items_max=6)
    world.poll(item(0), item(1), item(100))
    found = [
        world.poll(item(0), item(1), *(item(10 * hour + n) for n in range(3)), now=NOW + hour * 3600)
        for hour in range(1, 6)
    ]
    assert [each.new for each in found] == [3] * 5
    titles = [title for _, title in world.since()]
    assert titles == ["t0", "t1", "t42", "t50", "t51", "t52"]
    assert [each.warning.split(" items")[0] for each in found] == ["", *["removed 3"] * 4]
    assert "3 of the 5 items of this document were new" in found[-1].warning
    # A document that is longer than that stays whole, and those of other tasks stay.
    world.poll(*(item(n) for n in range(3)), task=2)
    assert world.poll(*(item(200 + n) for n in range(8)), now=NOW + DAY).warning.startswith("removed 6 items")
    assert world.database.blocking.interact(count_items, 1)[0] == 8
    assert world.database.blocking.interact(count_items, 2)[0] == 3


def test_items_of_a_task_have_a_size_at_most(world: World) -> None:
    world.store = ItemStore(ItemRules(), bytes_max=30_000)
    for n in range(10):
        world.poll(item(n, content=Body("ä" * 4000)), now=NOW + n)
    assert [title for _, title in world.since()] == ["t7", "t8", "t9"]
    count, size = world.database.blocking.interact(count_items, 1)
    assert count == 3 and 24_000 < size < 30_000
    # One that has become longer is no older than the others.
    world.poll(item(9, content=Body("ä" * 9000)), now=NOW + 10)
    assert [title for _, title in world.since()] == ["t8", "t9"]


def test_ids_that_change_while_links_stay_need_no_room(world: World) -> None:
    world.store = ItemStore(ItemRules(), items_max=4)
    world.poll(*(item(n) for n in range(4)))
    again = world.poll(*(item(n, id=f"x{n}") for n in range(4)), item(9), now=NOW + 60)
    assert (again.new, again.changed, again.warning) == (1, 0, "")
    assert world.database.blocking.interact(count_items, 1)[0] == 5


def test_items_of_jobs_of_no_task_have_no_limit(world: World) -> None:
    world.store = ItemStore(ItemRules(), items_max=1)
    assert world.put([{"id": str(n), "title": "x"} for n in range(3)], task=0).warning == ""
    world.put([{"id": "3"}], task=0)
    assert len(world.database.query("SELECT 1 FROM feeditems")) == 4


def test_a_job_says_which_items_went(world: World) -> None:
    tasks = Tasks(world.database)
    tasks.items = ItemStore(ItemRules(), items_max=2)  # type: ignore[assignment]  # the real one
    tasks.store = tasks.another_store()
    result_of(tasks.store.claim())
    tasks.add()
    for n in range(2):
        job = tasks.run(NOW + n * 7200)
        objects = tuple(as_json({"id": f"{n}/{each}"}) for each in range(2))
        tasks.end(job, effects=Effects(items=objects), now=NOW + n * 7200)
    rows = world.database.query("SELECT level, text FROM joblogs WHERE job = ? AND level = 'warn'", [job.id])
    assert len(rows) == 1 and rows[0][1].startswith("removed 2 items that were not in this document")


def test_feeds_of_removed_tasks_are_forgotten(world: World) -> None:
    world.poll(item(1), task=99)
    assert world.purge(NOW + 5, 10) == 0  # not yet; but what the feed says of itself is
    assert world.database.query("SELECT COUNT(*) FROM feeds")[0][0] == 0
    assert world.purge(NOW + 50, 10) == 1


def test_purging_goes_page_by_page(world: World) -> None:
    world.put([{"id": str(n), "title": "x"} for n in range(PAGE_ROWS + 5)])
    assert world.page(NOW + 50, 10, Place()) is not None
    assert world.purge(NOW + 50, 10) == 5


def test_a_job_stores_items_with_its_ending(world: World) -> None:
    """The real store behind the real tables of tasks."""
    tasks = Tasks(world.database)
    tasks.items = world.store  # type: ignore[assignment]  # the real one
    tasks.store = tasks.another_store()
    result_of(tasks.store.claim())
    number = tasks.add()
    job = tasks.run()
    objects = [as_json({"id": "1", "title": "a"}), as_json({"id": "2", "title": "b"})]
    tasks.end(job, effects=Effects(items=tuple(objects)))
    assert world.since(0, {number}) == [(1, "a"), (2, "b")]
    assert tasks.counters()["item"] == 2
    # Refused as a whole: a permanent error.
    job = tasks.run(NOW + 7200)
    tasks.end(job, effects=Effects(items=(as_json({"id": "3"}), "[]")), now=NOW + 7200)
    assert "stored object 2: it is no object" in tasks.job(job.id).message
    assert len(world.since()) == 2
