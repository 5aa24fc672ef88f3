"""Changes of what is stored that SQL cannot make on every database, for :mod:`lcc.storage.database.migrations`.

``convert(txn, after)`` converts a page of rows behind the key ``after`` (None: the first page) and returns the last
key of that page; None: that was all.  On MySQL each page is a transaction, so that the table may be of any size.
After an interruption the conversion begins anew: it skips what is converted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lcc.storage.database.tables.stored_notices import read_notice, write_notice
from lcc.storage.database.transactions import Txn

Key = tuple[int, ...]
Conversion = Callable[[Txn, Key | None], Key | None]

PAGE_ROWS = 500

_ERRORS = ("pid", "number", "code", "message", "url", "sent", "time", "notice")


def name_fields(txn: Txn, after: Key | None) -> Key | None:
    """``urlerrs.notice`` was a JSON list (0.1.0) and becomes a JSON object."""
    pid, number = after or (0, 0)
    # Two statements, each a walk along the key; one with OR would not be.
    select = f"SELECT {', '.join(_ERRORS)} FROM urlerrs WHERE notice LIKE '[%' AND"
    rows = txn.query(
        f"{select} pid = ? AND number > ? ORDER BY number LIMIT ?{txn.for_update}", [pid, number, PAGE_ROWS]
    )
    if len(rows) < PAGE_ROWS:
        rows += txn.query(
            f"{select} pid > ? ORDER BY pid, number LIMIT ?{txn.for_update}", [pid, PAGE_ROWS - len(rows)]
        )
    converted = [(*row[:-1], _named(row)) for row in rows]
    txn.upsert("urlerrs", _ERRORS, converted, ("pid", "number"), ("notice",))
    return tuple(rows[-1][:2]) if len(rows) == PAGE_ROWS else None


def _named(row: tuple[Any, ...]) -> str:
    return write_notice(read_notice(row[_ERRORS.index("notice")], ""))


CONVERSIONS: dict[str, Conversion] = {"named_notices": name_fields}
"""By the name of their files: those named ``NNN_named_notices.DIALECT.sql`` have the first."""
