"""The text of pages that items of feeds lead to: a job of the kind ``text`` for each that is cached.

Each few seconds the changes of the cache and the new items are followed by their numbers, as long as there is a feed
with ``--full-content``; without one nothing is read.  The text of a page that is cached no longer is forgotten: each
hour all texts are looked at, a page of them at a time.

*Failures.*  The database of the queue is unreachable, or a newer scheduler has claimed the tables: nothing is made;
the positions stay.  The process ends between two commits: what was followed is followed again, and jobs have keys.
It was put back from a backup: the position follows it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.keys import url_key
from lcc.domain.urls import normalise
from lcc.errors import Busy, StoreUnavailable, UrlError
from lcc.model.tasks import DueJob
from lcc.roles.background import Background
from lcc.storage.database.database import Database
from lcc.storage.providers.watched import providers_of
from lcc.storage.tasks.feeds.item_views import ITEMS
from lcc.storage.tasks.feeds.item_views import last_change as last_item
from lcc.storage.tasks.jobs.text_jobs import (
    CHANGES_AT_ONCE,
    ITEM_CHANGES,
    PAGE_CHANGES,
    NewItem,
    WantedText,
    cached_among,
    is_any_wanted,
    items_leading_to,
    last_page,
    new_items,
    pages_at,
    pages_changed,
    text_position,
    texts_page,
)
from lcc.storage.tasks.polling.change_ranges import range_end
from lcc.storage.tasks.polling.poll_results import PAGES
from lcc.storage.tasks.store import TaskStore

_log = Logger()


_EVERY_SECONDS = 5
_LOOK_TICKS = 3600
"""Between the beginnings of two looks at all texts."""
_LOOK_ROWS = 500
_SAVED = 10_000
"""Numbers without any page of interest after which the position is saved all the same."""


class Texts:
    """See :mod:`lcc.roles.scheduler.texts`.

    :param main: the database of the queue; only read.
    :param now: seconds since 1970.
    :param made: is given new jobs.
    """

    def __init__(
        self, store: TaskStore, main: Database, now: Callable[[], float], made: Callable[[Iterable[DueJob]], Any]
    ) -> None:
        self._store = store
        self._main = main
        self._now = now
        self._made = made
        self._work = Background("Cannot make texts", failed=self._failed)
        self._ticks = 0
        self._at: dict[str, int] = {}
        self._saved: dict[str, int] = {}
        self._look_at = 0
        self._looked: bytes | None = None

    def tick(self) -> None:
        """Each second."""
        self._ticks += 1
        if self._ticks % _EVERY_SECONDS == 1 and not self._work.busy:
            self._work.begin(self._do())

    def stop(self) -> None:
        """Begin nothing any more."""
        self._work.cancel()

    async def _do(self) -> None:
        await self._forget()
        if not await self._store.read(is_any_wanted):
            self._at = {}
            return
        ends = {ITEM_CHANGES: await self._store.read(last_item), PAGE_CHANGES: await self._main.select(last_page)}
        for name, follow, select, table in (
            (ITEM_CHANGES, self._items, self._store.read, ITEMS),
            (PAGE_CHANGES, self._pages, self._main.select, PAGES),
        ):
            if name not in self._at:
                saved = await self._store.read(text_position, name)
                self._at[name] = self._saved[name] = ends[name] if saved < 0 else saved
            at = min(self._at[name], ends[name])
            while at < ends[name]:
                upto = await select(range_end, table, at, ends[name], CHANGES_AT_ONCE)
                wanted = await follow(at, upto)
                if wanted or upto - self._saved[name] >= _SAVED or self._saved[name] > upto:
                    made = await self._store.make_text_jobs(wanted, {name: upto}, int(self._now()))
                    if made is None:
                        return  # too many jobs are open: later
                    self._made(made)
                    self._saved[name] = upto
                at = self._at[name] = upto

    async def _forget(self) -> None:
        """Look at the next texts, if it is time."""
        if self._looked is None and self._ticks >= self._look_at:
            self._looked, self._look_at = b"", self._ticks + _LOOK_TICKS
        if self._looked is None:
            return
        texts = await self._store.read(texts_page, self._looked, _LOOK_ROWS)
        cached = await self._main.interact(cached_among, [text.key for text in texts])
        gone = [text for text in texts if text.key not in cached]
        if gone:
            await self._store.forget_texts(gone, int(self._now()))
        self._looked = texts[-1].key if len(texts) == _LOOK_ROWS else None

    async def _pages(self, after: int, upto: int) -> list[WantedText]:
        pages = await self._main.select(pages_changed, after, upto)
        return await self._store.read(items_leading_to, pages) if pages else []

    async def _items(self, after: int, upto: int) -> list[WantedText]:
        items = await self._store.read(new_items, after, upto)
        urls = _normalised(items)
        if not urls:
            return []
        owners = await self._main.interact(providers_of, sorted(set(urls.values())))
        keys = {url: (url_key(pid, url, ""), url_key(pid, url, "")[:16] + b"\xff" * 4) for url, pid in owners.items()}
        known = {link: url for link, url in urls.items() if url in keys}
        pages = await self._main.interact(pages_at, keys, known)
        return [WantedText(pages[item.link], item.task, item.identity) for item in items if item.link in pages]

    def _failed(self, failure: Failure) -> None:
        # The engine notices both by itself.
        if not failure.check(StoreUnavailable, Busy, CancelledError):
            _log.failure("Cannot make texts", failure=failure)


def _normalised(items: Iterable[NewItem]) -> dict[str, str]:
    """Link -> normalised URL, of those that are one."""
    found = {}
    for item in items:
        try:
            found[item.link] = normalise(item.link).partition("#")[0]
        except UrlError:
            continue
    return found
