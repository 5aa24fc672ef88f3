"""One LCC, and a front end over three, with the same pages and the same items of feeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from lcc.domain.tasks.items import ItemRules
from lcc.errors import StoreUnavailable
from lcc.model.frontend.places import SubLcc, SubState
from lcc.model.items import as_json
from lcc.roles.cu.cache import OneLcc
from lcc.roles.cu.front.cache import FrontCache
from lcc.roles.cu.front.robots import FrontRobots
from lcc.roles.cu.front.subs import Subs
from lcc.roles.cu.watcher import ChangeWatcher
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.migrations import FE, MAIN, TASKS
from lcc.storage.database.place import Place, place_beside
from lcc.storage.fe.placements import made, put_making
from lcc.storage.fe.sublccs import add_sublcc, change_sublcc
from lcc.storage.tasks.feeds.items import ItemStore
from lcc.storage.tasks.orders import order_robots
from tests.support.cache import Cache
from tests.support.databases import SETTINGS, DirectDatabase
from tests.support.sublccs import NOW, sublcc

ELSEWHERE = {205: 1, 106: 3}
"""Providers that are not in the sub-LCC whose range their ids are of."""
PIDS = (1, 2, 105, 106, 107, 201, 203, 205)


class _Database(DirectDatabase):
    """:ivar away: it cannot be reached."""

    away = False
    asked = 0

    def start(self) -> None:
        pass

    def interact(self, function: Any, *args: Any) -> Deferred[Any]:
        self.asked += 1
        return fail(StoreUnavailable("away")) if self.away else super().interact(function, *args)

    select = interact


class Worlds:
    """One LCC, and a front end over three, with the same pages.

    :param clock: None: one of its own.
    :ivar subs: the sub-LCCs' databases, from 1 on.
    """

    def __init__(self, home: Path, url: Any, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.front = _Database(url("front"), home, FE)
        self.databases: dict[str, _Database] = {}
        self.tasks: dict[str, _Database] = {}
        """By their URLs: of those on SQLite, made when an item is put there."""
        self.caches: dict[int, Cache] = {}
        self._url = url
        self._home = home
        for number in (1, 2, 3):
            self.add_sub(number)
        for pid, subid in ELSEWHERE.items():
            self.front.now(put_making, pid, subid, NOW)
            self.front.now(made, pid, NOW)
        self.subs = Subs(
            self.front,
            SubDatabases(lambda url: self.databases[url], self._tasks_place, self._tasks_at),
            self.clock,
            100,
        )  # type: ignore[arg-type, return-value]
        self.several = FrontCache(self.front, self.subs, FrontRobots(self.subs, self._order_robots, self.clock))
        self._alone = url("alone")
        alone = self.databases[self._alone] = _Database(self._alone, home)
        self.alone = Cache(alone)
        self.one = OneLcc(alone, ChangeWatcher(alone, self.clock), self._tasks_of(self._alone))

    def _order_robots(self, sub: SubLcc, sites: Sequence[str]) -> Deferred[None]:
        return self._tasks_of(sub.database).write(order_robots, sites, NOW)

    def add_sub(self, number: int) -> None:
        text = self._url(f"sub{number}")
        self.databases[text] = _Database(text, self._home, MAIN)
        # Made with one seed, they would have one timeline.
        own = [f"epoch{number}"]
        self.databases[text].now(lambda txn: txn.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", own))
        self.front.now(add_sublcc, sublcc(number, subid=0, database=text, content=f"http://sub{number}/"))
        self.caches[number] = Cache(self.databases[text])

    def _tasks_place(self, url: str) -> Place:
        return place_beside(url, self._home, SETTINGS, f"{TASKS}-{url[url.rfind('/') + 1 :]}")

    def _tasks_at(self, place: Place) -> Any:
        return self.tasks[place.url]

    def _tasks_of(self, url: str) -> _Database:
        place = self._tasks_place(url)
        if place.series == MAIN:
            return self.databases[url]
        if place.url not in self.tasks:
            tasks = self.tasks[place.url] = _Database(place.url, place.home, TASKS)
            tasks.now(
                lambda txn: txn.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", [f"t{len(self.tasks)}"])
            )
        return self.tasks[place.url]

    def tasks_database(self, number: int) -> _Database:
        """Where a sub-LCC's tasks are."""
        [url] = [url for url, each in self.databases.items() if each is self.caches[number].database]
        return self._tasks_of(url)

    def put_items(self, task: int, *objects: Any, page: str = "") -> None:
        """Items of a task of the sub-LCC that has its number."""
        texts = [as_json(each) for each in objects]
        for database in (self._tasks_of(self._alone), self.tasks_database(task)):
            database.now(ItemStore(ItemRules()).store, task, 1, page, texts, NOW)

    def set_state(self, name: str, state: SubState) -> None:
        self.front.now(lambda txn: change_sublcc(txn, name, state=state))

    def database(self, number: int) -> Any:
        return self.caches[number].database

    def cache_of(self, pid: int) -> Cache:
        return self.caches[ELSEWHERE.get(pid, (pid - 1) // 100 + 1)]

    def put(self, pid: int, name: str, mimetype: str = "text/html", **more: Any) -> None:
        md5 = f"{hash((pid, name)) & 0xFFFFFFFF:032x}"
        for cache in (self.alone, self.cache_of(pid)):
            cache.put(pid, f"http://p{pid}.example/{name}", mimetype, **{"fetched_fileid": 1, "md5": md5, **more})

    def delete(self, pid: int, name: str, **more: Any) -> None:
        for cache in (self.alone, self.cache_of(pid)):
            cache.delete(pid, f"http://p{pid}.example/{name}", **more)

    def fill(self, count: int, seed: int = 1) -> None:
        random = Random(seed)
        for _ in range(count):
            kind = random.choice(["text/html", "text/plain", "image/png"])
            self.put(random.choice(PIDS), f"{random.randrange(10_000)}", kind)

    def close(self) -> None:
        for database in (self.front, *self.databases.values(), *self.tasks.values()):
            database.blocking.close()
