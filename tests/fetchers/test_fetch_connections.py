"""Connections kept, lost, cancelled, redirected and timed out; in memory, under a clock."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectError, NoRouteError, TimeoutError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.python.failure import Failure

from lcc.errors import FetchError, UrlError
from lcc.fetchers.http import HttpFetcher
from lcc.fetchers.registry import build_fetchers
from lcc.interfaces import IFetcher
from lcc.model import FetchOrder
from tests.hostile.answers import reply
from tests.support.roles.fetchers import SMALL, MemoryWeb, Sink, stay


def test_the_request_is_complete_and_one_write() -> None:
    web = MemoryWeb(attrs.evolve(SMALL, user_agent="LCC test\r\nX-Evil: yes", contact="me@example.org\r\nX: y"))
    web.fetch("http://127.0.0.1:8080/a%20b?c=d&e#fragment")
    assert web.accept().request() == (
        b"GET /a%20b?c=d&e HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"
        b"User-Agent: LCC testX-Evil: yes (+me@example.orgX: y)\r\n"
        b"Accept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\nAccept: */*\r\n\r\n"
    )
    web.finish()


@pytest.mark.parametrize(
    ("url", "first", "host"),
    [
        ("http://example.org", b"GET / HTTP/1.1", b"Host: example.org"),
        ("http://example.org:80/", b"GET / HTTP/1.1", b"Host: example.org"),
        ("http://EXAMPLE.org?q", b"GET /?q HTTP/1.1", b"Host: example.org"),
        ("http://[::1]:81/x", b"GET /x HTTP/1.1", b"Host: [::1]:81"),
    ],
)
def test_urls_become_requests(url: str, first: bytes, host: bytes) -> None:
    web = MemoryWeb()
    web.fetch(url)
    lines = web.accept().request().split(b"\r\n")
    assert lines[:2] == [first, host]
    web.finish()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/",
        "http:///x",
        "http://user@127.0.0.1/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/a\r\nX: y",
        "http://127.0.0.1/a\n",
        "http://127.0.0.1\r\nX: y/",
        "http://127.0.0.1/\u00e9",
        "http://[::1",
        "",
    ],
)
def test_what_is_no_url_is_not_fetched(url: str) -> None:
    web = MemoryWeb()
    (outcome,) = web.fetch(url)
    assert outcome.error == "scheme-unsupported"
    assert web.reactor.tcpClients == []
    web.finish()


def test_metadata_is_taken_from_the_header() -> None:
    web = MemoryWeb()
    outcomes = web.fetch("http://127.0.0.1/page")
    sent = reply(
        b"hello",
        "200 OK",
        'Content-Type: Text/HTML; Charset="UTF-8"',
        "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT",
        'ETag: "abc"',
        "Set-Cookie: secret=1",
    )
    web.accept().send(sent)
    fetched = outcomes[0].fetched
    assert fetched is not None
    assert (fetched.status, fetched.url) == (200, "http://127.0.0.1/page")
    assert (fetched.mimetype, fetched.charset) == ("text/html", "utf-8")
    assert (fetched.modified, fetched.etag, fetched.wire_bytes) == (1445412480, '"abc"', len(sent))
    kept = json.loads(fetched.headers)
    assert kept[:2] == ["Content-Length", "5"]
    assert "secret" not in fetched.headers
    web.finish()


def test_a_connection_serves_again_for_the_same_provider_only() -> None:
    web = MemoryWeb()
    web.fetch(pid=1)
    first = web.accept()
    first.request()
    first.send(reply())
    again = web.fetch("http://127.0.0.1/other", pid=1)
    assert first.request().startswith(b"GET /other ")
    first.send(reply(b"again"))
    assert again[0].content == b"again"
    web.fetch(pid=2)
    assert len(web.reactor.tcpClients) == 2
    web.fetch("http://127.0.0.1:81/page", pid=1)
    assert len(web.reactor.tcpClients) == 3
    web.finish()


def test_an_idle_connection_is_closed_after_a_while() -> None:
    web = MemoryWeb()
    web.fetch()
    peer = web.accept()
    peer.send(reply())
    web.reactor.advance(SMALL.keepalive - 0.1)
    peer.settle()
    assert not peer.lost
    web.reactor.advance(0.2)
    peer.settle()
    assert peer.lost
    web.fetch()
    assert len(web.reactor.tcpClients) == 2
    web.finish()


@pytest.mark.parametrize("why", ["idle", "unasked"])
def test_an_idle_connection_that_is_being_closed_serves_no_more(why: str) -> None:
    """The reactor has not yet said that it is gone."""
    web = MemoryWeb()
    web.fetch()
    peer = web.accept()
    peer.send(reply())
    if why == "idle":
        web.reactor.advance(SMALL.keepalive + 0.1)
    else:
        peer.protocol.dataReceived(reply(b"", "408 Request Timeout"))
    outcomes = web.fetch("http://127.0.0.1/other")
    assert len(web.reactor.tcpClients) == 2
    web.accept().send(reply(b"other"))
    assert outcomes[0].content == b"other"
    peer.settle()
    web.finish()


def test_idle_connections_are_bounded() -> None:
    web = MemoryWeb(attrs.evolve(SMALL, concurrency=1))
    peers = []
    for pid in range(10):
        web.fetch(pid=pid)
        peers.append(web.accept())
        peers[-1].send(reply())
        for peer in peers:
            peer.settle()
    assert [peer.lost for peer in peers] == [True] * 6 + [False] * 4
    web.finish()


def test_keepalive_of_zero_keeps_nothing() -> None:
    web = MemoryWeb(attrs.evolve(SMALL, keepalive=0.0))
    web.fetch()
    peer = web.accept()
    peer.send(reply())
    assert peer.lost
    web.finish()


def test_what_comes_unasked_on_an_idle_connection_ends_it() -> None:
    web = MemoryWeb()
    web.fetch()
    peer = web.accept()
    peer.send(reply(), b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert peer.lost
    web.finish()


@pytest.mark.parametrize("clean", [True, False])
def test_a_request_that_dies_on_a_kept_connection_is_sent_once_more(clean: bool) -> None:
    web = MemoryWeb()
    web.fetch()
    old = web.accept()
    old.send(reply())
    outcomes = web.fetch("http://127.0.0.1/second")
    old.end(clean)
    assert not outcomes
    new = web.accept()
    assert new.request().startswith(b"GET /second ")
    new.send(reply(b"second"))
    assert outcomes[0].content == b"second"
    web.finish()


def test_it_is_sent_only_once_more() -> None:
    web = MemoryWeb()
    web.fetch()
    old = web.accept()
    old.send(reply())
    outcomes = web.fetch()
    old.end()
    web.accept().end()
    assert outcomes[0].error == "connection-lost"
    assert len(web.reactor.tcpClients) == 2
    web.finish()


def test_an_answer_that_began_is_not_asked_for_again() -> None:
    web = MemoryWeb()
    web.fetch()
    old = web.accept()
    old.send(reply())
    outcomes = web.fetch()
    old.send(b"HTTP")
    old.end()
    assert outcomes[0].error == "early-eof"
    web.finish()


def test_a_new_connection_that_dies_is_not_tried_again() -> None:
    web = MemoryWeb()
    outcomes = web.fetch()
    web.accept().end()
    assert outcomes[0].error == "connection-lost"
    assert len(web.reactor.tcpClients) == 1
    web.finish()


def test_a_body_that_trickles_meets_the_deadline() -> None:
    web = MemoryWeb()
    outcomes = web.fetch()
    peer = web.accept()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(100):
        if outcomes:
            break
        web.reactor.advance(SMALL.idle_timeout / 2)
        peer.send(b"x")
    assert outcomes[0].error == "deadline"
    assert web.reactor.seconds() <= SMALL.deadline + SMALL.idle_timeout
    web.finish()


def test_headers_that_trickle_meet_the_deadline() -> None:
    web = MemoryWeb()
    outcomes = web.fetch()
    peer = web.accept()
    peer.send(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(100):
        if outcomes:
            break
        web.reactor.advance(SMALL.idle_timeout / 2)
        peer.send(b"x")
    assert outcomes[0].error == "deadline"
    web.finish()


def test_one_deadline_for_all_redirects() -> None:
    web = MemoryWeb(attrs.evolve(SMALL, redirects_max=20))
    outcomes = web.fetch()
    peer = web.accept()
    for _ in range(20):
        web.reactor.advance(SMALL.idle_timeout * 0.9)
        peer.send(reply(b"", "302 Found", "Location: /next"))
        if outcomes:
            break
    assert outcomes[0].error == "deadline"
    web.finish()


def test_redirects_are_followed_on_the_same_connection() -> None:
    web = MemoryWeb()
    outcomes = web.fetch("http://127.0.0.1/one")
    peer = web.accept()
    peer.request()
    for status in ("301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
        peer.send(reply(b"moved", status, f"Location: /{status[:3]}"))
        assert peer.request().startswith(b"GET /" + status[:3].encode())
    peer.send(reply(b"here"))
    assert outcomes[0].content == b"here"
    fetched = outcomes[0].fetched
    assert fetched is not None
    assert fetched.url == "http://127.0.0.1/308"
    web.finish()


def test_a_redirect_with_a_long_body_costs_the_connection_only() -> None:
    web = MemoryWeb()
    outcomes = web.fetch("http://127.0.0.1/one")
    first = web.accept()
    first.send(b"HTTP/1.1 302 Found\r\nLocation: /two\r\nContent-Length: 999999999\r\n\r\nblah")
    assert first.lost
    second = web.accept()
    assert second.request().startswith(b"GET /two ")
    second.send(reply(b"two"))
    assert outcomes[0].content == b"two"
    web.finish()


def test_a_redirect_may_lead_to_another_site_of_the_provider() -> None:
    web = MemoryWeb()
    outcomes = web.fetch("http://127.0.0.1/one")
    web.accept().send(reply(b"", "302 Found", "Location: http://127.0.0.1:8080/two"))
    assert web.reactor.tcpClients[-1][1] == 8080
    web.accept().send(reply(b"two"))
    assert outcomes[0].content == b"two"
    web.finish()


@pytest.mark.parametrize(
    ("target", "error"),
    [("http://127.0.0.1:8080/two", "redirect-unreachable"), ("http://127.0.0.1/two", "connect-refused")],
)
def test_a_dead_site_behind_a_redirect_is_the_url_s_trouble_not_the_provider_s(target: str, error: str) -> None:
    web = MemoryWeb()
    outcomes = web.fetch("http://127.0.0.1/one")
    web.accept().send(reply(b"", "302 Found", f"Location: {target}", "Connection: close"))
    factory = web.reactor.tcpClients[-1][2]
    factory.clientConnectionFailed(web.reactor.connectors[-1], Failure(Refused()))
    assert outcomes[0].error == error
    web.finish()


def test_a_redirect_cannot_lead_to_a_private_address() -> None:
    web = MemoryWeb()
    outcomes = web.fetch("http://192.0.1.1/", private=False)
    web.accept().send(reply(b"", "302 Found", "Location: http://169.254.169.254/latest/meta-data/"))
    assert outcomes[0].error == "address-forbidden"
    assert len(web.reactor.tcpClients) == 1
    web.finish()


def test_what_follow_raises_becomes_a_fetch_error(logged_errors: Any) -> None:
    def refuse(url: str, location: str) -> str:
        raise UrlError("bad-url", location)

    def fail(url: str, location: str) -> str:
        raise ZeroDivisionError

    for follow, error in ((refuse, "redirect-outside"), (fail, "robot-error")):
        web = MemoryWeb()
        outcomes = web.fetch(follow=follow)
        web.accept().send(reply(b"", "302 Found", "Location: x"))
        assert outcomes[0].error == error
        web.finish()
    assert len(logged_errors.flush("ZeroDivisionError")) == 1


def test_a_full_disk_is_told_in_words() -> None:
    web = MemoryWeb()
    outcomes = web.fetch(sink=Sink(room=3))
    peer = web.accept()
    peer.send(reply())
    assert outcomes[0].error == "store-failed"
    assert outcomes[0].failure is not None
    assert "No space left on device" in outcomes[0].failure.text
    assert peer.transport.disconnected
    web.finish()


def test_a_sink_that_fails_otherwise_is_logged(logged_errors: Any) -> None:
    class Broken(Sink):
        def write(self, data: bytes) -> None:
            raise ZeroDivisionError

    web = MemoryWeb()
    outcomes = web.fetch(sink=Broken())
    web.accept().send(reply())
    assert outcomes[0].error == "robot-error"
    assert len(logged_errors.flush("ZeroDivisionError")) == 1
    web.finish()


@pytest.mark.parametrize("progress", ["connecting", "asking", "head", "body", "redirect"])
def test_cancelling_closes_at_once(progress: str) -> None:
    web = MemoryWeb()
    sink = Sink()
    result = web.fetcher.fetch(FetchOrder(1, "http://127.0.0.1/", private=True), sink, stay)
    ends: list[Failure] = []
    result.addErrback(ends.append)
    peer = None
    if progress != "connecting":
        peer = web.accept()
        sent = {
            "asking": b"",
            "head": b"HTTP/1.1 200 OK\r\n",
            "body": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe",
            "redirect": b"HTTP/1.1 302 Found\r\nContent-Length: 5\r\nLocation: /\r\n\r\nhe",
        }[progress]
        if sent:
            peer.send(sent)
    result.cancel()
    assert [end.check(CancelledError) for end in ends] == [CancelledError]
    # What had travelled must be paid for, by the provider's bandwidth.
    assert ends[0].value.wire_bytes == (0 if peer is None else len(sent))
    if peer is not None:
        assert peer.transport.disconnected
        peer.settle()
    web.finish()
    assert sink.content == (b"he" if progress == "body" else b"")


def test_closing_ends_what_runs_and_takes_no_more() -> None:
    web = MemoryWeb()
    ends: list[Failure] = []
    for _ in range(2):
        order = FetchOrder(1, "http://127.0.0.1/", private=True)
        web.fetcher.fetch(order, Sink(), stay).addErrback(ends.append)
    web.accept()
    web.finish()
    assert [end.check(CancelledError) for end in ends] == [CancelledError, CancelledError]
    (late,) = web.fetch()
    assert late.error == "robot-error"
    web.finish()


def test_the_deadline_also_bounds_connecting() -> None:
    web = MemoryWeb(attrs.evolve(SMALL, connect_timeout=300.0))
    outcomes = web.fetch()
    web.reactor.advance(SMALL.deadline)
    assert outcomes[0].error == "deadline"
    web.finish()


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (Refused(), "connect-refused"),
        (TimeoutError(), "connect-timeout"),
        (NoRouteError(), "connect-refused"),
        (ConnectError(24, "Too many open files"), "robot-error"),
    ],
)
def test_what_can_go_wrong_when_connecting(reason: Exception, error: str) -> None:
    web = MemoryWeb()
    outcomes = web.fetch()
    web.reactor.tcpClients[-1][2].clientConnectionFailed(None, Failure(reason))
    assert outcomes[0].error == error
    web.finish()


def test_the_connected_peer_is_judged_again() -> None:
    web = MemoryWeb()
    outcomes = web.fetch("http://192.0.1.1/", private=False)
    peer = web.accept(address="10.0.0.1")
    assert peer.transport.disconnected
    assert peer.request() == b""
    peer.settle()
    assert outcomes[0].error == "address-forbidden"
    web.finish()


def test_every_scheme_has_its_fetcher() -> None:
    web = MemoryWeb()
    fetchers = build_fetchers(web.reactor, SMALL)
    assert set(fetchers) == {"http", "https", "ftp", "file"}
    assert fetchers["http"] is fetchers["https"]
    assert IFetcher.providedBy(fetchers["http"])
    assert isinstance(fetchers["http"], HttpFetcher)


def test_a_status_is_its_own_code() -> None:
    error = FetchError.from_status(404, "of the page")
    assert (error.code, error.text) == (404, "Not Found: of the page")
