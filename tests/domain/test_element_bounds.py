"""What elements may be at most, and what is told of one that is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lcc.domain.mimetypes import MimePatterns
from lcc.domain.notices.elements import TEXT_CHARS, ElementChecker, ElementError, as_sent
from lcc.domain.urls import URL_CHARS, Roots
from lcc.errors import SetError

SITE = "http://site.example/"


def checker(prefix: str = SITE) -> ElementChecker:
    return ElementChecker(Roots([SITE]), MimePatterns(["text/*"]), "", prefix, 24)


def refused(**attributes: str) -> ElementError:
    with pytest.raises(ElementError) as caught:
        checker().check({"c": "a", "m": "text/html", **attributes})
    return caught.value


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=3), st.text('ab"\\\n\x7f\u2028é😀', max_size=6), min_size=1)
)
@example({"a": "\\"})
@example({"a": '"'})
@example({"a": "\n"})
def test_what_was_sent_is_kept_as_json_whatever_stands_in_it(attributes: dict[str, str]) -> None:
    pairs = [text for pair in attributes.items() for text in pair]
    assert as_sent(attributes) == json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))


def test_a_url_may_have_so_many_characters_and_an_attribute_so_many() -> None:
    whole = "a" * (URL_CHARS - len(SITE))
    notice = checker().check({"c": whole, "m": "text/html"})
    assert notice is not None and len(notice.curl) == URL_CHARS
    assert refused(c=whole + "a").entry.name == "too-long"
    # Attributes that nobody knows may be longer than those that somebody does.
    assert checker().check({"c": "a", "m": "text/html", "other": "x" * (TEXT_CHARS + 1)}) is not None
    assert checker().check({"c": "a", "m": "text/html", "s": "x: " + "y" * (TEXT_CHARS - 3)}) is not None
    assert refused(s="x: " + "y" * (TEXT_CHARS - 2)).detail == f"s: more than {TEXT_CHARS} characters"
    assert refused(f="b" * (URL_CHARS + 1)).detail == f"f: more than {URL_CHARS} characters"


@pytest.mark.parametrize(
    ("names", "limit"),
    [
        ("curl c furl f burl b", 4096),
        ("mimetype m subtype s md5 len mtime op hours browse ifabsent outside", 1024),
    ],
)
def test_each_attribute_has_its_longest_value(names: str, limit: int) -> None:
    for name in names.split():
        fault = f"{name}: more than {limit} characters"
        assert refused(**{name: "x" * (limit + 1)}).detail == fault
        try:
            checker().check({"c": "a", "m": "text/html", name: "x" * limit})
        except ElementError as error:
            assert error.detail != fault


@pytest.mark.parametrize(
    ("name", "error"), [("md5", "bad-md5"), ("len", "bad-len"), ("mtime", "bad-mtime"), ("browse", "bad-flag")]
)
def test_a_fault_quotes_eighty_characters_of_a_value(name: str, error: str) -> None:
    found = refused(**{name: "x" * 200})
    assert found.entry.name == error and found.detail.count("x") == 80


def test_of_a_url_that_is_refused_no_more_is_told_than_a_url_may_have() -> None:
    for url in ("http://[" + "x" * URL_CHARS, "\u00fc" * (URL_CHARS // 2)):
        assert len(refused(f=url).url) == URL_CHARS


def test_a_prefix_may_be_as_long_as_a_url() -> None:
    assert checker(SITE + "a" * (URL_CHARS - len(SITE))) is not None
    with pytest.raises(SetError):
        checker(SITE + "a" * (URL_CHARS - len(SITE) + 1))


def test_a_flag_that_has_no_usual_value_may_not_be_empty() -> None:
    assert refused(outside="").entry.name == "bad-flag"


def test_of_a_scheme_forty_characters_are_told() -> None:
    found = refused(f="x" * 60 + "://host/")
    assert found.entry.name == "bad-scheme" and found.detail == "x" * 40


def test_a_subtype_that_is_none_is_left_out_and_counted() -> None:
    subject = checker()
    assert subject.check({"c": "a", "m": "text/html", "browse": "no"}) is not None
    for subtype, kept in (("no subtype", ""), ("", ""), ("a: b", "a: b"), (": b", "")):
        notice = subject.check({"c": "a", "m": "text/html", "s": subtype})
        assert notice is not None and notice.subtype == kept
    assert subject.blanked_subtypes == 2


def test_types_are_accepted_or_not() -> None:
    subject = checker()
    assert subject.accepts(["text/html", "TEXT/plain; x=y"]) is True
    assert subject.accepts(["text/html", "image/png"]) is False


@pytest.mark.parametrize(
    ("attributes", "url"),
    [
        ({"furl": "/f", "f": "/x", "c": "c"}, "http://site.example//f"),
        ({"f": "f2", "curl": "c"}, "http://site.example/f2"),
        ({"curl": "c2", "c": "other"}, "http://site.example/c2"),
        ({"c": "c3", "md5": "x"}, "http://site.example/c3"),
        ({"md5": "x"}, ""),
        ({"c": "http://h ost/", "m": "text/html"}, "http://h ost/"),
        ({"c": "b" * 5000, "m": "text/html"}, (SITE + "b" * 5000)[:URL_CHARS]),
    ],
)
def test_the_url_of_a_refused_element_is_what_would_have_been_fetched(attributes: dict[str, str], url: str) -> None:
    with pytest.raises(ElementError) as caught:
        checker().check(attributes)
    assert caught.value.url == url


def test_a_length_has_fifteen_digits_at_most() -> None:
    """As far as whole numbers go in a double, which is what JSON readers make of them."""
    for length in (0, 10**15 - 1):
        notice = checker().check({"c": "a", "m": "text/html", "len": str(length)})
        assert notice is not None and notice.length == length
    for wrong in (str(10**15), "9" * 16, "-1", "1.5"):
        error = refused(len=wrong)
        assert (error.entry.name, error.detail) == ("bad-len", wrong)


def test_a_subtype_has_something_behind_its_colon() -> None:
    for subtype in ("x:y", "x: y", "x:  y "):
        assert checker().check({"c": "a", "m": "text/html", "s": subtype}) is not None
