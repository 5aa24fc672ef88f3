"""Pages of providers with their counts, for the web monitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from lcc.model import FETCH_NOW, Delay, StoredError
from lcc.storage.database.tables.cancelled import TO_FETCH, WITH_CANCELLED_OF_ONE
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import DELAYS, FETCH
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.pid_range import PID_MAX
from lcc.storage.views.failures import STANDS, WITH_CONTENT

_NEXT_SCANNED = 1000
"""Rows at the head of a provider's queue; what was deleted since is among them."""
_LISTED = (
    *("p.pid", "p.priority", "p.timeofday", "p.timezone", "p.bandwidth", "p.removed", "p.watched", "p.contact"),
    *("s.files_used", "s.space_used", "s.nurlproc", "s.errseq - s.errcleared", "s.wantfullset", "s.last_set_time"),
)
_SELECT = f"SELECT {', '.join(_LISTED)} FROM pidb p LEFT JOIN pstats s ON s.pid = p.pid"


@attrs.frozen
class ListedProvider:
    """A provider in the list.

    :ivar hours: as text, in ``timezone``; empty: always.
    :ivar bandwidth_bytes: per second; None: without limit.
    :ivar watched: nobody has registered it.
    :ivar queued: URLs to be fetched.
    :ivar errors: not yet reported to the provider.
    :ivar last_set_time: seconds since 1970; 0: no set yet.
    :ivar delay: its current delay; None: none.
    :ivar oldest_set_time: of the sets that wait to be fetched; 0: none waits.
    """

    pid: int
    priority: int
    hours: str
    timezone: str
    bandwidth_bytes: int | None
    removed: bool
    watched: bool
    contact: str
    files: int
    space_bytes: int
    queued: int
    errors: int
    full_set_wanted: str
    last_set_time: int
    roots: tuple[str, ...] = ()
    delay: Delay | None = None
    oldest_set_time: int = 0


def providers_after(txn: Txn, pid: int, limit: int, now: float) -> list[ListedProvider]:
    """Those behind this id, in their order."""
    rows = txn.query(f"{_SELECT} WHERE p.pid > ? ORDER BY p.pid LIMIT ?", [min(pid, PID_MAX), limit])
    return _complete(txn, rows, now)


def providers_before(txn: Txn, pid: int, limit: int, now: float) -> list[ListedProvider]:
    """Those just before this id, in their order."""
    rows = txn.query(f"{_SELECT} WHERE p.pid < ? ORDER BY p.pid DESC LIMIT ?", [min(pid, PID_MAX), limit])
    return _complete(txn, rows[::-1], now)


def these_providers(txn: Txn, pids: Sequence[int], now: float) -> list[ListedProvider]:
    """Those of these providers that there are, in this order."""
    asked = [pid for pid in pids if 0 < pid <= PID_MAX]
    rows = {row[0]: row for row in txn.query_in(f"{_SELECT} WHERE p.pid IN ({{in}})", asked)}
    return _complete(txn, [rows[pid] for pid in asked if pid in rows], now)


def providers_named(txn: Txn, text: str, limit: int) -> list[int]:
    """Ids of providers with this text in a root or in the contact.  Scans all providers, for no index could
    help: they are thousands, not millions."""
    found = dict.fromkeys(
        pid
        for sql in (
            "SELECT DISTINCT pid FROM proots WHERE INSTR(LOWER(root), ?) > 0 ORDER BY pid LIMIT ?",
            "SELECT pid FROM pidb WHERE INSTR(LOWER(contact), ?) > 0 ORDER BY pid LIMIT ?",
        )
        for (pid,) in txn.query(sql, [text.lower(), limit])
    )
    return sorted(found)[:limit]


def neighbours(txn: Txn, pid: int) -> tuple[int | None, int | None]:
    """The ids of the provider before and the one after this one."""
    before = txn.value("SELECT MAX(pid) FROM pidb WHERE pid < ?", [pid])
    return before, txn.value("SELECT MIN(pid) FROM pidb WHERE pid > ?", [pid])


@attrs.frozen
class FoundUrl:
    """A URL of the cache or of the queue.

    :ivar state: ``queued``, ``cached`` or ``deleted``.
    """

    key: bytes
    pid: int
    curl: str
    mimetype: str
    state: str


