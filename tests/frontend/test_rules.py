"""Whose an id is, and where a new provider goes."""

from __future__ import annotations

from itertools import permutations

from lcc.domain.frontend.sub_lccs import free_room, home_of, is_stale, with_most_room
from lcc.model.frontend.places import SubState
from tests.frontend.kit import NOW, sublcc, vitals


def test_home() -> None:
    subs = [sublcc(1), sublcc(3)]
    assert [getattr(home_of(subs, pid), "name", None) for pid in (0, 1, 100, 101, 200, 201, 300, 301)] == [
        *(None, "a", "a", None, None, "c", "c", None),
    ]


def test_free_room_is_the_scarcer_of_files_and_space() -> None:
    assert free_room(sublcc(1), vitals(1, files=10**9)) == 1
    assert free_room(sublcc(1, files_max=100), vitals(1, files=25)) == 0.75
    assert free_room(sublcc(1, files_max=100, space_max_bytes=1000), vitals(1, 25, 900)) == 1 - 0.9
    assert free_room(sublcc(1, files_max=0), vitals(1)) == 0
    assert free_room(sublcc(1, files_max=100), vitals(1, files=150)) < 0


def test_the_one_with_the_most_room() -> None:
    a, b, c = (sublcc(number, files_max=1000) for number in (1, 2, 3))
    reports = {1: vitals(1, 500), 2: vitals(2, 100), 3: vitals(3, 0)}
    assert with_most_room([a, b, c], reports, NOW, 60) == c
    draining = sublcc(3, state=SubState.DRAINING)
    assert with_most_room([a, b, draining], reports, NOW, 60) == b
    assert with_most_room([a, b], {**reports, 2: vitals(2, 100, time=NOW - 61)}, NOW, 60) == a
    assert with_most_room([a], {}, NOW, 60) is None
    assert with_most_room([sublcc(1, files_max=500)], reports, NOW, 60) is None
    # Nobody has said how much there is: the emptier one.
    assert with_most_room([sublcc(1), sublcc(2)], reports, NOW, 60) == sublcc(2)
    assert is_stale(None, NOW, 60) and not is_stale(vitals(1), NOW, 60)
    assert is_stale(vitals(1, time=NOW - 61), NOW, 60) and not is_stale(vitals(1, time=NOW - 60), NOW, 60)
    for order in permutations([a, b, c, sublcc(4)]):
        assert with_most_room(order, reports, NOW, 60) == c
        assert with_most_room(order, {1: reports[1], 2: vitals(2, 500)}, NOW, 60) == a, "the first of equal ones"
