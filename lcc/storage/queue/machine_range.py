"""The range of machine ids of an LCC that is one of several behind a front end.

The front end's content users are sent to a content port by the id of the machine alone, so two sub-LCCs must not
have the same.  The range is in the LCC's own ``meta``, as that of the provider ids is: the queue manager lets no
others in.
"""

from __future__ import annotations

from lcc.storage.database.transactions import Txn
from lcc.storage.providers.pid_range import RangeTaken

_NAMES = ("machine_first", "machine_last")


def limit_machines(txn: Txn, first: int, last: int) -> None:
    """From now on only machines of this range are let in.

    :raises RangeTaken: there are others.
    """
    sql = "SELECT machine FROM machines WHERE machine < ? OR machine > ? ORDER BY machine LIMIT 1"
    row = txn.one(sql, [first, last])
    if row is not None:
        raise RangeTaken(f"it has machine {row[0]}, its range is {first} to {last}")
    txn.upsert("meta", ["name", "value"], list(zip(_NAMES, (str(first), str(last)), strict=True)), ["name"])


def machine_range(txn: Txn) -> tuple[int, int]:
    """The first and last id of the range; (0, 0): there is none."""
    first, last = (int(txn.value("SELECT value FROM meta WHERE name = ?", [name], 0)) for name in _NAMES)
    return first, last


def machine_fault(txn: Txn, machine: int) -> str:
    """Why a machine may not be let in; empty: it may."""
    first, last = machine_range(txn)
    if not last or first <= machine <= last:
        return ""
    return f"machine {machine} is not of the range {first} to {last} of this sub-LCC: change [botm] machine there"
