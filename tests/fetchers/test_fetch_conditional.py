"""Asking whether what is stored is still right, what is asked for, and how coded content is reported."""

from __future__ import annotations

import gzip
from typing import Any

import attrs
import pytest

from lcc.fetchers.http_head import may_revalidate
from lcc.model import FetchOrder
from tests.hostile.answers import reply
from tests.support.roles.fetchers import SMALL, MemoryWeb, Outcome, Sink, collect, stay

ORDER = FetchOrder(1, "http://127.0.0.1/page", "text/html", private=True)
STORED = ORDER._replace(conditional=True, etag='W/"abc"', modified=1445412480, stored_bytes=5)
NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "abc"\r\nDate: Wed, 21 Oct 2015 08:00:00 GMT\r\n\r\n'
CONDITIONS = (b'If-None-Match: W/"abc"', b"If-Modified-Since: Wed, 21 Oct 2015 07:28:00 GMT")


def ask(web: MemoryWeb, order: FetchOrder) -> tuple[list[Outcome], Sink]:
    """Start a fetch; the list gets its outcome."""
    outcomes: list[Outcome] = []
    sink = Sink()
    collect(web.fetcher.fetch(order, sink, stay), sink).addCallback(outcomes.append)
    return outcomes, sink


def test_what_is_stored_is_asked_about_and_confirmed() -> None:
    web = MemoryWeb()
    outcomes, sink = ask(web, STORED)
    peer = web.accept()
    lines = peer.request().split(b"\r\n")
    assert all(condition in lines for condition in CONDITIONS)
    assert lines[-2:] == [b"", b""] and lines.count(b"") == 2
    peer.send(NOT_MODIFIED)
    (outcome,) = outcomes
    assert outcome.error == "" and sink.content == b""
    assert outcome.fetched is not None
    assert outcome.fetched.unchanged and outcome.fetched.status == 304
    assert outcome.fetched.wire_bytes == len(NOT_MODIFIED)
    # The connection serves again, and the next request has none of it.
    outcomes, _ = ask(web, ORDER)
    assert not any(condition in peer.request() for condition in CONDITIONS)
    peer.send(reply())
    assert outcomes[0].content == b"hello"
    assert outcomes[0].fetched is not None and not outcomes[0].fetched.unchanged
    web.finish()


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"etag": ""}, CONDITIONS[1:]),
        ({"modified": None}, CONDITIONS[:1]),
        ({"etag": "", "modified": None}, ()),
        ({"modified": 1 << 39}, CONDITIONS[:1]),
        ({"etag": '"a\r\nX-Evil: yes"'}, (b'If-None-Match: "aX-Evil: yes"', CONDITIONS[1])),
        ({"etag": '"\xe4\u20ac"'}, (b'If-None-Match: "\xe4?"', CONDITIONS[1])),
        ({"conditional": False}, ()),
    ],
)
def test_conditions(changes: dict[str, Any], lines: tuple[bytes, ...]) -> None:
    web = MemoryWeb()
    ask(web, STORED._replace(**changes))
    found = [line for line in web.accept().request().split(b"\r\n") if line.startswith(b"If-")]
    assert found == list(lines)
    web.finish()


@pytest.mark.parametrize(
    "more",
    [
        b"Content-Length: 10240\r\n",
        b"Content-Length: 99999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Content-Type: image/png\r\n",
        b"Location: http://evil.example/\r\n",
    ],
)
def test_not_modified_has_no_body_whatever_it_says(more: bytes) -> None:
    web = MemoryWeb()
    outcomes, _ = ask(web, STORED)
    peer = web.accept()
    peer.send(NOT_MODIFIED[:-2] + more + b"\r\n")
    assert [outcome.error for outcome in outcomes] == [""]
    outcomes, _ = ask(web, ORDER)
    peer.send(reply())
    assert outcomes[0].content == b"hello"
    web.finish()


def test_the_server_may_send_new_content() -> None:
    web = MemoryWeb()
    outcomes, sink = ask(web, STORED)
    web.accept().send(reply(b"newer"))
    assert outcomes[0].fetched is not None and not outcomes[0].fetched.unchanged
    assert sink.content == b"newer"
    web.finish()


def test_not_modified_without_having_been_asked_that_is_an_error() -> None:
    web = MemoryWeb()
    outcomes, _ = ask(web, ORDER)
    web.accept().send(NOT_MODIFIED)
    assert [outcome.error for outcome in outcomes] == ["bad-response"]
    web.finish()


def test_where_a_redirect_leads_is_not_asked_about() -> None:
    web = MemoryWeb()
    outcomes, _ = ask(web, STORED)
    peer = web.accept()
    peer.request()
    peer.send(reply(b"", "302 Found", "Location: /other"))
    request = peer.request()
    assert request.startswith(b"GET /other ")
    assert b"If-" not in request
    peer.send(NOT_MODIFIED)
    assert [outcome.error for outcome in outcomes] == ["bad-response"]
    web.finish()


