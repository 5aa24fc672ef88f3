"""What workers store, on its way from any worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lcc.model.feeds import Body, Enclosure, FeedInfo, FeedItem, PageText, Person, Place
from lcc.model.items import as_json, feed_object, item_object, link_hash, read_harvest, text_object


def test_a_record_leaves_out_what_is_empty() -> None:
    item = FeedItem(
        title="t",
        content=Body("c"),
        authors=(Person("A"),),
        enclosures=(Enclosure("u", "", 0),),
        places=(Place("Point", (1.0, 2.0)),),
    )
    assert item.record() == {
        "title": "t",
        "content": {"value": "c", "type": "text/html"},
        "authors": [{"name": "A"}],
        "enclosures": [{"url": "u", "size_bytes": 0}],
        "places": [{"kind": "Point", "coordinates": (1.0, 2.0)}],
    }
    assert FeedInfo(kind="rss20", skip_hours=(1, 2)).record() == {"kind": "rss20", "skip_hours": [1, 2]}


def test_what_a_feed_worker_stores() -> None:
    item = {"link": "http://a/", "published": 7}
    objects = [
        feed_object(FeedInfo(title="T"), "link"),
        item_object(item, b"i" * 16, b"d" * 16, "http://a/"),
        text_object("ab" * 20, "cd" * 16, PageText("T", "text", "en", "lxml", True)),
    ]
    found = read_harvest(map(as_json, objects))
    assert (json.loads(found.feed), found.policy) == ({"title": "T"}, "link")
    (row,) = found.items
    assert (row.identity, row.digest, row.published, row.permalink) == (b"i" * 16, b"d" * 16, 7, "http://a/")
    assert row.link == link_hash("http://a/") and json.loads(row.record) == item
    (page,) = found.texts
    assert page.key == b"\xab" * 20 and page.md5 == "cd" * 16
    assert page.text == PageText("T", "text", "en", "lxml", True)


def test_items_of_any_worker() -> None:
    """By id, else by link, else by all; the last of one identity counts."""
    objects = [
        {"id": "1", "title": "a"},
        {"id": "1", "title": "b"},
        {"link": "http://a/"},
        {"any": [1]},
        {"any": [2]},
    ]
    found = read_harvest(map(json.dumps, objects))
    assert [json.loads(row.record) for row in found.items] == objects[1:]
    assert len({row.identity for row in found.items}) == 4


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ("{", "stored object 2: "),
        ("[]", "it is no object"),
        ("[" * 100_000, "stored object 2"),
        ({"feed": {}, "policy": "x"}, "its policy is none"),
        ({"item": {}, "identity": "x", "digest": "y"}, "identity has not 32 hexadecimal"),
        ({"item": {}, "identity": "z" * 32, "digest": "a" * 32}, "non-hexadecimal"),
        ({"item": {"link": 7}, "identity": "a" * 32, "digest": "a" * 32}, "its link is no text"),
        ({"key": "a" * 39, "md5": "b" * 32, "text": ""}, "its key has not 40"),
        ({"key": "a" * 40, "md5": "b" * 32, "text": 7}, "its text is no text"),
        ({"id": 7}, "its id is no text"),
        ('{"title": "\\ud800"}', "surrogates not allowed"),
        ('{"feed": {"link": "\\ud800"}}', "surrogates not allowed"),
        ('{"robots": "\\uDFFF"}', "surrogates not allowed"),
        ({"n": float("nan")}, "JSON"),
        ({"feed": {"title": ["T"]}}, "its title is no text"),
        ({"feed": {"kind": 7}}, "its kind is no text"),
        ({"feed": {"link": {}}}, "its link is no text"),
        ({"feed": {"ttl_seconds": "3600"}}, "its ttl_seconds cannot be"),
        ({"feed": {"ttl_seconds": 1e300}}, "its ttl_seconds cannot be"),
        ({"feed": {"skip_hours": [24]}}, "its skip_hours cannot be [24]"),
        ({"feed": {"skip_days": "monday"}}, 'its skip_days cannot be "monday"'),
    ],
)
def test_what_makes_no_sense_is_named(stored: Any, words: str) -> None:
    text = stored if isinstance(stored, str) else json.dumps(stored)
    with pytest.raises(ValueError, match="stored object 2") as caught:
        read_harvest(["{}", text])
    assert words in str(caught.value)
