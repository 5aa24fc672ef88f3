"""What all parts share: asking again, one job at a time, Busy."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from lcc.errors import StoreUnavailable
from lcc.roles.qm.part import FIRST_SECONDS, LONGEST_SECONDS, Part
from tests.qm.fake_hub import FakeHub
from tests.support.logs import LoggedErrors


class Counter(Part):
    ERROR_TEXT = "Cannot count"

    def __init__(self, hub: FakeHub, store: Any) -> None:
        super().__init__(hub, store)
        self.done: list[Any] = []
        self.ends = 0

    def go(self) -> None:
        self._begin(self._count, "how many")

    async def _count(self, what: str) -> None:
        self.done.append(await self._ask("counting", lambda: self._store.queue_size(what)))  # type: ignore[call-arg]

    def _ended(self) -> None:
        self.ends += 1


class Impatient(Counter):
    ASKS_AGAIN = False


def test_one_job_at_a_time(hub: FakeHub, store: Any) -> None:
    part = Counter(hub, store)
    part.go()
    part.go()
    assert store.names == ["queue_size"]
    assert store.answer(3) == ("how many",)
    assert part.done == [3] and part.ends == 1
    part.go()
    assert store.names == ["queue_size"]


def test_an_unavailable_store_is_asked_again_later_and_later(hub: FakeHub, store: Any) -> None:
    part = Counter(hub, store)
    part.go()
    waits = []
    for _ in range(10):
        store.unavailable()
        assert "counting: connection refused" in hub.retry.trouble
        begun = hub.clock.seconds()
        while not store.open:
            hub.clock.advance(0.05)
        waits.append(hub.clock.seconds() - begun)
    store.answer(1)
    assert part.done == [1] and hub.retry.trouble == "" and hub.retry.retries == 10
    assert waits[0] == pytest.approx(FIRST_SECONDS, abs=0.06) and waits == sorted(waits)
    assert max(waits) == pytest.approx(LONGEST_SECONDS, abs=0.06)


def test_a_part_that_does_not_ask_again_ends_in_silence(hub: FakeHub, store: Any) -> None:
    part = Impatient(hub, store)
    part.go()
    store.unavailable()
    assert part.ends == 1 and not hub.clock.getDelayedCalls() and hub.retry.trouble == ""
    part.go()
    store.answer(2)
    assert part.done == [2]


@pytest.mark.parametrize("kind", [Counter, Impatient])
def test_busy_is_fatal(hub: FakeHub, store: Any, kind: type[Counter]) -> None:
    part = kind(hub, store)
    part.go()
    store.busy()
    assert len(hub.ended) == 1 and part.ends == 1


def test_other_errors_are_logged_and_end_the_job(hub: FakeHub, store: Any, logged_errors: LoggedErrors) -> None:
    part = Counter(hub, store)
    part.go()
    store.fail(ValueError("no number"))
    assert logged_errors.flush("Cannot count") and part.ends == 1 and not hub.ended
    part.go()
    assert store.names == ["queue_size"]


def test_a_part_that_is_stopped_begins_nothing(hub: FakeHub, store: Any) -> None:
    part = Counter(hub, store)
    part.go()
    part.stop()
    assert not store.open and part.ends == 1
    part.go()
    assert not store.open and part.done == []


def test_it_can_be_stopped_by_what_its_own_job_does(hub: FakeHub) -> None:
    class Now:
        """A store that stops the part while it is being asked for the first time."""

        def queue_size(self, what: str) -> Deferred[int]:
            part.stop()
            return Deferred()

    store: Any = Now()
    part = Counter(hub, store)
    part.go()
    assert part.ends == 1 and part.done == []


def test_retries_end_with_the_queue_manager(hub: FakeHub, store: Any) -> None:
    """Also those of parts that nobody stops: a UNS whose connection was lost while its sets were being absorbed."""
    outcome: list[Any] = []
    for _ in range(2):
        Deferred.fromCoroutine(hub.retry.ask("counting", store.queue_size)).addBoth(outcome.append)
    store.unavailable()
    hub.retry.stop()
    assert not hub.clock.getDelayedCalls()
    assert [failure.type for failure in outcome] == [CancelledError]
    store.unavailable()
    assert [failure.type for failure in outcome] == [CancelledError] * 2 and not hub.clock.getDelayedCalls()
    assert StoreUnavailable not in [failure.type for failure in outcome]
