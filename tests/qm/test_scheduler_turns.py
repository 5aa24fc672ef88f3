"""Turns in the scheduler, each rule by itself; test_scheduler.py has the model of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.model import FETCH_NOW, Ahead, Cursor, ProviderHosts, QueueRow, Recorded, Waiting
from lcc.roles.qm.schedule.hosts import ALL, HostGroups
from lcc.roles.qm.schedule.ready_queue import Ready
from lcc.roles.qm.schedule.runs import Behind
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import START, FetchInfo, Limits, ProviderWork
from tests.qm.model import DNS, NOW, key_of, row_of, scheduler

NOTHING = Recorded((), {}, {}, False)


class Rig:
    """A scheduler, and rows of its providers that can be read."""

    def __init__(self, *waiting: tuple[int, int, int], rows: int = 9, **options: Any) -> None:
        self.subject: Scheduler = scheduler(**{"read_ahead": 8, **options})
        self.subject.delays.load([], 86400.0, NOW)
        self.rows = [row_of(pid, psetid, seq) for psetid, pid, _ in waiting for seq in range(1, rows + 1)]
        self.limits = {pid: Limits(priority=priority) for _, pid, priority in waiting}
        self.hosts: dict[int, tuple[str, ...]] = {}
        self.subject.load([Waiting(*each) for each in waiting])

    def read(self) -> list[Cursor]:
        cursors = self.subject.wants_read_ahead(10)
        aheads = []
        for cursor in cursors:
            place = (cursor.psetid, cursor.seq)
            mine = [row for row in self.rows if row.pid == cursor.pid and (row.psetid, row.seq) > place]
            aheads.append(Ahead(cursor.pid, mine[: cursor.limit]))
        infos = {
            pid: FetchInfo("", limits=self.limits.get(pid, Limits()), hosts=self.hosts.get(pid, ()))
            for pid in (cursor.pid for cursor in cursors)
        }
        self.subject.rows_read(cursors, aheads, infos)
        return cursors

    def active(self, *wanted: int) -> list[ProviderWork]:
        works = [self.subject.active(pid) for pid in wanted]
        assert all(work is not None for work in works)
        return works  # type: ignore[return-value]

    @property
    def pids(self) -> list[int]:
        return [work.pid for work in self.subject.active_work()]

    def take(self, most: int = 1) -> tuple[int, list[int]] | None:
        """Who is handed out, and the places of its rows."""
        work = self.subject.take(NOW, most)
        return None if work is None else (work.pid, [row.seq for row, _ in work.rows_out])

    def more(self, most: int = 4, room: int = 9, contended: bool = False) -> list[tuple[int, list[int]]]:
        found = self.subject.take_more(NOW, most, lambda work: Behind(room, contended))
        return [(work.pid, [row.seq for row, _ in work.rows_out]) for work in found]

    def end(self, pid: int, seq: int, code: int = 0, wire_bytes: int = 0, seconds: float = 0.0) -> QueueRow:
        (row,) = (row for row in self.rows if (row.pid, row.seq) == (pid, seq))
        self.subject.finished(pid, row.key, code, wire_bytes, NOW, seconds)
        if not code:
            self.rows.remove(row)
            self.subject.recorded([(row.key, row.generation)], NOTHING, NOW)
        return row


def test_who_has_work_and_where_it_is() -> None:
    rig = Rig((1, 1, 0), (2, 2, 1), (3, 3, 0))
    subject = rig.subject
    assert (subject.turns_awaited, subject.waiting_count, subject.delayed_with_work) == (3, 3, 0)
    subject.hold(1, DNS, NOW)  # it waited for its turn: what it has to do is remembered
    assert (subject.turns_awaited, subject.waiting_count, subject.delayed_with_work) == (2, 3, 1)
    subject.delays.closed(3, NOW + 60, NOW)  # it is found out when its turn comes
    subject.fill(3)
    assert rig.pids == [2] and (subject.turns_awaited, subject.delayed_with_work) == (0, 2)
    subject.work_arrived(3, 2, 1)
    subject.release(NOW + 9)
    assert subject.turns_awaited == 1 and subject.delayed_with_work == 1
    subject.release(NOW + 60)
    assert [(turn.pid, turn.place) for turn in subject.ready.first(9)] == [(1, START), (3, (2, 0))]
    assert subject.delayed_with_work == 0


def test_one_that_is_withheld_stays_so_and_what_is_known_of_it_is_kept() -> None:
    subject = scheduler()
    subject.delays.load([], 86400.0, NOW)
    subject.running(3, key_of(3, 1), 1)
    subject.load([Waiting(5, 1), Waiting(6, 2, 1), Waiting(7, 3)], withhold=True)
    assert subject.withheld == {1: Waiting(5, 1), 2: Waiting(6, 2, 1)} and subject.waiting_count == 2
    subject.hold(1, DNS, NOW)
    assert subject.withheld.keys() == {1, 2} and subject.delayed_with_work == 0
    subject.work_arrived(2, 4, 1)
    subject.work_arrived(1, 9, 1, 2)
    assert subject.withheld == {1: Waiting(5, 1, 2), 2: Waiting(4, 2, 1)}
    subject.provider_changed(1, Limits(priority=1), NOW)
    assert subject.withheld[1] == Waiting(5, 1, 1)
    subject.let_go(NOW)
    assert subject.withheld == {} and subject.delayed_with_work == 1
    assert [(turn.pid, turn.place, turn.priority) for turn in subject.ready.first(9)] == [(2, (4, 0), 1)]
    subject.provider_removed(1)
    assert subject.delayed_with_work == 0 and 1 not in subject.delays and subject.recalls == {1}


def test_places_are_given_out_and_taken_by_higher_priorities() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), (3, 3, 0))
    rig.subject.fill(0)
    assert rig.pids == []
    rig.subject.fill(2)
    assert rig.pids == [1, 2]
    rig.read()
    rig.subject.work_arrived(4, 4, 1, 2)
    rig.subject.fill(0)
    assert rig.pids == [1, 2]
    rig.subject.fill(2)
    assert rig.pids == [1, 4] and [turn.pid for turn in rig.subject.ready.first(9)] == [2, 3]
    assert rig.take() == (1, [1]), "the rows of 4 are not here yet"
    rig.subject.work_arrived(5, 5, 1, 1)
    rig.subject.work_arrived(6, 6, 1, 0)
    rig.subject.fill(2)
    assert rig.pids == [1, 4, 5], "1 has no place but a row out"
    rig.subject.fill(2)
    assert rig.pids == [1, 4, 5]
    rig.subject.fill(3)
    assert rig.pids == [1, 4, 5, 2]


def test_a_quantum_ends_where_somebody_waits() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), quantum_urls=2, run_rows=8)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(8) == (1, [1, 2])
    assert rig.more(8) == []
    rig.end(1, 1)
    assert rig.more(8) == [], "2 waits"
    rig.end(1, 2)
    assert rig.pids == [] and [(turn.pid, turn.place) for turn in rig.subject.ready.first(9)] == [
        (2, (2, 0)),
        (1, (2, 1)),
    ]
    # Nobody waits: it gets another one.
    rig = Rig((1, 1, 0), quantum_urls=2, run_rows=8)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(8) == (1, [1, 2]) and rig.more(8) == [(1, [3, 4])] and rig.more(8) == [(1, [5, 6])]
    assert rig.more(8) == [], "more than half of a run is out"


def test_a_quantum_ends_where_runs_wait_for_a_robot() -> None:
    rig = Rig((1, 1, 0), quantum_urls=4, run_rows=8)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(2) == (1, [1, 2]) and rig.more(8, contended=True) == [(1, [3, 4])]
    assert rig.more(8, contended=True) == []
    for seq in (1, 2, 3, 4):
        rig.end(1, seq)
    # What waits at a BOT-M is out already: with no other work it gets a new run, behind it.
    assert rig.take(8) == (1, [5, 6, 7, 8])


def test_of_a_slow_site_no_more_is_out_than_is_fetched_in_time() -> None:
    rig = Rig((1, 1, 0), rows=40, run_rows=8, read_ahead=40, quantum_urls=99)
    rig.subject.run_seconds = 60.0
    rig.subject.fill(1)
    rig.read()
    assert rig.take(8) == (1, [1, 2, 3, 4, 5, 6, 7, 8])
    for seq in range(1, 8):
        rig.end(1, seq, seconds=20.0)
    assert rig.more(8) == [(1, [9, 10])]
    rig.end(1, 8, seconds=40.0)  # 25 on an average of the last ones
    assert rig.more(8) == []
    rig.end(1, 9, seconds=25.0)
    assert rig.more(8) == [(1, [11])]
    rig.end(1, 10, seconds=1000.0)
    rig.end(1, 11)  # of an older BOT-M, which does not say it
    assert rig.take(8) == (1, [12]), "one at least"
    rig.end(1, 12)
    (work,) = rig.active(1)
    rig.subject._give_up(work)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(8) == (1, [13]), "it is known in its next turn, too"
    for seq in range(13, 30):
        rig.end(1, seq, seconds=1.0)
        rig.take(1)
    assert rig.more(8) == [(1, list(range(31, 38)))], "it is fast again"


def test_what_may_follow_is_asked_of_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), run_rows=4, quantum_urls=4)
    rig.subject.fill(2)
    rig.read()
    assert rig.take(4) == (1, [1, 2, 3, 4]) and rig.take(4) == (2, [1, 2, 3, 4])
    for pid in (1, 2):
        for seq in (1, 2, 3):
            rig.end(pid, seq)
    one, _ = rig.active(1, 2)

    def more(most: int) -> list[tuple[int, int]]:
        found = rig.subject.take_more(NOW, most, lambda work: Behind(0 if work.pid == 1 else 9, False))
        return [(work.pid, len(work.rows_out)) for work in found]

    assert more(1) == [], "as many are out"
    for pid in (1, 2):
        rig.subject._update(rig.subject._active[pid])
    with monkeypatch.context() as patched:
        patched.setattr(rig.subject.hours, "lets_provider", lambda work, now: work.pid == 1)
        assert more(4) == [], "the hours of one are closed, there is no room for the other"
    for pid in (1, 2):
        rig.subject._update(rig.subject._active[pid])
    assert more(4) == [(2, 3)]
    assert one.served == 4, "it gets no new quantum with nothing to follow"


def test_a_run_that_may_not_grow_keeps_no_other_from_it() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), run_rows=4)
    rig.subject.fill(2)
    rig.read()
    assert rig.take(4) == (1, [1, 2, 3, 4]) and rig.take(4) == (2, [1, 2, 3, 4])
    for pid, seqs in ((1, (1, 2)), (2, (1, 2, 3))):
        for seq in seqs:
            rig.end(pid, seq)
    assert rig.more(2) == [(2, [5])]


def test_nothing_is_done_for_a_slow_run_until_something_comes_of_it() -> None:
    rig = Rig((1, 1, 0), rows=40, run_rows=8, read_ahead=40, quantum_urls=10)
    rig.subject.run_seconds = 60.0
    rig.subject.fill(1)
    rig.read()
    assert rig.take(8)
    for seq in range(1, 8):
        rig.end(1, seq, seconds=20.0)
    assert rig.more(8) == [(1, [9, 10])]
    looked: list[int] = []

    def behind(work: ProviderWork) -> Behind:
        looked.append(work.pid)
        return Behind(9, False)

    assert list(rig.subject.take_more(NOW, 8, behind)) == [] and looked == []
    (work,) = rig.active(1)
    assert work.served == 10, "its quantum is not renewed for nothing"
    rig.subject.provider_removed(1)
    rig.subject.work_arrived(1, 2, 1)
    rig.subject.fill(1)
    assert rig.active(1)[0].page_seconds == 0, "nothing is known of it any longer"


def test_a_run_grows_once_it_is_half_done_and_within_what_it_may_bring() -> None:
    rig = Rig((1, 1, 0), run_rows=4)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(4) == (1, [1, 2, 3, 4]) and rig.take(4) is None
    assert rig.more() == []
    rig.end(1, 1)
    assert rig.more() == []
    rig.end(1, 2)
    assert rig.more(room=0) == []
    rig.end(1, 3)
    assert rig.more(room=2) == [(1, [5, 6])]
    assert rig.more() == []
    rig.end(1, 4)
    assert rig.more(most=3) == [(1, [7])]
    # What the rows are expected to bring counts: 16 KiB each, where nothing is known.
    rig = Rig((1, 1, 0), run_rows=4, quantum_bytes=3 * 16_384)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(4) == (1, [1, 2, 3])
    rig.end(1, 1, wire_bytes=100)
    assert rig.more() == [(1, [4])]
    (work,) = rig.active(1)
    assert (work.served_bytes, work.expected_bytes, work.served) == (100, 3 * 16_384, 4)
    rig.end(1, 2, wire_bytes=16_384)
    rig.end(1, 3, wire_bytes=16_384)
    # Nobody waits: it gets another quantum.
    assert rig.more() == [(1, [5, 6])] and work.expected_bytes == 3 * 16_384
    assert (work.served_bytes, work.served) == (0, 2)


@pytest.mark.parametrize("limits", [Limits(rate=10**6), Limits(interval=0.1)])
def test_with_limits_a_run_does_not_grow(limits: Limits) -> None:
    rig = Rig((1, 1, 0), run_rows=4)
    rig.limits[1] = limits
    rig.subject.fill(1)
    rig.read()
    taken = rig.take(2)
    assert taken is not None and taken[0] == 1
    assert rig.more() == []


def test_nothing_goes_out_while_the_site_or_its_provider_waits() -> None:
    rig = Rig((1, 1, 0), run_rows=4)
    rig.subject.fill(1)
    rig.read()
    rig.subject.delays.closed(0, NOW + 5, NOW)
    assert rig.take() is None
    rig.subject.release(NOW + 5)
    assert rig.take() == (1, [1])
    rig.subject.delays.closed(0, NOW + 9, NOW + 5)
    assert rig.more() == []
    rig.subject.release(NOW + 9)
    rig.subject.asked(1, 503, 60.0, NOW)
    assert rig.more() == [] and rig.subject.delayed_with_work == 0
    rig.end(1, 1)
    assert rig.take() is None and rig.subject.delayed_with_work == 1 and rig.pids == [1], "it keeps its rows"
    rig.subject.release(NOW + 60)
    rig.subject.fill(1)
    rig.read()
    assert rig.take() == (1, [2])


def test_a_higher_priority_recalls_the_newest_run_of_the_lowest() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), (3, 3, 1), run_rows=4)
    rig.subject.fill(3)
    rig.read()
    assert [rig.take(2), rig.take(2), rig.take(2)] == [(3, [1, 2]), (1, [1, 2]), (2, [1, 2])]
    assert rig.subject.overtaken(lambda work: True) is False, "nobody waits"
    rig.subject.work_arrived(4, 4, 1, 2)
    rig.rows += [row_of(4, 4, seq) for seq in (1, 2)]
    rig.limits[4] = Limits(priority=2)
    rig.subject.fill(3)
    rig.read()
    asked: list[int] = []

    def frees(work: ProviderWork) -> bool:
        asked.append(work.pid)
        return work.pid != 2

    assert rig.subject.overtaken(frees) is True
    assert asked == [2, 1] and rig.subject.recalls == {1}
    one, two = rig.active(1, 2)
    assert one.recalled and not two.recalled
    # 2 is looked at again when something has come of it.
    assert rig.subject.overtaken(lambda work: True) is True and rig.subject.recalls == {1, 3}
    assert rig.subject.overtaken(lambda work: True) is False
    rig.end(2, 1)
    assert rig.subject.overtaken(lambda work: True) is True and two.recalled
    # Who has gone out meanwhile does not wait any longer.
    assert rig.take(2) == (4, [1, 2]) and rig.subject.overtaken(lambda work: True) is False


def test_single_fetches_are_not_recalled_for_a_higher_priority() -> None:
    rig = Rig((1, 1, 0), run_rows=1)
    rig.subject.fill(1)
    rig.read()
    assert rig.take() == (1, [1])
    rig.subject.work_arrived(2, 2, 1, 2)
    rig.rows.append(row_of(2, 2, 1))
    rig.subject.fill(1)
    rig.read()
    assert rig.subject.overtaken(lambda work: True) is False


def test_all_that_is_out_is_recalled_once() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), (3, 3, 0), run_rows=4)
    rig.subject.fill(3)
    rig.read()
    rig.take(2)
    rig.take(2)
    rig.subject.recall_all()
    one, two, three = rig.active(1, 2, 3)
    assert rig.subject.recalls == {1, 2} and one.recalled and two.recalled and not three.recalled
    assert rig.more() == []
    rig.subject.recalls.clear()
    rig.subject.recall_all()
    assert rig.subject.recalls == set()
    rig.end(1, 1)
    assert one.recalled and rig.more() == []
    rig.end(1, 2)
    assert not one.recalled and rig.take() == (1, [3]), "it goes on before those whose turn has not begun"
    assert rig.take() == (3, [1])


def test_a_changed_provider_is_read_again_with_its_new_limits() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), run_rows=4)
    rig.subject.fill(2)
    rig.read()
    assert rig.take(2) == (1, [1, 2])
    rig.limits[1] = Limits(priority=1, rate=1000)
    rig.subject.provider_changed(1, rig.limits[1], NOW)
    (work,) = rig.active(1)
    assert work.recalled and work.info is None and rig.subject.recalls == {1} and not work.has_rows
    rig.end(1, 1)
    rig.end(1, 2, wire_bytes=5000)
    assert work.unpaid_bytes == 5000 and work.priority == 0
    assert [cursor.pid for cursor in rig.read()] == [1]
    assert work.priority == 1 and rig.subject.delays.until(1) == NOW + 5
    # What is being read of it now is of before.
    rig = Rig((1, 1, 0))
    rig.subject.fill(1)
    cursors = rig.subject.wants_read_ahead(9)
    rig.subject.provider_changed(1, Limits(priority=2), NOW)
    rig.subject.rows_read(cursors, [Ahead(1, rig.rows[:2])], {1: FetchInfo("")})
    (work,) = rig.active(1)
    assert work.info is None and work.priority == 0
    rig.limits[1] = Limits(priority=2)
    rig.read()
    assert work.info is not None and work.priority == 2


def test_what_was_lost_is_handed_out_again_and_counts_for_its_interval() -> None:
    rig = Rig((1, 1, 0))
    rig.limits[1] = Limits(interval=30.0)
    rig.subject.fill(1)
    rig.read()
    assert rig.take() == (1, [1])
    row = rig.rows[0]
    rig.subject.lost(1, row.key, 1, 1, NOW - 10)
    assert rig.subject.delays.until(1) == NOW + 20 and rig.subject.taken_count == 0
    rig.subject.release(NOW + 20)
    rig.subject.fill(1)
    rig.read()
    assert rig.take() == (1, [1])
    rig.subject.lost(1, row.key, 1, 1)  # it has not begun
    assert 1 not in rig.subject.delays
    rig.read()
    assert rig.take() == (1, [1])


def test_a_fault_of_the_site_holds_it_back_until_it_is_recorded() -> None:
    rig = Rig((1, 1, 0), run_rows=4)
    rig.subject.fill(1)
    rig.read()
    assert rig.take(2) == (1, [1, 2])
    row = rig.end(1, 1, DNS)
    (work,) = rig.active(1)
    assert work.doubt == row.key and work.busy == 1 and rig.more() == []
    rig.end(1, 2)
    assert rig.take() is None
    rig.subject.recorded([(row.key, 1)], Recorded((), {1: DNS}, {}, False), NOW)
    assert rig.subject.delays.until(1) > NOW and rig.subject.delayed_with_work == 1
    assert rig.subject.active_count == 0 and rig.subject.taken_count == 0


def test_rows_that_are_to_be_fetched_again_are_read_again() -> None:
    rig = Rig((1, 1, 0))
    rig.subject.fill(1)
    rig.read()
    assert rig.take() == (1, [1])
    rig.end(1, 1)
    for slot, again in ((FETCH_NOW, [2]), (5, [3])):
        assert rig.take() == (1, [2])
        row = next(row for row in rig.rows if row.seq == 2)
        rig.subject.finished(1, row.key, 0, 0, NOW)
        rig.subject.recorded([(row.key, row.generation)], Recorded((row._replace(slot=slot),), {}, {}, False), NOW)
        (work,) = rig.active(1)
        assert [row.seq for row in work.rows[:1]] == ([] if slot == FETCH_NOW else again)
        rig.read()
        assert [row.seq for row in work.rows[:1]] == again
    # Others of its provider were queued again.
    rig.subject.recorded([], Recorded((), {}, {1: (1, 5)}, False), NOW)
    assert [row.seq for row in work.rows] == [3, 4] and not work.exhausted
    rig.read()
    assert [row.seq for row in work.rows][:4] == [3, 4, 5, 6]


def test_of_a_host_one_at_a_time() -> None:
    hosts = HostGroups(ALL)
    hosts.load([ProviderHosts(pid, ("h",), False) for pid in (1, 2, 3)], NOW)
    rig = Rig((1, 1, 0), (2, 2, 0), (3, 3, 0), run_rows=4, hosts=hosts)
    subject = rig.subject
    subject.fill(3)
    assert rig.pids == [1] and subject.turns_awaited == 2
    subject.hold(2, DNS, NOW)
    assert subject.turns_awaited == 1 and subject.delayed_with_work == 1
    subject.provider_removed(1)
    subject.fill(3)
    assert rig.pids == [3]
    # One that is delayed when its turn comes lets the next one go.
    subject.release(NOW + 9)
    subject.work_arrived(4, 9, 1)
    subject.roots_changed(ProviderHosts(4, ("h",), False))
    subject.fill(3)
    assert rig.pids == [3] and subject.turns_awaited == 2
    subject.delays.closed(2, NOW + 99, NOW)
    subject.provider_removed(3)
    subject.fill(3)
    assert rig.pids == [4] and subject.delayed_with_work == 1


def test_what_is_known_of_a_provider_counts_when_it_has_work_again() -> None:
    subject = Rig().subject
    subject.provider_changed(9, Limits(priority=2), NOW)
    subject.work_arrived(9, 5, 1)
    assert subject.ready.get(9) == Ready((5, 0), 9, 2)
    subject.work_arrived(9, 4, 1)
    assert subject.ready.get(9) == Ready((4, 0), 9, 2), "it waits with it"
    subject.work_arrived(8, 6, 1, 1)
    subject.work_arrived(8, 3, 1)
    assert subject.ready.get(8) == Ready((3, 0), 8, 1)
    subject.provider_removed(9)
    assert subject.turns_awaited == 1 and subject.recalls == {9}


def test_memory_is_shared_but_everybody_gets_two_rows() -> None:
    subject = scheduler(64)  # a thousand rows in all
    subject.load([Waiting(pid, pid) for pid in range(1, 9)])
    for wanted, limit in ((1, 64), (20, 50), (400, 2), (2000, 2)):
        subject.fill(wanted)
        assert subject._limit == limit


def test_an_order_of_before_is_out_and_its_provider_has_its_turn() -> None:
    rig = Rig((1, 1, 0), run_rows=4)
    rig.subject.running(1, rig.rows[0].key, 1)
    (work,) = rig.active(1)
    assert work.busy == 1 and work.used and rig.subject.taken_count == 1 and rig.subject.turns_awaited == 0
    assert work.place == START
    rig.read()
    assert [row.seq for row in work.rows][:2] == [2, 3], "what is out is not read"
    rig.subject.running(1, rig.rows[1].key, 1)
    assert work.busy == 2


def test_what_one_owed_when_its_turn_ended_is_not_forgotten() -> None:
    rig = Rig((1, 1, 0), rows=1)
    rig.subject.running(1, key_of(1, 77), 1)
    rig.subject.finished(1, key_of(1, 77), 0, 500, NOW)
    (work,) = rig.active(1)
    assert work.unpaid_bytes == 500 and work.served_bytes == 500
    rig.subject.delays.closed(1, NOW + 100, NOW)
    rig.subject._update(work)
    assert rig.pids == [] and work.gone
    rig.subject.release(NOW + 100)
    rig.subject.fill(1)
    (again,) = rig.active(1)
    assert (again.unpaid_bytes, again.served_bytes) == (500, 500)
    rig.limits[1] = Limits(rate=100)
    rig.read()
    assert rig.subject.delays.until(1) == NOW + 100 + 5


def test_who_is_delayed_for_long_gives_up_its_rows_and_for_a_moment_keeps_them() -> None:
    for seconds, keeps in ((60.0, True), (61.0, False)):
        rig = Rig((1, 1, 0))
        rig.subject.fill(1)
        rig.read()
        rig.subject.delays.release(NOW)
        rig.subject.delays.asked(1, 503, seconds, NOW)
        rig.subject._update(rig.active(1)[0])
        assert rig.pids == ([1] if keeps else []) and rig.subject.delayed_with_work == 1
        assert rig.take() is None
        rig.subject.release(NOW + seconds)
        rig.subject.fill(1)
        rig.read()
        assert rig.take() == (1, [1])


def test_hours_that_have_closed_are_seen_when_its_place_comes() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0), run_rows=4)
    rig.limits[1] = Limits(hours="6-20")
    rig.subject.fill(2)
    rig.read()
    assert rig.take() == (2, [1]) and rig.subject.delays.until(1) > NOW and rig.pids == [2]
    rig.limits[2] = Limits(hours="6-20")
    rig.subject.provider_changed(2, rig.limits[2], NOW)
    rig.end(2, 1)
    rig.read()
    assert rig.take() is None and rig.pids == [] and rig.subject.delayed_with_work == 2


def test_a_changed_priority_takes_its_place_in_the_queue_with_it() -> None:
    rig = Rig((1, 1, 0), (2, 2, 0))
    rig.subject.fill(2)
    rig.read()
    (one, two) = rig.active(1, 2)
    assert one.queued and two.queued
    rig.limits[2] = Limits(priority=1)
    rig.subject.provider_changed(2, rig.limits[2], NOW)
    rig.read()
    assert two.priority == 1 and rig.take() == (2, [1]) and rig.take() == (1, [1]) and rig.take() is None


def test_the_clock_is_set_for_all_parts() -> None:
    hosts = HostGroups(ALL)
    hosts.load([ProviderHosts(pid, ("h",), False) for pid in (1, 2)], NOW)
    rig = Rig((1, 1, 0), hosts=hosts)
    rig.subject.costs.begin(NOW)
    rig.subject.costs.unsure([7], NOW)
    rig.subject._inactive.began(7, NOW)
    rig.subject.delays.closed(2, NOW + 60, NOW)
    rig.subject.stepped(-600.0, NOW - 600)
    assert rig.subject._inactive.take_began(7) == hosts.groups[0].began == NOW - 600
    assert rig.subject.costs._started == rig.subject.costs._unsure_since == NOW - 600
    assert rig.subject.delays.until(2) == NOW - 600
