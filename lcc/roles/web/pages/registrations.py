"""Registrations in progress: who asks, for which site, how far that is."""

from __future__ import annotations

from lcc.model import Registration
from lcc.roles.web.pages.base import MonitorPage
from lcc.roles.web.pages.providers import number
from lcc.storage.providers.registrations import registrations_page
from lcc.transport.http.pages import read_query
from lcc.transport.http.server import BodyRequest

PAGE_REGISTRATIONS = 50


class RegistrationsPage(MonitorPage):
    """``/registrations``: a page of them at a time, by number; all, or those that wait for approval."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        only, after = query.get("only", ""), number(query.get("after", "0"))
        listed: list[Registration] = await self.monitor.database.interact(
            registrations_page, int(self.monitor.now()), only == "proven", after, PAGE_REGISTRATIONS
        )
        self.front.page(
            request,
            "registrations",
            "Registrations",
            registrations=listed,
            only=only,
            after=listed[-1].number if len(listed) == PAGE_REGISTRATIONS else 0,
        )
