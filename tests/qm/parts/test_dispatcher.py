"""The dispatcher alone: what goes where, and what becomes of orders whose BOT-M goes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.errors import code
from lcc.model import ANY_TYPE, Source
from lcc.protocols.hello import Hello
from lcc.protocols.work import Done, Fetch, RecordedUpto, Running
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Recorder
from tests.qm.fake_hub import NOTHING_RECORDED, FakeConnection, FakeHub
from tests.qm.model import load, row_of, scheduler
from tests.qm.test_scheduler import read_all
from tests.support.logs import LoggedErrors

LEASE = 100.0


class Rig:
    """A dispatcher with its recorder, and rows of five providers."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.scheduler = scheduler()
        self.recorder = Recorder(hub, store, self.scheduler, 10)
        self.recorder.enable()
        self.dispatcher = Dispatcher(self.scheduler, self.recorder, 1.0, LEASE, hub.wall_clock)
        self.dispatcher.enable("9", LEASE)
        load(self.scheduler, *[(pid, pid) for pid in range(1, 6)])
        self.rows = [row_of(pid, pid, seq) for pid in range(1, 6) for seq in (1, 2)]
        self.scheduler.fill(5)
        read_all(self.scheduler, self.rows)

    def connect(self, number: int, capacity: int, run: str = "r") -> tuple[Machine, FakeConnection]:
        connection = FakeConnection()
        hello = Hello(role="botm", name="b", machine=number, run=run, capacity=capacity)
        machine = self.dispatcher.connected(connection, hello)
        return machine, connection

    def ready(self, machine: Machine) -> None:
        self.dispatcher.ready(machine)
        machine.granted = True

    def send(self) -> int:
        """Send what can be sent; gives how many orders that were."""
        before = self.dispatcher.orders_sent
        self.dispatcher.send(self.hub.clock.seconds())
        return self.dispatcher.orders_sent - before


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    return Rig(hub, store)


def done(fetch: Fetch, number: int, code: int = 0, **changes: Any) -> Done:
    changes = {"file": number, "machine": 1} | changes if not code else changes
    return Done(number, fetch.id, fetch.pid, fetch.key, fetch.generation, code, **changes)


def test_no_orders_before_a_machine_is_ready_and_granted(rig: Rig) -> None:
    machine, connection = rig.connect(1, 3)
    assert rig.dispatcher.slots() == (0, 0)
    rig.dispatcher.ready(machine)
    assert rig.dispatcher.slots() == (0, 3)
    machine.granted = True
    assert rig.send() == 3 and len(connection.heard(Fetch)) == 3 and rig.send() == 0


@pytest.mark.parametrize(
    ("source", "polled", "renew", "accepts"),
    [
        (Source.POLLED, True, True, ""),
        (Source.POLLED | Source.TOLD, False, True, ""),
        (Source.POLLED | Source.PUSHED, False, True, ""),
        (Source.POLLED | Source.LINK, False, True, ""),
        (Source.LINK, False, False, "text/*"),
        (Source.TOLD, False, False, ""),
    ],
)
def test_only_what_nobody_else_names_is_free_of_the_rules(
    hub: FakeHub, store: Any, source: Source, polled: bool, renew: bool, accepts: str
) -> None:
    subject = scheduler()
    recorder = Recorder(hub, store, subject, 10)
    dispatcher = Dispatcher(subject, recorder, 1.0, LEASE, hub.wall_clock, accepts="text/*")
    dispatcher.enable("9", LEASE)
    load(subject, (1, 1))
    row = row_of(1, 1, 1, source=int(source))
    if source != Source.TOLD:
        row = row._replace(notice=row.notice._replace(mimetype=ANY_TYPE))
    subject.fill(5)
    read_all(subject, [row])
    connection = FakeConnection()
    machine = dispatcher.connected(connection, Hello(role="botm", name="b", machine=1, run="r", capacity=1))
    dispatcher.ready(machine)
    machine.granted = True
    dispatcher.send(hub.clock.seconds())
    (fetch,) = connection.heard(Fetch)
    assert (fetch.polled, fetch.renew, fetch.accepts) == (polled, renew, accepts)
    order = Fetch(**attrs.asdict(fetch)).order()
    assert (order.polled, order.renew, order.accepts) == (polled, renew, accepts)
    assert attrs.evolve(fetch, polled=True, renew=False).order().renew  # of a queue manager of the version before


@pytest.mark.parametrize("order_id", ["8-1", "9-1", "7-1", "lost-1", "2-65a1b2c3-1"])
@pytest.mark.parametrize("is_named", [False, True])
def test_an_order_of_a_lost_timeline_is_older_than_any(rig: Rig, order_id: str, is_named: bool) -> None:
    """The database was put back: the row of that order is another one, whatever its generation was.  So it is with an
    order of a timeline that the backup knows, if it went out after that was made."""
    rig.recorder.enable("8", {"9": 7, "7": 6})
    machine, _ = rig.connect(1, 3)
    key, known = rig.rows[0].key, order_id[:2] in ("8-", "9-")
    if is_named:
        rig.dispatcher.running(machine, Running(order_id, 1, key.hex(), 7, 50), 0)
        rig.ready(machine)
    rig.dispatcher.done(machine, Done(1, order_id, 1, key.hex(), 7, 0, file=1, machine=1))
    rig.recorder.start()
    (result,) = rig.store.answer(NOTHING_RECORDED)[0]
    assert result.key == key and result.file == 1 and result.generation == (7 if known else 0)


