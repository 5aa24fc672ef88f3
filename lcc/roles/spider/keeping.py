"""Keeps what is read in stores: files of this spider, each with its place in the frontier.

Stores work in a thread, one after the other.  What a store has is durable before its place is committed; after a
crash it takes back what is behind that.  While one cannot write, as on a full disk, nothing is committed: the spider
waits, and no store lacks a page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.errors import ConfigError, StoreUnavailable
from lcc.interfaces import IFrontier, IOpenStore, IPageStore
from lcc.model.links import Page, PageLinks, StoreSettings

_log = Logger()


class Keeping:
    """See :mod:`lcc.roles.spider.keeping`.

    :param stores: in order.
    :param folder: each has one of its own in it.
    :param in_thread: ``in_thread(function, *args)`` calls a function that blocks.
    """

    def __init__(
        self,
        stores: Sequence[IPageStore],
        frontier: IFrontier,
        folder: Path,
        disk: Any,
        settings: StoreSettings,
        in_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self._stores = stores
        self._frontier = frontier
        self._folder = folder
        self._disk = disk
        self._settings = settings
        self._in_thread = in_thread
        self._open: dict[str, IOpenStore] = {}
        self._committed = False

    def keep(self, pages: Sequence[tuple[Page, PageLinks]]) -> Deferred[Mapping[str, str]]:
        """Have pages kept; gives the places of the stores, by their names in the frontier.

        :raises StoreUnavailable: (as the Deferred's failure) a store cannot; all are opened again the next time.
        """
        return Deferred.fromCoroutine(self._keep(pages))

    def begin_again(self) -> None:
        """What was kept last is not committed, or may not be: stores go back to their places."""
        self._committed = False

    def close(self) -> Deferred[None]:
        """Close all; what is not committed is lost, and comes again."""
        stores, self._open = list(self._open.values()), {}
        closed: Deferred[None] = self._in_thread(_close, stores)
        return closed

    async def _keep(self, pages: Sequence[tuple[Page, PageLinks]]) -> Mapping[str, str]:
        if not self._stores:
            return {}
        if not self._committed:
            await self.close()
            places = await self._frontier.places()
            for store in self._stores:
                work = self._in_thread(self._opened, store, places.get(store.name, ""))
                self._open[store.name] = await self._named(store, work)
        # Until the next batch is asked for, nobody knows whether this one was committed.
        self._committed = True
        try:
            return {
                store.name: await self._named(store, self._in_thread(_write, self._open[store.name], pages))
                for store in self._stores
            }
        except BaseException:
            self._committed = False
            raise

    async def _named(self, store: IPageStore, work: Deferred[Any]) -> Any:
        """What a store does; its error says whose it is.

        :raises StoreUnavailable: it cannot.
        """
        try:
            return await work
        except (OSError, ConfigError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            raise StoreUnavailable(f"the store {store.name} in {self._folder / store.name}: {reason}") from error

    def _opened(self, store: IPageStore, place: str) -> IOpenStore:
        folder = self._folder / store.name
        self._disk.make_folder(folder, 0o700)
        opened: IOpenStore = store.open(folder, place, self._disk, self._settings)
        return opened


def _write(store: IOpenStore, pages: Sequence[tuple[Page, PageLinks]]) -> str:
    store.write(pages)
    return store.flush()


def _close(stores: Sequence[IOpenStore]) -> None:
    for store in stores:
        store.close()
