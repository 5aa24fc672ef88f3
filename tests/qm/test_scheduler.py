"""The scheduler against a model of the database: any history, any order of callbacks."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lcc.errors import code
from lcc.model import FETCH_NOW, Ahead, Cursor, QueueRow, Recorded, UrlNotice
from lcc.roles.qm.holds import Holds
from lcc.roles.qm.scheduler import Scheduler
from lcc.roles.qm.turns import Turns

DNS = code("dns-failed")
RETRY = 503


def key_of(pid: int, url: int) -> bytes:
    return pid.to_bytes(4, "big") + url.to_bytes(16, "big")


def row_of(pid: int, psetid: int, seq: int, url: int | None = None, **changes: Any) -> QueueRow:
    number = psetid * 1000 + seq if url is None else url
    row = QueueRow(key_of(pid, number), pid, psetid, FETCH_NOW, seq, False, 1, 1, 0, UrlNotice(f"http://h/{number}"))
    return row._replace(**changes)


def scheduler(read_ahead: int = 4, initial: float = 10.0) -> Scheduler:
    return Scheduler(Turns(), Holds(initial, 100.0, lambda: 0.5), read_ahead, 1000)


class ModelStore:
    """The database as the scheduler's caller sees it: writes in order, their news delivered later, reads any time."""

    def __init__(self, subject: Scheduler) -> None:
        self.subject = subject
        self.rows: dict[bytes, QueueRow] = {}
        self.psetid = 0
        self.now = 0.0
        self.news: list[tuple[str, Any]] = []
        self.fresh: set[bytes] = set()
        """Rows whose last change the scheduler has not heard of yet."""
        self.reads: list[tuple[Cursor, list[QueueRow] | None]] = []
        self.orders: dict[int, QueueRow] = {}
        self.done: list[tuple[QueueRow, int]] = []
        self.sent: list[QueueRow] = []

    def absorb(self, pid: int, urls: list[tuple[int, bool]]) -> None:
        self.psetid += 1
        first: tuple[int, int] | None = None
        touched: set[bytes] = set()
        for seq, (url, delete) in enumerate(urls):
            key = key_of(pid, url)
            old = self.rows.get(key)
            if old is not None:
                self.rows[key] = old._replace(delete=delete, generation=old.generation + 1)
                touched.add(key)
            elif not delete:
                self.rows[key] = row_of(pid, self.psetid, seq, url)
                first = first or (self.psetid, seq)
            self.fresh.add(key)
        self.news.append(("absorbed", (pid, first, touched, {key_of(pid, url) for url, _ in urls})))

    def record(self) -> None:
        """Commit everything that is done."""
        done, self.done = self.done, []
        removed, self.subject.removed = self.subject.removed, []
        if not done and not removed:
            return
        again: list[QueueRow] = []
        held: dict[int, int] = {}
        requeued: dict[int, tuple[int, int]] = {}
        keys = [(row.key, row.generation) for row, _ in done] + removed
        for row, result in done:
            now = self.rows.get(row.key)
            if now is None:
                continue
            if now.generation != row.generation:
                again.append(now)
                self.fresh.add(row.key)
            elif result == DNS:
                held[row.pid] = result
                self.fresh.add(row.key)
            elif result == RETRY and now.attempts < 3:
                last = max(r.seq for r in self.rows.values() if r.pid == row.pid and r.psetid == row.psetid)
                self.rows[row.key] = now._replace(seq=last + 1, attempts=now.attempts + 1)
                place = (row.psetid, last + 1)
                requeued[row.pid] = min(place, requeued.get(row.pid, place))
                self.fresh.add(row.key)
            else:
                del self.rows[row.key]
        for key, generation in removed:
            now = self.rows.get(key)
            if now is None:
                continue
            if now.generation != generation:
                again.append(now)
                self.fresh.add(key)
            else:
                del self.rows[key]
        self.news.append(("recorded", (keys, Recorded(tuple(again), held, requeued, False))))

    def deliver(self) -> None:
        """The scheduler hears of the oldest commit."""
        if not self.news:
            return
        kind, told = self.news.pop(0)
        if kind == "absorbed":
            pid, first, touched, keys = told
            if first is not None:
                self.subject.work_arrived(pid, *first)
            self.subject.touched(touched)
        else:
            keys = {key for key, _ in told[0]}
            self.subject.recorded(told[0], told[1], self.now)
        self.fresh -= keys - {k for kind, t in self.news for k in (t[3] if kind == "absorbed" else dict(t[0]))}

    def start_reads(self, count: int) -> None:
        self.subject.fill(2)
        for cursor in self.subject.wants_read_ahead(count):
            self.reads.append((cursor, None))

    def snapshot(self, index: int) -> None:
        """The database answers a read now; the answer arrives later."""
        if self.reads:
            cursor, rows = self.reads[index % len(self.reads)]
            if rows is None:
                self.reads[index % len(self.reads)] = (cursor, self.select(cursor))

    def select(self, cursor: Cursor) -> list[QueueRow]:
        place = (cursor.psetid, cursor.seq)
        rows = [r for r in self.rows.values() if r.pid == cursor.pid and (place == (0, 0) or (r[2], r[4]) > place)]
        return sorted(rows, key=lambda r: (r.psetid, r.seq))[: cursor.limit]

    def finish_read(self, index: int, fail: bool) -> None:
        if not self.reads:
            return
        cursor, rows = self.reads.pop(index % len(self.reads))
        if fail:
            self.subject.read_failed([cursor])
        else:
            got = self.select(cursor) if rows is None else rows
            self.subject.rows_read([cursor], [Ahead(cursor.pid, got)], {})

    def take(self) -> None:
        work = self.subject.take()
        if work is None:
            return
        row = work.row
        assert row is not None
        assert row.pid not in self.orders, "two fetches at once"
        stored = self.rows.get(row.key)
        assert stored is not None, "handed out after it was recorded"
        out = {r.key for r in self.orders.values()} | {r.key for r, _ in self.done}
        assert row.key not in out, "handed out twice"
        # News on their way may still change the order; what the scheduler has heard of, it must keep.
        if row.key not in self.fresh:
            pending = {k for kind, t in self.news if kind == "recorded" for k, _ in t[0]}
            removed = {k for k, _ in self.subject.removed}
            for other in self.rows.values():
                if other.pid == row.pid and other.key not in self.fresh | out | pending | removed:
                    place = (stored.psetid, stored.seq)
                    assert (other.psetid, other.seq) >= place, "out of order"
        self.orders[row.pid] = row
        self.sent.append(row)

    def finish(self, index: int, result: int) -> None:
        if not self.orders:
            return
        pid = sorted(self.orders)[index % len(self.orders)]
        row = self.orders.pop(pid)
        self.subject.finished(pid, row.key, result)
        self.done.append((row, result))

    def lose(self, index: int) -> None:
        if not self.orders:
            return
        row = self.orders.pop(sorted(self.orders)[index % len(self.orders)])
        self.subject.lost(row.pid, row.key, row.psetid, row.seq)

    def pass_time(self) -> None:
        self.now += 200.0
        self.subject.release(self.now)

    def drain(self) -> None:
        """Everything goes well from now on."""
        for _ in range(2000):
            self.start_reads(10)
            while self.reads:
                self.finish_read(0, False)
            self.take()
            self.finish(0, 0)
            self.record()
            while self.news:
                self.deliver()
            self.pass_time()
            if not (self.rows or self.orders or self.done or self.subject.active_count or len(self.subject.turns)):
                return
        raise AssertionError(f"rows left over: {list(self.rows.values())}")


