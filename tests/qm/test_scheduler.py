"""The scheduler against a model of the database: any history, any order of callbacks."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lcc.model import Ahead, Cursor, QueueRow, Recorded
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import FetchInfo

from .model import DNS, NOW, ModelStore, load, random_limits, random_step, row_of, scheduler

RUN_ROWS = st.sampled_from([1, 2, 16])


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.integers(2, 5), RUN_ROWS)
def test_every_row_is_handed_out_in_order_and_alone(seed: int, read_ahead: int, run_rows: int) -> None:
    random = Random(seed)
    store = ModelStore(scheduler(read_ahead, run_rows=run_rows), most=run_rows)
    for _ in range(random.randrange(400)):
        random_step(store, random)
    store.drain()
    assert store.subject.taken_count == 0
    assert store.subject.buffered_count == 0


@settings(max_examples=250)
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(1, 4), st.sampled_from([0, 0, 50]), RUN_ROWS)
@example(138015453, 2, 4, 0, 1)  # an order of a partial set that passes a full set is lost
@example(3034531233, 7, 7, 0, 1)  # an order ends before its provider's bandwidth is known
def test_hours_bandwidth_priorities_and_turns(
    seed: int, read_ahead: int, quantum: int, site_rate: int, run_rows: int
) -> None:
    random = Random(seed)
    limits = {pid: random_limits(random) for pid in (1, 2, 3)}
    run_rows = 1 if site_rate else run_rows
    quantum_bytes = random.choice([2000, 200_000])
    subject = scheduler(read_ahead, quantum_urls=quantum, quantum_bytes=quantum_bytes, run_rows=run_rows)
    store = ModelStore(subject, limits, site_rate, run_rows)
    store.quantum = quantum
    for _ in range(random.randrange(400)):
        random_step(store, random)
    store.drain()
    assert store.subject.taken_count == 0
    assert store.subject.buffered_count == 0


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.sets(st.integers(1, 3)))
def test_what_may_be_being_fetched_by_an_earlier_order_is_withheld(seed: int, running: set[int]) -> None:
    random = Random(seed)
    store = ModelStore(scheduler(3))
    for pid in random.choices((1, 2, 3), k=random.randrange(4)):
        store.absorb(pid, [(url, False) for url in range(random.randrange(1, 6))])
    store.restart(running)
    end = random.randrange(200)
    for step in range(200):
        if step == end:
            store.let_go()
        random_step(store, random)
    store.drain()
    assert store.subject.taken_count == 0 and store.subject.waiting_count == 0


FULL = [(url, False) for url in range(1, 9)]
DAY = "6-20"
"""Closed at first."""


@pytest.mark.parametrize(
    ("sets", "lost", "order"),
    [
        (["full", ""], 0, [(2, 1), (2, 2), (1, 1)]),
        (["full", ""], 1, [(2, 1), (2, 1), (2, 2), (1, 1)]),
        (["", "full", ""], 0, [(1, 1), (1, 2), (3, 1), (3, 2), (2, 1)]),
        (["full", DAY, ""], 0, [(2, 1), (2, 2), (3, 1), (1, 1)]),
        ([DAY, "full", ""], 0, [(1, 1), (1, 2), (3, 1)]),
    ],
    ids=["it passes", "its order is lost", "after an earlier one", "one between is due", "an earlier one is due"],
)
def test_a_partial_set_passes_the_full_set_and_no_other(
    sets: list[str], lost: int, order: list[tuple[int, int]]
) -> None:
    """Rows of the last set are in memory, to pass the full set, when something comes before them."""
    store = ModelStore(scheduler(5, quantum_urls=6))
    for number, kind in enumerate(sets):
        urls = FULL if kind == "full" else [(10 * number + url, False) for url in (10, 11)]
        store.absorb(1, urls, kind == "full", kind if kind == DAY else "")

    def step() -> None:
        while store.news:
            store.deliver()
        for _ in range(2):
            store.start_reads(1)
            store.finish_read(0, False)

    step()
    store.pass_time(8 * 3600.0)
    store.open_slots()
    for number in range(len(order)):
        step()
        assert store.take()
        if number < lost:
            store.lose(0)
        else:
            store.finish(0, 0)
            store.record()
    assert [(row.psetid, row.seq) for row in store.sent] == order


def read_all(subject: Scheduler, rows: list[QueueRow]) -> list[Cursor]:
    cursors = subject.wants_read_ahead(10)
    aheads = []
    for cursor in cursors:
        place = (cursor.psetid, cursor.seq)
        mine = [r for r in rows if r.pid == cursor.pid and (r.psetid, r.seq) > place]
        aheads.append(Ahead(cursor.pid, mine[: cursor.limit]))
    subject.rows_read(cursors, aheads, {cursor.pid: FetchInfo("") for cursor in cursors})
    return cursors


NOTHING = Recorded((), {}, {}, False)


def test_the_order_of_sets_decides_who_is_next() -> None:
    subject = scheduler()
    load(subject, (5, 7), (6, 8), (9, 9))
    subject.work_arrived(4, 2, 1)
    subject.fill(2)
    assert [cursor.pid for cursor in subject.wants_read_ahead(10)] == [4, 7]


def fetch_one(subject: Scheduler, rows: list[QueueRow]) -> int:
    """Fetch what is next; gives its provider."""
    read_all(subject, rows)
    work = subject.take(NOW)
    assert work is not None and len(work.rows_out) == 1
    ((row, _),) = work.rows_out
    key = row.key
    rows.remove(row)
    subject.finished(work.pid, key, 0, 0, NOW)
    subject.recorded([(key, 1)], NOTHING, NOW)
    return work.pid


def test_in_the_middle_of_its_turn_a_provider_goes_on() -> None:
    subject = scheduler(quantum_urls=2)
    load(subject, (1, 1), (2, 2), (3, 3))
    subject.fill(3)
    rows = [row_of(pid, pid, seq) for pid in (1, 2, 3) for seq in range(1, 6)]
    assert [fetch_one(subject, rows) for _ in range(15)] == [1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3, 1, 2, 3]


def test_a_higher_priority_takes_the_place_of_one_whose_turn_has_not_begun() -> None:
    subject = scheduler()
    load(subject, (1, 1), (2, 2))
    subject.fill(2)
    rows = [row_of(pid, pid, seq) for pid in (1, 2) for seq in (1, 2)]
    assert fetch_one(subject, rows) == 1
    subject.work_arrived(3, 3, 1, 2)
    subject.fill(2)
    assert subject.active(1) is not None and subject.active(2) is None and subject.active(3) is not None


def test_a_provider_with_nothing_left_is_forgotten() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1)]
    load(subject, (1, 1))
    subject.fill(1)
    read_all(subject, rows)
    work = subject.take(NOW)
    assert work is not None and [row for row, _ in work.rows_out] == [rows[0]] and work.info == FetchInfo("")
    assert subject.take(NOW) is None
    subject.finished(1, rows[0].key, 0, 0, NOW)
    assert subject.active_count == 0
    subject.recorded([(rows[0].key, 1)], NOTHING, NOW)
    assert subject.taken_count == 0


def test_work_that_arrives_while_reading_is_read_again() -> None:
    subject = scheduler()
    load(subject, (1, 1))
    subject.fill(1)
    cursors = subject.wants_read_ahead(10)
    subject.work_arrived(1, 2, 1)
    subject.rows_read(cursors, [Ahead(1, [row_of(1, 1, 1)])], {})
    assert subject.wants_read_ahead(10) == [Cursor(1, 1, 1, 3)]


def test_rows_of_operation_nothing_are_collected() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1, delete=True), row_of(1, 1, 2)]
    load(subject, (1, 1))
    subject.fill(1)
    read_all(subject, rows)
    work = subject.take(NOW)
    assert work is not None and [row for row, _ in work.rows_out] == [rows[1]]
    assert subject.hours.removed == [(rows[0].key, 1)]


def test_delays_grow_and_end_with_a_success() -> None:
    subject = scheduler(initial=10.0)
    row = row_of(1, 1, 1)
    now = NOW
    delays = []
    subject.work_arrived(1, 1, 1)
    for _ in range(6):
        subject.fill(1)
        read_all(subject, [row])
        work = subject.take(now)
        assert work is not None
        subject.finished(1, row.key, DNS, 0, now)
        assert subject.take(now) is None
        subject.recorded([(row.key, 1)], Recorded((), {1: DNS}, {}, False), now)
        assert 1 in subject.delays
        delay = subject.delays.site_error(1, DNS, now)
        delays.append(delay)
        subject.release(now + delay * 0.99)
        subject.fill(1)
        assert subject.wants_read_ahead(1) == []
        now += delay
        subject.release(now)
    assert delays == [8.75, 17.5, 35.0, 70.0, 87.5, 87.5]
    subject.fill(1)
    read_all(subject, [row])
    assert subject.take(now) is not None
    subject.finished(1, row.key, 404, 0, now)
    assert subject.delays.site_error(1, DNS, now) == 8.75


def test_nothing_is_sent_between_a_site_error_and_its_record() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1), row_of(1, 1, 2)]
    load(subject, (1, 1))
    subject.fill(1)
    read_all(subject, rows)
    subject.take(NOW)
    subject.finished(1, rows[0].key, DNS, 0, NOW)
    assert subject.take(NOW) is None
    subject.recorded([(rows[0].key, 1)], NOTHING, NOW)  # a deletion came between: nothing to hold for
    work = subject.take(NOW)
    assert work is not None and [row for row, _ in work.rows_out] == [rows[1]]


def test_an_order_of_an_earlier_run_blocks_its_provider() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1), row_of(1, 1, 2)]
    subject.running(1, rows[0].key, 1)
    load(subject, (1, 1))
    subject.fill(4)
    read_all(subject, rows)
    assert subject.take(NOW) is None
    subject.finished(1, rows[0].key, 0, 0, NOW)
    work = subject.take(NOW)
    assert work is not None and [row for row, _ in work.rows_out] == [rows[1]]


def test_a_removed_provider_is_gone() -> None:
    subject = scheduler()
    load(subject, (1, 1), (2, 2))
    subject.fill(1)
    read_all(subject, [row_of(1, 1, 1)])
    subject.provider_removed(1)
    subject.provider_removed(2)
    assert subject.take(NOW) is None
    subject.fill(5)
    assert subject.active_count == 0


def test_memory_is_shared_among_the_active() -> None:
    subject = scheduler(64, read_ahead_total=100)
    load(subject, *[(number, number) for number in range(1, 101)])
    subject.fill(20)
    assert {cursor.limit for cursor in subject.wants_read_ahead(100)} == {5}


def test_rows_are_read_in_company() -> None:
    """A buffer that is half empty waits for others like it; one that is at a quarter, or enough of them, do not."""
    subject = scheduler(8)
    rows = [row_of(pid, pid, seq) for pid in range(1, 11) for seq in range(1, 30)]
    load(subject, *[(pid, pid) for pid in range(1, 11)])
    subject.fill(10)
    assert len(read_all(subject, rows)) == 10

    def fetch(pid: int, count: int) -> None:
        work = subject.active(pid)
        assert work is not None
        for _ in range(count):
            work.buffer.popleft()
        subject._update(work)

    fetch(1, 4)
    assert subject.wants_read_ahead(10) == []
    fetch(2, 4)
    assert [cursor.pid for cursor in subject.wants_read_ahead(10)] == [1, 2]
    fetch(3, 4)
    assert subject.wants_read_ahead(10) == []
    fetch(3, 2)
    assert [cursor.pid for cursor in subject.wants_read_ahead(10)] == [3]
