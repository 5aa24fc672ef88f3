"""Content users: who reads the cache, how far behind, and when last."""

from __future__ import annotations

from lcc.roles.web.pages.base import MonitorPage
from lcc.storage.views.readers import Reader, list_readers
from lcc.transport.http.server import BodyRequest

READERS_SHOWN = 200


class ReadersPage(MonitorPage):
    """``/readers``: all of them, by id."""

    async def get(self, request: BodyRequest) -> None:
        readers: list[Reader] = await self.monitor.database.interact(list_readers, READERS_SHOWN)
        more = len(readers) > READERS_SHOWN
        self.front.page(request, "readers", "Content users", readers=readers[:READERS_SHOWN], more=more)
