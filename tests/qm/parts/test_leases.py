"""The leases alone: no order goes to a machine of which the database does not say so, however late it answers."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.model import MachineState, Waiting
from lcc.protocols.hello import Hello
from lcc.roles.qm.orders.leases import AHEAD, SPARE_SECONDS, Leases
from lcc.roles.qm.orders.machines import Machine
from tests.qm.fake_hub import FakeConnection, FakeHub
from tests.qm.model import scheduler
from tests.support.logs import LoggedErrors

LEASE = 100.0


class Rig:
    """Leases, and machine 1."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.work = True
        self.scheduler = scheduler()
        self.leases = Leases(hub, store, self.scheduler, LEASE, lambda: self.work)
        self.machine = Machine(1)
        hub.machines.append(self.machine)
        self.connection = FakeConnection()

    def connect(self) -> None:
        self.machine.connected(self.connection, Hello(role="botm", name="b", machine=1, run="r"))
        self.leases.connected(1, 0)

    def ready(self) -> None:
        self.machine.ready = True
        self.leases.ready(self.machine)

    def saved(self) -> list[MachineState]:
        """Commit what is being noted."""
        states: list[MachineState] = self.store.answer(None, "save_machines")[0]
        return states


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    rig = Rig(hub, store)
    rig.leases.load([])
    rig.connect()
    rig.saved()
    rig.ready()
    return rig


def test_no_order_before_it_is_noted(rig: Rig) -> None:
    assert not rig.machine.granted
    (state,) = rig.saved()
    assert state.lease_until >= rig.hub.now() + LEASE
    assert rig.machine.granted and rig.hub.pumps == 1


def test_a_database_that_is_unavailable_is_asked_by_the_next_tick(rig: Rig) -> None:
    rig.store.unavailable()
    assert not rig.machine.granted and not rig.hub.clock.getDelayedCalls() and rig.hub.retry.trouble == ""
    rig.leases.tick()
    rig.saved()
    assert rig.machine.granted


def test_a_note_that_comes_too_late_grants_nothing(rig: Rig) -> None:
    rig.hub.clock.advance(LEASE)
    rig.saved()
    assert not rig.machine.granted, "it is of the time when it was written"
    rig.leases.tick()
    rig.saved()
    assert rig.machine.granted


def test_it_is_noted_rarely_and_always_in_time(rig: Rig) -> None:
    rig.saved()
    writes = 0
    for _ in range(200):
        rig.hub.clock.advance(1)
        rig.leases.tick()
        assert rig.machine.granted
        if rig.store.open:
            rig.saved()
            writes += 1
    assert writes <= 200 / (LEASE * AHEAD / 2) + 1


def test_while_the_database_is_away_orders_end_when_the_note_is_used_up(rig: Rig) -> None:
    rig.saved()
    granted = 0
    for _ in range(100):
        rig.hub.clock.advance(1)
        rig.leases.tick()
        if rig.store.open:
            rig.store.unavailable()
        granted += rig.machine.granted
    assert granted <= LEASE * AHEAD and not rig.machine.granted


def test_while_the_database_hangs_orders_end_when_the_note_is_used_up(rig: Rig) -> None:
    rig.saved()
    granted = 0
    for _ in range(100):
        rig.hub.clock.advance(1)
        rig.leases.tick()
        granted += rig.machine.granted
    assert len(rig.store.open) == 1, "the first write has not ended"
    assert granted == LEASE * AHEAD and not rig.machine.granted
    rig.saved()
    assert not rig.machine.granted, "it is of the time when it was written"
    rig.saved()
    assert rig.machine.granted


def test_it_is_taken_back_when_there_is_nothing_to_fetch(rig: Rig) -> None:
    rig.saved()
    rig.work = False
    rig.hub.clock.advance(5)
    rig.leases.tick()
    assert not rig.machine.granted, "not even before that is saved"
    (state,) = rig.saved()
    assert state.lease_until == 0 and state.last_seen == rig.hub.now()
    rig.leases.tick()
    assert not rig.store.open, "it is taken back once"


def test_work_goes_on_when_a_machine_may_have_orders_that_might_not_before(rig: Rig) -> None:
    rig.saved()
    assert rig.hub.pumps == 1
    rig.leases.tick()
    assert rig.machine.granted and rig.hub.pumps == 1
    other = Machine(0)
    other.ready = True
    rig.hub.machines.insert(0, other)
    rig.leases.tick()
    rig.saved()
    assert other.granted and rig.machine.granted and rig.hub.pumps == 2


