"""What the LCC promises (doc/reliability.md), looked at while everything goes wrong, and when all is well again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import md5
from typing import Any

from lcc.model import FetchOrder, Source
from lcc.model.number_ranges import NumberRanges
from lcc.storage.database.migrations import MAIN, SPIDER
from lcc.storage.database.timeline import known_upto
from lcc.storage.database.transactions import Access, Txn
from lcc.storage.disk.content_paths import content_path
from lcc.storage.disk.content_sync import read_mark
from lcc.storage.disk.set_file import HEADER_BYTES
from lcc.storage.views.content_check import order_again
from lcc.testing.simulated.disk import SimulatedDisk
from lcc.testing.simulated.timeline import EPOCH

from .crawl import SPIDER_NAMES
from .crawl_promises import CrawlPromises
from .notifier import POLLED, WatchedSite
from .sites import Place, Site, identity
from .system import BOTMS, QM, UNSES, System
from .task_promises import TaskPromises
from .tasks import SCHEDULER

BUFFERED_BYTES_MAX = 2_000_000
LEASE_SECONDS = 45.0
"""An order's lease, and some more."""
_LOOKS_SECONDS = 20.0
"""After a database was put back an operator looks for missing files once more, when all roles run again."""
_ROUNDED_SECONDS = 0.001
"""Messages tell times in milliseconds."""
_LOOK_EVERY_EVENTS = 200
_COUNT_EVERY_COMMITS = 25
_AGAIN = """
CREATE TABLE simulated_again (numbers);
CREATE TRIGGER simulated_said AFTER UPDATE ON notifierpos WHEN NEW.numbers = OLD.numbers BEGIN
    INSERT INTO simulated_again VALUES (NEW.numbers);
END;
"""
"""Whoever writes there that a set is applied which was before has applied it again."""


