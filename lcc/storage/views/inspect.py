"""The state of one URL, for ``lcc-admin why``.  Read-only; all counts are bounded.

Plain functions of a transaction, each a few index scans; only :func:`owners` reads all of ``proots``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lcc.model import FETCH_NOW, CachedUrl, Delay, QueueRow, StoredError
from lcc.model.sources import Source
from lcc.storage.database.tables.key_ranges import provider_range, views_range
from lcc.storage.database.tables.rows import DELAYS, QUEUE, SELECT_USER, cached_url, queue_row
from lcc.storage.database.transactions import Txn
from lcc.storage.views.failures import STANDS, WITH_CONTENT
from lcc.storage.views.queue_rows import QueueSet

SETS_MAX = 1000
"""Sets of a provider that are examined to find what is before a row."""

_NUMBER_MAX = 1 << 62
_SELECT_SET = "SELECT psetid, slot, pid, pri, connseq, fullset, nurls, time FROM qpsdb"


class Owner(NamedTuple):
    """A provider of a URL, by this root; empty: by a former root, so it may tell it no longer."""

    pid: int
    root: str


class Count(NamedTuple):
    """A bounded count.

    :ivar number: the count, or the limit.
    :ivar more: the limit was reached; there may be more.
    """

    number: int
    more: bool


class View(NamedTuple):
    """A page in one mime type.

    :ivar mimetype: empty: all views (a deletion that named none).
    :ivar told: md5, length and modification time that the provider told of the content that is cached.
    """

    mimetype: str
    queued: QueueRow | None
    cached: CachedUrl | None
    told: tuple[str, int | None, int | None] = ("", None, None)


class LastError(NamedTuple):
    """The error that sent a queued row to the end of its set."""

    code: int
    text: str
    time: int


class Place(NamedTuple):
    """What is before a row of the queue.

    :ivar own_set: the row's set; None: it has none (``lcc-admin rebuild`` makes it).
    :ivar in_set: rows before it in its set.
    :ivar sets: sets of its provider before its own, in the same slot.
    :ivar rows: rows of those sets.
    """

    own_set: QueueSet | None
    in_set: Count
    sets: Count
    rows: Count


def owners(txn: Txn, url: str) -> list[Owner]:
    """The providers with a root that this URL begins with, by id, each once, with its longest one; also those that
    had it earlier: what they told there may still be cached.

    :param url: normalised, so that it is ASCII.  An https URL is inside an http root.
    """
    starts = [url, "http" + url[5:]] if url.startswith("https://") else [url]
    found: dict[int, str] = {}
    for start in starts:
        sql = " UNION ALL ".join(
            f"SELECT pid, {shown} FROM {table} WHERE root = SUBSTR(?, 1, LENGTH(root))"
            for table, shown in (("proots", "root"), ("formerroots", "''"))
        )
        for pid, root in txn.query(sql, [start, start]):
            if len(root) >= len(found.get(pid, "")):
                found[pid] = root
    return [Owner(pid, root) for pid, root in sorted(found.items())]


def views(txn: Txn, key: bytes) -> list[View]:
    """All views of a page that are queued, cached, or deleted, by mime type.

    :param key: of any of them, or the one of all views.
    """
    between = "WHERE urlkey >= ? AND urlkey <= ? ORDER BY urlkey"
    queued = {row.key: row for row in map(queue_row, txn.query(f"{QUEUE.select} {between}", views_range(key)))}
    cached = {row.key: row for row in map(cached_url, txn.query(f"{SELECT_USER} {between}", views_range(key)))}
    sql = f"SELECT urlkey, told_md5, told_len, told_mtime FROM lccurl {between}"
    told = {row[0]: (row[1], row[2], row[3]) for row in txn.query(sql, views_range(key))}
    found = []
    for each in queued.keys() | cached.keys():
        row, content = queued.get(each), cached.get(each)
        mimetype = row.notice.mimetype if row is not None else content.mimetype if content is not None else ""
        found.append(View(mimetype, row, content, told.get(each, ("", None, None))))
    return sorted(found, key=lambda view: view.mimetype)


def curls_fetched_from(txn: Txn, pid: int, furl: str, limit: int = 10) -> list[str]:
    """Conceptual URLs of a provider whose fetch URL is this one.  Reads all rows of the provider."""
    first, last = provider_range(pid)
    found: dict[str, None] = {}
    for table in ("qdb", "lccurl"):
        sql = f"SELECT curl FROM {table} WHERE urlkey >= ? AND urlkey <= ? AND furl = ? LIMIT ?"
        found.update((curl, None) for (curl,) in txn.query(sql, [first, last, furl, limit]) if curl)
    return sorted(found)[:limit]


def count_rows(txn: Txn, sql: str, parameters: Sequence[object], limit: int) -> Count:
    """Count the rows of a SELECT, up to the limit."""
    counted = f"SELECT COUNT(*) FROM (SELECT 1 AS one {sql} LIMIT ?) AS counted"
    number = int(txn.value(counted, [*parameters, limit + 1]))
    return Count(min(number, limit), number > limit)


def place(txn: Txn, row: QueueRow, limit: int) -> Place:
    """What is before this row of the queue.

    :param limit: rows of its own set are counted up to here.
    """
    own = txn.one(f"{_SELECT_SET} WHERE psetid = ? AND slot = ?", [row.psetid, row.slot])
    in_set = count_rows(
        txn,
        "FROM qdb WHERE pid = ? AND slot = ? AND psetid = ? AND seq < ?",
        [row.pid, row.slot, row.psetid, row.seq],
        limit,
    )
    sql = "SELECT nurls FROM qpsdb WHERE pid = ? AND slot = ? AND psetid < ? ORDER BY psetid LIMIT ?"
    before = [count for (count,) in txn.query(sql, [row.pid, row.slot, row.psetid, SETS_MAX + 1])]
    more = len(before) > SETS_MAX
    rows = Count(sum(before[:SETS_MAX]), more)
    return Place(None if own is None else _queue_set(own), in_set, Count(min(len(before), SETS_MAX), more), rows)


def earliest_set(txn: Txn, pid: int) -> int | None:
    """The provider's earliest set with rows that may be fetched at any time; None: there is none."""
    found: int | None = txn.value("SELECT MIN(psetid) FROM qpsdb WHERE pid = ? AND slot = ?", [pid, FETCH_NOW])
    return found


