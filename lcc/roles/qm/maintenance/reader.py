"""Reading ahead: asks the store for the rows that the scheduler wants, and for what orders must know of their
providers.

One request is under way at a time; what is wanted meanwhile goes into the next one.  Rows reach the scheduler only
together with their provider, so that what it hands out can be sent.

A provider that is gone, or being removed, is not fetched from: it is forgotten here, and the store takes its rows
away.  A provider whose rows cannot be read (damage) is delayed like one whose site is unreachable, and does not stop
the others.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from twisted.logger import Logger

from lcc.errors import code
from lcc.interfaces import IQueueStore
from lcc.model import Cursor, Provider
from lcc.roles.qm.part import ENDINGS, Hub, Part
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import FetchInfo, fetch_info

_log = Logger()

CURSORS_MAX = 64
PROVIDERS_KEPT = 10_000
_INTERNAL = code("internal")


class Reader(Part):
    """Reads rows and providers."""

    ERROR_TEXT = "Cannot read ahead"

    def __init__(self, hub: Hub, store: IQueueStore, scheduler: Scheduler) -> None:
        super().__init__(hub, store)
        self._scheduler = scheduler
        self._known: OrderedDict[int, FetchInfo] = OrderedDict()
        self._changed: set[int] = set()

    def start(self) -> bool:
        """Read what is wanted, if nothing is being read; True: rows have come at once."""
        if self._job.busy or self._stopped:
            return False
        cursors = self._scheduler.wants_read_ahead(CURSORS_MAX)
        if not cursors:
            return False
        self._begin(self._read, cursors)
        return not self._job.busy

    def provider_changed(self, pid: int) -> None:
        """What is known of this provider is out of date."""
        self._known.pop(pid, None)
        self._changed.add(pid)
        work = self._scheduler.active(pid)
        if work is not None:
            self._scheduler.work_arrived(pid, 0, 0)  # its rows are read again, together with the provider

    def _ended(self) -> None:
        self._hub.pump()

    async def _read(self, cursors: list[Cursor]) -> None:
        try:
            await self._ask("reading the queue", partial(self._read_once, cursors))
        except ENDINGS:
            raise
        except Exception:
            _log.failure("Cannot read the queue of {count} providers", count=len(cursors))
            await self._one_by_one(cursors)

    async def _one_by_one(self, cursors: list[Cursor]) -> None:
        for cursor in cursors:
            try:
                await self._ask("reading the queue", partial(self._read_once, [cursor]))
            except ENDINGS:
                raise
            except Exception:
                _log.failure("Cannot read the queue of provider {pid}; it is delayed", pid=cursor.pid)
                self._scheduler.read_failed([cursor])
                self._scheduler.hold(cursor.pid, _INTERNAL, float(self._hub.now()))

    async def _read_once(self, cursors: list[Cursor]) -> None:
        self._changed.clear()
        known = self._known
        infos: dict[int, FetchInfo | None] = {cursor.pid: known.get(cursor.pid) for cursor in cursors}
        unknown = [pid for pid, info in infos.items() if info is None]
        aheads, providers = await self._store.read_ahead(cursors, unknown)
        found: dict[int, Provider | None] = {pid: providers.get(pid) for pid in unknown}
        for ahead in aheads:
            info = infos[ahead.pid]
            if info is not None and not all(
                row.delete or row.notice.lies_within(info.prefixes) for row in ahead.rows
            ):
                # Its rows may be younger than what is known of it: they may lie below a root that it has got since.
                found[ahead.pid] = await self._store.provider(ahead.pid)
        for pid, provider in found.items():
            if provider is None or provider.removed:
                _log.info("Provider {pid} is removed; its queue is not fetched", pid=pid)
                self._scheduler.provider_removed(pid)
                infos[pid] = None
            else:
                infos[pid] = self._learned(provider)
        self._scheduler.rows_read(cursors, aheads, infos)

    def _learned(self, provider: Provider) -> FetchInfo:
        info = fetch_info(provider)
        if provider.pid not in self._changed:
            self._known[provider.pid] = info
            if len(self._known) > PROVIDERS_KEPT:
                self._known.popitem(last=False)
        return info