def test_a_machine_that_goes_while_it_is_noted_gets_nothing(rig: Rig) -> None:
    rig.machine.disconnected(rig.connection)
    rig.saved()
    assert not rig.machine.granted and rig.hub.pumps == 0
    rig.leases.tick()
    (state,) = rig.saved()
    assert state.lease_until == 0


def test_what_comes_while_one_note_is_written_is_noted_right_after(rig: Rig) -> None:
    other = Machine(2)
    other.connected(FakeConnection(), Hello(role="botm", name="c", machine=2, run="r"))
    other.ready = True
    rig.hub.machines.append(other)
    rig.leases.ready(other)
    assert len(rig.store.open) == 1
    rig.saved()
    assert [state.machine for state in rig.saved()] == [2] and other.granted


@pytest.mark.parametrize("back", [True, False])
def test_providers_are_withheld_until_machines_with_orders_are_back_or_leases_have_passed(
    hub: FakeHub, store: Any, back: bool
) -> None:
    rig = Rig(hub, store)
    rig.leases.load([MachineState(1, 5, 6)], 3 * LEASE)
    rig.scheduler.load([Waiting(1, 7)], withhold=True)
    assert rig.leases.longest_seconds == 3 * LEASE and list(rig.leases.awaited) == [1]
    hub.clock.advance(3 * LEASE * (1 + AHEAD) + SPARE_SECONDS - 1)
    rig.leases.tick()
    assert list(rig.scheduler.withheld) == [7]
    if back:
        rig.connect()
        rig.ready()
    else:
        hub.clock.advance(1)
        rig.leases.tick()
    assert not rig.scheduler.withheld and not rig.leases.awaited and hub.pumps >= 1


