"""Detects a database, or the spool of a UNS, that was lost or restored from a backup, and recovers from it.

Witnesses are outside of the database: a UNS knows the highest number of a set that was ever answered, a BOT-M the
last change (timeline and number) that it was told of.  A database that knows less than they do has lost something,
also one that has come as far again on another timeline (:mod:`lcc.storage.database.tables.timeline`).

After a loss the database gets a new epoch, which invalidates all tokens of content users, its counters jump ahead by
:data:`JUMP`, so that no lost number is reused, and every provider is asked for a full set.  The old epoch is kept,
with its last change number, so that a BOT-M that still names it causes no alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred

from lcc.model import MachineState, UnsStanding
from lcc.model.providers import ERROR_BITS
from lcc.storage.database.database import Database
from lcc.storage.database.tables.status import database_epoch, last_change, queue_size
from lcc.storage.database.tables.timeline import epoch_of, forget_timelines, known_upto, position
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.sessions import ORDER_JUMP
from lcc.storage.queue.machine_range import machine_fault
from lcc.storage.queue.write_transaction import WriteTransaction

JUMP = 1 << 32
"""How far the counters jump; generations, which are derived from them, have room for thousands of jumps."""


PAGE_PROVIDERS = 1000
LOSS_JUMP = ORDER_JUMP << 16
"""How far order numbers jump when the database has lost some: spools may hold sets with later ones, also of after
the provider moved away and came back, which raises them each time
(:data:`lcc.storage.queue.moves.arrivals.ORDER_MARGIN`)."""
CACHE_CRASH = "cache-crash"

_FORMER = "former_epoch."
_MACHINE = ("machine", "last_seen", "lease_until", "names_upto")


class RepairStore:
    """The part of the store that implements :class:`lcc.interfaces.IQueueRepair`."""

    _database: Database
    _write: Callable[..., Deferred[Any]]

    def queue_size(self) -> Deferred[int]:
        return self._database.interact(queue_size)

    def progress(self) -> Deferred[tuple[str, int]]:
        return self._database.select(position)

    def check_uns(self, uns: str, epoch: str, acked: int, numbers_upto: int) -> Deferred[UnsStanding]:
        return self._database.interact(check_uns, uns, epoch, acked, numbers_upto)

    def check_witness(self, timeline: str, change: int) -> Deferred[bool]:
        return self._database.interact(check_witness, timeline, change)

    def note_answered(self, uns: str, epoch: str, acked: int) -> Deferred[None]:
        return self._write(note_answered, uns, epoch, acked)

    def want_full_sets(self, reason: str, error_epoch: int = 0) -> Deferred[None]:
        return Deferred.fromCoroutine(self._want_full_sets(reason, error_epoch))

    async def _want_full_sets(self, reason: str, error_epoch: int) -> None:
        after: int | None = 0
        while after is not None:
            after = await self._write(want_page, reason, error_epoch, after)

    def begin_epoch(self, before: str, epoch: str, least_change: int) -> Deferred[str]:
        return self._write(begin_epoch, before, epoch, least_change)

    def machine_fault(self, machine: int) -> Deferred[str]:
        return self._database.interact(machine_fault, machine)

    def names_used(self, machine: int) -> Deferred[int]:
        return self._database.interact(names_used, machine)

    def machines(self) -> Deferred[list[MachineState]]:
        return self._database.interact(machines)

    def save_machines(self, states: Sequence[MachineState]) -> Deferred[None]:
        return self._write(save_machines, list(states))


def check_uns(txn: Txn, uns: str, epoch: str, acked: int, numbers_upto: int) -> UnsStanding:
    """See :meth:`lcc.interfaces.IQueueRepair.check_uns`."""
    sql = "SELECT uns, last_number, answered_number, part_number FROM setspos WHERE epoch = ?"
    known = used = 0
    for name, last, answered, part in txn.query(sql, [epoch.encode()]):
        # A renamed UNS keeps its epoch: what was answered under the old name counts.
        known = max(known, last, answered)
        if bytes(name) == uns.encode():
            used = max(used, last, answered, part)
    if numbers_upto and used >= numbers_upto:
        return UnsStanding.SPOOL_BEHIND
    return UnsStanding.DATABASE_BEHIND if acked > known else UnsStanding.FINE


def check_witness(txn: Txn, timeline: str, change: int) -> bool:
    """See :meth:`lcc.interfaces.IQueueRepair.check_witness`."""
    epoch = epoch_of(timeline)
    if epoch == database_epoch(txn):
        upto = known_upto(txn, timeline)
        return upto is not None and change <= upto
    return txn.one("SELECT 1 FROM meta WHERE name = ?", [_FORMER + epoch]) is not None


def note_answered(txn: Txn, run: int, uns: str, epoch: str, number: int) -> None:
    """Sets of this UNS up to this number are answered, accepted or refused."""
    WriteTransaction(txn, run)
    key = (uns.encode(), epoch.encode())
    row = txn.one("SELECT answered_number FROM setspos WHERE uns = ? AND epoch = ?", key)
    if row is None:
        txn.insert("setspos", ("uns", "epoch", "answered_number"), [(*key, number)])
    elif row[0] < number:
        txn.execute("UPDATE setspos SET answered_number = ? WHERE uns = ? AND epoch = ?", [number, *key])


def want_page(txn: Txn, run: int, reason: str, error_epoch: int, after: int) -> int | None:
    """Ask the next providers for a full set; returns the last one's id, None: done."""
    write = WriteTransaction(txn, run)
    sql = "SELECT pid FROM pidb WHERE pid > ? AND removed = 0 ORDER BY pid LIMIT ?"
    pids = [pid for (pid,) in txn.query(sql, [after, PAGE_PROVIDERS])]
    write.load_stats(pids)
    for pid in pids:
        write.want_full_set(pid, reason)
        if error_epoch:
            write.stats(pid).maxconnseq += LOSS_JUMP
            _renumber_errors(write, pid, error_epoch)
    write.flush()
    return pids[-1] if len(pids) == PAGE_PROVIDERS else None


