"""Follows the changes of the cache: pages come as a stream, their links go to the frontier.

Buckets with one token are read together; after a while these are all.  Where several groups are caught up, they go on
from the token that was read first: what comes twice counts once.

While the links of a batch are extracted, in other processes, the batch before is judged and committed.  The token
goes with the last batch of a package.  Content is held for two batches at most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.client.blocking import StartAgain
from lcc.client.cache import CacheClient
from lcc.client.packages import PageStream, batches
from lcc.config import SpiderConfig
from lcc.interfaces import IFrontier
from lcc.model.spider.crawls import BUCKETS, FrontierBatch, StoreWork
from lcc.model.spider.links import Page, PageLinks
from lcc.model.states import CACHED, AnsweredUrl
from lcc.roles.spider.crawl_rules import CrawlRules
from lcc.roles.spider.reading import Chosen, Reading
from lcc.roles.spider.shares import Shares

_log = Logger()

NOW, BEGINNING = "now", "0"
"""In place of a token."""
_WAIT_SECONDS = 60
_CAUGHT_UP_SECONDS = 1.0
"""A page that was cached so long ago, and has not come while the changes were waited for, does not come."""
KEYS_AT_ONCE = 50
"""Pages that are asked for by their keys."""
_UNREAD_MAX = 10_000


class Extractor(Protocol):
    """Extracts links."""

    def extract(self, pages: Sequence[Page]) -> Deferred[list[PageLinks]]:
        """The links of pages, in their order."""


class Keeper(Protocol):
    """Keeps pages."""

    @property
    def faults(self) -> Mapping[str, str]:
        """Why stores cannot write, by their names."""

    @property
    def behind(self) -> Sequence[str]:
        """Stores that may lack pages, and can be tried now."""

    def keep(self, pages: Sequence[tuple[Page, PageLinks]]) -> Deferred[Mapping[str, StoreWork]]:
        """What each store made of these."""

    def keep_in(self, store: str, pages: Sequence[tuple[Page, PageLinks]]) -> Deferred[Mapping[str, StoreWork]]:
        """The same of one store."""

    def failures(self, store: str) -> int:
        """How often it could not take pages."""

    def rest(self, store: str) -> None:
        """A store is not tried for a while."""

    def caught_up(self, store: str) -> None:
        """A store lacks nothing."""

    def begin_again(self) -> None:
        """What was kept last may not be committed: stores go back to their places in the frontier."""


class Follower:
    """See :mod:`lcc.roles.spider.follower`.

    :param crawls: those whose pages are read.
    :param restored: called with buckets, while their pages are read again: the cache was put back from a backup.
    :param committed: called when a batch is.
    :ivar lock: held from what stores keep to its commit.
    :ivar is_caught_up: it waits for the next change.
    """

    def __init__(
        self,
        settings: SpiderConfig,
        frontier: IFrontier,
        client: CacheClient,
        extractor: Extractor,
        keeper: Keeper,
        reading: Reading,
        shares: Shares,
        crawls: Callable[[], Iterable[CrawlRules]],
        clock: IReactorTime,
        now: Callable[[], float],
        restored: Callable[[Collection[int]], Awaitable[None]],
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self.is_caught_up = False
        self._settings = settings
        self._frontier = frontier
        self._client = client
        self._extractor = extractor
        self._keeper = keeper
        self._reading = reading
        self._shares = shares
        self._crawls = crawls
        self._clock = clock
        self._now = now
        self._restored = restored
        self._committed = committed
        self._unread: dict[str, tuple[int, float]] = {}
        """Key -> number of the change, and when it was noted."""
        self.lock = DeferredLock()
        self._all_read = False
        self._restores = 0
        """How often the cache was put back; pages of before are not committed."""

    async def follow(self) -> None:
        """Read the next package of each group of buckets.

        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        groups: dict[str, list[int]] = {}
        for bucket, token in self._shares.tokens.items():
            groups.setdefault(token, []).append(bucket)
        wait = _WAIT_SECONDS if self._all_read and len(groups) == 1 and "" not in groups else 0
        self._all_read = bool(groups)
        joined = ""
        for token, buckets in groups.items():
            count, after = await self._read(token, buckets, wait)
            if count:
                self._all_read = False
            else:
                # Whatever was read after this one stands at a later change.
                joined = joined or after
                after = joined
            self._shares.tokens.update({bucket: after for bucket in buckets if bucket in self._shares.tokens})

    async def read_provider(self, rules: CrawlRules) -> bool:
        """Read more of what the cache has of the provider that a crawl completes; True: that was all.

        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        name = f"crawl {rules.crawl.id}"
        place = (await self._frontier.places()).get(name, BEGINNING)
        try:
            asked = self._reading.moment
            stream = await self._client.packages(
                place, provider=rules.crawl.settings.pid, limit=self._settings.pages_at_once, **self._content
            )
        except StartAgain:
            stream = await self._client.packages(
                BEGINNING, provider=rules.crawl.settings.pid, limit=self._settings.pages_at_once, **self._content
            )
        if await self._process(stream, [rules], places=lambda: {name: stream.token or place}, asked=asked):
            return False
        await self._frontier.commit(FrontierBatch(caught_up=[rules.crawl.id]), int(self._now()))
        return True

    def note_unread(self, pages: Sequence[AnsweredUrl]) -> None:
        """The cache has these, and they were not read: unless they come with the changes, they are read on their
        own."""
        now = self._clock.seconds()
        for page in pages[: _UNREAD_MAX - len(self._unread)]:
            _, noted = self._unread.get(page.key, (0, now))
            self._unread[page.key] = page.change, noted

    def forget_unread(self) -> None:
        """Pages may be another spider's by now; what is still this one's is noted again."""
        self._unread.clear()

    async def read_unread(self) -> None:
        """Read pages that no change brings.

        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        before = self._clock.seconds() - _CAUGHT_UP_SECONDS
        while self.is_caught_up:
            changes = {key: change for key, (change, noted) in self._unread.items() if noted <= before}
            changes = dict(islice(changes.items(), KEYS_AT_ONCE))
            if not changes:
                return
            asked = self._reading.moment
            stream = await self._client.packages(None, key=list(changes), **self._content)
            await self._process(stream, list(self._crawls()), partial(_is_as_noted, changes), asked=asked)
            for key in changes:
                self._unread.pop(key, None)

    @property
    def _content(self) -> dict[str, Any]:
        return {"content_bytes_max": self._settings.page_bytes}

    async def _read(self, token: str, buckets: Sequence[int], wait: int) -> tuple[int, str]:
        """Read a package; gives the number of pages, and the next token."""
        selected: dict[str, Any] = {}
        if len(buckets) < BUCKETS:
            selected["buckets"] = [str(bucket) for bucket in sorted(buckets)]
        try:
            self.is_caught_up = bool(wait)
            stream = await self._client.packages(
                token or NOW, wait=wait, limit=self._settings.pages_at_once, **selected, **self._content
            )
        except StartAgain as error:
            _log.warn(
                "The changes since the saved token are no longer known; reading all pages again: {error}", error=error
            )
            return 1, await self._begin_again(buckets, selected)
        finally:
            self.is_caught_up = False
        count = await self._process(
            stream, list(self._crawls()), tokens=lambda: dict.fromkeys(buckets, stream.token or token)
        )
        after = stream.token or token
        if not count and after != token:
            await self._save_token(buckets, after)
        return count, after

    async def _begin_again(self, buckets: Sequence[int], selected: Mapping[str, Any]) -> str:
        """The cache was put back: read its first pages again; gives the next token.

        That token names the timeline in which the cache is asked what it lost: if it is put back once more meanwhile,
        all this begins anew.  So it does after a crash, for the token is saved last.
        """
        self._restores += 1
        stream = await self._client.packages(
            BEGINNING, limit=self._settings.pages_at_once, **selected, **self._content
        )
        # What of deletions is not true any longer is found out by asking.
        await self._process(stream, list(self._crawls()), lambda page: page.row.state == CACHED)
        after = stream.token or BEGINNING
        await self._restored(buckets)
        await self._save_token(buckets, after)
        return after

    async def _save_token(self, buckets: Sequence[int], token: str) -> None:
        await self._frontier.commit(FrontierBatch(tokens=dict.fromkeys(buckets, token)), int(self._now()))

    async def _process(
        self,
        stream: PageStream,
        crawls: Sequence[CrawlRules],
        takes: Callable[[Page], bool] = lambda page: True,
        *,
        tokens: Callable[[], Mapping[int, str]] = dict,
        places: Callable[[], Mapping[str, str]] = dict,
        asked: int | None = None,
    ) -> int:
        """Read the pages of a stream; gives their number.

        :param takes: which of them are wanted.
        :param tokens, places: saved with the last batch.
        :param asked: as :meth:`lcc.roles.spider.reading.Reading.without_read`.
        """
        count, restores = 0, self._restores
        waiting: tuple[Chosen, Deferred[list[PageLinks]]] | None = None
        try:
            async for pages in batches(stream, self._settings.batch_bytes // 2):
                count += len(pages)
                chosen = await self._reading.choose(crawls, [*filter(takes, pages)])
                before, waiting = waiting, (chosen, self._extractor.extract(chosen.pages))
                if before is not None:
                    await self._commit(*before, {}, {}, restores, asked)
            last, waiting = waiting, None
            if last is not None:
                await self._commit(*last, tokens(), places(), restores, asked)
        finally:
            stream.close()
            if waiting is not None:
                waiting[1].addErrback(lambda _: None)
                waiting[1].cancel()
        return count

    async def _commit(
        self,
        chosen: Chosen,
        extracted: Deferred[list[PageLinks]],
        tokens: Mapping[int, str],
        places: Mapping[str, str],
        restores: int,
        asked: int | None,
    ) -> None:
        """
        :param restores: before these were read; if the cache was put back since, all pages are read again anyway.
        :param asked: as :meth:`_process`.
        """
        all_links = await extracted
        await self.lock.acquire()
        try:
            if restores != self._restores:
                return
            chosen, links = self._reading.without_read(chosen, all_links, asked)
            kept = await self._keeper.keep(list(zip(chosen.pages, links, strict=True))) if chosen.pages else {}
            batch = await self._reading.batch(chosen, links, tokens, places, kept)
            now = int(self._now())
            if chosen.gone:
                await self._frontier.answer(chosen.gone, [], now)
            settled: Mapping[int, Mapping[bytes, int]] = {}
            if batch.pages or chosen.pages or tokens or places:
                settled = await self._frontier.commit(batch, now)
            self._reading.note_read(chosen, settled)
        except BaseException:
            self._keeper.begin_again()
            raise
        finally:
            self.lock.release()
        self._committed()


def _is_as_noted(changes: Mapping[str, int], page: Page) -> bool:
    """Whether a page has not changed since it was noted: else it comes with the changes.

    :param changes: key -> number.
    """
    return changes.get(page.row.key.hex()) == page.row.change
