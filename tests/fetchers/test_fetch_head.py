"""What is read from response heads."""

from __future__ import annotations

import json
from datetime import datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.fetchers.http_head import (
    RETRY_SECONDS_MAX,
    ResponseHead,
    content_type,
    entity_tag,
    http_time,
    kept_headers,
    retry_after,
)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"text/html", ("text/html", "")),
        (b" Text/HTML ; charset=UTF-8", ("text/html", "utf-8")),
        (b'text/html; a=b; Charset="iso-8859-1"; c=d', ("text/html", "iso-8859-1")),
        (b"text/html;charset=utf-8;", ("text/html", "utf-8")),
        (b"text/html; xcharset=utf-8", ("text/html", "")),
        (b"text/html; charset=a b", ("text/html", "")),
        (b"text/html; charset='utf 8'", ("text/html", "")),
        (b"text/html, text/plain", ("", "")),
        (b"text", ("", "")),
        (b"/", ("", "")),
        (b"", ("", "")),
        (b"te xt/html", ("", "")),
        (b"text/html;" + b" " * 1014, ("text/html", "")),
        (b"text/html;" + b" " * 1015, ("", "")),
        (b"\xff\xfe/x", ("", "")),
        (b"x" * 200 + b"/y", ("", "")),
        (b"application/xhtml+xml", ("application/xhtml+xml", "")),
    ],
)
def test_content_types(value: bytes, found: tuple[str, str]) -> None:
    assert content_type(value) == found


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"Wed, 21 Oct 2015 07:28:00 GMT", 1445412480),
        (b"Wed, 21 Oct 2015 07:28:00 +0200", 1445405280),
        (b"Wednesday, 21-Oct-15 07:28:00 GMT", 1445412480),
        (b"Wed Oct 21 07:28:00 2015", 1445412480),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", 0),
        (b"Wed, 31 Dec 1969 23:59:59 GMT", None),
        (b"Wed, 21 Oct 0015 07:28:00 GMT", None),
        (b"Wed, 21 Foo 2015 07:28:00 GMT", None),
        (b"Wed, 41 Oct 2015 07:28:00 GMT", None),
        (b"Wed, 21 Oct 2015 99:28:00 GMT", None),
        (b"yesterday", None),
        (b"0", None),
        (b"-1", None),
        (b"", None),
        (b"\xff" * 500, None),
    ],
)
def test_dates(value: bytes, seconds: int | None) -> None:
    assert http_time(value) == seconds


@given(st.binary(max_size=200))
def test_nothing_in_a_header_value_raises(value: bytes) -> None:
    mimetype, charset = content_type(value)
    assert len(mimetype) + len(charset) < 400
    seconds = http_time(value)
    assert seconds is None or seconds >= 0
    assert len(entity_tag(value)) <= 255


def test_entity_tags() -> None:
    assert entity_tag(b' W/"x y" ') == 'W/"x y"'
    assert entity_tag(b"x" * 256) == ""
    assert entity_tag(b'"\x01"') == ""


def head(*raw: tuple[bytes, bytes]) -> ResponseHead:
    return ResponseHead(200, list(raw), {name.lower(): value for name, value in raw})


FIELD_VALUES = st.binary(max_size=40).map(lambda value: value.translate(None, b"\r\n\0"))


@given(
    st.lists(st.tuples(st.sampled_from([b"A", b"ETag", b"Set-Cookie", b"set-cookie2"]), FIELD_VALUES)),
    st.integers(0, 600),
)
def test_kept_headers_are_json_within_bounds(raw: list[tuple[bytes, bytes]], bytes_max: int) -> None:
    text = kept_headers(head(*raw), bytes_max)
    assert len(text) <= bytes_max
    assert text.isascii()
    wanted = [item.decode("latin-1") for pair in raw if b"ookie" not in pair[0] for item in pair]
    if text:
        found = json.loads(text)
        assert found == wanted[: len(found)]
        assert len(found) % 2 == 0
    whole = json.dumps(wanted, separators=(",", ":"))
    if len(whole) <= bytes_max:
        assert json.loads(text) == wanted


def test_what_says_something_of_the_page_is_given_up_last() -> None:
    others = [(b"X-Long-%d" % number, b"x" * 50) for number in range(20)]
    short, long = (b"x-robots-tag", b"nofollow"), (b"Link", b"<http://a.example/%s>; rel=next" % (b"x" * 300))
    assert json.loads(kept_headers(head(*others, long, short), 100)) == ["x-robots-tag", "nofollow"]
    kept = json.loads(kept_headers(head(*others, long, short), 1000))
    assert kept[:3] == ["x-robots-tag", "nofollow", "Link"] and len(kept) > 4
    assert json.loads(kept_headers(head(*others, long, short), 10)) == []


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31)))
def test_every_date_in_the_usual_form(when: datetime) -> None:
    seconds = int((when.replace(microsecond=0) - datetime(1970, 1, 1)).total_seconds())
    assert http_time(formatdate(seconds, usegmt=True).encode()) == seconds


@pytest.mark.parametrize(
    "value",
    [
        b"Wed, 21 Oct 2015 07:28:0a GMT",
        b"Wed, 21 Oct 2015 24:28:00 GMT",
        b"Wed, 21 Oct 2015 07:60:00 GMT",
        b"Wed, 21 Oct 2015 07:28:61 GMT",
        b"Wed, 31 Feb 2015 07:28:00 GMT",
        b"Wed, 00 Oct 2015 07:28:00 GMT",
        b"Wed, 21 Oct 2015  7:28:00 GMT",
    ],
)
def test_dates_that_there_are_not(value: bytes) -> None:
    assert http_time(value) in (None, http_time(b"Wed, 21 Oct 2015 07:28:00 GMT"))


@given(st.binary(max_size=40))
def test_no_date_makes_trouble(value: bytes) -> None:
    assert http_time(value) is None or 0 <= (http_time(value) or 0) < 1 << 40
    assert http_time(b"Wed, 21 Oct 2015 " + value) is None or value


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"120", 120),
        (b" 7 ", 7),
        (b"0", 0),
        (b"99999999999", RETRY_SECONDS_MAX),
        (b"9" * 5000, 0),
        (b"-5", 0),
        (b"1.5", 0),
        (b"", 0),
        (b"soon", 0),
        (b"Wed, 21 Oct 2015 07:29:00 GMT", 60),
        (b"Wednesday, 21-Oct-15 07:28:10 GMT", 10),
        (b"Wed, 21 Oct 2015 07:27:00 GMT", 0),
        (b"Wed, 21 Oct 9999 07:27:00 GMT", RETRY_SECONDS_MAX),
        (b"\xff", 0),
    ],
)
def test_retry_after(value: bytes, seconds: int) -> None:
    date = b"Wed, 21 Oct 2015 07:28:00 GMT"
    assert retry_after({b"retry-after": value, b"date": date}) == seconds
    known = seconds if value.strip().isdigit() else 0
    assert retry_after({b"retry-after": value, b"date": b"?"}) == known
    assert retry_after({b"date": date}) == 0
