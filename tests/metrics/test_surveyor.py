"""The look at the whole queue happens now and then, one at a time, and less often where it takes long."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from lcc.errors import StoreUnavailable
from lcc.roles.qm.surveyor import Surveyor
from lcc.storage.database.probe import LATE_SECONDS, PROBE_SECONDS, DatabaseProbe


class Asked:
    """A database that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[Any]] = []

    def __call__(self, *_: object) -> Deferred[Any]:
        self.waiting.append(Deferred())
        return self.waiting[-1]


def test_how_often_it_is_looked() -> None:
    clock: Any = Clock()
    look = Asked()
    surveyor = Surveyor(look, clock, 15.0)
    surveyor.start()
    assert surveyor.last is None and len(look.waiting) == 1
    clock.advance(0.1)
    look.waiting[0].callback("first")
    assert surveyor.last == "first"
    clock.advance(14.9)
    assert len(look.waiting) == 1
    clock.advance(0.1)
    assert len(look.waiting) == 2
    clock.advance(4)  # a large queue, a slow database
    look.waiting[1].callback("second")
    clock.advance(79)
    assert len(look.waiting) == 2, "a twentieth of the time at most"
    clock.advance(2)
    look.waiting[2].errback(StoreUnavailable("away"))
    assert surveyor.last == "second"
    clock.advance(16)
    assert len(look.waiting) == 4
    surveyor.stop()
    assert not clock.getDelayedCalls()


def test_a_database_that_does_not_answer_is_noticed() -> None:
    clock: Any = Clock()
    ask = Asked()
    probe = DatabaseProbe(ask, clock)
    assert not probe.condition().holds
    probe.start()
    ask.waiting[0].callback(1)
    assert probe.condition().holds
    clock.advance(PROBE_SECONDS)
    ask.waiting[1].errback(StoreUnavailable("no route to host"))
    assert "no route to host" in probe.condition().fault and "lcc-admin check" in probe.condition().remedy
    clock.advance(PROBE_SECONDS)
    ask.waiting[2].callback(1)
    clock.advance(PROBE_SECONDS)
    assert probe.condition().holds
    clock.advance(LATE_SECONDS + 1)
    assert "no answer for 11 s" in probe.condition().fault
    ask.waiting[3].callback(1)
    assert probe.condition().holds
    probe.stop()
    assert not clock.getDelayedCalls()
