"""Rows of a provider that moves, as its destination reads them in the database of the source (doc/moves.md)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from lcc.storage.database.table import Table
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import DELAYS
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import CARRIES
from lcc.storage.queue.intake.held_deletions import HeldSweep
from lcc.storage.queue.moves.following import Position, position_now
from lcc.storage.queue.moves.paged import PAGED, count_rows

ERRORS = Table(
    "urlerrs",
    ("pid", "number"),
    (
        *("pid", "number", "code", "message", "url", "sent", "time", "urlkey", "connseq", "generation", "notice"),
        "source",
    ),
)
PAGE_BYTES = 4 << 20
"""With so much text a page ends, if it has no more rows than it may have."""
ROWS_AT_ONCE = 250
_NUMBER_SHIFT = 1 << 62
"""Errors that are not for the provider have numbers below 0: keys are in their order all the same."""
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
    "heldsweeps": (HeldSweep._fields, "pid"),
}
"""Tables with few rows of a provider: all their columns, and the order of the rows."""
_COUNTERS = ("batch", "psetid", "behind", "change_time")
COUNTERS_KIND = "counters"
SAID_COLUMNS = ("notifier", "epoch", "numbers", "time")
SAID_KIND = "notifierpos"
TAKEN_COLUMNS = ("uns", "epoch", "last_number", "answered_number")
TAKEN_KIND = "setspos"


class StagedRow(NamedTuple):
    """A row of one of the small tables of the source.

    :ivar text: its columns, JSON.
    """

    key: bytes
    text: str


class Page(NamedTuple):
    """Rows of one table in the order of their keys (:attr:`lcc.storage.queue.moves.paged.PagedTable.columns`).

    :ivar upto: it has all rows up to this key; None: to the end.
    """

    rows: list[tuple[Any, ...]]
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
    :param limit: at most so many rows, and not many more than :data:`PAGE_BYTES`.
    """
    table = PAGED[kind]
    first, last = provider_range(pid)
    # The first key of the range is no row's.
    sql = f"{table.select(txn)} WHERE r.urlkey > ? AND r.urlkey <= ? ORDER BY r.urlkey LIMIT ?"
    rows: list[tuple[Any, ...]] = []
    key, size = after or first, 0
    while len(rows) < limit and size < PAGE_BYTES:
        wanted = min(ROWS_AT_ONCE, limit - len(rows))
        some = txn.query(sql, [key, last, wanted])
        rows += some
        if len(some) < wanted:
            return Page(rows, None)
        key = bytes(some[-1][0])
        size += table.size(some)
    return Page(rows, key)


def departing_rows(txn: Txn, keys: Sequence[bytes]) -> tuple[int, dict[str, list[tuple[Any, ...]]]]:
    """How many of these keys were read, if all their rows have too many bytes; and the rows, by table."""
    found: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in PAGED}
    count = size = 0
    while count < len(keys) and size < PAGE_BYTES:
        some = keys[count : count + ROWS_AT_ONCE]
        count += len(some)
        for kind, table in PAGED.items():
            rows = txn.query_in(f"{table.select(txn)} WHERE r.urlkey IN ({{in}})", some)
            found[kind] += rows
            size += table.size(rows)
    return count, found


def error_key(number: int) -> bytes:
    """Of a staged error."""
    return (number + _NUMBER_SHIFT).to_bytes(8, "big")


def departing_errors(txn: Txn, pid: int, staged: Collection[bytes]) -> tuple[list[StagedRow], list[bytes]]:
    """The errors that are not staged, and the keys of those that are there no longer.  An error does not change.

    :param staged: keys of those that are.
    """
    numbers = {
        error_key(number): number for (number,) in txn.query("SELECT number FROM urlerrs WHERE pid = ?", [pid])
    }
    new = sorted(number for key, number in numbers.items() if key not in staged)
    rows = txn.query_in(f"{ERRORS.select} WHERE pid = ? AND number IN ({{in}})", new, [pid])
    gone = [key for key in staged if key not in numbers]
    return [StagedRow(error_key(row[1]), as_text(ERRORS.columns, row)) for row in rows], gone


def departing_whole(txn: Txn, pid: int, epoch: int = 0) -> dict[str, list[StagedRow]]:
    """All rows of the small tables, and the counters that numbers in the rows are of.

    :param epoch: of the freeze in which they are read.
    """
    found: dict[str, list[StagedRow]] = {}
    for kind, (columns, order) in WHOLE.items():
        rows = txn.query(f"SELECT {', '.join(columns)} FROM {kind} WHERE pid = ? ORDER BY {order}", [pid])
        found[kind] = _numbered(columns, rows)
    values = dict(txn.query("SELECT name, value FROM counters"))
    text = as_text((*_COUNTERS, "epoch"), [*[values[name] for name in _COUNTERS], epoch])
    found[COUNTERS_KIND] = [StagedRow(b"\0", text)]
    # Of all notifiers, whatever provider their sets are about: none of these comes again for another one.
    rows = txn.query(f"SELECT {', '.join(SAID_COLUMNS)} FROM notifierpos ORDER BY notifier, epoch")
    found[SAID_KIND] = _numbered(SAID_COLUMNS, rows)
    # Sets that were held of it elsewhere, and applied here: whoever has it next applies them no second time.
    taken = txn.query(
        f"SELECT {', '.join(TAKEN_COLUMNS)} FROM setspos WHERE uns >= ? AND uns < ? ORDER BY uns, epoch",
        [b"held/", b"held0"],
    )
    found[TAKEN_KIND] = _numbered(TAKEN_COLUMNS, [row for row in taken if bytes(row[0]).endswith(b"/%d" % pid)])
    return found


def _numbered(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[StagedRow]:
    return [StagedRow(number.to_bytes(8, "big"), as_text(columns, row)) for number, row in enumerate(rows)]


def departing_counts(txn: Txn, pid: int) -> tuple[Position, dict[str, int]]:
    """How many rows of the paged tables there are, and the position that they are of."""
    return position_now(txn), {kind: count_rows(txn, kind, pid) for kind in PAGED}


def why_not(txn: Txn, pid: int) -> str:
    """Why this provider cannot leave its sub-LCC; empty: it can."""
    row = txn.one("SELECT removed, password FROM pidb WHERE pid = ?", [pid])
    if row is None:
        return f"its source has no provider {pid}"
    if row[1].startswith(CARRIES):
        return f"provider {pid} carries the content of a move"
    return f"provider {pid} is being removed" if row[0] else ""
