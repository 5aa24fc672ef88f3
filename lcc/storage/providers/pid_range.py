"""The range of provider ids that an LCC may give out, where it is one of several behind a front end.

It is in the LCC's own ``meta``: so whatever makes a provider there, ``lcc-admin``, the registration server or a UNS,
draws from it.
"""

from __future__ import annotations

from lcc.storage.database.tables.locked_counter import locked_counter
from lcc.storage.database.transactions import Txn

PID_MAX = 2**31 - 1


class RangeTaken(Exception):
    """The LCC has providers whose ids are outside of the range."""


def last_pid(txn: Txn) -> int:
    """The highest id that this LCC may give out."""
    return int(txn.value("SELECT value FROM meta WHERE name = 'pid_last'", (), PID_MAX))


def limit_pids(txn: Txn, first: int, last: int) -> None:
    """From now on new providers get ids of this range.

    :raises RangeTaken: there are providers with others, which have not moved here.
    """
    highest = locked_counter(txn, "pid")
    own = "SELECT MIN(pid), MAX(pid) FROM pidb WHERE pid NOT IN (SELECT pid FROM fenced)"
    low, high = txn.one(own) or (None, None)
    if low is not None and (low < first or high > last):
        raise RangeTaken(f"it has providers with ids from {low} to {high}, its range is {first} to {last}")
    # An id that was used once is never given out again.
    if highest > last:
        raise RangeTaken(f"it has given out ids up to {highest}, its range ends at {last}")
    txn.upsert("meta", ["name", "value"], [("pid", str(max(highest, first - 1))), ("pid_last", str(last))], ["name"])


def reserve_pid(txn: Txn) -> int:
    """An id for a provider that is to be made; nobody else gets it.

    :raises RangeTaken: none is left.
    """
    pid, last = locked_counter(txn, "pid") + 1, last_pid(txn)
    if pid > last:
        raise RangeTaken(f"no provider id is free up to {last}")
    txn.execute("UPDATE meta SET value = ? WHERE name = 'pid'", [str(pid)])
    return pid


def highest_pid(txn: Txn) -> int:
    """The highest id that was given out; 0: none was."""
    return int(txn.value("SELECT value FROM meta WHERE name = 'pid'", (), 0))