def _renumber_errors(write: WriteTransaction, pid: int, epoch: int) -> None:
    """A session that has been open since before the restore was shown errors whose numbers are drawn again: what it
    tells next must not clear those that have them now."""
    stats = write.stats(pid)
    step = (epoch << ERROR_BITS) - (stats.errseq >> ERROR_BITS << ERROR_BITS)
    if step:  # whoever clears more than it was shown may have left some, which would not be cleared any more
        cleared = [pid, stats.errcleared]
        write.txn.execute("DELETE FROM urlerrs WHERE pid = ? AND number > 0 AND number <= ?", cleared)
    if step and stats.errseq > stats.errcleared:
        write.txn.execute("UPDATE urlerrs SET number = number + ? WHERE pid = ? AND number > 0", [step, pid])
    stats.errseq += step
    stats.errcleared += step


def begin_epoch(txn: Txn, run: int, before: str, epoch: str, least_change: int) -> str:
    """Begin a new epoch of the database; returns the current one.

    :param before: the epoch to end; if another one is current, this was done before.
    :param least_change: the number of a change that is known to exist.
    """
    WriteTransaction(txn, run)
    current = database_epoch(txn)
    if current != before:
        return current
    change = last_change(txn)
    txn.upsert("meta", ("name", "value"), [(_FORMER + before, str(change)), ("epoch", epoch)], ("name",))
    forget_timelines(txn)
    counters = [(name, value + JUMP) for name, value in txn.query("SELECT name, value FROM counters")]
    jumped = [
        (name, max(value, least_change + JUMP) if name == "change" else value)
        for name, value in counters
        if name in ("change", "psetid", "file_order", "batch", "behind")
    ]
    txn.upsert("counters", ("name", "value"), jumped, ("name",))
    return epoch


def names_used(txn: Txn, machine: int) -> int:
    """See :meth:`lcc.interfaces.IQueueRepair.names_used`."""
    # Each is the last entry of an index.
    return max(
        int(txn.value("SELECT MAX(fetched_fileid) FROM lccurl WHERE fetched_machineid = ?", [machine], 0)),
        int(txn.value("SELECT MAX(file) FROM fsmdb WHERE machine = ?", [machine], 0)),
        int(txn.value("SELECT names_upto FROM machines WHERE machine = ?", [machine], 0)) - 1,
    )


def machines(txn: Txn) -> list[MachineState]:
    """See :meth:`lcc.interfaces.IQueueRepair.machines`."""
    return [MachineState(*row) for row in txn.query(f"SELECT {', '.join(_MACHINE)} FROM machines ORDER BY machine")]


def save_machines(txn: Txn, run: int, states: Sequence[MachineState]) -> None:
    """See :meth:`lcc.interfaces.IQueueRepair.save_machines`."""
    WriteTransaction(txn, run)
    txn.upsert("machines", _MACHINE, [tuple(state) for state in states], ("machine",))
