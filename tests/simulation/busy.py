"""A busy time: more providers than robots, each with more to be fetched than there is time for, and sites that are
slow.  Nothing goes wrong; and no provider may wait for its turn while others have one after the other.

All providers have the same priority: one that has a higher one may keep others waiting, as is agreed with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import ceil
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import EPOCH, Timeline

from .one_lcc import Lcc, LccSettings
from .publisher import CarefulPublisher
from .sites import Site, SiteFaults
from .world import World

SECONDS = 240.0
ROBOTS = 9
"""Of all robot processes together (:data:`tests.simulation.one_lcc.COMMON`)."""
PAGE_SECONDS = (0.5, 1.5)
"""How long a web server takes to answer, at least and at most."""
WARM_SECONDS = 60.0
"""By then all providers have told of their pages, and each has had a turn."""
_PAGES, _TOLD_SECONDS = 20, 15.0
"""Pages of a site; how often it tells that all of them have changed.  A robot of its own needs longer."""
_SHARE = 0.5
"""Of what was fetched from one provider, this much was fetched from any other."""
_LOOK_SECONDS = 1.0


class BusySite(Site):
    """One whose pages are all alike."""

    def __init__(self, timeline: Timeline, number: int, address: str) -> None:
        super().__init__(timeline, number, address)
        self.stays_open = False
        for each in (self.broken, self.untold, self.pages):
            each.clear()
        self.change_all()
        self.faults = SiteFaults(slow=1.0, slow_seconds=PAGE_SECONDS)

    def change_all(self) -> None:
        """All pages are to be fetched again."""
        for number in range(_PAGES):
            self.change(f"p{number}.html")

    def hours_of(self, path: str) -> str:
        return ""


class BusyPublisher(CarefulPublisher):
    """Tells again and again that everything has changed."""

    async def _publish(self) -> None:
        site: Any = self._site
        await deferLater(self._reactor, site.chance.uniform(0, 10.0))
        while True:
            await self._begins.run(lambda: Deferred.fromCoroutine(self._submit()))
            await deferLater(self._reactor, _TOLD_SECONDS)
            site.change_all()


class Busy(World):
    """An LCC and its providers.

    :ivar longest_seconds: pid -> how long its provider has had something to be fetched, and was not asked for it.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        chance = timeline.random("busy")
        self._quantum = chance.choice((3, 8))
        sizes = {
            "absorb_batch": 50,
            "record_batch": 50,
            "run_rows": chance.choice((1, 2, 16)),
            "quantum_urls": self._quantum,
            "read_ahead": 20,
        }
        self.lcc = Lcc(self, LccSettings(chance.random() < 0.5, False, False, sizes, 1.0))
        count = ROBOTS + chance.choice((1, 2, 3, 4, ROBOTS, ROBOTS + 4))
        self.sites = [self._add_site(number) for number in range(1, 1 + count)]
        self.longest_seconds = dict.fromkeys((site.pid for site in self.sites), 0.0)
        self._since = dict.fromkeys(self.longest_seconds, timeline.now)
        self.requests = dict.fromkeys(self.longest_seconds, 0)
        timeline.call_later(WARM_SECONDS, None, self._look)

    @property
    def most_seconds(self) -> float:
        """How long a provider may wait: twice as long as it takes until all have had a quantum of the slowest pages,
        for they are not spread evenly over the robots."""
        return 2 * ceil(len(self.sites) / ROBOTS) * self._quantum * PAGE_SECONDS[1]

    def _add_site(self, number: int) -> BusySite:
        site = BusySite(self.timeline, number, f"10.1.0.{number}")
        self.add_site(site, self.lcc.database)
        site.asked = partial(self._asked, site)
        self.add_process(f"site{number}", site.address, partial(self._publisher, site))
        return site

    def _publisher(self, site: Site, process: Process) -> BusyPublisher:
        return BusyPublisher(site, process, list(self.lcc.hosts.unses), lambda *_: None)

    def _asked(self, site: Site, target: str) -> None:
        if self.timeline.now > EPOCH + WARM_SECONDS:
            self._waits_no_longer((site.pid,))
            self.requests[site.pid] += 1

    def _waits_no_longer(self, pids: Iterable[int]) -> None:
        now = self.timeline.now
        for pid in pids:
            self.longest_seconds[pid] = max(self.longest_seconds[pid], now - self._since[pid])
            self._since[pid] = now

    def _look(self) -> None:
        """Who has nothing to be fetched does not wait."""
        if self.timeline.now == EPOCH + WARM_SECONDS:
            self._since = dict.fromkeys(self._since, self.timeline.now)
        waiting = {pid for (pid,) in self.lcc.rows("SELECT DISTINCT pid FROM qdb")}
        self._waits_no_longer(self._since.keys() - waiting)
        self.timeline.call_later(_LOOK_SECONDS, None, self._look)

    def unfair(self) -> list[str]:
        """Who has waited for too long, or was asked too seldom."""
        self._waits_no_longer(self._since)
        most = max(self.requests.values())
        found = [
            f"{pid} waited {seconds:.0f} seconds for its turn; {self.most_seconds:.0f} is the most"
            for pid, seconds in self.longest_seconds.items()
            if seconds > self.most_seconds
        ]
        found += [
            f"{pid} was asked for {count} pages, another one for {most}"
            for pid, count in self.requests.items()
            if count < most * _SHARE
        ]
        return found


def run_busy(seed: str) -> tuple[list[str], int]:
    """Run it.

    :returns: what is unfair; how many pages were asked for.
    """
    timeline = Timeline(f"busy {seed}")
    world = Busy(timeline)
    try:
        world.start_all()
        timeline.run_until(EPOCH + SECONDS)
        return world.unfair(), sum(world.requests.values())
    finally:
        world.close()


def show_busy(seeds: Iterable[int]) -> list[str]:
    """Run these, and tell what was unfair."""
    found = []
    for seed in seeds:
        unfair, requests = run_busy(str(seed))
        print(f"busy {seed}: {requests:,} pages", *unfair, sep="\n  ", flush=True)
        found += unfair
    return found
