"""Follows the changes of the cache: pages come as a stream, their texts go to the index.

While the texts of a batch are read, in other processes, the batch before is indexed.  While there is more to read,
the index is committed rarely; what comes alone is committed at once, and what comes soon after together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from lcc.client.blocking import StartAgain, TokenRefused
from lcc.client.cache import CacheClient
from lcc.client.packages import PageStream, batches
from lcc.config import SearchConfig
from lcc.model.spider.links import Page, PageLinks
from lcc.roles.search.counters import Counters
from lcc.roles.search.index import SearchIndex
from lcc.search.pages import index_change, is_read
from lcc.search.values import IndexChange, IndexedPage

_log = Logger()

BEGINNING = "0"
"""In place of a token."""
_WAIT_SECONDS = 60
_COMMIT_SECONDS = 30.0
"""What was read is committed after so long, however much there is still to read, and however little to index."""
MISSING_SECONDS = 60.0
"""How often pages are asked for again whose content could not be had, while it still cannot."""
_MISSING_AT_ONCE = 50


class Extractor(Protocol):
    """Reads texts."""

    def extract(self, pages: Sequence[Page]) -> Deferred[list[PageLinks]]:
        """The texts of pages, in their order."""


class Follower:
    """See :mod:`lcc.roles.search.follower`.

    :param now: the wall clock, seconds since 1970.
    :ivar is_caught_up: it waits for the next change.
    """

    def __init__(
        self,
        settings: SearchConfig,
        index: SearchIndex,
        client: CacheClient,
        extractor: Extractor,
        clock: IReactorTime,
        now: Callable[[], float],
        counters: Counters,
    ) -> None:
        self.is_caught_up = False
        self._settings = settings
        self._index = index
        self._client = client
        self._extractor = extractor
        self._clock = clock
        self._now = now
        self._counters = counters
        self._token = ""
        """Up to where was read; empty: as the index says."""
        self._all_read = False
        self._held_bytes = 0
        """Of texts that were indexed and not committed."""
        self._committed = clock.seconds() - settings.commit_interval
        self._asked_missing = clock.seconds()
        self._state_time = self._read_time = now()
        """When the cache was as the index is; when it was as what was read last."""

    @property
    def lag_seconds(self) -> float:
        """How long ago the oldest change was that cannot be found yet, or, if lcc-cu tells of none, how long that has
        been so; 0: all can be found."""
        return 0.0 if self.is_caught_up else max(0.0, self._now() - self._state_time)

    def begin_anew(self) -> None:
        """The index was: what was read is forgotten."""
        self._token = ""
        self._all_read = False
        self._held_bytes = 0

    async def follow(self) -> None:
        """Read the next package, and what could not be read before.

        :raises CacheError: ``lcc-cu`` cannot be asked.
        :raises OSError: the index cannot be written; it goes on from the last commit.
        """
        try:
            missing, now = self._index.counts.missing, self._clock.seconds()
            asks_again = bool(missing) and now - self._asked_missing >= MISSING_SECONDS
            if asks_again:
                self._asked_missing = now
                await self._read_missing()
            await self._follow(wait=not asks_again)
            if asks_again and self._index.counts.missing < missing:
                self._asked_missing = now - MISSING_SECONDS  # the next ones at once: they can probably be had, too
        except BaseException:
            self.begin_anew()
            raise

    async def _follow(self, wait: bool) -> None:
        token = self._token or self._index.token or BEGINNING
        wait_seconds = _WAIT_SECONDS if wait and self._all_read else 0
        try:
            self.is_caught_up = bool(wait_seconds)
            limit = self._settings.pages_at_once
            stream = await self._client.packages(token, wait=wait_seconds, limit=limit, **self._content)
        except StartAgain as error:
            self._index.confirm()  # it is for the same pages: that is said first
            _log.warn(
                "The changes since the saved token are no longer known; reading all pages again: {error}", error=error
            )
            await self._index.begin_again()
            self.begin_anew()
            return
        except TokenRefused as error:
            if token == BEGINNING:
                raise
            why = f"the pages that it may read are others than before: {error}"
            _log.warn("Building the index anew, because {why}", why=why)
            self._counters.rebuilds += 1
            await self._index.withdraw(why)
            self.begin_anew()
            return
        finally:
            if self.is_caught_up:
                self._state_time = self._read_time = self._now()
            self.is_caught_up = False
        self._index.confirm()
        count = await self._read(stream)
        after = stream.token or token
        self._token = after
        self._all_read = not count
        if count < self._settings.pages_at_once:
            # What is in the index and not yet to be found, and the first time that there is no more.
            if self._held_bytes or not (count or self._index.state.complete):
                await self._pause()
                await self._commit(after, complete=not count)
            elif after != self._index.token and self._is_time:
                # Pages that are not indexed: they need not be read again.
                await self._commit(after)
        elif self._held_bytes >= self._settings.memory_bytes or self._is_time:
            await self._commit(after)

    @property
    def _is_time(self) -> bool:
        """To commit, however much there is still to read."""
        return self._clock.seconds() - self._committed >= _COMMIT_SECONDS

    @property
    def _content(self) -> dict[str, int]:
        return {"content_bytes_max": self._settings.page_bytes}

    async def _pause(self) -> None:
        """Commits have a distance: each makes a file of its own, which must be merged with others later."""
        seconds = self._committed + self._settings.commit_interval - self._clock.seconds()
        if seconds > 0:
            await deferLater(self._clock, seconds)

    async def _commit(self, token: str, complete: bool = False) -> None:
        await self._index.apply([], token, complete)
        self._counters.commits += 1
        self._held_bytes = 0
        self._committed = self._clock.seconds()
        self._state_time = self._read_time

    async def _read(self, stream: PageStream, takes: Callable[[Page], bool] = lambda page: True) -> int:
        """Index the pages of a stream; gives their number.

        :param takes: which of them are wanted.
        """
        count = 0
        waiting: tuple[list[Page], Deferred[list[PageLinks]]] | None = None
        try:
            async for batch in batches(stream, self._settings.batch_bytes // 2):
                pages = [*filter(takes, batch)]
                if not pages:
                    continue
                if not count:
                    self._state_time = min(self._state_time, pages[0].row.confirmed_time or self._state_time)
                count += len(pages)
                self._read_time = pages[-1].row.confirmed_time or self._read_time
                before, waiting = waiting, (pages, self._extractor.extract([*filter(is_read, pages)]))
                if before is not None:
                    await self._add(*before)
            last, waiting = waiting, None
            if last is not None:
                await self._add(*last)
        finally:
            stream.close()
            if waiting is not None:
                waiting[1].addErrback(lambda _: None)
                waiting[1].cancel()
        return count

    async def _add(self, pages: Sequence[Page], extracted: Deferred[list[PageLinks]]) -> None:
        texts = iter(await extracted)
        found = [index_change(page, next(texts) if is_read(page) else None, self._now()) for page in pages]
        changes = [change for change in found if change is not None]
        self._count(len(pages), changes)
        if changes:
            self._held_bytes += sum(_weigh(change) for change in changes)
            await self._index.apply(changes, "")

    def _count(self, pages: int, changes: Sequence[IndexChange]) -> None:
        counters = self._counters
        counters.pages += pages
        for change in changes:
            if isinstance(change, IndexedPage):
                counters.indexed += not change.missing
                counters.missing += change.missing
                counters.unread += bool(change.fault)
            else:
                counters.removed += 1

    async def _read_missing(self) -> None:
        """Ask once more for pages whose content could not be had."""
        changes = await self._index.missing(_MISSING_AT_ONCE)
        if not changes:
            return
        stream = await self._client.packages(None, key=list(changes), **self._content)
        # What has changed since comes with the changes: the index is never ahead of its token.
        await self._read(stream, lambda page: changes.get(page.row.key.hex()) == page.row.change)


def _weigh(change: IndexChange) -> int:
    return len(change.text) + 1000 if isinstance(change, IndexedPage) else 100
