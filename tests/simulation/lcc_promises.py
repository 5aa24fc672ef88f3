"""What is looked at in each LCC while everything goes wrong: its tables, spools and content files."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from hashlib import md5
from typing import Any

import attrs

from lcc.storage.database.migrations import MAIN
from lcc.storage.disk.content_sync import read_mark
from lcc.storage.disk.set_file import HEADER_BYTES
from lcc.storage.views.content_check import order_again
from lcc.testing.simulated.disk import SimulatedDisk

from .one_lcc import Lcc

LEASE_SECONDS = 45.0
"""An order's lease, and some more."""
_COUNT_EVERY_COMMITS = 25
_AGAIN = """
CREATE TABLE simulated_again (numbers);
CREATE TRIGGER simulated_said AFTER UPDATE ON notifierpos
WHEN NEW.numbers = OLD.numbers AND NOT EXISTS (SELECT 1 FROM staged) BEGIN
    INSERT INTO simulated_again VALUES (NEW.numbers);
END;
"""
"""Whoever writes there that a set is applied which was before has applied it again; but for a provider that arrives,
which brings what was applied where it has been."""
_IMPORTED = "SELECT 1 FROM origins o WHERE o.urlkey = l.urlkey AND o.change_number = l.change_number"
_LEFT = "SELECT pid FROM fenced WHERE state = 'left' UNION SELECT pid FROM pidb WHERE removed"
_IN_PART = f"SELECT pid FROM staged UNION {_LEFT}"
"""Providers whose rows come or go, page by page."""


@attrs.define
class LastChange:
    """Of a row.

    :ivar deletions: so many changes of it were deletions.
    """

    number: int = 0
    time: float = 0.0
    deletions: int = 0


_HEADER_KEYS = {"answered", "connseq", "epoch", "number", "pid"}
"""Of a spooled set; those that are looked at here."""


