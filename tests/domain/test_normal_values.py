"""Normal values: what matches the patterns passes the checks and is changed by nothing."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lcc.config import DEFAULT_MIMETYPES
from lcc.domain.mimetypes import MimePatterns
from lcc.domain.notices.elements import ElementChecker, as_sent
from lcc.domain.notices.normal_values import VALUES, absolute_urls, is_usual, normal_base, relative_urls
from lcc.domain.urls import Roots
from lcc.model import UrlNotice

ROOTS = ("http://site.example/", "http://other.example/~me", "ftp://h.example/a'b/")
PREFIXES = (
    "http://site.example/",
    "https://site.example/a/b",
    "http://other.example/~me",
    "http://other.example/~mex/",
)
TYPES = MimePatterns(DEFAULT_MIMETYPES)

# What the patterns may be wrong about, and what lets most values match.
PIECES = st.sampled_from(
    [
        *(
            "a",
            "Z",
            "0",
            ".",
            "/",
            "..",
            "/.",
            "/..",
            "//",
            "?",
            "&amp;",
            "&",
            "%",
            "%41",
            "%2F",
            "%2f",
            "%7E",
            "%20",
        ),
        *("%5F", "%5f", "%2D", "%C3%BC", "%zz", ":", "://", "http://", "page", ".html", "=", "'", '"', "#", "@", " "),
        *(
            "ü",
            "\n",
            "\x7f",
            "\\",
            "|",
            "^",
            "`",
            "{",
            "~",
            "-",
            "_",
            ";",
            ",",
            "+",
            "$",
            "!",
            "*",
            "(",
            ")",
            "\ue000",
        ),
    ]
)
URLS = st.lists(PIECES, max_size=12).map("".join)
CHECKERS = {prefix: ElementChecker(Roots(ROOTS), TYPES, "", prefix) for prefix in ("", *PREFIXES)}


def as_plain(attributes: dict[str, str], prefix: str) -> UrlNotice:
    """The notice of an element whose values are all normal."""
    get = attributes.get
    return UrlNotice(
        prefix + (get("c") or attributes["curl"]),
        mimetype=get("m") or attributes["mimetype"],
        md5=get("md5", ""),
        length=int(attributes["len"]) if "len" in attributes else None,
        mtime=int(attributes["mtime"]) if "mtime" in attributes else None,
        sent=as_sent(attributes),
    )


@given(URLS, st.sampled_from(PREFIXES))
@example("a" * 201, PREFIXES[0])
@example("/".join(["a" * 200] * 16), PREFIXES[0])
@example("/".join(["a" * 200] * 17), PREFIXES[0])
def test_relative_urls(text: str, prefix: str) -> None:
    base = normal_base(prefix, Roots(ROOTS))
    assert base == prefix
    if re.fullmatch(relative_urls(), text, re.ASCII):
        attributes = {"c": unescape(text), "m": "text/html"}
        assert CHECKERS[prefix].check(attributes) == as_plain(attributes, prefix)


@given(st.sampled_from((*ROOTS, *PREFIXES, "http://evil.example/")), URLS)
def test_absolute_urls(start: str, text: str) -> None:
    pattern = absolute_urls(Roots(ROOTS))
    assert pattern is not None
    if re.fullmatch(pattern, start + text, re.ASCII):
        attributes = {"curl": unescape(start + text), "mimetype": "text/html"}
        assert CHECKERS[""].check(attributes) == as_plain(attributes, "")


@pytest.mark.parametrize(
    "text", ["page.html", "a/b/c?d=e&amp;f=g", "x%20y%2Fz%C3%BC", "/", "a//b", "dir/", "q?a=b/c", "a:b", "a@b;c,d"]
)
def test_the_usual_urls_are_plain(text: str) -> None:
    assert re.fullmatch(relative_urls(), text, re.ASCII)
    for root in ("http://site.example/", "http://other.example/~me/"):
        assert re.fullmatch(absolute_urls(Roots(ROOTS)) or "", root + text, re.ASCII)


@pytest.mark.parametrize(
    "text", ["", ".", "../x", "a/../b", "a/.b", "http://a/", "%41", "%7e", "%c3", "a b", "a#b", "a'b", "ü", "a&b"]
)
def test_what_may_be_changed_or_refused_is_not_plain(text: str) -> None:
    assert not re.fullmatch(relative_urls(), text, re.ASCII)


def test_which_bytes_are_plain_in_percent_encoding() -> None:
    """Those that need it; the others stand for themselves in a normal URL."""
    for byte in range(256):
        char = chr(byte)
        needless = char.isascii() and (char.isalnum() or char in "-._~")
        for text in (f"x%{byte:02X}", f"x%{byte:02X}~"):
            assert bool(re.fullmatch(relative_urls(), text, re.ASCII)) is not needless


@pytest.mark.parametrize(
    "prefix",
    [
        *("http://evil.example/", "HTTP://site.example/", "http://site.example", "http://site.example/?a=", "x"),
        *("http://site.example/../", "http://site.example/%41", "http://site.example/a'b", "http://site.example/#"),
        *("http://site.example/" + "a" * 800, "http://site.example:80/", "http://site.example/a&b/"),
    ],
)
def test_no_plain_base(prefix: str) -> None:
    assert normal_base(prefix, Roots(ROOTS)) is None


def test_only_roots_that_are_plain_begin_a_plain_url() -> None:
    assert absolute_urls(Roots(["http://h/a'b/"])) is None
    url = "http://h/a'b/c"
    assert not re.fullmatch(absolute_urls(Roots(["http://h/d/", "http://h/a'b/"])) or "", url, re.ASCII)


OTHERS = {
    "m": st.one_of(
        st.sampled_from(["text/html", "TEXT/html", "text/html; a=b", " text/html", "text/", "image/x+y", "a'/b&c"]),
        st.text(max_size=9),
    ),
    "md5": st.one_of(st.sampled_from(["", "0" * 32, "A" * 32, "f" * 31, "f" * 33]), st.text(max_size=33)),
    "len": st.one_of(
        st.sampled_from(["", "0", "00", "01", "-1", "+1", " 1", "1_0", "9" * 15, "9" * 16, "\u0661"]),
        st.integers().map(str),
    ),
    "mtime": st.one_of(
        st.sampled_from(["", "0", "00", "-1", "1.5", "9" * 12, "9" * 13, "2024-01-02"]),
        st.integers().map(str),
    ),
}


@given(st.fixed_dictionaries({"m": OTHERS["m"]}, optional={name: OTHERS[name] for name in ("md5", "len", "mtime")}))
def test_other_values(attributes: dict[str, str]) -> None:
    told = {"c": "a", **attributes}
    assert is_usual(told)
    checker = CHECKERS[PREFIXES[0]]
    if all(re.fullmatch(VALUES[name], value, re.ASCII) for name, value in attributes.items()):
        if checker.accepts([attributes["m"]]):
            assert checker.check(told) == as_plain(told, PREFIXES[0])
    elif checker.accepts([attributes["m"]]):
        assert checker.check({"c": "a", "m": attributes["m"]}) is not None


@pytest.mark.parametrize(
    ("names", "usual"),
    [
        (("c", "m"), True),
        (("mimetype", "curl"), True),
        (("c", "m", "md5", "len", "mtime"), True),
        (("c",), False),
        (("m", "len"), False),
        (("c", "curl", "m"), False),
        (("c", "m", "mimetype"), False),
        (("c", "m", "op"), False),
        (("c", "m", "f"), False),
        (("c", "m", "other"), False),
    ],
)
def test_which_elements_are_usual(names: tuple[str, ...], usual: bool) -> None:
    assert is_usual(names) is usual


def test_numbers_of_the_quick_way_are_within_the_bounds_of_the_slow_one() -> None:
    for name, digits in (("len", 15), ("mtime", 12)):
        assert re.fullmatch(VALUES[name], "9" * digits) and re.fullmatch(VALUES[name], "0")
        assert not re.fullmatch(VALUES[name], "9" * (digits + 1)) and not re.fullmatch(VALUES[name], "01")
