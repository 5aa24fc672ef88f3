"""What sites say that do not notify: feeds, sitemaps, ResourceSync, robots.txt, links, lists of feeds."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from math import isfinite
from random import Random

from lcc.domain.fetches import robots_rules
from lcc.domain.fetches.hours import parse_hours
from lcc.domain.fetches.robots_rules import (
    RULES,
    crawl_delay_seconds,
    is_allowed,
    sitemaps_named,
    visit_hours,
    visit_time,
)
from lcc.domain.links import Base
from lcc.domain.urls import URL_CHARS, normalise
from lcc.errors import UrlError
from lcc.feeds.discovery import FOUND_MAX, feeds_named
from lcc.feeds.encodings import to_utf8
from lcc.feeds.faults import FeedFault
from lcc.feeds.jsonfeed import looks_like_json, parse_json_feed
from lcc.feeds.parsing import PARTS_MAX, ParseLimits, parse_feed, require_feed
from lcc.feeds.sitemaps import Entry, SitemapDocument, SitemapReader
from lcc.model.feeds import ParsedFeed
from lcc.model.spider.links import ExtractionLimits
from lcc.protocols.opml import OpmlError, read_opml, write_opml
from lcc.search.texts import read_text
from lcc.spider.extractors.extraction import Extraction
from lcc.spider.extractors.found import Document
from lcc.spider.extractors.registry import extractors_by_type
from tests.fuzz.mutation import TOKENS
from tests.fuzz.target import check, joined
from tests.fuzz.target_document import DocumentTarget, check_texts

BASE = "http://site.example/a/b?c=d"
_TYPES = (
    "",
    "application/rss+xml",
    "text/xml; charset=us-ascii",
    "text/html; charset=utf-16",
    "application/xml; charset=utf-8",
    "text/html; charset=windows-1252",
    "text/html; charset=utf-7",
    "text/plain; charset=base64",
    "a;charset=\0",
    "application/json",
)

MARKUP_TOKENS = (
    *TOKENS,
    b"<link>",
    b"<item>",
    b"<entry>",
    b"</item>",
    b"<title>",
    b"<url><loc>",
    b"<script>",
    b"<base href='//x'>",
    b"<a href='",
    b"<meta charset=utf-16>",
    b"<meta name=robots content=none>",
    b"<plaintext>",
    b"<table><table>",
    b"</p></p>",
    b"&#xD83D;&#xDE00;",
    b"&#xDE00;",
    b"\xed\xa0\xbd",
    b'"\\ud83d"',
    b"{" * 50,
    b"[" * 50,
    b"\\u0000",
    b"null",
    b"1e999",
    b"-Infinity",
    b"Thu, 99 Foo 99999 99:99:99 +9999",
    b"0000-00-00T24:61:61+99:99",
    b"9999-12-31T23:59:59-23:59",
    b"<georss:point>1e999 nan</georss:point>",
    b"http://[::1",
    b"http://a@b:99999999/",
    b"http://x/%zz%",
    b"data:text/html;base64,AAAA",
)

RSS = b"""<?xml version="1.0"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"
 xmlns:media="http://search.yahoo.com/mrss/" xmlns:georss="http://www.georss.org/georss"><channel><title>t</title>
