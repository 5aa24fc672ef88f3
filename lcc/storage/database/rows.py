"""Rows of ``qdb`` and ``lccurl`` as values: which columns, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcc.model import CachedUrl, QueueRow, UrlNotice

FETCH, NOTHING = 1, 0
"""``qdb.operation``."""
CACHED, DELETED = 1, 0
"""``lccurl.state``."""
TOLD = 1
"""``lccurl.source``: the provider named it."""

DELAY_COLUMNS = ("pid", "until_time", "reason", "code", "failures", "owed_time", "rate", "since_time", "saved_time")

QUEUE_COLUMNS = (
    *("urlkey", "pid", "psetid", "slot", "seq", "operation", "generation", "connseq"),
    *("attempts", "unreached", "seen"),
    *("curl", "furl", "burl", "mimetype", "subtype", "md5", "len", "mtime", "hours", "ifabsent", "sent"),
)
QUEUE_UPDATED = (
    *("operation", "generation", "connseq", "attempts", "unreached", "seen"),
    *("curl", "furl", "burl", "mimetype", "subtype", "md5", "len", "mtime", "hours", "ifabsent", "sent"),
)
"""What a new notice changes in a row that is queued: everything but its place."""
SELECT_QUEUE = f"SELECT {', '.join(QUEUE_COLUMNS)} FROM qdb"

CACHE_COLUMNS = (
    *("urlkey", "pid", "state", "change_number", "connseq", "seen", "generation", "source"),
    *("curl", "furl", "burl", "mimetype", "subtype", "hours"),
    *("told_md5", "told_len", "told_mtime", "md5", "len", "mtime"),
    *(
        "status",
        "charset",
        "etag",
        "modified",
        "revalidate",
        "headers",
        "fetched_time",
        "fetched_machineid",
        "fetched_fileid",
        "confirmed_time",
    ),
)

_USER_COLUMNS = (
    *("urlkey", "pid", "curl", "furl", "burl", "mimetype", "subtype", "md5", "len", "mtime"),
    *("fetched_time", "fetched_machineid", "fetched_fileid", "change_number", "state"),
    *("status", "charset", "etag", "headers", "confirmed_time"),
)
_STATE = _USER_COLUMNS.index("state")
SELECT_USER = f"SELECT {', '.join(_USER_COLUMNS)} FROM lccurl"


def notice_values(notice: UrlNotice) -> tuple[Any, ...]:
    """The columns from ``curl`` on."""
    (curl, furl, burl, mimetype, subtype, md5, length, mtime, hours, _delete, ifabsent, _named, sent) = notice
    return (curl, furl, burl, mimetype, subtype, md5, length, mtime, hours, int(ifabsent), sent)


def queue_row(row: Sequence[Any]) -> QueueRow:
    """A row of :data:`SELECT_QUEUE`."""
    (key, pid, psetid, slot, seq, operation, generation, connseq, attempts, unreached, _seen) = row[:11]
    (curl, furl, burl, mimetype, subtype, md5, length, mtime, hours, ifabsent, sent) = row[11:]
    notice = UrlNotice(
        curl, furl, burl, mimetype, subtype, md5, length, mtime, hours, False, bool(ifabsent), False, sent
    )
    nothing = operation == NOTHING
    return QueueRow(key, pid, psetid, slot, seq, nothing, generation, connseq, attempts, notice, None, unreached)


def cached_url(row: Sequence[Any]) -> CachedUrl:
    """A row of :data:`SELECT_USER`."""
    state = "cached" if row[_STATE] == CACHED else "deleted"
    return CachedUrl(*[*row[:_STATE], state, *row[_STATE + 1 :]])


def empty_cache_row(key: bytes, pid: int) -> dict[str, Any]:
    """Values for every column of ``lccurl``: a tombstone of something that never was in the cache."""
    row: dict[str, Any] = dict.fromkeys(CACHE_COLUMNS, "")
    row.update(dict.fromkeys(("told_len", "told_mtime", "len", "mtime", "modified", "confirmed_time"), None))
    row.update(dict.fromkeys(("fetched_time", "fetched_machineid", "fetched_fileid"), None))
    row.update(
        urlkey=key,
        pid=pid,
        state=DELETED,
        change_number=0,
        connseq=0,
        seen=0,
        generation=0,
        source=TOLD,
        status=0,
        revalidate=0,
    )
    return row
