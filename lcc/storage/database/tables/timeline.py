"""Timelines: by what a change's number is told from the same number of a history that was lost.

A database that is put back to an earlier state gives numbers of changes again.  So a number means something only
together with its timeline, which has two parts: the epoch of the database, which ends when a loss was noticed, and a
random name, which each queue manager gives itself when it claims the database.  A database is put back while no queue
manager runs: the next one continues under a name that the lost changes do not have.

For each timeline that was continued ``meta`` keeps the number of the last change that was made in it (a row for each
start of a queue manager, until a loss is noticed).  So whoever comes with a timeline and a number has seen something
that is lost, if the database does not know that timeline, or went on to another one before that number.

The number of the last batch is kept, too: an order of a later batch of that timeline was given out after the backup.
"""

from __future__ import annotations

from lcc.storage.database.tables.status import last_change
from lcc.storage.database.transactions import Txn

_CURRENT = "timeline"
_UPTO = "timeline_upto."
_BATCH = "timeline_batch."
_NAME_BITS = 64


def current_timeline(txn: Txn) -> str:
    """The one in which changes are made now: ``epoch-name``, or ``epoch`` until a queue manager has claimed the
    database."""
    return "-".join(filter(None, _parts(txn)))


def position(txn: Txn) -> tuple[str, int]:
    """How far the cache has come: its timeline, and the number of its last change.  A single SELECT."""
    found = dict(
        txn.query(
            "SELECT name, value FROM meta WHERE name IN ('epoch', ?)"
            " UNION ALL SELECT name, CAST(value AS CHAR) FROM counters WHERE name = 'change'",
            [_CURRENT],
        )
    )
    return "-".join(filter(None, (found.get("epoch"), found.get(_CURRENT)))), int(found.get("change", 0))


def epoch_of(timeline: str) -> str:
    """The epoch of the database that this timeline belongs to."""
    return timeline.partition("-")[0]


def known_upto(txn: Txn, timeline: str) -> int | None:
    """Changes of this timeline up to which number the database has; None: it knows nothing of this timeline."""
    epoch, current = _parts(txn)
    if epoch_of(timeline) != epoch:
        return None
    name = timeline[len(epoch) + 1 :]
    if name == current:
        return last_change(txn)
    upto = txn.value("SELECT value FROM meta WHERE name = ?", [_UPTO + name])
    return None if upto is None else int(upto)


def former_timelines(txn: Txn) -> dict[str, int]:
    """Those that were continued, since a loss was noticed last: name -> number of the last batch.  An older program
    has noted none: they are left out."""
    rows = [(name, value) for name, value in txn.query("SELECT name, value FROM meta") if name.startswith(_BATCH)]
    return {name.removeprefix(_BATCH): int(value) for name, value in rows}


def continue_timeline(txn: Txn) -> str:
    """Begin another timeline behind the current one; returns its name."""
    # Locked, for what was read before a lock was waited for may be older than what its holder has committed.
    numbers = dict(txn.query(f"SELECT name, value FROM counters WHERE name IN ('batch', 'change'){txn.for_update}"))
    _, name = _parts(txn, txn.for_update)
    continued = f"{txn.random_bits(_NAME_BITS):016x}"
    noted = [(_UPTO + name, str(numbers.get("change", 0))), (_BATCH + name, str(numbers.get("batch", 0)))]
    txn.upsert("meta", ("name", "value"), [*noted, (_CURRENT, continued)], ("name",))
    return continued


def forget_timelines(txn: Txn) -> None:
    """The epoch ends: all but the current one are of no use any longer."""
    names = [name for (name,) in txn.query("SELECT name FROM meta") if name.startswith((_UPTO, _BATCH))]
    txn.execute_in("DELETE FROM meta WHERE name IN ({in})", names)


def _parts(txn: Txn, lock: str = "") -> tuple[str, str]:
    found = dict(txn.query(f"SELECT name, value FROM meta WHERE name IN ('epoch', ?){lock}", [_CURRENT]))
    return found.get("epoch", ""), found.get(_CURRENT, "")
