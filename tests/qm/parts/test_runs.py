"""The dispatcher and its machines alone: how runs of orders go out, grow, are recalled, and come back."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.errors import code
from lcc.model import Ahead, Waiting
from lcc.protocols.hello import Hello
from lcc.protocols.work import Done, Fetch, Recall, Running
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.schedule.work import FetchInfo, Limits
from tests.qm.fake_hub import NOTHING_RECORDED as NOTHING
from tests.qm.fake_hub import FakeConnection, FakeHub
from tests.qm.model import row_of, scheduler

LEASE = 100.0
HANDED_BACK = code("handed-back")


class Rig:
    """A dispatcher that sends runs, with its recorder, and providers with ten rows each."""

    def __init__(self, hub: FakeHub, store: Any, providers: int = 3, run_rows: int = 4, **changes: Any) -> None:
        self.hub = hub
        self.scheduler = scheduler(changes.pop("read_ahead", 20), run_rows=run_rows, **changes)
        self.recorder = Recorder(hub, store, self.scheduler, 10)
        self.recorder.enable()
        self.dispatcher = Dispatcher(self.scheduler, self.recorder, 1.0, LEASE, hub.wall_clock, run_rows=run_rows)
        self.dispatcher.enable("9", LEASE)
        self.rows = [row_of(pid, pid, seq) for pid in range(1, providers + 1) for seq in range(1, 11)]
        self.number = 0
        self.priorities: dict[int, int] = {}
        self.rates: dict[int, int] = {}
        self.scheduler.load([Waiting(pid, pid) for pid in range(1, providers + 1)])
        self.read()

    def read(self, wanted: int = 10) -> None:
        self.scheduler.fill(wanted)
        cursors = self.scheduler.wants_read_ahead(100)
        aheads, infos = [], {}
        for cursor in cursors:
            mine = [r for r in self.rows if r.pid == cursor.pid and (r.psetid, r.seq) > (cursor.psetid, cursor.seq)]
            aheads.append(Ahead(cursor.pid, mine[: cursor.limit]))
            limits = Limits(self.rates.get(cursor.pid), priority=self.priorities.get(cursor.pid, 0))
            infos[cursor.pid] = FetchInfo("", limits=limits)
        self.scheduler.rows_read(cursors, aheads, infos)

    def arrive(self, pid: int, priority: int, rows: int = 10) -> None:
        """A provider of this priority has work."""
        self.rows += [row_of(pid, pid, seq) for seq in range(1, rows + 1)]
        self.priorities[pid] = priority
        self.scheduler.work_arrived(pid, pid, 1, priority)
        self.read_urgent()

    def read_urgent(self) -> None:
        free, total = self.dispatcher.send(self.hub.clock.seconds())
        self.read(free + total)

    def connect(
        self, number: int = 1, capacity: int = 3, run: str = "r", orders_max: int = 1000, ready: bool = True
    ) -> tuple[Machine, FakeConnection]:
        connection = FakeConnection()
        hello = Hello(role="botm", name="b", machine=number, run=run, capacity=capacity, orders_max=orders_max)
        machine = self.dispatcher.connected(connection, hello)
        if ready:
            self.ready(machine)
        return machine, connection

    def ready(self, machine: Machine) -> None:
        self.dispatcher.ready(machine)
        machine.granted = True

    def send(self) -> int:
        """Send what can be sent; gives how many orders that were."""
        before = self.dispatcher.orders_sent
        self.dispatcher.send(self.hub.clock.seconds())
        return self.dispatcher.orders_sent - before

    def done(self, machine: Machine, fetch: Fetch, result: int = 0, **changes: Any) -> None:
        self.number += 1
        changes = {"file": self.number, "machine": machine.number} | changes if not result else changes
        self.dispatcher.done(
            machine, Done(self.number, fetch.id, fetch.pid, fetch.key, fetch.generation, result, **changes)
        )

    def hand_back(self, machine: Machine, pid: int, begun: int = 1) -> list[Fetch]:
        """What a BOT-M does with a recall: all but the first come back."""
        connection = machine.connection
        assert isinstance(connection, FakeConnection)
        fetches = [fetch for fetch in connection.heard(Fetch) if fetch.id in machine.orders and fetch.pid == pid]
        for fetch in fetches[begun:]:
            self.done(machine, fetch, HANDED_BACK)
        return fetches[:begun]


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    return Rig(hub, store)


def pids(connection: FakeConnection) -> list[int]:
    return [fetch.pid for fetch in connection.heard(Fetch)]


def keys(fetches: list[Fetch]) -> list[int]:
    return [int(fetch.key[-4:], 16) % 1000 for fetch in fetches]


def test_a_run_goes_out_and_grows_when_half_of_it_has_come_back(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=1)
    assert rig.send() == 4 and rig.send() == 0 and set(pids(connection)) == {1}
    assert machine.load == 1 and rig.dispatcher.slots() == (0, 1)
    fetches = connection.heard(Fetch)
    rig.done(machine, fetches[0])
    assert rig.send() == 0, "more than half of it is out"
    rig.done(machine, fetches[1])
    assert rig.send() == 2 and len(machine.orders) == 4
    assert len(connection.heard(Fetch)) == 6 and set(pids(connection)) == {1}
    sent = [fetch.key for fetch in connection.heard(Fetch)]
    assert sent == [row.key.hex() for row in rig.rows[:6]], "in order"


def test_nothing_follows_a_run_that_went_by_another_connection(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=3)
    rig.send()
    first = [fetch for fetch in connection.heard(Fetch) if fetch.pid == 1]
    machine.disconnected(connection)
    machine, again = rig.connect(capacity=3, ready=False)
    for fetch in connection.heard(Fetch):
        rig.dispatcher.running(machine, Running(fetch.id, fetch.pid, fetch.key, fetch.generation, 50), 0)
    rig.ready(machine)
    for fetch in first[:3]:
        rig.done(machine, fetch)
        rig.read_urgent()
        assert rig.send() == 0
    rig.done(machine, first[3])
    rig.read_urgent()
    rig.send()
    assert set(pids(again)) == {1}, "it begins anew when all of it is answered"


def test_what_was_lost_of_a_run_waits_for_the_rest_of_it(rig: Rig) -> None:
    """The BOT-M got only the first two orders before the connection was lost."""
    machine, connection = rig.connect(capacity=1)
    rig.send()
    first = connection.heard(Fetch)
    machine.disconnected(connection)
    machine, again = rig.connect(capacity=1, ready=False)
    for fetch in first[:2]:
        rig.dispatcher.running(machine, Running(fetch.id, fetch.pid, fetch.key, fetch.generation, 50), 0)
    rig.ready(machine)
    assert rig.dispatcher.orders_lost == 2 and machine.load == 1
    rig.read_urgent()
    assert not again.heard(Fetch)
    for fetch in first[:2]:
        rig.done(machine, fetch)
    rig.read_urgent()
    rig.send()
    assert keys(again.heard(Fetch))[:2] == keys(first[2:])


@pytest.mark.parametrize("state", ["paused", "ungranted", "recalled", "disconnected"])
def test_a_run_does_not_grow_where_nothing_may_be_sent(rig: Rig, state: str) -> None:
    machine, connection = rig.connect(capacity=1)
    rig.send()
    first = connection.heard(Fetch)
    if state == "paused":
        machine.set_capacity(0)
    elif state == "ungranted":
        machine.granted = False
    elif state == "disconnected":
        machine.disconnected(connection)
    else:
        rig.dispatcher.recall_all()
    for fetch in first[:3]:
        rig.done(machine, fetch)
    rig.read_urgent()
    assert {fetch.pid for fetch in connection.heard(Fetch)[4:]} <= {2}, "nothing more of provider 1"
    assert len([pid for pid in pids(connection) if pid == 1]) == 4


def test_a_botm_of_an_older_version_gets_one_order_of_a_provider_at_a_time(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=3, orders_max=0)
    assert rig.send() == 3 and pids(connection) == [1, 2, 3] and rig.send() == 0
    rig.done(machine, connection.heard(Fetch)[1])
    assert rig.send() == 1 and pids(connection)[-1] == 2
    rig.arrive(7, 2)
    assert not connection.heard(Recall) and rig.dispatcher.runs_recalled == 0 and machine.load == 3


def test_while_one_botm_is_of_an_older_version_no_run_begins_or_grows(rig: Rig) -> None:
    new, connection = rig.connect(1, capacity=1)
    assert rig.send() == 4
    _, other = rig.connect(2, capacity=1, orders_max=0)
    assert rig.send() == 1 and pids(other) == [2]
    for fetch in connection.heard(Fetch)[:3]:
        rig.done(new, fetch)
    assert rig.send() == 0
    rig.done(new, connection.heard(Fetch)[3])
    assert rig.send() == 1 and len(new.orders) == 1


@pytest.mark.parametrize("orders_max", [10, 12, 17])
def test_a_botm_never_gets_more_than_half_of_what_it_holds_by_runs(hub: FakeHub, store: Any, orders_max: int) -> None:
    rig = Rig(hub, store, providers=4, run_rows=16)
    machine, connection = rig.connect(capacity=4, orders_max=orders_max)
    for _ in range(30):
        rig.read_urgent()
        rig.send()
        assert len(machine.orders) < orders_max // 2 + len(machine.runs), "those beyond are one for each"
        for order_id in list(machine.orders)[:1]:
            rig.done(machine, next(fetch for fetch in connection.heard(Fetch) if fetch.id == order_id))


def test_many_runs_in_one_go_leave_room_as_well(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, providers=5, run_rows=8)
    machine, _ = rig.connect(capacity=5, orders_max=40)
    rig.send()
    assert len(machine.orders) <= 20 + 2 and len(machine.runs) == 5


# A higher priority.


def test_a_higher_priority_recalls_the_newest_run_of_the_lowest_and_goes_out_at_once(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=3)
    rig.send()
    assert pids(connection) == [1] * 4 + [2] * 4 + [3] * 4
    rig.arrive(7, 1)
    rig.arrive(8, 2)
    rig.send()
    assert connection.heard(Recall) == [Recall(3), Recall(2)] and rig.dispatcher.runs_recalled == 2
    assert pids(connection)[12:] == [7] * 4 + [8] * 4 and machine.load == 3
    for _ in range(5):
        assert rig.send() == 0
    assert len(connection.heard(Recall)) == 2, "one for each that waits"
    first = rig.hand_back(machine, 3)
    assert len(first) == 1 and rig.dispatcher.orders_handed_back == 3
    rig.read_urgent()
    assert rig.send() == 0 and machine.load == 3, "its provider is not free before all of it is answered"
    rig.done(machine, first[0])
    rig.read_urgent()
    rig.send()
    assert 3 not in machine.runs, "no place for it"


def test_equal_priorities_recall_nothing(rig: Rig) -> None:
    _, connection = rig.connect(capacity=3)
    rig.send()
    rig.arrive(7, 0)
    rig.send()
    assert not connection.heard(Recall)


def test_what_came_back_goes_out_again_in_order(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, providers=1)
    machine, connection = rig.connect(capacity=1)
    rig.send()
    rig.arrive(7, 2, rows=1)
    rig.send()
    assert pids(connection) == [1, 1, 1, 1, 7] and connection.heard(Recall) == [Recall(1)]
    (begun,) = rig.hand_back(machine, 1)
    rig.done(machine, begun)
    rig.done(machine, connection.heard(Fetch)[4])
    rig.read_urgent()
    rig.send()
    again = connection.heard(Fetch)[5:]
    assert {fetch.pid for fetch in again} == {1} and keys(again) == [2, 3, 4, 5]
    work = rig.scheduler.active(1)
    assert work is not None and work.busy == 4 and not work.recalled and machine.load == 1


@pytest.mark.parametrize("gone", ["disconnected", "ungranted", "too many"])
def test_a_recall_that_makes_no_room_is_not_made(rig: Rig, gone: str) -> None:
    """Runs are out at two machines; those at the second one are the newest, but nothing can be sent there."""
    _, connection = rig.connect(1, capacity=1)
    rig.send()
    second, other = rig.connect(2, capacity=2)
    rig.send()
    assert pids(connection) == [1] * 4 and pids(other) == [2] * 4 + [3] * 4
    if gone == "disconnected":
        second.disconnected(other)
    elif gone == "ungranted":
        second.granted = False
    else:
        second.set_capacity(0)
    for pid in (7, 8):
        rig.arrive(pid, 2)
        for _ in range(3):
            rig.send()
    assert not other.heard(Recall) and connection.heard(Recall) == [Recall(1)]
    assert pids(connection)[4:] == [7] * 4 and rig.dispatcher.runs_recalled == 1


def test_a_run_that_could_not_be_recalled_can_be_later(rig: Rig) -> None:
    machine, connection = rig.connect(1, capacity=2)
    rig.send()
    machine.set_capacity(1)
    rig.arrive(7, 2)
    rig.send()
    assert not connection.heard(Recall)
    machine.set_capacity(2)
    rig.done(machine, connection.heard(Fetch)[0])
    rig.send()
    assert connection.heard(Recall) == [Recall(1)] and pids(connection)[-1] == 7


# The provider was changed, and the like.


def test_a_recall_is_said_again_by_a_new_connection(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=1)
    rig.send()
    machine.disconnected(connection)
    rig.dispatcher.recall_all()
    assert rig.dispatcher.runs_recalled == 1
    for _ in range(2):
        machine, again = rig.connect(capacity=1, ready=False)
        for fetch in connection.heard(Fetch):
            rig.dispatcher.running(machine, Running(fetch.id, fetch.pid, fetch.key, fetch.generation, 50), 0)
        rig.ready(machine)
        assert again.heard(Recall) == [Recall(1)]
    assert rig.dispatcher.runs_recalled == 1


def test_a_recalled_run_is_recalled_once(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=1)
    rig.send()
    limits = rig.scheduler.active(1).info.limits  # type: ignore[union-attr]
    for _ in range(3):
        rig.scheduler.provider_changed(1, limits, rig.hub.wall_clock())
        rig.send()
    assert connection.heard(Recall) == [Recall(1)] and rig.dispatcher.runs_recalled == 1
    assert machine.load == 1 and set(machine.runs) == {1, 2}, "there is room for another one's"
    begun = rig.hand_back(machine, 1)
    assert rig.send() == 0
    rig.done(machine, begun[0])
    work = rig.scheduler.active(1)
    assert work is not None and not work.busy and not work.recalled


def test_a_removed_provider_is_recalled_and_forgotten(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=1)
    rig.send()
    rig.rows = [row for row in rig.rows if row.pid != 1]
    rig.scheduler.provider_removed(1)
    rig.send()
    assert connection.heard(Recall) == [Recall(1)] and set(machine.runs) == {1, 2}
    rig.done(machine, rig.hand_back(machine, 1)[0])
    rig.read_urgent()
    assert set(machine.runs) == {2} and machine.load == 1 and rig.scheduler.active(1) is None


def test_after_a_recall_for_the_end_nothing_goes_out(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=2)
    rig.send()
    rig.dispatcher.disable()
    assert len(connection.heard(Recall)) == 2
    rig.hand_back(machine, 1)
    rig.read_urgent()
    assert rig.send() == 0 and set(machine.runs) == {1, 2}


# Leases, and what others have left.


def test_of_a_run_whose_lease_has_passed_only_the_first_order_is_suspected(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, providers=1)
    machine, _ = rig.connect(capacity=1)
    for times in (1, 2):
        rig.send()
        rig.hub.clock.advance(LEASE)
        rig.dispatcher.check_leases(rig.hub.clock.seconds())
        assert rig.dispatcher.orders_out == 0 and rig.dispatcher.leases_passed == 4 * times and not machine.runs
        rig.read_urgent()
    assert rig.dispatcher.orders_lost == 7, "the first one has failed"
    assert [row.key for row in rig.rows[:1]] == [entry.result.key for entry in rig.recorder._queue if entry.result]


def test_what_an_earlier_queue_manager_left_of_a_run_blocks_its_provider_until_all_is_answered(
    hub: FakeHub, store: Any
) -> None:
    rig = Rig(hub, store, providers=2)
    machine, connection = rig.connect(capacity=2, ready=False)
    mine = [row for row in rig.rows if row.pid == 1][:3]
    left = [Running(f"old-{row.seq}", 1, row.key.hex(), row.generation, 50) for row in mine]
    for message in left:
        rig.dispatcher.running(machine, message, 0)
    rig.ready(machine)
    assert machine.load == 1 and rig.dispatcher.orders_out == 3
    rig.send()
    assert set(pids(connection)) == {2}
    for number, row in enumerate(mine, 1):
        rig.dispatcher.done(
            machine, Done(number, f"old-{row.seq}", 1, row.key.hex(), row.generation, 0, file=number, machine=1)
        )
        rig.send()
        assert (1 in pids(connection)) == (number == 3)
    assert keys([fetch for fetch in connection.heard(Fetch) if fetch.pid == 1]) == [4, 5, 6, 7]


def test_duplicates_and_unknown_results_free_nothing(rig: Rig) -> None:
    machine, connection = rig.connect(capacity=1)
    rig.send()
    first = connection.heard(Fetch)
    rig.done(machine, first[0])
    for _ in range(5):
        rig.number -= 1
        rig.done(machine, first[0])
    rig.done(machine, first[0])  # with another number: its order is known no longer
    work = rig.scheduler.active(1)
    assert work is not None and work.busy == 3 and len(machine.runs[1].orders) == 3 and machine.load == 1


# Bounds.


def row_bytes(pid: int, seq: int, size: int) -> Any:
    row = row_of(pid, pid, seq)
    return row._replace(notice=row.notice._replace(length=size))


def test_what_a_run_is_expected_to_bring_is_bounded_by_the_quantum_also_while_it_grows(
    hub: FakeHub, store: Any
) -> None:
    rig = Rig(hub, store, providers=0, run_rows=16, quantum_bytes=1000)
    rig.rows = [row_bytes(1, seq, 400) for seq in range(1, 11)]
    rig.scheduler.work_arrived(1, 1, 1)
    rig.read()
    machine, connection = rig.connect(capacity=1)
    for _ in range(8):
        rig.send()
        assert 2 <= len(machine.orders) <= 3
        rig.done(machine, connection.heard(Fetch)[-len(machine.orders)], wire_bytes=400)


def test_with_a_bandwidth_a_run_brings_what_a_second_pays_for_also_while_it_grows(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, providers=0, run_rows=16)
    rig.rows = [row_bytes(1, seq, 400) for seq in range(1, 11)]
    rig.rates[1] = 1000
    rig.scheduler.work_arrived(1, 1, 1)
    rig.read()
    work = rig.scheduler.active(1)
    assert work is not None
    machine, connection = rig.connect(capacity=1)
    assert rig.send() == 3
    for _ in range(5):
        assert rig.send() == 0, "what is out brings that much"
    rig.done(machine, connection.heard(Fetch)[0], HANDED_BACK)
    assert work.expected_bytes == 800


def test_a_provider_grows_no_further_than_its_quantum_while_others_wait(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, providers=2, run_rows=4, quantum_urls=6)
    machine, connection = rig.connect(capacity=1)
    sent = 0
    while sent < 20:
        rig.read_urgent()
        rig.send()
        for order_id in list(machine.orders)[:1]:
            fetch = next(fetch for fetch in connection.heard(Fetch) if fetch.id == order_id)
            rig.rows = [row for row in rig.rows if row.key.hex() != fetch.key]
            rig.done(machine, fetch)
            rig.scheduler.recorded([(bytes.fromhex(fetch.key), 1)], NOTHING, hub.wall_clock())
            sent += 1
    assert pids(connection) == [1] * 6 + [2] * 6 + [1] * 4 + [2] * 4
    assert rig.scheduler.active_count == 0 and not machine.runs and machine.load == 0


@pytest.mark.parametrize(
    ("answer", "more", "suspected"),
    [
        (0, {}, False),
        (code("no-room"), {"elapsed_ms": 500, "wire_bytes": 100}, False),
        (HANDED_BACK, {}, True),
    ],
    ids=["it was fetched", "it was fetched, and found no room", "no robot had it"],
)
def test_what_clears_the_suspicion(rig: Rig, answer: int, more: dict[str, int], suspected: bool) -> None:
    """The leases of the first two orders of a run have passed; this comes of the next one."""
    machine, connection = rig.connect(capacity=1)
    rig.send()
    first = connection.heard(Fetch)
    rig.hub.clock.advance(LEASE / 2)
    for fetch in first[:2]:
        rig.done(machine, fetch)
    assert rig.send() == 2
    rig.hub.clock.advance(LEASE / 2)
    rig.dispatcher.check_leases(rig.hub.clock.seconds())
    assert rig.dispatcher.leases_passed == 2 and machine.runs[1].suspected
    later = next(fetch for fetch in connection.heard(Fetch) if fetch.id in machine.orders)
    rig.done(machine, later, answer, **more)
    assert machine.runs[1].suspected is suspected