<link>http://site.example/</link><ttl>60</ttl><skipHours><hour>3</hour></skipHours><skipDays><day>Monday</day></skipDays>
<item><title>a &lt;b&gt;</title><link>/1</link><guid isPermaLink="false">1</guid><author>a@b (c)</author>
<pubDate>Thu, 01 Jan 2026 01:00:00 +0100</pubDate><enclosure url="/x.mp3" length="12" type="audio/mpeg"/>
<content:encoded><![CDATA[<p>text <a href="y">y</a></p>]]></content:encoded><category domain="d">c</category>
<media:content url="m" fileSize="7"/><georss:point>45.2 -71.9</georss:point></item>
<item><title>b</title><link>/2</link></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en" xml:base="http://site.example/"><title>t</title>
<link rel="hub" href="http://hub.example/"/><link rel="self" href="feed"/><updated>2026-01-01T00:00:00Z</updated>
<entry><id>urn:1</id><title type="html">&lt;b&gt;x</title><link href="1"/><link rel="enclosure" href="e" length="9"/>
<published>2026-01-01T00:00:00Z</published><author><name>n</name><email>e@x</email></author>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>text</p></div></content></entry></feed>"""
RDF = b"""<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><link>http://site.example/</link></channel>
<item><link>http://site.example/1</link><dc:date>2026-01-01</dc:date></item></r:RDF>"""
JSON_FEED = b"""{"version": "https://jsonfeed.org/version/1.1", "title": "t", "home_page_url": "http://site.example/",
"hubs": [{"type": "WebSub", "url": "http://hub.example/"}], "items": [{"id": 1, "url": "/1", "content_html": "<p>x",
"date_published": "2026-01-01T00:00:00Z", "authors": [{"name": "n", "url": "u"}], "tags": ["a", 3],
"attachments": [{"url": "a", "mime_type": "b/c", "size_in_bytes": 7}]}, {"id": "2", "content_text": "y \\ud83d"}]}"""
URLSET = b"""<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
xmlns:xhtml="http://www.w3.org/1999/xhtml"><url><loc>http://site.example/1</loc><lastmod>2026-01-01</lastmod>
<xhtml:link rel="alternate" href="http://site.example/de"/></url><url><loc><![CDATA[http://site.example/2]]></loc></url>
</urlset>"""
INDEX = b"""<sitemapindex><sitemap><loc>http://site.example/s1.xml.gz</loc></sitemap><sitemap><loc>http://site.example/2
</loc><lastmod>x</lastmod></sitemap></sitemapindex>"""
CHANGES = b"""<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="http://site.example/c.xml"/><rs:md capability="changelist" from="2026-01-01T00:00:00Z"/>
<url><loc>http://site.example/1</loc>
<rs:md change="deleted" datetime="2026-01-02T00:00:00Z" hash="md5:0" length="3"/></url>
</urlset>"""
DESCRIPTION = b"""<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="description"/><url>
<loc>http://site.example/cap.xml</loc><rs:md capability="capabilitylist"/></url></urlset>"""
HTML = b"""<!DOCTYPE html><html lang=en><head><title>t</title><base href="/b/">
<meta http-equiv=refresh content="5; url='/r'">
<meta name=robots content="noindex, nofollow"><link rel="alternate" type="application/rss+xml" href="/feed" title=f>
</head><body><a href="1" rel="nofollow ugc">one <img src=i.png srcset="a 1x, b 2x," alt=p></a><a href='?q=\xe9'>q</a>
<area href="//other.example/x"><iframe src="javascript:x"></iframe><p>text</p><pre>x</pre></body></html>"""
OPML = b"""<?xml version="1.0"?><opml version="2.0"><head><title>t</title></head><body><outline text="folder">
<outline text="a" type="rss" xmlUrl="http://site.example/a" htmlUrl="http://site.example/"/></outline></body></opml>"""
ROBOTS = b"""User-agent: *\nDisallow: /private/*.html$\nAllow: /private/open\nCrawl-delay: 2.5\n\nUser-agent: lcc/1.0
Request-rate: 1/10s\nVisit-time: 0600-0845\nDisallow: /x%20y\n\nSitemap: http://site.example/sitemap.xml\n"""


class Feeds(DocumentTarget):
    """RSS, Atom, RDF, JSON Feed."""

    name = "feeds"
    tokens = MARKUP_TOKENS

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [RSS, ATOM, RDF, JSON_FEED, RSS.replace(b"\n", b"").decode().encode("utf-16"), HTML]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        limits = random.choice((ParseLimits(), ParseLimits(items_max=1, line_chars_max=20, body_chars_max=30)))
        text = to_utf8(data, random.choice(_TYPES))[0]
        text.decode()
        try:
            parsed = require_feed(_parsed(text, limits), text)
        except FeedFault as error:
            check(len(str(error)) < 1000, f"{len(str(error))} characters about a fault")
            return
        check_texts(parsed)
        check(len(parsed.items) <= limits.items_max, "too many items")
        for item in parsed.items:
            for line in (item.id, item.link, item.title, item.language):
                check(
                    len(line) <= limits.line_chars_max + len(BASE) and "\n" not in line,
                    f"no line: {line[:50]!r}, {len(line)}",
                )
            check(len(item.content.value) <= 2 * limits.body_chars_max + 1000, "too long a content")
            check(max(map(len, (item.authors, item.categories, item.links))) <= PARTS_MAX + 4, "too many parts")
            check(min(item.published or 0, item.updated or 0) >= 0, "a time before 1970")

    def honest(self) -> None:
        for document, count in ((RSS, 2), (ATOM, 1), (RDF, 1), (JSON_FEED, 2)):
            found = len(_parsed(document, ParseLimits()).items)
            check(found == count, f"{found} items instead of {count}")


