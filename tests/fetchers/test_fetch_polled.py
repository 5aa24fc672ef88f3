"""What is polled, what has no mime type, and where redirects lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcc.domain.urls import followed_redirect
from lcc.model import FetchOrder
from lcc.roles.bot.redirects import Redirects
from tests.hostile.answers import reply
from tests.support.roles.fetchers import MemoryWeb, Outcome, Sink, collect

ROOTS = "http://127.0.0.1/blog/"
ORDER = FetchOrder(1, "http://127.0.0.1/blog/feed", private=True)
POLL = ORDER._replace(polled=True)


def ask(web: MemoryWeb, order: FetchOrder, follow: Callable[[str, str], str] = followed_redirect) -> list[Outcome]:
    outcomes: list[Outcome] = []
    sink = Sink()
    collect(web.fetcher.fetch(order, sink, follow), sink).addCallback(outcomes.append)
    return outcomes


def redirect(status: int, location: str) -> bytes:
    return reply(b"", f"{status} X", f"Location: {location}")


def test_a_redirect_of_what_is_polled_leads_anywhere() -> None:
    for polled in (True, False):
        web = MemoryWeb()
        outcomes = ask(web, ORDER._replace(polled=polled), Redirects().rule(ROOTS, polled))
        peer = web.accept()
        peer.request()
        peer.send(redirect(301, "http://93.184.216.34/blog.xml"))
        if polled:
            other = web.accept()
            assert other.request().startswith(b"GET /blog.xml ")
            other.send(reply())
        assert [outcome.error for outcome in outcomes] == ["" if polled else "redirect-outside"]
        web.finish()


@pytest.mark.parametrize("status", [301, 302])
def test_a_feed_that_redirects_in_a_circle(status: int) -> None:
    """By two hosts that send each other on: an error of that poll, after a few requests."""
    web = MemoryWeb()
    outcomes = ask(web, POLL._replace(private=False, url="http://93.184.216.34/0"), Redirects().rule(ROOTS, True))
    requests = 0
    while not outcomes:
        peer = web.accept()
        peer.request()
        requests += 1
        assert requests < 20
        there = f"Location: http://93.184.216.{35 - requests % 2}/{requests % 2}"
        peer.send(reply(b"", f"{status} X", there, "Connection: close"))
    assert outcomes[0].error == "redirect-loop" and requests > 1
    web.finish()


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("http://127.0.0.1:81/", "address-forbidden"),  # another service of the same host
        ("http://127.0.0.2/", "address-forbidden"),
        ("http://[::1]/", "address-forbidden"),
        ("http://10.0.0.1/", "address-forbidden"),
        ("http://169.254.169.254/", "address-forbidden"),
        ("ftp://127.0.0.1/", "scheme-unsupported"),
        ("file:///etc/passwd", "scheme-unsupported"),
    ],
)
def test_private_addresses_are_for_the_site_that_was_asked(location: str, error: str) -> None:
    web = MemoryWeb()
    outcomes = ask(web, POLL)
    peer = web.accept()
    peer.request()
    peer.send(redirect(302, location))
    assert outcomes and outcomes[0].error in (error, "redirect-unreachable", "redirect-outside"), outcomes
    assert len(web.reactor.tcpClients) == 1
    web.finish()


def test_a_private_site_may_move_to_https() -> None:
    web = MemoryWeb()
    ask(web, POLL)
    peer = web.accept()
    for location in ("/elsewhere", "https://127.0.0.1/"):
        peer.request()
        peer.send(redirect(301, location))
    assert web.reactor.tcpClients[-1][:2] == ("127.0.0.1", 443)
    web.fetcher.close()


def test_nobody_elses_redirect_leads_back_to_a_private_address() -> None:
    web = MemoryWeb()
    outcomes = ask(web, POLL)
    for location in ("http://93.184.216.34:8080/", "http://127.0.0.1/admin?delete=all"):
        peer = web.accept()
        peer.request()
        peer.send(redirect(302, location))
    assert [outcome.error for outcome in outcomes] == ["address-forbidden"]
    assert len(web.reactor.tcpClients) == 2
    web.finish()


@pytest.mark.parametrize(
    ("statuses", "moved"),
    [
        ([301], "http://127.0.0.1/1"),
        ([308, 301], "http://127.0.0.1/2"),
        ([302], ""),
        ([302, 301], ""),
        ([301, 302, 301], "http://127.0.0.1/1"),
        ([], ""),
    ],
)
def test_where_permanent_redirects_lead(statuses: list[int], moved: str) -> None:
    web = MemoryWeb()
    outcomes = ask(web, ORDER)
    peer = web.accept()
    for number, status in enumerate(statuses, 1):
        peer.request()
        peer.send(redirect(status, f"/{number}"))
    peer.request()
    peer.send(reply())
    fetched = outcomes[0].fetched
    assert fetched is not None and fetched.moved == moved
    assert fetched.url == (f"http://127.0.0.1/{len(statuses)}" if statuses else ORDER.url)
    web.finish()


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("text/html; charset=utf-8", True),
        ("TEXT/plain", True),
        ("application/pdf", True),
        ("video/mp4", False),
        ("application/octet-stream", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_a_type_that_is_not_taken_ends_at_the_header(kind: str, taken: bool) -> None:
    web = MemoryWeb()
    outcomes = ask(web, ORDER._replace(accepts="text/* application/pdf"))
    peer = web.accept()
    assert b"Accept: */*" in peer.request()
    field = f"Content-Type: {kind}\r\n" if kind else ""
    peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n{field}\r\n".encode())
    assert bool(outcomes) is not taken
    if not taken:
        assert outcomes[0].error == "mimetype-not-accepted" and peer.lost
    web.fetcher.close()


def test_the_header_of_not_modified_is_told_of_what_is_polled() -> None:
    for renew in (True, False):
        web = MemoryWeb()
        order = ORDER._replace(renew=renew, conditional=True, etag='"e"')
        outcomes = ask(web, order)
        peer = web.accept()
        peer.request()
        peer.send(b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n")
        fetched = outcomes[0].fetched
        assert fetched is not None and fetched.unchanged
        assert fetched.headers == ('["Cache-Control","max-age=60"]' if renew else "")
        web.finish()


@pytest.mark.parametrize(("status", "seconds"), [(429, 7), (503, 7), (500, 0), (404, 0)])
def test_only_429_and_503_are_asked_when_to_come_back(status: int, seconds: int) -> None:
    web = MemoryWeb()
    errors: list[Any] = []
    fetching = web.fetcher.fetch(ORDER, Sink(), followed_redirect)
    fetching.addErrback(lambda failure: errors.append(failure.value))
    peer = web.accept()
    peer.request()
    peer.send(reply(b"", f"{status} X", "Retry-After: 7"))
    assert [error.retry_seconds for error in errors] == [seconds]
    web.finish()
