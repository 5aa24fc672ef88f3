"""Texts of documents: HTML, PDF, plain text; what cannot be read is a fault of the document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor

from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.roles.extraction import ExtractionPool, spawn_by
from lcc.search.texts import language_of
from lcc.search.worker import TextWorker
from lcc.spider.extractors.found import Document
from tests.support.pages import page
from tests.support.pdf import pdf_with_text

PAGE = """<!doctype html><html lang="fr"><title>A  title &amp; more</title>
<nav>menu</nav><header><h1>The <b>first</b></h1></header><article><h2>Second</h2><p>Words of the page.</p>
<script>no()</script></article><footer>imprint</footer>"""


def read(
    content: bytes | str,
    mimetype: str = "text/html",
    charset: str = "",
    headers: Sequence[tuple[str, str]] = (),
    whole: bool = True,
    chars: int = 10_000,
    seconds: float = 60.0,
) -> PageLinks:
    data = content.encode() if isinstance(content, str) else content
    limits = ExtractionLimits(page_chars=chars, page_seconds=seconds)
    return TextWorker(limits).links(Document("http://h.example/", mimetype, charset, headers, data, whole))


def test_html() -> None:
    found = read(PAGE)
    assert found.title == "A title & more"
    assert found.headings == "The first\nSecond"
    assert found.text == "The first\nSecond\nWords of the page."
    assert (found.language, found.noindex, found.faults) == ("fr", False, ())


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        ("<p>Grüße".encode("latin-1"), "iso-8859-1"),
        ('<meta charset="windows-1252"><p>Grüße'.encode("cp1252"), ""),
        ("\ufeff<p>Grüße".encode("utf-16-le"), ""),
        ("<p>Grüße".encode(), "latin-9-or-so"),
        ("<p>Gru\u0308\u00dfe".encode(), "utf-8"),
    ],
)
def test_encodings(content: bytes, charset: str) -> None:
    assert read(content, charset=charset).text == "Grüße"


def test_mixed_encodings_cost_letters_at_most() -> None:
    assert read("<p>Grüße ".encode() + "Grüße ASCII".encode("latin-1")).text.endswith("ASCII")
    assert read(b"\xff\xfe\x00 \x00 <p>\x80", charset="utf-8").faults == ()


def test_pages_that_ask_not_to_be_found() -> None:
    assert read('<meta name=ROBOTS content="NoIndex, follow"><p>a').noindex
    assert read("<p>a", headers=[("Link", "</x>"), ("Link", "</y>"), ("X-Robots-Tag", "none")]).noindex
    assert not read("<p>a", headers=[("X-Robots-Tag", "otherbot: noindex")]).noindex


def test_pages_that_ask_that_no_copy_is_shown() -> None:
    assert read('<meta name=robots content="noarchive"><p>a').noarchive
    assert read("<p>a", headers=[("X-Robots-Tag", "NoArchive")]).noarchive
    assert not read("<p>a", headers=[("X-Robots-Tag", "otherbot: noarchive")]).noarchive
    assert not read("<p>noarchive").noarchive


def test_forms_that_are_the_whole_page() -> None:
    found = read(
        "<body><form id=aspnetForm><input type=hidden><h1>Heading</h1><p>All of the text"
        "<label>Your name</label><select><option>choice</select><button>Send</button></form>"
    )
    assert found.text == "Heading\nAll of the text" and found.headings == "Heading"


def test_plain_text_and_its_limit() -> None:
    found = read("a  <b>\r\n\r\n\tc\0", "text/plain")
    assert (found.text, found.title, found.truncated) == ("a <b>\nc", "", False)
    found = read("word " * 1000, "text/markdown", chars=99)
    assert len(found.text) == 99 and found.truncated
    assert len(read(f"<p>{'word ' * 1000}", chars=99).text) <= 99


@pytest.mark.parametrize("mimetype", ["text/plain", "text/html"])
def test_100_mb_of_text(mimetype: str) -> None:
    found = read("words " * (100_000_000 // 6), mimetype, chars=200_000)
    assert found.truncated and 190_000 < len(found.text) <= 200_000


def test_pdf() -> None:
    found = read(pdf_with_text("Words of a <document>", title="Its title"), "application/pdf")
    assert (found.title, found.text, found.faults) == ("Its title", "Words of a <document>", ())


def test_pdf_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "pdftotext" in read(b"%PDF-1.4\nnothing", "application/pdf").faults[0]
    assert "cut" in read(pdf_with_text("a"), "application/pdf", whole=False).faults[0]
    program = tmp_path / "pdftotext"
    # A reader that hangs, and one that never ends.
    for script, fault in (
        ("echo '<pre>'; echo some; exec sleep 100", ("pdftotext took too long",)),
        ("echo '<pre>'; exec yes words", ()),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        found = read(pdf_with_text("a"), "application/pdf", chars=1000, seconds=4.0)
        assert found.faults == fault and found.truncated and found.text
    monkeypatch.setenv("PATH", "/nowhere")
    assert "poppler-utils" in read(pdf_with_text("a"), "application/pdf").faults[0]


def test_languages() -> None:
    german = "Das ist ein Satz auf Deutsch, und er ist lang genug, um als solcher erkannt zu werden."
    assert language_of(german, "") == language_of(german, "en-US") == "de"
    assert language_of("short", "en-US") == "en" and language_of("short", "") == ""
    assert language_of("short", "x; drop") == language_of("", "../..") == ""


@pytest_twisted.ensureDeferred
async def test_real_workers() -> None:
    limits = ExtractionLimits(page_chars=1000, memory_bytes=600 << 20)
    pool = ExtractionPool(reactor, spawn_by(reactor, limits, module="lcc.search.worker"), limits, 1, "search")
    pool.start()
    try:
        pages = [page("http://h.example/1", PAGE), page("http://h.example/2", "words", "text/plain")]
        one, two = await pool.extract(pages)
    finally:
        await pool.stop()
    assert (one.title, two.text) == ("A title & more", "words")