def _parsed(text: bytes, limits: ParseLimits) -> ParsedFeed:
    reader = parse_json_feed if looks_like_json(text) else parse_feed
    return reader(text, BASE, limits)


class Sitemaps(DocumentTarget):
    """Sitemaps, their indexes, lists of URLs, feeds as sitemaps; in gzip or not."""

    name = "sitemaps"
    tokens = MARKUP_TOKENS
    documents: tuple[bytes, ...] = (URLSET, INDEX, b"http://site.example/1\r\nhttp://site.example/2\n", ATOM, RSS)

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [*cls.documents, gzip.compress(URLSET, mtime=0), URLSET.decode().encode("utf-16")]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        if random.random() < 0.2 and len(data) < 20_000:
            data = gzip.compress(data, mtime=0) if random.random() < 0.5 else gzip.compress(data, mtime=0)[:-5]
        try:
            document = SitemapDocument(io.BytesIO(data))
            for entry in document.entries():
                check_texts(entry)
                check(entry.loc == entry.loc.strip(), "white space around a URL")
        except FeedFault as error:
            check(len(str(error)) < 1000, f"{len(str(error))} characters about a fault")
        # However it is cut, the same is read of it.
        if len(pieces) < 2000 and data[:2] != b"\x1f\x8b":
            whole, fault = _entries([joined(pieces)])
            cut, other = _entries(pieces)
            shorter = min(len(whole), len(cut))
            check(whole[:shorter] == cut[:shorter], "the cuts change what is listed")
            if not fault and not other:
                check(len(whole) == len(cut), "the cuts change how much is listed")

    def honest(self) -> None:
        counts = [len(list(SitemapDocument(io.BytesIO(each)).entries())) for each in self.documents]
        check(all(counts), f"entries: {counts}")


def _entries(pieces: Sequence[bytes]) -> tuple[list[Entry], str]:
    reader = SitemapReader()
    found: list[Entry] = []
    try:
        for piece in pieces:
            found += reader.feed(piece)
        reader.close()
    except FeedFault as error:
        return found, str(error)
    return found, ""


class ResourceSync(Sitemaps):
    """Documents of ResourceSync."""

    name = "resourcesync"
    share = 2
    documents = (CHANGES, DESCRIPTION, CHANGES.replace(b"changelist", b"resourcelist"))


