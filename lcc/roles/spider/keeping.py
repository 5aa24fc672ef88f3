"""Keeps what is read in stores: files of this spider, each with its place in the frontier.

Stores work in a thread, one after the other.  What a store has is durable before its place is committed; after a
crash it takes back what is behind that.

Each store fails alone.  What one cannot take, as on a full disk, is its *backlog*: versions of pages, which the
frontier has and which are committed together with the pages.  After a while it is tried again, and gets the pages of
its backlog from the cache (:mod:`lcc.roles.spider.backlog`).  So neither the crawl nor another store waits for it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import ConfigError
from lcc.interfaces import IFrontier, IOpenStore, IPageStore
from lcc.model.spider.crawls import StoreWork
from lcc.model.spider.links import Page, PageLinks, StoreSettings
from lcc.storage.disk.durable import make_folder_durably

_log = Logger()

RETRY_SECONDS = 10.0
"""A store that has failed is not tried again before."""

Pages = Sequence[tuple[Page, PageLinks]]


class Keeping:
    """See :mod:`lcc.roles.spider.keeping`.

    :param stores: in order.
    :param folder: each has one of its own in it.
    :param in_thread: ``in_thread(function, *args)`` calls a function that blocks.
    :param clock: seconds, never set.
    :ivar faults: why stores cannot write, by their names.
    """

    def __init__(
        self,
        stores: Sequence[IPageStore],
        frontier: IFrontier,
        folder: Path,
        disk: Any,
        settings: StoreSettings,
        in_thread: Callable[..., Deferred[Any]],
        clock: Callable[[], float],
    ) -> None:
        self.faults: dict[str, str] = {}
        self._stores = {store.name: store for store in stores}
        self._frontier = frontier
        self._folder = folder
        self._disk = disk
        self._settings = settings
        self._in_thread = in_thread
        self._clock = clock
        self._open: dict[str, IOpenStore] = {}
        self._rests_until: dict[str, float] = {}
        self._behind = set(self._stores)
        """Stores that may have a backlog."""
        self._failures: Counter[str] = Counter()
        self._committed = False

    def keep(self, pages: Pages) -> Deferred[Mapping[str, StoreWork]]:
        """Have pages kept by all stores; gives what each made of them.

        :raises StoreUnavailable: (as the Deferred's failure) the frontier cannot be asked where stores stand.
        """
        return Deferred.fromCoroutine(self._keep(pages, list(self._stores)))

    def keep_in(self, store: str, pages: Pages) -> Deferred[Mapping[str, StoreWork]]:
        """As :meth:`keep`, in one store."""
        return Deferred.fromCoroutine(self._keep(pages, [store]))

    def begin_again(self) -> None:
        """What was kept last is not committed, or may not be: stores go back to their places."""
        self._committed = False

    @property
    def behind(self) -> list[str]:
        """Stores that may have a backlog, and can be tried now."""
        now = self._clock()
        return [name for name in self._stores if name in self._behind and now >= self._rests_until.get(name, now)]

    def failures(self, store: str) -> int:
        """How often it could not take pages."""
        return self._failures[store]

    def rest(self, store: str) -> None:
        """It is not tried for a while."""
        self._rests_until[store] = self._clock() + RETRY_SECONDS

    def caught_up(self, store: str) -> None:
        """It has no backlog."""
        self._behind.discard(store)

    def close(self) -> Deferred[None]:
        """Close all; what is not committed is lost, and comes again."""
        stores, self._open = list(self._open.values()), {}
        closed: Deferred[None] = self._in_thread(_close, stores)
        return closed

    async def _keep(self, pages: Pages, names: Sequence[str]) -> Mapping[str, StoreWork]:
        if not names:
            return {}
        if not self._committed:
            await self.close()
        new = [name for name in names if name not in self._open and not self._rests(name)]
        places = await self._frontier.places() if new else {}
        # Until the next batch is asked for, nobody knows whether this one was committed.
        self._committed = True
        try:
            return {name: await self._kept(name, places.get(name, ""), pages) for name in names}
        except BaseException:
            self._committed = False
            raise

    def _rests(self, name: str) -> bool:
        """It has failed not long ago."""
        return name in self.faults and self._clock() < self._rests_until[name]

    async def _kept(self, name: str, place: str, pages: Pages) -> StoreWork:
        """
        :param place: where the store goes on, if it is not open.
        """
        versions = {page.row.key: page.row.change for page, _ in pages}
        if name not in self._open and self._rests(name):
            self._failures[name] += 1
            return StoreWork(None, self.faults[name], versions)
        try:
            if name not in self._open:
                self._open[name] = await self._in_thread(self._opened, self._stores[name], place)
            place = await self._in_thread(_write, self._open[name], pages)
        except CancelledError:
            raise
        except Exception as error:
            await self._failed(name, error)
            return StoreWork(None, self.faults[name], versions)
        if self.faults.pop(name, ""):
            _log.info("The store {store} writes again", store=name)
        return StoreWork(place, has=versions.keys() if name in self._behind else ())

    async def _failed(self, name: str, error: Exception) -> None:
        """A store cannot write: it is closed, and tried again after a while."""
        store = self._open.pop(name, None)
        if store is not None:
            await self._in_thread(_close, [store])
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)
        else:
            reason = str(error) if isinstance(error, (OSError, ConfigError)) else f"{type(error).__name__}: {error}"
        if name not in self.faults:
            if not isinstance(error, (OSError, ConfigError)):
                _log.failure("The store {store} has failed", failure=Failure(error), store=name)
            _log.error(
                "The store {store} cannot write in {folder}: {reason}; the store gets its pages later",
                store=name,
                folder=str(self._folder / name),
                reason=reason,
            )
        self.faults[name] = reason
        self._failures[name] += 1
        self._behind.add(name)
        self.rest(name)

    def _opened(self, store: IPageStore, place: str) -> IOpenStore:
        folder = self._folder / store.name
        make_folder_durably(folder, self._disk)
        opened: IOpenStore = store.open(folder, place, self._disk, self._settings)
        return opened


def _write(store: IOpenStore, pages: Pages) -> str:
    store.write(pages)
    return store.flush()


def _close(stores: Sequence[IOpenStore]) -> None:
    for store in stores:
        store.close()
