"""Which hosts are this spider's: several spiders share the buckets of the frontier.

Each shows in the frontier that it lives.  Whoever has not done so for a lease, as measured here, is lost: its buckets
are free, and it is fenced off.  Each takes what is free up to an equal share, and gives away what it has beyond that.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.interfaces import IFrontier
from lcc.model.spider.crawls import BUCKETS

_log = Logger()

_LOOKS_PER_LEASE = 5


class Shares:
    """See :mod:`lcc.roles.spider.shares`.

    :param lease_seconds: of silence after which a spider is lost.
    :param now: seconds since 1970.
    :param trouble: what this spider waits for, for people.
    :param giving: called before buckets are given away: nothing of theirs may be written from then on.
    :ivar tokens: the buckets that this spider has: where to read on in the changes of the cache; empty: not begun.
    :ivar spiders: how many share them.
    """

    def __init__(
        self,
        frontier: IFrontier,
        clock: IReactorTime,
        now: Callable[[], float],
        lease_seconds: float,
        giving: Callable[[], None],
        trouble: Callable[[], str],
    ) -> None:
        self.tokens: dict[int, str] = {}
        self.spiders = 1
        self._frontier = frontier
        self._clock = clock
        self._now = now
        self._lease_seconds = lease_seconds
        self._giving = giving
        self._trouble = trouble
        self._run = 0
        self._seen: dict[int, tuple[int, float]] = {}
        """Run -> its beats, and since when they have been these."""
        self._next_look = 0.0

    def begin(self, run: int) -> None:
        """It has claimed the frontier.

        :param run: names this run of the process.
        """
        self._run = run
        self.tokens = {}
        self._seen.clear()
        self._next_look = 0.0

    async def look(self) -> None:
        """Called each second."""
        now = self._clock.seconds()
        if now < self._next_look:
            return
        self._next_look = now + self._lease_seconds / _LOOKS_PER_LEASE
        await self._frontier.beat(self._trouble(), int(self._now()))
        others = {status.run: status for status in await self._frontier.spiders() if status.run != self._run}
        self._seen = {
            run: self._seen[run] if self._seen.get(run, (-1, 0.0))[0] == status.beats else (status.beats, now)
            for run, status in others.items()
        }
        for run, (beats, since) in list(self._seen.items()):
            if now - since >= self._lease_seconds and await self._frontier.retire(run, beats):
                _log.warn(
                    "Spider {name} has been silent for {seconds:.0f} s: its hosts are taken over",
                    name=others[run].name,
                    seconds=now - since,
                )
                del others[run]
        self.spiders = 1 + len(others)
        await self._share(-(-BUCKETS // self.spiders))

    async def _share(self, wanted: int) -> None:
        if len(self.tokens) < wanted:
            taken = await self._frontier.take_buckets(wanted)
            # What was read since stands in the tokens that are here.
            self.tokens = {bucket: self.tokens.get(bucket, token) for bucket, token in taken.items()}
        elif len(self.tokens) > wanted:
            surplus = sorted(self.tokens)[wanted:]
            self._giving()
            for bucket in surplus:
                del self.tokens[bucket]
            await self._frontier.give_buckets(surplus)