def random_step(store: ModelStore, random: Random) -> None:
    few = random.randrange(6)
    step = random.choices(range(9), (2, 4, 4, 5, 6, 6, 0.5, 3, 4))[0]
    if step == 0:
        urls = [(random.randint(1, 8), random.random() < 0.25) for _ in range(random.randrange(7))]
        store.absorb(random.randint(1, 3), urls)
    elif step == 1:
        store.start_reads(random.randint(1, 3))
    elif step == 2:
        store.snapshot(few)
    elif step == 3:
        store.finish_read(few, random.random() < 0.05)
    elif step == 4:
        store.take()
    elif step == 5:
        store.finish(few, random.choices([0, 404, RETRY, DNS], (12, 2, 3, 1))[0])
    elif step == 6:
        store.lose(few)
    elif step == 7:
        store.record()
    else:
        store.deliver()
    if random.random() < 0.02:
        store.pass_time()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_every_row_is_handed_out_in_order_and_alone(seed: int, read_ahead: int) -> None:
    random = Random(seed)
    store = ModelStore(scheduler(read_ahead))
    for _ in range(random.randrange(400)):
        random_step(store, random)
    store.drain()
    assert store.subject.taken_count == 0
    assert store.subject.buffered_count == 0


def read_all(subject: Scheduler, rows: list[QueueRow]) -> list[Cursor]:
    cursors = subject.wants_read_ahead(10)
    aheads = []
    for cursor in cursors:
        place = (cursor.psetid, cursor.seq)
        mine = [r for r in rows if r.pid == cursor.pid and (r.psetid, r.seq) > place]
        aheads.append(Ahead(cursor.pid, mine[: cursor.limit]))
    subject.rows_read(cursors, aheads, {cursor.pid: "info" for cursor in cursors})
    return cursors


