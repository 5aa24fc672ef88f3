"""What the LCC promises (doc/reliability.md), looked at while everything goes wrong, and when all is well again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from hashlib import md5
from typing import Any

from lcc.model import FetchOrder, Source
from lcc.model.number_ranges import NumberRanges
from lcc.storage.database.migrations import MAIN, PUSH, SPIDER
from lcc.storage.database.tables.timeline import known_upto
from lcc.storage.database.transactions import Access, Txn
from lcc.testing.simulated.disk import SimulatedDisk
from lcc.testing.simulated.timeline import EPOCH

from .bandwidth import BandwidthPromises
from .crawl import SPIDER_NAMES
from .crawl_promises import CrawlPromises
from .fault import Fault
from .lcc_promises import LccPromises
from .move_promises import MovePromises
from .notifier import POLLED, WatchedSite
from .one_lcc import Lcc
from .push_promises import PushPromises
from .registration_promises import RegistrationPromises
from .sites import KEPT, Place, Site, identity
from .system import System
from .task_promises import TaskPromises
from .tasks import SCHEDULER
from .told_promises import ToldPromises

BUFFERED_BYTES_MAX = 2_000_000
_LOOKS_SECONDS = 20.0
"""After a database was put back an operator looks for missing files once more, when all roles run again."""
_ROUNDED_SECONDS = 0.001
"""Messages tell times in milliseconds."""

_KEPT = (
    "SELECT l.curl, EXISTS (SELECT 1 FROM qdb q WHERE q.urlkey = l.urlkey AND q.operation = 1),"
    " l.fetched_machineid, l.fetched_fileid, l.md5 FROM lccurl l WHERE l.state = 1 AND l.curl IN ({urls})"
)


class Promises:
    """Watches a system.

    :ivar violations: what was broken, as it was seen: promise, time, what.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._timeline = system.timeline
        self.violations: list[str] = []
        self.backups = 0
        """That are to be put back, or were moments before."""
        self.sets_may_be_lost = False
        """Something of this run loses sets that were accepted: they are told again."""
        self._accepted: set[tuple[int, int]] = set()
        system.set_accepted = self._set_accepted
        system.notice_accepted = self._is_accepted
        self._timeline.look = self._look
        self._began: dict[int, float] = {}
        self._kept_urls = [
            site.url(path) for site in system.sites for path in sorted(site.pages) if path.startswith(KEPT)
        ]
        self._kept_sql = _KEPT.format(urls=", ".join("?" * len(self._kept_urls)))
        self._kept: dict[str, bool] = {}
        """Of these, those that are in the cache: whether they are in the queue, too."""
        self._of: dict[Lcc, LccPromises] = {}
        for lcc in system.lccs:
            self._of[lcc] = LccPromises(lcc, self.broken, self._cached, self._check_cuts)
            lcc.fetch_begins = partial(self._fetch_begins, lcc)
            lcc.database.committed = partial(self._committed, lcc)
        self._tasks: TaskPromises | None = None
        if system.tasks is not None:
            self._tasks = TaskPromises(system.tasks, self.broken, self._scheduler_was_told)
        self._crawl: CrawlPromises | None = None
        if system.crawl is not None:
            disks = {name: system.machines[system.machine_of[name]] for name in SPIDER_NAMES if name in system.roles}
            self._crawl = CrawlPromises(system.crawl, self.broken, system.lcc.rows, self._known_upto, disks)
            system.lcc.content_missed = lambda *file: self._crawl is not None and self._crawl.unreadable.add(file)

        self._bandwidth = BandwidthPromises(
            system.sites, self.broken, self._queue_manager_started, lambda: self._knows_delays
        )
        self._registrations: RegistrationPromises | None = None
        if system.newcomers:
            registrations = self._registrations = RegistrationPromises(
                system.newcomers, system.all_sites, system.lccs, system.front, self.broken
            )
            system.newcomer_answered = registrations.answered
            registrations.appeared = system.provider_appears
        self._pushes: PushPromises | None = None
        if system.pushing:
            self._pushes = PushPromises(system.lcc, system.pushing, system.sites, self._is_accepted, self.broken)
        self._moves: MovePromises | None = None
        if system.front is not None:
            self._moves = MovePromises(system.front, system.all_sites, self.broken, self._has_lost_power)
            if self._registrations is not None:
                self._moves.others = lambda: registrations.abandoned
            told_by = {lcc.number: self._of[lcc] for lcc in system.lccs}
            ToldPromises(system.copy, told_by, self.broken, system.front)

    @property
    def commits(self) -> int:
        """Of the queues' databases."""
        return sum(promises.commits for promises in self._of.values())

    @property
    def task_counts(self) -> dict[str, int]:
        """What there was of tasks."""
        return {} if self._tasks is None else self._tasks.counts

    @property
    def crawl_counts(self) -> dict[str, int]:
        """What there was of a crawl."""
        return {} if self._crawl is None else self._crawl.counts

    @property
    def move_counts(self) -> dict[str, int]:
        """What there was of moves."""
        return {} if self._moves is None else self._moves.counts

    @property
    def registration_counts(self) -> dict[str, int]:
        """What there was of registrations."""
        return {} if self._registrations is None else self._registrations.counts

    @property
    def push_counts(self) -> dict[str, int]:
        """What there was of pushes."""
        return {} if self._pushes is None else self._pushes.counts

    @property
    def bandwidth_counts(self) -> dict[str, int]:
        """What there was of limits of bandwidth."""
        return self._bandwidth.counts

    def fault_happens(self, fault: Fault) -> None:
        """Something goes wrong now."""
        names = [name for name, address in self._system.machine_of.items() if fault.target in (name, address)]
        for name in names or [""]:
            self._bandwidth.fault_happens(fault, self._timeline.now, name)

    def _queue_manager_started(self, site: Site) -> float:
        """When the one of this site was, last; now, if there is none."""
        front = self._system.front
        lcc = self._system.lcc if front is None else front.home(site.pid)
        process = lcc.process("qm")
        return self._timeline.now if process is None else process.started_time

    def broken(self, promise: str, text: str) -> None:
        """It was."""
        if len(self.violations) < 20:
            self.violations.append(f"{promise} at {self._timeline.now - EPOCH:.3f}: {text}")

    def power_was_cut(self, address: str) -> None:
        """Of this machine."""
        for promises in self._of.values():
            promises.power_cut.add(address)

    def _has_lost_power(self, address: str) -> bool:
        return any(address in promises.power_cut for promises in self._of.values())

    def put_back(self, lcc: Lcc) -> None:
        """Its database was put back from a backup."""
        promises = self._of[lcc]
        self._timeline.call_later(_LOOKS_SECONDS, None, self._look_again, promises)
        promises.put_back()
        if self._crawl is not None:
            self._crawl.put_back(promises.last_change)
            self._system.find_linked()
        if self._moves is not None:
            self._moves.put_back(lcc)
        promises.check_files()

    def _look_again(self, promises: LccPromises) -> None:
        """What was on its way to be removed when the database was put back was removed after it."""
        promises.check_files()
        promises.removing -= 1
        self.backups -= 1

    def clock_was_set(self) -> None:
        """Somebody's was."""
        tasks = self._system.tasks
        scheduler = self._system.machines.get(SCHEDULER)
        if tasks is not None and scheduler is not None and scheduler.clock_ahead != scheduler.clock_usual:
            tasks.clock_was_set = True
        for promises in self._of.values():
            promises.clock_was_set()

    # While it runs.

    def _look(self) -> None:
        for connection in self._system.network.connections:
            for end in connection.ends:
                if end.waiting_bytes > BUFFERED_BYTES_MAX:
                    self.broken("P10", f"{end.waiting_bytes} bytes wait in {end.process.name}")
        for site in self._system.all_sites:
            if site.overlaps and all(self._timeline.now > promises.overlaps_until for promises in self._of.values()):
                self.broken("P6", site.overlaps[0])
            site.overlaps.clear()

    def _fetch_begins(self, lcc: Lcc, order: FetchOrder) -> None:
        site = self._system.site_of(order.pid, order.url)
        if site is None:
            return
        if self._moves is not None:
            self._moves.fetch_begins(lcc, site, order.url)
        for hours in (site.hours, site.hours_of(order.url.removeprefix(site.root).partition("?")[0])):
            if hours and not any(is_open(hours, now) for now in self._of[lcc].queue_manager_clocks()):
                self.broken("P11", f"{order.url} is fetched outside of {hours}")
        self._check_interval(site, order.url)

    def _check_kept(self, lcc: Lcc) -> None:
        """What is told with ``ifabsent`` does not come into the queue while it is in the cache."""
        rows = self._of[lcc].rows(self._kept_sql, self._kept_urls)
        before, self._kept = self._kept, {url: bool(queued) for url, queued, *_ in rows}
        came = {url for url, queued in self._kept.items() if queued and before.get(url) is False}
        if not came or self.sets_may_be_lost or self._of[lcc].power_cut:
            return  # its content may be lost
        for url, _, machine, file, digest in rows:
            data = lcc.content(machine, file)
            if url in came and data is not None and md5(data, usedforsecurity=False).hexdigest() == digest:
                self.broken("P2", f"{url} is to be fetched, told with ifabsent, and is in the cache")

    def _check_interval(self, site: Site, url: str) -> None:
        now, interval = self._timeline.now, site.interval_seconds
        before = self._began.get(site.pid)
        self._began[site.pid] = now
        if interval is None or before is None or now - before >= interval - _ROUNDED_SECONDS:
            return
        if self._knows_delays:
            self.broken("P11", f"{url} is fetched {now - before:.3f} s after the last fetch, not {interval:g}")

    @property
    def _knows_delays(self) -> bool:
        """No queue manager has lost what a provider has to wait for."""
        return all(promises.knows_intervals for promises in self._of.values())

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
        sql = f"SELECT numbers FROM notifierpos WHERE epoch = CAST('{epoch}' AS BLOB)"
        applied = [NumberRanges(bytes(text).decode()) for lcc in self._of for (text,) in lcc.rows(sql)]
        if any(number in ranges for ranges in applied):
            return
        for disk, path, header in self._spooled():
            if header.get("said", [])[1:3] == [epoch, number]:
                if disk.after_a_power_cut(path) == disk.paths_at(path) and header["answered"]:
                    return
                self.broken("P1", f"the notifier's set {number} is accepted, {path} is not on the disk")
        held = [json.loads(text)["said"] for lcc in self._of for (text,) in lcc.rows("SELECT header FROM heldsets")]
        if any(said is not None and said[1:3] == [epoch, number] for said in held):
            return
        # It may be a file that cannot be read any more.
        if not self.sets_may_be_lost:
            self.broken("P1", f"the notifier's set {number} is accepted, and is nowhere")

    def _spooled(self) -> Iterator[tuple[SimulatedDisk, str, dict[str, Any]]]:
        """The sets in the spools that are not in the tables, with their headers."""
        for promises in self._of.values():
            yield from promises.spooled()

    def _committed(self, lcc: Lcc, series: str) -> None:
        if series == SPIDER and self._crawl is not None:
            self._crawl.committed()
        elif series == PUSH and self._pushes is not None:
            self._pushes.committed()
            if self._system.storing:
                self._system.storing.pop(0)()
        elif series != MAIN and self._tasks is not None:
            self._tasks.committed()
        self._of[lcc].committed(series)
        if self._registrations is not None:
            self._registrations.committed(lcc)
        if self._moves is not None:
            self._moves.committed(lcc)
        elif self._kept_urls and series == MAIN:
            self._check_kept(lcc)

    def _cached(self, changed: dict[int, str]) -> None:
        if self._crawl is not None:
            self._crawl.cached(changed)

    def _check_cuts(self) -> None:
        """A set that broke off has left nothing behind."""
        system = self._system
        cut = {(site.pid, system.order_of(site, place)) for site in system.sites for place in site.cut}
        cut -= self._accepted  # an earlier set of its session may have had the same number
        # One whose beginning was not read has no number; a row that only remembers a generation has none, either.
        cut -= {(site.pid, 0) for site in system.sites}
        sql = "SELECT pid, connseq, curl FROM lccurl UNION SELECT pid, connseq, curl FROM qdb"
        told = [row for lcc in self._of for row in lcc.rows(sql)] if cut else []
        for pid, connseq, curl in told:
            if (pid, connseq) in cut:
                self.broken("P3", f"{curl} is as the set of order number {connseq} said, which broke off")

    # In the end.

    def _known_upto(self, timeline: str) -> int | None:
        database = self._system.database
        return known_upto(Txn(database.dialect, database.connection(), Access.SNAPSHOT), timeline)

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
        left += [] if self._moves is None else self._moves.undone()
        left += [] if self._registrations is None else self._registrations.undone()
        left += [] if self._pushes is None else self._pushes.undone()
        for site in system.sites:
            if site.untold or site.wants_full or site.mending:
                left.append(f"{site.pid} has {len(site.untold)} to tell, full: {site.wants_full}")
        for watched in system.watched:
            untold = len(watched.untold) + watched.untold_poll
            waiting = sum(len(outbox.entries) for outbox in watched.outboxes.values())
            if untold or waiting:
                left.append(f"the notifier has {untold} to tell, {waiting} sets wait for their answers")
        left += [f"of {site.pid} is untold: {site.spoken.untold}" for site in system.all_sites if site.is_spoken_of]
        providers = {site.pid for site in system.sites}
        for promises in self._of.values():
            left += promises.undone(providers)
        if {key: _shown(row) for key, row in system.copy.rows.items()} != self._all_cached():
            left.append("the content user's copy is not the cache")
        return left

    def _all_cached(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for promises in self._of.values():
            found |= promises.cached()
        return found

    def _check_polled(self, site: Site) -> None:
        """What was polled last is in the cache."""
        if isinstance(site, WatchedSite):
            url, page = site.url(POLLED), site.leftovers[POLLED]
            sql = f"SELECT md5, source FROM lccurl WHERE curl = '{url}' AND state = 1"
            found = [row for lcc in self._of for row in lcc.rows(sql)]
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
        if self._registrations is not None:
            self._registrations.check_the_end()
        if self._moves is not None:
            self._moves.check_the_end()
        if self._pushes is not None:
            self._pushes.find_sites()
            self._pushes.check_the_end()
        for site in system.all_sites:
            self._check_polled(site)
            site.pages |= {} if site.spoken is None else site.spoken.pages
            site.pages |= {} if site.pushed is None else site.pushed.pages
            sql = (
                "SELECT curl, md5, len, fetched_machineid, fetched_fileid, mimetype, confirmed_time,"
                " furl, burl, subtype, hours FROM lccurl"
                f" WHERE pid = {site.pid} AND state = 1 AND change_number > 0 AND source & 31"
            )
            cached = {
                (row[0].removeprefix(site.root), row[5]): (promises, row)
                for promises in self._of.values()
                for row in promises.rows(sql)
            }
            expected = {identity(path): page.md5 for path, page in site.pages.items()}
            described = {identity(path): site.description(path) for path in site.pages}
            behind = min(promises.clocks[0][1] for promises in self._of.values())  # of queue managers
            told = {
                identity(path): int(when + behind)
                for path, when in site.told_last.items()
                if not path.startswith(KEPT)
            }
            for name in sorted(expected.keys() | cached.keys()):
                promises, row = cached.get(name, (None, ()))
                if promises is None:
                    self.broken("P2", f"{site.url(name[0])} ({name[1]}) is not in the cache")
                elif name not in expected:
                    self.broken("P5", f"{site.url(name[0])} ({name[1]}) is in the cache, and gone from the site")
                elif row[1] != expected[name]:
                    self.broken("P5", f"{site.url(name[0])} ({name[1]}) is not in the cache as it is now")
                else:
                    promises.check_content("P7", site.url(name[0]), row[3], row[4], row[2], row[1])
                    if row[7:] != described[name]:
                        self.broken("P5", f"{site.url(name[0])} ({name[1]}) is described as {row[7:]}")
                    # Else that was put back, too, or nobody knows what the clock showed.
                    if row[6] < told.get(name, 0) and self._knows_times:
                        self.broken("P5", f"{site.url(name[0])} ({name[1]}) was told, and is as old as before")
            for text in site.miscounted:
                self.broken("P8", text)
            for path in sorted(site.broken):
                if not site.errors_shown.get(path):
                    self.broken("P8", f"the error of {site.url(path)} was never shown")
        for text in system.copy.wrong:
            self.broken("P7", text)
        for promises in self._of.values():
            promises.check_the_end()
        self._check_cuts()
        self._look()

    @property
    def _knows_times(self) -> bool:
        """No database was put back, no clock of a queue manager set."""
        return not any(promises.overlaps_until or len(promises.clocks) > 1 for promises in self._of.values())


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    """What a content user's row says that a notice may change."""
    return row["md5"], row["furl"], row["burl"] or "-", row["subtype"] or ""


def is_open(hours: str, now: float) -> bool:
    """Whether this is within the hours; a slot lasts ten seconds, as the system is configured."""
    slot = int(now // 10) % 24
    first, last = map(int, hours.split("-"))
    return first <= slot <= last if first <= last else slot >= first or slot <= last