class Promises:
    """Watches a system.

    :ivar violations: what was broken, as it was seen: promise, time, what.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._timeline = system.timeline
        self.violations: list[str] = []
        self.commits = 0
        self.backups = 0
        """That are to be put back, or were moments before."""
        self.power_cut: set[str] = set()
        self.sets_may_be_lost = False
        """Something of this run loses sets that were accepted: they are told again."""
        self._accepted: set[tuple[int, int]] = set()
        self._last_change = 0
        self._changed: dict[bytes, tuple[Any, ...]] = {}
        self._removed: set[tuple[int, int]] = set()
        system.fetch_begins = self._fetch_begins
        system.set_accepted = self._set_accepted
        system.notice_accepted = self._is_accepted
        system.database.committed = self._committed
        self._timeline.after_each = self._after_each
        self._until_look = _LOOK_EVERY_EVENTS
        self._overlaps_until = 0.0
        self._clocks: list[tuple[float, float]] = [(self._timeline.now, 0.0)]
        self._began: dict[int, float] = {}
        system.database.connection().executescript(_AGAIN)
        self._tasks: TaskPromises | None = None
        if system.tasks is not None:
            self._tasks = TaskPromises(system.tasks, self.broken, self._scheduler_was_told)
        self._crawl: CrawlPromises | None = None
        if system.crawl is not None:
            disks = {name: system.machines[system.machine_of[name]] for name in SPIDER_NAMES if name in system.roles}
            self._crawl = CrawlPromises(system.crawl, self.broken, self.rows, self._known_upto, disks)
            system.content_missed = lambda *file: self._crawl is not None and self._crawl.unreadable.add(file)

    @property
    def task_counts(self) -> dict[str, int]:
        """What there was of tasks."""
        return {} if self._tasks is None else self._tasks.counts

    @property
    def crawl_counts(self) -> dict[str, int]:
        """What there was of a crawl."""
        return {} if self._crawl is None else self._crawl.counts

    def broken(self, promise: str, text: str) -> None:
        """It was."""
        if len(self.violations) < 20:
            self.violations.append(f"{promise} at {self._timeline.now - EPOCH:.3f}: {text}")

    def put_back(self) -> None:
        """The database was put back from a backup."""
        self._timeline.call_later(_LOOKS_SECONDS, None, self._look_again)
        self._last_change = self.rows("SELECT value FROM counters WHERE name = 'change'")[0][0]
        self._changed.clear()
        if self._crawl is not None:
            self._crawl.put_back(self._last_change)
            self._system.find_linked()
        # What was noted of machines with orders is lost with it.
        self._overlaps_until = self._timeline.now + LEASE_SECONDS
        self._check_files()

    def _look_again(self) -> None:
        """What was on its way to be removed when the database was put back was removed after it."""
        self._check_files()
        self.backups -= 1

    def _check_files(self) -> None:
        """As whoever puts a database back is told to run ``lcc-admin fsck --quick --repair``: rows that are back may
        name files that were removed since.  No other file is looked for: whatever else is lost has to be seen."""
        database = self._system.database
        for machine, address in enumerate(BOTMS, 1):
            disk = self._system.machines[address].disk
            sql = f"SELECT fetched_fileid FROM lccurl WHERE state = 1 AND fetched_machineid = {machine}"
            missing = [file for (file,) in self.rows(sql) if disk.paths_at(f"/content/{content_path(file)}") is None]
            self._removed |= {(machine, file) for file in missing}
            if missing:
                database.now(order_again, machine, missing)

    def clock_was_set(self) -> None:
        """Somebody's was."""
        tasks = self._system.tasks
        if tasks is not None and self._system.machines[SCHEDULER].clock_ahead:
            tasks.clock_was_set = True
        ahead = self._system.machines[QM].clock_ahead
        if ahead != self._clocks[-1][1]:
            self._clocks.append((self._timeline.now, ahead))

    def _queue_manager_clocks(self) -> list[float]:
        """What the queue manager's wall clock showed when orders went out that may be carried out now, and what has
        passed since."""
        now = self._timeline.now
        until = [since for since, _ in self._clocks[1:]] + [now]
        return [
            now + ahead for (_, ahead), end in zip(self._clocks, until, strict=True) if now - end <= LEASE_SECONDS
        ]

    # While it runs.

    def _after_each(self) -> None:
        self._until_look -= 1
        if self._until_look:
            return
        self._until_look = _LOOK_EVERY_EVENTS
        for connection in self._system.network.connections:
            for end in connection.ends:
                if end.waiting_bytes > BUFFERED_BYTES_MAX:
                    self.broken("P10", f"{end.waiting_bytes} bytes wait in {end.process.name}")
        for site in self._system.all_sites:
            if site.overlaps and self._timeline.now > self._overlaps_until:
                self.broken("P6", site.overlaps[0])
            site.overlaps.clear()

    def _fetch_begins(self, order: FetchOrder) -> None:
        site = self._system.site_of(order.pid, order.url)
        for hours in (site.hours, site.hours_of(order.url.removeprefix(site.root).partition("?")[0])):
            if hours and not any(is_open(hours, now) for now in self._queue_manager_clocks()):
                self.broken("P11", f"{order.url} is fetched outside of {hours}")
        self._check_interval(site, order.url)

    def _check_interval(self, site: Site, url: str) -> None:
        now, interval = self._timeline.now, site.interval_seconds
        before = self._began.get(site.pid)
        self._began[site.pid] = now
        if interval is None or before is None or now - before >= interval - _ROUNDED_SECONDS:
            return
        # A clock that is set while no queue manager runs looks as if so much time had passed; a database that was put
        # back knows nothing of what was fetched since.
        if now > self._overlaps_until and now - self._clocks[-1][0] > LEASE_SECONDS:
            self.broken("P11", f"{url} is fetched {now - before:.3f} s after the last fetch, not {interval:g}")

    def _set_accepted(self, site: Site, place: Place) -> None:
        """What is accepted is in the tables, or would be in the spool after a power cut."""
        order = self._system.order_of(site, place)
        self._accepted.add((site.pid, order))
        for disk, path, header in self._spooled():
            if (header["pid"], header["connseq"]) != (site.pid, order):
                continue
            if disk.after_a_power_cut(path) != disk.paths_at(path) or not header["answered"]:
                self.broken("P1", f"a set of {site.pid} is accepted, {path} is not on the disk")

    def _scheduler_was_told(self, number: int) -> None:
        """And for one that the scheduler takes out of its outbox."""
        assert self._system.tasks is not None
        ((epoch,),) = self._system.tasks.rows("SELECT value FROM meta WHERE name = 'notices_epoch'")
        self._is_accepted(str(epoch), number)

    def _is_accepted(self, epoch: str, number: int) -> None:
        """The same for a notifier's set."""
        rows = self.rows("SELECT epoch, numbers FROM notifierpos")
        applied = {bytes(name).decode(): NumberRanges(bytes(text).decode()) for name, text in rows}
        if number in applied.get(epoch, NumberRanges()):
            return
        for disk, path, header in self._spooled():
            if header.get("said", [])[1:3] == [epoch, number]:
                if disk.after_a_power_cut(path) == disk.paths_at(path) and header["answered"]:
                    return
                self.broken("P1", f"the notifier's set {number} is accepted, {path} is not on the disk")
        # It may be a file that cannot be read any more.
        if not self.sets_may_be_lost:
            self.broken("P1", f"the notifier's set {number} is accepted, and is nowhere")

    def _spooled(self) -> Iterator[tuple[SimulatedDisk, str, dict[str, Any]]]:
        """The sets in the spools that are not in the tables, with their headers."""
        applied = {
            (bytes(name).decode(), bytes(epoch).decode()): last
            for name, epoch, last in self.rows("SELECT uns, epoch, last_number FROM setspos")
        }
        for address in UNSES:
            disk = self._system.machines[address].disk
            for path, data in disk.paths().items():
                if not path.endswith(".set") or "/damaged/" in path:
                    continue
                try:
                    header = json.loads(data[:HEADER_BYTES])
                except ValueError:
                    continue  # bits have rotted
                if header["number"] > applied.get((path.split("/")[2], header["epoch"]), 0):
                    yield disk, path, header

    def _committed(self, series: str) -> None:
        if series != MAIN:
            if series == SPIDER and self._crawl is not None:
                self._crawl.committed()
            elif self._tasks is not None:
                self._tasks.committed()
            return
        self.commits += 1
        changed = self.rows(
            "SELECT change_number, curl, state, fetched_machineid, fetched_fileid, len, md5, urlkey,"
            " furl, burl, subtype, charset, source, fetched_url, pid, connseq FROM lccurl"
            f" WHERE change_number > {self._last_change} ORDER BY change_number"
        )
        if self._crawl is not None:
            self._crawl.cached({row[0]: row[1] for row in changed})
        for machine in {row[3] for row in changed if row[3] is not None}:
            if self._system.machines[BOTMS[machine - 1]].disk.after_a_power_cut("/content/counter") is None:
                self.broken("P7", f"a power cut of machine {machine} could take the counter that tells what is lost")
        self._check_sweeps({(row[-2], row[-1]) for row in changed if not row[2]})
        for number, curl, state, machine, file, length, digest, key, *names, _pid, _connseq in changed:
            self._last_change = number
            if self._changed.get(key) == (state, machine, file, *names):
                self.broken("P4", f"change {number} of {curl} has changed nothing")
            self._changed[key] = (state, machine, file, *names)
            if (machine, file) in self._removed:
                continue  # it is to be fetched again
            if state == 1 and machine is not None and BOTMS[machine - 1] not in self.power_cut:
                self._check_content("P7", curl, machine, file, length, digest)
        if self.commits % _COUNT_EVERY_COMMITS == 0:
            self._check_books()
            self._check_cuts()

    def _check_sweeps(self, deleted: set[tuple[int, int]]) -> None:
        """A full set that names nothing deletes nothing, where somebody has to say that this is meant.

        :param deleted: (provider, number of the set) of what has been deleted now.
        """
        if self._system.mass_deletion_share or not deleted:
            return
        for _, path, header in self._spooled():
            empty = header["full"] and not header["count"] and not header.get("deletions")
            if empty and (header["pid"], header["connseq"]) in deleted:
                self.broken("P5", f"{path} names nothing, and deletes what {header['pid']} has")

    def _check_content(self, promise: str, curl: str, machine: int, file: int, length: int, digest: str) -> None:
        disk = self._system.machines[BOTMS[machine - 1]].disk
        data = disk.paths_at(f"/content/{content_path(file)}")
        if data is None:
            self.broken(promise, f"{curl}: its file {file} on machine {machine} is not there")
        elif len(data) != length or md5(data, usedforsecurity=False).hexdigest() != digest:
            self.broken(promise, f"{curl}: its file {file} on machine {machine} is another one")

    def _check_books(self) -> None:
        """The statistics of each provider are what can be counted."""
        sql = (
            "SELECT s.pid, s.files_used, s.space_used, s.nurlproc,"
            " (SELECT COUNT(*) FROM lccurl l WHERE l.pid = s.pid AND l.state = 1 AND l.source & 31),"
            " (SELECT COALESCE(SUM(len), 0) FROM lccurl l WHERE l.pid = s.pid AND l.state = 1 AND l.source & 31),"
            " (SELECT COUNT(*) FROM qdb q WHERE q.pid = s.pid AND q.operation = 1) FROM pstats s"
        )
        for pid, files, space, waiting, files_there, space_there, rows in self.rows(sql):
            if (files, space, waiting) != (files_there, space_there, rows):
                told, counted = (files, space, waiting), (files_there, space_there, rows)
                self.broken("P8", f"the books of {pid} say {told}, there are {counted}")

    def _check_cuts(self) -> None:
        """A set that broke off has left nothing behind."""
        system = self._system
        cut = {(site.pid, system.order_of(site, place)) for site in system.sites for place in site.cut}
        cut -= self._accepted  # an earlier set of its session may have had the same number
        # One whose beginning was not read has no number; a row that only remembers a generation has none, either.
        cut -= {(site.pid, 0) for site in system.sites}
        told = (
            self.rows("SELECT pid, connseq, curl FROM lccurl UNION SELECT pid, connseq, curl FROM qdb") if cut else []
        )
        for pid, connseq, curl in told:
            if (pid, connseq) in cut:
                self.broken("P3", f"{curl} is as the set of order number {connseq} said, which broke off")

    # In the end.

    def _known_upto(self, timeline: str) -> int | None:
        database = self._system.database
        return known_upto(Txn(database.dialect, database.connection(), Access.SNAPSHOT), timeline)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """From the tables as they are now."""
        return self._system.database.connection().execute(sql).fetchall()

    def is_drained(self) -> bool:
        """There is nothing left to be done."""
        return not self.undone()

    def undone(self) -> list[str]:
        """What is left to be done."""
        system = self._system
        if self.backups:
            return ["a backup is being put back"]
        left = [] if self._tasks is None else self._tasks.undone()
        left += [] if self._crawl is None else self._crawl.undone()
        for site in system.sites:
            if site.untold or site.wants_full or site.mending:
                left.append(f"{site.pid} has {len(site.untold)} to tell, full: {site.wants_full}")
        queued = self.rows("SELECT COUNT(*) FROM qdb WHERE operation = 1")[0][0]
        if queued:
            left.append(f"{queued} rows in the queue")
        held = self.rows("SELECT pid, deletions FROM heldsweeps")
        left += [f"{count} deletions of {pid} are held" for pid, count in held]
        for watched in system.watched:
            untold = len(watched.untold) + watched.untold_poll
            waiting = sum(len(outbox.entries) for outbox in watched.outboxes.values())
            if untold or waiting:
                left.append(f"the notifier has {untold} to tell, {waiting} sets wait for their answers")
        left += [f"of {site.pid} is untold: {site.spoken.untold}" for site in system.all_sites if site.is_spoken_of]
        providers = {site.pid for site in system.sites}
        for pid, count, wanted in self.rows("SELECT pid, errseq - errcleared, wantfullset FROM pstats"):
            if pid in providers and (count or wanted):
                left.append(f"{count} errors of {pid} are not shown; wanted: {wanted!r}")
        for table in ("orders", "damaged", "fsmdb"):
            if count := self.rows(f"SELECT COUNT(*) FROM {table}")[0][0]:
                left.append(f"{count} rows in {table}")
        left += [f"{path} waits" for _, path, _ in self._spooled()]
        for address in BOTMS:
            mark = read_mark(system.machines[address].disk.paths_at("/content/synced") or b"")
            if mark is not None and mark.suspect_upto:
                left.append(f"{address} verifies its content")
        if {key: _shown(row) for key, row in system.copy.rows.items()} != self._cached():
            left.append("the content user's copy is not the cache")
        return left

    def _cached(self) -> dict[str, tuple[str, ...]]:
        """What content users have to see of each row, by key."""
        found = self.rows(
            "SELECT urlkey, md5, CASE furl WHEN '' THEN curl ELSE furl END,"
            " CASE burl WHEN '' THEN curl ELSE burl END, subtype FROM lccurl"
            " WHERE state = 1 AND change_number > 0 AND source & 31"
        )
        return {bytes(key).hex(): tuple(shown) for key, *shown in found}

    def _check_polled(self, site: Site) -> None:
        """What was polled last is in the cache."""
        if isinstance(site, WatchedSite):
            url, page = site.url(POLLED), site.leftovers[POLLED]
            found = self.rows(f"SELECT md5, source FROM lccurl WHERE curl = '{url}' AND state = 1")
            if found != [(page.md5, int(Source.POLLED))]:
                self.broken("P5", f"{url}, which was polled, is {found} instead of {page.md5}")

    def check_the_end(self) -> None:
        """Everything has healed and drained: the cache has what the sites have."""
        system = self._system
        system.find_linked()
        if self._tasks is not None:
            self._tasks.check_the_end(self.sets_may_be_lost)
        if self._crawl is not None:
            self._crawl.check_the_end()
        for site in system.all_sites:
            self._check_polled(site)
            site.pages |= {} if site.spoken is None else site.spoken.pages
            sql = (
                "SELECT curl, md5, len, fetched_machineid, fetched_fileid, mimetype, confirmed_time,"
                " furl, burl, subtype, hours FROM lccurl"
                f" WHERE pid = {site.pid} AND state = 1 AND change_number > 0 AND source & 31"
            )
            cached = {(row[0].removeprefix(site.root), row[5]): row for row in self.rows(sql)}
            expected = {identity(path): page.md5 for path, page in site.pages.items()}
            described = {identity(path): site.description(path) for path in site.pages}
            told = {identity(path): int(when) for path, when in site.told_last.items()}
            for name in sorted(expected.keys() | cached.keys()):
                row = cached.get(name)
                if row is None:
                    self.broken("P2", f"{site.url(name[0])} ({name[1]}) is not in the cache")
                elif name not in expected:
                    self.broken("P5", f"{site.url(name[0])} ({name[1]}) is in the cache, and gone from the site")
                elif row[1] != expected[name]:
                    self.broken("P5", f"{site.url(name[0])} ({name[1]}) is not in the cache as it is now")
                else:
                    self._check_content("P7", site.url(name[0]), row[3], row[4], row[2], row[1])
                    if row[7:] != described[name]:
                        self.broken("P5", f"{site.url(name[0])} ({name[1]}) is described as {row[7:]}")
                    # Else that was put back, too, or nobody knows what the clock showed.
                    if row[6] < told.get(name, 0) and not self._overlaps_until and len(self._clocks) == 1:
                        self.broken("P5", f"{site.url(name[0])} ({name[1]}) was told, and is as old as before")
            for text in site.miscounted:
                self.broken("P8", text)
            for path in sorted(site.broken):
                if not site.errors_shown.get(path):
                    self.broken("P8", f"the error of {site.url(path)} was never shown")
        for (numbers,) in self.rows("SELECT numbers FROM simulated_again"):
            self.broken("P5", f"a notifier's set was applied again: {bytes(numbers).decode()}")
        for text in system.copy.wrong:
            self.broken("P7", text)
        self._check_books()
        self._check_cuts()
        self._after_each()


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    """What a content user's row says that a notice may change."""
    return row["md5"], row["furl"], row["burl"] or "-", row["subtype"] or ""


def is_open(hours: str, now: float) -> bool:
    """Whether this is within the hours; a slot lasts ten seconds, as the system is configured."""
    slot = int(now // 10) % 24
    first, last = map(int, hours.split("-"))
    return first <= slot <= last if first <= last else slot >= first or slot <= last
