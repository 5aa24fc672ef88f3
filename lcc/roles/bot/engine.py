"""BOT, the robot (seed 002, section 8).

What it owns
    Nothing.  The files that it writes are the BOT-M's attempts.

What it does
    It connects to its BOT-M, says how much it fetches at once and whose content folder it writes to, and takes
    orders: a URL, the roots in which redirects must stay, the attempt's file, a lease.  The scheme of the URL chooses
    the fetcher, which writes the content through a sink that hashes it; the robot reports how it ended, with size,
    md5 and all that the server said.

    An order that comes late, because something stood still, is begun only after a look whether the BOT-M is still
    there.

What it promises
    Never more fetches at once than its concurrency, never two at once of one provider; what comes beyond waits,
    within bounds.  Each order is answered once, by the connection that it came by.  No fetch goes on after its lease.
    None begins when it is too late for it (``start_seconds``: its hours are over).

Failures
    *The BOT-M is gone*: all fetches end at once, their connections to web servers are closed and what they wrote
    is removed, because the BOT-M gives these orders to others; only then does it connect again.  *The fetcher
    raises something unexpected*: a result ``robot-error``, a log entry with the traceback, and the robot goes on.
    *The fetcher does not end when it is told to*: a second later it is left alone, and the robot goes on without
    it.  *The disk fails*: a result ``store-failed``.  *This process is killed*: the BOT-M sees the connection
    close and gives its orders to others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from lcc.errors import FetchError, StreamError
from lcc.interfaces import IAttemptFile, IFetcher
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.work import Capacity, Fetch, Ping, Ready
from lcc.roles.bot.closing import close_all
from lcc.roles.bot.counters import FetchCounters
from lcc.roles.bot.job import Job
from lcc.roles.bot.redirects import Redirects
from lcc.roles.peer import PeerFactory
from lcc.roles.upstream import Upstream

_log = Logger()

FROM_BOTM = Vocabulary(Fetch, Ping, often=[Fetch])
SWEEP_SECONDS = 1.0
STILL_SECONDS = 3.0
"""What is later than this shows that this process, or what is before it, stood still."""
LOOK_SECONDS = 0.5
"""For so long nothing is begun then: whether the BOT-M is still there is learnt meanwhile."""
WAITING_MAX = 1024
"""Orders beyond the concurrency that are taken from a BOT-M that sends too many."""


class Robot:
    """The engine of a robot.

    :param concurrency: fetches at once.
    :param fetchers: by URL scheme.
    :param sinks: makes the sink for an attempt; raises OSError for a name that is none.
    :param run: names this run of the process; never used again.
    :param folder: path of the content folder, for display; empty: nothing is told of it.
    :param owner: gives the run of the BOT-M that has opened this folder.
    """

    def __init__(
        self,
        name: str,
        concurrency: int,
        clock: IReactorTime,
        fetchers: Mapping[str, IFetcher],
        sinks: Callable[[str], IAttemptFile],
        run: str,
        folder: str = "",
        owner: Callable[[], str] = str,
    ) -> None:
        self._hello = Hello(role="bot", name=name, capacity=concurrency, run=run, folder=folder)
        self._owner = owner
        self._concurrency = concurrency
        self._clock = clock
        self._fetchers = fetchers
        self._sinks = sinks
        self._redirects = Redirects()
        self.counters = FetchCounters()
        self._link: Upstream | None = None
        self._running: dict[int, Job] = {}
        self._waiting: deque[Job] = deque()
        self.paused = False
        """An operator has it take no new orders."""
        self._starting = False
        self._holding = False
        self._sweep_due = 0.0
        self._sweep_call: IDelayedCall | None = None

    # What the service needs.

    def upstream_factory(self, good_hello: Callable[[], None]) -> PeerFactory:
        """For the connection to the BOT-M."""
        botm = frozenset(["botm"])
        return PeerFactory(lambda: Upstream(self, self._clock, self.hello(), botm, FROM_BOTM, good_hello))

    def end_fetches(self) -> None:
        """End all fetches at once; nothing is reported of them."""
        self._waiting.clear()
        for job in list(self._running.values()):
            job.end(FetchError("robot-error", "the robot lost its BOT-M"))
        self._stop_sweeping()
        self._holding = False
        if self._running:
            self._sweep_in(SWEEP_SECONDS)  # some take their time

    def close(self) -> Deferred[None]:
        """End all fetches and close all connections to web servers."""
        self._link = None
        self.end_fetches()
        self._stop_sweeping()
        return close_all(self._fetchers, self._clock)

    @property
    def running(self) -> int:
        """Fetches that are going on."""
        return len(self._running)

    def pause(self) -> None:
        """Take no new orders until :meth:`resume`; those that are here are carried out."""
        self._set_paused(True)

    def resume(self) -> None:
        """Take orders again."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        if self.paused != paused:
            self.paused = paused
            if self._link is not None:
                self._link.say(self._capacity())

    def _capacity(self) -> Capacity:
        return Capacity(0, paused=self._hello.name or "robot") if self.paused else Capacity(self._concurrency)

    @property
    def jobs(self) -> tuple[list[Job], list[Job]]:
        """What is being fetched, and what waits for that."""
        return list(self._running.values()), list(self._waiting)

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self._hello.name

    def clock_seconds(self) -> float:
        """The clock that leases are measured on."""
        return self._clock.seconds()

    @property
    def connected(self) -> bool:
        """The BOT-M is there."""
        return self._link is not None

    @property
    def concurrency(self) -> int:
        """Fetches at once."""
        return self._concurrency

    # The BOT-M.

    def hello(self) -> Hello:
        """What this robot says of itself now, on a new connection: the BOT-M has opened its folder before that."""
        return attrs.evolve(self._hello, owner=self._owner())

    def upstream_ready(self, link: Upstream) -> None:
        """The BOT-M is there."""
        link.say(Ready())
        self._link = link
        if self.paused:
            link.say(self._capacity())
        _log.info("Connected to {peer}", peer=link.describe())

    def upstream_messages(self, link: Upstream, messages: list[Flat]) -> None:
        """Carry out these orders.

        :raises StreamError: far too many at once.
        """
        for message in messages:
            if type(message) is Fetch:
                self._order(link, message)

    def upstream_resumed(self, link: Upstream) -> None:
        """Nothing waits for that: what is sent up is bounded by the orders that are here."""

    def _order(self, link: Upstream, fetch: Fetch) -> None:
        if link is not self._link:
            return
        running = self._running.get(fetch.pid)
        if running is not None and running.fetch.id == fetch.id and running.link is link:
            return
        if len(self._waiting) >= WAITING_MAX:
            raise StreamError("limit", f"more than {WAITING_MAX} orders beyond the capacity")
        self._waiting.append(Job(fetch, link, self._clock))
        if self._clock.seconds() - link.sent_seconds(fetch.sent_ms) > STILL_SECONDS:
            self._hold()
        self._start()

    def upstream_lost(self, link: Upstream) -> None:
        """The BOT-M is gone."""
        if link is not self._link:
            return
        self._link = None
        count = len(self._running) + len(self._waiting)
        self.end_fetches()
        _log.info("Lost {peer}; ended {count} fetches", peer=link.describe(), count=count)

    # Inside.

    def _start(self) -> None:
        if self._starting:
            return  # a fetch ended before its start returned: the loop below goes on
        if self._sweep_call is not None and self._is_late():
            self._hold()
        if self._holding:
            return
        self._starting = True
        try:
            while len(self._running) < self._concurrency:
                job = self._next()
                if job is None:
                    break
                self._run(job)
        finally:
            self._starting = False
        if self._sweep_call is None and (self._running or self._waiting):
            self._sweep_in(SWEEP_SECONDS)

    def _hold(self) -> None:
        """Begin nothing for a moment.  An order that was read late, or waited here while this process stood still,
        may be one of a BOT-M that has died since and given it to another; then the end of its connection is read
        within that moment."""
        if not self._holding:
            _log.info("Orders are late, or this process was stalled: checking that the BOT-M is still there")
            self._holding = True
            self._sweep_in(LOOK_SECONDS)

    def _is_late(self) -> bool:
        return self._clock.seconds() - self._sweep_due > STILL_SECONDS

    def _sweep_in(self, seconds: float) -> None:
        if self._sweep_call is not None and self._sweep_call.active():
            self._sweep_call.cancel()
        self._sweep_due = self._clock.seconds() + seconds
        self._sweep_call = self._clock.callLater(seconds, self._sweep)

    def _stop_sweeping(self) -> None:
        if self._sweep_call is not None:
            self._sweep_call.cancel()
            self._sweep_call = None

    def _next(self) -> Job | None:
        for index, job in enumerate(self._waiting):
            if job.fetch.pid not in self._running:
                del self._waiting[index]
                return job
        return None

    def _run(self, job: Job) -> None:
        fetch = job.fetch
        self._running[fetch.pid] = job
        fetcher = self._fetchers.get(fetch.url.partition(":")[0])
        job.start(fetcher, self._sinks, self._redirects.rule).addCallback(self._ended, job)

    def _ended(self, answer: str, job: Job) -> None:
        if self._running.get(job.fetch.pid) is not job:
            return  # it was abandoned
        del self._running[job.fetch.pid]
        self.counters.ended(job.code, job.unchanged, job.wire_bytes, job.stored_bytes, job.seconds)
        self._answer(job, answer)
        self._start()

    def _answer(self, job: Job, answer: str) -> None:
        if job.link is self._link:
            job.link.stream.send(answer)

    def _sweep(self) -> None:
        self._sweep_call = None
        self._holding = False
        if self._is_late():
            self._hold()
        now = self._clock.seconds()
        for job in [job for job in self._waiting if job.is_too_late(now)]:
            self._waiting.remove(job)
            self._answer(job, job.never_started())
        for job in list(self._running.values()):
            if job.told_to_end:
                self.counters.abandoned += 1
                self._ended(job.abandon(), job)
            elif now >= job.lease_end:
                job.end(FetchError("deadline", "the order's time was over"))
        self._start()
