"""The tables of the queue and the cache: their columns, and their rows as values.

An attribute of ``<url>`` is stored in columns named as its field in :class:`lcc.model.UrlNotice` (but for those in
``_RENAMED``): in ``qdb`` as told, in ``lccurl`` as told with the content.  So a new attribute needs a line in
:data:`CACHE`, and everything else here follows from the fields of the value types.

All of this is worked out when the module is imported: a row costs one call of an ``itemgetter``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import attrs

from lcc.model import ANY_TYPE, CachedUrl, Delay, QueueRow, Source, UrlNotice
from lcc.storage.database.table import Table
from lcc.storage.database.tables.key_ranges import is_untyped

FETCH, NOTHING = 1, 0
"""``qdb.operation``."""
CACHED, DELETED = 1, 0
"""``lccurl.state``."""
TOLD, POLLED = int(Source.TOLD), int(Source.POLLED)
"""``source``: the provider named it; the LCC wants to read it."""
WITHDRAWN = 64
"""``lccurl.source``, besides POLLED: content users had it, so to them it is deleted."""

GENERATION_SHIFT = 16
"""The first ``generation`` of a row of a batch is ``batch << 16``: a new row never has that of an old result."""

_RENAMED = {"key": "urlkey", "length": "len", "change": "change_number"}
"""Fields of value types whose columns have another name."""


def last_generation(batch: int) -> int:
    """The highest one that a row may have after this batch."""
    return (batch + 1 << GENERATION_SHIFT) - 1


def _columns(fields: Iterable[str]) -> tuple[str, ...]:
    return tuple(_RENAMED.get(field, field) for field in fields)


# The queue.

_NOT_STORED = ("delete", "named_only", "retract", "recheck")
"""Fields of a notice that are never queued: such a notice is carried out at once."""
_NOTICE_FIELDS = tuple(field for field in UrlNotice._fields if field not in _NOT_STORED)
_NOTICE_COLUMNS = _columns(_NOTICE_FIELDS)
_PLACE = ("urlkey", "pid", "psetid", "slot", "seq")
_WORK = ("operation", "generation", "connseq", "attempts", "unreached", "seen", "source", "words")

QUEUE = Table("qdb", ("urlkey",), (*_PLACE, *_WORK, *_NOTICE_COLUMNS))
QUEUE_UPDATED = QUEUE.without(_PLACE)
"""What a new notice changes in a row that is queued: everything but its place."""

notice_values: Callable[[UrlNotice], tuple[Any, ...]] = itemgetter(*map(UrlNotice._fields.index, _NOTICE_FIELDS))
"""A notice as the last columns of :data:`QUEUE`."""


class SetRow(NamedTuple):
    """A row of ``qpsdb``."""

    psetid: int
    slot: int
    pid: int
    pri: int
    connseq: int
    fullset: int
    firstseq: int
    lastseq: int
    nurls: int
    time: int


SETS = Table("qpsdb", ("psetid", "slot"), SetRow._fields)
SET_EXTENT = ("firstseq", "lastseq", "nurls")
"""What changes in a row of ``qpsdb`` when queue rows come or go."""

DELAYS = Table("pdelays", ("pid",), Delay._fields)

# The cache.

_EMPTY: dict[str, Any] = {
    "urlkey": b"",
    "pid": 0,
    "state": DELETED,
    "change_number": 0,
    "change_time": 0,
    "connseq": 0,
    "seen": 0,
    "generation": 0,
    "source": TOLD,
    "words": "",
    # As told with the content.
    "curl": "",
    "furl": "",
    "burl": "",
    "mimetype": "",
    "subtype": "",
    "hours": "",
    # As told last, and of the content.
    "told_md5": "",
    "told_len": None,
    "told_mtime": None,
    "md5": "",
    "len": None,
    "mtime": None,
    # Of the fetch.
    "status": 0,
    "charset": "",
    "etag": "",
    "modified": None,
    "revalidate": 0,
    "headers": "",
    "fetched_time": None,
    "fetched_machineid": None,
    "fetched_fileid": None,
    "fetched_url": None,
    "moved_url": None,
    "confirmed_time": None,
}
"""Column -> value in a tombstone of something that was never cached."""

CHANGE = ("change_number", "change_time")
"""Of the last change."""

CACHE = Table("lccurl", ("urlkey",), tuple(_EMPTY))

_OF_CONTENT = ("md5", "len", "mtime")
TOLD_OF_CONTENT = tuple(f"told_{column}" for column in _OF_CONTENT)
"""As told last, of the content itself."""
_TOLD_FIELDS = tuple(
    field
    for field, column in zip(_NOTICE_FIELDS, _NOTICE_COLUMNS, strict=True)
    if column in _EMPTY and column not in _OF_CONTENT
)
TOLD_WITH_CONTENT = _columns(_TOLD_FIELDS)
"""What a notice says besides the content itself, as :func:`told_values` gives it."""
told_values: Callable[[UrlNotice], tuple[Any, ...]] = itemgetter(*map(UrlNotice._fields.index, _TOLD_FIELDS))

_NAMES = ("curl", "furl", "burl", "mimetype", "subtype")
TOMBSTONE_UPDATED = CACHE.without({"urlkey", "pid", "seen", "generation", *_NAMES})
"""What is cleared when content is deleted: all but the names."""

USER_COLUMNS = _columns(field.name for field in attrs.fields(CachedUrl))
_STATE = USER_COLUMNS.index("state")
SELECT_USER = f"SELECT {', '.join(USER_COLUMNS)} FROM lccurl"


# Rows as values.


def _maker(columns: Sequence[str], fields: Sequence[str]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Puts the values of these columns, followed by those of these fields, into the order of a notice's fields."""
    places = {column: place for place, column in enumerate((*columns, *fields))}
    return itemgetter(*(places[_RENAMED.get(field, field)] for field in UrlNotice._fields))