class LccPromises:
    """Watches an LCC.

    :param broken: told what was, with the promise that it breaks.
    :param cached: called after a transaction with what it has changed in the cache: number of the change -> URL.
    :param counted: called now and then after a transaction.
    :ivar overlaps_until: what was noted of machines with orders was lost with a database that was put back: so long
        they may still carry out orders that nobody knows of.
    :ivar clocks: since when the wall clock of its queue manager has been so far ahead.
    :ivar power_cut: addresses of machines that have lost their power.
    :ivar changes: key -> the last change of a row that was made here; not that it arrived.
    :ivar removing: databases that were put back lately: files that their rows name may be on their way to be removed,
        until an operator has looked for them once more.
    """

    def __init__(
        self,
        lcc: Lcc,
        broken: Callable[[str, str], None],
        cached: Callable[[dict[int, str]], object],
        counted: Callable[[], object],
    ) -> None:
        self.lcc = lcc
        self.rows = lcc.rows
        self.commits = 0
        self.power_cut: set[str] = set()
        self.overlaps_until = 0.0
        self.removing = 0
        self._timeline = lcc.world.timeline
        self.clocks: list[tuple[float, float]] = [(self._timeline.now, lcc.machine_of("qm").clock_ahead)]
        self.last_change = 0
        self.changes: dict[str, LastChange] = {}
        self._broken = broken
        self._cached = cached
        self._counted = counted
        self._changed: dict[bytes, tuple[Any, ...]] = {}
        self._removed: set[tuple[int, int]] = set()
        lcc.database.connection().executescript(_AGAIN)

    # The wall clock.

    def clock_was_set(self) -> None:
        """Somebody's was."""
        ahead = self.lcc.machine_of("qm").clock_ahead
        if ahead != self.clocks[-1][1]:
            self.clocks.append((self._timeline.now, ahead))

    def queue_manager_clocks(self) -> list[float]:
        """What the queue manager's wall clock showed when orders went out that may be carried out now, and what has
        passed since."""
        now = self._timeline.now
        until = [since for since, _ in self.clocks[1:]] + [now]
        return [now + ahead for (_, ahead), end in zip(self.clocks, until, strict=True) if now - end <= LEASE_SECONDS]

    @property
    def knows_intervals(self) -> bool:
        """A clock that is set while no queue manager runs looks as if so much time had passed; a database that was
        put back knows nothing of what was fetched since."""
        now = self._timeline.now
        return now > self.overlaps_until and now - self.clocks[-1][0] > LEASE_SECONDS

    # A database that is put back.

    def put_back(self) -> None:
        """It was, from a backup."""
        self.last_change = self.rows("SELECT value FROM counters WHERE name = 'change'")[0][0]
        self._changed.clear()
        self.removing += 1
        self.overlaps_until = self._timeline.now + LEASE_SECONDS

    def check_files(self) -> None:
        """As whoever puts a database back is told to run ``lcc-admin fsck --quick --repair``: rows that are back may
        name files that were removed since.  No other file is looked for: whatever else is lost has to be seen."""
        for machine in self.lcc.stores:
            sql = f"SELECT fetched_fileid FROM lccurl WHERE state = 1 AND fetched_machineid = {machine}"
            missing = [file for (file,) in self.rows(sql) if self.lcc.content(machine, file) is None]
            self._removed |= {(machine, file) for file in missing}
            if missing:
                self.lcc.database.now(order_again, machine, missing)

    # Spools.

    def spooled(self) -> Iterator[tuple[SimulatedDisk, str, dict[str, Any]]]:
        """The sets in the spools that are not in the tables, with their headers."""
        applied = {
            (bytes(name).decode(), bytes(epoch).decode()): last
            for name, epoch, last in self.rows("SELECT uns, epoch, last_number FROM setspos")
        }
        for address in self.lcc.hosts.unses:
            disk = self.lcc.world.machines[address].disk
            for path, data in disk.paths().items():
                if not path.endswith(".set") or "/damaged/" in path:
                    continue
                try:
                    header = json.loads(data[:HEADER_BYTES])
                except ValueError:
                    continue  # bits have rotted
                if not header.keys() >= _HEADER_KEYS:
                    continue  # of a name
                if header["number"] > applied.get((path.split("/")[2], header["epoch"]), 0):
                    yield disk, path, header

    # After each transaction.

    def committed(self, series: str) -> None:
        """A transaction has written tables of a series."""
        if series != MAIN:
            return
        self.commits += 1
        changed = self.rows(
            "SELECT change_number, curl, state, fetched_machineid, fetched_fileid, len, md5, urlkey,"
            f" EXISTS ({_IMPORTED}), furl, burl, subtype, charset, source, fetched_url, pid, connseq FROM lccurl l"
            " WHERE change_number > ? ORDER BY change_number",
            [self.last_change],
        )
        self._cached({row[0]: row[1] for row in changed})
        stores = self.lcc.stores
        for machine in {row[3] for row in changed} & stores.keys():
            if stores[machine].disk.after_a_power_cut("/content/counter") is None:
                self._broken("P7", f"a power cut of machine {machine} could take the counter that tells what is lost")
        self._check_sweeps({(row[-2], row[-1]) for row in changed if not row[2]})
        for number, curl, state, machine, file, length, digest, key, imported, *names, _pid, _connseq in changed:
            self.last_change = number
            if not imported:
                known = self.changes.setdefault(key.hex(), LastChange())
                known.number, known.time = number, self._timeline.now
                known.deletions += state != 1
            if self._changed.get(key) == (state, machine, file, *names) and not imported:
                self._broken("P4", f"change {number} of {curl} has changed nothing")
            self._changed[key] = (state, machine, file, *names)
            if (machine, file) in self._removed or machine not in stores:
                continue  # it is to be fetched again
            if self.removing and self.lcc.content(machine, file) is None:
                continue
            if state == 1 and stores[machine].address not in self.power_cut:
                self.check_content("P7", curl, machine, file, length, digest)
        if self.commits % _COUNT_EVERY_COMMITS == 0:
            self.check_books()
            self._counted()

    def _check_sweeps(self, deleted: set[tuple[int, int]]) -> None:
        """A full set that names nothing deletes nothing, where somebody has to say that this is meant.

        :param deleted: (provider, number of the set) of what has been deleted now.
        """
        if self.lcc.settings.mass_deletion_share or not deleted:
            return
        for _, path, header in self.spooled():
            empty = header["full"] and not header["count"] and not header.get("deletions")
            if empty and (header["pid"], header["connseq"]) in deleted:
                self._broken("P5", f"{path} names nothing, and deletes what {header['pid']} has")

    def check_content(self, promise: str, curl: str, machine: int, file: int, length: int, digest: str) -> None:
        """A cached row has its file."""
        data = self.lcc.content(machine, file)
        if data is None:
            self._broken(promise, f"{curl}: its file {file} on machine {machine} is not there")
        elif len(data) != length or md5(data, usedforsecurity=False).hexdigest() != digest:
            self._broken(promise, f"{curl}: its file {file} on machine {machine} is another one")

    def check_books(self) -> None:
        """The statistics of each provider are what can be counted."""
        sql = (
            "SELECT s.pid, s.files_used, s.space_used, s.nurlproc,"
            " (SELECT COUNT(*) FROM lccurl l WHERE l.pid = s.pid AND l.state = 1 AND l.source & 31),"
            " (SELECT COALESCE(SUM(len), 0) FROM lccurl l WHERE l.pid = s.pid AND l.state = 1 AND l.source & 31),"
            f" (SELECT COUNT(*) FROM qdb q WHERE q.pid = s.pid AND q.operation = 1) FROM pstats s"
            f" WHERE s.pid NOT IN ({_IN_PART})"
        )
        for pid, files, space, waiting, files_there, space_there, rows in self.rows(sql):
            if (files, space, waiting) != (files_there, space_there, rows):
                told, counted = (files, space, waiting), (files_there, space_there, rows)
                self._broken("P8", f"the books of {pid} say {told}, there are {counted}")

        self._check_quotas()

    def _check_quotas(self) -> None:
        sql = (
            "SELECT p.pid, p.filesmax, p.spacemax, COUNT(*), SUM(l.len) FROM pidb p JOIN lccurl l ON l.pid = p.pid"
            " WHERE l.state = 1 AND l.source & 31 AND (p.filesmax > 0 OR p.spacemax > 0)"
            f" AND p.pid NOT IN ({_IN_PART}) GROUP BY p.pid"
        )
        for pid, files_max, space_max, files, space in self.rows(sql):
            if (files_max and files > files_max) or (space_max and space > space_max):
                self._broken("P8", f"{pid} has {files} files of {space} bytes, and quotas {files_max}, {space_max}")

    def verifying(self) -> list[str]:
        """The machines that have crashed, and whose content is not verified yet: it may be damaged."""
        marks = {host.address: host.disk.paths_at("/content/synced") for host in self.lcc.stores.values()}
        read = {address: read_mark(text or b"") for address, text in marks.items()}
        return [address for address, mark in read.items() if mark is not None and mark.suspect_upto]

    # In the end.

    def undone(self, providers: Collection[int]) -> list[str]:
        """What it has left to do.

        :param providers: those that are shown their errors.
        """
        left = []
        queued = self.rows("SELECT COUNT(*) FROM qdb WHERE operation = 1")[0][0]
        if queued:
            left.append(f"{queued} rows in the queue")
        held = self.rows("SELECT pid, deletions FROM heldsweeps")
        left += [f"{count} deletions of {pid} are held" for pid, count in held]
        for pid, count, wanted in self.rows("SELECT pid, errseq - errcleared, wantfullset FROM pstats"):
            if pid in providers and (count or wanted):
                left.append(f"{count} errors of {pid} are not shown; wanted: {wanted!r}")
        for table in ("orders", "damaged", "fsmdb"):
            if count := self.rows(f"SELECT COUNT(*) FROM {table}")[0][0]:
                left.append(f"{count} rows in {table}")
        left += [f"{path} waits" for _, path, _ in self.spooled()]
        left += [f"{address} verifies its content" for address in self.verifying()]
        return left

    def cached(self) -> dict[str, tuple[str, ...]]:
        """What content users have to see of each row, by key."""
        found = self.rows(
            "SELECT urlkey, md5, CASE furl WHEN '' THEN curl ELSE furl END,"
            " CASE burl WHEN '' THEN curl ELSE burl END, subtype FROM lccurl"
            " WHERE state = 1 AND change_number > 0 AND source & 31"
        )
        return {bytes(key).hex(): tuple(shown) for key, *shown in found}

    def check_the_end(self) -> None:
        """Everything has healed and drained."""
        for (numbers,) in self.rows("SELECT numbers FROM simulated_again"):
            self._broken("P5", f"a notifier's set was applied again: {bytes(numbers).decode()}")
        self.check_books()
