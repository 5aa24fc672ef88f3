"""Caches of several sub-LCCs whose providers move, step by step, on real tables; and who reads them meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import succeed
from twisted.internet.task import Clock

from lcc.config import QmConfig
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import url_key
from lcc.domain.notices.rules import QueueRules
from lcc.errors import StoreUnavailable
from lcc.model import Provider
from lcc.model.frontend.moves import Move, MoveState
from lcc.roles.cu.formats import Nothing
from lcc.roles.cu.front.cache import FrontCache
from lcc.roles.cu.front.robots import FrontRobots
from lcc.roles.cu.front.subs import Subs
from lcc.roles.cu.query import Query
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.migrations import FE, MAIN
from lcc.storage.database.tables.rows import CACHED, DELETED, empty_cache_row
from lcc.storage.database.transactions import Txn
from lcc.storage.fe import moves
from lcc.storage.fe.sublccs import add_sublcc, get_sublcc
from lcc.storage.providers.pid_range import limit_pids
from lcc.storage.providers.providers import add_provider
from lcc.storage.queue.moves.arrivals import admit, arrive_page
from lcc.storage.queue.moves.departing import departing_page, departing_whole
from lcc.storage.queue.moves.following import position_now
from lcc.storage.queue.moves.leaving import FROM, leave_page
from lcc.storage.queue.moves.paged import START
from lcc.storage.queue.moves.staging import Cursor, stage_page, stage_whole
from lcc.storage.queue.store import QueueStore
from lcc.storage.queue.write_transaction import WriteTransaction
from tests.frontend.kit import NOW, sublcc
from tests.support.databases import result_of
from tests.support.roles.front_worlds import _Database

RULES = QueueRules.configured(QmConfig(), TimeSlots(timezone="UTC"))
FORM = Nothing()
_LEFT_ROWS = 2
"""A page of what arrives or leaves."""


@attrs.define
class Page:
    """:ivar version: grows with each change of any page."""

    version: int
    cached: bool


class Moving:
    """A move, a step at a time, as the queue managers of both sides carry it out.

    :ivar steps: what is to be done; each is a transaction of one of the databases.
    """

    def __init__(self, caches: MovingCaches, move: Move) -> None:
        self.caches = caches
        self.move = move
        self.steps = iter(self._steps())

    def step(self) -> bool:
        """Do the next one; False: it is done."""
        return next(self.steps, None) is not None

    def _steps(self) -> Any:
        caches, pid = self.caches, self.move.pid
        source, dest = caches.stores[self.move.source], caches.stores[self.move.dest]
        yield self._note(moves.begin_copying)
        self._note(moves.freeze)
        caches.still.add(pid)
        fence = caches.front.now(moves.get_fence, pid, self.move.source)
        assert fence is not None
        caches.front.now(moves.obeyed, fence)
        database = caches.databases[self.move.source]
        page = database.now(departing_page, pid, "lccurl", b"", 1 << 20)
        cursor = Cursor(self.move.id, database.now(position_now), None)
        self._at(dest, stage_page, RULES, pid, ("lccurl", b""), page, 0, "", cursor)
        self._at(dest, stage_whole, pid, database.now(departing_whole, pid))
        since = cursor.position.timeline, cursor.position.change
        self.move = caches.front.now(moves.flip, self.move, since, caches.now)
        yield True
        self._at(dest, admit, self.move)
        caches.front.now(moves.admit, self.move, caches.now)
        more = True
        while more:
            more = self._at(dest, arrive_page, RULES, self.move, START, _LEFT_ROWS).more
            yield True
        # Nobody may believe it, but a page can change here before the front end's database says that it is here.
        caches.homes[pid] = self.move.dest
        if caches.hasty:
            caches.still.discard(pid)
        yield True
        self._note(moves.activate)
        caches.still.discard(pid)
        caches.flips[pid] += 1
        yield True
        while self._at(source, leave_page, self.move, FROM, _LEFT_ROWS):
            yield True
        fence = caches.front.now(moves.get_fence, pid, self.move.source)
        assert fence is not None
        caches.front.now(moves.obeyed, fence)
        yield self._note(moves.end_move)

    def _note(self, function: Callable[..., Move]) -> bool:
        self.move = self.caches.front.now(function, self.move, self.caches.now)
        return True

    def _at(self, store: QueueStore, function: Callable[..., Any], *args: Any) -> Any:
        return result_of(store.move_step(self.caches.now, function, *args))[0]


class _Between(_Database):
    """:ivar caches: whose ``between`` is called before each question."""

    caches: MovingCaches

    def interact(self, function: Any, *args: Any) -> Any:
        between, self.caches.between = self.caches.between, None
        if between is not None:
            between()
            self.caches.between = between
        return super().interact(function, *args)

    select = interact


class MovingCaches:
    """
    :ivar pages: what there is: provider -> name -> page.
    :ivar homes: where each provider's pages change.
    :ivar still: providers that do not change at present.
    :ivar flips: how often each has moved.
    :ivar between: is called before each question of a reader.
    :ivar hasty: pages change at a provider's new home as soon as all have arrived.
    """

    def __init__(self, home: Path, url: Callable[[str], str], subs: int = 3, providers: int = 4) -> None:
        self.clock = Clock()
        self.between: Callable[[], None] | None = None
        home.mkdir(exist_ok=True)
        self.front = self._database(url("front"), home, FE)
        self.databases: dict[int, _Database] = {}
        self.stores: dict[int, QueueStore] = {}
        by_url: dict[str, _Database] = {}
        for number in range(1, subs + 1):
            text = url(f"sub{number}")
            database = by_url[text] = self.databases[number] = self._database(text, home, MAIN)
            own = [f"epoch{number}"]
            database.now(lambda txn, own=own: txn.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", own))
            database.now(limit_pids, 100 * (number - 1) + 1, 100 * number)
            self.front.now(add_sublcc, sublcc(number, subid=0, database=text))
            store = self.stores[number] = QueueStore(database, RULES, QmConfig())  # type: ignore[arg-type]
            result_of(store.claim(NOW))
        self._find = by_url.__getitem__
        self.pages: dict[int, dict[str, Page]] = {}
        self.homes: dict[int, int] = {}
        self.still: set[int] = set()
        self.flips: Counter[int] = Counter()
        self.moving: dict[int, Moving] = {}
        self.hasty = False
        self.version = 0
        self._subs: list[Subs] = []
        for number in range(providers):
            subid = number % subs + 1
            roots = (f"http://p{number}.example/",)
            pid = self.databases[subid].now(add_provider, Provider(0, roots, f"h{number}"))
            self.pages[pid], self.homes[pid] = {}, subid

    def _database(self, url: str, home: Path, series: str) -> _Database:
        database = _Between(url, home, series)
        database.caches = self
        return database

    @property
    def now(self) -> int:
        return int(NOW + self.clock.seconds())

    def reader(self) -> FrontCache:
        """A new ``lcc-fe-cu``: it knows nothing of moves yet."""
        databases: Any = SubDatabases(self._find, lambda url: None, lambda place: None)  # type: ignore[arg-type, return-value]
        subs = Subs(self.front, databases, self.clock, 100)  # type: ignore[arg-type]
        self._subs.append(subs)
        return FrontCache(self.front, subs, FrontRobots(subs, lambda sub, sites: succeed(None), self.clock))

    @cached_property
    def several(self) -> FrontCache:
        """One that is always there."""
        return self.reader()

    def put(self, pid: int, name: str) -> bool:
        """A page is fetched, or has changed."""
        return self._change(pid, name, True)

    def delete(self, pid: int, name: str) -> bool:
        """It is deleted."""
        return name in self.pages[pid] and self._change(pid, name, False)

    def _change(self, pid: int, name: str, cached: bool) -> bool:
        if pid in self.still:
            return False
        self.version += 1
        self.pages[pid][name] = Page(self.version, cached)
        row = {
            **empty_cache_row(self.key(pid, name), pid),
            "curl": f"http://p{pid}.example/{name}",
            "mimetype": "text/html",
            "state": CACHED if cached else DELETED,
            "md5": f"{self.version:032x}" if cached else "",
            "mtime": self.version,
            "confirmed_time": self.now,
        }
        result_of(self.stores[self.homes[pid]].move_step(self.now, _put, row))
        return True

    def key(self, pid: int, name: str) -> bytes:
        return url_key(pid, f"http://p{pid}.example/{name}", "text/html")

    def step(self, pid: int, dest: int) -> bool:
        """The next step of the provider's move; a new one, to this sub-LCC, if there is none."""
        moving = self.moving.get(pid)
        if moving is None:
            if self.homes[pid] == dest:
                return False
            sub = self.front.now(get_sublcc, chr(ord("a") + dest - 1))
            move = self.front.now(moves.order_move, pid, sub, None, self.now)
            moving = self.moving[pid] = Moving(self, move)
        if not moving.step():
            del self.moving[pid]
        return True

    def move(self, pid: int, dest: int, until: MoveState = MoveState.DONE) -> Moving:
        """A move up to a state."""
        self.step(pid, dest)
        moving = self.moving[pid]
        while moving.move.state is not until and self.step(pid, dest):
            pass
        if until is MoveState.DONE:
            self.moving.pop(pid, None)
        return moving

    def finish(self) -> None:
        """All moves come to their ends, and everybody is there again."""
        for pid, moving in list(self.moving.items()):
            while pid in self.moving:
                self.step(pid, moving.move.dest)
        for database in (self.front, *self.databases.values()):
            database.away = False
        self.clock.advance(10)

    def cached(self, wanted: Callable[[int, str], bool] = lambda pid, name: True) -> dict[bytes, int]:
        """The version of each page that is cached."""
        return {
            self.key(pid, name): page.version
            for pid, pages in self.pages.items()
            for name, page in pages.items()
            if page.cached and wanted(pid, name)
        }

    def close(self) -> None:
        for subs in self._subs:
            subs.stop()
        for database in (self.front, *self.databases.values()):
            database.blocking.close()


