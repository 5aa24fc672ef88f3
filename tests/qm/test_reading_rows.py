"""Rows in memory: which are read, in what order they go out, what is read again; test_scheduler.py has the model."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.model import Ahead, Cursor, QueueRow, Recorded, Waiting
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import FetchInfo, Limits, ProviderWork
from tests.qm.model import NOW, key_of, row_of, scheduler

NOTHING = Recorded((), {}, {}, False)


class Rig:
    """Provider 1: a full set 5 of which much is left, and partial sets 7 and 8."""

    def __init__(self, full: int = 20, quantum: int = 6, read_ahead: int = 8, **options: Any) -> None:
        self.subject = scheduler(read_ahead, quantum_urls=quantum, **options)
        self.subject.delays.load([], 86400.0, NOW)
        self.rows = [row_of(1, 5, seq) for seq in range(1, full + 1)]
        self.rows += [row_of(1, psetid, seq) for psetid in (7, 8) for seq in (1, 2)]
        self.subject.load([Waiting(5, 1)])
        self.subject.fill(1)

    @property
    def work(self) -> ProviderWork:
        work = self.subject.active(1)
        assert work is not None
        return work

    def ahead(self, cursor: Cursor) -> Ahead:
        place = (cursor.psetid, cursor.seq)
        rows = [row for row in self.rows if row.pid == cursor.pid and (row.psetid, row.seq) > place]
        if cursor.partial:
            rows = [row for row in rows if row.psetid > 5]
        left = sum(row.psetid == 5 for row in rows) - cursor.limit
        return Ahead(cursor.pid, rows[: cursor.limit], max(0, left))

    def read(self) -> list[Cursor]:
        cursors = self.subject.wants_read_ahead(10)
        self.subject.rows_read(cursors, [self.ahead(cursor) for cursor in cursors], {1: FetchInfo("")})
        return cursors

    def take(self) -> tuple[int, int] | None:
        """The place of the next row, whose fetch ends at once."""
        work = self.subject.take(NOW)
        if work is None:
            return None
        ((row, _),) = work.rows_out
        self.end(row)
        return (row.psetid, row.seq)

    def end(self, row: QueueRow) -> None:
        self.subject.finished(1, row.key, 0, 0, NOW)
        self.rows.remove(row)
        self.subject.recorded([(row.key, row.generation)], NOTHING, NOW)

    @property
    def memory(self) -> list[tuple[int, int]]:
        return [(row.psetid, row.seq) for row in self.work.rows]


def test_partial_sets_pass_a_full_one_once_a_quantum_and_half_of_it() -> None:
    rig = Rig()
    assert rig.read() == [Cursor(1, 0, 0, 8)]
    work = rig.work
    assert work.passable and work.express_due and not work.express_done and work.cursor == (5, 8) and work.psetid == 5
    assert rig.read() == [Cursor(1, 6, 0, 3, True)]
    assert rig.memory == [(7, 1), (7, 2), (8, 1)] + [(5, seq) for seq in range(1, 9)]
    assert (work.express_done, work.express_due, work.express_count) == (True, False, 3)
    assert rig.subject.buffered_count == 11 and rig.subject.active_work() == [work]
    assert [rig.take() for _ in range(5)] == [(7, 1), (7, 2), (8, 1), (5, 1), (5, 2)]
    assert rig.read() == [], "more than half is there"
    assert rig.take() == (5, 3)
    # A new quantum has begun, since nobody waits.
    assert (work.served, work.express_count, work.express_done) == (0, 0, False)
    assert rig.take() == (5, 4)
    assert rig.read() == [Cursor(1, 5, 8, 4)], "its buffer is half empty"
    assert rig.read() == [Cursor(1, 6, 0, 3, True)] and rig.memory[:2] == [(8, 2), (5, 5)]


def test_the_set_that_it_is_in_is_known() -> None:
    rig = Rig(full=2)
    rig.read()
    assert rig.work.psetid == 5
    while rig.take() != (5, 2):
        pass
    rig.subject.work_arrived(1, 9, 1)
    rig.rows.append(row_of(1, 9, 1))
    while rig.take() is not None or rig.read():
        if rig.subject.active(1) is None:
            break
        psetid = rig.work.psetid
    assert psetid == 9


def test_partial_sets_go_on_where_the_full_one_has_none_in_memory() -> None:
    rig = Rig(quantum=6, read_ahead=2)
    rig.read()
    rig.read()
    work = rig.work
    assert work.express and len(work.buffer) == 2
    # Its rows are changed: they are read again, while those of the partial sets are there.
    rig.subject.touched([row.key for row in work.buffer])
    assert not work.buffer
    assert rig.take() == (7, 1)


def test_partial_sets_pass_the_last_row_that_is_in_memory() -> None:
    rig = Rig(quantum=6, read_ahead=2)
    rig.read()
    assert rig.take() == (5, 1)
    rig.read()
    assert len(rig.work.buffer) == 1 and rig.take() == (7, 1)


def test_nothing_is_read_twice_at_the_same_time() -> None:
    rig = Rig()
    (cursor,) = rig.subject.wants_read_ahead(10)
    rig.subject.provider_changed(1, Limits(), NOW)
    rig.subject.work_arrived(1, 5, 21)
    assert rig.subject.wants_read_ahead(10) == []
    rig.subject.rows_read([cursor], [rig.ahead(cursor)], {})
    assert [again.seq for again in rig.subject.wants_read_ahead(10)] == [0]


@pytest.mark.parametrize(("providers", "read"), [(8, 1), (9, 0)])
def test_what_is_half_empty_is_read_once_one_in_eight_wants_some(providers: int, read: int) -> None:
    subject = several(providers)
    for _ in range(4):
        hand_out(subject, 1)
    assert len(subject.wants_read_ahead(10)) == read


def test_what_is_at_a_quarter_is_read_at_once() -> None:
    subject = several(20)
    for left in (7, 6, 5, 4, 3):
        hand_out(subject, 1)
        assert subject.wants_read_ahead(10) == [], f"{left} rows of 8 are there"
    hand_out(subject, 1)
    assert [cursor.pid for cursor in subject.wants_read_ahead(10)] == [1]


def several(providers: int) -> Scheduler:
    """So many have their turn, each with eight rows in memory."""
    subject = scheduler(8)
    subject.delays.load([], 86400.0, NOW)
    subject.load([Waiting(1, pid) for pid in range(1, providers + 1)])
    subject.fill(providers)
    cursors = subject.wants_read_ahead(providers)
    aheads = [Ahead(each.pid, [row_of(each.pid, 1, seq) for seq in range(1, 9)]) for each in cursors]
    subject.rows_read(cursors, aheads, {each.pid: FetchInfo("") for each in cursors})
    assert subject.wants_read_ahead(providers) == []
    return subject


def hand_out(subject: Scheduler, pid: int) -> None:
    """The next row of this provider goes out, and comes back."""
    work = subject.active(pid)
    assert work is not None
    row = work.buffer[0]
    subject._queues[0].remove(work)
    subject._queues[0].appendleft(work)
    assert subject.take(NOW) is work
    subject.finished(pid, row.key, 0, 0, NOW)
    subject.recorded([(row.key, row.generation)], NOTHING, NOW)


def test_a_quantum_of_one_row_lets_one_pass() -> None:
    rig = Rig(quantum=1)
    rig.read()
    assert rig.read() == [Cursor(1, 6, 0, 1, True)]


def test_once_little_is_left_of_the_full_set_nobody_passes() -> None:
    rig = Rig(full=12, quantum=3)
    rig.read()
    assert rig.work.passable
    rig.read()
    assert rig.memory[0] == (7, 1)
    while len(rig.work.buffer) > 4:
        rig.take()
    rig.read()
    assert not rig.work.passable and not rig.work.express and not rig.work.express_due
    # What is read of partial sets meanwhile is not used.
    rig = Rig(full=12, quantum=3)
    rig.read()
    (cursor,) = rig.subject.wants_read_ahead(9)
    assert cursor.partial and rig.work.express_done
    rig.subject.work_arrived(1, 2, 1)  # before the full set: it may be a partial one
    rig.subject.rows_read([cursor], [rig.ahead(cursor)], {})
    assert not rig.work.express and not rig.work.express_done and not rig.work.passable
    assert rig.work.cursor == (2, 0) and not rig.work.buffer


def test_rows_that_come_before_those_in_memory_are_read_again() -> None:
    rig = Rig()
    rig.read()
    rig.read()
    rig.subject.work_arrived(1, 5, 4)
    assert rig.memory == [(7, 1), (7, 2), (8, 1), (5, 1), (5, 2), (5, 3)] and rig.work.cursor == (5, 3)
    rig.subject.work_arrived(1, 5, 9)
    assert len(rig.memory) == 6, "that is behind the cursor"
    # Among the partial sets, only their tail.
    rig.subject.work_arrived(1, 7, 2)
    assert rig.memory[:2] == [(7, 1), (5, 1)] and rig.work.express_due and not rig.work.express_done
    assert rig.work.express_count == 1
    rig.read()
    assert rig.memory[:4] == [(7, 1), (7, 2), (8, 1), (5, 1)] and rig.work.express_count == 3
    rig.subject.work_arrived(1, 0, 0)
    assert rig.memory == [] and rig.work.cursor == (0, 0)


def test_rows_that_have_changed_are_read_again() -> None:
    rig = Rig()
    rig.read()
    rig.read()
    rig.subject.touched([key_of(2, 1), row_of(1, 5, 6).key, row_of(1, 5, 8).key])
    assert rig.memory[-1] == (5, 5) and rig.work.cursor == (5, 5) and len(rig.work.express) == 3
    rig.subject.touched([row_of(1, 7, 2).key])
    assert not rig.work.express and rig.work.express_due and rig.memory[-1] == (5, 5)
    # What is being read of them now is of before.
    (cursor,) = rig.subject.wants_read_ahead(9)
    assert cursor.partial
    rig.subject.touched([row_of(1, 8, 1).key])
    assert rig.work.express_stale
    rig.subject.rows_read([cursor], [rig.ahead(cursor)], {})
    assert not rig.work.express and rig.work.express_due
    assert rig.read()[0].partial and rig.work.express
    # So it is with a read of the full set: what follows its beginning is read again.
    rig = Rig()
    (cursor,) = rig.subject.wants_read_ahead(9)
    rig.subject.touched([row_of(1, 5, 2).key])
    assert rig.work.rewind == (0, 1)
    rig.subject.rows_read([cursor], [rig.ahead(cursor)], {1: FetchInfo("")})
    assert rig.memory == [] and rig.work.rewind is None and rig.read() == [Cursor(1, 0, 0, 8)]


def test_what_is_out_or_was_recorded_meanwhile_is_not_read_as_new() -> None:
    rig = Rig()
    rig.read()
    row = next(row for row in rig.rows if (row.psetid, row.seq) == (7, 1))
    rig.subject.known(row.key, 3)
    rig.subject.known(row.key, 9)
    assert rig.subject._taken == {row.key: 3}
    (cursor,) = rig.subject.wants_read_ahead(9)
    ahead = rig.ahead(cursor)
    other = ahead.rows[1]
    rig.subject.recorded([(other.key, other.generation)], NOTHING, NOW)  # while it is read
    rig.subject.rows_read([cursor], [ahead], {})
    assert rig.memory[:2] == [(8, 1), (5, 1)] and rig.work.express_count == 1 and not rig.work.recent
    # A later generation is another row.
    rig = Rig()
    (cursor,) = rig.subject.wants_read_ahead(9)
    first, second = rig.rows[:2]
    rig.subject.recorded([(first.key, first.generation), (second.key, second.generation - 1)], NOTHING, NOW)
    rig.subject.rows_read([cursor], [rig.ahead(cursor)], {})
    assert rig.memory[:2] == [(5, 2), (5, 3)]
    # One whose result came while it was in memory is passed over.
    rig.subject.known(rig.rows[1].key, 1)
    assert rig.take() == (5, 3)


def test_what_could_not_be_read_is_wanted_again() -> None:
    rig = Rig()
    cursors = rig.subject.wants_read_ahead(9)
    assert rig.subject.wants_read_ahead(9) == []
    rig.subject.work_arrived(1, 3, 4)
    rig.subject.read_failed([Cursor(1, 9, 9, 9)])
    assert rig.work.reading is cursors[0] and rig.work.rewind == (3, 4)
    rig.work.info_stale = True
    rig.subject.read_failed(cursors)
    assert rig.work.reading is None and rig.work.rewind is None and not rig.work.info_stale
    assert rig.subject.wants_read_ahead(9) == [Cursor(1, 0, 0, 8)]
    rig.subject.provider_removed(1)
    rig.subject.read_failed(cursors)
    rig.subject.rows_read(cursors, [rig.ahead(cursors[0])], {})
    assert rig.subject.active_count == 0 and rig.subject.buffered_count == 0


def test_where_others_wait_no_more_is_read_than_a_quantum() -> None:
    rig = Rig(quantum=6, read_ahead=20)
    rig.subject.work_arrived(2, 9, 1)
    assert rig.subject.wants_read_ahead(9) == [Cursor(1, 0, 0, 6)]
    rig = Rig(full=40, quantum=6, read_ahead=20)
    rig.read()
    rig.read()
    assert len(rig.work.express) == 3
    rig.subject.work_arrived(1, 5, 3)
    rig.subject.work_arrived(2, 9, 1)
    assert rig.read() == [Cursor(1, 5, 2, 2)], "with one in hand it would be one: two at least"
    rig.work.express.clear()
    rig.subject.work_arrived(1, 5, 2)
    assert rig.read() == [Cursor(1, 5, 1, 5)]
