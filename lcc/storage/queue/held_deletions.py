"""Full sets whose deletions wait for somebody's word, because they are so many (``heldsweeps``): one for each
provider at most, the newest.

Whether it is released, by whom and when, is an order to the queue manager like those of ``lcc-admin``; it names the
set that was seen to be held, so that it does nothing to another one that has taken its place since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lcc.model import SetHeader
from lcc.storage.database.order_rows import ALLOW_DELETIONS, add_order
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.write_transaction import WriteTransaction


class HeldSweep(NamedTuple):
    """
    :ivar psetid: marks what the set named.
    :ivar connseq: of the set.
    :ivar deletions: what it would have deleted when it came; not what lies outside of the provider's roots.
    :ivar cached: of so much in the cache.
    :ivar time: when it was held, seconds since 1970.
    """

    pid: int
    psetid: int
    connseq: int
    deletions: int
    cached: int
    time: int


_SELECT = f"SELECT {', '.join(HeldSweep._fields)} FROM heldsweeps"


def held_sweep(txn: Txn, pid: int) -> HeldSweep | None:
    """What is held of this provider."""
    row = txn.one(f"{_SELECT} WHERE pid = ?", [pid])
    return None if row is None else HeldSweep._make(row)


def held_sweeps(txn: Txn, pids: Iterable[int]) -> dict[int, HeldSweep]:
    """What is held of these providers."""
    return {
        row[0]: HeldSweep._make(row) for row in txn.query_in(f"{_SELECT} WHERE pid IN ({{in}})", sorted(set(pids)))
    }


def save_held(txn: Txn, held: HeldSweep) -> None:
    """Hold this one in place of whatever is held of its provider."""
    txn.upsert("heldsweeps", HeldSweep._fields, [held], ("pid",))


def forget_held(txn: Txn, pid: int, connseq: int) -> None:
    """A full set of this provider is complete: what an older one, or itself, had held is done with."""
    txn.execute("DELETE FROM heldsweeps WHERE pid = ? AND connseq <= ?", [pid, connseq])


def drop_held(txn: Txn, pid: int, psetid: int) -> None:
    """Delete nothing for this full set."""
    txn.execute("DELETE FROM heldsweeps WHERE pid = ? AND psetid = ?", [pid, psetid])


def order_release(write: WriteTransaction, header: SetHeader) -> None:
    """A partial set says that deletions are meant: those that are held, if it came behind what holds them."""
    held = held_sweep(write.txn, header.pid)
    if held is not None and held.connseq <= header.connseq:
        add_order(write.txn, ALLOW_DELETIONS, header.pid, text=str(held.psetid))
