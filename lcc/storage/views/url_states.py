"""What became of URLs: whether they are queued, cached or deleted, and their last error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lcc.model import COUNTED
from lcc.model.number_ranges import NumberRanges
from lcc.model.states import ARRIVING, QUEUED, UNKNOWN
from lcc.model.states import CACHED as IS_CACHED
from lcc.model.states import DELETED as IS_DELETED
from lcc.storage.database.tables.key_ranges import PAGE_BYTES
from lcc.storage.database.tables.rows import CACHED, WITHDRAWN
from lcc.storage.database.transactions import Txn

Range = tuple[bytes, bytes]
"""The first and the last key: those of all views of a page, or one key twice."""
ROWS_MAX = 100_000
"""More views than that of the pages of one question are not looked at."""
_WITHIN = "urlkey >= ? AND urlkey <= ?"
_CACHE = (
    "SELECT urlkey, state, source, change_number, connseq, words, generation, mimetype, md5, fetched_time,"
    " confirmed_time FROM lccurl"
)
_QUEUE = "SELECT urlkey, bad_code, bad_text, bad_time, source FROM qdb"
_ERRORS = "SELECT urlkey, code, message, time, generation FROM urlerrs"


class Found(NamedTuple):
    """What is known of a range.

    :ivar state: of :mod:`lcc.model.states`.
    :ivar key: of the view that it is about; empty: none was ever fetched.
    :ivar code: of the last error since then; 0: none.
    """

    state: str = UNKNOWN
    key: bytes = b""
    mimetype: str = ""
    md5: str = ""
    change: int = 0
    fetched_time: int | None = None
    confirmed_time: int | None = None
    code: int = 0
    error: str = ""
    error_time: int = 0


class _View(NamedTuple):
    """A row of ``lccurl``; the columns of ``_CACHE``."""

    key: bytes
    state: int
    source: int
    change: int
    connseq: int
    words: str
    generation: int
    mimetype: str
    md5: str
    fetched_time: int | None
    confirmed_time: int | None

    @property
    def is_cached(self) -> bool:
        return self.state == CACHED and self.source & COUNTED != 0

    @property
    def is_deleted(self) -> bool:
        """Content users had it, or its site has deleted it."""
        if self.state == CACHED:
            return self.source & WITHDRAWN != 0
        return bool(self.change or self.connseq or self.words)


NOTHING = Found()


def applied_sets(txn: Txn, notifier: str, epoch: str) -> NumberRanges:
    """Which sets of a notifier the queue has taken in."""
    sql = "SELECT numbers FROM notifierpos WHERE notifier = ? AND epoch = ?"
    return NumberRanges(bytes(txn.value(sql, [notifier.encode(), epoch.encode()], b"")).decode())


def url_states(txn: Txn, ranges: Iterable[Range], arriving: Iterable[Range] = ()) -> dict[Range, Found]:
    """What is known of these.

    :param arriving: those that sets on their way tell.
    """
    asked = list(dict.fromkeys(ranges))
    waits = _by_page(_rows(txn, _QUEUE, asked, " AND operation = 1"))
    views = _by_page(map(_View._make, _rows(txn, _CACHE, asked)))
    on_the_way = set(arriving)
    found: dict[Range, Found] = {}
    for each in asked:
        queued = [row for row in _of(waits, each) if row[4] & COUNTED]
        known = _known(_of(views, each))
        if queued:
            _, code, error, time, _ = max(queued, key=lambda row: row[3])
            known = known._replace(state=QUEUED, code=code, error=error, error_time=time)
        found[each] = known._replace(state=ARRIVING) if each in on_the_way else known
    settled = [each for each in asked if found[each].state not in (ARRIVING, QUEUED)]
    errors = _by_page(_rows(txn, _ERRORS, settled))
    for each in settled:
        generation = max([view.generation for view in _of(views, each) if view.is_cached], default=0)
        found[each] = _with_error(found[each], _of(errors, each), generation)
    return found


def _rows(txn: Txn, select: str, ranges: Sequence[Range], further: str = "") -> list[tuple[Any, ...]]:
    return txn.query_ranges(select, f"{_WITHIN}{further}", ranges, "urlkey", ROWS_MAX)


def _by_page(rows: Iterable[Any]) -> dict[bytes, list[Any]]:
    pages = defaultdict(list)
    for row in rows:
        pages[bytes(row[0][:PAGE_BYTES])].append(row)
    return pages


def _of(pages: dict[bytes, list[Any]], asked: Range) -> list[Any]:
    """The rows in this range."""
    first, last = asked
    rows = pages.get(first[:PAGE_BYTES], [])
    return rows if first != last else [row for row in rows if row[0] == first]


def _known(views: Iterable[_View]) -> Found:
    """What the cache knows: of content what was fetched last, else what was deleted last."""
    shown = [view for view in views if view.is_cached or view.is_deleted]
    if not shown:
        return NOTHING
    view = max(shown, key=lambda view: (view.is_cached, view.confirmed_time or 0, view.change))
    if not view.is_cached:
        return Found(IS_DELETED, view.key, change=view.change, confirmed_time=view.confirmed_time)
    return Found(IS_CACHED, view.key, view.mimetype, view.md5, view.change, view.fetched_time, view.confirmed_time)


def _with_error(known: Found, errors: Iterable[tuple[Any, ...]], generation: int) -> Found:
    """The same with the last error, as far as the URL was neither fetched nor deleted since.

    :param generation: of the content.
    """
    since = known.confirmed_time or 0 if known.state == IS_DELETED else 0
    current = [row for row in errors if row[4] >= generation and row[3] >= since]
    if not current:
        return known
    _, code, text, time, _ = max(current, key=lambda row: row[3])
    return known._replace(code=code, error=text, error_time=time)
