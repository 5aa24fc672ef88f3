"""PMDB: which sub-LCC each provider is in (``pmdb``).

A provider without a row is in the sub-LCC whose range its id is of (:func:`lcc.domain.frontend.sub_lccs.home_of`):
so an LCC becomes a sub-LCC as it is, and what a sub-LCC makes by itself (watched sites, ``lcc-admin provider add``)
is found.
"""

from __future__ import annotations

from collections.abc import Sequence

from lcc.model.frontend.places import AtHome, Placement
from lcc.storage.database.transactions import Txn

_COLUMNS = ("pid", "subid", "epoch", "state")
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM pmdb"


def placements(txn: Txn, pids: Sequence[int]) -> list[Placement | None]:
    """The row of each of these providers; None: it has none.  Not more than the values of one IN list."""
    some = sorted(set(pids))
    if not some:
        return []
    rows = txn.query(f"{_SELECT} WHERE pid IN ({','.join('?' * len(some))})", some)
    found = {row[0]: Placement(row[0], row[1], row[2], AtHome(row[3])) for row in rows}
    return [found.get(pid) for pid in pids]


def put_making(txn: Txn, pid: int, subid: int, now: int) -> Placement:
    """Note that a provider is about to be made, or registered, in a sub-LCC.

    :returns: where it is; one that is there already stays as it is.
    """
    (there,) = placements(txn, [pid])
    if there is None:
        there = Placement(pid, subid, 0, AtHome.MAKING)
        txn.insert("pmdb", [*_COLUMNS, "changed_time"], [(pid, subid, 0, AtHome.MAKING.value, now)])
    return there


def made(txn: Txn, pid: int, now: int) -> None:
    """It is there."""
    sql = "UPDATE pmdb SET state = ?, changed_time = ? WHERE pid = ? AND state = ?"
    txn.execute(sql, [AtHome.HERE.value, now, pid, AtHome.MAKING.value])


def unmade(txn: Txn, pid: int) -> None:
    """It was not made after all."""
    txn.execute("DELETE FROM pmdb WHERE pid = ? AND state = ?", [pid, AtHome.MAKING.value])


def being_made(txn: Txn, now: int, seconds: int, limit: int) -> list[Placement]:
    """Providers that no registration in progress is about, and that were about to be made longer ago than this; or
    will be, as the clock was set."""
    sql = (
        f"{_SELECT} WHERE state = ? AND changed_time NOT BETWEEN ? AND ?"
        " AND pid NOT IN (SELECT pid FROM registrations) ORDER BY changed_time LIMIT ?"
    )
    return [
        Placement(row[0], row[1], row[2], AtHome(row[3]))
        for row in txn.query(sql, [AtHome.MAKING.value, now - seconds, now + seconds, limit])
    ]


def count_unsettled(txn: Txn, subid: int) -> int:
    """Those of them that are being made, or stand still to move."""
    sql = "SELECT COUNT(*) FROM pmdb WHERE subid = ? AND state <> ?"
    return int(txn.value(sql, [subid, AtHome.HERE.value], 0))


def count_placed(txn: Txn, subid: int) -> int:
    """Providers with a row that says that they are in this sub-LCC."""
    return int(txn.value("SELECT COUNT(*) FROM pmdb WHERE subid = ?", [subid], 0))
