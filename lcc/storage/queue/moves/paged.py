"""Tables whose rows move page by page: how they are read at the source, and where they are staged (doc/moves.md).

A staged row has the columns of the table, so that the database itself can make it a row of the destination: no row is
taken apart here.  Rows are tuples; the first value is the key, whose first bytes are the provider.

What most rows have in a column travels, and is staged, as NULL: columns that are NULL in all rows of a page are left
out when it is inserted, because a value costs MariaDB's parser more than storing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from lcc.storage.database.table import Table
from lcc.storage.database.tables.key_ranges import provider_of, provider_range
from lcc.storage.database.tables.rows import CACHE, QUEUE
from lcc.storage.database.transactions import Txn

PAGE_ROWS = 2000
"""Of one transaction: some 10 ms on SQLite, 30 on MariaDB."""

_NO_TEXT = "''"
_LARGE = ("curl", "furl", "burl", "fetched_url", "moved_url", "headers", "hours", "sent")

QUEUED = Table("qdb", ("urlkey",), (*QUEUE.columns, "bad_code", "bad_text", "bad_time"))
"""Rows of the queue, with why they failed last."""


class PagedTable:
    """
    :param table: at the source, and where the provider arrives.
    :param usual: columns that may not be NULL -> what most rows have there, as a literal.
    :param more: what is read of each row besides its columns, name -> expression; ``r`` is the row.
    :param join: the table that it is in.
    :param added: columns of a staged row that the destination fills in.
    :ivar name: of the table.
    :ivar columns: of the rows of the source, as they are read.
    :ivar large: gives those values of such a row that may be long texts.
    :ivar staged: the table in which they are staged.
    """

    def __init__(
        self,
        table: Table,
        staged: str,
        usual: Mapping[str, str],
        more: Mapping[str, str],
        join: str,
        added: Sequence[str] = (),
    ) -> None:
        self.table = table
        self.name = table.name
        self.columns = (*table.columns, *more)
        self._usual = usual
        self._selects = {}
        for pads in (False, True):
            own = [_unless(f"r.{name}", usual.get(name), pads) for name in table.columns]
            values = ", ".join([*own, *more.values()])
            self._selects[pads] = f"SELECT {values} FROM {table.name} r LEFT JOIN {join}"
        self.large = itemgetter(*[place for place, name in enumerate(self.columns) if name in _LARGE])
        self.staged = Table(staged, ("urlkey",), (*self.columns, *added))

    def select(self, txn: Txn) -> str:
        """Reads rows of the source."""
        return self._selects[txn.dialect.pads]

    def size(self, rows: Sequence[tuple[Any, ...]]) -> int:
        """How long the long texts of these rows are."""
        return sum(map(len, filter(None, chain.from_iterable(map(self.large, rows)))))

    def value(self, column: str) -> str:
        """The expression for the value of a column of the staged row ``r``."""
        usual = self._usual.get(column)
        return f"r.{column}" if usual is None else f"COALESCE(r.{column}, {usual})"


def _unless(column: str, usual: str | None, pads: bool) -> str:
    """NULL where the column has its usual value.

    :param usual: None: it has none.
    :param pads: as of :class:`lcc.storage.database.dialects.Dialect`: a text of spaces equals an empty one.
    """
    if usual is None:
        return column
    if usual == _NO_TEXT and pads:
        return f"CASE WHEN LENGTH({column}) = 0 THEN NULL ELSE {column} END"
    return f"NULLIF({column}, {usual})"


def _usual(numbers: Iterable[str], texts: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(numbers, "0") | dict.fromkeys(texts, _NO_TEXT)


CACHE_ROWS = PagedTable(
    CACHE,
    "stagedcache",
    _usual(
        ("change_time", "connseq", "seen", "generation"),
        ("words", "furl", "burl", "subtype", "hours", "told_md5", "md5", "charset", "etag", "headers"),
    ),
    {
        "origin_subid": "CASE WHEN o.change_number = r.change_number THEN o.subid END",
        "origin_number": "CASE WHEN o.change_number = r.change_number THEN o.number END",
    },
    "origins o ON o.urlkey = r.urlkey",
    ("carried",),
)
"""Rows that were imported and have not changed since say from where.  ``carried`` is the key of the row that has the
content here."""
QUEUE_ROWS = PagedTable(
    QUEUED,
    "stagedqueue",
    _usual(
        ("attempts", "unreached", "seen", "ifabsent", "bad_code", "bad_time"),
        ("words", "furl", "burl", "subtype", "md5", "bad_text"),
    ),
    {"set_connseq": "s.connseq", "set_fullset": "s.fullset", "set_time": "s.time"},
    "qpsdb s ON s.psetid = r.psetid AND s.slot = r.slot",
)
"""Rows say what is known of their sets besides its number."""

STAGED = Table("staged", ("pid", "kind", "rowkey"), ("pid", "kind", "rowkey", "rowtext"))
"""Everything else that is staged: rows as JSON."""

PAGED = {CACHE_ROWS.name: CACHE_ROWS, QUEUE_ROWS.name: QUEUE_ROWS}
"""In this order they are compared, then followed (:mod:`lcc.storage.queue.moves.following`)."""


Place = tuple[str, bytes]
"""How far somebody is: a table of :data:`PAGED`, and the key of the last row of it; empty: at its beginning."""
START: Place = (CACHE_ROWS.name, b"")
Keys = tuple[bytes, bytes]
"""The first and the last key of a page."""


def next_page(txn: Txn, table: str, pid: int, after: bytes, limit: int) -> Keys | None:
    """The next rows of a provider; None: there are none.

    :param after: key of the row before them; empty: from the start.  Whoever removes page after page says where it
        is, because MariaDB walks over removed rows until they are purged.
    """
    first, last = provider_range(pid)
    sql = f"SELECT urlkey FROM {table} WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?"
    keys = txn.one(f"SELECT MIN(page.urlkey), MAX(page.urlkey) FROM ({sql}) AS page", [after or first, last, limit])
    return None if keys is None or keys[0] is None else (bytes(keys[0]), bytes(keys[1]))


def pids_in(txn: Txn, table: str) -> set[int]:
    """The providers that have rows, found by one step in the index for each."""
    found: set[int] = set()
    after = b""
    while (
        key := txn.value(f"SELECT urlkey FROM {table} WHERE urlkey > ? ORDER BY urlkey LIMIT 1", [after])
    ) is not None:
        pid = provider_of(key)
        found.add(pid)
        after = provider_range(pid)[1]
    return found


def has_rows(txn: Txn, table: str, pid: int, after: bytes) -> bool:
    """Whether a provider has rows behind this key."""
    sql = f"SELECT 1 FROM {table} WHERE urlkey > ? AND urlkey <= ? LIMIT 1"
    return txn.one(sql, [after, provider_range(pid)[1]]) is not None


def count_rows(txn: Txn, table: str, pid: int) -> int:
    """How many rows of a provider there are."""
    sql = f"SELECT COUNT(*) FROM {table} WHERE urlkey > ? AND urlkey <= ?"
    return int(txn.value(sql, provider_range(pid), 0))
