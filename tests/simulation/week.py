"""A week in the life of an LCC: providers tell full sets once a day, change and delete pages, have hours, errors, a
bandwidth and a quota; notifiers list and push the pages of a site, and poll a document; a scheduler and a manager
run tasks, and poll feeds that change; a content user follows.  Nothing goes wrong, and nothing may grow that should
not: rows of tables, files of spools and content, connections, timers, what processes keep in memory.

It is looked at once in each period, a day.  Deletions are remembered for one period.  What grows all the time was
less in the first half of the periods than it is in the second half.
"""

from __future__ import annotations

import gc
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from lcc.config import WatchedConfig
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.model.tasks import JobSpec
from lcc.services import manager, scheduler
from lcc.storage.providers.watched import find_or_make_watched
from lcc.testing.simulated.connection import Connection, End
from lcc.testing.simulated.database import DatabaseServer
from lcc.testing.simulated.disk import SimulatedDisk
from lcc.testing.simulated.network import Network
from lcc.testing.simulated.process import Machine, Process
from lcc.testing.simulated.timeline import EPOCH, Timeline

from .follower import Copy, Follower
from .notifier import Notifier, WatchedSite
from .one_lcc import Lcc, LccSettings
from .publisher import CarefulPublisher
from .sites import Site, identity
from .spoken import Spoken
from .tasks import CONFIGURATION, MANAGER_NAMES, MANAGERS, SCHEDULER, TASK_SITE, TaskSite, TaskSiteServer, TaskWorld
from .workers import Hall, SimulatedWorkers
from .world import World, make

DAY, DAYS = 86_400.0, 7
"""Seconds of a period, periods of a week."""
_WARM_PERIODS = 1
"""Before, what is kept for a time is still becoming more."""
_SETS = 4
"""That a provider tells in a period; the first one is full."""
_FEW, _SHARE = 3, 1.02
"""What is more by less does not grow."""
_ELSEWHERE = (
    *(type, ModuleType, Logger, Random, sqlite3.Connection),
    *(Timeline, Network, Connection, End, Machine, Process, SimulatedDisk, DatabaseServer, World, Lcc, Site, Copy),
    *(Hall, TaskWorld),
)
"""What is not a process's own."""
_CONTAINERS = (dict, list, set, deque, tuple)
USER, WATCHED = "10.0.0.9", "10.2.0.1"
_NOTICES = 12
"""Times in a period that notifiers look what is to be told, on the average."""
_REMEMBERED_LEAST = 3600
"""Seconds; deletions cannot be forgotten earlier."""
_FETCHED_SECONDS = 30.0
"""So long after its set began a page is fetched, if its hours are open."""
_TASK_PAGES = 8
"""That jobs notify of."""


