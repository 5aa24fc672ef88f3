"""More slow sites than robots: each has its share, and no time of an order that waits for a robot is over."""

from __future__ import annotations

import pytest

from lcc.errors import code
from lcc.protocols.work import Fetch
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, pages

LEASE_SECONDS = 300
END_SECONDS = 0.9 * LEASE_SECONDS - 2
"""So long a robot has for an order after it came (:data:`lcc.roles.botm.dispatcher.ROBOT_MARGIN_SECONDS`)."""
UNBEGUN_SECONDS = END_SECONDS - 2
"""So long an order waits for a robot."""
DEADLINE_SECONDS = 120
"""``[bot] deadline``: an order of a run begins only if it has that much time."""


class SlowRobots:
    """Robots at a BOT-M, one run each, in the order in which the runs came; each page takes so long."""

    def __init__(self, botm: FakeBotm, count: int, page_seconds: int) -> None:
        self.fetched: dict[int, int] = {}
        self._botm = botm
        self._count = count
        self._page_seconds = page_seconds
        self._came: dict[str, int] = {}
        self._busy: dict[int, tuple[Fetch, int]] = {}
        self._queue: list[int] = []

    def step(self, now: int) -> None:
        """A second has passed."""
        for fetch in self._botm.out.values():
            self._came.setdefault(fetch.id, now)
            if fetch.pid not in self._busy and fetch.pid not in self._queue:
                self._queue.append(fetch.pid)
        for pid, (fetch, since) in list(self._busy.items()):
            if now - since >= self._page_seconds:
                self._botm.done(fetch, elapsed_ms=1000 * (now - since))
                self.fetched[pid] = self.fetched.get(pid, 0) + 1
                self._go_on(pid, now)
        for pid in list(self._queue):
            for fetch in self._of(pid):
                if now >= self._came[fetch.id] + UNBEGUN_SECONDS:
                    self._hand_back(fetch)
            if not self._of(pid):
                self._queue.remove(pid)
        while self._queue and len(self._busy) < self._count:
            pid = self._queue.pop(0)
            self._busy[pid] = self._of(pid)[0], now

    def _of(self, pid: int) -> list[Fetch]:
        return [fetch for fetch in self._botm.out.values() if fetch.pid == pid and fetch.id in self._came]

    def _go_on(self, pid: int, now: int) -> None:
        del self._busy[pid]
        for fetch in self._of(pid):
            if now + DEADLINE_SECONDS > self._came[fetch.id] + END_SECONDS:
                self._hand_back(fetch)
            elif pid not in self._busy:
                self._busy[pid] = fetch, now

    def _hand_back(self, fetch: Fetch) -> None:
        self._botm.done(fetch, code("handed-back"))


@pytest.mark.parametrize("page_seconds", [1, 20, 60])
def test_each_of_them_has_its_share(make_world: MakeWorld, page_seconds: int) -> None:
    world = make_world(lease=float(LEASE_SECONDS), run_rows=16, overload=1.5)
    uns, botm = FakeUns(world), FakeBotm(world, capacity=2, orders_max=1000)
    for number in (1, 2, 3):
        uns.send_set(number, world.provider(f"http://{number}/"), pages(*range(500)))
    robots = SlowRobots(botm, 2, page_seconds)
    for second in range(500 if page_seconds == 1 else 6000):
        robots.step(second)
        world.advance(1)
    assert len(robots.fetched) == 3 and min(robots.fetched.values()) * 2 >= max(robots.fetched.values())
    assert world.engine.dispatcher.leases_passed == 0