def last_error(txn: Txn, row: QueueRow) -> LastError | None:
    """The last error of this row that caused a retry; None: no fetch has failed since it was told."""
    if not (row.attempts or row.unreached or row.slot < FETCH_NOW):
        return None
    found = txn.one("SELECT bad_code, bad_text, bad_time FROM qdb WHERE urlkey = ?", [row.key])
    return LastError(*found) if found is not None and found[0] else None


def sets_of_others(txn: Txn, queue_set: QueueSet, limit: int) -> tuple[Count, Count]:
    """Sets of other providers that may go before this one: those of a higher priority, and the earlier ones of its
    own."""
    slot = queue_set.slot
    higher = count_rows(
        txn, "FROM qpsdb WHERE slot = ? AND pri > ? AND pid <> ?", [slot, queue_set.priority, queue_set.pid], limit
    )
    earlier = count_rows(
        txn,
        "FROM qpsdb WHERE psetid < ? AND slot = ? AND pri = ? AND pid <> ?",
        [queue_set.psetid, slot, queue_set.priority, queue_set.pid],
        limit,
    )
    return higher, earlier


def errors_of(txn: Txn, key: bytes, urls: Sequence[str], limit: int) -> list[StoredError]:
    """The newest errors that are kept of a page, in any mime type, or of these fetch URLs of its provider; the newest
    first.  Looks at all errors of the provider (``errors_kept`` at most).

    :param key: of any view of the page.
    """
    marks = ",".join("?" * len(urls)) or "NULL"
    rows = txn.query(
        "SELECT number, code, message, url, sent, time, source FROM urlerrs"
        f" WHERE pid = ? AND ((urlkey >= ? AND urlkey <= ?) OR url IN ({marks})) ORDER BY number DESC LIMIT ?",
        [int.from_bytes(key[:4], "big"), *views_range(key), *urls, limit],
    )
    return [StoredError(*row) for row in rows]


def errors_below(txn: Txn, pid: int, source: Source, folder: str, limit: int) -> list[StoredError]:
    """The newest current errors of what this source has said of URLs below a folder, by http or https.  Looks at all
    errors of the provider (``errors_kept`` at most)."""
    name = folder.partition(":")[2]
    below = [each for scheme in ("http", "https") for each in (len(f"{scheme}:{name}"), f"{scheme}:{name}")]
    rows = txn.query(
        "SELECT kept.number, kept.code, kept.message, kept.url, kept.sent, kept.time, kept.source"
        f" FROM urlerrs kept {WITH_CONTENT} WHERE kept.pid = ? AND (kept.source & ?) <> 0 AND {STANDS}"
        " AND (SUBSTR(kept.url, 1, ?) = ? OR SUBSTR(kept.url, 1, ?) = ?) ORDER BY kept.number DESC LIMIT ?",
        [pid, int(source), *below, limit],
    )
    return [StoredError(*row) for row in rows]


