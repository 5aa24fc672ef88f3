"""Selections of cached rows for content users, read page by page.

A page scans a bounded number of rows, however few of them are selected, so that no transaction is long.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from lcc.model import COUNTED, CachedUrl
from lcc.model.spider.crawls import bucket_of
from lcc.storage.database.tables.key_ranges import PAGE_BYTES, UNTYPED, is_untyped, provider_range, views_range
from lcc.storage.database.tables.rows import CACHED, POLLED, SELECT_USER, USER_COLUMNS, cached_url
from lcc.storage.database.tables.status import last_change_time
from lcc.storage.database.transactions import Txn

EXAMINED_ROWS = 250
"""Rows scanned by a page."""
RANGE_COST = 10
"""The least cost of a provider, in rows."""
IMPORTED_NUMBERS = 20_000
"""Change numbers that a page passes where rows were imported; these cost little."""
EVERYTHING = "0"
"""The digest of the selection of everything."""
_LAST_KEY = b"\xff" * 20
_CURL, _CHANGE = USER_COLUMNS.index("curl"), USER_COLUMNS.index("change_number")


@attrs.frozen
class Times:
    """A half-open interval, seconds since 1970; None: no limit."""

    start: int | None = None
    end: int | None = None

    def __bool__(self) -> bool:
        return self.start is not None or self.end is not None

    def contain(self, time: int | None) -> bool:
        """Whether the time is within; None (unknown) is only within an unlimited interval."""
        if not self:
            return True
        return (
            time is not None and (self.start is None or time >= self.start) and (self.end is None or time < self.end)
        )


@attrs.frozen
class Selection:
    """Which rows of the cache.

    The names of a URL never change (provider, curl, mime type).  The rest may: then a row can leave the selection.
    So may the mime type where nobody has told it: it is that of the last response.

    :ivar providers: only of these; None: of all.
    :ivar mimetypes: only these, ``type/subtype`` or ``type/*``; empty: all.
    :ivar prefix: only what has a curl that begins so; empty: all.
    :ivar subtype: only this one; empty: all.
    :ivar sources: only what one of these names (:mod:`lcc.model.sources`); 0: all but what is only polled.
    :ivar fetched: when the content was fetched.
    :ivar modified: when it was modified last, as far as it is known.
    :ivar keys: only these rows, as they are now; empty: all.
    :ivar buckets: only of hosts in these (:mod:`lcc.model.spider.crawls`); None: all.  The token of one who follows
        changes is good for any of them: whoever takes over a bucket continues with the token of who had it.
    """

    providers: frozenset[int] | None = None
    mimetypes: tuple[str, ...] = ()
    prefix: str = ""
    subtype: str = ""
    fetched: Times = Times()
    modified: Times = Times()
    sources: int = 0
    keys: frozenset[bytes] = frozenset()
    buckets: frozenset[int] | None = None

    def within(self, providers: frozenset[int] | None) -> Selection:
        """The part of it that belongs to these providers; None: to all."""
        if providers is None:
            return self
        return attrs.evolve(self, providers=providers if self.providers is None else self.providers & providers)

    @property
    def digest(self) -> str:
        """Tells this selection from others, in a token; whatever its buckets are."""
        if attrs.evolve(self, buckets=None) == Selection():
            return EVERYTHING
        pids = None if self.providers is None else sorted(self.providers)
        names: tuple[object, ...] = (pids, sorted(self.mimetypes), self.prefix, self.subtype)
        if self.sources:  # else the digest is that of earlier versions
            names += (self.sources,)
        if self.keys:
            names += (sorted(self.keys),)
        text = repr((*names, attrs.astuple(self.fetched), attrs.astuple(self.modified)))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def holds(self, row: CachedUrl) -> bool:
        """Whether a row whose names are selected is selected by what may change, too."""
        return (
            row.source & (self.sources or COUNTED) != 0
            and (not (self.mimetypes and is_untyped(row.key)) or self._has_type(row.mimetype))
            and (not self.subtype or row.subtype == self.subtype)
            and self.fetched.contain(row.fetched_time)
            and self.modified.contain(row.mtime)
        )

    def in_buckets(self, rows: Iterable[Sequence[Any]]) -> list[CachedUrl]:
        """The rows of ``SELECT_USER`` whose hosts belong to it."""
        if self.buckets is None:
            return [cached_url(row) for row in rows]
        return [cached_url(row) for row in rows if bucket_of(_host(row[_CURL])) in self.buckets]

    def _has_type(self, mimetype: str) -> bool:
        return mimetype in self.mimetypes or f"{mimetype.partition('/')[0]}/*" in self.mimetypes


@attrs.frozen
class KeyPage:
    """Some rows in the order of the keys.

    :ivar after: where the next page begins; None: there is none.
    """

    rows: list[CachedUrl]
    after: bytes | None


@attrs.frozen
class ChangePage:
    """Some rows in the order of their last change.

    :ivar after: all changes up to this number were scanned.
    :ivar more: there are more changes to scan.
    """

    rows: list[CachedUrl]
    after: int
    more: bool


def url(txn: Txn, key: bytes) -> CachedUrl | None:
    """One row of the cache, a tombstone as well; None: there is none."""
    row = txn.one(f"{SELECT_USER} WHERE urlkey = ?", [key])
    return None if row is None else cached_url(row)


def views(txn: Txn, key: bytes) -> list[CachedUrl]:
    """What is cached of a page: its mime types.

    :param key: of any of them.
    """
    low, high = views_range(key)
    sql = f"{SELECT_USER} WHERE urlkey > ? AND urlkey <= ? AND state = {CACHED} ORDER BY urlkey"
    return [cached_url(row) for row in txn.query(sql, [low, high])]


def page_by_key(txn: Txn, selection: Selection, after: bytes = b"", limit: int | None = None) -> KeyPage:
    """The selected rows that are cached now and follow a key.

    :param limit: at most so many rows.
    """
    wanted = EXAMINED_ROWS if limit is None else min(EXAMINED_ROWS, limit)
    budget = EXAMINED_ROWS
    where, parameters = _named(selection)
    where += f" AND state = {CACHED} AND source & {selection.sources or COUNTED} <> 0"
    found: list[CachedUrl] = []
    if selection.keys:
        return _of_keys(
            txn, selection, where, parameters, sorted(key for key in selection.keys if key > after)[:wanted]
        )
    for low, high in _ranges(selection.providers, after):
        if budget <= 0 or wanted <= len(found):
            return KeyPage(found, low)
        border = txn.value(
            "SELECT urlkey FROM lccurl WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT 1 OFFSET ?",
            [low, high, budget - 1],
        )
        room = wanted - len(found)
        upto = high if border is None else border
        sql = f"{SELECT_USER} WHERE urlkey > ? AND urlkey <= ?{where} ORDER BY urlkey LIMIT ?"
        rows = txn.query(sql, [low, upto, *parameters, room])
        found += [row for row in selection.in_buckets(rows) if selection.holds(row)]
        if len(rows) == room:
            return KeyPage(found, rows[-1][0])
        if border is not None:
            return KeyPage(found, border)
        if selection.providers is not None:
            looked = int(txn.value("SELECT COUNT(*) FROM lccurl WHERE urlkey > ? AND urlkey <= ?", [low, high]))
            budget -= max(RANGE_COST, looked)
    return KeyPage(found, None)


def _of_keys(txn: Txn, selection: Selection, where: str, parameters: list[object], keys: list[bytes]) -> KeyPage:
    if not keys:
        return KeyPage([], None)
    if selection.providers is not None:
        where += f" AND pid IN ({','.join('?' * len(selection.providers)) or 'NULL'})"
        parameters = [*parameters, *sorted(selection.providers)]
    sql = f"{SELECT_USER} WHERE urlkey IN ({','.join('?' * len(keys))}){where} ORDER BY urlkey"
    rows = selection.in_buckets(txn.query(sql, [*keys, *parameters]))
    after = None if keys[-1] == max(selection.keys) else keys[-1]
    return KeyPage([row for row in rows if selection.holds(row)], after)


def page_by_change(
    txn: Txn, selection: Selection, after: int, upto: int, limit: int | None = None, imports: int | None = None
) -> ChangePage:
    """The selected rows whose last change has a greater number, deletions as well.

    A row that is cached and has left the selection is among them, as deleted: whoever follows the changes has it.

    :param upto: the number of the last change that is looked at.
    :param limit: at most so many rows.
    :param imports: rows that were imported, with numbers greater than this, are left out; None: none are.
    """
    wanted = EXAMINED_ROWS if limit is None else min(EXAMINED_ROWS, limit)
    table = f"lccurl {txn.by_index('lccurl_change')}"
    last, own = _next_run(txn, after, upto, imports)
    border = txn.value(
        f"SELECT change_number FROM {table} WHERE change_number > ? AND change_number <= ?{own}"
        " ORDER BY change_number LIMIT 1 OFFSET ?",
        [after, last, EXAMINED_ROWS - 1],
    )
    end = last if border is None else int(border)
    where, parameters = change_conditions(selection)
    if selection.providers is not None:
        where += f" AND pid IN ({','.join('?' * len(selection.providers)) or 'NULL'})"
        parameters += sorted(selection.providers)
    select = SELECT_USER.replace("FROM lccurl", f"FROM {table}")
    sql = f"{select} WHERE change_number > ? AND change_number <= ?{own}{where} ORDER BY change_number LIMIT ?"
    rows = txn.query(sql, [after, end, *parameters, wanted])
    if len(rows) == wanted and rows:
        end = rows[-1][_CHANGE]
    return ChangePage(as_changes(selection, rows), end, end < upto)


def _next_run(txn: Txn, after: int, upto: int, imports: int | None) -> tuple[int, str]:
    """Up to which change a page reads, and the condition that leaves out what was imported."""
    if imports is None or imports >= upto:
        return upto, ""
    # A row that has changed since it was imported has another number than its origin.
    sql = "SELECT MIN(change_number) FROM origins WHERE change_number > ? AND change_number <= ?"
    imported = txn.value(sql, [max(after, imports), upto])
    if imported is None:
        return upto, ""
    if imported > after + 1:
        return int(imported) - 1, ""
    own = " AND NOT EXISTS (SELECT 1 FROM origins WHERE origins.change_number = lccurl.change_number)"
    return min(upto, after + IMPORTED_NUMBERS), own


def change_conditions(selection: Selection) -> tuple[str, list[object]]:
    """The condition on rows that one who follows the changes of a selection has, or had, providers apart."""
    where, parameters = _named(selection, untyped=True)
    if not selection.sources & POLLED:
        where += f" AND source <> {POLLED}"  # what has ever been more than that is deleted
    return where, parameters


def as_changes(selection: Selection, rows: Iterable[Sequence[Any]]) -> list[CachedUrl]:
    """What is cached, but is not selected any longer, is deleted to who follows the changes."""
    return [row if selection.holds(row) else attrs.evolve(row, state="deleted") for row in selection.in_buckets(rows)]


def changes_of(txn: Txn, pid: int, after: int, rows_max: int) -> list[int] | None:
    """The numbers of a provider's changes behind this one, in order; None: it has more rows than this, changed or
    not."""
    sql = "SELECT change_number FROM lccurl WHERE urlkey > ? AND urlkey <= ? LIMIT ?"
    rows = txn.query(sql, [*provider_range(pid), rows_max + 1])
    return None if len(rows) > rows_max else sorted(number for (number,) in rows if number > after)


def rows_of_changes(txn: Txn, pid: int, numbers: Sequence[int]) -> list[CachedUrl]:
    """A provider's rows whose last changes are these, as :func:`page_by_change` gives them."""
    select = SELECT_USER.replace("FROM lccurl", f"FROM lccurl {txn.by_index('lccurl_change')}")
    rows = txn.query_in(f"{select} WHERE source <> {POLLED} AND change_number IN ({{in}})", numbers)
    found = as_changes(Selection(frozenset([pid])), rows)
    return sorted((row for row in found if row.pid == pid), key=lambda row: row.change)


def change_time_after(txn: Txn, number: int) -> int:
    """The time of the first change with a greater number that is still known; that of the last one, if none is."""
    table = f"lccurl {txn.by_index('lccurl_change')}"
    sql = f"SELECT change_time FROM {table} WHERE change_number > ? ORDER BY change_number LIMIT 1"
    time = txn.value(sql, [number])
    return last_change_time(txn) if time is None else int(time)


def _host(curl: str) -> str:
    begin = curl.find("://") + 3
    end = curl.find("/", begin)
    return curl[begin:] if end < 0 else curl[begin:end]


def _ranges(providers: frozenset[int] | None, after: bytes) -> Iterator[tuple[bytes, bytes]]:
    """From after which key up to which one to look."""
    if providers is None:
        yield after, _LAST_KEY
        return
    for pid in sorted(providers):
        low, high = provider_range(pid)
        if after < high:
            yield max(low, after), high


def _named(selection: Selection, untyped: bool = False) -> tuple[str, list[object]]:
    """The condition on what a URL is called, providers apart.

    :param untyped: rows whose mime type nobody has told are among them, whatever their type is now.
    """
    where, parameters = "", []
    if selection.prefix:
        where += " AND SUBSTR(curl, 1, ?) = ?"
        parameters += [len(selection.prefix), selection.prefix]
    families = [mimetype[:-1] for mimetype in selection.mimetypes if mimetype.endswith("/*")]
    types = [mimetype for mimetype in selection.mimetypes if not mimetype.endswith("/*")]
    terms = []
    # IN lists, because SQLite limits the depth of an expression to a thousand terms.
    if types:
        terms.append(f"mimetype IN ({','.join('?' * len(types))})")
    if families:
        terms.append(f"SUBSTR(mimetype, 1, INSTR(mimetype, '/')) IN ({','.join('?' * len(families))})")
    if terms:
        parameters += types + families
        if untyped:
            terms.append(f"SUBSTR(urlkey, {PAGE_BYTES + 1}) = ?")
            parameters.append(UNTYPED)
        where += f" AND ({' OR '.join(terms)})"
    return where, parameters