def urls_beginning(
    txn: Txn, pid: int, prefix: str, after: bytes | None, rows: int, limit: int
) -> tuple[list[FoundUrl], bytes | None]:
    """URLs of a provider that begin like this, in the order of their keys.

    URLs have no index (it would be larger than the rows of the cache), so a bounded number of rows is scanned.

    :param prefix: ASCII, as URLs are.
    :param after: go on behind this key; None: from the start.
    :param rows: of each table to scan.
    :param limit: of URLs returned.
    :returns: the URLs; the key behind which to continue, None: done.
    """
    low, high = provider_range(pid)
    low = low if after is None else max(low, after)
    found: dict[bytes, FoundUrl] = {}
    ends: list[bytes] = []
    for table, state in (("lccurl", "state"), ("qdb", "2")):
        # The derived table bounds what is read, however few of its rows match.
        sql = (
            f"SELECT urlkey, curl, mimetype, state FROM (SELECT urlkey, curl, mimetype, {state} AS state FROM {table}"
            " WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT ?) AS some WHERE SUBSTR(curl, 1, ?) = ?"
        )
        for key, curl, mimetype, number in txn.query(sql, [low, high, rows, len(prefix), prefix]):
            name = ("deleted", "cached", "queued")[int(number)]
            if number != 0 or curl:
                found[bytes(key)] = FoundUrl(bytes(key), pid, curl, mimetype, name)
        last = txn.value(
            f"SELECT urlkey FROM {table} WHERE urlkey > ? AND urlkey <= ? ORDER BY urlkey LIMIT 1 OFFSET ?",
            [low, high, rows - 1],
        )
        if last is not None:
            ends.append(bytes(last))
    end = min(ends) if ends else None
    chosen = [found[key] for key in sorted(found) if end is None or key <= end]
    if len(chosen) > limit:
        return chosen[:limit], chosen[limit - 1].key
    return chosen, end


def waiting_sets(txn: Txn, pid: int, limit: int) -> list[tuple[int, int, bool, int, int]]:
    """A provider's sets that wait to be fetched, without those of retries: ``(psetid, slot, full, urls, time)``."""
    index = txn.by_index("qpsdb_provider")
    rows = txn.query(
        f"SELECT s.psetid, s.slot, s.fullset, {TO_FETCH}, s.time FROM qpsdb s {index} {WITH_CANCELLED_OF_ONE}"
        f" WHERE s.pid = ? AND s.slot >= ? AND {TO_FETCH} > 0 ORDER BY s.slot, s.psetid LIMIT ?",
        [*provider_range(pid), pid, FETCH_NOW, limit],
    )
    return [(psetid, slot, bool(full), urls, time) for psetid, slot, full, urls, time in rows]


def next_urls(txn: Txn, pid: int, limit: int) -> list[tuple[str, str]]:
    """What is fetched next of a provider: ``(url, mime type)``."""
    return txn.query(
        "SELECT curl, mimetype FROM (SELECT curl, mimetype, operation, psetid, seq"
        f" FROM qdb {txn.by_index('qdb_order')} WHERE pid = ? AND slot = ? ORDER BY psetid, seq LIMIT ?) AS some"
        " WHERE operation = ? ORDER BY psetid, seq LIMIT ?",
        [pid, FETCH_NOW, _NEXT_SCANNED, FETCH, limit],
    )


def newest_errors(txn: Txn, pid: int, limit: int) -> list[StoredError]:
    """A provider's last errors that still stand, newest first."""
    rows = txn.query(
        "SELECT kept.number, kept.code, kept.message, kept.url, kept.sent, kept.time"
        f" FROM urlerrs kept {WITH_CONTENT} WHERE kept.pid = ? AND {STANDS} ORDER BY kept.number DESC LIMIT ?",
        [pid, limit],
    )
    return [StoredError(*row) for row in rows]


def _complete(txn: Txn, rows: Sequence[tuple[Any, ...]], now: float) -> list[ListedProvider]:
    pids = [row[0] for row in rows]
    roots: dict[int, list[str]] = {}
    sql = "SELECT pid, position, root FROM proots WHERE pid IN ({in})"
    for pid, _position, root in sorted(txn.query_in(sql, pids)):
        roots.setdefault(pid, []).append(root)
    sql = f"{DELAYS.select} WHERE pid IN ({{in}}) AND until_time > ?"
    delays = {row[0]: Delay(*row) for row in txn.query_in(sql, pids, after=[int(now)])}
    index = txn.by_index("qpsdb_provider")
    sql = f"SELECT pid, MIN(time) FROM qpsdb {index} WHERE pid IN ({{in}}) AND slot >= ? GROUP BY pid"
    oldest = dict(txn.query_in(sql, pids, after=[FETCH_NOW]))
    return [
        _listed(row, tuple(roots.get(row[0], ())), delays.get(row[0]), int(oldest.get(row[0], 0))) for row in rows
    ]


def _listed(row: tuple[Any, ...], roots: tuple[str, ...], delay: Delay | None, oldest_set: int) -> ListedProvider:
    pid, priority, hours, timezone, bandwidth, removed, watched, contact, *counts, wanted, last_set = row
    files, space, queued, errors = (int(count or 0) for count in counts)
    return ListedProvider(
        pid=pid,
        priority=priority,
        hours=hours,
        timezone=timezone,
        bandwidth_bytes=bandwidth,
        removed=bool(removed),
        watched=bool(watched),
        contact=contact,
        files=files,
        space_bytes=space,
        queued=queued,
        errors=errors,
        full_set_wanted=wanted or "",
        last_set_time=int(last_set or 0),
        roots=roots,
        delay=delay,
        oldest_set_time=oldest_set,
    )