_IFABSENT = QUEUE.columns.index("ifabsent")
_of_queue = _maker(QUEUE.columns, ("ifabsent", *_NOT_STORED))


_NOT_STORED_VALUES = (False,) * len(_NOT_STORED)
_new = tuple.__new__  # a named tuple's own way of being made checks its length, which is known here


def queue_row(row: tuple[Any, ...]) -> QueueRow:
    """A row of :data:`QUEUE`."""
    key, pid, psetid, slot, seq, operation, generation, connseq, attempts, unreached, _seen, source, words = row[:13]
    whole = row + (bool(row[_IFABSENT]), False, False, False, False)  # noqa: RUF005  # quicker
    notice = _new(UrlNotice, _of_queue(whole))
    nothing = operation == NOTHING
    place = (key, pid, psetid, slot, seq, nothing, generation, connseq, attempts)
    return _new(QueueRow, (*place, notice, None, unreached, source, words))


TOLD_COLUMNS = ", ".join((*TOLD_WITH_CONTENT, *TOLD_OF_CONTENT))
"""Columns of ``lccurl`` that :func:`told_notice` reads, for a SELECT."""
_of_cache = _maker((*TOLD_WITH_CONTENT, *_OF_CONTENT), ("ifabsent", *_NOT_STORED, "sent"))


def told_notice(row: Sequence[Any], key: bytes) -> UrlNotice:
    """What was told of the URL of this key, as far as the cache keeps it (:data:`TOLD_COLUMNS`)."""
    notice: UrlNotice = _new(UrlNotice, _of_cache((*row, False, *_NOT_STORED_VALUES, "")))
    return notice._replace(mimetype=ANY_TYPE) if is_untyped(key) else notice


def cached_url(row: Sequence[Any]) -> CachedUrl:
    """A row of :data:`SELECT_USER`."""
    state = "cached" if row[_STATE] == CACHED else "deleted"
    return CachedUrl(*[*row[:_STATE], state, *row[_STATE + 1 :]])


def empty_cache_row(key: bytes, pid: int) -> dict[str, Any]:
    """Values for every column of ``lccurl``: a tombstone of something that was never cached."""
    return _EMPTY | {"urlkey": key, "pid": pid}