NOTHING = Recorded((), {}, {}, False)


def test_the_order_of_sets_decides_who_is_next() -> None:
    subject = scheduler()
    subject.load([(5, 7), (6, 8), (9, 9)])
    subject.work_arrived(4, 2, 1)
    subject.fill(2)
    assert [cursor.pid for cursor in subject.wants_read_ahead(10)] == [4, 7]


def test_a_provider_with_nothing_left_is_forgotten() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1)]
    subject.load([(1, 1)])
    subject.fill(1)
    read_all(subject, rows)
    work = subject.take()
    assert work is not None and work.row == rows[0] and work.info == "info"
    assert subject.take() is None
    subject.finished(1, rows[0].key, 0)
    assert subject.active_count == 0
    subject.recorded([(rows[0].key, 1)], NOTHING, 0.0)
    assert subject.taken_count == 0


def test_work_that_arrives_while_reading_is_read_again() -> None:
    subject = scheduler()
    subject.load([(1, 1)])
    subject.fill(1)
    cursors = subject.wants_read_ahead(10)
    subject.work_arrived(1, 2, 1)
    subject.rows_read(cursors, [Ahead(1, [row_of(1, 1, 1)])], {})
    assert subject.wants_read_ahead(10) == [Cursor(1, 1, 1, 3)]


def test_rows_of_operation_nothing_are_collected() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1, delete=True), row_of(1, 1, 2)]
    subject.load([(1, 1)])
    subject.fill(1)
    read_all(subject, rows)
    work = subject.take()
    assert work is not None and work.row == rows[1]
    assert subject.removed == [(rows[0].key, 1)]


def test_holds_grow_and_end_with_a_success() -> None:
    subject = scheduler(initial=10.0)
    row = row_of(1, 1, 1)
    now = 0.0
    delays = []
    subject.work_arrived(1, 1, 1)
    for _ in range(6):
        subject.fill(1)
        read_all(subject, [row])
        work = subject.take()
        assert work is not None
        subject.finished(1, row.key, DNS)
        assert subject.take() is None
        subject.recorded([(row.key, 1)], Recorded((), {1: DNS}, {}, False), now)
        assert 1 in subject.holds
        delay = subject.holds.hold(1, 1, now)
        delays.append(delay)
        subject.release(now + delay * 0.99)
        subject.fill(1)
        assert subject.wants_read_ahead(1) == []
        now += delay
        subject.release(now)
    assert delays == [8.75, 17.5, 35.0, 70.0, 87.5, 87.5]
    subject.fill(1)
    read_all(subject, [row])
    assert subject.take() is not None
    subject.finished(1, row.key, 404)
    assert subject.holds.hold(1, 1, now) == 8.75


def test_nothing_is_sent_between_a_site_error_and_its_record() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1), row_of(1, 1, 2)]
    subject.load([(1, 1)])
    subject.fill(1)
    read_all(subject, rows)
    subject.take()
    subject.finished(1, rows[0].key, DNS)
    assert subject.take() is None
    subject.recorded([(rows[0].key, 1)], NOTHING, 0.0)  # a deletion came between: nothing to hold for
    work = subject.take()
    assert work is not None and work.row == rows[1]


def test_an_order_of_an_earlier_run_blocks_its_provider() -> None:
    subject = scheduler()
    rows = [row_of(1, 1, 1), row_of(1, 1, 2)]
    subject.running(1, rows[0].key, 1)
    subject.load([(1, 1)])
    subject.fill(4)
    read_all(subject, rows)
    assert subject.take() is None
    subject.finished(1, rows[0].key, 0)
    work = subject.take()
    assert work is not None and work.row == rows[1]


def test_a_removed_provider_is_gone() -> None:
    subject = scheduler()
    subject.load([(1, 1), (2, 2)])
    subject.fill(1)
    read_all(subject, [row_of(1, 1, 1)])
    subject.provider_removed(1)
    subject.provider_removed(2)
    assert subject.take() is None
    subject.fill(5)
    assert subject.active_count == 0


def test_memory_is_shared_among_the_active() -> None:
    subject = Scheduler(Turns(), Holds(1, 2, lambda: 0.0), 64, 100)
    subject.load([(number, number) for number in range(1, 101)])
    subject.fill(20)
    assert {cursor.limit for cursor in subject.wants_read_ahead(100)} == {5}
