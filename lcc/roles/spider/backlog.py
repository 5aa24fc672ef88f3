"""Gives stores the pages that they could not take: from the cache, as they are there by now.

A page that has changed meanwhile is kept as it is now; one that is gone from the cache cannot be kept any longer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from lcc.client.cache import CacheClient
from lcc.interfaces import IFrontier
from lcc.model.crawls import FrontierBatch, StoreWork
from lcc.model.links import Page
from lcc.roles.spider.follower import KEYS_AT_ONCE, Extractor, Keeper, batches

_log = Logger()


class Backlog:
    """See :mod:`lcc.roles.spider.backlog`.

    :param commit: commits a batch of the frontier.
    :param lock: held from what is kept to its commit.
    :param page_bytes: of each content at most.
    :param batch_bytes: of all content at once, about.
    """

    def __init__(
        self,
        frontier: IFrontier,
        client: CacheClient,
        extractor: Extractor,
        keeper: Keeper,
        lock: DeferredLock,
        commit: Callable[[FrontierBatch], Awaitable[Any]],
        page_bytes: int,
        batch_bytes: int,
    ) -> None:
        self._frontier = frontier
        self._client = client
        self._extractor = extractor
        self._keeper = keeper
        self._lock = lock
        self._commit = commit
        self._page_bytes = page_bytes
        self._batch_bytes = batch_bytes

    async def work_off(self) -> None:
        """Give each store that can write what it lacks.

        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        for store in self._keeper.behind:
            await self._work_off(store)

    async def _work_off(self, store: str) -> None:
        count = gone = 0
        after = b""
        while keys := await self._frontier.backlog(store, after, KEYS_AT_ONCE):
            after = keys[-1]
            left = set(keys)
            stream = await self._client.packages(
                None, key=[key.hex() for key in keys], content_bytes_max=self._page_bytes
            )
            try:
                async for pages in batches(stream, self._batch_bytes):
                    left.difference_update(page.row.key for page in pages)
                    there = [page for page in pages if not page.missing]
                    if not await self._give(store, there):
                        return
                    count += len(there)
            finally:
                stream.close()
            if left:
                gone += len(left)
                await self._commit(FrontierBatch(stores={store: StoreWork(None, has=left)}))
        await self._lock.acquire()
        try:
            if await self._frontier.backlog(store, b"", 1):
                self._keeper.rest(store)  # what cannot be read now
            else:
                self._keeper.caught_up(store)
        finally:
            self._lock.release()
        if count or gone:
            _log.info(
                "The store {store} has got {count} pages of its backlog; {gone} are gone from the cache",
                store=store,
                count=count,
                gone=gone,
            )

    async def _give(self, store: str, pages: Sequence[Page]) -> bool:
        """Whether the store has taken them."""
        if not pages:
            return True
        links = await self._extractor.extract(pages)
        await self._lock.acquire()
        try:
            kept = await self._keeper.keep_in(store, list(zip(pages, links, strict=True)))
            await self._commit(FrontierBatch(stores=kept))
        except BaseException:
            self._keeper.begin_again()
            raise
        finally:
            self._lock.release()
        return not kept[store].fault
