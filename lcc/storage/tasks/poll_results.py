"""What became of polls, read from the tables of the queue manager: never written here."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from lcc.model.headers import header_pairs
from lcc.model.polled import PolledContent
from lcc.model.sources import Source
from lcc.numbers import INT64_MAX, parse_number
from lcc.storage.database.key_ranges import all_views_key, views_range
from lcc.storage.database.rows import CACHED
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.watched import provider_of

_COLUMNS = (
    *("urlkey", "state", "change_number", "md5", "len", "mimetype", "charset", "fetched_time", "confirmed_time"),
    *("fetched_machineid", "fetched_fileid", "curl", "headers", "fetched_url", "moved_url"),
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM lccurl"
_POLLED = int(Source.POLLED)
_MAX_AGE = re.compile(r"(?i)(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,10})(?![0-9])").search
PAGES = "lccurl"
CHANGES_AT_ONCE = 5000


class Page(NamedTuple):
    """The newest view of a page in the cache.

    :ivar change: number of its last change.
    :ivar seen_time: when it was last fetched, or found unchanged; 0: never.
    :ivar moved: where permanent redirects led; empty: there were none.
    """

    key: bytes
    cached: bool
    change: int
    seen_time: int
    content: PolledContent | None
    moved: str = ""


class Fault(NamedTuple):
    """An error of a fetch."""

    code: int
    text: str
    time: int


class Results(NamedTuple):
    """What is known of some pages, each by its key for all mime types.

    :ivar queued: that wait to be fetched.
    """

    pages: dict[bytes, Page]
    queued: set[bytes]


def _page(row: tuple[Any, ...]) -> Page:
    fields = dict(zip(_COLUMNS, row, strict=True))
    key, cached = bytes(fields["urlkey"]), fields["state"] == CACHED
    machine, file = fields["fetched_machineid"], fields["fetched_fileid"]
    content = None
    if cached and machine is not None and file is not None:
        mimetype, charset = fields["mimetype"], fields["charset"]
        pairs = [(name.lower(), value) for name, value in header_pairs(fields["headers"])]
        headers = dict(pairs)
        max_age = _MAX_AGE(headers.get("cache-control", ""))
        content = PolledContent(
            url=fields["curl"],
            machine=machine,
            file=file,
            size_bytes=fields["len"] or 0,
            md5=fields["md5"],
            key=key.hex(),
            base=fields["fetched_url"] or "",
            content_type=headers.get("content-type", f"{mimetype}; charset={charset}" if charset else mimetype),
            max_age=parse_number(max_age[1], INT64_MAX) if max_age else 0,
            links="\n".join(value for name, value in pairs if name == "link"),
        )
    seen = max(fields["fetched_time"] or 0, fields["confirmed_time"] or 0)
    return Page(key, cached, fields["change_number"], seen, content, fields["moved_url"] or "")


def read_results(txn: Txn, keys: Sequence[bytes]) -> Results:
    """What is known of these pages.

    :param keys: for all mime types.
    """
    ranges = [views_range(key) for key in keys]
    pages: dict[bytes, Page] = {}
    for row in txn.query_each(f"{_SELECT} WHERE urlkey >= ? AND urlkey <= ?", ranges):
        page = _page(row)
        known = pages.get(all_views_key(page.key))
        if known is None or (page.cached, page.seen_time) > (known.cached, known.seen_time):
            pages[all_views_key(page.key)] = page
    queued = {
        all_views_key(bytes(key))
        for (key,) in txn.query_each(
            "SELECT urlkey FROM qdb WHERE urlkey >= ? AND urlkey <= ? AND operation = 1", ranges
        )
    }
    return Results(pages, queued)


def read_faults(txn: Txn, wanted: Sequence[tuple[bytes, int]]) -> dict[bytes, Fault]:
    """The last error of each of these pages, since then.

    :param wanted: key for all mime types, seconds since 1970.
    """
    since = dict(wanted)
    pids = sorted({int.from_bytes(key[:4], "big") for key in since})
    sql = "SELECT urlkey, code, message, time FROM urlerrs WHERE pid IN ({in}) AND time >= ?"
    faults: dict[bytes, Fault] = {}
    for key, number, text, time in txn.query_in(sql, pids, (), [min(since.values())]):
        page = all_views_key(bytes(key))
        if time >= since.get(page, time + 1) and (page not in faults or time >= faults[page].time):
            faults[page] = Fault(number, text, time)
    return faults


def last_change(txn: Txn) -> int:
    """The number of the cache's last change."""
    return int(txn.value("SELECT MAX(change_number) FROM lccurl", [], 0))


def changed_pages(txn: Txn, after: int, upto: int) -> list[Page]:
    """Polled pages whose last change has a number in this range, in order."""
    sql = (
        f"{_SELECT} WHERE change_number > ? AND change_number <= ? AND (source & {_POLLED}) <> 0"
        " ORDER BY change_number"
    )
    return [_page(row) for row in txn.query(sql, [after, upto])]


def watched_roots(txn: Txn, after: int, limit: int) -> list[tuple[int, str]]:
    """Roots of watched providers with greater ids, in order of these; such a provider has one root."""
    sql = (
        "SELECT r.pid, r.root FROM proots r JOIN pidb p ON p.pid = r.pid"
        " WHERE r.pid > ? AND p.watched = 1 AND p.removed = 0 ORDER BY r.pid LIMIT ?"
    )
    return [(pid, root) for pid, root in txn.query(sql, [after, limit])]


def removed_among(txn: Txn, pids: Collection[int]) -> set[int]:
    """Those of these providers that were removed."""
    return {pid for (pid,) in txn.query_in("SELECT pid FROM pidb WHERE pid IN ({in}) AND removed <> 0", sorted(pids))}


def providers_of(txn: Txn, urls: Sequence[str]) -> dict[str, int]:
    """Whose these URLs are (normalised); those of nobody are left out."""
    found = {url: provider_of(txn, url) for url in urls}
    return {url: pid for url, pid in found.items() if pid is not None}