class DailyPublisher(CarefulPublisher):
    """A provider's tools, run some times in each period."""

    def __init__(self, period: float, *args: Any) -> None:
        super().__init__(*args)
        self._period = period

    async def _publish(self) -> None:
        site, number = self._site, 0
        await deferLater(self._reactor, site.chance.uniform(10.0, 100.0))
        while True:
            if number % _SETS == 0:
                self._new_day(number // _SETS)
            site.change(f"p{site.chance.randrange(5)}.html")
            await self._begins.run(self._submit_now)
            number += 1
            await deferLater(self._reactor, self._period / _SETS)

    def _submit_now(self) -> Any:
        return Deferred.fromCoroutine(self._submit())

    def _new_day(self, day: int) -> None:
        """A page of this day; that of two days before is gone."""
        site = self._site
        site.wants_full = True
        site.change(f"d{day}.html")
        if day > 1:
            site.remove(f"d{day - 2}.html")


class DailyNotifier(Notifier):
    """Notifiers that have something to say some times in each period."""

    def __init__(self, period: float, *args: Any) -> None:
        super().__init__(*args)
        self._period = period
        self.connected_seconds, self.looks_seconds = period / 3, period / 100

    def pause_seconds(self) -> float:
        return self._site.chance.expovariate(_NOTICES / self._period)


class Week(World):
    """An LCC, providers, notifiers, a scheduler with a manager, and a content user.

    :param period: seconds of what stands for a day.
    """

    def __init__(self, timeline: Timeline, period: float = DAY) -> None:
        super().__init__(timeline)
        self._period = period
        self._slots = TimeSlots(24, int(period / 24), "UTC")
        self._waited: dict[str, str] = {}
        """URL -> the content that waited for its hours when it was looked last."""
        self.copy = Copy()
        sizes = {
            "absorb_batch": 50,
            "record_batch": 50,
            "run_rows": 16,
            "quantum_urls": 20,
            "read_ahead": 20,
            "slot_seconds": self._slots.slot_seconds,
            "housekeeping_period": int(period / 24),
            "tombstones_kept": max(int(period), _REMEMBERED_LEAST),
            "notifier_sets_max": 4,  # twice as many answers are kept: so many there are after the first period
        }
        self.lcc = Lcc(self, LccSettings(True, False, True, sizes, 1.0))
        self.add_process("user", USER, lambda process: Follower(self.copy, process, self.lcc.hosts.cu))
        limits: list[dict[str, Any]] = [{"hours": "6-21"}, {"bandwidth_bytes": 20_000}, {"files_max": 6}]
        self.sites = [self._add_site(number, each) for number, each in enumerate(limits, 1)]
        self.watched = self._add_notifiers(4)
        self.tasks = self._add_tasks(5)

    def _add_site(self, number: int, limits: dict[str, Any]) -> Site:
        site = Site(self.timeline, number, f"10.1.0.{number}")
        site.stays_open = False
        for name, value in limits.items():
            setattr(site, name, value)
        self.add_site(site, self.lcc.database)
        build = partial(self._publisher, site)
        self.add_process(f"site{number}", site.address, build)
        return site

    def _watch(self, site: Site) -> None:
        self.network.names[site.name] = (site.address,)
        database = self.lcc.database
        site.pid = database.now(find_or_make_watched, site.root, WatchedConfig(interval=0.5))
        database.now(lambda txn: txn.execute("UPDATE pidb SET allow_private = 1 WHERE pid = ?", [site.pid]))

    def _add_notifiers(self, number: int) -> WatchedSite:
        site = WatchedSite(self.timeline, number, WATCHED)
        self._watch(site)
        site.spoken = Spoken(site, self.timeline.random("spoken"), is_told=False)
        site.spoken_of.append(site)
        self.add_process("notifier", WATCHED, partial(self._notifier, site))
        return site

    def _notifier(self, site: WatchedSite, process: Process) -> DailyNotifier:
        unses = list(self.lcc.hosts.unses)
        return DailyNotifier(self._period, site, process, unses, lambda *_: None, self._errors_of)

    def _errors_of(self, pid: int) -> list[tuple[Any, ...]]:
        return self.lcc.rows("SELECT number, url FROM urlerrs WHERE pid = ?", [pid])

    def _add_tasks(self, number: int) -> TaskWorld:
        site = TaskSite(self.timeline, number, TASK_SITE)
        self._watch(site)
        tasks = TaskWorld(self.timeline, self.lcc.database, site, is_busy=False)
        tasks.hall.page = lambda token: str(sum(map(ord, token)) % _TASK_PAGES)
        hour = int(self._period / 24)
        for seconds in (hour, int(self._period)):
            tasks.add(JobSpec("command", "work", ("a",)), seconds)
        site.change_feed("feed0.html")
        tasks.add(JobSpec("feed", "", (site.url("feed0.html"),)), hour)
        self.add_process("tasksite", TASK_SITE, partial(self._task_site, site))
        remembered = int(self._period)
        kept = f"jobs_kept = {remembered}\nitems_kept = {remembered}\nstatistics_kept = 1\n"  # this one in days
        text = CONFIGURATION.replace("[scheduler]\n", f"[scheduler]\n{kept}")
        settings = {
            "uns": self.lcc.hosts.unses[0],
            "content": self.lcc.hosts.central,
            "retries": 2,
            "retry_initial": 1,
            "ready_max": 100,
            "seconds": 9,
        }

        def run(module: ModuleType, process: Process) -> Any:
            environment = attrs.evolve(process.environment, starter=lambda _: SimulatedWorkers(tasks.hall, process))
            return make(module, self.lcc.config(process.name, text, **settings), environment)

        self.add_process("scheduler", SCHEDULER, partial(run, scheduler))
        self.add_process(MANAGER_NAMES[0], MANAGERS[0], partial(run, manager))
        return tasks

    def _task_site(self, site: TaskSite, process: Process) -> TaskSiteServer:
        server = TaskSiteServer(site, process)
        server.changes_seconds = self._period / 12
        return server

    def _publisher(self, site: Site, process: Process) -> DailyPublisher:
        return DailyPublisher(self._period, site, process, list(self.lcc.hosts.unses), lambda *_: None)

    def missing(self) -> list[str]:
        """Pages that are not in the cache as they are, but for those that a quota keeps out, and those that wait for
        their hours, which have been closed since they were told: not twice in the same state, as these open in each
        period."""
        waiting = {url for (url,) in self.lcc.rows("SELECT curl FROM qdb WHERE slot >= 0")}
        before, self._waited = self._waited, {}
        found = []
        for site in (*self.sites, self.watched):
            rows = self.lcc.rows("SELECT curl, mimetype, md5 FROM lccurl WHERE pid = ? AND state = 1", [site.pid])
            cached = {(url.removeprefix(site.root), kind): md5 for url, kind, md5 in rows}
            for path, page in site.pages.items():
                if cached.get(identity(path)) != page.md5 and not site.may_be_full and path not in site.untold:
                    url = site.url(path)
                    if url in waiting and self._is_closed(site, path) and before.get(url) != page.md5:
                        self._waited[url] = page.md5
                    else:
                        found.append(url)
        return found

    def _is_closed(self, site: Site, path: str) -> bool:
        """The hours of a page have been closed since it was told last."""
        told = site.told_last.get(path, 0.0) + _FETCHED_SECONDS
        opens = self._slots.opening(self._slots.mask(site.hours_of(path)), told)
        return opens is not None and opens > self.timeline.now

    def idle(self) -> list[str]:
        """Kinds of jobs of which none has ended lately."""
        ended = {kind for (kind,) in self.tasks.rows("SELECT DISTINCT kind FROM jobs WHERE ended_time IS NOT NULL")}
        return sorted({"command", "feed"} - ended)


def look(world: Week) -> dict[str, int]:
    """How much there is of everything."""
    gc.collect()
    found: Counter[str] = Counter()
    for address, database in world.databases.items():
        found.update({f"rows of {address} {name}": count for name, count in database.rows_of_tables().items()})
    for address, machine in world.machines.items():
        for path in machine.disk.paths():
            found["files of {} {}".format(address, "/".join(path.split("/")[:4]))] += 1
    found["connections"] = len(world.network.connections)
    for name, count in world.timeline.pending().items():
        found[f"timers of {name}"] = count
    for name, process in world.processes.items():
        if not name.startswith(("site", "user", "notifier", "tasksite")):
            found[f"memory of {name}"] = kept(process.service)
    return dict(found)


def kept(thing: Any) -> int:
    """How many entries the containers have that can be reached from here."""
    seen, stack, count = {id(thing)}, [thing], 0
    while stack:
        each = stack.pop()
        if isinstance(each, _CONTAINERS):
            count += len(each)
        if isinstance(each, FunctionType):
            inner: Sequence[Any] = [*(each.__closure__ or ()), *(each.__defaults__ or ())]
        else:
            inner = gc.get_referents(each)
        for other in inner:
            # Containers of numbers and texts alone are not tracked.
            is_wanted = gc.is_tracked(other) or isinstance(other, _CONTAINERS)
            if is_wanted and id(other) not in seen and not isinstance(other, _ELSEWHERE):
                seen.add(id(other))
                stack.append(other)
    return count


def growing(looks: Sequence[dict[str, int]]) -> list[str]:
    """What was more in each of the later looks than in any of the first ones."""
    middle = len(looks) // 2
    found = []
    for name in sorted({name for each in looks for name in each}):
        counts = [each.get(name, 0) for each in looks]
        if min(counts[middle:]) > max(counts[:middle]) * _SHARE + _FEW:
            found.append(f"{name}: {counts}")
    return found


def run_week(
    seed: str,
    period: float = DAY,
    periods: int = DAYS,
    passed: Callable[[int, int], object] = lambda number, events: None,
) -> tuple[list[str], int]:
    """Run it.

    :param passed: called after each period with its number, and how many events there were so far.
    :returns: what is wrong; how many events there were.
    """
    timeline = Timeline(f"week {seed}")
    world = Week(timeline, period)
    looks = []
    wrong: list[str] = []
    try:
        world.start_all()
        for number in range(1, 1 + periods):
            # Between two sets, and after the hours are over that a fetch waits for.
            timeline.run_until(EPOCH + period * number - period / _SETS / 2)
            if number > _WARM_PERIODS:
                looks.append(look(world))
                wrong += [f"period {number}: {url} is not in the cache" for url in world.missing()]
                wrong += [f"period {number}: no job of {kind} has ended" for kind in world.idle()]
            passed(number, timeline.events)
    finally:
        world.close()
    return wrong + growing(looks), timeline.events


def show_week(seed: str) -> list[str]:
    """Run it, and tell what was wrong."""
    wrong, events = run_week(seed, passed=lambda day, so_far: print(f"day {day}: {so_far:,} events", flush=True))
    print(f"a week: {events:,} events")
    for text in wrong:
        print(text)
    return wrong
