"""What fetches cost their providers."""

from __future__ import annotations

import pytest

from lcc.model import ProviderHosts
from lcc.roles.qm.schedule.costs import Costs, expected_bytes, paid_for
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.hosts import HostGroups
from lcc.roles.qm.schedule.inactive import Inactive
from lcc.roles.qm.schedule.work import START, FetchInfo, Limits, ProviderWork
from tests.qm.model import row_of

NOW = 1_700_000_000.0


class Rig:
    """Costs, and provider 1, which has its turn."""

    def __init__(self, limits: Limits | None) -> None:
        self.active: dict[int, ProviderWork] = {}
        self.inactive, self.delays = Inactive(), Delays(10.0, 100.0, lambda: 0.5)
        self.delays.release(NOW)
        self.hosts = HostGroups()
        self.costs = Costs(self.active, self.inactive, self.delays, self.hosts)
        self.work = ProviderWork(1, START, 0)
        if limits is not None:
            self.work.info = FetchInfo("http://h/", limits=limits)
        self.active[1] = self.work


@pytest.mark.parametrize(
    ("limits", "spaces", "decided"),
    [
        (Limits(), True, (10, 5000)),
        (Limits(rate=1000), True, (10, 1000)),
        (Limits(rate=9000), True, (10, 5000)),
        (Limits(interval=0.25), True, (4, 5000)),
        (Limits(interval=0.01), True, (10, 5000)),
        (Limits(interval=60.0), True, (1, 5000)),
        (Limits(interval=0.25), False, (1, 5000)),
        (Limits(rate=100, interval=0.5), True, (2, 100)),
    ],
)
def test_how_much_of_a_run_is_decided_in_advance(limits: Limits, spaces: bool, decided: tuple[int, int]) -> None:
    assert paid_for(limits, 10, 5000, spaces) == decided


def test_what_a_fetch_will_bring() -> None:
    row = row_of(1, 1, 1)
    assert expected_bytes(row) == 16_384
    assert expected_bytes(row._replace(notice=row.notice._replace(length=0))) == 0


def test_bytes_are_charged_to_the_bandwidth_and_the_start_to_the_interval() -> None:
    rig = Rig(Limits(rate=100, interval=20.0))
    rig.costs.came(1, 500, NOW, 4.0)
    record = rig.delays.get(1)
    assert record is not None and (record.owed, record.due) == (NOW + 5, NOW + 16)
    assert rig.work.served_bytes == 500 and rig.work.unpaid_bytes == 0


def test_without_limits_nothing_is_charged() -> None:
    rig = Rig(Limits())
    rig.costs.came(1, 500, NOW, 4.0)
    rig.costs.owes(1, 3.0, NOW)
    assert rig.delays.get(1) is None and rig.inactive.take_began(1) == 0


def test_what_came_before_the_limits_were_known_is_charged_once_they_are() -> None:
    rig = Rig(None)
    rig.costs.came(1, 500, NOW, 4.0)
    assert rig.delays.get(1) is None and rig.work.unpaid_bytes == 500
    rig.costs.limits_known(rig.work, Limits(rate=100, interval=20.0))
    record = rig.delays.get(1)
    assert record is not None and (record.owed, record.due) == (NOW + 5, NOW + 16)
    rig.costs.limits_known(rig.work, Limits(rate=100, interval=20.0))
    assert (record.owed, record.due) == (NOW + 5, NOW + 16), "once"
    unlimited = Rig(None)
    unlimited.costs.came(1, 500, NOW, 4.0)
    unlimited.costs.limits_known(unlimited.work, Limits())
    assert unlimited.delays.get(1) is None and unlimited.work.unpaid_bytes == 0


