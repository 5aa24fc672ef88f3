"""Every way to answer, at every cut of its bytes, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fetching import CLOSE, HANG, RESET, SMALL, MemoryWeb, Outcome, stay
from hostile import BAD, GOOD, Case
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import FetchError, entry_for

CUTS_MAX = 200
"""Long answers are cut at as many places as this."""


def follow(url: str, location: str) -> str:
    """Out of the provider's roots: evil.example."""
    if "evil" in location:
        raise FetchError("redirect-outside", location)
    return stay(url, location)


def play(case: Case, pieces: list[bytes]) -> tuple[Outcome, bool]:
    """The outcome of a fetch from a server that sends these pieces; was the connection kept?"""
    web = MemoryWeb()
    outcomes = web.fetch(follow=follow)
    # A redirect that is followed comes here again, on the same connection or on a new one.
    for _ in range(SMALL.redirects_max + 1):
        peer = web.accept() if not web.peers or web.peers[-1].lost else web.peers[-1]
        if not peer.request():
            break
        peer.send(*pieces)
        if case.then != HANG:
            peer.end(clean=case.then == CLOSE)
        if outcomes:
            break
    for _ in range(10):
        if outcomes:
            break
        web.reactor.advance(SMALL.idle_timeout / 2)
        peer.settle()
    peer.settle()
    kept = not peer.lost
    web.finish()
    (outcome,) = outcomes
    return outcome, kept


def cuts(sent: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, and in two pieces."""
    yield [sent]
    yield [sent[at : at + 1] for at in range(len(sent))]
    step = max(1, len(sent) // CUTS_MAX)
    for at in range(1, len(sent), step):
        yield [sent[:at], sent[at:]]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_good_answer_at_every_cut(case: Case) -> None:
    for pieces in cuts(case.sent):
        outcome, kept = play(case, pieces)
        assert (outcome.error, outcome.content) == ("", case.content), pieces
        assert outcome.fetched is not None
        # Connections with something unasked behind the response are dropped as soon as it is seen.
        assert kept == case.kept, pieces
        assert len(case.sent) >= outcome.fetched.wire_bytes > len(case.content)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_a_bad_answer_at_every_cut(case: Case) -> None:
    for pieces in cuts(case.sent):
        outcome, _ = play(case, pieces)
        assert outcome.error == case.error, pieces
        assert outcome.failure is not None
        assert outcome.failure.code == entry_for(outcome.failure.code).code
        assert len(outcome.failure.text) < 400


def test_there_are_many_kinds_of_hostility() -> None:
    assert len(BAD) >= 30
    assert len({case.name for case in (*GOOD, *BAD)}) == len(GOOD) + len(BAD)


FRAGMENTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"\r\n",
        b"hello",
        b"5\r\nhello\r\n",
        b"0\r\n",
        b"0\r\n\r\n",
        b"X: y\r\n",
    ]
)


@given(
    st.lists(st.lists(FRAGMENTS | st.binary(max_size=8), max_size=8).map(b"".join), max_size=5),
    st.sampled_from([HANG, CLOSE, RESET]),
)
def test_whatever_comes_the_fetch_ends_once_and_leaves_nothing(pieces: list[bytes], then: str) -> None:
    sent = b"".join(pieces)
    case = Case("random", sent, then)
    outcome, _ = play(case, pieces)
    whole, _ = play(case, [sent])
    assert outcome.error == whole.error
    if not outcome.error:
        assert outcome.content == whole.content
