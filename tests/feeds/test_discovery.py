"""Which feeds a page names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lcc.feeds.discovery import FOUND_MAX, FoundFeed, feeds_named

URL = "http://www.example.org/news/"


def test_feeds_of_a_page() -> None:
    page = """<html><head><link rel="stylesheet" type="text/css" href="s.css">
      <link rel='ALTERNATE home' type='application/rss+xml' title='All &amp; news' href='feed.xml'>
      <link rel=alternate type="application/atom+xml; charset=utf-8" href="/atom">
      <link rel=alternate type="application/atom+xml" href="/atom">
      <link rel=alternate type="text/html" hreflang=de href="/de">
      <base href="http://other.example.org/x/">
      <link rel=alternate type=application/feed+json href=feed.json>
      <link rel=alternate type=application/rss+xml href="javascript:x()"></head><body>
      <a type="application/rss+xml" href="comments.xml">x</a>"""
    assert feeds_named(page.encode(), "text/html", URL) == [
        FoundFeed("http://www.example.org/news/feed.xml", "RSS", "All & news"),
        FoundFeed("http://www.example.org/atom", "Atom", ""),
        FoundFeed("http://other.example.org/x/feed.json", "JSON Feed", ""),
        FoundFeed("http://other.example.org/x/comments.xml", "RSS", ""),
    ]


def test_pages_without_feeds() -> None:
    assert feeds_named(b"", "text/html", URL) == []
    assert feeds_named(b"<p>x", "", URL) == []


def test_no_more_than_are_looked_at() -> None:
    page = "".join(f"<link rel=alternate type=application/rss+xml href=/{n}>" for n in range(1000))
    assert len(feeds_named(page.encode(), "text/html", URL)) == FOUND_MAX


@given(st.text(alphabet="<>linkbase rel=alternate'\"/ type=application/rss+xml href=:?#[", max_size=80))
def test_any_page(text: str) -> None:
    feeds_named(text.encode(), "text/html", URL)
