"""Two sub-LCCs and a front end's database under one clock: real stores and queue managers, robots in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from lcc.domain.notices.rules import QueueRules
from lcc.domain.tasks.items import ItemRules
from lcc.domain.tasks.rules import TaskRules
from lcc.errors import StoreUnavailable
from lcc.model import UrlNotice
from lcc.model.content_batches import StoredFile, write_stored
from lcc.model.frontend.moves import Move, MoveState
from lcc.model.frontend.places import AtHome, SubLcc
from lcc.protocols.work import Fetch
from lcc.roles.qm.moves.moving import Moving
from lcc.storage.database.migrations import FE, TASKS
from lcc.storage.fe import moves
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import add_sublcc, get_sublcc
from lcc.storage.providers.pid_range import limit_pids
from lcc.storage.queue.moves.carried import carried_names
from lcc.storage.queue.store import QueueStore
from lcc.storage.tasks.feeds.items import ItemStore
from lcc.storage.tasks.store import TaskStore
from lcc.testing.inline_database import InlineDatabase
from tests.frontend.kit import NOW, sublcc
from tests.support.databases import Tables, put_back
from tests.support.roles.qm import FakeBotm, FakeUns, World, page, pages

NOT_FOUND = 404


class Killed:
    """Has a process killed at one of its writes.

    :ivar at: before (or, negative, after) this write; 0: never.
    :ivar unheard: this write is committed, and its answer lost; the process goes on.
    """

    def __init__(self) -> None:
        self.at = self.unheard = 0
        self.count = 0
        self.dead = False

    def hit(self, write: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        self.count += 1
        if self.dead:
            return Deferred()
        if self.count == abs(self.at):
            self.dead = True
            if self.at < 0:
                write().addErrback(lambda _: None)
            return Deferred()
        if self.count == self.unheard:
            return write().addCallback(lambda _: fail(StoreUnavailable("the connection was lost")))
        return write()


class Watched:
    """A database whose writes are counted."""

    def __init__(self, database: InlineDatabase, killed: Killed) -> None:
        self._database = database
        self._killed = killed

    def write(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        return self._killed.hit(lambda: self._database.write(function, *args))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


class Sub:
    """A sub-LCC.

    :ivar log: requests to web servers, in order; requests to content ports are elsewhere.
    """

    def __init__(self, front: Front, number: int, folder: Path, url: str) -> None:
        folder.mkdir()
        self.front = front
        self.number = number
        self.killed = Killed()
        self.world = World(folder, url=url, clock=front.clock)
        self.world.database.now(limit_pids, 100 * (number - 1) + 1, 100 * number)
        self.database = self.world.database
        self.botm = FakeBotm(self.world, machine=10 * number, orders_max=4)
        self.uns = FakeUns(self.world, f"uns{number}")
        self.moving: Moving | None = None
        self.tasks: InlineDatabase | None = None
        self.scheduler: TaskStore | None = None
        self.start()

    @property
    def name(self) -> str:
        return chr(ord("a") + self.number - 1)

    def start(self) -> None:
        """Begin to take part in moves; after a kill: as a new queue manager."""
        self.killed.dead, self.killed.at = False, 0
        world = self.world
        if self.moving is not None:
            self.moving.stop()
            botm = self.botm
            world.start(self._store())
            self.botm = FakeBotm(world, machine=botm.machine, run=botm.run, earlier=botm, orders_max=4)
            self.uns = FakeUns(world, f"uns{self.number}", self.uns.epoch)
        else:
            for remote in (self.botm, self.uns):
                remote.close()
            world.start(self._store())
            self.botm = FakeBotm(world, machine=10 * self.number, orders_max=4)
            self.uns = FakeUns(world, f"uns{self.number}")
        store: Any = world.engine.store
        arguments: Any = (Watched(self.database, self.killed), Watched(self.front.database, self.killed), self.front)
        self.moving = Moving(self.name, world.engine, store, *arguments, lambda: self.tasks)
        self.moving.start()

    def add_scheduler(self, url: str) -> None:
        """Its scheduler, as far as it carries out orders."""
        self.tasks = self.database
        if url.startswith("sqlite:"):
            folder = self.front.folder / f"tasks{self.number}"
            folder.mkdir()
            self.tasks = InlineDatabase(folder, Random(3), "sqlite:tasks.db", TASKS)
        tasks: Any = self.tasks
        self.scheduler = TaskStore(tasks, TaskRules(), ItemStore(ItemRules()), 1000)
        self.scheduler.claim()

    def carry_out(self) -> None:
        """The orders of its scheduler."""
        if self.scheduler is not None and self.tasks is not None:
            now = int(NOW + self.front.clock.seconds())
            orders = [row[0] for row in self.tasks.now(lambda txn: txn.query("SELECT id FROM taskorders"))]
            Deferred.fromCoroutine(self.scheduler.carry_out_orders(orders, now))

    def of_tasks(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        assert self.tasks is not None
        return self.tasks.now(lambda txn: txn.query(sql, list(parameters)))

    def _store(self) -> QueueStore:
        rules = QueueRules.configured(self.world.settings, self.world.timeslots)
        database: Any = Watched(self.database, self.killed)
        return QueueStore(database, rules, self.world.settings)

    def restart_if_dead(self) -> bool:
        dead = self.killed.dead
        if dead:
            self.start()
        return dead

    def fetch(self) -> bool:
        """Its robots fetch what they are told to."""
        orders = list(self.botm.out.values())
        for order in orders:
            if order.id in self.botm.out:
                self.botm.done(order, **self.front.answer(self, order))
        return bool(orders)

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.database.now(lambda txn: txn.query(sql, list(parameters)))

    def send(self, number: int, pid: int, *notices: UrlNotice, **options: Any) -> None:
        self.uns.send_set(number, pid, notices, **options)

    def close(self) -> None:
        if self.moving is not None:
            self.moving.stop()
        self.world.close()


class Front:
    """Sub-LCCs a and b, or more.

    :ivar site: what the web servers have: URL -> content; what is absent is not found.
    :ivar log: what was asked of web servers: (sub-LCC, URL).
    :ivar urls: of the sub-LCCs' databases.
    :ivar damaged: content files that cannot be read: ``MACHINE/FILE``; ``content_code`` says why.
    :ivar altered: content files that hold something else than they should.
    :ivar large: content files that are in no batch.
    :ivar content_log: the files of each request to a content port.
    :ivar older: what knows no batches: ``port`` (content ports), ``robots``.
    """

    def __init__(self, folder: Path, new_url: Callable[[], str] | None = None, subs: int = 2) -> None:
        self.clock = Clock()
        self.folder = folder
        (folder / "fe").mkdir()
        self.database_url = new_url() if new_url else f"sqlite:{folder}/fe/fe.db"
        self.database = InlineDatabase(folder / "fe", Random(2), self.database_url, FE)
        self.urls: list[str] = []
        self.site: dict[str, str] = {}
        self.log: list[tuple[str, str]] = []
        self.damaged: set[str] = set()
        self.altered: set[str] = set()
        self.content_code = NOT_FOUND
        self.content_log: list[list[str]] = []
        self.older: set[str] = set()
        self.large: set[str] = set()
        self.holding: set[str] = set()
        self.subs: list[Sub] = []
        for number in range(1, subs + 1):
            home = folder / f"sub{number}"
            url = new_url() if new_url else f"sqlite:{home}/lcc.db"
            content = f"http://content-{number}.example:80/"
            self.database.now(add_sublcc, sublcc(number, subid=0, content=content, database=url))
            self.urls.append(url)
            self.subs.append(Sub(self, number, home, url))

    def of(self, sub: SubLcc) -> InlineDatabase:
        """As :class:`lcc.roles.sub_databases.SubDatabases`."""
        return self.subs[sub.subid - 1].database

    def tasks_of(self, sub: SubLcc) -> InlineDatabase | None:
        """The same."""
        return self.subs[sub.subid - 1].tasks

    def sub(self, number: int) -> Sub:
        return self.subs[number - 1]

    def sublcc(self, number: int) -> SubLcc:
        return self.database.now(get_sublcc, chr(ord("a") + number - 1))

    def answer(self, sub: Sub, order: Fetch) -> dict[str, Any]:
        """What a robot brings."""
        if order.url.startswith("http://content-"):
            names = carried_names(order.url)[1]
            self.content_log.append(names)
            found = [self._file(name) for name in names]
            if order.files:
                found = [None if name in self.large else each for name, each in zip(names, found, strict=True)]
            else:
                if found[0] is None:
                    return {"code": self.content_code, "detail": "of the content port"}
                size, digest = found[0]
                return {"md5": digest, "size_bytes": size, "mimetype": "application/octet-stream"}
            if "port" in self.older or not any(found):
                return {"code": NOT_FOUND, "detail": "content files are /MACHINE/FILE"}
            if "robots" in self.older:
                return {"md5": "e" * 32, "size_bytes": 100, "mimetype": "application/vnd.lococa.files"}
            return {"files": write_stored(found), "size_bytes": 100}
        self.log.append((sub.name, order.url))
        content = self.site.get(order.url)
        if content is None:
            return {"code": NOT_FOUND, "detail": "404"}
        return {"md5": md5(content.encode()).hexdigest(), "size_bytes": len(content), "mimetype": "text/html"}

    def _file(self, name: str) -> StoredFile:
        """A content file, as its machine has it."""
        machine, file = map(int, name.split("/"))
        sql = "SELECT md5, len FROM lccurl WHERE fetched_machineid = ? AND fetched_fileid = ?"
        rows = self.subs[machine // 10 - 1].query(sql, machine, file)
        if not rows or name in self.damaged:
            return None
        digest, size = rows[0]
        return size, "f" * 32 if name in self.altered else digest

    def order(self, pid: int, dest: int) -> Move:
        now = int(NOW + self.clock.seconds())
        return self.database.now(moves.order_move, pid, self.sublcc(dest), None, now)

    def move(self, number: int = 1) -> Move:
        move = self.database.now(moves.get_move, number)
        assert move is not None
        return move

    def place(self, pid: int) -> tuple[int, AtHome, int]:
        (row,) = self.database.now(placements, [pid])
        assert row is not None
        return row.subid, row.state, row.epoch

    def place_of(self, pid: int) -> int:
        """The sub-LCC that logins go to."""
        (row,) = self.database.now(placements, [pid])
        return 1 if row is None else row.subid

    def go(self, seconds: float, each: Callable[[], object] = lambda: None) -> None:
        """Let time pass; robots fetch, who was killed comes again."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)
            for sub in self.subs:
                if sub.restart_if_dead():
                    self.kills += 1
                for remote in list(sub.world.remotes):
                    remote.write("<ping/>")
                sub.world.settle()
                sub.carry_out()
                if sub.name not in self.holding:
                    sub.fetch()
            each()

    kills = 0

    def go_until(self, state: MoveState, number: int = 1, seconds: float = 200.0) -> Move:
        """Until a move is in this state, or beyond."""
        states = list(MoveState)
        for _ in range(round(seconds)):
            move = self.move(number)
            if states.index(move.state) >= states.index(state):
                return move
            self.go(1.0)
        raise AssertionError(f"{self.move(number)}")

    def rows(self, number: int, pid: int) -> Counter[tuple[Any, ...]]:
        """The provider's cache and queue at a sub-LCC, but for numbers that are each sub-LCC's own."""
        sub = self.sub(number)
        cache = (
            "SELECT urlkey, state, connseq, source, words, curl, furl, mimetype, told_md5, md5, len, etag, headers,"
            " fetched_time, confirmed_time FROM lccurl WHERE pid = ?"
        )
        queue = (
            "SELECT urlkey, operation, connseq, attempts, source, words, curl, furl, md5, len, sent,"
            " bad_code, bad_text, bad_time FROM qdb WHERE pid = ?"
        )
        errors = "SELECT number, code, message, url, connseq, time FROM urlerrs WHERE pid = ?"
        return Counter([*sub.query(cache, pid), *sub.query(queue, pid), *sub.query(errors, pid)])

    def close(self) -> None:
        for sub in self.subs:
            if sub.moving is not None:
                sub.moving.stop()
                for remote in list(sub.world.remotes):
                    remote.close()
                sub.world.engine.stop()
                sub.database.close()
                if sub.tasks is not None and sub.tasks is not sub.database:
                    sub.tasks.close()
        self.database.close()
        assert not self.clock.getDelayedCalls(), self.clock.getDelayedCalls()


