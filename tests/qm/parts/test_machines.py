"""What the queue manager knows of a BOT-M: its connections, what is out there, what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.errors import StreamError
from lcc.protocols.hello import KNOWS_INTERVAL, Hello
from lcc.protocols.work import MachineHello, Mark, Recall, RecordedUpto
from lcc.roles.qm.orders.machines import OLD_CENTRAL, Machine, Order, Run
from tests.qm.fake_hub import FakeConnection

KEY = b"k" * 20


def hello(run: str = "r", session: str = "s.1", **more: Any) -> Hello:
    usual = {"name": "b", "machine": 7, "capacity": 3, "orders_max": 10, "content": "unix:/x"}
    return Hello(**{"role": "botm", "run": run, "session": session, **usual, **more})


def connect(machine: Machine, greeting: Hello | None = None) -> FakeConnection:
    connection = FakeConnection()
    machine.connected(connection, greeting or hello())
    return connection


def order(machine: Machine, number: int, pid: int = 1) -> Order:
    return Order(f"9-{number}", pid, KEY, 4, (5, number), 100.0, machine)


def state(thing: object) -> dict[str, object]:
    """What is not empty."""
    slots = thing.__slots__  # type: ignore[attr-defined]
    return {
        name: value
        for name in slots
        if (value := getattr(thing, name)) not in ("", 0, False, None, (), {}, set()) and not name.startswith("_")
    }


def test_nothing_is_known_of_a_machine_at_first() -> None:
    assert state(Machine(7)) == {"number": 7, "mark": ("", 0), "suspect": (0, 0)}
    assert state(Run(1, None, 0.0, 0)) == {"pid": 1}
    machine = Machine(7)
    assert state(order(machine, 3)) == {
        "id": "9-3",
        "pid": 1,
        "key": KEY,
        "generation": 4,
        "place": (5, 3),
        "deadline": 100.0,
        "machine": machine,
    }


def test_what_a_hello_says() -> None:
    machine = Machine(7)
    connection = connect(machine, hello(suspect_from=4, suspect_upto=9, knows=f"x {KNOWS_INTERVAL}"))
    said = {"name": "b", "run": "r", "session": "s.1", "content": "unix:/x", "capacity": 3, "orders_max": 10}
    known = {"number": 7, "mark": ("", 0), "suspect": (4, 9), "connection": connection, "knows_interval": True}
    assert state(machine) == said | known
    # Of the connection before only what outlives it is left.
    machine.ready = machine.granted = machine.settled = True
    machine.trouble, machine.paused, machine.robots_refused, machine.robots_count = "full", "all", "x", 2
    machine.robots = (object(),)  # type: ignore[assignment]
    machine.reported.add("9-1")
    machine.last_number, machine.recorded, machine.given = 5, 4, 8
    machine.tell_progress("t", 3)
    machine.disconnected(connection)
    assert not (machine.ready or machine.granted or machine.robots or machine.robots_count or machine.connection)
    again = connect(machine, hello(session="s.2"))
    counted = {"last_number": 5, "recorded": 4, "given": 8}
    known = {"number": 7, "mark": ("", 0), "suspect": (0, 0), "connection": again, **counted}
    assert state(machine) == said | known | {"session": "s.2"}
    # Another run counts its results from 1.
    machine.disconnected(again)
    connect(machine, hello(run="q", session="q.1"))
    assert (machine.run, machine.last_number, machine.recorded, machine.given) == ("q", 0, 0, 8)


def test_of_two_connections_of_a_run_the_later_one_counts() -> None:
    machine = Machine(7)
    first = connect(machine)
    with pytest.raises(StreamError, match="another BOT-M, b, is connected as machine 7"):
        connect(machine, hello(run="q", session="q.1"))
    assert not first.dropped and machine.connection is first
    second = connect(machine, hello(session="s.2"))
    assert first.dropped and machine.connection is second
    machine.disconnected(first)
    assert machine.connection is second, "that one was gone already"
    with pytest.raises(StreamError, match="machine 7 has connected again since"):
        connect(machine, hello())
    assert not second.dropped and machine.connection is second


def test_behind_a_central_botm_of_an_older_version_it_gets_no_orders() -> None:
    greeting = {"role": "botm", "name": "b", "machine": 7, "run": "r", "capacity": 3}
    for via, session, refused in (("c d", "", f"{OLD_CENTRAL} (c d)"), ("c d", "s.1", ""), ("", "", "")):
        machine = Machine(7)
        connect(machine, MachineHello(**greeting, via=via, session=session))
        assert (machine.via, machine.refused, machine.capacity) == (via, refused, 0 if refused else 3)
        machine.set_capacity(5)
        assert machine.capacity == (0 if refused else 5)
        machine.set_capacity(-1)
        assert machine.capacity == 0


def test_orders_of_a_provider_are_a_run() -> None:
    machine = Machine(7)
    connection = connect(machine)
    machine.granted = True
    orders = [order(machine, number, pid) for number, pid in ((1, 1), (2, 1), (3, 2))]
    assert machine.room == 5 and not machine.may_grow(1, 5.0)
    for each in orders:
        machine.add(each, connection, 5.0)
    assert (machine.load, machine.room, list(machine.orders)) == (2, 2, ["9-1", "9-2", "9-3"])
    assert list(machine.runs[1].orders) == ["9-1", "9-2"] and machine.runs[1].connection is connection
    assert machine.may_grow(1, 5.0) and machine.may_grow(2, 5.0) and not machine.may_grow(3, 5.0)
    run = machine.runs[1]
    assert machine.forget(orders[0]) is run and machine.load == 2 and list(machine.orders) == ["9-2", "9-3"]
    assert machine.forget(orders[1]) is run and machine.load == 1 and machine.runs.keys() == {2}
    machine.add(orders[0], connection, 5.0)
    assert machine.runs[1] is not run


def test_more_follows_only_where_it_can() -> None:
    for change in ({"granted": False}, {"capacity": 0}, {"connection": None}):
        machine = Machine(7)
        connection = connect(machine)
        machine.granted = True
        machine.add(order(machine, 1), connection, 5.0)
        assert machine.may_grow(1, 5.0)
        for name, value in change.items():
            setattr(machine, name, value)
        assert not machine.may_grow(1, 5.0)
    machine = Machine(7)
    connect(machine)
    machine.granted = True
    machine.add(order(machine, 1), None, 5.0)
    assert not machine.may_grow(1, 5.0), "it is of an earlier queue manager"


def test_while_others_wait_for_a_robot_a_run_grows_for_some_time_only() -> None:
    machine = Machine(7)
    connection = connect(machine)
    machine.granted = True
    for pid in range(1, machine.capacity + 1):
        machine.add(order(machine, pid, pid), connection, 5.0)
    assert not machine.contended and machine.may_grow(1, 5.0) and machine.may_grow(1, 6.0)
    machine.add(order(machine, 9, 9), connection, 7.0)
    assert machine.contended and machine.may_grow(1, 5.0) and not machine.may_grow(1, 6.0)
    assert machine.may_grow(9, 6.0)


def test_while_others_wait_for_a_robot_no_run_grows_below_a_higher_priority() -> None:
    machine = Machine(7)
    connection = connect(machine, hello(capacity=2))
    machine.granted = True
    orders = [order(machine, number, pid) for number, pid in ((1, 1), (2, 2), (3, 3))]
    for each, priority in zip(orders, (1, 0, 2), strict=True):
        machine.add(each, connection, 5.0, priority)
    assert [machine.may_grow(pid, 5.0) for pid in (1, 2, 3)] == [False, False, True]
    machine.forget(orders[2])
    assert [machine.may_grow(pid, 5.0) for pid in (1, 2)] == [True, True], "nobody waits"
    machine.add(order(machine, 4, 4), connection, 5.0)
    assert [machine.may_grow(pid, 5.0) for pid in (1, 2)] == [True, False]


def test_how_many_runs_it_may_hold() -> None:
    machine = Machine(7)
    connection = connect(machine, hello(capacity=3))
    machine.granted = True
    assert (machine.places(1.0), machine.places(1.5), machine.hanging) == (3, 4, 0)
    machine.set_capacity(3, 2)
    assert (machine.places(1.0), machine.places(1.5)) == (5, 6), "what hangs comes besides, and is not overloaded"
    for pid in range(1, 6):
        machine.add(order(machine, pid, pid), connection, 5.0)
    assert not machine.contended
    machine.add(order(machine, 6, 6), connection, 5.0)
    assert machine.contended and machine.may_grow(1, 5.0), "all are of the lowest priority"
    machine.set_capacity(0, 2)
    assert machine.places(1.5) == 0
    machine.set_capacity(3, -1)
    assert machine.places(1.5) == 4
    machine.set_capacity(3, 2)
    connect(machine, hello(capacity=3, session="s.2"))
    assert machine.places(1.5) == 4


def test_a_recall_is_said_once_on_each_connection() -> None:
    machine = Machine(7)
    connection = connect(machine)
    machine.granted = True
    orders = [order(machine, number, pid) for number, pid in ((1, 1), (2, 1), (3, 2))]
    for each in orders:
        machine.add(each, connection, 5.0)
    assert machine.recall(3) is False and machine.recall(1) is True and machine.recall(1) is False
    assert connection.said == [Recall(1)] and machine.load == 1 and not machine.may_grow(1, 5.0)
    again = connect(machine, hello(session="s.2"))
    machine.recall_again()
    assert again.said == [Recall(1)]
    machine.forget(orders[0])
    machine.forget(orders[1])
    assert machine.load == 1
    machine.disconnected(again)
    assert machine.recall(2) is True and machine.load == 0
    # One of an older version does not know it, and has one order of a provider anyway.
    old = connect(machine, hello(session="s.3", orders_max=0))
    machine.recall_again()
    assert old.said == []


def test_results_are_numbered_within_a_run() -> None:
    machine = Machine(7)
    assert [machine.is_new(number) for number in (1, 1, 3, 2, 3, 4)] == [True, False, True, False, False, True]


def test_what_is_recorded_and_how_far_the_cache_is() -> None:
    machine = Machine(7)
    machine.recorded_upto("", 2, ("t", 5))
    assert machine.mark == ("", 0), "nobody heard it"
    connection = connect(machine)
    machine.acknowledge()
    assert connection.said == []
    machine.recorded_upto("r", 4, ("t", 5))
    machine.recorded_upto("r", 3, ("t", 5))
    assert connection.said == [Mark("t", 5), RecordedUpto(4), RecordedUpto(4)] and machine.recorded == 4
    connection.said.clear()
    machine.recorded_upto("q", 9, ("t", 6))
    assert connection.said == [Mark("t", 6)] and machine.recorded == 4, "of another run"
    connection.said.clear()
    for timeline, change in (("t", 6), ("u", 0), ("u", 6)):
        machine.tell_progress(timeline, change)
    assert connection.said == [Mark("u", 6)]
    machine.disconnected(connection)
    machine.acknowledge()
    assert connection.said == [Mark("u", 6)]
