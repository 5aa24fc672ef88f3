"""Mime types and their patterns."""

from __future__ import annotations

import pytest

from lcc.config import DEFAULT_MIMETYPES
from lcc.domain.mimetypes import MimePatterns, is_expected, normalise_mimetype
from lcc.errors import UrlError


@pytest.mark.parametrize(
    ("told", "normal"),
    [
        ("text/html", "text/html"),
        (" Text/HTML ; charset=utf-8", "text/html"),
        ("application/vnd.ms-word+x.1", "application/vnd.ms-word+x.1"),
        ("image/svg+xml;", "image/svg+xml"),
    ],
)
def test_spellings(told: str, normal: str) -> None:
    assert normalise_mimetype(told) == normal == normalise_mimetype(normal)


@pytest.mark.parametrize(
    "told",
    ["", "text", "text/", "/html", "text/*", "*/*", "a/b/c", "te xt/html", "text/ht\nml", "é/x", "a/" + "b" * 200],
)
def test_refused(told: str) -> None:
    with pytest.raises(UrlError) as caught:
        normalise_mimetype(told)
    assert caught.value.entry.name == "bad-mimetype"


def test_patterns() -> None:
    patterns = MimePatterns(DEFAULT_MIMETYPES)
    assert patterns.accepts("text/html")
    assert patterns.accepts("application/pdf")
    assert not patterns.accepts("application/pdfx")
    assert not patterns.accepts("text")
    assert not patterns.accepts("textual/html")
    assert not patterns.accepts("")
    assert MimePatterns(["*/*"]).accepts("x/y")
    assert MimePatterns([" TEXT/* "]).accepts("text/x")
    assert not MimePatterns([]).accepts("text/html")


@pytest.mark.parametrize("pattern", ["text", "*", "text/h*", "*/html", "", "text/html; charset=utf-8"])
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(ValueError, match="no pattern"):
        MimePatterns([pattern])


@pytest.mark.parametrize(
    ("told", "got", "expected"),
    [
        ("text/html", "text/html", True),
        ("text/html", "text/plain", False),
        ("text/html", "application/xhtml+xml", False),
        ("application/pdf", "text/html", False),
        ("image/png", "image/jpeg", False),
        ("text/html", "", True),
        ("text/html", "application/octet-stream", True),
        ("application/octet-stream", "text/html", False),
        ("", "text/html", True),
        ("*/*", "image/png", True),
        ("text/*", "text/css", True),
        ("text/*", "textual/css", False),
        ("text/*", "image/png", False),
        ("text/xml", "application/xml", True),
        ("application/javascript", "text/javascript", True),
        ("image/jpg", "image/jpeg", True),
        ("application/xml", "application/rss+xml", False),
    ],
)
def test_what_comes_against_what_was_told(told: str, got: str, expected: bool) -> None:
    assert is_expected(told, got) == expected


def test_a_fault_quotes_eighty_characters() -> None:
    with pytest.raises(UrlError) as caught:
        normalise_mimetype("x" * 500)
    assert caught.value.detail == repr("x" * 80)


def test_whatever_was_told_as_anything_is_what_came() -> None:
    assert all(is_expected(told, "text/html") for told in ("", "*", "*/*", "text/*", "text/html"))
    assert not is_expected("text~", "text/html")


@pytest.mark.parametrize(
    "names",
    [
        "application/xml text/xml",
        "text/javascript application/javascript application/x-javascript text/x-javascript",
        "image/jpeg image/jpg image/pjpeg",
        "image/x-icon image/vnd.microsoft.icon",
        "application/pdf application/x-pdf",
        "application/msword application/ms-word application/vnd.ms-word",
        "application/rtf text/rtf",
        "application/gzip application/x-gzip",
        "application/zip application/x-zip-compressed",
        "text/markdown text/x-markdown",
    ],
)
def test_names_of_one_type_are_the_same(names: str) -> None:
    for told in names.split():
        assert all(is_expected(told, got) for got in names.split())
        assert not is_expected(told, "text/other")
