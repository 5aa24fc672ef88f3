"""Garbage among old objects does not wait for millions of new ones."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from twisted.internet.testing import MemoryReactorClock

from lcc.services.process.garbage import SECONDS, SHARE_MAX, collect_old_garbage


class Session:
    """Refers to itself, as one whose handler knows its transport does."""

    def __init__(self) -> None:
        self.handler = self


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """Python itself collects nothing meanwhile."""
    gc.disable()
    yield
    gc.enable()


def test_old_garbage_is_collected_every_minute() -> None:
    reactor = MemoryReactorClock()
    collect_old_garbage(reactor)
    reactor.run()
    for _ in range(3):
        session = Session()
        found = weakref.ref(session)
        gc.collect()  # it is old now
        del session
        gc.collect(1)
        assert found() is not None
        reactor.advance(SECONDS)
        assert found() is None


def test_nothing_is_done_before_the_reactor_runs() -> None:
    reactor = MemoryReactorClock()
    collect_old_garbage(reactor)
    assert not reactor.getDelayedCalls()


def test_a_collection_that_takes_long_is_rare() -> None:
    reactor, took_seconds, collections = MemoryReactorClock(), 2.0, []

    def collect() -> None:
        collections.append(reactor.seconds())
        reactor.rightNow += took_seconds

    collect_old_garbage(reactor, collect)
    reactor.run()
    reactor.advance(SECONDS)
    reactor.advance(took_seconds / SHARE_MAX - 1)
    assert collections == [SECONDS]
    reactor.advance(1)
    assert collections == [SECONDS, SECONDS + took_seconds + took_seconds / SHARE_MAX]
