"""Providers that share a host, and those that wait for a moment, in the scheduler; each rule by itself."""

from __future__ import annotations

from typing import Any

from lcc.model import ProviderHosts, Waiting
from lcc.roles.qm.schedule.hosts import ALL, HostGroups
from lcc.roles.qm.schedule.work import Limits
from tests.qm.model import NOW, row_of
from tests.qm.test_scheduler_turns import Rig


def at_hosts(*names: str, **options: Any) -> Rig:
    """Providers 1, 2 and so on, each at its host."""
    known = {pid: (name,) for pid, name in enumerate(names, 1)}
    hosts = HostGroups(ALL)
    hosts.load([ProviderHosts(pid, there, False) for pid, there in known.items()], NOW)
    rig = Rig(*((pid, pid, 0) for pid in known), hosts=hosts, **options)
    rig.hosts = known
    return rig


def pids(rig: Rig, places: int = 9) -> list[int]:
    rig.subject.fill(places)
    return rig.pids


# Hosts.


def test_one_that_moves_to_the_host_of_another_gives_up_its_turn() -> None:
    rig = at_hosts("h1", "h2")
    assert pids(rig) == [1, 2]
    rig.read()
    assert rig.take() == (1, [1])
    rig.subject.roots_changed(ProviderHosts(2, ("h1",), False))
    assert rig.pids == [1] and rig.subject.turns_awaited == 1


def test_one_that_leaves_a_host_frees_it_when_nothing_is_out() -> None:
    rig = at_hosts("h", "h")
    assert pids(rig) == [1]
    rig.read()
    assert rig.take() == (1, [1])
    rig.subject.roots_changed(ProviderHosts(1, ("other",), False))
    assert pids(rig) == [1]
    rig.end(1, 1)
    assert pids(rig) == [1, 2]


def test_one_that_is_removed_frees_its_host_with_its_last_answer() -> None:
    rig = at_hosts("h", "h")
    assert pids(rig) == [1]
    rig.read()
    assert rig.take() == (1, [1])
    rig.subject.provider_removed(1)
    assert pids(rig) == []
    rig.end(1, 1)
    assert pids(rig) == [2]


def test_who_shares_a_host_with_one_that_was_withheld_waits_until_that_is_let_go() -> None:
    rig = at_hosts("h", "h")
    subject = rig.subject
    subject.load([], withhold=True)
    for pid in (1, 2):
        subject._turns.leave_queue(pid)
    subject.load([Waiting(1, 1)], withhold=True)
    subject.work_arrived(2, 2, 1)
    assert pids(rig) == [] and subject.turns_awaited == 1
    subject.provider_removed(1)
    subject.let_go(NOW)
    assert pids(rig) == [2]


def test_an_interval_lets_another_one_of_the_host_have_its_turn() -> None:
    for other, active in (("h", [2]), ("i", [1, 2])):
        rig = at_hosts("h", other)
        rig.subject.fill(2)
        rig.read()
        assert rig.take() == (1, [1])
        rig.subject.delays.began(1, NOW, 30.0, NOW)
        rig.end(1, 1)
        assert 1 in rig.subject.delays and pids(rig) == active


# Delays.


def test_one_that_is_delayed_for_long_is_not_read_for() -> None:
    for seconds, read in ((30.0, [1]), (3600.0, [])):
        rig = Rig((1, 1, 0), run_rows=8)
        rig.subject.fill(1)
        rig.read()
        rig.take(6)
        rig.subject.asked(1, 503, seconds, NOW)
        assert [cursor.pid for cursor in rig.subject.wants_read_ahead(9)] == read


def test_one_that_waits_for_a_moment_frees_its_place_and_is_read_for() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0))
    rig.subject.fill(1)
    rig.read()
    for seq in range(1, 5):
        assert rig.take() == (1, [seq])
        rig.end(1, seq)
        if seq == 3:
            rig.subject.asked(1, 503, 30.0, NOW)
            assert rig.subject.wants_read_ahead(9) == [] and pids(rig, 1) == [1, 2]
            break
    rig.subject._active[1].buffer.popleft()
    rig.subject.asked(1, 503, 31.0, NOW)
    assert 1 in [cursor.pid for cursor in rig.subject.wants_read_ahead(9)]


def test_only_so_many_keep_their_rows_while_they_wait() -> None:
    """A half of what may be in memory in all."""
    rig = Rig((1, 1, 0), (2, 2, 0), read_ahead=500)
    rig.subject.fill(2)
    rig.read()
    for pid in (1, 2):
        rig.subject.asked(pid, 503, 30.0, NOW)
    assert rig.pids == [1] and rig.subject.delayed_with_work == 2


# Priorities.


def test_a_run_whose_priority_was_raised_is_not_recalled_for_a_lower_one() -> None:
    rig = Rig((1, 1, 0), run_rows=4, read_ahead=2)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(2) == (1, [1, 2])
    rig.limits[1] = Limits(priority=2)
    rig.read()
    rig.subject.work_arrived(2, 2, 1, 1)
    rig.rows.append(row_of(2, 2, 1))
    rig.limits[2] = Limits(priority=1)
    rig.subject.fill(2)
    rig.read()
    assert rig.subject.overtaken(lambda work: True) is False and not rig.subject.recalls


def test_what_has_come_back_is_not_recalled() -> None:
    rig = Rig((1, 1, 0), run_rows=4)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(1) == (1, [1])
    rig.end(1, 1)
    rig.subject.work_arrived(2, 2, 1, 1)
    rig.rows.append(row_of(2, 2, 1))
    rig.limits[2] = Limits(priority=1)
    rig.subject.fill(2)
    rig.read()
    assert rig.subject.overtaken(lambda work: True) is False


def test_a_turn_ends_when_the_bytes_of_its_quantum_are_used_up() -> None:
    for wire_bytes, active in ((999, [1]), (1000, [])):
        rig = Rig((1, 1, 0), (2, 2, 0), quantum_bytes=1000)
        rig.subject.fill(1)
        rig.read()
        assert rig.take() == (1, [1])
        rig.end(1, 1, wire_bytes=wire_bytes)
        assert rig.pids == active


def test_one_waits_for_a_place_once() -> None:
    rig = Rig((1, 1, 0))
    rig.subject.fill(1)
    rig.read()
    for seq in range(20, 40):
        rig.subject.work_arrived(1, 1, seq)
    assert sum(map(len, rig.subject._queues)) == 1
