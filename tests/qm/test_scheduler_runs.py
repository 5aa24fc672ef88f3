"""When a run may grow, and what it may bring; each rule by itself."""

from __future__ import annotations

import pytest

from lcc.model import Waiting
from lcc.roles.qm.schedule.work import Limits
from tests.qm.model import DNS, NOW, key_of, row_of, scheduler
from tests.qm.test_scheduler_turns import NOTHING, Rig

KIB16 = 16_384
"""What a row is expected to bring of which nothing is known."""


def begun(*waiting: tuple[int, int, int], out: int = 2, **options: object) -> Rig:
    """A run of the first provider is out."""
    rig = Rig(*waiting, **{"run_rows": 4, **options})
    rig.subject.fill(1)
    rig.read()
    taken = rig.take(out)
    assert taken is not None and taken[0] == 1
    return rig


def test_one_more_row_may_follow() -> None:
    assert begun((1, 1, 0)).more(room=1) == [(1, [3])]


def test_what_has_come_back_altogether_has_nothing_to_grow() -> None:
    rig = begun((1, 1, 0))
    rig.end(1, 1)
    rig.end(1, 2)
    assert rig.more() == [], "it is in the queue again, where it takes its turn"
    assert rig.take() == (1, [3])


def test_runs_of_two_rows_are_recalled_for_a_higher_priority() -> None:
    rig = begun((1, 1, 0), run_rows=2)
    rig.subject.work_arrived(2, 2, 1, 2)
    rig.rows.append(row_of(2, 2, 1))
    rig.limits[2] = Limits(priority=2)
    rig.subject.fill(1)
    rig.read()
    assert rig.subject.overtaken(lambda work: True) is True and rig.subject.recalls == {1}


def test_no_run_grows_beyond_the_bytes_of_its_quantum_while_others_wait() -> None:
    rig = begun((1, 1, 0), (2, 2, 0), quantum_bytes=3 * KIB16)
    assert rig.more() == [(1, [3])], "of the third row the last byte may just come"
    rig.end(1, 1, wire_bytes=KIB16)
    assert rig.more() == []


def test_a_quantum_is_used_up_when_all_its_bytes_have_come_or_are_to_come() -> None:
    rig = begun((1, 1, 0), out=3, run_rows=8, quantum_bytes=3 * KIB16)
    rig.end(1, 1, wire_bytes=KIB16)
    assert rig.more(8) == [(1, [4])], "nobody waits: it gets another one"


def test_rows_whose_own_hours_are_closed_are_passed_over() -> None:
    rig = Rig((1, 1, 0))
    rig.rows[0] = row_of(1, 1, 1, hours="6-20")
    rig.subject.fill(1)
    rig.read()
    assert rig.take() == (1, [2])
    assert [each.key for each in rig.subject.hours.closed] == [rig.rows[0].key]


def test_what_fills_a_quantum_by_itself_goes_out_alone() -> None:
    rig = begun((1, 1, 0), out=4, quantum_bytes=KIB16)
    (work,) = rig.active(1)
    assert work.busy == 1 and rig.more() == [], "though nobody waits"
    assert work.served == 1, "nor has another quantum begun"
    rig.end(1, 1, wire_bytes=KIB16)
    assert rig.take(4) == (1, [2])


def test_a_run_ends_with_its_quantum_where_somebody_waits() -> None:
    rig = begun((1, 1, 0), (2, 2, 0), quantum_urls=2)
    assert rig.more() == []
    # Likewise where he has a turn already, and waits for a place.
    rig = Rig((1, 1, 0), (2, 2, 0), quantum_urls=2, run_rows=4)
    rig.subject.fill(2)
    rig.read()
    assert rig.take(2) == (1, [1, 2]) and rig.more() == []
    assert rig.take(2) == (2, [1, 2]) and rig.more() == [(2, [3, 4])]


@pytest.mark.parametrize(("run_rows", "active"), [(1, [1, 3]), (4, [1, 3, 4])])
def test_a_higher_priority_gets_its_turn_where_a_run_can_be_recalled(run_rows: int, active: list[int]) -> None:
    """One is out, one waits for a place: that gives up its turn, and the first one's run may be recalled."""
    rig = Rig((1, 1, 0), (2, 2, 0), run_rows=run_rows)
    rig.subject.fill(2)
    rig.read()
    assert rig.take(2) is not None
    for pid in (3, 4, 5):
        rig.subject.work_arrived(pid, pid, 1, 1)
    rig.subject.fill(1)
    assert rig.pids == active


def test_a_provider_that_is_withheld_and_has_an_order_out_has_its_turn() -> None:
    subject = scheduler()
    subject.delays.load([], 86400.0, NOW)
    subject.load([Waiting(5, 1), Waiting(6, 2), Waiting(7, 3)], withhold=True)
    subject.running(1, key_of(1, 1), 1)
    subject.provider_removed(2)
    assert subject.withheld.keys() == {3} and subject.waiting_count == 1
    subject.let_go(NOW)
    assert [turn.pid for turn in subject.ready.first(9)] == [3]


def test_memory_is_shared_with_those_that_are_out() -> None:
    rig = Rig(*((pid, pid, 0) for pid in range(1, 5)), read_ahead=600)
    rig.subject.fill(4)
    rig.read()
    assert rig.take() is not None and rig.take() is not None
    rig.subject.fill(2)
    assert rig.subject._limit == 250, "a thousand rows for two that are out and two that are to be"


def test_what_comes_of_a_provider_without_a_turn() -> None:
    rig = Rig((1, 1, 0))
    rig.subject.finished(9, key_of(9, 1), 0, 100, NOW)
    rig.subject.lost(9, key_of(9, 1), 3, 1)
    assert [turn.pid for turn in rig.subject.ready.first(9)] == [1, 9]


def test_the_priority_of_one_that_waits_is_changed() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0))
    rig.subject.provider_changed(2, Limits(priority=1), NOW)
    rig.subject.fill(1)
    assert rig.pids == [2]


def test_an_answer_ends_the_errors_of_its_site() -> None:
    """The next one's delay is the first one again."""
    rig = Rig((1, 1, 0))
    waits = []
    for now in (NOW, NOW + 100, NOW + 200):
        if now == NOW + 200:
            rig.subject.finished(1, key_of(1, 9), 0, 0, now)
        rig.subject.hold(1, DNS, now)
        waits.append(rig.subject.delays.until(1) - now)
        rig.subject.release(now + 100)
    assert waits[0] == waits[2] < waits[1]


def test_a_bandwidth_that_became_known_with_its_rows_is_known_in_its_next_turn() -> None:
    rig = Rig((1, 1, 0))
    rig.limits[1] = Limits(priority=2)
    rig.subject.fill(1)
    rig.read()
    while rig.subject.active(1) is not None:
        taken = rig.take()
        if taken is None:
            rig.read()
        else:
            rig.end(1, taken[1][0])
    rig.subject.work_arrived(1, 4, 1)
    ready = rig.subject.ready.get(1)
    assert ready is not None and ready.priority == 2


def test_what_was_recorded_makes_room_for_the_end_of_its_turn() -> None:
    """All has been fetched, and a result that was in doubt is recorded: its turn is over."""
    rig = Rig((1, 1, 0), rows=1)
    rig.subject.fill(1)
    rig.read()
    assert rig.take() == (1, [1])
    rig.read()
    row = rig.end(1, 1, DNS)
    assert rig.pids == [1]
    rig.subject.recorded([(row.key, row.generation)], NOTHING, NOW)
    assert rig.pids == []
