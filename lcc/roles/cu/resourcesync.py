"""The cache as a source of ResourceSync (ANSI/NISO Z39.99-2017): the documents, made page by page.

A provider has a capability list, a resource list and a change list.  The URLs in them are this server's own, of the
content (``/content/KEY``); ``rel="via"`` names the original.  ``lastmod`` is when the *cache* has changed, since
clients go on from the latest one that they have seen: it never goes back (:attr:`lcc.model.CachedUrl.change_time`).
So that nothing is missed that changes while a resource list is read, nothing in it is newer than the list.

A long resource list is an index of parts, each a range of keys: neither the index nor a part reads what it does not
return.  A change list goes back to where deletions are forgotten; that of a provider with many URLs is an index of
ranges of change numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import attrs

from lcc.domain.times import iso_utc
from lcc.insight.records import CACHED
from lcc.model import CachedUrl
from lcc.protocols.xmltext import attributes, escape
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.status import database_epoch, forgotten_upto, last_change, last_change_time
from lcc.storage.database.transactions import Txn
from lcc.storage.views.selected import (
    EXAMINED_ROWS,
    Selection,
    change_time_after,
    changes_of,
    page_by_change,
    page_by_key,
    rows_of_changes,
)

MEDIA_TYPE = "application/xml"
FOLDER = "resourcesync"
WELL_KNOWN = ".well-known"
CAPABILITIES, RESOURCES, CHANGES = "capabilitylist", "resourcelist", "changelist"
RESOURCES_EACH = 10_000
"""Of a part of a resource list, about; a document may have 50,000 entries."""
CHANGES_EACH = 50_000
"""Rows of a provider that has a single change list; change numbers of a part of another's."""
CHANGES_MAX = 100 * CHANGES_EACH
PARTS_MAX = 50_000
PROVIDERS_MAX = 50_000
_SITEMAPS = "http://www.sitemaps.org/schemas/sitemap/0.9"
_TERMS = "http://www.openarchives.org/rs/terms/"


@attrs.frozen
class Piece:
    """A part of a document.

    :ivar after: gives the next one; None: this was the last.
    :ivar anywhere: it does so in another database, too, which the provider has moved to meanwhile.
    """

    data: bytes
    after: Callable[[Txn], Piece] | None = None
    anywhere: bool = False


@attrs.frozen
class Source:
    """Whose documents, and where.

    :ivar url: of this server, with ``/`` at its end.
    """

    url: str
    pid: int

    def document(self, name: str) -> str:
        """The URL of a document of this provider, by its name without ``.xml``."""
        return f"{self.url}{FOLDER}/{self.pid}/{name}.xml"

    def content(self, row: CachedUrl) -> str:
        """The URL of the content of a row."""
        return f"{self.url}content/{row.key.hex()}"


def description_url(url: str) -> str:
    """The URL of the source description."""
    return f"{url}{WELL_KNOWN}/{FOLDER}"


def description(url: str, pids: Iterable[int]) -> bytes:
    """The source description: a capability list for each of these providers."""
    lists = [_entry(Source(url, pid).document(CAPABILITIES), {"capability": CAPABILITIES}) for pid in pids]
    return _begin("urlset", "", {"capability": "description"}) + _rows(lists) + _end("urlset")


def capability_list(source: Source) -> bytes:
    """What there is of a provider."""
    lists = [_entry(source.document(name), {"capability": name}) for name in (RESOURCES, CHANGES)]
    begin = _begin("urlset", description_url(source.url), {"capability": CAPABILITIES})
    return begin + _rows(lists) + _end("urlset")


# What is there.


