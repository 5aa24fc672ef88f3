"""Providers that move, for who reads several caches: ``flips`` and ``origins`` of one of them (doc/moves.md).

Each function is called in the transaction that reads a page: what it tells of moves is as old as the page.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from lcc.model import CachedUrl
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import SELECT_USER
from lcc.storage.database.tables.status import forgotten_upto
from lcc.storage.database.tables.timeline import known_upto
from lcc.storage.database.transactions import Txn
from lcc.storage.views.selected import EXAMINED_ROWS, Selection, as_changes, change_conditions

IMPORTED_ROWS = 50_000
"""Origins that a page looks at; few of them are told."""


_FORGOTTEN = "deletions of a provider that has moved are no longer known"


class Forgotten(Exception):
    """A deletion that was imported is no longer known."""


@attrs.frozen
class MapView:
    """What a reader knows of moves, as far as one sub-LCC is concerned.

    :ivar newest: all flips up to this one are known.
    :ivar leaving: of those that were not active, the ones from here; one that is noted here is active by now.
    :ivar since: timelines, and changes in them: their rows are told here only while this sub-LCC has these.
    :ivar arriving: providers whose rows were not all here.
    :ivar elsewhere: providers whose rows here are not told; arriving ones are among them.
    """

    newest: int = 0
    leaving: tuple[int, ...] = ()
    since: tuple[tuple[str, int], ...] = ()
    arriving: frozenset[int] = frozenset()
    elsewhere: frozenset[int] = frozenset()


def knows_flips(txn: Txn, view: MapView) -> bool:
    """Whether the reader knows all flips that are noted here, and what is here is what the flips were made of.

    A sub-LCC that is restored from a backup while a provider leaves may have older rows than those that arrive at its
    new home, and gives the numbers of their changes again.  Whoever read on here would seem to have seen those.
    """
    if any((known_upto(txn, timeline) or 0) < number for timeline, number in view.since):
        return False
    newest = txn.value("SELECT MAX(flip) FROM flips")
    if newest is not None and newest > view.newest:
        return False
    left = "SELECT flip FROM flips WHERE arrived = 0 AND flip IN ({in})"
    return not view.leaving or not txn.query_in(left, view.leaving)


def departed(txn: Txn, pids: Collection[int]) -> set[int]:
    """Those of these providers that have moved away from here, and not come back."""
    rows = txn.query_in("SELECT pid, flip, arrived FROM flips WHERE pid IN ({in})", sorted(pids))
    last: dict[int, tuple[int, int]] = {}
    for pid, flip, arrived in rows:
        last[pid] = max(last.get(pid, (0, 0)), (flip, arrived))
    return {pid for pid, (_, arrived) in last.items() if not arrived}


def told_here(txn: Txn, view: MapView, rows: list[CachedUrl]) -> list[CachedUrl] | None:
    """Those of these rows that are this sub-LCC's to tell; None: the reader does not know enough of moves."""
    if not view.elsewhere:
        return rows
    arriving = {row.key: row.change for row in rows if row.pid in view.arriving}
    if arriving and not _imported(txn, arriving):
        return None  # it has arrived, or its rows would not change here
    return [row for row in rows if row.pid not in view.elsewhere]


def _imported(txn: Txn, changes: Mapping[bytes, int]) -> bool:
    origins = txn.query_in("SELECT urlkey, change_number FROM origins WHERE urlkey IN ({in})", changes)
    return {bytes(key): number for key, number in origins} == changes


@attrs.frozen
class ImportedPage:
    """Some imported rows in the order of their keys.

    :ivar after: where the next page begins; None: there is none.
    """

    rows: list[CachedUrl]
    after: bytes | None


def imported_page(
    txn: Txn,
    selection: Selection,
    pid: int,
    after: bytes,
    seen: Mapping[int, int],
    between: tuple[int, int],
    limit: int | None = None,
) -> ImportedPage:
    """The selected rows of a provider that have not changed since they were imported, and that a reader has not got
    where they last changed.

    :param after: keys up to this one are left out; empty: none are.
    :param seen: sub-LCC -> the number of the last change there that the reader has got; those that are not named were
        read to their ends.
    :param between: rows with change numbers above the first of these, up to the second, are left out.
    :param limit: at most so many rows.
    :raises Forgotten: one that was deleted is no longer known.
    """
    first, last = provider_range(pid)
    after = after or first
    border = txn.value(
        "SELECT urlkey FROM origins WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT 1 OFFSET ?",
        [after, last, IMPORTED_ROWS - 1],
    )
    upto = last if border is None else bytes(border)
    wanted = EXAMINED_ROWS if limit is None else min(EXAMINED_ROWS, limit)
    numbers = [number for each in seen.items() for number in each]
    cases = " WHEN ? THEN ?" * len(seen)
    sql = (
        "SELECT urlkey, change_number FROM origins WHERE urlkey > ? AND urlkey <= ?"
        f" AND number > CASE subid{cases} ELSE number END"
        " AND NOT (change_number > ? AND change_number <= ?) ORDER BY urlkey LIMIT ?"
    )
    found = txn.query(sql, [after, upto, *numbers, *between, wanted])
    changes = {bytes(key): int(number) for key, number in found}
    end: bytes | None = None if border is None else upto
    if len(changes) == wanted:
        end = next(reversed(changes))
    return ImportedPage(_rows(txn, selection, changes), end)


def check_imports(txn: Txn, seen: Mapping[int, int]) -> None:
    """Make sure that all deletions are known that were imported here, and that a reader has not got where they were.

    :param seen: sub-LCC -> the number of the last change there that the reader has got; others do not matter.
    :raises Forgotten: one is no longer known.
    """
    cases = " WHEN ? THEN ?" * len(seen)
    sql = (
        f"SELECT 1 FROM origins WHERE change_number <= ? AND number > CASE subid{cases} ELSE number END"
        " AND NOT EXISTS (SELECT 1 FROM lccurl WHERE lccurl.urlkey = origins.urlkey) LIMIT 1"
    )
    numbers = [number for each in seen.items() for number in each]
    if txn.one(sql, [forgotten_upto(txn), *numbers]) is not None:
        raise Forgotten(_FORGOTTEN)


def _rows(txn: Txn, selection: Selection, changes: Mapping[bytes, int]) -> list[CachedUrl]:
    where, parameters = change_conditions(selection)
    keys = list(changes)
    rows = txn.query_in(f"{SELECT_USER} WHERE urlkey IN ({{in}}){where}", keys, after=parameters)
    if len(rows) < len(keys):
        _check_known(txn, keys)
    found = as_changes(selection, rows)
    return sorted((row for row in found if row.change == changes[row.key]), key=lambda row: row.key)


def _check_known(txn: Txn, keys: Sequence[bytes]) -> None:
    there: Collection[bytes] = {
        bytes(key) for (key,) in txn.query_in("SELECT urlkey FROM lccurl WHERE urlkey IN ({in})", keys)
    }
    if len(there) < len(keys):
        raise Forgotten(_FORGOTTEN)