def test_a_request_that_is_sent_again_is_the_same() -> None:
    web = MemoryWeb()
    outcomes, _ = ask(web, ORDER)
    first = web.accept()
    first.send(reply())
    outcomes, _ = ask(web, STORED)
    asked = [line for line in first.request().split(b"\r\n\r\n") if CONDITIONS[0] in line]
    first.end()  # the kept connection was closed meanwhile
    second = web.accept()
    assert asked == [second.request().removesuffix(b"\r\n\r\n")]
    second.send(NOT_MODIFIED)
    assert outcomes[0].fetched is not None and outcomes[0].fetched.unchanged
    web.finish()


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        (['ETag: "x"'], True),
        (["Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT", "Date: Wed, 21 Oct 2015 07:28:02 GMT"], True),
        (["Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT", "Date: Wed, 21 Oct 2015 07:28:01 GMT"], False),
        (["Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT", "Date: Wed, 21 Oct 2015 07:28:00 GMT", 'ETag: "x"'], False),
        (["Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT", "Date: Wed, 21 Oct 2014 07:28:00 GMT", 'ETag: "x"'], False),
        (["Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT", 'ETag: "x"'], False),
        (["Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT", "Date: now", 'ETag: "x"'], False),
        (["Last-Modified: lately", "Date: Wed, 21 Oct 2015 07:28:02 GMT", 'ETag: "x"'], False),
        (["Date: Wed, 21 Oct 2015 07:28:02 GMT"], False),
        ([f'ETag: "{"x" * 300}"'], False),
        ([], False),
    ],
)
def test_what_may_be_asked_about_next_time(fields: list[str], may: bool) -> None:
    """A page that is modified twice in a second has the same time, and with many servers the same entity tag."""
    web = MemoryWeb()
    outcomes, _ = ask(web, ORDER)
    peer = web.accept()
    peer.send(reply(b"hello", "200 OK", *fields))
    assert outcomes[0].fetched is not None
    assert outcomes[0].fetched.revalidate == may
    # What came from somewhere else is not this URL's.
    outcomes, _ = ask(web, ORDER)
    peer.send(reply(b"", "302 Found", "Location: /other"), reply(b"hello", "200 OK", *fields))
    assert outcomes[0].fetched is not None
    assert not outcomes[0].fetched.revalidate
    web.finish()


def test_a_date_that_many_share_is_read_once() -> None:
    fields = {b"last-modified": b"x", b"date": b"Wed, 21 Oct 2015 07:28:02 GMT"}
    assert may_revalidate(fields, "", 1445412480)
    assert not may_revalidate(fields, "", 1445412481)


@pytest.mark.parametrize(
    ("mimetype", "accept"),
    [
        ("text/html", b"text/html, */*;q=0.1"),
        ("", b"*/*"),
        ("*/*", b"*/*"),
        ("text/*", b"text/*, */*;q=0.1"),
        ("text/a\r\nX: y", b"text/aX: y, */*;q=0.1"),
    ],
)
def test_the_view_that_was_told_is_asked_for(mimetype: str, accept: bytes) -> None:
    web = MemoryWeb()
    ask(web, ORDER._replace(mimetype=mimetype))
    assert b"Accept: " + accept in web.accept().request().split(b"\r\n")
    web.finish()


@pytest.mark.parametrize(
    ("contact", "lines"),
    [
        ("", [b"User-Agent: LCC/0.1"]),
        ("me@example.org", [b"User-Agent: LCC/0.1 (+me@example.org)", b"From: me@example.org"]),
        ("mailto:me@example.org", [b"User-Agent: LCC/0.1 (+mailto:me@example.org)", b"From: me@example.org"]),
        ("https://example.org/@lcc", [b"User-Agent: LCC/0.1 (+https://example.org/@lcc)"]),
    ],
)
def test_who_asks(contact: str, lines: list[bytes]) -> None:
    web = MemoryWeb(attrs.evolve(SMALL, contact=contact))
    ask(web, ORDER)
    request = web.accept().request().split(b"\r\n")
    assert [line for line in request if line.startswith((b"User-Agent", b"From"))] == lines
    web.finish()


def test_compression_can_be_switched_off() -> None:
    web = MemoryWeb(attrs.evolve(SMALL, compression=False))
    ask(web, ORDER)
    assert b"\r\nAccept-Encoding: identity\r\n" in web.accept().request()
    web.finish()


def test_the_ratio_is_configured() -> None:
    page = b"\0" * 2_000_000
    for ratio, error in ((200, "body-too-long"), (100_000, "")):
        web = MemoryWeb(attrs.evolve(SMALL, body_bytes_max=4_000_000, decoded_ratio_max=ratio))
        outcomes, sink = ask(web, ORDER)
        web.accept().send(reply(gzip.compress(page), "200 OK", "Content-Encoding: gzip"))
        assert [outcome.error for outcome in outcomes] == [error]
        assert error or sink.content == page
        web.finish()


def test_a_cookie_is_neither_kept_nor_sent() -> None:
    web = MemoryWeb()
    outcomes, _ = ask(web, ORDER)
    peer = web.accept()
    peer.request()
    peer.send(reply(b"hello", "200 OK", "Set-Cookie: secret=1"))
    assert outcomes[0].fetched is not None and "secret" not in outcomes[0].fetched.headers
    ask(web, ORDER)
    assert b"ookie" not in peer.request()
    web.finish()
