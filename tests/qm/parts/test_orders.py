"""The dispatcher's orders, to the last field: what they say, where they go, what is charged when they come back."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.errors import StreamError, code
from lcc.model import ANY_TYPE, Ahead, Source, Stored, UrlNotice, Waiting
from lcc.protocols.hello import KNOWS_INTERVAL, Hello
from lcc.protocols.work import Done, Fetch, Recall, Running
from lcc.roles.qm.orders import dispatcher as dispatcher_module
from lcc.roles.qm.orders.dispatcher import Dispatcher, read_key
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Entry, Recorder
from lcc.roles.qm.schedule.delays import SITE
from lcc.roles.qm.schedule.work import FetchInfo, Limits
from tests.qm.fake_hub import FakeConnection, FakeHub
from tests.qm.model import key_of, row_of, scheduler

LEASE = 100.0
HOURS_OVER, NO_ROOM, HANDED_BACK = code("hours-over"), code("no-room"), code("handed-back")


class Rig:
    """A dispatcher with five providers, whose first rows are here; what it hands to the recorder is kept."""

    def __init__(self, hub: FakeHub, store: Any, run_rows: int = 1, overload: float = 1.0, **options: Any) -> None:
        self.hub = hub
        self.info = options.pop("info", FetchInfo("http://h/", limits=Limits()))
        self.scheduler = scheduler(20, run_rows=run_rows)
        self.scheduler.delays.load([], 86400.0, hub.wall_clock())
        self.recorder = Recorder(hub, store, self.scheduler, 10)
        self.entries: list[Entry] = []
        self.recorder.add = self.entries.append  # type: ignore[method-assign]
        clocks = (LEASE, hub.wall_clock)
        self.dispatcher = Dispatcher(self.scheduler, self.recorder, overload, *clocks, run_rows=run_rows, **options)
        self.dispatcher.enable("9", LEASE)
        self.rows = [row_of(pid, pid, seq) for pid in range(1, 6) for seq in range(1, 5)]
        self.scheduler.load([Waiting(pid, pid) for pid in range(1, 6)])

    def read(self, wanted: int = 5) -> None:
        self.scheduler.fill(wanted)
        cursors = self.scheduler.wants_read_ahead(10)
        aheads = []
        for cursor in cursors:
            place = (cursor.psetid, cursor.seq)
            mine = [row for row in self.rows if row.pid == cursor.pid and (row.psetid, row.seq) > place]
            aheads.append(Ahead(cursor.pid, mine[: cursor.limit]))
        self.scheduler.rows_read(cursors, aheads, {cursor.pid: self.info for cursor in cursors})

    def connect(self, number: int = 1, capacity: int = 1, **more: Any) -> tuple[Machine, FakeConnection]:
        connection = FakeConnection()
        hello = Hello(role="botm", name="b", machine=number, run="r", capacity=capacity, **more)
        machine = self.dispatcher.connected(connection, hello)
        self.dispatcher.ready(machine)
        machine.granted = True
        return machine, connection

    def send(self) -> tuple[int, int]:
        return self.dispatcher.send(self.hub.clock.seconds())


def done(order: Fetch, number: int, result: int = 0, **changes: Any) -> Done:
    changes = {"file": number, "machine": 1} | changes if not result else changes
    return Done(number, order.id, order.pid, order.key, order.generation, result, **changes)


def test_a_key_is_one_of_its_provider() -> None:
    key = key_of(7, 1)
    assert read_key(key.hex(), 7) == key
    for text in (key.hex()[2:], key.hex() + "00", key_of(8, 1).hex(), "x", "", "00" * 19):
        with pytest.raises(StreamError, match=f"{text[:80]!r} is no key of provider 7"):
            read_key(text, 7)
    with pytest.raises(StreamError):
        read_key("", 0x7E)  # "~" is no provider


def test_an_order_says_all_that_its_fetch_needs(hub: FakeHub, store: Any) -> None:
    limits = Limits(rate=500, hours="22-24", priority=2, interval=0.0015)
    info = FetchInfo("http://h/ http://i/", True, True, limits)
    rig = Rig(hub, store, info=info)
    notice = UrlNotice("http://h/1", furl="http://h/x#y#z", mimetype="text/html")
    content = Stored("token", "etag", 77, 1234)
    rig.rows = [row_of(1, 1, 1, generation=6)._replace(notice=notice, stored=content)]
    rig.rows.append(row_of(2, 2, 1)._replace(notice=UrlNotice("http://h/2#a")))
    hint = UrlNotice("http://h/3", mimetype=ANY_TYPE)
    rig.rows.append(row_of(3, 3, 1, source=int(Source.LINK))._replace(notice=hint))
    rig.read()
    machine, connection = rig.connect(capacity=3)
    assert rig.send() == (0, 3) and rig.dispatcher.orders_sent == machine.given == 3
    first, second, third = connection.heard(Fetch)
    assert first == Fetch(
        id="9-1",
        pid=1,
        key=rig.rows[0].key.hex(),
        generation=6,
        url="http://h/x",
        roots="http://h/ http://i/",
        lease_seconds=100,
        mimetype="text/html",
        private=True,
        insecure=True,
        start_seconds=6400,  # until midnight
        stored="token",
        etag="etag",
        modified=77,
        stored_bytes=1234,
        priority=2,
        rate=500,
        interval_ms=2,
    )
    assert (second.id, second.url, second.stored, second.stored_bytes) == ("9-2", "http://h/2", "", None)
    assert (second.etag, second.modified, third.accepts, third.mimetype) == ("", None, "", "")
    order = rig.dispatcher.orders[0]
    assert (order.id, order.pid, order.key, order.generation) == ("9-1", 1, rig.rows[0].key, 6)
    assert (order.place, order.deadline, order.machine) == ((1, 1), LEASE, machine)
    assert rig.dispatcher.home(1) == 1 and rig.dispatcher.home(5) == 0 and rig.dispatcher.orders_out == 3


def test_an_order_of_before_has_its_lease_and_a_tenth_of_the_longest(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    machine, _ = rig.connect()
    for number, (lease, left) in enumerate(((50, 60.0), (-5, 10.0), (0, 10.0), (500, 110.0)), 1):
        key = key_of(40 + number, 1)
        for _ in range(2):
            rig.dispatcher.running(machine, Running(f"8-{number}", 40 + number, key.hex(), 3, lease), 7.0)
        order = rig.dispatcher.orders[-1]
        assert (order.deadline, order.place, order.generation) == (pytest.approx(7.0 + left), (0, 0), 3)
    assert rig.dispatcher.orders_out == 4 and machine.load == 4 and rig.dispatcher.leases_passed == 0
    rig.dispatcher.check_leases(16.9)
    assert rig.dispatcher.leases_passed == 0
    rig.dispatcher.check_leases(17.0)
    assert rig.dispatcher.leases_passed == rig.dispatcher.orders_lost == 2
    assert [order.id for order in rig.dispatcher.orders] == ["8-1", "8-4"]


def test_a_result_that_nobody_waits_for_counts_for_its_provider(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, site_rate=1000)
    machine, _ = rig.connect()
    key = key_of(9, 1)
    message = Done(1, "2-x-1", 9, key.hex(), 7, 0, file=1, machine=1, wire_bytes=500, elapsed_ms=4000)
    rig.dispatcher.done(machine, message)
    now = hub.wall_clock()
    assert rig.scheduler._inactive.take_began(9) == now - 4
    assert rig.scheduler.delays.until(SITE) == now + 0.5 and rig.scheduler.taken_count == 1
    (entry,) = rig.entries
    assert entry.result is not None and (entry.result.key, entry.result.generation) == (key, 7)
    assert entry[1:] == (machine, "r", 1, 0, "2")


def test_a_result_is_charged_and_recorded(hub: FakeHub, store: Any) -> None:
    info = FetchInfo("http://h/", limits=Limits(interval=20.0))
    rig = Rig(hub, store, site_rate=1000, info=info)
    rig.read()
    machine, connection = rig.connect()
    rig.send()
    (fetch,) = connection.heard(Fetch)
    rig.dispatcher.done(machine, done(fetch, 1, wire_bytes=500, elapsed_ms=4000))
    now = hub.wall_clock()
    assert rig.scheduler.delays.until(1) == now + 16 and rig.scheduler.delays.until(SITE) == now + 0.5
    assert rig.entries[0][1:] == (machine, "r", 1, 1, "") and rig.dispatcher.orders_out == 0


@pytest.mark.parametrize(
    ("most", "wish", "result", "waits"),
    [(60.0, 30, 503, 30.0), (60.0, 90, 503, 60.0), (0.0, 30, 503, 0.0), (60.0, 0, 503, 0.0), (60.0, 30, 0, 0.0)],
)
def test_what_a_web_server_asks_for_is_kept_within_bounds(
    hub: FakeHub, store: Any, most: float, wish: int, result: int, waits: float
) -> None:
    rig = Rig(hub, store, retry_after_max=most)
    rig.read()
    machine, connection = rig.connect()
    rig.send()
    (fetch,) = connection.heard(Fetch)
    rig.dispatcher.done(machine, done(fetch, 1, result, retry_seconds=wish))
    assert rig.scheduler.delays.until(1) == (hub.wall_clock() + waits if waits else 0.0)


@pytest.mark.parametrize(("why", "counts"), [(HOURS_OVER, (1, 0, 0)), (NO_ROOM, (0, 1, 0)), (HANDED_BACK, (0, 0, 1))])
def test_what_comes_back_undone_is_counted(hub: FakeHub, store: Any, why: int, counts: tuple[int, int, int]) -> None:
    rig = Rig(hub, store)
    rig.read()
    machine, connection = rig.connect()
    rig.send()
    (fetch,) = connection.heard(Fetch)
    rig.dispatcher.done(machine, done(fetch, 1, why))
    given = rig.dispatcher
    assert (given.orders_too_late, given.orders_no_room, given.orders_handed_back) == counts
    assert rig.entries == [Entry(None, machine, "r", 1)] and given.orders_out == 0
    rig.dispatcher.done(machine, done(fetch, 2, why))  # nobody waits for it any longer
    assert (given.orders_too_late, given.orders_no_room, given.orders_handed_back) == counts


@pytest.mark.parametrize(
    ("said", "due", "site"),
    [
        ({}, 0.0, 0.0),
        ({"owed_ms": 3000}, 3.0, 0.0),
        ({"wire_bytes": 500}, 20.0, 0.5),
        ({"elapsed_ms": 4000}, 16.0, 0.0),
        ({"elapsed_ms": 4000, "wire_bytes": 100}, 16.0, 0.1),
    ],
)
def test_what_came_back_undone_is_charged_as_far_as_it_had_begun(
    hub: FakeHub, store: Any, said: dict[str, int], due: float, site: float
) -> None:
    rig = Rig(hub, store, site_rate=1000, info=FetchInfo("http://h/", limits=Limits(interval=20.0)))
    rig.read()
    machine, connection = rig.connect()
    rig.send()
    (fetch,) = connection.heard(Fetch)
    rig.dispatcher.done(machine, done(fetch, 1, HANDED_BACK, **said))
    now = hub.wall_clock()
    assert rig.scheduler.delays.until(1) == (now + due if due else 0.0)
    assert rig.scheduler.delays.until(SITE) == (pytest.approx(now + site) if site else 0.0)


def test_a_provider_goes_where_it_was_before_while_there_is_a_free_robot(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, overload=2.0)
    rig.read()
    (one, first), (two, second) = rig.connect(1, 1), rig.connect(2, 2)
    assert rig.send()[1] == 6
    # The one with the most room, and of equals the one that got least.
    assert [fetch.pid for fetch in second.heard(Fetch)] == [1, 2, 4] and [
        fetch.pid for fetch in first.heard(Fetch)
    ] == [3, 5]
    assert [rig.dispatcher.home(pid) for pid in range(1, 6)] == [2, 2, 1, 2, 1] and (one.given, two.given) == (2, 3)
    for number, fetch in enumerate(second.heard(Fetch), 1):
        rig.dispatcher.done(two, done(fetch, number))
    rig.dispatcher.done(one, done(first.heard(Fetch)[0], 1))
    assert rig.send() == (1, 6)
    # 3 was at the first one, which has no free robot; 4 goes where it was, 2 where there is most room.  For 1 there
    # is as much at both.
    assert [fetch.pid for fetch in second.heard(Fetch)[3:]] == [3, 4, 2]
    assert [fetch.pid for fetch in first.heard(Fetch)[2:]] == [1]
    assert [rig.dispatcher.home(pid) for pid in range(1, 6)] == [1, 2, 2, 2, 1] and (one.given, two.given) == (3, 6)


def test_only_machines_that_are_granted_get_orders(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    rig.read()
    (one, first), (two, second) = rig.connect(1, 9), rig.connect(2, 3)
    one.granted = False
    assert rig.dispatcher.slots() == (3, 12) and rig.send() == (0, 12)
    assert not first.said and len(second.heard(Fetch)) == 3
    two.granted = False
    one.granted = True
    rig.dispatcher.done(two, done(second.heard(Fetch)[0], 1))
    rig.send()
    assert sorted(fetch.pid for fetch in first.heard(Fetch)) == [1, 4, 5], "1 cannot go where it was"


def test_intervals_are_kept_within_runs_if_all_that_get_orders_can(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store)
    (one, _), (_, _) = rig.connect(1, 1, knows=KNOWS_INTERVAL), rig.connect(2, 1)
    rig.send()
    assert rig.scheduler.spaces_runs is False
    rig.dispatcher.machines[2].granted = False
    rig.send()
    assert rig.scheduler.spaces_runs is True
    one.granted = False
    rig.send()
    assert rig.scheduler.spaces_runs is True


def test_two_leases_that_pass_are_a_fault_of_the_row(
    hub: FakeHub, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "_EXPIRED_KEPT", 1)
    rig = Rig(hub, store)
    rig.rows = [row for row in rig.rows if row.pid < 3 and row.seq == 1]
    rig.read()
    _, connection = rig.connect(1, 2)
    for number in (1, 2, 3):
        rig.send()
        hub.clock.advance(LEASE)
        rig.dispatcher.check_leases(hub.clock.seconds())
        assert rig.dispatcher.leases_passed == 2 * number - (number == 3) * 1
        rig.scheduler.release(hub.wall_clock())
        rig.read()
    # Of the second one it was not remembered: there is room for one.
    (entry,) = rig.entries
    assert entry.result is not None and entry.result.code == code("robot-error") and entry.machine is None
    assert entry.result.detail == "no answer within 100 seconds" and entry.result.key == rig.rows[0].key
    assert rig.dispatcher.orders_lost == 4
    assert rig.scheduler.active(1) is None, "nothing of it is out any longer"
    assert len(connection.heard(Fetch)) == 5


def test_a_recall_makes_room_where_more_runs_are_out_than_robots(hub: FakeHub, store: Any) -> None:
    rig = Rig(hub, store, run_rows=4, overload=2.0)
    rig.read(2)
    machine, connection = rig.connect(1, 1, orders_max=100)
    assert rig.send() == (0, 2) and [fetch.pid for fetch in connection.heard(Fetch)] == [1] * 4 + [2] * 4
    rig.scheduler.work_arrived(6, 6, 1, 2)
    rig.rows += [row_of(6, 6, seq) for seq in (1, 2)]
    rig.info = FetchInfo("http://h/", limits=Limits(priority=2))
    rig.read(1)
    assert rig.send() == (0, 2)
    assert connection.heard(Recall) == [Recall(2)] and rig.dispatcher.runs_recalled == 1 and machine.load == 2
    assert [fetch.pid for fetch in connection.heard(Fetch)[8:]] == [6, 6]


def test_nothing_is_recalled_where_each_provider_gets_one_order_at_a_time(hub: FakeHub, store: Any) -> None:
    """A BOT-M of an older version knows no recall."""
    rig = Rig(hub, store, run_rows=4)
    rig.read(1)
    machine, connection = rig.connect(1, 1)
    assert rig.send() == (0, 1) and [fetch.pid for fetch in connection.heard(Fetch)] == [1]
    rig.scheduler.work_arrived(6, 6, 1, 2)
    rig.rows.append(row_of(6, 6, 1))
    rig.info = FetchInfo("http://h/", limits=Limits(priority=2))
    rig.read(1)
    assert rig.send() == (0, 1) and rig.dispatcher.runs_recalled == 0 and machine.load == 1
    assert len(connection.heard(Fetch)) == 1


def test_an_active_provider_goes_where_it_was_however_many_there_are(
    hub: FakeHub, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "AFFINITY_MAX", 1)
    rig = Rig(hub, store)
    rig.read(2)
    (one, first), (two, second) = rig.connect(1, 2), rig.connect(2, 2)
    rig.send()
    assert [fetch.pid for fetch in first.heard(Fetch)] == [1] and [fetch.pid for fetch in second.heard(Fetch)] == [2]
    assert (rig.dispatcher.home(1), rig.dispatcher.home(2)) == (0, 2)
    two.given, two.capacity = 0, 9  # it has more room, and would be next
    rig.dispatcher.done(one, done(first.heard(Fetch)[0], 1))
    rig.dispatcher.done(two, done(second.heard(Fetch)[0], 1))
    rig.send()
    assert [fetch.pid for fetch in first.heard(Fetch)] == [1, 1]
