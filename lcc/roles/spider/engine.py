"""The spider: follows the links of cached pages (seed 004), and fetches nothing itself.

*Owns* the frontier of its crawls (:class:`lcc.interfaces.IFrontier`), together with other spiders, each with the
hosts of its buckets; and the files of its stores.  Nothing else: pages come from ``lcc-cu`` like to any content user,
and links go to a UNS as hints.  So politeness, hours, quotas and guards are those of the LCC.

*Strategy.*  Three loops, which meet in the frontier only.

* The follower (:mod:`lcc.roles.spider.follower`) reads pages by the change token, has their links extracted in other
  processes, judges them (:mod:`lcc.roles.spider.reading`), and commits token, rows, counts and the places of the
  stores in one transaction.
* The teller (:mod:`lcc.roles.spider.teller`) tells a window of each host's URLs, in the order of the crawl.
* The asker (:mod:`lcc.roles.spider.answers`) asks what became of URLs that were told some time ago.

Each works off what is there, and begins anew every second, or when another has left something for it.  Whoever is
slow holds up the one before it: packages are read as they are worked off, and a window that is full takes no more.

*Failures.*

* Killed at any moment: pages whose batch was not committed come again, as the token says; stores take back what they
  wrote behind their places.  URLs that were marked as told and never were are lost, as the cache answers, and told
  again.  A set that is told twice is applied once, and hints may be repeated anyway.
* The database, the UNS or ``lcc-cu`` is unreachable: the loop that needs it waits, and begins where it was.
* A store cannot write: it gets the pages later (:mod:`lcc.roles.spider.keeping`); nothing waits for it.
* Another spider has taken over its buckets, as it was silent for too long: it claims the frontier anew.
* A page that no extractor can read: it has no links, and is counted.
* The changes since the token are not known any longer (a backup was put back): all pages are read again, but for
  those that were read last in the version that they have; what the cache lost of them is told again.
* The provider of a host is another one, or gone (that, too, comes with a backup, and need not be noticed otherwise):
  ``lcc-cu`` names it with the host's robots.txt; the UNS is asked for it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.client.blocking import CacheError
from lcc.client.cache import CacheClient
from lcc.config import SpiderConfig
from lcc.errors import Busy, StoreUnavailable
from lcc.interfaces import IFrontier
from lcc.model.spider.crawls import BUCKETS, SpiderClaim
from lcc.roles.loops import LogLimit, Loop
from lcc.roles.spider.answers import Answers
from lcc.roles.spider.backlog import Backlog
from lcc.roles.spider.counters import Counters
from lcc.roles.spider.crawl_list import CrawlList
from lcc.roles.spider.follower import Extractor, Follower, Keeper
from lcc.roles.spider.private_hosts import PrivateHosts
from lcc.roles.spider.reading import Reading
from lcc.roles.spider.shares import Shares
from lcc.roles.spider.sites import Sites
from lcc.roles.spider.teller import Teller
from lcc.roles.wall_clock import WallClock

_log = Logger()

TICK_SECONDS = 1.0
RETRY_SECONDS = 5.0


class Spider:
    """The engine.  See :mod:`lcc.roles.spider.engine`.

    :param now: the wall clock, seconds since 1970.
    :ivar claimed: called with each claim of the frontier, to make the link to the UNS.
    :ivar needed: called while there are crawls whose pages are read.
    :ivar run_number: of its claim; 0: it has none (yet).
    :ivar trouble: what it waits for, for people; empty: nothing.
    :ivar paused_since: when an operator has paused it; None: it is not paused.
    """

    def __init__(
        self,
        settings: SpiderConfig,
        frontier: IFrontier,
        client: CacheClient,
        extractor: Extractor,
        keeper: Keeper,
        clock: IReactorTime,
        now: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.frontier = frontier
        self.clock = clock
        self.now = now = WallClock(now, clock, self._stepped)
        self._steps, self._steps_bounded = 1, 0
        """How often the wall clock was set, the start included; up to which of these what waits was looked at."""
        self.claimed: Callable[[SpiderClaim], None] = lambda claim: None
        self.needed: Callable[[], None] = lambda: None
        self.counters = Counters()
        self.run_number = 0
        self.troubles: dict[str, str] = {}
        self.paused_since: float | None = None
        self.crawls = CrawlList(settings, frontier, now, self.counters, self._crawls_changed)
        self.sites = Sites(client, clock)
        private = PrivateHosts(clock)
        self.shares = Shares(frontier, clock, now, settings.lease, self._giving_hosts, lambda: self.trouble)
        reading = Reading(frontier, self.sites, self.counters)
        self.follower = Follower(
            settings,
            frontier,
            client,
            extractor,
            keeper,
            reading,
            self.shares,
            self.crawls.reading,
            clock,
            now,
            self._restored,
            self._committed,
        )
        self.answers = Answers(
            frontier,
            client,
            now,
            settings.told_wait,
            settings.window,
            self.follower.note_unread,
            reading,
            self.sites,
            private,
            self.counters,
        )
        self.backlog = Backlog(
            frontier,
            client,
            extractor,
            keeper,
            self.follower.lock,
            lambda batch: frontier.commit(batch, int(self.now())),
            settings.page_bytes,
            settings.batch_bytes // 2,
        )
        self._keeper = keeper
        self._caught_up: set[int] = set()
        """Crawls whose providers were read."""
        self.teller = Teller(
            frontier,
            self.sites,
            private,
            clock,
            now,
            self.counters,
            settings.hosts_per_hour,
            self.answers.already_cached,
            self.answers.note_told,
        )
        self._log_limit = LogLimit(clock)
        self._stopped = False
        self._claiming = self._loop("claim the frontier", self._claim)
        self._managing = self._loop("carry out orders", self._manage)
        self._following = self._loop("read pages", self._follow)
        self._catching_up = self._loop("read what providers have", self._catch_up)
        self._completing = self._loop("give stores what they lack", self.backlog.work_off)
        self._telling = self._loop("tell URLs", self._tell)
        self._asking = self._loop("ask what became of URLs", self._ask)
        self._loops = (
            self._managing,
            self._following,
            self._catching_up,
            self._completing,
            self._telling,
            self._asking,
        )
        self._ticking = LoopingCall(self._tick)
        self._ticking.clock = clock

    def _loop(self, what: str, work: Callable[[], Awaitable[None]]) -> Loop:
        async def do() -> None:
            await work()
            self.troubles.pop(what, None)

        return Loop(self.clock, do, lambda failure: self._failed(what, failure))

    # For the service and the console.

    def start(self) -> None:
        """Claim the frontier, and begin."""
        self._claiming.start()
        self._ticking.start(TICK_SECONDS)

    def stop(self) -> Deferred[Any]:
        """Begin nothing any more, and let others have its hosts.  Fires when that is done, or cannot be."""
        self._stopped = True
        if self._ticking.running:
            self._ticking.stop()
        for loop in (self._claiming, *self._loops):
            loop.stop()
        if not self.run_number:
            return Deferred.fromCoroutine(_nothing())
        return self.frontier.end().addErrback(lambda failure: failure.trap(StoreUnavailable, Busy) and None)

    def pause(self) -> None:
        """Tell nothing new; pages that come are read."""
        if self.paused_since is None:
            self.paused_since = self.now()

    def resume(self) -> None:
        """Tell again."""
        self.paused_since = None
        self._telling.wake()

    @property
    def trouble(self) -> str:
        """What it waits for, for people; empty: nothing."""
        paused = "" if self.paused_since is None else "paused at its console: it tells nothing"
        return "; ".join(filter(None, dict.fromkeys([paused, self.teller.trouble, *self.troubles.values()])))

    @property
    def store_faults(self) -> Mapping[str, str]:
        """Why stores cannot write, by their names; those that can are left out."""
        return self._keeper.faults

    # The loops.

    def _tick(self) -> None:
        if not self.run_number:
            self._claiming.wake()
            return
        for loop in self._loops:
            loop.wake()

    async def _claim(self) -> None:
        if self.run_number:
            return  # it was asked for again while it went on
        claim = await self.frontier.claim(self.settings.name)
        self.shares.begin(claim.run)
        self.follower.forget_unread()
        self.answers.begin(f"spider/{self.settings.name}", claim.epoch)
        self.run_number = claim.run
        _log.info("Spider run {run}", run=claim.run)
        for loop in self._loops:
            loop.start()
        self.claimed(claim)

    def _stepped(self, step: float) -> None:
        """The wall clock was set by so many seconds; less than 0: back."""
        self._steps += 1

    async def _bound_waits(self) -> None:
        """The wall clock may have been set back: nothing waits for too long."""
        steps = self._steps
        for rules in self.crawls.reading():
            after: bytes | None = b""
            while after is not None:
                after = await self.frontier.bound_waits(rules.crawl.id, after, int(self.now()))
        self._steps_bounded = steps

    async def _manage(self) -> None:
        had = len(self.shares.tokens)
        await self.shares.look()
        if len(self.shares.tokens) > had:
            self._steps += 1  # what waits in its new hosts waits by another spider's clock
        await self.crawls.update()
        self.now()  # it notices that it was set
        if self._steps != self._steps_bounded:
            await self._bound_waits()
        if self.crawls.any:
            self.needed()
        while self.crawls.removing and await self.frontier.remove_page():
            pass

    async def _follow(self) -> None:
        if not self.shares.tokens or not self.crawls.any:
            return
        await self.follower.follow()
        self._following.wake()

    async def _catch_up(self) -> None:
        """Read what the cache has of the providers whose crawls complete them: one spider does, once.

        In a loop of its own: the follower may be waiting for the next change of the cache.
        """
        for rules in self.crawls.reading():
            crawl = rules.crawl
            if not crawl.settings.pid or crawl.id in self._caught_up or crawl.id % BUCKETS not in self.shares.tokens:
                continue
            if await self.follower.read_provider(rules):
                self._caught_up.add(crawl.id)
            else:
                self._catching_up.wake()

    async def _tell(self) -> None:
        if self.paused_since is None:
            await self.teller.tell(self.crawls.telling(), self.shares.tokens.keys())

    async def _ask(self) -> None:
        answers, self.teller.answers = self.teller.answers, []
        if answers:
            await self.frontier.answer(answers, [], int(self.now()))
        await self.answers.ask(self.crawls.reading(), self.shares.tokens.keys())
        await self.follower.read_unread()

    # What they say to each other.

    def _committed(self) -> None:
        self._telling.wake()

    async def _restored(self, buckets: Collection[int]) -> None:
        await self.answers.find_lost(self.crawls.reading(), buckets)
        self._telling.wake()

    def _crawls_changed(self) -> None:
        self.teller.look_again()
        self._following.wake()
        self._catching_up.wake()
        self._telling.wake()

    def _giving_hosts(self) -> None:
        """Buckets are given away: nothing that is being read or told is of this spider any longer."""
        for loop in (self._following, self._catching_up, self._telling, self._asking):
            loop.stop()
            loop.start()
        self.follower.forget_unread()

    def _failed(self, what: str, failure: Failure) -> float:
        error = failure.value
        if isinstance(error, Busy):
            _log.warn("Another spider has taken over the hosts of this one: {error}", error=str(error))
            self.run_number = 0
            for loop in self._loops:
                loop.stop()
            return 0.0
        if isinstance(error, (StoreUnavailable, CacheError)):
            self.troubles[what] = str(error)
            if self._log_limit.allows(str(error)):
                _log.warn("Cannot {what}, retrying: {error}", what=what, error=str(error))
            return 1.0 if isinstance(error, StoreUnavailable) else RETRY_SECONDS
        if not failure.check(CancelledError):
            self.troubles[what] = f"{type(error).__name__}: {error}"
            if self._log_limit.allows(what):
                _log.failure("Cannot {what}", failure=failure, what=what)
            return RETRY_SECONDS
        return 0.0


async def _nothing() -> None:
    pass
