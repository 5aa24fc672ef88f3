"""The search server: keeps an index of the pages of the cache, and searches it.

*Owns* the folder of the index, and nothing else: pages come from ``lcc-cu`` like to any content user, their texts are
read in processes with limits (:mod:`lcc.roles.extraction`).

*Strategy.*  One loop, the follower (:mod:`lcc.roles.search.follower`), reads pages by the change token and writes the
index; a commit has the pages and the token behind them, or neither.  Searches run beside it, in threads, on what was
committed last.

*Failures.*

* Killed at any moment: pages that were not committed come again, as the token says.
* ``lcc-cu`` is unreachable: searches go on; the follower waits, and begins where it was.
* A page that ends its worker, or hangs it: it is in the index without its text, and the log names it.
* The disk is full: what was not committed is given up, and tried again; searches, and the cache, go on.
* The index is damaged, or of another version: it is set aside with a word, and built anew.
* The token of ``token_file`` may read others' pages than before: all are withdrawn at once, and read once more.
* The changes since the token are not known any longer: all pages are read once more; what does not come is removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.client.blocking import CacheError
from lcc.client.cache import CacheClient
from lcc.config import SearchConfig
from lcc.roles.loops import LogLimit, Loop
from lcc.roles.search.counters import Counters
from lcc.roles.search.follower import Extractor, Follower
from lcc.roles.search.index import NotOpen, SearchIndex
from lcc.search.interfaces import IndexDamaged
from lcc.search.values import Query, Results, Scopes

_log = Logger()

TICK_SECONDS = 1.0
RETRY_SECONDS = 5.0
FOLLOW, WATCH = "read pages", "look after the index"


class Overloaded(Exception):
    """Too many queries wait."""


class SearchServer:
    """The engine.  See :mod:`lcc.roles.search.engine`.

    :param asked_to_rebuild: fires with whether an operator wants the index built anew.
    :param rebuilt: called when that was begun.
    :param now: the wall clock, seconds since 1970.
    :ivar troubles: what it waits for, by what it does, for people.
    :ivar paused_since: when an operator has paused it; None: it is not paused.
    """

    def __init__(
        self,
        settings: SearchConfig,
        index: SearchIndex,
        client: CacheClient,
        extractor: Extractor,
        asked_to_rebuild: Callable[[], Deferred[bool]],
        rebuilt: Callable[[], Deferred[Any]],
        clock: IReactorTime,
        now: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.index = index
        self.clock = clock
        self.now = now
        self.counters = Counters()
        self.troubles: dict[str, str] = {}
        self.paused_since: float | None = None
        self.follower = Follower(settings, index, client, extractor, clock, now, self.counters)
        self._asked_to_rebuild = asked_to_rebuild
        self._rebuilt = rebuilt
        self._log_limit = LogLimit(clock)
        self._verified = False
        self._loops = {FOLLOW: self._loop(FOLLOW, self._follow), WATCH: self._loop(WATCH, self._watch)}
        self._ticking = LoopingCall(self._tick)
        self._ticking.clock = clock

    # For the service, the site and the console.

    def start(self) -> None:
        """Open the index, and begin."""
        for loop in self._loops.values():
            loop.start()
        self._ticking.start(TICK_SECONDS)

    def stop(self) -> Deferred[Any]:
        """Begin nothing any more.  Fires when the index is closed."""
        if self._ticking.running:
            self._ticking.stop()
        for loop in self._loops.values():
            loop.stop()
        return self.index.close()

    def pause(self) -> None:
        """Read no more pages; queries are answered."""
        if self.paused_since is None:
            self.paused_since = self.now()
            self._restart_following()

    def resume(self) -> None:
        """Read pages again."""
        self.paused_since = None
        self._loops[FOLLOW].wake()

    @property
    def trouble(self) -> str:
        """What it waits for, for people; empty: nothing."""
        paused = "" if self.paused_since is None else "paused at its console: it reads no pages"
        return "; ".join(filter(None, dict.fromkeys([paused, *self.troubles.values()])))

    async def search(self, query: Query, scopes: Scopes, limit: int, after: str = "") -> Results:
        """The hits of a query (:meth:`lcc.search.interfaces.ISearchIndex.search`).

        :raises Overloaded: too many others wait.
        :raises NotOpen: the index is not open yet.
        :raises IndexDamaged: it cannot be read, and will be built anew.
        :raises BadPlace: ``after`` is none.
        """
        if self.index.waiting >= self.settings.queries_waiting:
            self.counters.refused += 1
            raise Overloaded("too many queries wait, try again later")
        began = self.clock.seconds()
        try:
            found = await self.index.search(query, scopes, limit, after)
        except IndexDamaged:
            self._loops[WATCH].wake()
            raise
        self.counters.queries.add(self.clock.seconds() - began)
        return found

    # The loops.

    def _tick(self) -> None:
        for loop in self._loops.values():
            loop.wake()

    def _loop(self, what: str, work: Callable[[], Awaitable[None]]) -> Loop:
        async def do() -> None:
            await work()
            self.troubles.pop(what, None)

        return Loop(self.clock, do, lambda failure: self._failed(what, failure))

    async def _follow(self) -> None:
        if not self.index.is_open:
            thrown_away = await self.index.open()
            self.follower.begin_anew()
            if thrown_away:
                self.counters.rebuilds += 1
                _log.error("Building the index anew, because {why}", why=thrown_away)
        if self.paused_since is not None:
            return
        await self.follower.follow()
        self._loops[FOLLOW].wake()

    async def _watch(self) -> None:
        """Build the index anew if it is damaged, or an operator wants that."""
        if not self.index.is_open:
            return
        if not self._verified:
            self._verified = True
            await self.index.verify()
        if self.index.damaged:
            _log.error("Building the index anew, because {why}", why=self.index.damaged)
            await self._rebuild(self.index.damaged)
        if await self._asked_to_rebuild():
            _log.info("Building the index anew, as an operator wants")
            await self._rebuild("an operator wants it")
            await self._rebuilt()

    async def _rebuild(self, why: str) -> None:
        self.counters.rebuilds += 1
        loop = self._loops[FOLLOW]
        loop.stop()
        self.follower.begin_anew()
        try:
            await self.index.rebuild(why)
        finally:
            loop.start()
            loop.wake()

    def _restart_following(self) -> None:
        loop = self._loops[FOLLOW]
        loop.stop()
        loop.start()

    def _failed(self, what: str, failure: Failure) -> float:
        error = failure.value
        if isinstance(error, CancelledError):
            return 0.0
        known = isinstance(error, (CacheError, OSError, NotOpen, IndexDamaged))
        self.troubles[what] = str(error) if known else f"{type(error).__name__}: {error}"
        if self._log_limit.allows(self.troubles[what] if known else what):
            if known:
                _log.warn("Cannot {what}, retrying: {error}", what=what, error=str(error))
            else:
                _log.failure("Cannot {what}", failure=failure, what=what)
        return RETRY_SECONDS