def kept_errors(txn: Txn, pid: int, code: int, after: tuple[int, int], limit: int) -> list[tuple[int, StoredError]]:
    """A page of the current stored errors, ``(pid, error)`` in their order.

    :param pid: only this provider's; 0: all.
    :param code: only those of this code; 0: all.
    :param after: ``(pid, number)`` of the last one known; pid 0: from the start (errors that are not for the provider
        have numbers below 0).
    """
    columns = "kept.pid, kept.number, kept.code, kept.message, kept.url, kept.sent, kept.time, kept.source"
    select = f"SELECT {columns} FROM urlerrs kept {WITH_CONTENT} WHERE"
    only, codes = (f" AND kept.code = ? AND {STANDS}", [code]) if code else (f" AND {STANDS}", [])
    # Two statements, each a walk along the key; one with OR would not be.
    where = "kept.pid = ? AND kept.number > ?"
    parameters = [pid or after[0], after[1] if after[0] else -_NUMBER_MAX, *codes, limit]
    rows = txn.query(f"{select} {where}{only} ORDER BY kept.number LIMIT ?", parameters)
    if not pid and len(rows) < limit:
        parameters = [after[0], *codes, limit - len(rows)]
        rows += txn.query(f"{select} kept.pid > ?{only} ORDER BY kept.pid, kept.number LIMIT ?", parameters)
    return [(row[0], StoredError(*row[1:])) for row in rows]


def _queue_set(row: tuple[object, ...]) -> QueueSet:
    psetid, slot, pid, priority, connseq, full, queued, time = row
    return QueueSet(psetid, slot, pid, priority, connseq, bool(full), queued, time)  # type: ignore[arg-type]  # as in the table


def delays_of(txn: Txn, pid: int, now: float) -> list[Delay]:
    """The current delays of this provider: its own, and that of the whole LCC (as pid 0)."""
    return [
        Delay(*row) for row in txn.query(f"{DELAYS.select} WHERE pid IN (0, ?) AND until_time > ?", [pid, int(now)])
    ]


def delays(txn: Txn, now: float, limit: int) -> tuple[list[Delay], dict[str, int]]:
    """Current delays: the longest ones, and the number of delayed providers by reason."""
    rows = txn.query(f"{DELAYS.select} WHERE until_time > ? ORDER BY until_time DESC, pid LIMIT ?", [int(now), limit])
    counts = txn.query(
        "SELECT reason, COUNT(*) FROM pdelays WHERE until_time > ? AND pid > 0 GROUP BY reason ORDER BY reason",
        [int(now)],
    )
    return [Delay(*row) for row in rows], dict(counts)


def count_errors(txn: Txn, pid: int, code: int, limit: int) -> Count:
    """Number of current stored errors (parameters as of :func:`kept_errors`)."""
    where, parameters = "kept.pid = ?" if pid else "kept.pid > ?", [pid]
    if code:
        where += " AND kept.code = ?"
        parameters.append(code)
    return count_rows(txn, f"FROM urlerrs kept {WITH_CONTENT} WHERE {where} AND {STANDS}", parameters, limit)


class WaitingUrl(NamedTuple):
    """A URL that waits for a retry.

    :ivar code: of its last error; 0: the row was told anew since.
    :ivar time: of that error; 0: as before.
    :ivar slot: see :func:`lcc.model.retry_time`.
    """

    pid: int
    url: str
    code: int
    text: str
    time: int
    slot: int


def waiting_urls(txn: Txn, pid: int, code: int, offset: int, limit: int, rows_max: int) -> list[WaitingUrl]:
    """Some of the URLs that wait for a retry, those that are due first.

    :param pid: only this provider's; 0: all.
    :param code: only those whose last error was this one; 0: all.
    :param rows_max: of the queue, that are looked at: those that :func:`lcc.storage.views.failures.failures` counts.
    """
    index, only, values = ("qpsdb_provider", "s.pid = ? AND ", [pid]) if pid else ("qpsdb_slot", "", [])
    where, codes = (" WHERE code = ?", [code]) if code else ("", [])
    rows = txn.query(
        "SELECT pid, curl, code, text, time, slot FROM (SELECT q.pid AS pid, q.curl AS curl, q.bad_code AS code,"
        " q.bad_text AS text, q.bad_time AS time, s.slot AS slot, q.urlkey AS urlkey"
        f" FROM qpsdb s {txn.by_index(index)} JOIN qdb q ON q.pid = s.pid AND q.slot = s.slot AND q.psetid = s.psetid"
        f" WHERE {only}s.slot < ? ORDER BY s.slot DESC LIMIT ?) AS waiting{where}"
        " ORDER BY slot DESC, urlkey LIMIT ? OFFSET ?",
        [*values, FETCH_NOW, rows_max, *codes, limit, offset],
    )
    return [WaitingUrl(*row) for row in rows]


def count_waiting(txn: Txn, pid: int, code: int, limit: int) -> Count:
    """Number of URLs that wait for a retry (parameters as of :func:`kept_errors`)."""
    sql = (
        f"FROM qpsdb s {txn.by_index('qpsdb_provider' if pid else 'qpsdb_slot')} JOIN qdb q"
        " ON q.pid = s.pid AND q.slot = s.slot AND q.psetid = s.psetid WHERE s.slot < ?"
    )
    parameters: list[object] = [FETCH_NOW]
    for column, value in (("s.pid", pid), ("q.bad_code", code)):
        if value:
            sql += f" AND {column} = ?"
            parameters.append(value)
    return count_rows(txn, sql, parameters, limit)
