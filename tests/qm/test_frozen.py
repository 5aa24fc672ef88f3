"""Providers that move are frozen: nothing of them is handed out."""

from __future__ import annotations

import pytest

from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.frozen import Frozen
from lcc.roles.qm.schedule.inactive import Inactive
from lcc.roles.qm.schedule.ready_queue import ReadyQueue
from lcc.roles.qm.schedule.work import START, ProviderWork
from tests.qm.model import NOW, key_of


class Rig:
    """The frozen ones, and provider 1, which has its turn."""

    def __init__(self) -> None:
        self.work = ProviderWork(1, START, 0)
        self.taken: dict[bytes, int] = {}
        self.parked: set[int] = set()
        self.ready, self.inactive = ReadyQueue(), Inactive()
        self.delays = Delays(10.0, 100.0, lambda: 0.5)
        self.updated: list[int] = []
        self.recalled: list[int] = []
        self.frozen = Frozen(
            {1: self.work},
            self.taken,
            self.parked,
            self.ready,
            self.delays,
            self.inactive,
            lambda work: self.updated.append(work.pid),
            lambda work: self.recalled.append(work.pid),
        )


def test_what_is_out_of_one_that_is_frozen_is_recalled_once() -> None:
    rig = Rig()
    rig.frozen.freeze(2)
    assert 2 in rig.frozen and 2 in rig.delays and not rig.updated and not rig.recalled
    rig.frozen.freeze(1)
    assert (rig.updated, rig.recalled) == ([1], [1])
    rig.work.recalled = True
    rig.frozen.freeze(1)
    assert (rig.updated, rig.recalled) == ([1, 1], [1])


def test_the_frozen_of_before() -> None:
    rig = Rig()
    rig.frozen.load([3, 4])
    assert [pid in rig.frozen for pid in (1, 3, 4)] == [False, True, True]


def test_one_that_is_thawed_goes_on_where_it_was() -> None:
    rig = Rig()
    rig.parked.update({1, 5})
    rig.inactive.is_held(2, 7)
    for pid in (1, 2, 3):
        rig.frozen.freeze(pid)
    rig.updated.clear()
    for pid in (1, 2, 3):
        rig.frozen.thaw(pid)
    assert rig.updated == [1] and rig.parked == {5}
    assert 2 in rig.ready and 2 not in rig.inactive.delayed and 3 not in rig.ready


def test_one_that_is_thawed_waits_for_what_it_waited_for_before() -> None:
    rig = Rig()
    rig.parked.add(1)
    rig.delays.site_error(1, 1301, NOW)
    rig.frozen.freeze(1)
    rig.updated.clear()
    rig.frozen.thaw(1)
    assert 1 not in rig.frozen and rig.parked == {1} and not rig.updated


@pytest.mark.parametrize(("name", "value"), [("busy", 1), ("doubt", b"key"), ("recalled", True)])
def test_it_is_still_once_nothing_is_out_and_all_is_recorded(name: str, value: object) -> None:
    rig = Rig()
    rig.taken[key_of(2, 1)] = 1
    assert rig.frozen.is_still(1) is True and rig.frozen.is_still(2) is False and rig.frozen.is_still(3) is True
    setattr(rig.work, name, value)
    assert rig.frozen.is_still(1) is False
    setattr(rig.work, name, None)
    rig.taken[key_of(1, 1)] = 1
    assert rig.frozen.is_still(1) is False