MakeFront = Callable[..., Front]
"""The fixture ``make_front``."""


def publish(front: Front, count: int = 8) -> int:
    """A provider at a, with pages that are cached, queued, deleted and failed."""
    source = front.sub(1)
    pid = source.world.provider()
    front.site.update({f"http://site.example/{number}.html": f"page {number}" for number in range(count)})
    source.send(1, pid, pages(*range(count), 900)[0], *pages(*range(1, count), 900))
    front.go(2)
    source.send(2, pid, page(1, delete=True))
    front.go(2)
    front.holding.add("a")
    source.send(3, pid, *pages(500, 501), page(2, md5="1" * 32))
    front.holding.discard("a")
    return pid


def move_published(front: Front, until: MoveState = MoveState.DONE) -> int:
    """:func:`publish`, and move it to b."""
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    front.go_until(until)
    return pid


def file_of(front: Front, url: str) -> str:
    """The content file of a page at a: ``MACHINE/FILE``."""
    sql = "SELECT fetched_machineid, fetched_fileid FROM lccurl WHERE curl LIKE ?"
    ((machine, file),) = front.sub(1).query(sql, f"%{url}")
    return f"{machine}/{file}"


def restore(sub: Sub, tables: Tables, then: Callable[[], object] = lambda: None) -> None:
    """Restore a sub-LCC's database from a backup.

    :param then: called before its queue manager is started.
    """
    sub.database.now(put_back, tables)
    then()
    sub.start()
