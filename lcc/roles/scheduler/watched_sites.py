"""robots.txt of each watched site is polled daily, whether anybody else has named a page of it or not: the tasks for
that are made here (:mod:`lcc.storage.tasks.polling.robots`).  The time between fetches and the time of day that it
asks for become interval and hours of the site's providers: each time that a robots.txt was read, the UNS is told
until it has noted that; and once more if the database of the queue was put back from a backup."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.internet.defer import CancelledError
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy, StoreUnavailable, code
from lcc.roles.background import Background
from lcc.roles.notifier import NotifierRefused
from lcc.storage.database.database import Database
from lcc.storage.database.tables.timeline import current_timeline, epoch_of
from lcc.storage.tasks.outbox import root_of
from lcc.storage.tasks.polling.poll_results import watched_roots
from lcc.storage.tasks.polling.robots import AskedBySite
from lcc.storage.tasks.store import TaskStore

_log = Logger()

_EVERY_TICKS = 10
_PAGE = 200
_TRY_LATER = code("try-later")
_DELAY_MS_MAX = 10**9


class WatchedSites:
    """See :mod:`lcc.roles.scheduler.watched_sites`.

    :param main: the database of the queue; only read.
    :param now: seconds since 1970.
    :param watch: tells the UNS of a site, and of the milliseconds between fetches and of the hours for which its
        robots.txt asks; fails with NotifierRefused.
    """

    def __init__(
        self,
        store: TaskStore,
        main: Database,
        now: Callable[[], float],
        watch: Callable[[str, int, str], Awaitable[int]],
    ) -> None:
        self._store = store
        self._main = main
        self._now = now
        self._watch = watch
        self._work = Background("Cannot look for watched sites", failed=self._failed)
        self._ticks = 0
        self._after = 0
        self._epoch = ""

    def tick(self) -> None:
        """Each second."""
        self._ticks += 1
        if self._ticks % _EVERY_TICKS == 1 and not self._work.busy:
            self._work.begin(self._look())

    def stop(self) -> None:
        """Begin nothing any more."""
        self._work.cancel()

    async def _look(self) -> None:
        epoch = epoch_of(await self._main.select(current_timeline))
        if epoch != self._epoch:
            if await self._store.note_epoch(epoch, int(self._now())):
                self._after = 0  # ids are given again
            self._epoch = epoch
        while True:
            # Ids of providers grow: who is new comes behind those that were looked at.
            page = await self._main.select(watched_roots, self._after, _PAGE)
            if not page:
                break
            await self._store.poll_robots(sorted({_origin(root) for _, root in page} - {""}), int(self._now()))
            self._after = page[-1][0]
        origin = ""
        while sites := await self._store.untold_asked(origin, _PAGE):
            origin = sites[-1].origin
            said = [each for each in sites if await self._say(each)]
            await self._store.asked_said(said, int(self._now()))

    async def _say(self, asked: AskedBySite) -> bool:
        try:
            await self._watch(asked.origin, min(round(asked.delay_seconds * 1000), _DELAY_MS_MAX), asked.hours)
        except NotifierRefused as refused:
            return refused.code != _TRY_LATER
        return True

    def _failed(self, failure: Failure) -> None:
        # The engine notices both by itself.
        if not failure.check(StoreUnavailable, Busy, CancelledError):
            _log.failure("Cannot look for watched sites", failure=failure)


def _origin(root: str) -> str:
    try:
        return root_of(root)
    except ValueError:
        return ""
