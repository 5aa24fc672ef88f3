"""Links of XML: RSS, Atom, RSS 1.0, sitemaps and their indexes, OPML; and of XHTML that calls itself XML.

What a document is, its root says, whatever its type; of others nothing is read.  It is parsed without a tree, and
refused if it is made to explode.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree
from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.domain.links import Base
from lcc.errors import UrlError
from lcc.feeds.bombs import refuse_bombs
from lcc.feeds.encodings import legal_references, to_utf8
from lcc.feeds.faults import FeedFault
from lcc.feeds.sitemaps import INDEX, SITEMAP, SitemapReader, root_of_xml
from lcc.interfaces import ILinkExtractor
from lcc.spider.extractors.found import Found
from lcc.spider.extractors.html import PIECE_BYTES, HtmlExtractor

TEXT_CHARS_MAX = 8192
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_ROOTS = {
    "rss": "feed",
    "RDF": "feed",
    "feed": "feed",
    "opml": "opml",
    "html": "html",
}
_ITEMS = frozenset({"item", "entry", "channel", "feed"})
_TEXTS = frozenset({"link", "guid", "title"})

Attributes = Mapping[Any, Any]


@implementer(IPlugin, ILinkExtractor)
class XmlExtractor:
    """Finds the links of feeds, sitemaps and OPML."""

    name = "xml"
    mimetypes = (
        *("application/rss+xml", "application/atom+xml", "application/rdf+xml", "text/x-opml", "text/xml"),
        *("application/xml", "application/x-rss+xml", "text/rss+xml", "application/opml+xml"),
    )

    def extract(self, content: bytes, found: Found) -> None:
        """As :meth:`lcc.interfaces.ILinkExtractor.extract`."""
        document = found.document
        if not document.whole:
            content = content[: content.rfind(b">") + 1]
        # Without its charset the type is told as one whose documents say theirs.
        told = f"{document.mimetype}; charset={document.charset}" if document.charset else "application/xml"
        # lxml recovers from references to halves of characters, but cannot decode what it makes of them.
        data = legal_references(to_utf8(content, told)[0])
        try:
            refuse_bombs(data)
        except FeedFault as error:
            found.fault(str(error))
            return
        root = root_of_xml(data[:PIECE_BYTES], "utf-8")
        if root in (SITEMAP, INDEX):
            _sitemap(data, "sitemap" if root == INDEX else "", found)
            return
        target = _Target(found)
        parser = etree.XMLParser(
            target=target, encoding="utf-8", recover=True, resolve_entities=False, no_network=True
        )
        try:
            for start in range(0, len(data), PIECE_BYTES):
                parser.feed(data[start : start + PIECE_BYTES])
                if target.kind in ("", "html"):
                    break
            if target.kind not in ("", "html"):
                parser.close()
        except etree.XMLSyntaxError as error:
            found.fault(f"no well-formed XML: {error.msg}")
        if target.kind == "html":
            HtmlExtractor().extract(content, found)
        elif not target.kind:
            found.fault(f"XML with the root <{target.root[:40]}>, which is no feed and no sitemap")


@implementer(IPlugin, ILinkExtractor)
class GzipExtractor:
    """Unpacks a sitemap, as ``sitemap.xml.gz`` is served."""

    name = "gzip"
    mimetypes = ("application/gzip", "application/x-gzip")

    def extract(self, content: bytes, found: Found) -> None:
        """As :meth:`lcc.interfaces.ILinkExtractor.extract`."""
        opener = zlib.decompressobj(zlib.MAX_WBITS + 16)
        try:
            data = opener.decompress(content, found.limits.document_bytes)
        except zlib.error as error:
            found.fault(f"damaged gzip: {error}")
            return
        if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
            if not opener.eof:
                found.truncated = True
                data = data[: data.rfind(b">") + 1]
            XmlExtractor().extract(data, found)


def _sitemap(data: bytes, rel: str, found: Found) -> None:
    """The links of a sitemap, as far as it can be read.

    :param rel: of those that it lists.
    """
    reader = SitemapReader("utf-8", recover=True)
    try:
        for start in range(0, len(data), PIECE_BYTES):
            for loc, _, links, _ in reader.feed(data[start : start + PIECE_BYTES]):
                if loc:
                    found.link(loc, "", rel, "sitemap")
                for href, said in links:
                    found.link(href, "", said, "sitemap")
        reader.close()
    except FeedFault as error:
        found.fault(str(error))


class _Target:
    """Hands links to ``found``, those of an item with its title when it ends.

    :ivar kind: what the root says; empty: nothing that has links.
    """

    def __init__(self, found: Found) -> None:
        self._found = found
        self.kind = "?"
        self.root = ""
        self._bases: list[str] = [found.document.url]
        self._pending: list[tuple[str, str]] = []
        self._title = ""
        self._text: list[str] | None = None
        self._permalink = True
        self._chars = 0

    def start(self, tag: Any, attrib: Attributes) -> None:
        name = tag.rpartition("}")[2] if isinstance(tag, str) else ""
        if self.kind == "?":
            self.root = name
            self.kind = _ROOTS.get(name, "")
        self._enter(attrib)
        handler = _HANDLERS.get((self.kind, name))
        if handler is not None:
            handler(self, attrib)
        if name in _ITEMS:
            self._flush()
        self._text = [] if name in _TEXTS else None
        self._chars = 0

    def end(self, tag: Any) -> None:
        name = tag.rpartition("}")[2] if isinstance(tag, str) else ""
        text = "".join(self._text).strip() if self._text is not None else ""
        self._text = None
        if text:
            if name == "title":
                self._title = self._title or text
            elif self.kind == "feed" and (name == "link" or (name == "guid" and self._permalink and "://" in text)):
                self._add(text, "")
        if name in _ITEMS:
            self._flush()
        if len(self._bases) > 1:
            self._bases.pop()

    def data(self, data: Any) -> None:
        if self._text is not None and self._chars < TEXT_CHARS_MAX:
            self._chars += len(data)
            self._text.append(data[:TEXT_CHARS_MAX])

    def comment(self, text: Any) -> None:
        """No links in comments."""

    def pi(self, target: Any, data: Any = None) -> None:
        """Nor in instructions."""

    def close(self) -> None:
        self._flush()

    def _enter(self, attrib: Attributes) -> None:
        """Each element has a base: its own, or that of the one around it."""
        base = attrib.get(_XML_BASE)
        if base:
            try:
                self._bases.append(Base(self._bases[-1]).resolve(base) or self._bases[-1])
                return
            except UrlError as error:
                self._found.fault(f"xml:base: {error.text}")
        self._bases.append(self._bases[-1])

    def _link(self, attrib: Attributes) -> None:
        if attrib.get("href"):
            self._add(attrib["href"], attrib.get("rel") or "")

    def _enclosure(self, attrib: Attributes) -> None:
        self._add(attrib.get("url") or "", "enclosure")

    def _content(self, attrib: Attributes) -> None:
        self._add(attrib.get("src") or "", "")

    def _guid(self, attrib: Attributes) -> None:
        self._permalink = (attrib.get("isPermaLink") or "true").strip().lower() == "true"

    def _outline(self, attrib: Attributes) -> None:
        self._title = attrib.get("title") or attrib.get("text") or ""
        self._add(attrib.get("xmlUrl") or "", "alternate")
        self._add(attrib.get("htmlUrl") or attrib.get("url") or "", "")
        self._flush()

    def _add(self, reference: str, rel: str) -> None:
        if not reference:
            return
        base = self._bases[-1]
        if base != self._found.document.url:
            try:
                reference = Base(base).resolve(reference)
            except UrlError:
                pass  # found looks at it once more, and tells
        self._pending.append((reference, rel))
        if len(self._pending) > self._found.limits.links:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        title, self._title = self._title, ""
        for reference, rel in pending:
            self._found.link(reference, title, rel, "feed")


_HANDLERS: dict[tuple[str, str], Callable[[_Target, Attributes], None]] = {
    ("feed", "link"): _Target._link,
    ("feed", "enclosure"): _Target._enclosure,
    ("feed", "content"): _Target._content,
    ("feed", "guid"): _Target._guid,
    ("opml", "outline"): _Target._outline,
}
