"""The queue manager on its real store under random clocks, sets, waits, kills and restarts.

What is checked is what a web server would see, and it is reckoned here by other means: the local clock by datetime,
bandwidth by adding up windows.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import attrs
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lcc.domain.fetches.hours import parse_hours
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.errors import code
from lcc.model import Provider
from lcc.protocols.work import Fetch
from lcc.roles.botm.dispatcher import LEASE_SHARE
from lcc.storage.providers.providers import change_provider, get_provider
from tests.support.roles.qm import FakeBotm, FakeUns, World, page
from tests.support.switches import LONG

HOURS_OVER = code("hours-over")
DAY = ("", "", "2", "1-3", "3", "22-3", "0-2,3")
WEEK = ("", "", "2", "sun 2", "sun 1-4", "sat-sun 23-3", "mon 0-8")
PERIODS = ((24, 3600, DAY), (168, 3600, WEEK), (24, 60, DAY))
BEGINNINGS = (
    ("Europe/Amsterdam", "2024-03-30T21:00"),  # the clocks go forward the next night
    ("Europe/Amsterdam", "2024-10-26T21:00"),  # and back
    ("America/New_York", "2024-11-02T22:00"),
    ("Australia/Lord_Howe", "2024-10-05T22:00"),  # by half an hour
    ("UTC", "2024-06-01T23:00"),
)
ZONES = ("", "", "Asia/Kolkata", "America/New_York")
STEP = 12.0
PIDS = (1, 2, 3)


@attrs.define
class Waiting:
    """An order that has come in and was not begun.

    :ivar limits: of its URL and its provider, as they were then: hours and time zone of each.  (While they are being
        changed there may be more than one.)
    """

    fetch: Fetch
    limits: list[tuple[str, str, str]]
    begins: float
    too_late: float


class Sites:
    """The web servers, and the robots in front of them, which may let an order wait.

    :ivar ended: (time, provider, bytes) of each fetch.
    """

    def __init__(self, random: Random, folder: Path, beginning: int, period: int, site_rate: int) -> None:
        self.random = random
        self.zone, text = BEGINNINGS[beginning]
        self.slots, self.slot_seconds, self.hours = PERIODS[period]
        begin = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(self.zone)).timestamp()

        class Somewhere(World):
            timeslots = TimeSlots(self.slots, self.slot_seconds, self.zone)

        Somewhere.begin = begin
        self.world = Somewhere(folder, bandwidth_bytes=site_rate, hold_initial=5.0, hold_maximum=60.0, read_ahead=3)
        self.site_rate = site_rate
        self.rates: dict[int, int | None] = {}
        for pid in PIDS:
            self.rates[pid] = random.choice([None, None, 20, 1000])
            made = self.world.provider(bandwidth_bytes=self.rates[pid], **self.some_limits())
            assert made == pid
        self.uns = FakeUns(self.world)
        self.botm = FakeBotm(self.world, capacity=2)
        self.sets = 0
        self.told: dict[str, str] = {}
        self.leases: dict[str, float] = {}
        self.seen = 0
        self.waiting: list[Waiting] = []
        self.running: dict[str, Fetch] = {}
        self.ended: list[tuple[float, int, int]] = []
        self.restarts = 0

    def some_limits(self) -> dict[str, Any]:
        return {
            "hours": self.random.choice(self.hours),
            "timezone": self.random.choice(ZONES),
            "priority": self.random.randrange(3),
        }

    def provider(self, pid: int) -> Provider:
        provider = self.world.database.now(get_provider, pid)
        assert provider is not None
        return provider

    # What happens.

    def tell(self) -> None:
        self.sets += 1
        pid = self.random.choice(PIDS)
        hours = self.random.choice(self.hours)
        numbers = self.random.sample(range(pid * 100, pid * 100 + 12), self.random.randint(1, 6))
        notices = [page(number, hours=hours, md5=f"{self.sets:032x}") for number in numbers]
        before = dict(self.told)
        self.told |= {notice.curl: hours for notice in notices}
        self.uns.send_set(self.sets, pid, notices)
        self.look(told_before=before)

    def look(self, told_before: dict[str, str] | None = None, provider_before: Provider | None = None) -> None:
        """Take in the orders that have come, some for later."""
        now = self.world.wall_clock()
        for fetch in self.botm.seen[self.seen :]:
            wait = self.random.choice([0.0, 0.0, 0.0, 20.0, 70.0])
            too_late = float("inf") if fetch.start_seconds is None else now + fetch.start_seconds
            providers = [self.provider(fetch.pid)]
            if provider_before is not None and provider_before.pid == fetch.pid:
                providers.append(provider_before)
            told = {self.told[fetch.url], (told_before or self.told).get(fetch.url, self.told[fetch.url])}
            limits = [(hours, each.hours, each.timezone) for hours in told for each in providers]
            self.waiting.append(Waiting(fetch, limits, now + wait, too_late))
            self.leases[fetch.id] = now + LEASE_SHARE * fetch.lease_seconds
        self.seen = len(self.botm.seen)
        self.drop_late()
        self.begin()

    def drop_late(self) -> None:
        """As a BOT-M does: what takes too long is ended, and nothing is said of it."""
        now = self.world.wall_clock()
        for fetch in [fetch for fetch in self.botm.out.values() if self.leases[fetch.id] <= now]:
            self.botm.forget(fetch)
            self.running.pop(fetch.id, None)

    def begin(self) -> None:
        now = self.world.wall_clock()
        for order in [order for order in self.waiting if order.begins <= now or order.too_late <= now]:
            self.waiting.remove(order)
            if order.fetch.id not in self.botm.out:
                continue  # its lease has passed
            if order.too_late <= now:
                self.botm.done(order.fetch, HOURS_OVER)
                continue
            assert any(
                self.is_open(hours, zone, now) and self.is_open(provider_hours, zone, now)
                for hours, provider_hours, zone in order.limits
            ), "a fetch begins outside its hours"
            self.running[order.fetch.id] = order.fetch

    def is_open(self, hours: str, zone: str, now: float) -> bool:
        clock = datetime.fromtimestamp(now, ZoneInfo(zone or self.zone))
        seconds = ((clock.weekday() * 24 + clock.hour) * 60 + clock.minute) * 60 + clock.second
        return bool(parse_hours(hours, self.slots) >> seconds // self.slot_seconds % self.slots & 1)

    def end(self, plainly: bool = False) -> None:
        if not self.running:
            return
        fetch = self.running.pop(self.random.choice(sorted(self.running)))
        if fetch.id not in self.botm.out:
            return
        result = 0 if plainly else self.random.choices([0, 404, 503, 1301], (10, 1, 2, 1))[0]
        size = 0 if result == 1301 else self.random.choice([0, 10, 90, 3000])
        self.ended.append((self.world.wall_clock(), fetch.pid, size))
        self.botm.done(fetch, result, wire_bytes=size)
        self.look()

    def pass_time(self, seconds: float) -> None:
        while seconds > 0:
            self.world.clock.advance(min(STEP, seconds))
            for remote in list(self.world.remotes):
                remote.write("<ping/>")
            self.world.settle()
            self.look()
            seconds -= STEP

    def restart(self, away_seconds: float) -> None:
        """The queue manager is killed; a new one comes later."""
        self.restarts += 1
        self.world.engine.stop()
        self.world.clock.advance(away_seconds)
        self.drop_late()
        self.world.start()
        self.uns = FakeUns(self.world)
        self.botm = FakeBotm(self.world, capacity=2, earlier=self.botm)
        self.seen = 0
        self.look()

    def change(self) -> None:
        before = self.provider(self.random.choice(PIDS))
        self.world.database.now(change_provider, attrs.evolve(before, **self.some_limits()))
        self.world.clock.advance(1.5)  # it is carried out within a second
        self.world.settle()
        self.look(provider_before=before)

    def step(self) -> None:
        kind = self.random.choices(range(6), (4, 8, 4, 1, 0.7, 0.7))[0]
        if kind == 0:
            self.tell()
        elif kind == 1:
            self.end()
        elif kind == 2:
            self.pass_time(self.random.choice([0.2, 3.0, 30.0, 240.0]))
        elif kind == 3:
            self.pass_time(self.random.choice([600.0, 1800.0, 3600.0]))
        elif kind == 4:
            self.restart(self.random.choice([0.0, 0.0, 5.0, 4000.0]))
        else:
            self.change()

    # What must be true.

    def drain(self) -> None:
        """Everything goes well from now on; nothing may be forgotten in a slot."""
        for pid in PIDS:
            self.world.database.now(change_provider, attrs.evolve(self.provider(pid), hours="", bandwidth_bytes=None))
        ends = self.world.wall_clock() + 2.5 * max(self.slots * self.slot_seconds, 86400)
        while self.world.count("qdb"):
            while self.running or self.waiting:
                self.end(plainly=True)
                if not self.running:
                    self.pass_time(STEP)
            if self.world.count("qdb"):
                self.pass_time(10 * STEP)
            assert self.world.wall_clock() < ends, "rows were forgotten"

    def check_bandwidth(self) -> None:
        for pid in PIDS:
            rate = self.rates[pid]
            if rate:
                self.check_windows([(at, size) for at, owner, size in self.ended if owner == pid], rate, 1)
        if self.site_rate:
            self.check_windows([(at, size) for at, _, size in self.ended], self.site_rate, len(PIDS))

    def check_windows(self, ended: list[tuple[float, int]], rate: int, at_once: int) -> None:
        # A restart forgets what would have been paid for within a second.
        spare = self.restarts * rate * 1.0 + 1.0
        for first in range(len(ended)):
            total = 0
            for last in range(first, len(ended)):
                window = ended[last][0] - ended[first][0]
                total += ended[last][1]
                in_flight = sum(sorted(size for _, size in ended[first : last + 1])[-at_once:])
                assert total <= 1.05 * rate * window + in_flight + spare


@settings(
    max_examples=30 if LONG else 2,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # a seed has no smaller one
@given(
    st.integers(0, 2**32),
    st.integers(0, len(BEGINNINGS) - 1),
    st.integers(0, len(PERIODS) - 1),
    st.sampled_from([0, 0, 200]),
)
def test_what_web_servers_see(seed: int, beginning: int, period: int, site_rate: int) -> None:
    with TemporaryDirectory() as folder:
        sites = Sites(Random(seed), Path(folder), beginning, period, site_rate)
        try:
            for _ in range(60):
                sites.step()
            sites.check_bandwidth()
            sites.drain()
            assert sites.world.overlaps == 0
            assert sites.world.count("qpsdb") == 0
        finally:
            sites.world.close()
