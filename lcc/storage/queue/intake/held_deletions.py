"""Full sets whose deletions are so many that they wait for confirmation (``heldsweeps``): at most one for each
provider, the newest.

A release is an order to the queue manager like those of ``lcc-admin``; it names the held set, so that it does nothing
to another one that has replaced it since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lcc.model import SetHeader
from lcc.storage.database.tables.order_rows import ALLOW_DELETIONS, add_order
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.write_transaction import WriteTransaction


class HeldSweep(NamedTuple):
    """
    :ivar psetid: marks what the set named.
    :ivar connseq: of the set.
    :ivar deletions: pages that it would have deleted when it came, without those outside of the provider's roots.
    :ivar told: of so many: these, and the provider's others in the cache then.
    :ivar time: when it was held, seconds since 1970.
    """

    pid: int
    psetid: int
    connseq: int
    deletions: int
    told: int
    time: int


_SELECT = f"SELECT {', '.join(HeldSweep._fields)} FROM heldsweeps"


def held_sweep(txn: Txn, pid: int) -> HeldSweep | None:
    """The held deletions of this provider."""
    row = txn.one(f"{_SELECT} WHERE pid = ?", [pid])
    return None if row is None else HeldSweep._make(row)


def held_sweeps(txn: Txn, pids: Iterable[int]) -> dict[int, HeldSweep]:
    """The held deletions of these providers."""
    return {
        row[0]: HeldSweep._make(row) for row in txn.query_in(f"{_SELECT} WHERE pid IN ({{in}})", sorted(set(pids)))
    }


def save_held(txn: Txn, held: HeldSweep) -> None:
    """Hold these deletions in place of others of their provider."""
    txn.upsert("heldsweeps", HeldSweep._fields, [held], ("pid",))


def forget_held(txn: Txn, pid: int, connseq: int) -> None:
    """A full set of this provider is complete: drop what it, or an older one, held."""
    txn.execute("DELETE FROM heldsweeps WHERE pid = ? AND connseq <= ?", [pid, connseq])


def drop_held(txn: Txn, pid: int, psetid: int) -> None:
    """Drop the deletions of this full set."""
    txn.execute("DELETE FROM heldsweeps WHERE pid = ? AND psetid = ?", [pid, psetid])


def order_release(write: WriteTransaction, header: SetHeader) -> None:
    """A partial set confirms deletions: order the release of those held by an older set."""
    held = held_sweep(write.txn, header.pid)
    if held is not None and held.connseq <= header.connseq:
        add_order(write.txn, ALLOW_DELETIONS, header.pid, text=str(held.psetid))
