"""Every way to answer, at every cut of its bytes, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import entry_for
from lcc.roles.bot.redirects import Redirects
from tests.hostile.answers import BAD, CLOSE, GOOD, HANG, RESET, Case
from tests.hostile.endless import ENDLESS
from tests.support.roles.fetchers import SMALL, MemoryWeb, Outcome

CUTS_MAX = 200
"""Long answers are cut at as many places as this."""


def play(case: Case, pieces: list[bytes]) -> tuple[Outcome, bool]:
    """The outcome of a fetch from a server that sends these pieces; was the connection kept?"""
    web = MemoryWeb()
    outcomes = web.fetch(follow=Redirects().rule("http://127.0.0.1/"))
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


def limit_seconds(case: Case) -> float:
    """How long this may take."""
    if case.error == "idle-timeout":
        return SMALL.idle_timeout
    return SMALL.deadline if case.pace_seconds else 0.0


@pytest.mark.parametrize("case", (*BAD, *ENDLESS), ids=lambda case: case.name)
def test_it_ends_in_its_time(case: Case) -> None:
    """By a clock that moves only when there is nothing else to wait for."""
    web = MemoryWeb()
    outcomes = web.fetch(follow=Redirects().rule("http://127.0.0.1/"))
    for _ in range(1000):
        peer = web.accept() if not web.peers or web.peers[-1].lost else web.peers[-1]
        while not outcomes and not peer.lost:
            if peer.request():
                peer.send(case.sent)
                if case.then != HANG:
                    peer.end(clean=case.then == CLOSE)
            elif case.forever:
                peer.send(case.forever)
                web.reactor.advance(case.pace_seconds)
            else:
                web.reactor.advance(SMALL.idle_timeout)
            peer.settle()
        if outcomes:
            break
    assert outcomes[0].error == case.error
    assert web.reactor.seconds() <= limit_seconds(case)
    web.finish()


def test_there_are_many_kinds_of_hostility() -> None:
    assert len(BAD) >= 60
    assert len(ENDLESS) >= 30
    every = (*GOOD, *BAD, *ENDLESS)
    assert len({case.slug for case in every}) == len(every)


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