class RobotsTxt(DocumentTarget):
    """robots.txt."""

    name = "robots.txt"
    tokens = (
        *TOKENS,
        *(b"User-agent: *\n", b"user agent lcc\n", b"Disallow: /\n", b"Allow: *$*\n", b"*" * 50, b"$", b"#", b"\r"),
        *(b"Crawl-delay: 1e400\n", b"Crawl-delay: -1\n", b"Request-rate: 0/0\n", b"Request-rate: 1/0 0900-1000\n"),
        *(b"Visit-time: 2400-9999\n", b"Visit-time: 0-0\n", b"Sitemap:\n", b"Host: x\n", b"\xe2\x80\xa8"),
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        long = b"User-agent: *\n" + b"".join(b"Disallow: /%d/*/x?*\n" % number for number in range(200))
        return [ROBOTS, long, b"\xef\xbb\xbf" + ROBOTS.replace(b"\n", b"\r\n")]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        text = data.decode("utf-8", "replace")
        for url in ("http://site.example/", BASE, "http://site.example/private/x%20y.html?" + "a*b$" * 500):
            check(is_allowed(text, RULES, url) in (True, False), "neither allowed nor not")
        delay = crawl_delay_seconds(text)
        check(isfinite(delay) and delay >= 0, f"a delay of {delay}")
        check_texts(sitemaps_named(text))
        hours = visit_hours(text)
        check(parse_hours(hours) > 0, f"hours {hours!r}")
        check(visit_time(text) == "" or len(visit_time(text)) == 9, f"a time {visit_time(text)!r}")

    def rest(self) -> None:
        # Some are kept parsed, which is no leak; tests/domain/test_robots_rules.py has the bound.
        robots_rules._parsed_short.cache_clear()
        robots_rules._parsed_long.cache_clear()

    def honest(self) -> None:
        rules = ROBOTS.decode()
        check(visit_hours(rules) == "6-8" and crawl_delay_seconds(rules) == 10.0, "its robots.txt is not obeyed")
        check(not is_allowed(rules, RULES, "http://site.example/x%20y"), "what is forbidden is allowed")


class Links(DocumentTarget):
    """Links and texts of pages, whatever their type; feeds that a page names."""

    name = "links"
    share = 6
    tokens = MARKUP_TOKENS
    types = ("text/html", "application/xml", "application/rss+xml", "text/uri-list", "application/gzip")
    headers = (
        (),
        (
            ("Link", '<a>; rel="next"; title="x\\"y", <b>;rel=alternate,<<>'),
            ("X-Robots-Tag", "lcc: noindex, a: none"),
        ),
        (("link", "<" * 3000), ("link", "<a>;" * 3000), ("x-robots-tag", "," * 3000)),
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [
            HTML,
            HTML.decode("latin-1").encode("utf-16"),
            RSS,
            ATOM,
            URLSET,
            INDEX,
            OPML,
            b"# x\nhttp://a/\r\nb\n",
        ]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        kind = random.choice(self.types)
        if kind == "application/gzip":
            data = gzip.compress(data, mtime=0)[: random.choice((None, -3))]
        charset = random.choice(("", "utf-8", "utf-16", "latin-1", "utf-7", "rot13", "\0"))
        whole = random.random() < 0.8
        document = Document(BASE, kind, charset, random.choice(self.headers), data, whole)
        limits = ExtractionLimits(links=random.choice((5, 1000)), text_chars=random.choice((0, 50)), page_chars=1000)
        found = Extraction(extractors_by_type(), limits).links(document)
        check_texts(found)
        check(not any("failed:" in fault for fault in found.faults), f"{found.faults}")
        check(len(found.links) <= limits.links, f"{len(found.links)} links")
        for link in found.links:
            check(len(link.url) <= URL_CHARS and "#" not in link.url, "a URL with a fragment, or too long")
            check(normalise(link.url) == link.url, f"{link.url!r} is not normal")
            check(len(link.text) <= limits.text_chars, "too long a text")
        check_texts(read_text(document._replace(mimetype="text/html"), limits, "lcc"))
        named = feeds_named(data, f"{kind}; charset={charset}", BASE)
        check_texts(named)
        check(len(named) <= FOUND_MAX, f"{len(named)} feeds")

    def honest(self) -> None:
        document = Document(BASE, "text/html", "", (), HTML, True)
        found = Extraction(extractors_by_type(), ExtractionLimits()).links(document)
        check(found.nofollow and "http://site.example/b/1" in [link.url for link in found.links], f"{found}")


class References(DocumentTarget):
    """References of links, one by one."""

    name = "references"
    share = 6

    @classmethod
    def seeds(cls) -> list[bytes]:
        texts = ("../x/./y?z=1#f", "//h.example:80/a", "HTTP:b\\c", "?q=é", "http://u@[::1]:8/%7e%zz/..", "a b\tc")
        return [text.encode() for text in texts]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        reference = data.decode("utf-8", "surrogateescape" if random.random() < 0.2 else "replace")
        base = Base(
            random.choice((BASE, "https://h.example/", "ftp://h.example/a/")), random.choice(("utf-8", "cp1252"))
        )
        try:
            url = base.resolve(reference)
        except UrlError as error:
            check(len(error.text) < 1000, f"{len(error.text)} characters about a fault")
            return
        check(not url or normalise(url) == url, f"{url!r} is not normal")
        check(len(url) <= URL_CHARS and "#" not in url, "a URL with a fragment, or too long")
        check(not url or base.resolve(url) == url, f"{url!r} leads elsewhere from the same base")

    def honest(self) -> None:
        found = Base(BASE).resolve("../x/./y?z=1#f")
        check(found == "http://site.example/x/y?z=1", found)


class FeedLists(DocumentTarget):
    """OPML."""

    name = "opml"
    share = 2
    tokens = MARKUP_TOKENS

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [OPML, OPML.replace(b"outline", b"OUTLINE")]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        try:
            found = read_opml(io.BytesIO(data))
        except OpmlError as error:
            check(len(str(error)) < 1000, f"{len(str(error))} characters about a fault")
            return
        check_texts(found)
        written = "".join(write_opml("t", found)).encode()
        again = read_opml(io.BytesIO(written))
        check(len(again) == len(found), "what was read cannot be written and read again")

    def honest(self) -> None:
        (feed,) = read_opml(io.BytesIO(OPML))
        check(feed.folders == ("folder",) and feed.url == "http://site.example/a", f"{feed}")
