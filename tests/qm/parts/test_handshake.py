"""The handshake alone: a hello is compared with the database before anything else that the peer says is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.config import QmConfig
from lcc.errors import StreamError
from lcc.model import UnsStanding
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import NewEpoch
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.intake.overload import Intake
from lcc.roles.qm.maintenance.repair import Repair
from lcc.roles.qm.peers.handler import Connection, Handler
from lcc.roles.qm.peers.handshake import Handshake
from tests.qm.fake_hub import FakeConnection, FakeHub
from tests.support.logs import LoggedErrors

UNS = Hello(role="uns", name="u", epoch="e", acked=5, numbers_upto=9)
FRESH = Hello(role="uns", name="u", epoch="e")
ELEMENTS = [Start("set", {}, 1)]


class Listener(Handler):
    """What a peer becomes."""

    def __init__(self) -> None:
        self.heard: list[list[Start]] = []
        self.pause: Deferred[None] | None = None
        self.gone = False

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        self.heard.append(list(elements))
        return self.pause

    def lost(self) -> None:
        self.gone = True


class Rig:
    """A handshake, and what it lets in."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.intake = Intake(hub, store, QmConfig(), list)
        self.repair = Repair(hub, store, lambda: 0.5)
        self.repair.epoch = "d"
        self.handshake = Handshake(hub, store, self.repair, self.intake, self._admit)
        self.connection = FakeConnection("uns u")
        self.listener = Listener()
        self.refuses = False

    def _admit(self, connection: Connection, hello: Hello) -> Handler:
        if self.refuses:
            raise StreamError("unknown-message", "another one is here")
        return self.listener

    def hello(self, hello: Hello = UNS) -> None:
        self.handshake.hello(self.connection, hello)

    def say(self) -> Any:
        assert self.connection.handler is not None
        return self.connection.handler.elements_received(ELEMENTS)

    @property
    def admitted(self) -> bool:
        return self.connection.handler is self.listener


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    rig = Rig(hub, store)
    rig.handshake.enable()
    return rig


def test_who_remembers_nothing_is_let_in_at_once(rig: Rig) -> None:
    rig.hello(FRESH)
    assert rig.admitted and not rig.store.asked


def test_what_is_said_meanwhile_is_kept_and_the_peer_paused(rig: Rig) -> None:
    rig.hello()
    room = rig.say()
    assert not room.called and not rig.listener.heard
    rig.store.unavailable("check_uns")
    rig.hub.clock.advance(1)
    assert not room.called
    rig.store.answer(UnsStanding.FINE)
    assert rig.admitted and rig.listener.heard == [ELEMENTS] and room.called
    rig.say()
    assert len(rig.listener.heard) == 2


def test_it_stays_paused_while_its_handler_wants_that(rig: Rig) -> None:
    rig.listener.pause = Deferred()
    rig.hello()
    room = rig.say()
    rig.store.answer(UnsStanding.FINE)
    assert rig.listener.heard == [ELEMENTS] and not room.called
    rig.listener.pause.callback(None)
    assert room.called


def test_who_comes_before_the_database_is_claimed_waits(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    rig.hello()
    rig.say()
    assert not store.asked and not rig.admitted
    rig.handshake.enable()
    store.answer(UnsStanding.FINE)
    assert rig.admitted and rig.listener.heard == [ELEMENTS]


def test_a_peer_that_goes_meanwhile_is_not_let_in(rig: Rig) -> None:
    rig.hello()
    room = rig.say()
    rig.connection.drop()
    assert room.called
    rig.store.answer(UnsStanding.FINE)
    assert rig.connection.handler is None and not rig.listener.heard and not rig.store.open


def test_a_loss_that_it_has_told_of_is_dealt_with_although_it_is_gone(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.hello()
    rig.connection.drop()
    rig.store.answer(UnsStanding.DATABASE_BEHIND)
    rig.store.answer(None, "want_full_sets")
    rig.store.answer("d2", "begin_epoch")
    rig.store.answer(None, "note_answered")
    assert rig.repair.epoch == "d2" and rig.repair.losses == 1 and not rig.admitted
    logged_errors.flush("gone back in time")


def test_a_spool_that_was_put_back_begins_anew_and_is_not_listened_to(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.hello()
    rig.say()
    rig.store.answer(UnsStanding.SPOOL_BEHIND)
    assert rig.store.answer(None, "lose_sets") == (rig.hub.now(),)
    assert rig.connection.heard(NewEpoch) == [NewEpoch("e")] and rig.connection.left
    assert not rig.admitted and not rig.listener.heard
    logged_errors.flush("restored from a ")


def test_hellos_are_compared_one_after_the_other(rig: Rig) -> None:
    rig.hello()
    first, rig.connection = rig.connection, FakeConnection("uns v")
    rig.hello(Hello(role="uns", name="v", epoch="e", acked=1))
    assert len(rig.store.open) == 1
    rig.store.answer(UnsStanding.FINE)
    assert first.handler is rig.listener and not rig.admitted
    rig.store.answer(UnsStanding.FINE)
    assert rig.admitted


@pytest.mark.parametrize("waits", [True, False])
def test_a_peer_that_is_refused_after_all(rig: Rig, waits: bool) -> None:
    rig.refuses = True
    rig.hello()
    errors: list[Any] = []
    if waits:
        rig.say().addErrback(errors.append)
    rig.store.answer(UnsStanding.FINE)
    assert (len(errors), len(rig.connection.errors)) == ((1, 0) if waits else (0, 1))


def test_overload_refuses_unses_only(rig: Rig) -> None:
    rig.intake.reason = "too much"
    with pytest.raises(StreamError, match="too much"):
        rig.hello(FRESH)
    rig.hello(Hello(role="botm", name="b", machine=1, run="r"))
    assert rig.admitted


def test_errors(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.hello()
    rig.store.fail(ValueError("no such table"))
    assert logged_errors.flush("Cannot compare the hello of uns u") and rig.connection.dropped
    rig.connection = FakeConnection()
    rig.hello()
    rig.store.busy()
    assert len(rig.hub.ended) == 1 and not rig.connection.dropped


def test_stopping_ends_all_comparisons(rig: Rig) -> None:
    rig.hello()
    rig.handshake.stop()
    assert not rig.store.open and not rig.admitted
