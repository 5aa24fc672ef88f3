"""Carries out what ``lcc-admin`` has ordered: once a second it looks whether there is something in the database."""

from __future__ import annotations

from functools import partial

from twisted.logger import Logger

from lcc.interfaces import IQueueStore
from lcc.model import ProviderHosts
from lcc.roles.qm.maintenance.reader import Reader
from lcc.roles.qm.part import ENDINGS, Hub, Part
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import fetch_info

_log = Logger()


class AdminOrders(Part):
    """Has the store carry them out, and tells the scheduler and the reader what has changed."""

    ERROR_TEXT = "Cannot carry out orders of lcc-admin"

    def __init__(self, hub: Hub, store: IQueueStore, scheduler: Scheduler, reader: Reader) -> None:
        super().__init__(hub, store)
        self._scheduler = scheduler
        self._reader = reader

    def tick(self) -> None:
        """Called every second."""
        self._begin(self._carry_out)

    async def _carry_out(self) -> None:
        more = True
        while more:
            done = await self._ask("orders of lcc-admin", lambda: self._store.carry_out_orders(self._hub.now()))
            more = done.more
            self._hub.absorbed(done.work)
            for kind, pid, error in done.finished:
                _log.debug("Carried out: {kind} {pid} {error}", kind=kind, pid=pid, error=error)
                if kind == "provider-removed":
                    self._scheduler.provider_removed(pid)
                self._reader.provider_changed(pid)
                if kind in ("retry", "fetch-page"):
                    self._scheduler.delays.try_again(pid, error, self._hub.wall_clock())
                elif kind == "provider-changed":
                    await self._apply_limits(pid)
            if done.finished:
                self._hub.pump()

    async def _apply_limits(self, pid: int) -> None:
        """A provider's limits and hosts hold at once, also where it only waits."""
        try:
            provider = await self._ask("reading a provider", partial(self._store.provider, pid))
        except ENDINGS:
            raise
        except Exception:
            _log.failure("Cannot read provider {pid}", pid=pid)
            return
        if provider is not None and not provider.removed:
            info = fetch_info(provider)
            self._scheduler.provider_changed(pid, info.limits, self._hub.wall_clock())
            self._scheduler.roots_changed(ProviderHosts(pid, info.hosts, info.watched))
