"""A model of the database and of the world around a scheduler, which checks everything that is handed out."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

from lcc.domain.fetches import bandwidth
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.errors import code
from lcc.model import FETCH_NOW, Ahead, Cursor, QueueRow, Recorded, UrlNotice, Waiting, retry_slot, retry_time
from lcc.roles.qm.schedule.delays import SITE, Delays
from lcc.roles.qm.schedule.ready_queue import ReadyQueue
from lcc.roles.qm.schedule.runs import Behind
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import FetchInfo, Limits, ProviderWork

DNS = code("dns-failed")
RETRY = 503
NOW = 1_700_000_000.0
SLOTS = TimeSlots(24, 3600, "UTC")
HOURS = ("", "", "", "0-8", "6-20", "22-3")


def key_of(pid: int, url: int) -> bytes:
    return pid.to_bytes(4, "big") + url.to_bytes(16, "big")


def row_of(pid: int, psetid: int, seq: int, url: int | None = None, hours: str = "", **changes: Any) -> QueueRow:
    number = psetid * 1000 + seq if url is None else url
    notice = UrlNotice(f"http://h/{number}", hours=hours)
    row = QueueRow(key_of(pid, number), pid, psetid, FETCH_NOW, seq, False, 1, 1, 0, notice)
    return row._replace(**changes)


def scheduler(read_ahead: int = 4, initial: float = 10.0, **changes: Any) -> Scheduler:
    usual = {"quantum_urls": 100, "quantum_bytes": 64 << 20, "hours_margin": 0.0, "run_rows": 1}
    delays = Delays(initial, 100.0, lambda: 0.5)
    total = changes.pop("read_ahead_total", 1000)
    return Scheduler(ReadyQueue(), delays, SLOTS, read_ahead, total, **{**usual, **changes})


class ModelStore:
    """The database as the scheduler's caller sees it: writes in order, their news delivered later, reads any time."""

    def __init__(
        self, subject: Scheduler, limits: dict[int, Limits] | None = None, site_rate: int = 0, most: int = 1
    ) -> None:
        self.subject = subject
        self.most = most
        self.limits = limits or {}
        self.site_rate = site_rate
        self.quantum = 0
        self.rows: dict[bytes, QueueRow] = {}
        self.full: set[int] = set()
        self.psetid = 0
        self.now = NOW
        subject.delays.load([], SLOTS.period_seconds, NOW)
        self.slot_time = NOW
        self.news: list[tuple[str, Any]] = []
        self.fresh: set[bytes] = set()
        """Rows whose last change the scheduler has not heard of yet."""
        self.reads: list[tuple[Cursor, list[QueueRow] | None, FetchInfo]] = []
        self.orders: dict[int, list[QueueRow]] = {}
        self.done: list[tuple[QueueRow, int]] = []
        self.sent: list[QueueRow] = []
        self.allowed: dict[int, float] = {}
        self.withheld: set[int] = set()
        self.bad_hours = 0

    def limits_of(self, pid: int) -> Limits:
        return self.limits.get(pid, Limits())

    def info_of(self, pid: int) -> FetchInfo:
        return FetchInfo("", limits=self.limits_of(pid))

    def absorb(self, pid: int, urls: list[tuple[int, bool]], full: bool = False, hours: str = "") -> None:
        self.psetid += 1
        if full:
            self.full.add(self.psetid)
        limits = self.limits_of(pid)
        first: tuple[int, int] | None = None
        touched: set[bytes] = set()
        for seq, (url, delete) in enumerate(urls, 1):
            key = key_of(pid, url)
            old = self.rows.get(key)
            notice = UrlNotice(f"http://h/{url}", hours=hours)
            if old is not None:
                self.rows[key] = old._replace(delete=delete, generation=old.generation + 1, notice=notice)
                touched.add(key)
            elif not delete:
                slot = SLOTS.slot(hours, limits.hours, limits.timezone, self.now)
                self.rows[key] = row_of(pid, self.psetid, seq, url, hours, slot=slot)
                if slot == FETCH_NOW:
                    first = first or (self.psetid, seq)
            self.fresh.add(key)
        self.news.append(("absorbed", (pid, first, touched, {key_of(pid, url) for url, _ in urls})))

    def record(self) -> None:
        """Commit everything that is done."""
        never, self.subject.hours.never = self.subject.hours.never, []
        self.bad_hours += len(never)
        self.done += [(row, 1213) for row in never]
        done, self.done = self.done, []
        removed, self.subject.hours.removed = self.subject.hours.removed, []
        closed, self.subject.hours.closed = self.subject.hours.closed, []
        if not done and not removed and not closed:
            return
        again: list[QueueRow] = []
        held: dict[int, int] = {}
        requeued: dict[int, tuple[int, int]] = {}
        keys = (
            [(row.key, row.generation) for row, _ in done] + removed + [(row.key, row.generation) for row in closed]
        )
        for row, result in done:
            now = self.rows.get(row.key)
            if now is None:
                continue
            if now.generation != row.generation:
                again.append(now)
                self.fresh.add(row.key)
            elif result == DNS:
                held[row.pid] = result
                place = self._to_the_end(now)
                requeued[row.pid] = min(place, requeued.get(row.pid, place))
            elif result == RETRY and now.attempts < 3:
                slot = retry_slot(self.now + 20.0 * 2**now.attempts)
                self._to_the_end(now, slot=slot, attempts=now.attempts + 1)
            else:
                del self.rows[row.key]
        for key, generation in removed:
            self._take_away(key, generation, again)
        for key, generation, slot in self.subject.hours.slots_of(closed, self.now):
            now = self.rows[key]
            if now.generation != generation:
                again.append(now)
                self.fresh.add(key)
            elif slot == FETCH_NOW:
                again.append(now)
            else:
                self.rows[key] = now._replace(slot=slot)
        self.news.append(("recorded", (keys, Recorded(tuple(again), held, requeued, False))))

    def _to_the_end(self, row: QueueRow, **changes: Any) -> tuple[int, int]:
        last = max(r.seq for r in self.rows.values() if r.pid == row.pid and r.psetid == row.psetid)
        self.rows[row.key] = row._replace(seq=last + 1, generation=row.generation + 1, **changes)
        self.fresh.add(row.key)
        return row.psetid, last + 1

    def _take_away(self, key: bytes, generation: int, again: list[QueueRow]) -> None:
        now = self.rows.get(key)
        if now is None:
            return
        if now.generation != generation:
            again.append(now)
            self.fresh.add(key)
        else:
            del self.rows[key]

    def deliver(self) -> None:
        """The scheduler hears of the oldest commit."""
        if not self.news:
            return
        kind, told = self.news.pop(0)
        if kind == "recorded":
            keys = {key for key, _ in told[0]}
            self.subject.recorded(told[0], told[1], self.now)
        else:
            pid, first, touched, keys = told
            if first is not None:
                self.subject.work_arrived(pid, *first, self.limits_of(pid).priority)
            self.subject.touched(touched)
        self.fresh -= keys - {k for kind, t in self.news for k in (dict(t[0]) if kind == "recorded" else t[3])}

    def change_provider(self, pid: int, limits: Limits) -> None:
        old = self.limits_of(pid)
        self.limits[pid] = limits
        owed = self.allowed.get(pid, 0.0)
        self.allowed[pid] = bandwidth.changed(owed, self.now, old.rate, limits.rate)
        self.subject.provider_changed(pid, limits, self.now)

    def start_reads(self, count: int) -> None:
        self.subject.fill(2)
        for cursor in self.subject.wants_read_ahead(count):
            self.reads.append((cursor, None, self.info_of(cursor.pid)))

    def snapshot(self, index: int) -> None:
        """The database answers a read now; the answer arrives later."""
        if self.reads:
            cursor, rows, info = self.reads[index % len(self.reads)]
            if rows is None:
                self.reads[index % len(self.reads)] = (cursor, self.select(cursor), info)

    def select(self, cursor: Cursor) -> list[QueueRow]:
        place = (cursor.psetid, cursor.seq)
        rows = [
            row
            for row in self.rows.values()
            if row.pid == cursor.pid
            and row.slot == FETCH_NOW
            and (place == (0, 0) or (row.psetid, row.seq) > place)
            and not (cursor.partial and row.psetid in self.full)
        ]
        return sorted(rows, key=lambda r: (r.psetid, r.seq))[: cursor.limit]

    def finish_read(self, index: int, fail: bool) -> None:
        if not self.reads:
            return
        cursor, rows, info = self.reads.pop(index % len(self.reads))
        if fail:
            self.subject.read_failed([cursor])
            return
        got = self.select(cursor) if rows is None else rows
        left = 0
        if got and got[-1].psetid in self.full:
            left = sum(row.psetid == got[-1].psetid for row in self.rows.values() if row.pid == cursor.pid)
        self.subject.rows_read([cursor], [Ahead(cursor.pid, got, left)], {cursor.pid: info})

    def take(self) -> bool:
        """Orders go out: a run begins."""
        work = self.subject.take(self.now, self.most)
        if work is None:
            return False
        assert work.pid not in self.orders, "two runs at once"
        assert self.allowed.get(SITE, 0.0) <= self.now + 1e-6, "the site has not paid"
        self._out(work)
        return True

    def take_more(self, contended: bool = False) -> None:
        """More orders follow those that are out.

        :param contended: runs wait for robots.
        """
        room = dict.fromkeys(self.orders, 99)
        for work in self.subject.take_more(
            self.now, self.most, lambda work: Behind(room.get(work.pid, 0), contended)
        ):
            self._out(work)
        assert all(len(rows) <= self.most for rows in self.orders.values()), "more than may be out"

    def _out(self, work: ProviderWork) -> None:
        assert work.rows_out
        assert work.pid not in self.withheld, "may be being fetched by an earlier order"
        assert self.allowed.get(work.pid, 0.0) <= self.now + 1e-6, "not paid for"
        limits = self.limits_of(work.pid)
        assert SLOTS.is_open(SLOTS.mask(limits.hours), self.now, limits.timezone), "outside its provider's hours"
        for row, start_by in work.rows_out:
            assert row.pid == work.pid
            stored = self.rows.get(row.key)
            assert stored is not None, "handed out after it was recorded"
            out = {r.key for rows in self.orders.values() for r in rows} | {r.key for r, _ in self.done}
            assert row.key not in out, "handed out twice"
            assert SLOTS.is_open(SLOTS.mask(row.notice.hours), self.now, limits.timezone), "outside its hours"
            for end in (start_by - 1, self.now) if start_by < inf else (self.now,):
                assert SLOTS.is_open(SLOTS.mask(limits.hours), end, limits.timezone)
            # News on their way may still change the order; what the scheduler has heard of, it must keep.
            if row.key not in self.fresh:
                self._check_order(stored, out)
            self.orders.setdefault(row.pid, []).append(row)
            self.sent.append(row)

    def recall(self) -> None:
        """What is not begun of the runs that are to be recalled comes back."""
        self.subject.overtaken(lambda work: True)
        recalls, self.subject.recalls = self.subject.recalls, set()
        for pid in sorted(recalls & self.orders.keys()):
            self._hand_back(pid, 1)

    def _hand_back(self, pid: int, begun: int) -> None:
        rows = self.orders[pid]
        for row in rows[begun:]:
            self.subject.lost(row.pid, row.key, row.psetid, row.seq)
        del rows[begun:]
        if not rows:
            del self.orders[pid]

    def _check_order(self, stored: QueueRow, out: set[bytes]) -> None:
        pending = {k for kind, t in self.news if kind == "recorded" for k, _ in t[0]}
        reached = {k for k, _ in self.subject.hours.removed} | {row.key for row in self.subject.hours.closed}
        reached |= {row.key for row in self.subject.hours.never}
        for other in self.rows.values():
            if other.pid != stored.pid or other.slot != FETCH_NOW:
                continue
            before = (other.psetid, other.seq) < (stored.psetid, stored.seq)
            if before and other.key not in self.fresh | out | pending | reached:
                assert other.psetid < stored.psetid and stored.psetid not in self.full, "out of order"
                assert other.psetid in self.full, "a partial set was passed"

    def finish(self, index: int, result: int, wire_bytes: int = 0) -> None:
        """The first one of a run is fetched; after an error of its site the others come back."""
        if not self.orders:
            return
        pid = sorted(self.orders)[index % len(self.orders)]
        row = self.orders[pid].pop(0)
        rate = self.limits_of(pid).rate
        self.allowed[pid] = bandwidth.charge(self.allowed.get(pid, 0.0), self.now, wire_bytes, rate)
        if self.site_rate:
            self.allowed[SITE] = bandwidth.charge(self.allowed.get(SITE, 0.0), self.now, wire_bytes, self.site_rate)
            self.subject.delays.charge(SITE, wire_bytes, self.site_rate, self.now)
        self.subject.finished(pid, row.key, result, wire_bytes, self.now)
        self.done.append((row, result))
        self._hand_back(pid, 0 if result == DNS else len(self.orders[pid]))

    def lose(self, index: int) -> None:
        """A robot is lost, with all that it has of a provider."""
        if self.orders:
            self._hand_back(sorted(self.orders)[index % len(self.orders)], 0)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.subject.release(self.now)
        self._open([row for row in self.rows.values() if row.slot < FETCH_NOW and retry_time(row.slot) <= self.now])

    def open_slots(self) -> None:
        """The slots that have begun."""
        for slot in SLOTS.begun(self.slot_time, self.now):
            self._open([row for row in self.rows.values() if row.slot == slot])
        self.slot_time = self.now

    def _open(self, rows: list[QueueRow]) -> None:
        for row in rows:
            self.rows[row.key] = row._replace(slot=FETCH_NOW)
            self.fresh.add(row.key)
            self.news.append(("opened", (row.pid, (row.psetid, row.seq), set(), {row.key})))

    def restart(self, running: set[int]) -> None:
        """There was a queue manager before: it has left orders, of which some are known."""
        self.news.clear()
        self.fresh.clear()
        mine = {pid: [row for row in self.rows.values() if row.pid == pid] for pid in (1, 2, 3)}
        waiting = {pid: min(row.psetid for row in rows) for pid, rows in mine.items() if rows}
        for pid in sorted(running & waiting.keys()):
            first = min(mine[pid], key=lambda row: (row.psetid, row.seq))
            self.orders[pid] = [first]
            self.subject.running(pid, first.key, first.generation)
        self.withheld = waiting.keys() - running
        entries = sorted((psetid, pid, self.limits_of(pid).priority) for pid, psetid in waiting.items())
        self.subject.load([Waiting(*entry) for entry in entries], withhold=True)

    def let_go(self) -> None:
        """All that was left has ended."""
        self.withheld.clear()
        self.subject.let_go()

    def drain(self) -> None:
        """Everything goes well from now on."""
        self.let_go()
        for _ in range(4000):
            self.start_reads(10)
            while self.reads:
                self.finish_read(0, False)
            self.take()
            self.take_more()
            self.recall()
            self.finish(0, 0)
            self.record()
            while self.news:
                self.deliver()
            if not (self.rows or self.orders or self.done or self.subject.active_count or self.subject.waiting_count):
                return
            self.pass_time(300.0)
            self.open_slots()
        raise AssertionError(f"rows left over: {list(self.rows.values())}")


