"""Runs at a robot: the orders of one provider, one after the other, and what is looked at between two of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcc.errors import CODES, FetchError
from lcc.protocols.work import Done, Fetch, Recall
from lcc.roles.bot.engine import ANSWER_SECONDS, ANSWERS_TOGETHER, TOGETHER_SECONDS
from lcc.roles.bot.run import PAY_SECONDS_MAX
from lcc.storage.disk.content_folder import attempt_path
from tests.support.roles.robots import Running, fetch_order
from tests.support.switches import LONG

from .test_bot import Bench as OneOrder

HANDED_BACK, HOURS_OVER, REFUSED = CODES["handed-back"], CODES["hours-over"], CODES["connect-refused"]
PID = 5


def run_order(number: int, pid: int = PID, lease: int = 300, start: int | None = None, **fields: Any) -> Fetch:
    return fetch_order(number, pid, lease, attempt_path(number, 1), start).replaced(**fields)


class Bench(OneOrder):
    """A robot that gets runs."""

    def send(self, *orders: Fetch) -> None:
        """In one write."""
        self.botm.raw("".join(order.to_xml() for order in orders))
        self.settle()

    def run(self, numbers: range, pid: int = PID, **fields: Any) -> None:
        self.send(*(run_order(number, pid, **fields) for number in numbers))

    def one(self, pid: int = PID) -> Running:
        """What is being fetched of a provider."""
        (running,) = [each for each in self.fetcher.running if each.order.pid == pid]
        return running

    def recall(self, pid: int = PID) -> None:
        self.botm.say(Recall(pid))
        self.settle()

    @property
    def begun(self) -> list[int]:
        return [int(url.rpartition("/")[2]) for url in self.urls]

    @property
    def told(self) -> list[tuple[int, int]]:
        """What was answered: numbers of orders, and codes."""
        return [(int(result.id[3:]), result.code) for result in self.results]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_run_is_carried_out_in_its_order(bench: Bench) -> None:
    bench.run(range(1, 5))
    for number in range(1, 5):
        assert bench.begun == list(range(1, number + 1))
        bench.one().succeed(b"x")
        bench.settle()
    assert bench.told == [(1, 0), (2, 0), (3, 0), (4, 0)]


def test_answers_go_eight_at_a_time(bench: Bench) -> None:
    bench.run(range(1, 20))
    for _ in range(ANSWERS_TOGETHER - 1):
        bench.one().succeed(b"x")
    assert bench.results == []
    bench.one().succeed(b"x")
    assert len(bench.results) == ANSWERS_TOGETHER


def test_answers_go_after_a_moment(bench: Bench) -> None:
    bench.run(range(1, 5))
    bench.one().succeed(b"x")
    bench.clock.advance(ANSWER_SECONDS / 2)
    bench.one().succeed(b"x")
    assert bench.results == []
    bench.clock.advance(ANSWER_SECONDS / 2)
    assert bench.told == [(1, 0), (2, 0)]


def test_the_last_answer_of_a_run_goes_at_once_with_all_that_gathered(bench: Bench) -> None:
    bench.run(range(1, 4))
    bench.run(range(11, 14), pid=6)
    bench.one(6).succeed(b"x")
    for _ in range(3):
        bench.one().succeed(b"x")
    assert bench.told == [(11, 0), (1, 0), (2, 0), (3, 0)]


def test_an_error_of_the_site_hands_the_rest_back_in_its_order(bench: Bench) -> None:
    bench.run(range(1, 6))
    bench.one().succeed(b"x")
    bench.one().fail(FetchError("connect-refused"))
    assert bench.told == [(1, 0), (2, REFUSED), (3, HANDED_BACK), (4, HANDED_BACK), (5, HANDED_BACK)]
    assert bench.begun == [1, 2]
    assert bench.files() == [attempt_path(1, 1).split("/")[-1]]
    bench.run(range(6, 8))
    assert bench.begun == [1, 2, 6]


def test_an_error_of_one_page_does_not(bench: Bench) -> None:
    bench.run(range(1, 3))
    bench.one().succeed(b"", status=404)
    assert bench.begun == [1, 2]


def test_an_error_of_the_site_in_the_call_that_begins(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_arguments: object) -> None:
        raise FetchError("connect-refused")

    bench.run(range(1, 5))
    with monkeypatch.context() as patch:
        first = bench.one()
        patch.setattr(bench.fetcher, "fetch", fetch)
        first.succeed(b"x")
        assert bench.told == [(1, 0), (2, REFUSED), (3, HANDED_BACK), (4, HANDED_BACK)]
    for pid in range(10, 16):
        bench.run(range(pid, pid + 1), pid=pid)
    assert bench.robot.running == 4


def test_a_recall_leaves_what_is_being_fetched(bench: Bench) -> None:
    bench.run(range(1, 4))
    bench.recall()
    assert bench.told == [(2, HANDED_BACK), (3, HANDED_BACK)]
    bench.recall()
    bench.recall(77)
    bench.one().succeed(b"x")
    assert bench.told[2:] == [(1, 0)]
    bench.run(range(4, 6))
    assert bench.begun == [1, 4]


def test_a_recall_of_a_run_that_waits_for_a_place(tmp_path: Path) -> None:
    bench = Bench(tmp_path, concurrency=1)
    bench.run(range(1, 3), pid=1)
    bench.run(range(3, 5), pid=2)
    bench.recall(2)
    assert bench.told == [(3, HANDED_BACK), (4, HANDED_BACK)]
    bench.run(range(5, 7), pid=2)  # again, behind nothing that is left of the first
    bench.recall(1)
    bench.one(1).succeed(b"x")
    bench.settle()
    assert bench.begun == [1, 5]


def test_a_recall_between_two_fetches_that_begin_together(bench: Bench) -> None:
    for pid in range(1, 5):
        bench.run(range(pid * 10, pid * 10 + 3), pid=pid)
    bench.one(1).succeed(b"x")
    bench.recall(1)
    assert bench.told == [(10, 0), (11, HANDED_BACK), (12, HANDED_BACK)]
    bench.run(range(100, 101), pid=5)
    bench.clock.advance(TOGETHER_SECONDS)
    assert bench.begun[4:] == [100] and bench.robot.running == 4


def test_what_is_owed_is_waited_for(bench: Bench) -> None:
    bench.run(range(1, 3), rate=1000)
    bench.one().succeed(b"x", wire_bytes=1500)
    bench.pass_time(1.4, 0.1)
    assert bench.begun == [1]
    bench.pass_time(0.2, 0.1)
    assert bench.begun == [1, 2]


def test_who_waits_for_what_is_owed_can_be_recalled(bench: Bench) -> None:
    bench.run(range(1, 3), rate=1000)
    bench.one().succeed(b"x", wire_bytes=1500)
    bench.recall()
    assert bench.told == [(1, 0), (2, HANDED_BACK)]
    bench.pass_time(3)
    assert bench.begun == [1] and bench.clock.getDelayedCalls() != []


def test_what_is_owed_for_longer_goes_back(bench: Bench) -> None:
    bench.run(range(1, 4), rate=1000)
    bench.one().succeed(b"x", wire_bytes=int(PAY_SECONDS_MAX * 1000) + 100)
    assert bench.told == [(1, 0), (2, HANDED_BACK), (3, HANDED_BACK)]


def test_what_another_robot_left_owed(bench: Bench) -> None:
    bench.run(range(1, 2), rate=1000, owed_ms=1500, sent_ms=0)
    bench.pass_time(1.4, 0.1)
    assert bench.begun == []
    bench.pass_time(0.2, 0.1)
    assert bench.begun == [1]
    bench.run(range(2, 3), pid=6, rate=1000, owed_ms=60_000)
    assert bench.told == [(2, HANDED_BACK)]


def test_the_interval_counts_from_start_to_start(bench: Bench) -> None:
    bench.run(range(1, 4), interval_ms=1500)
    bench.pass_time(1.0, 0.1)
    bench.one().succeed(b"x")
    bench.pass_time(0.4, 0.1)
    assert bench.begun == [1]
    bench.pass_time(0.1, 0.1)
    assert bench.begun == [1, 2]
    bench.pass_time(1.6, 0.1)
    bench.one().fail(FetchError("idle-timeout"))  # longer than the interval
    bench.settle()
    assert bench.begun == [1, 2, 3]


def test_the_rest_of_a_run_that_arrives_when_the_first_has_ended_finds_the_interval(bench: Bench) -> None:
    bench.run(range(1, 2), interval_ms=500)
    bench.pass_time(0.1, 0.1)
    bench.one().succeed(b"x")
    bench.pass_time(0.1, 0.1)
    assert bench.told == [(1, 0)]  # nothing of it is here
    bench.run(range(2, 3), interval_ms=500)  # was sent together with the first
    bench.pass_time(0.2, 0.1)
    assert bench.begun == [1]
    bench.pass_time(0.2, 0.1)
    assert bench.begun == [1, 2]


def test_the_rest_of_a_run_of_a_provider_without_limits_any_longer_waits_for_nothing(bench: Bench) -> None:
    bench.run(range(1, 2), interval_ms=500)
    bench.one().succeed(b"x")
    bench.run(range(2, 3))
    assert bench.begun == [1, 2]


def test_an_interval_beyond_what_is_waited_for_goes_back_with_the_time_that_is_left(bench: Bench) -> None:
    bench.run(range(1, 4), interval_ms=5000)
    bench.pass_time(1.0, 0.1)
    bench.one().succeed(b"x")
    bench.settle()
    assert bench.told == [(1, 0), (2, HANDED_BACK), (3, HANDED_BACK)]
    assert [4000 <= result.owed_ms <= 4001 for result in bench.results] == [False, True, True]


def test_whoever_asks_to_be_left_alone_gets_the_rest_back(bench: Bench) -> None:
    bench.run(range(1, 4))
    bench.one().fail(FetchError.from_status(503, retry_seconds=60))
    assert bench.told == [(1, 503), (2, HANDED_BACK), (3, HANDED_BACK)]
    assert [result.retry_seconds for result in bench.results] == [60, 0, 0]
    bench.run(range(4, 6))
    bench.one().fail(FetchError.from_status(503))
    assert bench.begun == [1, 4, 5]


def test_a_lease_too_short_for_another_fetch(tmp_path: Path) -> None:
    bench = Bench(tmp_path, deadline_seconds=60)
    bench.run(range(1, 4), lease=100)
    bench.pass_time(41, 1)
    bench.one().succeed(b"x")
    assert bench.told == [(1, 0), (2, HANDED_BACK), (3, HANDED_BACK)]
    bench.run(range(4, 6), lease=10)  # the first is begun, or nothing ever would be
    assert bench.begun == [1, 4]
    bench.one().succeed(b"x")
    assert bench.told[3:] == [(4, 0), (5, HANDED_BACK)]


def test_the_hours_of_each_order(bench: Bench) -> None:
    bench.send(run_order(1), run_order(2, start=2), run_order(3, start=60), run_order(4, start=5))
    bench.pass_time(3, 0.5)
    assert bench.told == [(2, HOURS_OVER)]
    bench.one().succeed(b"x")
    bench.settle()
    assert bench.begun == [1, 3]
    bench.clock.rightNow += 2.5  # before anybody looked
    bench.one().succeed(b"x")
    assert bench.told[1:] == [(1, 0), (3, 0), (4, HOURS_OVER)]
    assert bench.begun == [1, 3]


def test_the_link_is_lost_in_mid_run(bench: Bench) -> None:
    for pid in range(1, 5):
        bench.run(range(pid * 10, pid * 10 + 3), pid=pid)
    bench.one(1).succeed(b"x")  # its answer and its next fetch wait for others
    bench.wire.kill(bench.wire.server)
    bench.settle()
    assert bench.robot.running == 0
    count = len(bench.urls)
    bench.pass_time(5, 0.001 * 250)
    assert len(bench.urls) == count
    bench.botm, bench.wire = bench.connect_botm()
    bench.run(range(100, 103), pid=1)
    assert bench.begun[-1] == 100
    bench.one(1).succeed(b"x")
    bench.pass_time(0.01, 0.01)
    assert bench.told == [(100, 0)]


def linger(running: Running) -> None:
    """It does not end when it is told to."""
    running.result._canceller = None
    running.result.pause()


def test_a_lingering_fetch_holds_up_its_provider_on_the_next_connection(bench: Bench) -> None:
    bench.run(range(1, 4))
    lingering = bench.one()
    linger(lingering)
    bench.wire.kill(bench.wire.server)
    bench.settle()
    bench.botm, bench.wire = bench.connect_botm()
    bench.run(range(1, 3))  # the same ones: their BOT-M sends them again
    bench.run(range(7, 8), pid=6)
    assert bench.begun == [1, 7]
    lingering.over = True
    lingering.result.unpause()
    bench.settle()
    assert bench.begun == [1, 7, 1]
    bench.one().succeed(b"x")
    bench.one().succeed(b"x")
    assert bench.told == [(1, 0), (2, 0)]


def test_standing_still_in_mid_run(bench: Bench) -> None:
    bench.run(range(1, 4))
    bench.clock.rightNow += 8
    bench.one().succeed(b"x")
    bench.run(range(4, 5))
    bench.run(range(5, 6), pid=6)
    assert bench.begun == [1]
    bench.pass_time(0.75, 0.25)
    assert sorted(bench.begun) == [1, 2, 5]
    for number in (2, 3, 4):
        assert bench.begun[-1] == number or number == 2
        bench.one().succeed(b"x")
    assert bench.begun == [*bench.begun[:3], 3, 4]


def test_nothing_is_begun_late_where_the_botm_is_gone(bench: Bench) -> None:
    bench.run(range(1, 4))
    bench.clock.rightNow += 8
    bench.one().succeed(b"x")
    bench.wire.kill(bench.wire.server)
    bench.settle()
    bench.pass_time(2, 0.25)
    assert bench.begun == [1] and bench.robot._runs == {}


def test_more_runs_than_places(tmp_path: Path) -> None:
    bench = Bench(tmp_path, concurrency=2)
    for pid in range(1, 6):
        bench.run(range(pid * 10, pid * 10 + 2), pid=pid)
    assert bench.begun == [10, 20]
    bench.one(1).succeed(b"x")
    assert bench.begun == [10, 20, 11]  # a run keeps its place
    bench.one(1).succeed(b"x")
    assert bench.begun == [10, 20, 11, 30]
    while bench.fetcher.running:
        bench.fetcher.running[0].succeed(b"x")
        bench.pass_time(0.002, 0.002)
    assert bench.fetcher.at_once_max == 2
    assert sorted(bench.begun) == sorted(pid * 10 + more for pid in range(1, 6) for more in (0, 1))


def test_next_fetches_begin_together_only_with_many(bench: Bench) -> None:
    for pid in range(1, 4):
        bench.run(range(pid * 10, pid * 10 + 3), pid=pid)
    bench.one(1).succeed(b"x")
    assert bench.begun == [10, 20, 30, 11]
    bench.run(range(40, 43), pid=4)
    bench.one(1).succeed(b"x")
    bench.one(2).succeed(b"x")
    assert bench.begun == [10, 20, 30, 11, 40]
    bench.clock.advance(TOGETHER_SECONDS)
    assert bench.begun == [10, 20, 30, 11, 40, 12, 21]


def test_a_robot_that_is_closed_between_two_fetches_leaves_no_timer(bench: Bench) -> None:
    for pid in range(1, 5):
        bench.run(range(pid * 10, pid * 10 + 3), pid=pid, rate=1000)
    bench.one(1).succeed(b"x", wire_bytes=1000)
    bench.clock.advance(TOGETHER_SECONDS)  # waits for what is owed
    bench.one(2).succeed(b"x")  # waits for others
    bench.robot.close()
    bench.botm.stream.abort()
    bench.settle()
    assert bench.clock.getDelayedCalls() == []


PROVIDERS = 7


class Walk(Bench):
    """Whatever may happen to a robot that gets runs."""

    def __init__(self, path: Path, random: Random) -> None:
        super().__init__(path, random.choice((1, 2, 4, 6)), deadline_seconds=random.choice((0, 20)))
        self.random = random
        self.count = 0
        self.sent: dict[int, int] = {}
        """The provider of each order of this connection."""
        self.lingering: list[Running] = []

    def pid(self) -> int:
        return self.random.randrange(PROVIDERS)

    def order(self, *_: Any, **__: Any) -> None:
        pid = self.pid()
        orders = []
        for _number in range(self.random.choice((1, 1, 2, 12))):
            self.count += 1
            lease = self.random.choice((300, 300, 300, 15, 3))
            start = self.random.choice((None, None, None, 10, 1, 0))
            rate = 1000 if pid % 2 else 0
            orders.append(run_order(self.count, pid, lease, start, rate=rate))
            self.sent[self.count] = pid
        self.send(*orders)

    def end_one(self, error: str = "") -> None:
        running = [each for each in self.fetcher.running if each not in self.lingering]
        if running:
            one = self.random.choice(running)
            wire_bytes = self.random.choice((0, 10, 900, 1900, 5000))
            if error:
                one.fail(FetchError(error))
            else:
                one.succeed(b"x", wire_bytes=wire_bytes)

    def succeed(self) -> None:
        self.end_one()

    def page_error(self) -> None:
        self.end_one("bad-response")

    def site_error(self) -> None:
        self.end_one("connect-refused")

    def recall_one(self) -> None:
        self.recall(self.pid())

    def moment(self) -> None:
        self.pass_time(0.002, 0.001)

    def time(self) -> None:
        self.release()
        self.pass_time(self.random.choice((0.005, 0.5, 3)), 0.25)

    def stand_still(self) -> None:
        self.release()
        self.clock.rightNow += self.random.choice((2, 5, 12))

    def lose(self) -> None:
        if self.fetcher.running and self.random.random() < 0.5:
            one = self.random.choice(self.fetcher.running)
            if one not in self.lingering:
                linger(one)
                self.lingering.append(one)
        self.check_answers()
        self.wire.kill(self.wire.server)
        self.settle()
        assert set(self.fetcher.running) <= set(self.lingering)
        count = len(self.fetcher.all)
        self.pass_time(0.01, 0.001)
        assert len(self.fetcher.all) == count
        self.sent.clear()
        self.botm, self.wire = self.connect_botm()

    def release(self) -> None:
        for one in self.lingering:
            one.over = True
            one.result.unpause()
        self.lingering = []
        self.settle()

    def check(self) -> None:
        self.settle()
        pids = [running.order.pid for running in self.fetcher.running]
        assert len(pids) == len(set(pids)), "two fetches of one provider at once"
        assert len(pids) <= self.robot.concurrency
        self.check_answers()

    def check_answers(self) -> None:
        numbers = [int(result.id[3:]) for result in self.botm.of(Done)]
        assert len(numbers) == len(set(numbers)), "answered twice"
        assert set(numbers) <= set(self.sent)
        fetched: dict[int, list[int]] = defaultdict(list)
        for result in self.botm.of(Done):
            if result.code not in (HANDED_BACK, HOURS_OVER):
                fetched[self.sent[int(result.id[3:])]].append(int(result.id[3:]))
        assert all(each == sorted(each) for each in fetched.values()), "not in their order"

    def end(self) -> None:
        self.release()
        for _round in range(2000):
            if not self.robot._runs:
                break
            self.end_one()
            self.pass_time(0.5, 0.5)
            self.check()
        self.pass_time(1, 0.5)
        self.check()
        assert {int(result.id[3:]) for result in self.botm.of(Done)} == set(self.sent)
        begun = defaultdict(list)
        for running in self.fetcher.all:
            begun[running.order.pid].append(int(running.order.url.rpartition("/")[2]))
        assert all(each == sorted(each) for each in begun.values()), "not begun in their order"
        assert (self.robot._waiting, self.robot._places) == (0, self.robot.concurrency)
        for pid in range(100, 120):
            self.send(run_order(1000 * pid, pid), run_order(1000 * pid + 1, pid))
        assert len(self.fetcher.running) == self.robot.concurrency


@settings(max_examples=150 if LONG else 40, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens(seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder:
        walk = Walk(Path(folder), random)
        rates = {walk.order: random.choice((10, 30)), walk.succeed: random.choice((10, 40)), walk.moment: 10}
        for action in (walk.page_error, walk.site_error, walk.recall_one, walk.time, walk.stand_still, walk.lose):
            rates[action] = random.choice((0, 1, 4))
        for action in random.choices(list(rates), list(rates.values()), k=150):
            action()
            walk.check()
        walk.end()