def test_errors(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.store.fail(ValueError("no such column"))
    assert logged_errors.flush("Cannot note which machines have orders") and not rig.hub.ended
    rig.leases.tick()
    rig.store.busy()
    assert len(rig.hub.ended) == 1 and not rig.machine.granted


def test_nothing_is_noted_before_it_is_known_what_was_noted_nor_after_the_end(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    assert rig.leases.longest_seconds == LEASE
    rig.connect()
    rig.ready()
    assert not store.open and not rig.machine.granted
    rig.leases.load([])
    rig.leases.stop()
    rig.leases.connected(1, 0)
    rig.leases.tick()
    assert not store.open and not rig.machine.granted


def test_a_machine_that_is_ready_already_is_not_waited_for(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    rig.machine.ready = True
    rig.leases.load([MachineState(1, 5, 6), MachineState(2, 5, 6), MachineState(3, 5, 0)])
    assert list(rig.leases.awaited) == [2]
    rig.work = False
    rig.leases.tick()
    assert [state.machine for state in rig.saved()] == [1], "there is nothing to take back from machine 3"


def test_what_a_lost_machine_had_is_taken_back_once_its_leases_have_passed(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    rig.leases.load([MachineState(2, 5, 6, 9)], 3 * LEASE)
    hub.clock.advance(3 * LEASE * (1 + AHEAD) + SPARE_SECONDS - 0.5)
    rig.leases.tick()
    assert not store.open and rig.leases.longest_seconds == 3 * LEASE
    hub.clock.advance(0.5)
    rig.leases.tick()
    assert rig.saved() == [MachineState(2, 5, 0, 9)]
    assert rig.leases.longest_seconds == LEASE


def test_names_that_a_machine_has_used_are_never_forgotten(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    rig.leases.load([MachineState(1, 5, 0, 9)])
    for said, noted in ((7, 9), (12, 12)):
        rig.leases.connected(1, said)
        assert rig.saved() == [MachineState(1, rig.hub.now(), 0, noted)]
    rig.connect()
    rig.saved()
    rig.ready()
    (state,) = rig.saved()
    assert state.names_upto == 12 and state.lease_until


def test_while_orders_are_out_they_are_noted_also_without_more_work(rig: Rig) -> None:
    rig.saved()
    rig.machine.orders[1] = None  # type: ignore[assignment]
    rig.work = False
    rig.hub.clock.advance(LEASE * AHEAD / 2 + 0.5)
    rig.leases.tick()
    (state,) = rig.saved()
    assert state.lease_until >= rig.hub.now() + LEASE and rig.machine.granted
    rig.machine.orders.clear()
    rig.leases.tick()
    (state,) = rig.saved()
    assert state.lease_until == 0


def test_it_is_noted_again_once_less_than_half_is_left(rig: Rig) -> None:
    rig.saved()
    rig.hub.clock.advance(LEASE * AHEAD / 2)
    rig.leases.tick()
    assert not rig.store.open
    rig.hub.clock.advance(0.5)
    rig.leases.tick()
    assert len(rig.store.open) == 1


def test_a_note_is_of_two_seconds_more_than_what_orders_need(rig: Rig) -> None:
    """With exactly so much left a machine still gets orders."""
    (state,) = rig.saved()
    assert state.lease_until == rig.hub.now() + 128
    rig.hub.clock.advance(25)
    rig.leases.tick()
    assert rig.machine.granted
    rig.hub.clock.advance(0.5)
    rig.leases.tick()
    assert not rig.machine.granted


def test_once_it_has_stopped_nothing_is_let_go(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    rig.leases.load([MachineState(2, 5, 6)])
    rig.leases.stop()
    hub.clock.advance(10 * LEASE)
    rig.leases.tick()
    assert list(rig.leases.awaited) == [2] and hub.pumps == 0


def test_once_it_has_stopped_nothing_is_granted(rig: Rig) -> None:
    rig.saved()
    while not rig.store.open:
        rig.hub.clock.advance(1)
        rig.leases.tick()
    rig.machine.granted = False  # it connects again, and its note is long enough
    pumps = rig.hub.pumps
    rig.leases.stop()
    assert not rig.store.open, "what was being noted is cancelled"
    rig.leases.tick()
    assert not rig.machine.granted and rig.hub.pumps == pumps


def test_a_machine_where_robots_hang_is_waited_for_although_it_is_ready(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    rig.leases.load([MachineState(1, 5, 6)])
    rig.scheduler.load([Waiting(1, 7)], withhold=True)
    rig.connect()
    rig.machine.become_ready(unsure=hub.clock.seconds())
    rig.leases.ready(rig.machine)
    assert list(rig.leases.awaited) == [1] and list(rig.scheduler.withheld) == [7]
    rig.saved()
    rig.saved()
    assert rig.machine.granted, "for what comes new"
    rig.leases.load([MachineState(1, 5, 6)])
    assert list(rig.leases.awaited) == [1]
    hub.clock.advance(LEASE * (1 + AHEAD) + SPARE_SECONDS)
    rig.leases.tick()
    assert not rig.leases.awaited and not rig.scheduler.withheld


@pytest.mark.parametrize("loaded_first", [True, False])
def test_what_went_to_a_machine_before_its_start_is_waited_for_until_a_lease_from_then(
    hub: FakeHub, store: Any, loaded_first: bool
) -> None:
    rig = Rig(hub, store)
    rig.scheduler.load([Waiting(1, 7)], withhold=True)
    rig.connect()

    def ready() -> None:
        rig.machine.become_ready(unsure=hub.clock.seconds() - 0.9 * LEASE)
        rig.leases.ready(rig.machine)

    if loaded_first:
        rig.leases.load([MachineState(1, 5, 6)])
    ready()
    if not loaded_first:
        rig.leases.load([MachineState(1, 5, 6)])
    assert list(rig.leases.awaited) == [1]
    hub.clock.advance(0.1 * LEASE + 1)
    rig.leases.tick()
    assert not rig.leases.awaited and not rig.scheduler.withheld


@pytest.mark.parametrize("loaded_first", [True, False])
def test_where_robots_have_hung_for_longer_than_a_lease_nothing_waits(
    hub: FakeHub, store: Any, loaded_first: bool
) -> None:
    rig = Rig(hub, store)
    rig.connect()
    if loaded_first:
        rig.scheduler.load([Waiting(1, 7)], withhold=True)
        rig.leases.load([MachineState(1, 5, 6)])
    rig.machine.become_ready(unsure=hub.clock.seconds() - LEASE)
    rig.leases.ready(rig.machine)
    if not loaded_first:
        rig.leases.load([MachineState(1, 5, 6)])
    assert not rig.leases.awaited and not rig.scheduler.withheld
