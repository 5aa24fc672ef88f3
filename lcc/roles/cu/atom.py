"""Changes of a selection as an Atom feed (RFC 4287), deletions as RFC 6721 has them.

An entry is a row of the cache; the element ``lcc:url`` in it has all its fields.  The link ``next`` of a document
leads to what changes after it: its address has the token of ``/changes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qsl, urlencode

import attrs

from lcc.domain.times import iso_utc
from lcc.insight.records import CACHED, user_record
from lcc.model import CachedUrl
from lcc.protocols.xmlfeed import NAMESPACE
from lcc.protocols.xmltext import escape
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import Nothing, row_attributes
from lcc.roles.cu.query import Query, QueryError, parse_query

MEDIA_TYPE = "application/atom+xml"
PATH = "atom"
ENTRIES_MAX = 100
_NO_BYTES = Nothing()
_TOMBSTONES = "http://purl.org/atompub/tombstones/1.0"


@attrs.frozen
class Changed:
    """Some changes of a selection.

    :ivar rows: in the order of their changes, at most :data:`ENTRIES_MAX`.
    :ivar token: covers them.
    :ivar more: there may be others.
    :ivar missing: names of sub-LCCs that could not be reached.
    """

    rows: Sequence[CachedUrl]
    token: str
    more: bool
    missing: tuple[str, ...] = ()


def _limited(query: Query) -> Query:
    return attrs.evolve(query, limit=min(query.limit or ENTRIES_MAX, ENTRIES_MAX))


async def changed_lately(cache: Cache, query: Query) -> tuple[Sequence[CachedUrl], str]:
    """What has changed since the query's token, and the token that covers it; the last changes, if it has none.

    :raises TokenError, StartAgain: the token is no good.
    :raises StoreUnavailable: nobody answers.
    """
    if query.since is not None:
        changed = await read_changed(cache, query)
        return changed.rows, changed.token
    changed = await _read(cache, attrs.evolve(query, since=await cache.lately(query), limit=None))
    # Those of several sub-LCCs come one sub-LCC after the other.
    rows = sorted(changed.rows, key=lambda row: row.change_time or row.fetched_time or 0)
    return rows[-ENTRIES_MAX:], changed.token


async def read_changed(cache: Cache, query: Query) -> Changed:
    """What has changed since the query's token.

    :raises TokenError, StartAgain: the token is no good.
    :raises StoreUnavailable: nobody answers.
    """
    return await _read(cache, _limited(query))


async def _read(cache: Cache, query: Query) -> Changed:
    piece = await cache.begin(query, _NO_BYTES)
    rows = list(piece.urls)
    while piece.after is not None:
        piece = await cache.go_on(piece.after, _NO_BYTES)
        rows += piece.urls
    assert piece.token is not None  # it is about changes
    more = query.limit is not None and len(rows) >= query.limit
    return Changed(rows, piece.token, more, piece.missing)


def asked_of(topic: str, url: str) -> Query | None:
    """The question of which this is the Atom feed; None: of none.

    :param url: of this server, with a slash at its end.
    :raises QueryError: it makes no sense.
    """
    address, _, text = topic.partition("?")
    if address != f"{url}{PATH}" or "#" in topic:
        return None
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
    except ValueError:
        raise QueryError(["the query string cannot be read"]) from None
    return feed_query(parse_query(pairs))


def feed_query(query: Query) -> Query:
    """A question about a feed.

    :raises QueryError: feeds are about changes, and those of keys cannot be asked for.
    """
    if query.selection.keys:
        raise QueryError(["key: not in feeds"])
    return query


def address_of(url: str, pairs: Iterable[tuple[str, str]]) -> str:
    """The address of a feed, of the fields of its question; a token is no part of it."""
    query = urlencode([(name, value) for name, value in pairs if name != "since"])
    return f"{url}{PATH}{'?' if query else ''}{query}"


def without_since(topic: str) -> str:
    """The address of the whole feed of which this goes on."""
    address, _, text = topic.partition("?")
    pairs = [pair for pair in text.split("&") if pair and not pair.startswith("since=")]
    return f"{address}{'?' if pairs else ''}{'&'.join(pairs)}"


def link_header(topic: str, hub: str) -> str:
    """The value of ``Link``."""
    return f'<{topic}>; rel="self"' + (f', <{hub}>; rel="hub"' if hub else "")


def atom_document(rows: Sequence[CachedUrl], token: str, topic: str, url: str, hub: str, now: int) -> bytes:
    """The document.

    :param rows: in the order of their changes.
    :param token: covers them.
    :param topic: its address, without a token.
    :param url: of this server, with a slash at its end.
    :param hub: empty: there is none.
    """
    onwards = f"{topic}{'&' if '?' in topic else '?'}{urlencode({'since': token})}"
    links = [("self", topic), ("next", onwards), *([("hub", hub)] if hub else [])]
    newest = max((row.change_time or row.fetched_time or 0 for row in rows), default=0) or now
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<feed xmlns="http://www.w3.org/2005/Atom" xmlns:at="{_TOMBSTONES}" xmlns:lcc="{NAMESPACE}">\n'
        f"<id>{escape(topic)}</id>\n<title>Changes of a Local Content Cache</title>\n"
        f"<author><name>LCC</name></author>\n<updated>{iso_utc(newest)}</updated>\n",
        *(f'<link rel="{rel}" href="{escape(address)}"/>\n' for rel, address in links),
        *(_entry(row, url, now) for row in reversed(rows)),
        "</feed>\n",
    ]
    return "".join(parts).encode("utf-8", "replace")


def _entry(row: CachedUrl, url: str, now: int) -> str:
    ident, record = f"urn:x-lcc:{row.key.hex()}", user_record(row)
    when = iso_utc(row.change_time or row.fetched_time or now)
    fields = f"<lcc:url{row_attributes(record)}/>"
    if row.state != CACHED:
        return f'<at:deleted-entry ref="{ident}" when="{when}">{fields}</at:deleted-entry>\n'
    kind, length = escape(row.mimetype), f' length="{row.length}"' if row.length is not None else ""
    content = f'<link rel="enclosure" type="{kind}"{length} href="{escape(url)}content/{row.key.hex()}"/>'
    page = escape(str(record["burl"] or record["curl"]))
    return (
        f"<entry><id>{ident}</id><title>{escape(row.curl)}</title><updated>{when}</updated>"
        f'<link rel="alternate" href="{page}"/><link rel="via" href="{escape(str(record["furl"]))}"/>'
        f"{content}{fields}</entry>\n"
    )
