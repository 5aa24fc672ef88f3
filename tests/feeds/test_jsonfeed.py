"""JSON Feed, versions 1 and 1.1, and JSON made to harm."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.feeds.faults import FeedFault, NotAFeed
from lcc.feeds.jsonfeed import looks_like_json, parse_json_feed
from lcc.feeds.parsing import ParseLimits
from lcc.model.feeds import Body, Category, Enclosure, FeedItem, FeedLink, ParsedFeed, Person
from tests.feeds.runs import URL

VERSION = "https://jsonfeed.org/version/1.1"


def parsed(feed: Any, limits: ParseLimits | None = None) -> ParsedFeed:
    data = feed if isinstance(feed, bytes) else json.dumps(feed).encode()
    return parse_json_feed(data, URL, limits or ParseLimits())


def test_a_feed_with_everything() -> None:
    found = parsed(
        {
            "version": VERSION,
            "title": "T",
            "description": "D",
            "home_page_url": "/",
            "feed_url": URL,
            "language": "de",
            "expired": True,
            "icon": "i.png",
            "hubs": [{"type": "WebSub", "url": "https://hub.example.org/"}],
            "authors": [{"name": "A", "url": "/a"}],
            "items": [
                {
                    "id": "1",
                    "url": "/1",
                    "external_url": "http://other.example.org/",
                    "title": " One\n two ",
                    "content_html": "<p onclick='x()'>a<script>b</script><a href='c'>d</a>",
                    "content_text": "plain",
                    "summary": "S",
                    "date_published": "2009-02-13T23:31:30Z",
                    "date_modified": "2009-02-14T00:31:31+01:00",
                    "tags": ["x", "", 7, "y"],
                    "image": "p.png",
                    "attachments": [
                        {"url": "e.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 12},
                        {"mime_type": "x"},
                    ],
                }
            ],
        }
    )
    info = found.info
    assert (info.kind, info.title, info.subtitle, info.link, info.language) == (
        "jsonfeed11",
        "T",
        "D",
        "http://feeds.example.org/",
        "de",
    )
    assert info.expired and FeedLink("https://hub.example.org/", "hub") in info.links
    assert found.items == (
        FeedItem(
            id="1",
            link="http://feeds.example.org/1",
            title="One two",
            content=Body('<p>a<a href="http://feeds.example.org/c">d</a>'),
            summary=Body("S", "text/plain"),
            published=1234567890,
            updated=1234567891,
            categories=(Category("x"), Category("y")),
            enclosures=(Enclosure("http://feeds.example.org/news/e.mp3", "audio/mpeg", 12),),
            links=(
                FeedLink("http://other.example.org/", "related"),
                FeedLink("http://feeds.example.org/news/p.png", "image"),
            ),
        ),
    )


def test_version_1() -> None:
    found = parsed(
        {
            "version": "https://jsonfeed.org/version/1",
            "author": {"name": "A"},
            "items": [{"id": 7, "author": {"name": "B"}, "content_text": "x < y"}, "no item"],
        }
    )
    assert found.info.kind == "jsonfeed1" and found.info.authors == (Person("A"),)
    (item,) = found.items
    assert (item.id, item.authors, item.content) == ("7", (Person("B"),), Body("x < y", "text/plain"))
    assert found.faults == ("some items are no objects: left out",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "no JSON"),
        (b'{"items": []}', "no JSON Feed"),
        (b'{"version": "https://jsonfeed.org/version/1", "items": {}}', "no list of items"),
        (b"[" * 100_000, "no JSON"),
        (b'{"a":' * 100_000, "no JSON"),
        (b"[]", "no JSON Feed"),
    ],
)
def test_what_is_none(data: bytes, words: str) -> None:
    with pytest.raises(FeedFault, match=words):
        parsed(data)


def test_numbers_and_characters_made_to_harm() -> None:
    text = (
        '{"version": "VERSION", "items": [{"id": NUMBER, "title": "\\ud800 \\u0000 x", "date_published": "9999-99-99"'
        ', "content_html": "<p>\\udfff", "attachments": [{"url": "/e", "size_in_bytes": 1e999},'
        ' {"url": "http://[", "size_in_bytes": NaN}]}]}'
    )
    data = text.replace("VERSION", VERSION).replace("NUMBER", "9" * 5000).encode()
    (item,) = parsed(data).items
    assert (item.id, item.title, item.published) == ("", "\ufffd x", None)
    assert item.enclosures == (Enclosure("http://feeds.example.org/e"),)
    json.dumps(item.record(), ensure_ascii=False).encode()


def test_more_items_than_are_allowed() -> None:
    found = parsed({"version": VERSION, "items": [{"id": str(n)} for n in range(5)]}, ParseLimits(items_max=3))
    assert [item.id for item in found.items] == ["0", "1", "2"]
    assert found.faults == ("only the first 3 of 5 items are read",)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TEXTS = ["id", "url", "external_url", "title", "content_html", "content_text", "summary", "image", "language"]
OTHERS = ["date_published", "date_modified", "author", "authors", "tags", "attachments"]
NAMES = st.sampled_from(TEXTS + OTHERS)


@given(st.dictionaries(NAMES, ANY), st.dictionaries(st.sampled_from(["title", "hubs", "icon", "authors"]), ANY))
def test_any_values_are_items_or_faults(item: dict[str, Any], head: dict[str, Any]) -> None:
    found = parsed({**head, "version": VERSION, "items": [item]})
    assert len(found.items) == 1
    json.dumps([found.info.record(), found.items[0].record()], ensure_ascii=False, allow_nan=False).encode()


def test_json_is_recognized() -> None:
    assert looks_like_json(b' \n{"version"') and not looks_like_json(b"<rss/>") and not looks_like_json(b"")


def test_json_that_is_no_feed_is_told_apart() -> None:
    with pytest.raises(NotAFeed):
        parsed({"swagger": "2.0"})
