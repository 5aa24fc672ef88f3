"""Rows of a provider that moves, as its destination reads them in the database of the source (doc/moves.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from lcc.model import HINTS, Source
from lcc.storage.database.key_ranges import provider_range
from lcc.storage.database.rows import CACHE, DELAYS, QUEUE, SETS
from lcc.storage.database.table import Table
from lcc.storage.database.transactions import Txn

ERRORS = Table(
    "urlerrs",
    ("pid", "number"),
    (
        *("pid", "number", "code", "message", "url", "sent", "time", "urlkey", "connseq", "generation", "notice"),
        "source",
    ),
)
_NUMBER_SHIFT = 1 << 62
"""Errors that are not for the provider have numbers below 0: keys are in their order all the same."""
PAGED = ("lccurl", "qdb", "urlerrs")
"""Tables whose rows are compared page by page, in this order."""
WHOLE: dict[str, tuple[tuple[str, ...], str]] = {
    "pidb": (
        (
            *("pid", "password", "filesmax", "spacemax", "fullsetsallowed", "bandwidth", "timeofday", "timezone"),
            *("priority", "allow_private", "insecure", "removed", "contact", "watched", "interval_seconds"),
            *("interval_by", "hours_by", "domain", "made_time", "token"),
        ),
        "pid",
    ),
    "proots": (("pid", "position", "root"), "position"),
    "formerroots": (("pid", "position", "root"), "position"),
    "pstats": (
        (
            *("pid", "files_used", "space_used", "nurlproc", "errseq", "errcleared", "maxconnseq", "fullconnseq"),
            *("fullsets_used", "fullsets_since", "wantfullset", "wantid", "last_full_time", "files_pending"),
            *("space_pending", "last_set_time", "errothers", "untyped"),
        ),
        "pid",
    ),
    "pdelays": (DELAYS.columns, "pid"),
    "qpsdb": (SETS.columns, "psetid, slot"),
}
"""Tables with few rows of a provider: all their columns, and the order of the rows."""
_COUNTERS = ("batch", "psetid", "behind")
COUNTERS_KIND = "counters"
_OF_TASKS = int(HINTS | Source.POLLED)


class StagedRow(NamedTuple):
    """A row of the source.

    :ivar content: ``MACHINE/FILE`` of its content; empty: it has none.
    :ivar text: its columns, JSON.
    """

    key: bytes
    content: str
    text: str


class Page(NamedTuple):
    """Rows of one table in the order of their keys.

    :ivar upto: it has all rows up to this key; None: to the end.
    """

    rows: list[StagedRow]
    upto: bytes | None


def as_text(columns: Sequence[str], row: Sequence[Any]) -> str:
    """A row, as it is staged."""
    values = [value.hex() if isinstance(value, bytes | bytearray) else value for value in row]
    return json.dumps(dict(zip(columns, values, strict=True)), separators=(",", ":"))


def from_text(text: str) -> dict[str, Any]:
    """The columns of a staged row."""
    row: dict[str, Any] = json.loads(text)
    if "urlkey" in row:
        row["urlkey"] = bytes.fromhex(row["urlkey"])
    return row


def departing_page(txn: Txn, pid: int, kind: str, after: bytes, limit: int) -> Page:
    """The next rows of a table.

    :param kind: of :data:`PAGED`.
    :param after: key of the last row; empty: from the start.
    """
    if kind == "urlerrs":
        number = int.from_bytes(after, "big") - _NUMBER_SHIFT if after else -_NUMBER_SHIFT
        found = txn.query(
            f"{ERRORS.select} WHERE pid = ? AND number > ? ORDER BY number LIMIT ?", [pid, number, limit]
        )
        rows = [
            StagedRow((row[1] + _NUMBER_SHIFT).to_bytes(8, "big"), "", as_text(ERRORS.columns, row)) for row in found
        ]
    else:
        table = CACHE if kind == "lccurl" else QUEUE
        first, last = provider_range(pid)
        # The first key of the range is no row's.
        sql = f"{table.select} WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
        found = txn.query(sql, [after or first, last, limit])
        rows = [StagedRow(bytes(row[0]), _content(table, row), as_text(table.columns, row)) for row in found]
        if kind == "lccurl":
            rows = _with_origins(txn, rows)
    return Page(rows, rows[-1].key if len(rows) == limit else None)


_MACHINE, _FILE = CACHE.columns.index("fetched_machineid"), CACHE.columns.index("fetched_fileid")


def _content(table: Table, row: Sequence[Any]) -> str:
    if table is not CACHE or row[_FILE] is None:
        return ""
    return f"{row[_MACHINE]}/{row[_FILE]}"


def _with_origins(txn: Txn, rows: list[StagedRow]) -> list[StagedRow]:
    """Those that were imported and have not changed since say from where."""
    sql = (
        "SELECT o.urlkey, o.subid, o.number FROM origins o JOIN lccurl c"
        " ON c.urlkey = o.urlkey AND c.change_number = o.change_number WHERE o.urlkey IN ({in})"
    )
    origins = {bytes(key): (subid, number) for key, subid, number in txn.query_in(sql, [row.key for row in rows])}
    if not origins:
        return rows
    return [
        row._replace(text=f'{row.text[:-1]},"origin":{json.dumps(list(origins[row.key]))}}}')
        if row.key in origins
        else row
        for row in rows
    ]


def departing_whole(txn: Txn, pid: int) -> dict[str, list[StagedRow]]:
    """All rows of the small tables, and the counters that numbers in the rows are of."""
    found: dict[str, list[StagedRow]] = {}
    for kind, (columns, order) in WHOLE.items():
        rows = txn.query(f"SELECT {', '.join(columns)} FROM {kind} WHERE pid = ? ORDER BY {order}", [pid])
        found[kind] = [
            StagedRow(number.to_bytes(8, "big"), "", as_text(columns, row)) for number, row in enumerate(rows)
        ]
    values = dict(txn.query("SELECT name, value FROM counters"))
    text = as_text(_COUNTERS, [values[name] for name in _COUNTERS])
    found[COUNTERS_KIND] = [StagedRow(b"\0", "", text)]
    return found


def departing_counts(txn: Txn, pid: int) -> dict[str, int]:
    """How many rows of the paged tables there are."""
    first, last = provider_range(pid)
    counts = {
        table: int(txn.value(f"SELECT COUNT(*) FROM {table} WHERE urlkey > ? AND urlkey <= ?", [first, last], 0))
        for table in ("lccurl", "qdb")
    }
    counts["urlerrs"] = int(txn.value("SELECT COUNT(*) FROM urlerrs WHERE pid = ?", [pid], 0))
    return counts


def why_not(txn: Txn, pid: int) -> str:
    """Why this provider cannot leave its sub-LCC; empty: it can."""
    row = txn.one("SELECT removed, watched FROM pidb WHERE pid = ?", [pid])
    if row is None:
        return f"its source has no provider {pid}"
    if row[0]:
        return f"provider {pid} is being removed"
    if row[1]:
        return f"provider {pid} is a watched site; those cannot be moved yet"
    if txn.one("SELECT 1 FROM heldsweeps WHERE pid = ?", [pid]) is not None:
        return f"deletions of provider {pid} are held: provider allow-deletions or drop-deletions first"
    first, last = provider_range(pid)
    for table in ("lccurl", "qdb"):
        sql = f"SELECT 1 FROM {table} WHERE urlkey > ? AND urlkey <= ? AND source & ? <> 0 LIMIT 1"
        if txn.one(sql, [first, last, _OF_TASKS]) is not None:
            return f"provider {pid} has pages of tasks or crawls (feeds, sitemaps, links); those cannot be moved yet"
    return ""