def random_limits(random: Random) -> Limits:
    rate = random.choice([None, None, 10, 1000])
    return Limits(rate, random.choice(HOURS), random.choice(["", "Asia/Kolkata"]), random.randrange(3))


def random_step(store: ModelStore, random: Random) -> None:
    few = random.randrange(6)
    step = random.choices(range(13), (2, 4, 4, 5, 6, 6, 0.5, 3, 4, 2, 0.3, 3, 0.5))[0]
    if step == 0:
        urls = [(random.randint(1, 9), random.random() < 0.25) for _ in range(random.randrange(8))]
        hours = random.choice(HOURS) if store.limits else ""
        store.absorb(random.randint(1, 3), urls, random.random() < 0.4 and store.quantum > 0, hours)
    elif step == 1:
        store.start_reads(random.randint(1, 3))
    elif step == 2:
        store.snapshot(few)
    elif step == 3:
        store.finish_read(few, random.random() < 0.05)
    elif step == 4:
        store.take()
    elif step == 11:
        store.take_more(random.random() < 0.3)
    elif step == 12:
        store.recall()
    elif step == 5:
        store.finish(few, random.choices([0, 404, RETRY, DNS], (12, 2, 3, 1))[0], random.randrange(300))
    elif step == 6:
        store.lose(few)
    elif step == 7:
        store.record()
    elif step == 8:
        store.deliver()
    elif step == 9:
        store.pass_time(random.choice([0.0, 0.1, 1.0, 30.0]))
    elif store.limits:
        store.change_provider(random.randint(1, 3), random_limits(random))
    if random.random() < 0.03:
        store.pass_time(random.choice([200.0, 3600.0, 20_000.0]))
        store.open_slots()


def load(subject: Scheduler, *waiting: tuple[int, int]) -> None:
    subject.load([Waiting(psetid, pid) for psetid, pid in waiting])
