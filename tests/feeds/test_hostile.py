"""Mutated documents: whatever they are, a feed, or an error in words, in bounded time."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.feeds.bombs import ENTITIES_MAX, plain_prolog
from lcc.feeds.encodings import to_utf8
from lcc.feeds.faults import FeedFault
from lcc.feeds.parsing import ParseLimits, parse_feed
from tests.feeds.runs import URL, rss, worked

FULL = rss(
    "<title>One</title><link>/1</link><guid>g</guid><description>a &lt;b&gt;b&lt;/b&gt;</description>"
    "<author>a@b.c (A)</author><category>k</category><enclosure url='/e' length='1' type='x'/>"
    "<pubDate>Fri, 13 Feb 2009 23:31:30 GMT</pubDate><georss:point>45 -71</georss:point>",
    "<title>Two</title><media:content url='/m' fileSize='x'/>",
    head="<ttl>5</ttl><skipHours><hour>3</hour></skipHours>",
)
PIECES = [
    *(
        b"<",
        b">",
        b"</",
        b"/>",
        b"&",
        b";",
        b"]]>",
        b"<![CDATA[",
        b"<!--",
        b"-->",
        b"<?xml",
        b"<!DOCTYPE x [",
        b"\x00",
    ),
    *(b"\xff\xfe", b"&#x0;", b"&#xd800;", b"<item>", b"</item>", b"</channel>", b"<entry>", b"xmlns='x'", b"\xc3"),
    *(b"<georss:where><gml:Point srsName='EPSG:x'><gml:pos>1 2</gml:pos></gml:Point></georss:where>", b"<where>"),
    *(b"<feed xmlns='http://www.w3.org/2005/Atom'>", b"<content type='xhtml'>", b"<dc:date>9999-99-99</dc:date>"),
]
CHANGES = st.lists(
    st.tuples(st.integers(0, len(FULL)), st.integers(0, 40), st.sampled_from(PIECES) | st.binary(max_size=6)),
    max_size=6,
)


def changed(changes: list[tuple[int, int, bytes]]) -> bytes:
    data = FULL
    for at, cut, piece in changes:
        data = data[:at] + piece + data[at + cut :]
    return data


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES)
def test_a_mutated_feed(changes: list[tuple[int, int, bytes]]) -> None:
    data = changed(changes)
    try:
        found = parse_feed(to_utf8(data, "application/xml")[0], URL, ParseLimits())
    except FeedFault:
        return
    json.dumps([each.record() for each in found.items], ensure_ascii=False, allow_nan=False).encode()


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES)
def test_a_run_with_it(changes: list[tuple[int, int, bytes]]) -> None:
    try:
        worked(changed(changes))
    except FeedFault as error:
        assert ":" in str(error) and "should be mended" not in str(error)


@pytest.mark.parametrize(
    ("prolog", "left"),
    [
        (b"<?" + b"\n" * 300_000, b"<?\n"),
        (b"\n<!DOCTYPE" * 300_000, b"\n"),
        (b"\n<!ENTITY" * ENTITIES_MAX, b"\n"),
        (b"\n \n<!ENTITY x>" * ENTITIES_MAX, b"\n<!ENTITY x>" * ENTITIES_MAX),
        (b"<!DOCTYPE a [ <!ENTITY b 'c" + b" " * 300_000 + b"'>", b"<!DOCTYPE a [ <!ENTITY b 'c '>"),
        (b"<?xml version='1.0'?>\n\n  ", b"<?xml version='1.0'?>\n\n  "),
    ],
)
def test_what_keeps_feedparser_busy_is_left_out(prolog: bytes, left: bytes) -> None:
    """It needs the square of the length for it: the first of these takes minutes."""
    assert plain_prolog(prolog + FULL[FULL.index(b"<rss") :]) == left + FULL[FULL.index(b"<rss") :]
    assert [item.title for item in parse_feed(prolog + FULL, URL, ParseLimits()).items] == ["One", "Two"]


def test_too_many_declarations_are_refused_whether_or_not_they_are_any() -> None:
    with pytest.raises(FeedFault, match="declares more than 1000 entities"):
        parse_feed(b"\n<!ENTITY x>" * (ENTITIES_MAX + 1) + FULL, URL, ParseLimits())


@given(st.lists(st.sampled_from([b"<", b">", b"!", b"a", b" ", b"\n", b" " * 150, b"<!ENTITY", b"<!DOCTYPE"])))
def test_what_follows_the_first_element_stays(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    at = re.search(rb"<\w", data)
    plain = plain_prolog(data)
    assert plain.endswith(data if at is None else data[at.start() :])
    assert plain_prolog(plain) == plain
