"""Lists of feeds: read with limits, and written."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

import lcc.protocols.opml
from lcc.protocols.opml import OpmlError, Outline, read_opml, write_opml

LIST = """<?xml version="1.0" encoding="ISO-8859-1"?>
<opml version="1.1"><head><title>Mine</title></head><body>
<outline text="News"><outline text="Ä" type="rss" xmlUrl=" http://a/feed " htmlUrl="http://a/"/>
<outline title="deep" text="x"><outline text="B" xmlurl="http://b/feed"/></outline></outline>
<outline text="no feed" htmlUrl="http://c/"/></body></opml>"""


def read(text: str | bytes) -> list[Outline]:
    return read_opml(io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def test_a_list() -> None:
    assert read(LIST.encode("latin-1")) == [
        Outline("http://a/feed", "Ä", "http://a/", ("News",)),
        Outline("http://b/feed", "B", "", ("News", "deep")),
    ]


BOMB = '<!DOCTYPE opml [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><opml><outline text="&b;"/></opml>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no XML"),
        ("<html/>", "its root is <html>"),
        ("<opml>", "no XML"),
        ("just text", "no XML"),
        (BOMB, "<!DOCTYPE>"),
        ('<!DOCTYPE opml SYSTEM "file:///etc/passwd"><opml/>', "<!DOCTYPE>"),
        ("<opml>" + "<outline>" * 200, "nested more than 100"),
        (f'<opml><body>\n<outline text="{"x" * 20_000}"/></body></opml>', "line 2: a value of more than 10000"),
        ('<?xml version="1.0" encoding="no-such"?><opml/>', "no XML"),
    ],
)
def test_what_is_none(text: str, words: str) -> None:
    with pytest.raises(OpmlError) as caught:
        read(text)
    assert words in str(caught.value)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lcc.protocols.opml, "FEEDS_MAX", 2)
    with pytest.raises(OpmlError, match="more than 2 feeds"):
        read("<opml>" + '<outline xmlUrl="http://a/"/>' * 3 + "</opml>")
    monkeypatch.setattr(lcc.protocols.opml, "BYTES_MAX", 100)
    with pytest.raises(OpmlError, match="more than 100 bytes"):
        read("<opml>" + " " * 100 + "</opml>")


URLS = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20)


@given(st.lists(st.builds(Outline, URLS, st.text(max_size=20), URLS), max_size=3))
def test_what_is_written_is_read(feeds: list[Outline]) -> None:
    text = "".join(write_opml("<&>", feeds))
    etree.fromstring(text.encode())
    assert [(each.url, each.page) for each in read(text)] == [(each.url, each.page) for each in feeds]
