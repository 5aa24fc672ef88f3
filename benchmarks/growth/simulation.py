"""The queue of a world: the real scheduler, rules and storage on a real database; web and robots are made up.

An hour of the world is: each provider tells of what has changed, all of it is absorbed; then the scheduler has as
many pages fetched as the robots could, and their results are recorded.  No time passes in between: what is measured
is work, not waiting.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
from cache_fill import cache_row
from common import cpu_seconds_of
from twisted.internet.defer import Deferred

from growth.world import World
from lcc.config import QmConfig
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import url_key
from lcc.domain.notices.rules import QueueRules
from lcc.model import FetchResult, KeyedNotice, SetHeader, SetPiece, UrlNotice
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.ready_queue import ReadyQueue
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import FetchInfo, fetch_info
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.store import QueueStore
from lcc.testing.inline_database import InlineDatabase

ORDERS = 48
HOUR = 3600
BEGIN = 1_760_000_000
ROWS_AT_ONCE = 200_000


def page_url(pid: int, page: int) -> str:
    """The conceptual URL."""
    return f"http://s{pid}.example/docs/part{page % 10}/page{page}.html"


def fill(database: InlineDatabase, world: World, folder: Path | None) -> None:
    """Register everybody; everything is cached as it was.

    :param folder: where the server reads files to load; None: it is SQLite.
    """

    def register(txn: Txn, pids: range) -> None:
        columns = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")
        txn.insert("pidb", columns, [(pid, "", "", "", 0, 1, 0, 0) for pid in pids])
        txn.insert("proots", ("pid", "position", "root"), [(pid, 0, f"http://s{pid}.example/") for pid in pids])
        stats = [(pid, len(world.pages(pid)), 10_240 * len(world.pages(pid))) for pid in pids]
        txn.insert("pstats", ("pid", "files_used", "space_used"), stats)

    for first in range(1, world.providers + 1, 500):
        database.now(register, range(first, min(first + 500, world.providers + 1)))
    rows = _rows(world)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        if folder is None:
            database.now(_insert, some)
        else:
            _load(database, some, folder / "rows")
    database.now(lambda txn: txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [world.urls]))


def _rows(world: World) -> Iterator[tuple[bytes, int, int, str]]:
    """(key, provider, number, URL) in the order of the keys, as a bulk load should be."""
    number = 0
    for pid in range(1, world.providers + 1):
        for key, page in sorted((url_key(pid, page_url(pid, page), "text/html"), page) for page in world.pages(pid)):
            number += 1
            yield key, pid, number, page_url(pid, page)


def _insert(txn: Txn, rows: list[tuple[bytes, int, int, str]]) -> None:
    full = [cache_row(pid, curl, number) for _, pid, number, curl in rows]
    txn.insert("lccurl", list(full[0]), [list(row.values()) for row in full])


def _load(database: InlineDatabase, rows: list[tuple[bytes, int, int, str]], path: Path) -> None:
    """By LOAD DATA: what is alike in all rows is told once."""
    alike = {
        name: value
        for name, value in cache_row(1, "", 1).items()
        if name not in ("urlkey", "pid", "curl", "change_number", "fetched_fileid", "told_md5", "md5")
    }
    # Each content is another one; nobody looks at the digits.
    path.write_text("".join(f"{key.hex()}\t{pid}\t{number}\t{curl}\n" for key, pid, number, curl in rows))
    path.chmod(0o644)
    same = "told_md5 = MD5(@number), md5 = MD5(@number), change_number = @number, fetched_fileid = @number"
    sql = (
        f"LOAD DATA INFILE '{path}' INTO TABLE lccurl CHARACTER SET utf8mb4 (@key, pid, @number, curl)"
        f" SET urlkey = UNHEX(@key), {same}, {', '.join(f'{name} = ?' for name in alike)}"
    )
    database.now(lambda txn: txn.execute(sql, list(alike.values())))
    path.unlink()


@attrs.define
class Cost:
    """Work of one kind.

    :ivar items: URLs.
    :ivar calls: of the store.
    :ivar cpu_seconds: of this process: the queue manager's part.
    :ivar database_seconds: CPU of the database.
    """

    items: int = 0
    calls: int = 0
    cpu_seconds: float = 0.0
    database_seconds: float = 0.0

    def micros(self) -> float:
        """Microseconds of CPU for a URL, of both."""
        return 1e6 * (self.cpu_seconds + self.database_seconds) / max(1, self.items)


@attrs.frozen
class Hour:
    """What happened in an hour of the world.

    :ivar told: pages, in so many ``sets``.
    """

    told: int
    sets: int
    fetched: int
    queued: int


class Simulation:
    """A queue manager without wires.

    :param pages_per_hour: what the robots can do.
    :param daemon: the process id of the database server; 0: it is this process.
    """

    def __init__(
        self, database: InlineDatabase, world: World, pages_per_hour: int, settings: QmConfig, daemon: int
    ) -> None:
        slots = TimeSlots(24, 3600, "UTC")
        rules = QueueRules.configured(settings, slots)
        self._settings = settings
        self._world = world
        self._capacity = pages_per_hour
        self._daemon = daemon
        self._store = QueueStore(database, rules, settings)  # type: ignore[arg-type]
        self._scheduler = Scheduler(
            ReadyQueue(),
            Delays(30.0, 3600.0, lambda: 0.5),
            slots,
            settings.read_ahead,
            settings.read_ahead_total,
            settings.quantum_urls,
            settings.quantum_bytes,
            hours_margin=0.0,
            run_rows=1,
        )
        self._number = 0
        self._file = 2 * world.urls
        self._infos: dict[int, FetchInfo] = {}
        self.costs = {name: Cost() for name in ("absorb", "read ahead", "schedule", "record", "delete files")}
        self.hours: list[Hour] = []
        done_at_once(self._store.claim(BEGIN))

    def hour(self, fetching: bool = True) -> Hour:
        """The next hour.

        :param fetching: False: no robot is there.
        """
        number = len(self.hours)
        now = BEGIN + number * HOUR
        sets = self._number
        told = self._told(number, now)
        fetched = self._fetch(self._capacity if fetching else 0, now)
        self._delete(now + HOUR)
        before = self.hours[-1].queued if self.hours else 0
        queued = int(done_at_once(self._store.queue_size()))
        assert before + told >= fetched + queued, "rows from nowhere"
        self.hours.append(Hour(told, self._number - sets, fetched, queued))
        return self.hours[-1]

    def _told(self, number: int, now: int) -> int:
        told = 0
        pieces: list[SetPiece] = []
        waiting = 0
        for pid, pages in self._world.hour(number):
            self._number += 1
            header = SetHeader("uns", "growth", self._number, pid, self._number, False, 0, False, now)
            notices = tuple(self._notice(pid, page, number) for page in pages)
            told += len(pages)
            for first in range(0, len(notices), self._settings.absorb_batch):
                some = notices[first : first + self._settings.absorb_batch]
                last = first + len(some) == len(notices)
                pieces.append(SetPiece(header, first, some, last))
                waiting += len(some)
                if waiting >= self._settings.absorb_batch:
                    self._absorb(pieces, waiting, now)
                    pieces, waiting = [], 0
        if pieces:
            self._absorb(pieces, waiting, now)
        return told

    @staticmethod
    def _notice(pid: int, page: int, hour: int) -> KeyedNotice:
        url = page_url(pid, page)
        # Told and fetched contents are unlike those of all hours before.
        md5 = f"{(hour + 1) << 64 | page:032x}"
        notice = UrlNotice(url, mimetype="text/html", md5=md5, length=10_240, mtime=BEGIN + hour * HOUR, sent="[]")
        return KeyedNotice(url_key(pid, url, "text/html"), notice)

    def _absorb(self, pieces: list[SetPiece], count: int, now: int) -> None:
        absorbed = self._counted("absorb", count, lambda: done_at_once(self._store.absorb(pieces, now)))
        self._scheduler.touched(absorbed.touched)
        for pid, (psetid, seq) in absorbed.queued.items():
            self._scheduler.work_arrived(pid, psetid, seq, absorbed.priorities.get(pid, 0))

    def _fetch(self, capacity: int, now: int) -> int:
        scheduler = self._scheduler
        fetched, results, out = 0, [], []
        while True:
            wanted = min(ORDERS, capacity - fetched)
            rows, cursors = self._counted("schedule", 0, lambda wanted=wanted: self._handed_out(wanted, now))
            out += rows
            for row in out:
                results.append(self._result(row, now))
                scheduler.finished(row.pid, row.key, 0, 10_500, now)
            fetched += len(out)
            self.costs["schedule"].items += len(out)
            idle, out = not out, []
            if len(results) >= self._settings.record_batch or (idle and results):
                some, results = results, []
                recorded = self._counted(
                    "record", len(some), lambda some=some: done_at_once(self._store.record(some, (), now))
                )
                scheduler.recorded([(each.key, each.generation) for each in some], recorded, now)
            elif idle and not cursors:
                return fetched

    def _handed_out(self, wanted: int, now: int) -> tuple[list[Any], list[Any]]:
        """Rows to be fetched now; and what was read ahead for them."""
        if wanted <= 0:
            return [], []
        scheduler = self._scheduler
        scheduler.fill(ORDERS)
        cursors = list(scheduler.wants_read_ahead(64))
        if cursors:
            unknown = [cursor.pid for cursor in cursors if cursor.pid not in self._infos]
            read = self._counted("read ahead", 0, lambda: done_at_once(self._store.read_ahead(cursors, unknown)))
            self.costs["read ahead"].items += sum(len(ahead.rows) for ahead in read.aheads)
            self._infos |= {pid: fetch_info(provider) for pid, provider in read.providers.items()}
            known = {cursor.pid: self._infos[cursor.pid] for cursor in cursors}
            scheduler.rows_read(cursors, read.aheads, known)
        rows = []
        while len(rows) < wanted and (work := scheduler.take(now)) is not None:
            rows += [row for row, _ in work.rows_out]
        return rows, cursors

    def _result(self, row: Any, now: int) -> FetchResult:
        self._file += 1
        return FetchResult(
            row.pid,
            row.key,
            row.generation,
            0,
            status=200,
            url=row.notice.curl,
            size_bytes=10_240,
            md5=row.notice.md5,
            mimetype="text/html",
            etag='"5f-1"',
            headers='["Server","nginx","Content-Type","text/html","Content-Length","10240"]',
            wire_bytes=10_480,
            elapsed_ms=2,
            machine=1,
            file=self._file,
        )

    def _delete(self, now: int) -> None:
        """Files of contents that were replaced go."""
        after = 0
        while True:
            orders = self._counted(
                "delete files", 0, lambda after=after: done_at_once(self._store.deletes(1, after, 500, now))
            )
            if not orders:
                return
            ids = [order.id for order in orders]
            self._counted("delete files", len(ids), lambda ids=ids: done_at_once(self._store.deletes_done(ids)))
            after = ids[-1]

    def _counted(self, name: str, items: int, work: Callable[[], Any]) -> Any:
        """Do it, and count what it cost; what is counted in between counts there only."""
        inner = sum(cost.cpu_seconds for cost in self.costs.values())
        inner_database = sum(cost.database_seconds for cost in self.costs.values())
        cpu, database = time.process_time(), self._database_seconds()
        result = work()
        cpu, database = time.process_time() - cpu, self._database_seconds() - database
        cost = self.costs[name]
        cost.cpu_seconds += cpu - (sum(each.cpu_seconds for each in self.costs.values()) - inner)
        cost.database_seconds += database - (
            sum(each.database_seconds for each in self.costs.values()) - inner_database
        )
        cost.items += items
        cost.calls += 1
        return result

    def _database_seconds(self) -> float:
        return cpu_seconds_of(self._daemon) if self._daemon else 0.0


def done_at_once(deferred: Deferred[Any]) -> Any:
    """The result of what is done in the same call."""
    found: list[Any] = []
    deferred.addBoth(found.append)
    if not found:
        raise RuntimeError("not done in the same call")
    if hasattr(found[0], "raiseException"):
        found[0].raiseException()
    return found[0]


COUNTED = {
    "rows read": ("Handler_read_first", "Handler_read_key", "Handler_read_next", "Handler_read_prev"),
    "inserted": ("Handler_write",),
    "updated": ("Handler_update",),
    "deleted": ("Handler_delete",),
    "database pages read from disk": ("Innodb_pages_read",),
    "written": ("Innodb_pages_written",),
    "syncs": ("Innodb_data_fsyncs",),
}
"""What is counted of a server: the sum of these variables."""


def server_counts(database: InlineDatabase) -> dict[str, int]:
    """What the server has counted since it began; nothing on SQLite."""
    if database.dialect.name == "sqlite":
        return {}
    found = dict(database.now(lambda txn: txn.query("SHOW GLOBAL STATUS")))
    return {name: sum(int(found[each]) for each in variables) for name, variables in COUNTED.items()}


def folder_bytes(folder: Path) -> int:
    """On disk, with holes left out, and without the server's redo log, which has a size of its own."""
    return sum(path.stat().st_blocks * 512 for path in _files(folder) if not path.name.startswith("ib_logfile"))


def _files(folder: Path) -> Iterator[Path]:
    for name, _, files in os.walk(folder):
        yield from (Path(name) / file for file in files)
