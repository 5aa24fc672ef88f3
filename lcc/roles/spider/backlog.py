"""Gives stores the pages that they could not take, from the cache.

A page that has changed meanwhile, or is gone, cannot be kept any longer as it was; it is kept as it is now when that
is read, by whichever spider has its host then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from lcc.client.cache import CacheClient
from lcc.client.packages import batches
from lcc.interfaces import IFrontier
from lcc.model.spider.crawls import FrontierBatch, StoreWork
from lcc.model.spider.links import Page
from lcc.roles.spider.follower import KEYS_AT_ONCE, Extractor, Keeper

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
        while True:
            failures = self._keeper.failures(store)
            lacking = await self._frontier.backlog(store, after, KEYS_AT_ONCE)
            if not lacking:
                break
            left = set(lacking)
            stream = await self._client.packages(
                None, key=[key.hex() for key in lacking], content_bytes_max=self._page_bytes
            )
            try:
                async for pages in batches(stream, self._batch_bytes):
                    same = [page for page in pages if page.row.change == lacking.get(page.row.key)]
                    left.difference_update(page.row.key for page in same)
                    there = [page for page in same if not page.missing]
                    given = await self._give(store, failures, after, there)
                    if given is None:
                        return
                    count += given
            finally:
                stream.close()
            if left:
                if await self._give(store, failures, after, [], left) is None:
                    return
                gone += len(left)
            after = max(lacking)
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
                "The store {store} has got {count} pages of its backlog; {gone} have changed since, or are gone",
                store=store,
                count=count,
                gone=gone,
            )

    async def _give(
        self, store: str, failures: int, after: bytes, pages: Sequence[Page], gone: Collection[bytes] = ()
    ) -> int | None:
        """How many of these pages the store has taken; None: it cannot, or has failed since the cache was asked.

        Pages are read from the changes meanwhile.  What the store has got that way is not given once more, perhaps in
        an older version; what it could not take may be newer than these.

        :param failures: of the store, when the backlog was read behind this key.
        :param gone: what the cache has not, or not in that version.
        """
        links = await self._extractor.extract(pages) if pages else []
        await self._lock.acquire()
        try:
            if self._keeper.failures(store) != failures:
                return None
            lacking = await self._frontier.backlog(store, after, KEYS_AT_ONCE)
            given = [each for each in zip(pages, links, strict=True) if each[0].row.key in lacking]
            kept = await self._keeper.keep_in(store, given) if given else {store: StoreWork(None, has=gone)}
            await self._commit(FrontierBatch(stores=kept))
        except BaseException:
            self._keeper.begin_again()
            raise
        finally:
            self._lock.release()
        return None if kept[store].fault else len(given)
