"""Which feeds a web page names (``<link rel="alternate">``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lcc.feeds.encodings import to_utf8
from lcc.feeds.parsing import absolute
from lcc.feeds.words import tidy_line

FEED_TYPES = {
    "application/rss+xml": "RSS",
    "application/atom+xml": "Atom",
    "application/feed+json": "JSON Feed",
    "application/rdf+xml": "RSS 1.0",
}
"""Types of feeds that pages name, and what people call them."""
FOUND_MAX = 100
_PIECE_BYTES = 1 << 16
_URL_CHARS_MAX = 4000


class FoundFeed(NamedTuple):
    """A feed that a page names."""

    url: str
    kind: str
    title: str


class _Target:
    def __init__(self, base: str) -> None:
        self.base = base
        self.found: dict[str, FoundFeed] = {}

    def start(self, tag: Any, attrib: Mapping[Any, Any]) -> None:
        if tag == "base" and attrib.get("href"):
            self.base = absolute(self.base, tidy_line(attrib["href"], _URL_CHARS_MAX)) or self.base
        if tag not in ("link", "a") or len(self.found) >= FOUND_MAX:
            return
        kind = FEED_TYPES.get((attrib.get("type") or "").partition(";")[0].strip().lower())
        relations = (attrib.get("rel") or "").lower().split()
        url = absolute(self.base, tidy_line(attrib.get("href"), _URL_CHARS_MAX))
        if kind and url.startswith(("http://", "https://")) and ("alternate" in relations or tag == "a"):
            self.found.setdefault(url, FoundFeed(url, kind, tidy_line(attrib.get("title"), 200)))

    def end(self, tag: Any) -> None:
        """Nothing."""

    def data(self, data: Any) -> None:
        """Nothing."""

    def comment(self, text: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        return None


def feeds_named(data: bytes, content_type: str, url: str) -> list[FoundFeed]:
    """The feeds that a page names, in its order.

    :param url: of the page, after redirects.
    """
    from lxml import etree

    target = _Target(url)
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True)
    text = to_utf8(data, content_type)[0]
    try:
        for start in range(0, len(text), _PIECE_BYTES):
            parser.feed(text[start : start + _PIECE_BYTES])
        if text.strip():
            parser.close()
    except etree.XMLSyntaxError:
        pass  # what was read is kept
    return list(target.found.values())