def resource_list(txn: Txn, source: Source, each: int = RESOURCES_EACH) -> Piece:
    """All that is cached of a provider, or an index of it.

    :param each: so many rows are a part.
    """
    at = last_change_time(txn)
    files = int(txn.value("SELECT files_used FROM pstats WHERE pid = ?", [source.pid], 0))
    count = min(-(-files // each), PARTS_MAX)
    if count <= 1:
        return resource_part(txn, source, at, 1, 0)
    parts = [_entry(source.document(f"{RESOURCES}/{at}-{count}-{part:05}"), {}, "sitemap") for part in range(count)]
    begin = _begin("sitemapindex", source.document(CAPABILITIES), {"capability": RESOURCES, "at": utc(at)})
    return Piece(begin + _rows(parts) + _end("sitemapindex"))


def resource_part(txn: Txn, source: Source, at: int, count: int, part: int) -> Piece:
    """A part of it.

    :param at: the time of the list.
    :param count: of parts; this one is ``part``, from 0.
    """
    first, last = (int.from_bytes(key, "big") for key in provider_range(source.pid))
    size = last - first + 1
    low, high = (
        (first + size * number // count).to_bytes(len(provider_range(source.pid)[0]), "big")
        for number in (part, part + 1)
    )
    up = source.document(CAPABILITIES)
    index = source.document(RESOURCES) if count > 1 else ""
    head = _begin("urlset", up, {"capability": RESOURCES, "at": utc(at)}, index)
    piece = _resources(source, at, high, low, txn)
    return attrs.evolve(piece, data=head + piece.data)


def _resources(source: Source, at: int, high: bytes, after: bytes, txn: Txn) -> Piece:
    page = page_by_key(txn, Selection(frozenset([source.pid])), after)
    rows = [row for row in page.rows if row.key <= high]
    data = _rows(_resource(source, row, at) for row in rows if row.fetched_fileid is not None)
    if page.after is None or page.after >= high:
        return Piece(data + _end("urlset"))
    return Piece(data, partial(_resources, source, at, high, page.after), anywhere=True)


def _resource(source: Source, row: CachedUrl, at: int) -> str:
    return _entry(source.content(row), _content(row), time=min(row.change_time, at), via=_via(row))


# What has changed.


def change_list(txn: Txn, source: Source, each: int = CHANGES_EACH) -> Piece:
    """All that is known to have changed of a provider, in order, each URL once; or an index of it, if the provider
    has many URLs: there are clients that cannot read one.

    :param each: so many rows are a list, so many change numbers a part.
    """
    last, first = last_change(txn), forgotten_upto(txn)
    numbers = changes_of(txn, source.pid, first, each)
    if numbers is not None:
        head = _changes_head(txn, source, first)
        piece = _numbered(source, numbers, 0, txn)
        return attrs.evolve(piece, data=head + piece.data)
    first, epoch = max(first, last - CHANGES_MAX), database_epoch(txn)
    ends = [*range(first, last, each), last]
    times = [change_time_after(txn, number) for number in ends]
    parts = []
    for place in range(len(ends) - 1):
        between = {"from": utc(times[place]), "until": utc(times[place + 1])}
        if ends[place + 1] == last:
            del between["until"]
        name = f"{CHANGES}/{ends[place]:019}-{ends[place + 1]:019}-{epoch}"
        parts.append(_entry(source.document(name), between, "sitemap"))
    begin = _begin("sitemapindex", source.document(CAPABILITIES), {"capability": CHANGES, "from": utc(times[0])})
    return Piece(begin + _rows(parts) + _end("sitemapindex"))


def change_part(txn: Txn, source: Source, first: int, last: int) -> Piece:
    """The changes with numbers above the first of these, up to the last."""
    head = _changes_head(txn, source, first, source.document(CHANGES))
    piece = _changes(source, min(last, last_change(txn)), first, txn)
    return attrs.evolve(piece, data=head + piece.data)


def _changes_head(txn: Txn, source: Source, first: int, index: str = "") -> bytes:
    since = {"capability": CHANGES, "from": utc(change_time_after(txn, first))}
    return _begin("urlset", source.document(CAPABILITIES), since, index)


def _numbered(source: Source, numbers: list[int], begin: int, txn: Txn) -> Piece:
    # What has changed once more meanwhile, or moved, is not among them: it belongs to the next list.
    end = begin + EXAMINED_ROWS
    data = _change_rows(source, rows_of_changes(txn, source.pid, numbers[begin:end]))
    if end >= len(numbers):
        return Piece(data + _end("urlset"))
    return Piece(data, partial(_numbered, source, numbers, end))


def _changes(source: Source, last: int, after: int, txn: Txn) -> Piece:
    page = page_by_change(txn, Selection(frozenset([source.pid])), after, max(last, after))
    data = _change_rows(source, page.rows)
    if not page.more:
        return Piece(data + _end("urlset"))
    return Piece(data, partial(_changes, source, last, page.after))


def _change_rows(source: Source, rows: Iterable[CachedUrl]) -> bytes:
    return _rows(_change(source, row) for row in rows if row.state != CACHED or row.fetched_fileid is not None)


def _change(source: Source, row: CachedUrl) -> str:
    # Whether it is new is not known, nor does it matter to who has it or not.
    said = {"change": "updated" if row.state == CACHED else "deleted", "datetime": utc(row.change_time)}
    if row.state == CACHED:
        said |= _content(row)
    return _entry(source.content(row), said, time=row.change_time, via=_via(row))


# As XML.


def utc(time: int) -> str:
    """A time as in these documents."""
    return iso_utc(max(time, 0))


def _content(row: CachedUrl) -> dict[str, str]:
    said = {"hash": f"md5:{row.md5}", "length": str(row.length or 0), "type": row.mimetype}
    return {name: value for name, value in said.items() if value and value != "md5:"}


def _via(row: CachedUrl) -> dict[str, str]:
    link = {"rel": "via", "href": row.furl or row.curl}
    return link | {"modified": utc(row.mtime)} if row.mtime is not None else link


def _begin(root: str, up: str, said: dict[str, str], index: str = "") -> bytes:
    links = [("up", up), ("index", index)]
    lines = "".join(f"<rs:ln{attributes({'rel': rel, 'href': href})}/>\n" for rel, href in links if href)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{_SITEMAPS}" xmlns:rs="{_TERMS}">\n'
        f"{lines}<rs:md{attributes(said)}/>\n"
    ).encode("utf-8", "replace")


def _entry(
    loc: str, said: dict[str, str], element: str = "url", time: int | None = None, via: dict[str, str] | None = None
) -> str:
    lastmod = "" if time is None else f"<lastmod>{utc(time)}</lastmod>"
    more = f"<rs:md{attributes(said)}/>" if said else ""
    link = f"<rs:ln{attributes(via)}/>" if via else ""
    return f"<{element}><loc>{escape(loc)}</loc>{lastmod}{more}{link}</{element}>\n"


def _rows(entries: Iterable[str]) -> bytes:
    return "".join(entries).encode("utf-8", "replace")


def _end(root: str) -> bytes:
    return f"</{root}>\n".encode()
