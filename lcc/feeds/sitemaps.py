"""Sitemaps (sitemaps.org): XML, their indexes, plain text, feeds, each maybe in gzip; read piece by piece, without a
tree.  Documents of ResourceSync (ANSI/NISO Z39.99-2017) are sitemaps that say more.  A feed is read as a list of
changes: it has the newest pages only.

What is not well-formed lists nothing for certain: it is refused as a whole, unless ``recover`` says that links are
all that is wanted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from lxml import etree

from lcc.feeds.bombs import refuse_bombs
from lcc.feeds.faults import FeedFault

SITEMAP, INDEX, TEXT = "urlset", "sitemapindex", "text"
"""What a document is; those of XML have a root of this name."""
DESCRIPTION, CAPABILITIES, CHANGES = "description", "capabilitylist", "changelist"
"""The same of documents of ResourceSync; a resource list is a sitemap, or an index."""
RANKS = {DESCRIPTION: 1, CAPABILITIES: 2, INDEX: 3}
"""Of documents that list documents: only of higher ranks."""
RANK_MAX = 4
"""Of all others."""
DOCUMENT_BYTES_MAX = 100 << 20
"""Unpacked; sitemaps.org allows 50 MiB."""
ENTRY_BYTES_MAX = 1 << 20
"""Of the document, from the end of one entry to the end of the next; a root has to begin within it."""
LINE_BYTES_MAX = 1 << 16
"""Of a sitemap in plain text."""
PIECE_BYTES = 1 << 16
_ROOT_PIECE_BYTES = 512
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_ENTRIES = ("{*}url", "{*}sitemap")
_FEEDS = ("rss", "feed", "RDF")
_ITEMS = ("{*}item", "{*}entry")
_DATES = ("updated", "modified", "pubDate", "date", "published")
"""Of an item, the first that it has."""
_MD = "{http://www.openarchives.org/rs/terms/}md"
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Entry(NamedTuple):
    """What a document lists.

    :ivar loc: as it is written, without white space around it.
    :ivar lastmod: as it is written; empty: it says none.
    :ivar links: ``href`` and ``rel`` of the links of the entry, as to translations.
    :ivar said: what ResourceSync says of it: ``capability``, ``change``, ``datetime`` …
    """

    loc: str
    lastmod: str = ""
    links: tuple[tuple[str, str], ...] = ()
    said: Mapping[str, str] = _NOTHING


class SitemapReader:
    """Takes the pieces of a document of XML, gives its entries.

    :param encoding: of the document; None: as it says itself.
    :param recover: go on behind what is not well-formed.
    :param is_feed: it is one, and no sitemap.
    """

    def __init__(self, encoding: str | None = None, recover: bool = False, is_feed: bool = False) -> None:
        self._entry: Callable[[Any], Entry] = _item if is_feed else _entry
        tags = _ITEMS if is_feed else _ENTRIES
        self._names = {tag.removeprefix("{*}") for tag in tags}
        # An entity is left as it stands: nothing grows, and nothing is opened.
        self._parser: Any = etree.XMLPullParser(
            events=("end",),
            tag=tags,
            encoding=encoding,
            recover=recover,
            resolve_entities=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        self._without = 0

    def feed(self, piece: bytes) -> Iterator[Entry]:
        """The entries that end in the next piece.

        :raises FeedFault: it is not well-formed, or made to be large.
        """
        try:
            self._parser.feed(piece)
        except etree.XMLSyntaxError as error:
            raise FeedFault(f"no well-formed XML: {error.msg:.300}") from None
        last: Any = None
        for _, element in self._parser.read_events():
            yield self._entry(element)
            element.clear()
            if not self._is_within_another(element):
                last = element
        if last is not None:
            self._without = 0
            _forget_before(last)
            return
        self._without += len(piece)
        if self._without > ENTRY_BYTES_MAX:
            raise FeedFault(f"more than {ENTRY_BYTES_MAX} bytes without an entry")

    def _is_within_another(self, element: Any) -> bool:
        """What stands before it belongs to an entry that is still to be read."""
        parent = element.getparent()
        return parent is not None and _local_name(parent) in self._names

    def close(self) -> None:
        """The document has ended.

        :raises FeedFault: before its end.
        """
        try:
            self._parser.close()
        except etree.XMLSyntaxError as error:
            raise FeedFault(f"no well-formed XML: {error.msg:.300}") from None


def _entry(element: Any) -> Entry:
    loc = lastmod = ""
    links: tuple[tuple[str, str], ...] = ()
    said = _NOTHING
    for child in element:
        tag = child.tag
        if not isinstance(tag, str):
            continue  # an entity
        if tag.endswith("loc") and tag.rpartition("}")[2] == "loc":
            loc = loc or (child.text or "").strip()
        elif tag.endswith("lastmod"):
            lastmod = lastmod or (child.text or "").strip()
        elif tag.endswith("}link") and child.get("href"):
            links += ((child.get("href"), child.get("rel") or ""),)
        elif tag == _MD:
            said = dict(child.attrib)
    return Entry(loc, lastmod, links, said)


def _item(element: Any) -> Entry:
    loc = ""
    dates: dict[str, str] = {}
    for child in element:
        name = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        text = (child.text or "").strip()
        if name == "link" and child.get("rel", "alternate") == "alternate":
            loc = loc or text or child.get("href", "").strip()
        elif name in _DATES and text:
            dates.setdefault(name, text)
    time = _iso_time(next((dates[name] for name in _DATES if name in dates), ""))
    return Entry(loc, time, (), {"change": "updated", "datetime": time or "-"})


def _iso_time(text: str) -> str:
    """A date of RSS as sitemaps write it; others as they are."""
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, OverflowError):
        return text


def _forget_before(element: Any) -> None:
    """Elements that have ended are needed no longer; the one that is open now is behind these."""
    parent = element.getparent()
    if parent is not None:
        del parent[: parent.index(element)]


def root_of_xml(head: bytes, encoding: str | None = None) -> str:
    """The name of the root of a document, without its prefix; empty: it has none in its beginning."""
    parser: Any = etree.XMLPullParser(
        events=("start",), encoding=encoding, recover=True, resolve_entities=False, no_network=True
    )
    for start in range(0, len(head), _ROOT_PIECE_BYTES):
        parser.feed(head[start : start + _ROOT_PIECE_BYTES])
        for _, element in parser.read_events():
            return _local_name(element)
    return ""


def _local_name(element: Any) -> str:
    """Without its namespace; empty: it is no Unicode, which lxml recovers from, but cannot tell."""
    try:
        return str(element.tag).rpartition("}")[2]
    except UnicodeDecodeError:
        return ""


def capability_of_xml(head: bytes) -> str:
    """What ResourceSync says that a document is; empty: nothing before its first entry."""
    parser: Any = etree.XMLPullParser(events=("start",), recover=True, resolve_entities=False, no_network=True)
    for start in range(0, len(head), _ROOT_PIECE_BYTES):
        parser.feed(head[start : start + _ROOT_PIECE_BYTES])
        for _, element in parser.read_events():
            name = _local_name(element)
            if name == "md" and element.tag == _MD:
                try:
                    return str(element.get("capability") or "")
                except UnicodeDecodeError:
                    return ""  # half a character: what reads the entries refuses the document
            if name in ("url", "sitemap"):
                return ""
    return ""


class SitemapDocument:
    """A document, read once.

    :param source: as it was fetched; gzip or not.
    :ivar kind: :data:`SITEMAP`, :data:`INDEX` or :data:`TEXT`; or of ResourceSync.
    :raises FeedFault: it is none of them, or made to be large.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._pieces = _unpacked(source)
        self._head = b""
        for piece in self._pieces:
            self._head += piece
            if len(self._head) >= ENTRY_BYTES_MAX:
                break
        text = self._head
        for bom in _BOMS:
            text = text.removeprefix(bom)
        if not text.strip():
            raise FeedFault("the document is empty")
        if not text.lstrip().startswith((b"<", b"\0<", b"<\0")):
            self.kind = TEXT
            return
        refuse_bombs(self._head)
        self.kind = root_of_xml(self._head)
        self._is_feed = self.kind in _FEEDS
        if self._is_feed:
            self.kind = CHANGES
            return
        if self.kind not in (SITEMAP, INDEX):
            what = f"the root <{self.kind[:40]}>" if self.kind else "no root"
            raise FeedFault(f"a document with {what} is no sitemap: <urlset>, <sitemapindex>, a feed or text is one")
        capability = capability_of_xml(self._head)
        if self.kind == SITEMAP and capability in (DESCRIPTION, CAPABILITIES, CHANGES):
            self.kind = capability
        elif capability not in ("", "resourcelist", CHANGES):
            raise FeedFault(f"a document of ResourceSync with the capability {capability[:40]!r} is not read")

    def entries(self) -> Iterator[Entry]:
        """What it lists, in order.

        :raises FeedFault: it cannot be read to its end.
        """
        return self._lines() if self.kind == TEXT else self._elements()

    def _rest(self) -> Iterator[bytes]:
        head, self._head = self._head, b""
        for start in range(0, len(head), PIECE_BYTES):
            yield head[start : start + PIECE_BYTES]
        yield from self._pieces

    def _elements(self) -> Iterator[Entry]:
        reader = SitemapReader(is_feed=self._is_feed)
        for piece in self._rest():
            yield from reader.feed(piece)
        reader.close()

    def _lines(self) -> Iterator[Entry]:
        kept = b""
        for piece in self._rest():
            *lines, kept = (kept + piece).splitlines(keepends=True) or [b""]
            if kept.endswith((b"\n", b"\r")):
                lines.append(kept)
                kept = b""
            if len(kept) > LINE_BYTES_MAX:
                raise FeedFault(f"a line of more than {LINE_BYTES_MAX} bytes")
            yield from _line_entries(lines)
        yield from _line_entries([kept])