def test_what_is_remembered_of_who_leaves_is_charged() -> None:
    """Whether it has its turn, without limits so far, or none."""
    for has_turn in (True, False):
        rig = Rig(None)
        if not has_turn:
            del rig.active[1]
        rig.costs.came(1, 500, NOW, 4.0)
        rig.costs.leaves(1, Limits(rate=100, interval=20.0))
        record = rig.delays.get(1)
        assert record is not None and (record.owed, record.due) == (NOW + 5, NOW + 16)
        assert rig.delays.has_changed(1) and not rig.delays.has_changed(2)
        rig.costs.leaves(1, Limits(rate=100, interval=20.0))
        assert (record.owed, record.due) == (NOW + 5, NOW + 16), "once"


def test_a_fetch_counts_for_all_of_its_host() -> None:
    rig = Rig(Limits())
    for pid in (1, 2, 3):
        rig.hosts.learn(ProviderHosts(pid, ("h" if pid < 3 else "other",), True), NOW - 100)
    group = rig.work.group = rig.hosts.get(1)
    assert group is not None and group is rig.hosts.get(2) and group.began == NOW - 100
    rig.costs.came(1, 500, NOW, 40.0)
    assert group.began == NOW - 40
    rig.costs.came(2, 500, NOW, 30.0)  # it has no turn
    assert group.began == NOW - 30
    rig.costs.came(3, 500, NOW, 4.0)
    rig.costs.came(2, 500, NOW, 35.0)
    assert group.began == NOW - 30
    rig.costs.limits_known(rig.work, Limits(interval=60.0))
    assert rig.delays.until(1) == NOW + 30


def test_of_a_provider_without_a_turn_it_is_remembered() -> None:
    rig = Rig(Limits())
    rig.costs.came(2, 500, NOW, 4.0)
    work = ProviderWork(2, START, 0)
    rig.inactive.comes(work)
    assert work.unpaid_bytes == 500 and rig.inactive.take_began(2) == NOW - 4


def test_what_a_robot_hands_back_begins_later() -> None:
    rig = Rig(Limits(interval=20.0))
    rig.costs.owes(1, 3.0, NOW)
    assert rig.delays.until(1) == NOW + 3
    rig.costs.owes(2, 3.0, NOW)
    assert rig.inactive.take_began(2) == NOW
    unknown = Rig(None)
    unknown.costs.owes(1, 3.0, NOW)
    assert unknown.inactive.take_began(1) == NOW


def test_where_no_start_is_known_the_interval_counts_from_when_that_turned_out() -> None:
    rig = Rig(Limits(interval=20.0))
    rig.delays.began(2, NOW, 50.0, NOW)
    rig.costs.unsure([1, 2], NOW - 5)
    rig.costs.limits_known(rig.work, Limits(interval=20.0))
    assert rig.delays.until(1) == NOW + 15
    rig.costs.limits_known(rig.work, Limits(interval=60.0))
    assert rig.delays.until(1) == NOW + 15, "once"
    # Of 2 it is known.
    rig.costs.limits_known(ProviderWork(2, START, 0), Limits(interval=60.0))
    assert rig.delays.until(2) == NOW + 50
    # The wall clock was set meanwhile.
    for step in (-30.0, 30.0):
        rig = Rig(Limits(interval=20.0))
        rig.costs.unsure([1], NOW - 5 - step)
        rig.costs.stepped(step)
        rig.costs.limits_known(rig.work, Limits(interval=20.0))
        assert rig.delays.until(1) == NOW + 15


def test_after_a_restart_what_was_too_short_to_be_saved_may_last() -> None:
    rig = Rig(Limits(interval=20.0))
    rig.costs.begin(NOW)
    rig.costs.limits_known(rig.work, Limits(interval=20.0))
    assert rig.delays.until(1) == NOW + 1
    rig = Rig(Limits(interval=0.5))
    rig.costs.begin(NOW - 100)
    rig.costs.stepped(100.0)
    rig.costs.limits_known(rig.work, Limits(interval=0.5))
    assert rig.delays.until(1) == NOW + 0.5
    rig = Rig(Limits(interval=20.0))
    rig.costs.limits_known(rig.work, Limits(interval=20.0))
    assert rig.delays.until(1) == 0, "without one"
