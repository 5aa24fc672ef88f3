"""RSS, Atom and CDF: what our values have of feedparser's, limits, and documents made to harm."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lcc.feeds.bombs import refuse_bombs
from lcc.feeds.faults import FeedFault, NotAFeed
from lcc.feeds.parsing import ParseLimits, parse_feed, require_feed
from lcc.model.feeds import Body, Category, Enclosure, FeedLink, ParsedFeed, Person, Place
from tests.feeds.runs import URL, rss, worked

LIMITS = ParseLimits()


def parsed(data: bytes, limits: ParseLimits = LIMITS) -> ParsedFeed:
    return parse_feed(data, URL, limits)


def test_an_item_with_everything() -> None:
    found = parsed(
        rss(
            "<title>One</title><link>/1</link><guid isPermaLink='false'>g1</guid>"
            "<description>see &lt;a href='x'&gt;y&lt;/a&gt;&lt;script&gt;alert(1)&lt;/script&gt;</description>"
            "<author>ann@example.org (Ann)</author><category domain='d'>k</category>"
            "<enclosure url='/e.mp3' length='12' type='audio/mpeg'/>"
            "<media:content url='http://m.example.org/i.jpg' type='image/jpeg' fileSize='5'/>"
            "<pubDate>Fri, 13 Feb 2009 23:31:30 GMT</pubDate><georss:point>45 -71</georss:point>"
            "<comments>c</comments>"
        )
    )
    (item,) = found.items
    assert found.info.kind == "rss20" and found.info.title == "News"
    assert (item.id, item.link, item.title) == ("g1", "http://feeds.example.org/1", "One")
    assert item.summary == Body('see <a href="http://feeds.example.org/news/x">y</a>', "text/html")
    assert item.published == 1234567890 and item.updated is None
    assert item.authors == (Person("Ann", "ann@example.org"),)
    assert item.categories == (Category("k", "d"),)
    assert item.enclosures == (
        Enclosure("http://feeds.example.org/e.mp3", "audio/mpeg", 12),
        Enclosure("http://m.example.org/i.jpg", "image/jpeg", 5),
    )
    assert item.places == (Place("Point", (-71.0, 45.0)),)
    assert item.comments == "http://feeds.example.org/news/c"


def test_an_atom_feed() -> None:
    data = """<?xml version="1.0" encoding="utf-8"?>
      <feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>urn:f</id><updated>2009-02-13T23:31:30Z</updated>
      <link rel="hub" href="http://hub.example.org/"/>
      <entry><id>urn:1</id><title type="html">A &lt;b&gt;b&lt;/b&gt;</title><link href="/1"/>
      <link rel="replies" type="text/html" href="/1/comments" title="R"/><author><name>Ü</name><uri>http://u/</uri></author>
      <updated>2009-02-13T23:31:30Z</updated><summary>short</summary>
      <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>long</p></div></content></entry></feed>"""
    found = parsed(data.encode())
    assert found.info.links == (FeedLink("http://hub.example.org/", "hub", "text/html"),)
    (item,) = found.items
    assert (item.title, item.title_type) == ("A <b>b</b>", "text/html")
    assert item.content == Body("<p>long</p>", "application/xhtml+xml") and item.summary.value == "short"
    assert item.authors == (Person("Ü", "", "http://u/"),)
    assert FeedLink("http://feeds.example.org/1/comments", "replies", "text/html", "R") in item.links


def test_when_a_feed_asks_to_be_read() -> None:
    head = "<ttl>60</ttl><skipHours><hour>1</hour><hour> 23</hour><hour>24</hour><hour>x</hour></skipHours>"
    head += "<skipDays><day>Sunday</day><day>Monday</day><day>Never</day></skipDays>"
    info = parsed(rss("<title>x</title>", head=head)).info
    assert (info.ttl_seconds, info.skip_hours, info.skip_days) == (3600, (0, 1, 23), (0, 6))
    info = parsed(rss(head="<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>")).info
    assert info.ttl_seconds == 43200
    info = parsed(rss(head="<ttl>99999999</ttl>")).info
    assert info.ttl_seconds == 30 * 86400


@pytest.mark.parametrize("date", ["", "nonsense", "Fri, 31 Dec 1900 00:00:00 GMT", "32 Foo 99999"])
def test_dates_that_are_none(date: str) -> None:
    (item,) = parsed(rss(f"<title>x</title><pubDate>{date}</pubDate>")).items
    assert item.published is None


def test_the_year_9999_is_kept_by_the_parser_and_dropped_by_the_stage_clean() -> None:
    data = rss("<title>x</title><pubDate>Fri, 31 Dec 9999 00:00:00 GMT</pubDate>")
    assert parsed(data).items[0].published == 253402214400
    assert "published" not in worked(data).items[0]


def test_limits() -> None:
    data = rss(*[f"<title>{'t' * 50} {n}</title><description>{'d' * 50}</description>" for n in range(5)])
    found = parsed(data, ParseLimits(3, 20, 10))
    assert [(item.title, item.summary.value) for item in found.items] == [("t" * 20, "d" * 10)] * 3
    assert found.faults == ("only the first 3 of 5 items are read",)


def test_a_string_that_is_a_path_or_a_url_is_never_opened(monkeypatch: Any, tmp_path: Path) -> None:
    """feedparser opens a string that looks like one."""

    def refused(*_: Any) -> Any:
        raise AssertionError("the network is used")

    monkeypatch.setattr(socket.socket, "connect", refused)
    (tmp_path / "feed").write_bytes(rss("<title>secret</title>"))
    for text in (str(tmp_path / "feed"), "http://127.0.0.1/feed", "file:///etc/passwd"):
        assert parsed(text.encode()).items == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"<!DOCTYPE html><html><body>Sorry</body></html>", "HTML page"),
        (b"<html><head><title>x</title></head><body><p>404", "HTML page"),
        (b"just words", "neither RSS, Atom nor JSON Feed"),
        (b"<urlset/>", "neither"),
        (b"\x00\x01\x02" * 100, "neither"),
    ],
)
def test_what_is_no_feed(data: bytes, words: str) -> None:
    with pytest.raises(NotAFeed, match=words):
        require_feed(parsed(data), data)


def test_a_feed_without_items_is_one() -> None:
    data = rss()
    assert require_feed(parsed(data), data).items == ()


BILLION = b"<!DOCTYPE rss [" + b"".join(
    b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10 if n else b"lol") for n in range(10)
)
BILLION_NAMED = BILLION + b"]><rss version='2.0'><channel><title>&l9;</title></channel></rss>"
BOMBS = {
    "nested": BILLION_NAMED,
    "long": b'<!DOCTYPE rss [<!ENTITY a "' + b"a" * 50_000 + b'">]><rss version="2.0"><channel><title>'
    b"" + b"&a;" * 50_000 + b"</title></channel></rss>",
    "many": b"<!DOCTYPE rss ["
    + b"".join(b'<!ENTITY e%d "x">' % n for n in range(5000))
    + b"]><rss version='2.0'><channel><title>x</title></channel></rss>",
    # feedparser takes the comment, or the name of the file, for the first element, and leaves what follows to expat.
    "behind an element in a comment": b"<!-- by <b>x</b> -->" + BILLION_NAMED,
    "behind an element in a name": BILLION_NAMED.replace(b"[", b"[<!ENTITY x SYSTEM '<b'>", 1),
    "hidden ampersands": BILLION_NAMED.replace(b"&", b"&#38;").replace(b"&#38;l9", b"&l9"),
    "parameters": b"""<!DOCTYPE rss [<!ENTITY % x "<!ENTITY y 'aaa'>"> %x;]><rss version='2.0'/>""",
    "twice": b"<!DOCTYPE rss [<!ENTITY a '%s'><!ENTITY a ''>]><rss>%s</rss>" % (b"a" * 9999, b"&a;" * 999),
}


@pytest.mark.parametrize("name", BOMBS)
def test_entity_bombs(name: str) -> None:
    with pytest.raises(FeedFault, match="entit"):
        parsed(BOMBS[name])


@pytest.mark.parametrize(
    "document",
    [
        # What somebody writes about bombs is none.
        rss(f"<title><![CDATA[{BILLION.decode()}]]></title>"),
        b"<!DOCTYPE rss [<!ENTITY lt '&#38;#60;'><!ENTITY nbsp '&#160;'>]>" + rss("<title>a&nbsp;b</title>")[21:],
        b"<!DOCTYPE rss [<!ENTITY % HTMLlat1 PUBLIC '-//W3C//ENTITIES Latin 1' 'http://w3/x.ent'>%HTMLlat1;]>",
        b"<!-- it's <b>\" --><!DOCTYPE rss [<!ENTITY own '(c)'>]><rss>&own;</rss>",
    ],
)
def test_what_is_no_bomb(document: bytes) -> None:
    refuse_bombs(document)


@pytest.mark.parametrize("piece", [b"<!--", b"<?", b"<!ENTITY a '", b"<!ENTITY a", b"&a", b"&", b'"'])
def test_looking_for_bombs_takes_one_pass(piece: bytes) -> None:
    """Not one for each declaration or opened comment: with that, a test of megabytes would not end."""
    many = b"".join(b"<!ENTITY e%d 'x'>" % number for number in range(1000))
    with suppress(FeedFault):
        refuse_bombs(b"<!DOCTYPE x [<!ENTITY a 'b'>" + piece * (2_000_000 // len(piece)))
    refuse_bombs(b"<!DOCTYPE x [" + many + b"]><x>" + piece * (2_000_000 // len(piece)))


def test_external_entities_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    for declared in (f'<!ENTITY x SYSTEM "{secret.as_uri()}">', f'<!ENTITY % x SYSTEM "{secret.as_uri()}"> %x;'):
        data = f"<!DOCTYPE rss [{declared}]><rss version='2.0'><channel><title>a&x;b</title></channel></rss>"
        assert "SECRET" not in parsed(data.encode()).info.title


def test_usual_entities_work() -> None:
    data = (
        b'<!DOCTYPE rss [\n<!ENTITY own "(c)">\n]><rss version="2.0"><channel><title>&own; x</title></channel></rss>'
    )
    assert parsed(data).info.title == "(c) x"


def test_places_without_end_are_none() -> None:
    for point in ("nan inf", "1e999 2", "x"):
        (item,) = parsed(rss(f"<title>x</title><georss:point>{point}</georss:point>")).items
        assert item.places == ()


def test_whatever_makes_feedparser_raise_is_an_error_in_words(monkeypatch: Any) -> None:
    import feedparser

    def broken(*_: Any, **__: Any) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr(feedparser, "parse", broken)
    with pytest.raises(FeedFault, match="feedparser cannot read the document: RecursionError"):
        parsed(rss())