def _line_entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    for line in lines:
        text = line.decode("utf-8-sig", "replace").strip()
        if text:
            yield Entry(text)


def _unpacked(source: BinaryIO) -> Iterator[bytes]:
    """Its pieces, of gzip unpacked.

    :raises FeedFault: it is damaged, or longer than may be.
    """
    size = 0
    for piece in _gunzipped(source) if _is_gzip(source) else iter(lambda: source.read(PIECE_BYTES), b""):
        size += len(piece)
        if size > DOCUMENT_BYTES_MAX:
            raise FeedFault(
                f"the document has more than {DOCUMENT_BYTES_MAX} bytes, unpacked; Next: ask its site to split it"
            )
        yield piece


def _is_gzip(source: BinaryIO) -> bool:
    start = source.read(2)
    source.seek(0)
    return start == b"\x1f\x8b"


def _gunzipped(source: BinaryIO) -> Iterator[bytes]:
    opener = zlib.decompressobj(zlib.MAX_WBITS + 16)
    data = source.read(PIECE_BYTES)
    try:
        while data:
            piece = opener.decompress(data, PIECE_BYTES)
            if piece:
                yield piece
            data = opener.unconsumed_tail
            if opener.eof:
                data = opener.unused_data or source.read(PIECE_BYTES)
                if not data.strip(b"\0"):
                    return
                opener = zlib.decompressobj(zlib.MAX_WBITS + 16)
            else:
                data = data or source.read(PIECE_BYTES)
    except zlib.error as error:
        raise FeedFault(f"damaged gzip: {error}") from None
    if not opener.eof:
        raise FeedFault("damaged gzip: it ends early")
