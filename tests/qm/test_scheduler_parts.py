"""The parts of the scheduler, each by itself: who is next, what is remembered of providers, hours."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.model import FETCH_NOW, Cursor, QueueRow, Source, Waiting
from lcc.model.providers import Provider
from lcc.roles.qm.schedule import inactive as inactive_module
from lcc.roles.qm.schedule.delays import HOURS, Delays
from lcc.roles.qm.schedule.hours_filter import Closed, HoursFilter
from lcc.roles.qm.schedule.inactive import Inactive
from lcc.roles.qm.schedule.ready_queue import Ready, ReadyQueue
from lcc.roles.qm.schedule.work import START, FetchInfo, Limits, ProviderWork, fetch_info
from tests.qm.model import NOW, SLOTS, key_of, row_of

# Who is next.


def test_higher_priorities_first_then_earlier_sets_then_those_that_went_behind() -> None:
    queue = ReadyQueue()
    assert queue.next() is None and queue.top == -1 and len(queue) == 0
    queue.load([Waiting(9, 1), Waiting(7, 2, 2), Waiting(8, 3, 99), Waiting(5, 4, -1), Waiting(6, 5, 1)])
    queue.add(6, queue.behind(), 0)
    queue.add(7, queue.behind(), 0)
    queue.add(8, (3, 0), 0)
    queue.add(9, (10, 0), 0)
    expected = [(2, 2), (3, 2), (5, 1), (8, 0), (4, 0), (1, 0), (6, 0), (7, 0), (9, 0)]
    assert [(turn.pid, turn.priority) for turn in queue.first(99)] == expected
    assert [turn.pid for turn in queue.first(2)] == [2, 3]
    assert [queue.waits(priority) for priority in (0, 1, 2)] == [True, True, True] and queue.top == 2
    assert queue.get(6) == Ready((9, 1), 6, 0) and queue.get(7) == Ready((9, 2), 7, 0) and queue.get(99) is None
    assert [queue.priority(pid) for pid in (2, 5, 4, 99)] == [2, 1, 0, 0]
    taken = [queue.next() for _ in range(9)]
    assert [(turn.pid, turn.priority) for turn in taken if turn is not None] == expected
    assert queue.next() is None and len(queue) == 0 and not queue.waits(2) and 2 not in queue


def test_a_place_is_the_earliest_but_one_behind_is_kept() -> None:
    queue = ReadyQueue()
    for place, kept in (((5, 0), (5, 0)), ((7, 0), (5, 0)), ((5, 0), (5, 0)), ((3, 0), (3, 0))):
        queue.add(1, place, 0)
        assert queue.get(1) == Ready(kept, 1, 0) and len(queue) == 1
    queue.add(2, queue.behind(), 0)
    assert queue.get(2) == Ready((7, 1), 2, 0)
    queue.add(2, (1, 0), 0)
    assert queue.get(2) == Ready((7, 1), 2, 0)
    # With another priority it has the place that it is given.
    queue.add(2, (1, 0), 1)
    assert queue.get(2) == Ready((1, 0), 2, 1) and [queue.waits(level) for level in (0, 1)] == [True, True]
    queue.set_priority(2, 5)
    assert queue.get(2) == Ready((1, 0), 2, 2) and [queue.waits(level) for level in (0, 1, 2)] == [True, False, True]
    queue.set_priority(3, 1)
    assert 3 not in queue and 2 in queue and queue.top == 2
    queue.discard(2)
    queue.discard(2)
    assert 2 not in queue and queue.top == 0 and queue.next() == Ready((3, 0), 1, 0) and queue.top == -1


QUEUE_STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "behind", "next", "priority", "discard"]), st.integers(1, 5), st.integers(0, 9))
)


@given(QUEUE_STEPS)
def test_the_queue_is_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    queue, model = ReadyQueue(), dict[int, Ready]()
    for what, pid, number in steps:
        priority = number % 3
        known = model.get(pid)
        if what == "add":
            queue.add(pid, (number, 0), priority)
            keeps = known is not None and known.priority == priority and (known.place[1] or known.place[0] <= number)
            if not keeps:
                model[pid] = Ready((number, 0), pid, priority)
        elif what == "behind":
            place = queue.behind()
            assert all(place > other.place for other in model.values())
            queue.add(pid, place, priority)
            if known is None or known.priority != priority or not (known.place[1] or known.place <= place):
                model[pid] = Ready(place, pid, priority)
        elif what == "next":
            first = min(model.values(), key=lambda turn: (-turn.priority, turn.place, turn.pid), default=None)
            assert queue.next() == first
            if first is not None:
                del model[first.pid]
        elif what == "priority":
            queue.set_priority(pid, priority)
            if known is not None:
                model[pid] = known._replace(priority=priority)
        else:
            queue.discard(pid)
            model.pop(pid, None)
        assert len(queue) == len(model) and queue.top == max((turn.priority for turn in model.values()), default=-1)
        assert {pid: queue.get(pid) for pid in range(1, 6) if pid in queue} == model


def test_places_that_hold_no_longer_are_forgotten() -> None:
    queue = ReadyQueue()
    assert queue.behind() == (0, 1)
    queue.load([Waiting(70, 1), Waiting(60, 2), Waiting(50, 3), Waiting(10, 9, 1)])
    assert queue.get(1) == Ready((70, 0), 1, 0)
    for number in range(1006):
        assert len(queue._heaps[0]) == 3 + number, "as many as twice those that wait, and a thousand"
        queue.add(4, (9999 - number, 0), 0)
    assert [len(heap) for heap in queue._heaps] == [4, 1, 0]
    taken = [turn.pid for _ in range(5) if (turn := queue.next()) is not None]
    assert taken == [9, 3, 2, 1, 4] and queue.next() is None


# What is remembered.


def test_what_is_remembered_of_a_provider_without_a_turn() -> None:
    kept = Inactive()
    kept.waits(1, 5, 2)
    kept.waits(1, 7, 0)
    assert kept.delayed == {1: ((5, 0), 2)}
    kept.waits(1, 3, 1)
    assert kept.delayed == {1: ((3, 0), 2)}
    kept.delayed[2] = ((9, 4), 1)  # it went behind
    kept.waits(2, 3, 0)
    kept.is_held(2, 0)
    kept.is_held(3, 1)
    assert kept.delayed == {1: ((3, 0), 2), 2: ((9, 4), 1), 3: (START, 1)}
    kept.learn(3, Limits(priority=2))
    assert kept.delayed[3] == (START, 2) and kept.priority(3) == 2 and kept.priority(1) == 0
    kept.learn(3, Limits())
    assert kept.delayed[3] == (START, 0) and kept.priority(3) == 0
    kept.learn(4, Limits(priority=1))
    assert 4 not in kept.delayed and kept.priority(4) == 1


def test_a_turn_goes_on_with_the_quantum_that_was_left() -> None:
    kept, work = Inactive(), ProviderWork(1, START, 0)
    work.served, work.served_bytes = 3, 400
    kept.leaves(work, keep_quantum=True)
    for unpaid in (0, 50, 70):
        kept.owes(1, unpaid)
    again = ProviderWork(1, START, 0)
    kept.comes(again)
    assert (again.served, again.served_bytes, again.unpaid_bytes) == (3, 400, 120)
    kept.comes(again)
    assert (again.served, again.served_bytes, again.unpaid_bytes) == (0, 0, 0)
    kept.leaves(work, keep_quantum=False)
    kept.owes(1, 0)
    kept.comes(work)
    assert (work.served, work.served_bytes) == (0, 0) and not kept._unpaid


def test_the_latest_start_is_remembered_once() -> None:
    kept = Inactive()
    assert kept.take_began(1) == 0
    for begun in (NOW, NOW + 2, NOW + 1):
        kept.began(1, begun)
    kept.began(2, NOW)
    kept.stepped(60.0)
    kept.began(3, 0.5)
    assert kept.take_began(3) == 0.5
    assert kept.take_began(1) == NOW + 62 and kept.take_began(1) == 0 and kept.take_began(2) == NOW + 60


def test_a_provider_that_is_gone_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, work = Inactive(), ProviderWork(1, START, 0)
    work.served = 5
    kept.is_held(1, 1)
    kept.leaves(work, keep_quantum=True)
    kept.owes(1, 7)
    kept.began(1, NOW)
    kept.learn(1, Limits(priority=2))
    kept.is_slow(1, 30.0)
    kept.discard(1)
    kept.comes(work)
    assert (kept.delayed, work.served, work.unpaid_bytes, kept.priority(1), kept.take_began(1)) == ({}, 0, 0, 0, 0)
    assert work.page_seconds == 0
    # Of so many the priorities are known; those that were learnt longest ago go first.
    monkeypatch.setattr(inactive_module, "_KEPT", 2)
    for pid in (1, 2, 1, 3):
        kept.learn(pid, Limits(priority=1))
        kept.is_slow(pid, 30.0)
    assert [kept.priority(pid) for pid in (1, 2, 3)] == [1, 0, 1]


def test_how_long_a_fetch_takes() -> None:
    kept, work = Inactive(), ProviderWork(1, START, 0)
    found = []
    for seconds in (0.0, 20.0, 40.0, 0.0, 5.0):
        work.took(seconds)
        found.append(work.page_seconds)
    assert found == [0.0, 20.0, 25.0, 25.0, 20.0]
    kept.is_slow(1, 20.0)
    for expected in (20.0, 0.0):
        work = ProviderWork(1, START, 0)
        kept.comes(work)
        assert work.page_seconds == expected


def test_what_orders_say_of_a_provider() -> None:
    info = fetch_info(
        Provider(
            pid=1,
            password_hash="",
            roots=("http://a.example/x/", "https://b.example/"),
            hours="6-20",
            timezone="Asia/Tokyo",
            bandwidth_bytes=5000,
            interval_seconds=None,
            priority=7,
            allow_private=True,
            insecure=False,
            watched=True,
        )
    )
    assert info.limits == Limits(5000, "6-20", "Asia/Tokyo", 2, 0.0)
    assert info.roots == "http://a.example/x/ https://b.example/" and info.hosts == ("a.example", "b.example")
    assert (info.private, info.insecure, info.watched) == (True, False, True)


def test_without_more_nothing_is_limited() -> None:
    assert START == (0, 0) and Limits() == (None, "", "", 0, 0.0)
    assert FetchInfo("http://h/") == ("http://h/", False, False, Limits(), ("",), (), False)
    provider = Provider(pid=1, roots=("http://h/",), password_hash="", interval_seconds=2.5)
    assert fetch_info(provider).limits == Limits(interval=2.5)


def test_a_turn_begins_with_nothing_read_and_nothing_out() -> None:
    work = ProviderWork(1, (4, 0), 1)
    known = {name: value for name in ProviderWork.__slots__ if (value := getattr(work, name))}
    assert known == {"pid": 1, "place": (4, 0), "priority": 1, "psetid": 4, "cursor": START} | {
        "hours_end": inf,
        "start_by": inf,
    }
    assert (work.busy, work.served, work.machine, work.doubt, work.reading, work.info) == (0, 0, 0, None, None, None)
    assert work.queued is work.gone is work.used is work.recalled is work.exhausted is False


def test_rows_go_out_and_come_back() -> None:
    work = ProviderWork(1, (4, 0), 1)
    assert (work.psetid, work.place, work.priority, work.has_rows, work.finished) == (4, (4, 0), 1, False, False)
    work.exhausted = True
    assert work.finished
    early, full = [row_of(1, 2, 1), row_of(1, 2, 2)], [row_of(1, 5, seq) for seq in (1, 2)]
    work.cursor = (5, 2)
    work.buffer.extend([*early, *full])
    work.express.append(row_of(1, 7, 1))
    assert work.rows == [*early, row_of(1, 7, 1), *full] and work.has_rows and not work.finished
    work.buffer.clear()
    assert work.has_rows
    work.express.clear()
    assert not work.has_rows and work.finished
    work.buffer.append(early[0])
    assert work.has_rows and not work.finished
    work.buffer.clear()
    work.reading = Cursor(1, 5, 2, 4)
    assert not work.finished
    work.start_by = NOW
    for seq, expected in ((1, 100), (2, 30)):
        work.hand_out(row_of(1, 5, seq), expected)
    assert work.rows_out == [(row, NOW) for row in full]
    assert (work.busy, work.served, work.used, work.expected_bytes) == (2, 2, True, 130)
    work.recalled = True
    work.came_back(full[0].key)
    assert (work.busy, work.expected_bytes, work.recalled) == (1, 30, True)
    work.came_back(key_of(1, 99))
    assert (work.busy, work.expected_bytes, work.recalled) == (0, 30, False)
    work.came_back(full[1].key)
    assert (work.busy, work.expected_bytes) == (0, 0)
    work.served_bytes, work.express_done = 500, True
    work.express.extend(full)
    work.renew_quantum()
    assert (work.served, work.served_bytes, work.express_done, work.express_count) == (0, 0, False, 2)


# Hours.  It is 22:13:20.

HOUR, DAY = 3600.0, 86400.0
TEN = NOW - 800  # 22:00


def hours_filter(margin: float = 0.0) -> tuple[HoursFilter, Delays]:
    delays = Delays(10.0, 100.0, lambda: 0.0)
    return HoursFilter(SLOTS, delays, margin), delays


def work_with(**limits: Any) -> ProviderWork:
    work = ProviderWork(1, START, 0)
    work.info = FetchInfo("http://h/", limits=Limits(**limits), prefixes=("http://h/",))
    return work


def test_open_hours_are_known_to_their_end() -> None:
    subject, delays = hours_filter()
    work = work_with(hours="22-23")
    assert subject.lets_provider(work, NOW) is True
    assert (work.open_since, work.open_until, work.hours_end) == (NOW, TEN + HOUR - 1, TEN + HOUR)
    assert 1 not in delays
    # With less than a second left an order is not worth sending.
    for seconds, lets in ((1.25, True), (1.0, False), (0.5, False)):
        subject, delays = hours_filter()
        assert subject.lets_provider(work_with(hours="22-23"), TEN + HOUR - seconds) is lets
        assert delays.until(1) == (0.0 if lets else TEN + DAY)
    # It is not asked again before.
    work = work_with(hours="1-2")
    work.open_since, work.open_until = NOW, NOW + 5
    assert [subject.lets_provider(work, NOW + seconds) for seconds in (0, 4, 5, -1)] == [True, True, False, False]


def test_closed_hours_delay_the_provider_until_they_open() -> None:
    for hours, until in (("23-24", TEN + HOUR), ("6-20", TEN + 8 * HOUR), ("21-22", TEN + 23 * HOUR)):
        subject, delays = hours_filter()
        assert subject.lets_provider(work_with(hours=hours), NOW) is False
        record = delays.get(1)
        assert record is not None and (record.reason, record.until) == (HOURS, until)
    # In the provider's time zone it is 7:13.
    subject, delays = hours_filter()
    assert subject.lets_provider(work_with(hours="7-8", timezone="Asia/Tokyo"), NOW) is True
    assert subject.lets_provider(work_with(hours="8-9", timezone="Asia/Tokyo"), NOW) is False
    assert delays.until(1) == TEN + HOUR
    # What this period does not know is never open.
    subject, delays = hours_filter()
    assert subject.lets_provider(work_with(hours="no hours"), NOW) is False
    assert delays.until(1) == NOW + DAY
    # Without limits, or without hours, it is always open.
    for work in (ProviderWork(1, START, 0), work_with()):
        assert subject.lets_provider(work, NOW) is True and work.hours_end == inf


def test_the_end_of_hours_is_not_used() -> None:
    subject, delays = hours_filter(60.0)
    work = work_with(hours="22-23")
    assert subject.lets_provider(work, NOW) and work.hours_end == TEN + HOUR - 60
    assert subject.lets_provider(work_with(hours="22-23"), TEN + HOUR - 61) is False
    assert delays.until(1) == TEN + DAY
    # A quarter of a slot at most.
    subject, delays = hours_filter(5000.0)
    work = work_with(hours="22-23")
    assert subject.lets_provider(work, NOW) and work.hours_end == TEN + 2700


def look(subject: HoursFilter, work: ProviderWork, now: float = NOW, **changes: Any) -> tuple[bool, QueueRow]:
    row = row_of(1, 1, 1, **changes)
    return subject.lets_row(work, row, now), row


def test_a_row_without_hours_begins_within_its_providers() -> None:
    subject, _ = hours_filter()
    work = work_with()
    work.hours_end = NOW + 77
    assert look(subject, work)[0] is True and work.start_by == NOW + 77
    assert look(subject, ProviderWork(1, START, 0))[0] is True
    assert subject.reached_count == 0


def test_a_row_with_hours_begins_within_both() -> None:
    subject, _ = hours_filter(60.0)
    work = work_with(hours="20-3")
    assert look(subject, work, hours="22-24")[0] is True and work.start_by == TEN + 2 * HOUR - 60
    lets, row = look(subject, work, hours="5-7")
    assert lets is False and subject.never == [row] and not subject.closed
    # It has closed, or has too little left.
    for now in (NOW, TEN + HOUR - 61, TEN + HOUR - 60):
        subject, _ = hours_filter(60.0)
        lets, row = look(subject, work, now, hours="1-2" if now == NOW else "22-23")
        closes = NOW if now == NOW else TEN + HOUR
        assert lets is False and work.info is not None
        assert subject.closed == [Closed(row.key, 1, row.notice.hours, work.info.limits, closes)]
    assert look(subject, work, TEN + HOUR - 62, hours="22-23")[0] is True
    # The provider's time zone counts; what is known of none has the LCC's.
    tokyo = work_with(timezone="Asia/Tokyo")
    assert look(subject, tokyo, hours="7-8")[0] is True and look(subject, tokyo, hours="22-23")[0] is False
    assert look(subject, ProviderWork(1, START, 0), hours="22-23")[0] is True


def test_what_is_reached_and_not_handed_out_is_listed() -> None:
    subject, _ = hours_filter()
    work = work_with(hours="20-3")
    lets, gone = look(subject, work, delete=True)
    assert lets is False and subject.removed == [(gone.key, 1)] and subject.reached_count == 1
    work.info = FetchInfo("http://other/", prefixes=("http://other/",))
    lets, outside = look(subject, work)
    assert lets is False and subject.outside == [outside] and subject.reached_count == 2
    assert look(subject, work, source=int(Source.POLLED))[0] is True
    work = work_with(hours="20-3")
    look(subject, work, hours="5-7")
    look(subject, work, hours="1-2")
    look(subject, work, hours="2-3")
    assert [len(each) for each in (subject.removed, subject.closed, subject.never, subject.outside)] == [1, 2, 1, 1]
    assert subject.reached_count == 5


def test_a_closed_row_goes_to_the_slot_that_comes_next_when_it_is_written() -> None:
    subject, _ = hours_filter()
    limits = Limits(hours="0-24")
    closed = [Closed(b"k", 3, "1-2", limits, NOW), Closed(b"l", 4, "22-23", limits, TEN + HOUR)]
    assert subject.slots_of(closed, NOW) == [(b"k", 3, 1), (b"l", 4, 22)]
    assert subject.slots_of(closed[:1], TEN + 3 * HOUR + 5) == [(b"k", 3, FETCH_NOW)]
