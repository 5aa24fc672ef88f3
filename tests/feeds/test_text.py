"""Plain text of markup, and the text of pages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lcc.feeds.text
from lcc.feeds.faults import FeedFault
from lcc.feeds.plain import ASIDE, plain_text
from lcc.feeds.text import can_be_read, has_trafilatura, text_of

PAGE = (
    "<html lang='de'><head><title>Eine\n Seite</title><style>p{}</style></head><body>"
    "<nav><a href='/'>Start</a> Hilfe</nav><article><h1>Überschrift</h1>"
    + "".join(
        f"<p>Absatz {n}: Hier steht ein Satz, lang genug, um für Text gehalten zu werden.</p>" for n in range(5)
    )
    + "<script>böse()</script></article><footer>Impressum</footer></body></html>"
)


def test_plain_text() -> None:
    found = plain_text("a <b>b</b>&amp;c<p>d<br>e<script>f</script><!-- g --><ul><li>h<li>i</ul>", 1000)
    assert found.text == "a b&c\nd\ne\nh\ni" and not found.cut
    assert plain_text("a\n <b>b</b>\n\nc<pre>d\n e</pre>\nf", 100).text == "a b c\nd\ne\nf"
    assert plain_text("", 10).text == plain_text("  ", 10).text == ""
    assert plain_text("just &eacute;", 10).text == "just é"
    cut = plain_text("<p>" + "x" * 50, 20)
    assert cut.text == "x" * 19 and cut.cut  # the line end counts


def test_what_is_beside_the_text_can_be_left_out() -> None:
    found = plain_text(PAGE, 10_000, ASIDE)
    assert "Hilfe" not in found.text and "Impressum" not in found.text and found.title == "Eine Seite"
    assert found.language == "de" and found.main.startswith("Überschrift\nAbsatz 0") and "böse" not in found.main
    assert "Hilfe" in plain_text(PAGE, 10_000).text


@pytest.mark.parametrize("markup", ["<div>" * 100_000, "<p>x" * 100_000, "<script>" * 50_000, "</p>" * 100_000])
def test_markup_made_to_harm(markup: str) -> None:
    assert len(plain_text(markup, 50_000).text) <= 50_000


@given(st.text(alphabet="<>/abp &;!-\"'= \ud800\x00é", max_size=60))
def test_any_markup_has_text(markup: str) -> None:
    plain_text(markup, 40).text.encode()


def test_the_text_of_a_page_by_trafilatura() -> None:
    assert has_trafilatura()
    found = text_of(PAGE.encode(), "text/html; charset=utf-8", "http://example.org/", 10_000)
    assert (found.method, found.title, found.language, found.cut) == ("trafilatura", "Eine Seite", "de", False)
    assert "Absatz 4" in found.text and "Impressum" not in found.text
    short = text_of(PAGE.encode(), "text/html", "http://example.org/", 30)
    assert len(short.text) == 30 and short.cut


def test_without_trafilatura_lxml_makes_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(lcc.feeds.text, "has_trafilatura", lambda: False)
    found = text_of(PAGE.encode("utf-16"), "text/html; charset=utf-16", "http://example.org/", 10_000)
    assert found.method == "lxml" and found.text.startswith("Überschrift\nAbsatz 0")
    assert "Impressum" not in found.text


def test_where_trafilatura_finds_nothing_or_fails_lxml_makes_it(monkeypatch: Any) -> None:
    import trafilatura

    for answer in (lambda *_, **__: None, lambda *_, **__: 1 / 0):
        monkeypatch.setattr(trafilatura, "extract", answer)
        assert text_of(b"<p>Kurz.", "text/html", "http://example.org/", 100).method == "lxml"


def test_plain_text_and_other_types() -> None:
    found = text_of(b"a\r\n\r\n  b\tc\x00", "text/plain", "http://example.org/", 100)
    assert (found.text, found.method) == ("a\nb c", "plain")
    assert can_be_read("text/csv") and not can_be_read("image/png")
    with pytest.raises(FeedFault, match="image/png has no text"):
        text_of(b"x", "image/png", "http://example.org/", 100)
