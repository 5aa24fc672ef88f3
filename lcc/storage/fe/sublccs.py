"""FEDB: sub-LCCs, how to reach them, and their vital statistics (``fedb``, ``fevitals``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from lcc.model.frontend.places import SubLcc, SubState, Vitals
from lcc.storage.database.table import Table
from lcc.storage.database.tables.locked_counter import draw, locked_counter
from lcc.storage.database.transactions import Txn

ID_MAX = 2**31 - 1
PIDS_EACH = 10_000_000
"""Ids of providers that a sub-LCC gets, unless the operator says others."""
MACHINES_EACH = 10_000

_COUNTER = "subid"
_SUBLCCS = Table(
    "fedb",
    ["subid"],
    (
        *("subid", "name", "state", "uns", "proxyprotocol", "notifiers", "content", "dburl", "firstpid", "lastpid"),
        *("firstmachine", "lastmachine", "filesmax", "spacemax", "made_time"),
    ),
)
_VITALS = Table("fevitals", ["subid"], [field.name for field in attrs.fields(Vitals)])


class SubLccExists(Exception):
    """A sub-LCC of this name exists, or its ids are another's, or no ids are left."""


class NoSuchSubLcc(Exception):
    """No sub-LCC has this name."""


def list_sublccs(txn: Txn) -> list[SubLcc]:
    """All of them, by their numbers; those that were removed, too: their ids are not given out again."""
    return [_sublcc(row) for row in txn.query(f"{_SUBLCCS.select} ORDER BY subid")]


def get_sublcc(txn: Txn, name: str) -> SubLcc:
    """
    :raises NoSuchSubLcc: none has this name, or it was removed.
    """
    row = txn.one(f"{_SUBLCCS.select} WHERE name = ?", [name])
    if row is None or row[_SUBLCCS.columns.index("state")] == SubState.REMOVED.value:
        raise NoSuchSubLcc(f"there is no sub-LCC {name}")
    return _sublcc(row)


def add_sublcc(txn: Txn, sub: SubLcc) -> SubLcc:
    """Add a sub-LCC.

    :param sub: with the number 0 it gets the next one; ranges that begin with 0 become the next free ones.
    :returns: the same, with its number and ranges.
    :raises SubLccExists: its name, its number or its ids are another's, or no ids are left.
    """
    last = locked_counter(txn, _COUNTER)  # before the others are read: who adds one at the same time waits
    others = list_sublccs(txn)
    # A repeated interaction finds what the first attempt has committed.
    done = next((other for other in others if other.name == sub.name), None)
    if done is not None and done.database == sub.database and done.made_time == sub.made_time:
        return done
    if done is not None:
        raise SubLccExists(f"sub-LCC {sub.name} exists, or existed")
    if sub.subid in {other.subid for other in others}:
        raise SubLccExists(f"another sub-LCC has the number {sub.subid}")
    pids = [(other.first_pid, other.last_pid) for other in others]
    machines = [(other.first_machine, other.last_machine) for other in others]
    first_pid, last_pid = (sub.first_pid, sub.last_pid) if sub.first_pid else _next_range(pids, PIDS_EACH)
    first_machine, last_machine = (
        (sub.first_machine, sub.last_machine) if sub.first_machine else _next_range(machines, MACHINES_EACH)
    )
    for other in others:
        if _ranges_meet((first_pid, last_pid), (other.first_pid, other.last_pid)):
            raise SubLccExists(f"provider ids {first_pid}-{last_pid} are in part those of sub-LCC {other.name}")
        if _ranges_meet((first_machine, last_machine), (other.first_machine, other.last_machine)):
            raise SubLccExists(
                f"machine ids {first_machine}-{last_machine} are in part those of sub-LCC {other.name}"
            )
    if sub.subid > last:
        txn.execute("UPDATE meta SET value = ? WHERE name = ?", [str(sub.subid), _COUNTER])
    made = attrs.evolve(
        sub,
        subid=sub.subid or draw(txn, _COUNTER),
        first_pid=first_pid,
        last_pid=last_pid,
        first_machine=first_machine,
        last_machine=last_machine,
    )
    _SUBLCCS.insert(txn, [_values(made)])
    return made


def change_sublcc(txn: Txn, name: str, **values: Any) -> SubLcc:
    """Change how a sub-LCC is reached, its state, or what it has room for.

    :returns: as it is now.
    :raises NoSuchSubLcc: none has this name.
    """
    changed = attrs.evolve(get_sublcc(txn, name), **values)
    _SUBLCCS.upsert(txn, [_values(changed)])
    return changed


def report_vitals(txn: Txn, name: str, vitals: Vitals) -> bool:
    """Store how a sub-LCC is.

    :param vitals: its number is found by the name.
    :returns: False: there is no such sub-LCC.
    """
    try:
        subid = get_sublcc(txn, name).subid
    except NoSuchSubLcc:
        return False
    _VITALS.upsert(txn, [attrs.astuple(attrs.evolve(vitals, subid=subid))])
    return True


def list_vitals(txn: Txn) -> dict[int, Vitals]:
    """The last report of each sub-LCC, by its number."""
    return {row[0]: Vitals(*row) for row in txn.query(_VITALS.select)}


def _next_range(taken: Iterable[tuple[int, int]], length: int) -> tuple[int, int]:
    """The first ids behind all that are taken, in blocks of this length.

    :param taken: first and last of each range.
    :raises SubLccExists: there are none.
    """
    highest = max((end for _, end in taken), default=0)
    first = -(-highest // length) * length + 1
    if first + length - 1 > ID_MAX:
        raise SubLccExists(f"no {length} ids are left up to {ID_MAX}")
    return first, first + length - 1


def _ranges_meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """An id is in both."""
    return one[0] <= other[1] and other[0] <= one[1]


def _sublcc(row: Sequence[Any]) -> SubLcc:
    subid, name, state, uns, proxied, *rest = row
    return SubLcc(subid, name, SubState(state), tuple(uns.split()), bool(proxied), *rest)


def _values(sub: SubLcc) -> list[Any]:
    row = list(attrs.astuple(sub))
    row[2], row[3], row[4] = sub.state.value, " ".join(sub.uns), int(sub.proxy_protocol)
    return row
