"""Names of pages in a mirror, and texts in the charset of an engine."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.keys import url_key
from lcc.export.engines.mirror import SEGMENT_CHARS, file_name, url_of
from lcc.export.texts import as_latin1, as_references, charset_of, decoded, title_of

SEGMENTS = st.text(st.sampled_from("ab.@+%~/#?&=:é \x01"), max_size=12) | st.text(max_size=500)
URLS = st.builds(lambda host, path: f"http://{host}/{path}", st.sampled_from(["a.example", "[::1]:81"]), SEGMENTS)


def row(curl: str, pid: int = 1, mimetype: str = "text/html") -> dict[str, Any]:
    key = url_key(pid, curl, mimetype).hex()
    some = {"burl": curl, "subtype": "", "mtime": None, "fetched_time": 1}
    return {"key": key, "pid": pid, "curl": curl, "mimetype": mimetype, **some}


@given(URLS, st.sampled_from(["text/html", "text/plain", "application/rss+xml", "image/png"]))
def test_a_name_tells_its_url_and_is_safe(url: str, mimetype: str) -> None:
    name = file_name(row(url, 7, mimetype))
    if "/long/" not in name:
        assert url_of(name) == url
    parts = name.split("/")
    assert not {"", ".", ".."} & set(parts)
    assert name.isascii() and name.isprintable()
    assert all(len(part) <= SEGMENT_CHARS + 1 for part in parts)
    assert "@" not in "".join(parts[:-1]), "no folder has the name of a page"


@pytest.mark.parametrize(
    "url",
    [
        "http://h/",
        "http://h/a",
        "http://h/a/",
        "http://h/a//b",
        "http://h/./..",
        "http://h/%2e%2e/x",
        "http://h/a?b/../c",
        "http://h/a+/b+",
        "http://h/x@" + "0" * 40 + ".html",
        "http://h/" + "x" * 1000 + "/y",
        "file:///etc/passwd",
    ],
)
def test_urls_that_look_like_names(url: str) -> None:
    assert url_of(file_name(row(url))) == url


def test_pages_never_share_a_name() -> None:
    names = {
        file_name(row(curl, pid, mimetype))
        for curl in ("http://h/a", "http://h/a/", "http://h/a/b", "https://h/a", "http://h/A", "http://h/%61")
        for pid in (1, 2)
        for mimetype in ("text/html", "text/plain", "image/png", "image/gif")
    }
    assert len(names) == 48


def test_what_is_no_name() -> None:
    for name in ("", "1/http/h/a", "x/http/h/a@" + "0" * 40, "../1/http/h/a@" + "0" * 40, "1/http/h/a@12.html"):
        assert url_of(name) is None
    endless = row("http://h/" + "y" * 4000)
    assert url_of(file_name(endless)) is None and len(file_name(endless)) < 100


@pytest.mark.parametrize(
    "data, told, markup, charset",
    [
        (b"caf\xe9", "", False, "cp1252"),
        (b"caf\xc3\xa9", "", False, "utf-8"),
        (b"caf\xe9", "iso-8859-1", False, "cp1252"),
        (b"\xef\xf0\xe8", "windows-1251", False, "cp1251"),
        (b"<meta charset='windows-1251'>\xef", "", True, "cp1251"),
        (b"<meta charset='windows-1251'>\xef", "utf-8", True, "utf-8"),
        (b'<META HTTP-EQUIV="x" CONTENT="text/html; charset=koi8-r">\xef', "", True, "koi8-r"),
        (b'<?xml version="1.0" encoding="ISO-8859-2"?>\xef', "", True, "iso8859-2"),
        (b"<meta charset='windows-1251'>\xef", "", False, "cp1252"),
        (b"<meta charset='utf-16'>a", "", True, "utf-8"),
        (b"\xff\xfea\0", "utf-8", False, "utf-16"),
        (b"\xef\xbb\xbfa", "", False, "utf-8-sig"),
        (b"a", "rot13", False, "utf-8"),
        (b"a", "no-such-charset", False, "utf-8"),
        (b"a", "base64", False, "utf-8"),
        (b"", "", True, "utf-8"),
    ],
)
def test_charsets(data: bytes, told: str, markup: bool, charset: str) -> None:
    assert charset_of(io.BytesIO(data), told, markup) == charset


def test_texts_are_decoded_across_pieces() -> None:
    text = "aé" * 100_000 + "\0\x1b|"
    assert "".join(decoded(io.BytesIO(text.encode()), "utf-8")) == "aé" * 100_000 + "  |"
    assert (
        "".join(decoded(io.BytesIO(b"a\xff\xc3"), "utf-8")) == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    )


def test_engines_charsets() -> None:
    assert as_references("aéő€𝄞") == b"a&#233;&#337;&#8364;&#119070;"
    assert as_latin1("café ő ﬁ 中") == b"caf\xe9 o fi  "


def test_titles() -> None:
    def title(html: str) -> str:
        return title_of(io.BytesIO(html.encode()), "utf-8")

    assert title("<html><TITLE lang='en'>A &amp;\n  b\u00e9 </Title>") == "A & b\u00e9"
    assert title("<title></title>") == title("no title") == title("<title>never ends") == ""
    assert len(title(f"<title>{'x' * 10_000}</title>")) == 500
