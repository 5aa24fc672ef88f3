"""As :mod:`tests.robots.test_interleavings`, with several orders of a provider out at a time, and recalls."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import cast

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from lcc.errors import CODES
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Ready
from lcc.protocols.work import Done, Fetch, Gone, MachineHello, Recall
from lcc.protocols.work import Running as StillRunning
from tests.robots.test_interleavings import PROVIDERS, ROBOTS, Queue, Walk
from tests.support.roles.robots import FakePeer, fetch_order
from tests.support.switches import LONG

RUN_ORDERS = 6
_UNTOUCHED = (CODES["handed-back"], CODES["hours-over"])


class RunQueue(Queue):
    """What the queue manager knows: it appends to a run by the connection on which that has begun only.

    :ivar out: those of each provider that are out, by id; ``begun``: the session on which the first of them went.
    :ivar lost: those that never arrived: sent again once the provider is free.
    :ivar recalled: providers whose runs were recalled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent = cast(dict[int, Fetch], {})
        self.out: dict[int, dict[str, Fetch]] = defaultdict(dict)
        self.begun: dict[int, int] = {}
        self.lost: dict[int, list[Fetch]] = defaultdict(list)
        self.recalled: set[int] = set()
        self.session = 0

    @property
    def done(self) -> bool:
        return not any(self.out.values()) and not any(self.lost.values())

    def connected(self) -> None:
        super().connected()
        self.session += 1

    def may_send(self, pid: int) -> bool:
        if not self.out[pid]:
            return True
        return self.begun[pid] == self.session and pid not in self.recalled and len(self.out[pid]) < RUN_ORDERS

    def say(self, peer: FakePeer, order: Fetch) -> None:
        if not self.out[order.pid]:
            self.begun[order.pid] = self.session
            self.recalled.discard(order.pid)
        self.out[order.pid][order.id] = order
        peer.say(order)

    def hear(self, peer: FakePeer, messages: list[Flat]) -> None:
        for message in messages:
            if isinstance(message, MachineHello):
                self.connected()
            elif isinstance(message, Gone):
                self.ready = False
            elif isinstance(message, StillRunning):
                self.running.add(message.id)
            elif isinstance(message, Done):
                known = self.results.setdefault(message.number, message)
                assert known == message
                self.out[message.pid].pop(message.id, None)
                self.lost[message.pid] = [each for each in self.lost[message.pid] if each.id != message.id]
            elif isinstance(message, Ready):
                self.ready = True
                for pid, orders in self.out.items():
                    lost = [order for order in orders.values() if order.id not in self.running]
                    for order in lost:
                        del orders[order.id]
                    self.lost[pid] = lost + self.lost[pid]
                    if orders and pid in self.recalled:
                        peer.say(Recall(pid))


class RunWalk(Walk):
    """The whole system, and the queue manager sends runs."""

    def __init__(self, path: Path, hops: int, random: Random) -> None:
        super().__init__(path, hops)
        self.random = random
        self.runs = RunQueue()
        self.queue = self.runs
        self.waited = False
        self.work += [self.order, self.moment]
        self.trouble += [self.recall, self.pause_robot, self.reset_robot]

    def order(self, number: int) -> None:
        queue = self.runs
        if self.qm is None or not queue.ready:
            return
        for pid in self.random.sample(range(PROVIDERS), 2):
            for _number in range(number % RUN_ORDERS + 1):
                if not queue.may_send(pid):
                    break
                if queue.lost[pid]:
                    order = queue.lost[pid].pop(0)
                else:
                    queue.count += 1
                    order = fetch_order(queue.count, pid=pid, start=3 if number % 50 == 0 else None)
                    order = order.replaced(priority=pid % 3, rate=1024 if pid == 1 else 0)
                queue.say(self.qm, order)

    def order_again(self, number: int) -> None:
        orders = [order for orders in self.runs.out.values() for order in orders.values()]
        if self.qm is not None and self.runs.ready and orders:
            self.qm.say(orders[number % len(orders)])

    def recall(self, number: int) -> None:
        pid = number % PROVIDERS
        if self.qm is not None and self.runs.ready and self.runs.out[pid]:
            self.runs.recalled.add(pid)
            self.qm.say(Recall(pid))

    def start_robot(self, number: int) -> None:
        before = len(self.machines)
        if before < ROBOTS:
            super().start_robot(number)

    def connect_robots(self, number: int) -> None:
        for machine in self.machines:
            if machine.wire is None and self.random.random() < 0.3:  # says that it is of an older version
                machine.robot._hello = attrs.evolve(machine.robot._hello, orders_max=0)
        super().connect_robots(number)

    def pause_robot(self, number: int) -> None:
        if self.machines:
            robot = self.machines[number % len(self.machines)].robot
            if robot.paused:
                robot.resume()
            else:
                robot.pause()

    def reset_robot(self, number: int) -> None:
        """Both ends learn that the connection was lost, the BOT-M first."""
        if self.machines:
            wire = self.machines[number % len(self.machines)].wire
            if wire is not None and not wire.server.closed:
                wire.client.stream.send("<garbage/>")

    def succeed(self, number: int) -> None:
        running = self.running()
        if running:
            one = running[number % len(running)]
            one.succeed(one.order.url.encode(), wire_bytes=number % 1500)

    def moment(self, number: int) -> None:
        self.clock.advance(1 / 128)  # exact: with rounding, timers of a clock that stands still never end

    def heal(self) -> None:
        for _round in range(20):
            self.start_robot(0)
            for machine in self.machines:
                machine.robot.resume()
            self.connect_robots(0)
            self.connect_all()
            for _step in range(60):
                self.check()
                while self.running():
                    self.succeed(0)
                    self.settle()
                    self.check()
                self.pass_time(0.5, 0.5)
                if self.qm is not None and self.runs.ready:
                    for pid in range(PROVIDERS):
                        while self.runs.lost[pid] and self.runs.may_send(pid):
                            self.runs.say(self.qm, self.runs.lost[pid].pop(0))
                self.acknowledge(0)
                self.settle()
                if self.runs.done and not self.running() and not self.engine.held:
                    return
            self.waited = True
            for _step in range(40):
                self.pass_time(5, 5)
                self.check()
                self.connect_robots(0)
                self.connect_qm(0)
            self.lose_qm(0)
        raise AssertionError(f"not all ended: {self.runs.out}, {self.runs.lost}")

    def check_end(self) -> None:
        super().check_end()
        places = [machine.robot for machine in self.machines]
        assert all(robot._places == robot.concurrency and not robot._runs for robot in places)
        book = self.engine._dispatcher.orders
        assert not (book._runs or book._grown or any(book._queues))
        assert not any(robot.orders or robot.runs for robot in self.engine.robots)
        if not self.waited:
            ended: dict[int, list[int]] = defaultdict(list)
            for number in sorted(self.runs.results):
                result = self.runs.results[number]
                if result.code not in _UNTOUCHED:
                    ended[result.pid].append(int(result.id[3:]))
            assert all(each == sorted(each) for each in ended.values()), "not in their order"


@settings(max_examples=120 if LONG else 40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 1))
def test_any_order_of_events_with_runs(seed: int, hops: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder:
        walk = RunWalk(Path(folder), hops, random)
        walk.start_robot(0)
        walk.start_robot(0)
        walk.connect_all()
        rates = [(action, random.choice((8, 20, 40))) for action in walk.work]
        rates += [(action, random.choice((0, 1, 4))) for action in walk.trouble]
        for action in random.choices([action for action, _ in rates], [rate for _, rate in rates], k=400):
            action(random.randrange(1000))
            walk.check()
        walk.heal()
        walk.check_end()
