"""References of documents: resolved, normal, quick where they are plain."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.links import REFERENCE_CHARS_MAX, Base
from lcc.domain.urls import URL_CHARS, normalise
from lcc.errors import UrlError

BASE = "http://example.org/a/b/c.html?x=1"
RESOLVED = {
    "/x": "http://example.org/x",
    "y.html": "http://example.org/a/b/y.html",
    "../z": "http://example.org/a/z",
    "../../../z": "http://example.org/z",
    "..": "http://example.org/a/",
    "./a:b": "http://example.org/a/b/a:b",
    "?q=1": "http://example.org/a/b/c.html?q=1",
    "x?a:b/../c": "http://example.org/a/b/x?a:b/../c",
    "/.hidden": "http://example.org/.hidden",
    "/a//b": "http://example.org/a//b",
    "/a/./b": "http://example.org/a/b",
    "x/../z": "http://example.org/a/b/z",
    "y.html#part": "http://example.org/a/b/y.html",
    "//other.example/x": "http://other.example/x",
    "HTTP://EXAMPLE.org:80": "http://example.org/",
    "http:foo": "http://example.org/a/b/foo",
    "https://h.example/%7ea#b": "https://h.example/~a",
    " /padded\t\n": "http://example.org/padded",
    "/li\r\nne": "http://example.org/line",
    "\\win\\dows?a\\b": "http://example.org/win/dows?a%5Cb",
    "a b": "http://example.org/a/b/a%20b",
    "é?é": "http://example.org/a/b/%C3%A9?%C3%A9",
    "ftp://h.example/pub/": "ftp://h.example/pub/",
    "svn+ssh://h.example/x": "svn+ssh://h.example/x",
    "a[b]|c^d": "http://example.org/a/b/a%5Bb%5D%7Cc%5Ed",
    "!a!": "http://example.org/a/b/!a!",
}
NO_DOCUMENTS = (
    "",
    "#part",
    "  ",
    "javascript:void(0)",
    " JavaScript:x",
    "java\nscript:x",
    "mailto:a@b",
    "data:,x",
    "x:y",
    "javascript:a\x07b",
    "JavaScript://user:password@host/",
    "tel:+31\x07",
)


@pytest.mark.parametrize("reference", RESOLVED)
def test_references_are_resolved_and_normal(reference: str) -> None:
    assert Base(BASE).resolve(reference) == RESOLVED[reference]


@pytest.mark.parametrize("reference", NO_DOCUMENTS)
def test_what_names_no_document_is_nothing(reference: str) -> None:
    assert Base(BASE).resolve(reference) == ""


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        ("http://a b/", "bad-url"),
        ("http://u:p@h/", "user-info"),
        ("/a\x07b", "bad-url"),
        ("http://[::1/", "bad-url"),
        ("/" + "x" * REFERENCE_CHARS_MAX, "too-long"),
        ("ä" * (REFERENCE_CHARS_MAX // 2), "too-long"),
    ],
)
def test_what_is_no_url_is_refused(reference: str, error: str) -> None:
    with pytest.raises(UrlError) as caught:
        Base(BASE).resolve(reference)
    assert caught.value.entry.name == error


def test_queries_are_in_the_encoding_of_the_page_as_browsers_send_them() -> None:
    assert Base("http://h/a", "cp1252").resolve("é?q=é&r=中#é") == "http://h/%C3%A9?q=%E9&r=%26%2320013%3B"
    assert Base("http://h/a", "shift_jis").resolve("?q=表") == "http://h/a?q=%95%5C"


@given(st.text("ab/.?#:;=%~ \\é", max_size=12))
def test_the_quick_way_says_what_the_slow_one_does(reference: str) -> None:
    base = Base(BASE)
    try:
        found = base.resolve(reference)
    except UrlError:
        return
    assert found == base._slowly(reference)
    assert not found or normalise(found) == found


@given(st.text("ab/.?=~", max_size=12))
def test_references_mean_what_urllib_says(reference: str) -> None:
    try:
        found = Base(BASE).resolve(reference)
    except UrlError:
        return
    # urllib drops an empty query, and some slashes of two.
    if found and "//" not in reference and not reference.endswith("?"):
        assert found == normalise(urljoin(BASE, reference))


@pytest.mark.parametrize("quick", [True, False])
def test_long_references_are_refused_by_what_is_written_and_by_what_is_meant(quick: bool) -> None:
    extra = "" if quick else "\u00e9"
    base = Base("http://h/")
    longest = "a" * (URL_CHARS - 9)
    assert len(base.resolve(longest)) == URL_CHARS
    with pytest.raises(UrlError, match="characters"):
        base.resolve(longest + "a" + extra)
    with pytest.raises(UrlError, match=f"{REFERENCE_CHARS_MAX + 1} characters"):
        base.resolve("#" + "a" * REFERENCE_CHARS_MAX)
    assert base.resolve("#" + "a" * (REFERENCE_CHARS_MAX - 1)) == ""


def test_a_base_is_without_fragment_and_query_and_host_alone() -> None:
    assert Base("http://h/a/b#c/d").url == "http://h/a/b"
    assert Base("http://h/a/b?c=/d/e").resolve("x") == "http://h/a/x"
    assert Base("http://h/a?u=http://k/").resolve("/x") == "http://h/x"


def test_the_fragment_is_cut_at_its_first_sign() -> None:
    assert Base("http://h/").resolve("a#b#c") == Base("http://h/").resolve("é/../a#b#c") == "http://h/a"
    assert Base("http://h/").resolve("?a?\\b") == "http://h/?a?%5Cb"
    assert Base("http://h/").resolve("\\a?b?\\c") == "http://h/a?b?%5Cc"


def test_backslashes_are_slashes_where_browsers_say_so() -> None:
    assert Base("http://h/").resolve("HTTPS:\\\\k\\a") == "https://k/a"
    assert Base("http://h/").resolve("foo:a\\b") == ""
    assert Base("http://h/").resolve("gopher://k/a\\b") == "gopher://k/a%5Cb"
    assert Base("http://h/a/b").resolve("http:\\c") == "http://h/c"
    assert Base("http://h/a/b").resolve("http://k") == "http://k/"


def test_only_queries_are_in_the_encoding_of_the_page() -> None:
    assert Base("http://h/", "latin-1").resolve("/é?é?/é") == "http://h/%C3%A9?%E9?/%E9"
    assert Base("http://h/", "latin-1").resolve("/a?\u4e16") == "http://h/a?%26%2319990%3B"