def test_an_operator_pauses_it(rig: Rig) -> None:
    machine, connection = rig.connect(1, 3)
    rig.ready(machine)
    rig.dispatcher.paused_since = rig.hub.now()
    assert rig.send() == 0 and not connection.said
    rig.dispatcher.paused_since = None
    assert rig.send() == 3


def test_orders_stay_out_while_their_botm_is_gone_and_come_back_with_it(rig: Rig) -> None:
    machine, connection = rig.connect(1, 2)
    rig.ready(machine)
    rig.send()
    first, second = connection.heard(Fetch)
    machine.disconnected(connection)
    assert rig.dispatcher.orders_out == 2 and rig.dispatcher.slots() == (0, 0)
    other, their = rig.connect(2, 9)
    rig.ready(other)
    rig.send()
    assert not {first.pid, second.pid} & {fetch.pid for fetch in their.heard(Fetch)}, "never two at once"
    machine, again = rig.connect(1, 2)
    rig.dispatcher.running(machine, Running(first.id, first.pid, first.key, first.generation, 50), 0)
    rig.ready(machine)
    assert rig.dispatcher.orders_lost == 1, "what it does not name is not running there"
    read_all(rig.scheduler, rig.rows)
    rig.send()
    assert second.key in [fetch.key for fetch in their.heard(Fetch) + again.heard(Fetch)]


def test_a_result_goes_to_the_recorder_once_also_when_it_comes_twice(rig: Rig) -> None:
    machine, connection = rig.connect(1, 1)
    rig.ready(machine)
    rig.send()
    (fetch,) = connection.heard(Fetch)
    for _ in range(2):
        rig.dispatcher.done(machine, done(fetch, 1))
    rig.recorder.start()
    assert rig.dispatcher.results_again == 1
    (result,) = rig.store.answer(NOTHING_RECORDED)[0]
    assert result.key.hex() == fetch.key and connection.heard(RecordedUpto) == [RecordedUpto(1)]


def test_a_provider_gets_its_next_row_once_its_result_has_come(rig: Rig) -> None:
    machine, connection = rig.connect(1, 5)
    rig.ready(machine)
    assert rig.send() == 5 and rig.send() == 0
    fetch = connection.heard(Fetch)[2]
    rig.dispatcher.done(machine, done(fetch, 1))
    assert rig.send() == 1 and connection.heard(Fetch)[-1].pid == fetch.pid


def test_an_order_that_came_back_undone_is_given_out_again(rig: Rig) -> None:
    machine, connection = rig.connect(1, 1)
    rig.ready(machine)
    rig.send()
    (fetch,) = connection.heard(Fetch)
    rig.dispatcher.done(machine, done(fetch, 1, code("no-room")))
    assert rig.dispatcher.orders_no_room == 1 and rig.dispatcher.orders_out == 0
    rig.recorder.start()
    assert connection.heard(RecordedUpto) == [RecordedUpto(1)] and not rig.store.open, "nothing was found out"


def test_an_order_is_given_up_when_its_lease_has_passed_and_the_second_time_it_has_failed(rig: Rig) -> None:
    machine, connection = rig.connect(1, 1)
    rig.ready(machine)
    rig.send()
    (fetch,) = connection.heard(Fetch)
    for number in range(2):
        rig.hub.clock.advance(LEASE - 1)
        rig.dispatcher.check_leases(rig.hub.clock.seconds())
        assert rig.dispatcher.orders_out == 1
        rig.hub.clock.advance(1)
        rig.dispatcher.check_leases(rig.hub.clock.seconds())
        assert rig.dispatcher.orders_out == 0 and rig.dispatcher.leases_passed == number + 1
        if not number:
            rig.scheduler.fill(5)
            read_all(rig.scheduler, [row for row in rig.rows if row.pid == fetch.pid])
            rig.send()
            assert connection.heard(Fetch)[-1].key == fetch.key
    rig.recorder.start()
    (result,) = rig.store.answer(NOTHING_RECORDED)[0]
    assert result.key.hex() == fetch.key and result.code


def test_a_result_that_makes_no_sense_fails_its_order(rig: Rig, logged_errors: LoggedErrors) -> None:
    machine, connection = rig.connect(1, 1)
    rig.ready(machine)
    rig.send()
    (fetch,) = connection.heard(Fetch)
    rig.dispatcher.done(machine, done(fetch, 1, file=None, machine=None))
    rig.recorder.start()
    (result,) = rig.store.answer(NOTHING_RECORDED)[0]
    assert result.key.hex() == fetch.key and result.code
    assert logged_errors.flush("Unusable result")
