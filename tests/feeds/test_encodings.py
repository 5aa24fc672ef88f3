"""Encodings that are told, guessed, wrong and lies."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.feeds.encodings import media_type, to_utf8
from tests.feeds.runs import rss, worked

HEAD = "<?xml version='1.0' encoding='utf-8'?>"
TEXT = "<a>Größe é</a>"


@pytest.mark.parametrize(
    ("data", "content_type", "encoding"),
    [
        (TEXT.encode(), "", "utf-8"),
        (TEXT.encode("latin-1"), "application/xml; charset=ISO-8859-1", "iso-8859-1"),
        (TEXT.encode("latin-1"), 'text/xml; charset="latin1"', "latin1"),
        # It lies: not even UTF-8.
        (TEXT.encode("cp1252"), "application/xml; charset=utf-8", "windows-1252"),
        (TEXT.encode(), "text/xml", "utf-8"),
        (codecs.BOM_UTF8 + TEXT.encode(), "application/xml", "utf-8"),
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16le"), "", "utf-16le"),
        (codecs.BOM_UTF32_BE + TEXT.encode("utf-32be"), "", "utf-32be"),
        (codecs.BOM_UTF16_LE + (HEAD + TEXT).encode("utf-16le"), "application/xml", "utf-16le"),
        (TEXT.encode("koi8-r", "ignore"), "application/xml; charset=no-such", "utf-8"),
        # Codecs of Python that are no character sets.
        (TEXT.encode(), "application/xml; charset=punycode", "utf-8"),
        (TEXT.encode(), "application/xml; charset=hex", "utf-8"),
        (TEXT.encode(), "text/html; charset=unicode_escape", "utf-8"),
    ],
)
def test_documents(data: bytes, content_type: str, encoding: str) -> None:
    text, found = to_utf8(data, content_type)
    assert found == encoding
    if "koi8" not in content_type and b"Gr" in data and len(text) >= len(TEXT.encode()):
        assert text.decode() == TEXT


def test_a_declaration_is_rewritten() -> None:
    data = "<?xml version='1.0' encoding='windows-1251' standalone='yes'?><a>Привет</a>".encode("cp1251")
    assert to_utf8(data, "application/rss+xml") == (f"{HEAD}<a>Привет</a>".encode(), "windows-1251")
    wide = codecs.BOM_UTF16_BE + "<?xml version='1.0' encoding='UTF-16'?><a>é</a>".encode("utf-16be")
    assert to_utf8(wide, "") == (f"{HEAD}<a>é</a>".encode(), "utf-16be")


def test_html_says_it_in_a_meta_element() -> None:
    data = b"<html><head><meta charset=koi8-r></head>" + "привет".encode("koi8-r")
    assert "привет" in to_utf8(data, "text/html")[0].decode()
    # But the server's word goes first.
    assert "привет" in to_utf8(data.replace(b"koi8-r", b"utf-8"), "text/html; charset=koi8-r")[0].decode()


def test_media_types() -> None:
    assert media_type('Text/HTML; a=b; Charset="UTF-8"') == ("text/html", "utf-8")
    assert media_type("") == ("", "")
    assert media_type(";;charset") == ("", "")


@given(st.binary(max_size=300), st.sampled_from(["", "text/xml", "text/html; charset=utf-16", "application/xml"]))
def test_anything_becomes_utf_8(data: bytes, content_type: str) -> None:
    to_utf8(data, content_type)[0].decode()


@given(st.binary(max_size=80).map(lambda inner: b"<?xml version='1.0' encoding='" + inner + b"'?><a/>"))
def test_any_declaration(data: bytes) -> None:
    to_utf8(data, "application/xml")[0].decode()


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("&#55357;&#56832;", "\N{GRINNING FACE}"),
        ("&#xD83D;&#xDE00;&#xe9;", "\N{GRINNING FACE}é"),
        ("&#x1F600;&#00038;", "\N{GRINNING FACE}&"),
        ("&#xDE00;&#xD83D;", "\ufffd\ufffd"),
        ("&#x110000;", "\ufffd"),
        ("&#99999999999999999999;&#x0003c;", "\ufffd<"),
    ],
)
def test_references_to_what_is_no_character(reference: str, text: str) -> None:
    """Of feeds that write emoji as halves nothing would be read."""
    [item] = worked(rss(f"<guid>1</guid><title>a {reference} b</title>")).items
    assert item["title"] == f"a {text} b"