def _put(write: WriteTransaction, row: dict[str, Any]) -> None:
    row.update(write.next_change())
    write.txn.upsert("lccurl", list(row), [list(row.values())], ["urlkey"])


class Follower:
    """One who follows the changes: a page of an answer at a time.

    :ivar copy: key -> version.
    :ivar told: how often it was told each version of each page.
    :ivar careful: it keeps only the token of a whole answer, and reads an answer that breaks off again.
    """

    def __init__(self, query: Query, careful: bool = False) -> None:
        self.query = query
        self.careful = careful
        self.token = "0"
        self.copy: dict[bytes, int] = {}
        self.told: Counter[tuple[bytes, int]] = Counter()
        self.newest: dict[bytes, int] = {}
        self.rows = 0
        self._answer: Any = None
        self._asked: Any = None

    def step(self, cache: FrontCache, limit: int | None) -> bool:
        """Read the next page; False: the answer has ended, or broke off.

        :param cache: that a new answer is asked of.
        """
        try:
            if self._answer is None:
                self._asked = cache
                query = attrs.evolve(self.query, since=self.token, limit=limit)
                piece = result_of(cache.begin(query, FORM))
            else:
                piece = result_of(self._asked.go_on(self._answer, FORM))
        except StoreUnavailable:
            self.give_up()
            return False
        for row in piece.urls:
            self._take(row)
        self._answer = piece.after
        if piece.after is None or not self.careful:
            assert piece.token is not None
            self.token = piece.token
        return piece.after is not None

    def _take(self, row: Any) -> None:
        self.rows += 1
        version = row.mtime
        self.told[row.key, version] += 1
        if not self.careful:
            assert version >= self.newest.get(row.key, 0), f"{row.curl}: {version} after {self.newest[row.key]}"
        self.newest[row.key] = version
        if row.state == "cached":
            self.copy[row.key] = version
        else:
            self.copy.pop(row.key, None)

    def give_up(self) -> None:
        """It loses its connection."""
        self._answer = None

    def answer(self, cache: FrontCache, limit: int | None = None) -> int:
        """A whole answer; the number of its rows."""
        before = self.rows
        while self.step(cache, limit):
            pass
        return self.rows - before

    def catch_up(self, cache: FrontCache, limit: int | None = None) -> None:
        """Until it is told nothing."""
        self.give_up()
        while self.answer(cache, limit):
            pass


class Lister:
    """One who reads all that is cached, a page at a time.

    :ivar there: keys that have been cached since it began.
    """

    def __init__(self, cache: FrontCache, caches: MovingCaches) -> None:
        self.caches = caches
        self.there = set(caches.cached())
        self.seen: Counter[bytes] = Counter()
        self._cache = cache
        self._after: Any = None
        self._began = False

    def step(self) -> bool:
        """False: it has come to the end, or broke off."""
        self.there &= self.caches.cached().keys()
        try:
            if not self._began:
                piece = result_of(self._cache.begin(Query(), FORM))
            else:
                piece = result_of(self._cache.go_on(self._after, FORM))
        except StoreUnavailable:
            return False
        self._began, self._after = True, piece.after
        self.seen.update([row.key for row in piece.urls])
        if piece.after is None:
            assert self.there <= self.seen.keys(), "a page was missed"
            assert max(self.seen.values(), default=0) <= 2
            return False
        return True


def count(caches: MovingCaches, table: str, subid: int) -> int:
    """Rows of a table of a sub-LCC."""

    def ask(txn: Txn) -> int:
        return int(txn.value(f"SELECT COUNT(*) FROM {table}"))

    return caches.databases[subid].now(ask)
