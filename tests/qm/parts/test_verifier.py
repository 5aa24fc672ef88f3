"""The verifier alone: when a run is settled, and a BOT-M that goes while its files are verified."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.logger import LogEvent

from lcc.model import ContentRow, FetchResult
from lcc.protocols.hello import Hello
from lcc.protocols.work import Checked, Intact, Settled, Verify
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Entry, Recorder
from lcc.roles.qm.orders.verifier import Verifier
from tests.qm.fake_hub import NOTHING_ABSORBED, FakeConnection, FakeHub
from tests.qm.model import key_of, scheduler
from tests.support.logs import LoggedErrors


class Rig:
    """A verifier and machine 1, which has crashed."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.recorder = Recorder(hub, store, scheduler(), 10)
        self.verifier = Verifier(hub, store, self.recorder)
        self.machine = Machine(1)
        hub.machines.append(self.machine)
        self.connection = self.connect("r2")

    def connect(self, run: str) -> FakeConnection:
        connection = FakeConnection()
        hello = Hello(role="botm", name="b", machine=1, run=run, suspect_from=10, suspect_upto=20)
        self.machine.connected(connection, hello)
        self.machine.ready = True
        return connection

    def rows(self, *files: int) -> tuple[Any, ...]:
        """The database has rows of these files."""
        rows = [ContentRow(file, b"k", 5, "0" * 32) for file in files]
        args: tuple[Any, ...] = self.store.answer(rows, "content_rows")
        return args

    def say(self, *files: int, ok: bool = True) -> None:
        for file in files:
            self.verifier.checked(self.machine, self.connection, Checked(file, ok))


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    return Rig(hub, store)


def test_a_run_is_settled_once_no_result_of_an_earlier_one_waits(rig: Rig) -> None:
    rig.recorder.add(Entry(FetchResult(1, key_of(1, 1), 1, 0), rig.machine, "r1", 1))
    rig.verifier.tick()
    assert not rig.connection.heard(Settled)
    rig.recorder.stop()
    rig.verifier.tick()
    rig.verifier.tick()
    assert len(rig.connection.heard(Settled)) == 1


def test_pages_are_verified_one_after_the_other(rig: Rig) -> None:
    rig.verifier.tick()
    assert rig.rows(10, 11)[1:3] == (9, 20)
    assert [message.file for message in rig.connection.heard(Verify)] == [10, 11]
    rig.say(10)
    rig.say(10, ok=False)  # it was answered already
    assert not rig.store.open
    rig.say(11, ok=False)
    assert rig.store.answer(NOTHING_ABSORBED, "fetch_again")[:2] == (1, [11])
    assert rig.rows()[1] == 11 and rig.hub.all_absorbed == [NOTHING_ABSORBED]
    assert [message.upto for message in rig.connection.heard(Intact)] == [20]


def test_it_is_not_intact_before_what_is_lost_is_queued(rig: Rig) -> None:
    rig.verifier.tick()
    rig.rows(10)
    rig.say(10, ok=False)
    rig.store.unavailable("fetch_again")
    rig.hub.clock.advance(1)
    assert rig.store.names == ["fetch_again"] and not rig.connection.heard(Intact)
    rig.store.answer(NOTHING_ABSORBED)
    rig.rows()
    assert rig.connection.heard(Intact)


def test_a_botm_that_goes_while_it_is_asked_begins_anew(rig: Rig) -> None:
    rig.verifier.tick()
    rig.rows(10, 11)
    rig.say(10)
    first = rig.connection
    rig.verifier.disconnected(rig.machine, first)
    rig.machine.disconnected(first)
    rig.verifier.tick()
    assert not rig.store.open
    rig.connection = rig.connect("r2")
    rig.verifier.disconnected(rig.machine, first)  # the old one is lost once more
    rig.verifier.tick()
    assert rig.rows(10, 11)[1] == 9
    rig.verifier.checked(rig.machine, first, Checked(10, True))
    rig.say(11)
    assert not rig.store.open, "the old connection's answer does not count"
    rig.say(10)
    rig.rows()
    assert rig.connection.heard(Intact) and not first.heard(Intact)


def test_a_late_answer_of_the_store_is_for_a_connection_that_is_there(rig: Rig) -> None:
    rig.verifier.tick()
    rig.verifier.disconnected(rig.machine, rig.connection)
    assert not rig.store.open and not rig.connection.heard(Verify)


def test_errors(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.verifier.tick()
    rig.store.fail(ValueError("no such row"))
    assert logged_errors.flush("Cannot verify the content of machine 1") and not rig.hub.ended
    rig.connection = rig.connect("r2")
    rig.verifier.tick()
    rig.store.busy()
    assert len(rig.hub.ended) == 1


def test_what_was_found_is_logged(rig: Rig, logged: list[LogEvent]) -> None:
    rig.say(10)  # nobody has asked
    rig.verifier.tick()
    assert rig.rows(10, 11)[:4] == (1, 9, 20, 200), "two hundred at once"
    rig.say(10, 11, ok=False)
    rig.store.answer(NOTHING_ABSORBED, "fetch_again")
    rig.rows(15)
    rig.say(15)
    rig.rows(17)
    rig.say(17, ok=False)
    rig.store.answer(NOTHING_ABSORBED, "fetch_again")
    rig.rows()
    begun, ended = (event for event in logged if event.get("number") == 1)
    assert (begun["first"], begun["last"]) == (10, 19)
    assert (ended["lost"], ended["looked"]) == (3, 4)


def test_it_ends_with_the_queue_manager(rig: Rig) -> None:
    rig.verifier.tick()
    assert rig.store.names == ["content_rows"]
    rig.verifier.stop()
    assert not rig.store.open
    rig.verifier.stop()
