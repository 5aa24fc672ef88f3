"""The site as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import get_data
from typing import Any

from twisted.web.resource import Resource

from lcc.roles.web.engine import Monitor
from lcc.roles.web.pages.base import Front, MonitorPage, NoPage
from lcc.roles.web.pages.crawls import CrawlPage, CrawlsPage
from lcc.roles.web.pages.errors import ErrorsPage, RetryPage, UrlPage
from lcc.roles.web.pages.events import LivePage
from lcc.roles.web.pages.feeds import FeedPage, FeedsPage
from lcc.roles.web.pages.jobs import JobPage, JobsPage, StatisticsPage
from lcc.roles.web.pages.login import LoginPage, LogoutPage
from lcc.roles.web.pages.overview import MachinesPage, OverviewPage, TakenAwayPage
from lcc.roles.web.pages.providers import ProviderPage, ProvidersPage, SearchPage
from lcc.roles.web.pages.tasks import AddTaskPage, TaskPage, TasksPage
from lcc.transport.http_replies import reply
from lcc.transport.http_security import FormGuard, set_page_headers
from lcc.transport.http_server import BodyRequest, GuardedSite
from lcc.transport.limited import LimitedFactory

STATIC = {
    "style.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class _Root(NoPage):
    """The root: its children are the pages."""

    isLeaf = False

    def getChild(self, path: bytes, request: Any) -> Resource:
        return NoPage(self.front)


class _Static(MonitorPage):
    """A static file."""

    is_open = True

    def __init__(self, front: Front, name: str) -> None:
        super().__init__(front)
        self._data = get_data("lcc.roles.web.pages", f"static/{name}") or b""
        self._type = STATIC[name]

    async def get(self, request: BodyRequest) -> None:
        set_page_headers(request, self.front.secure)
        reply(request, 200, self._type, self._data, {"cache-control": "max-age=3600"})


class MonitorSite(GuardedSite):
    """The site of the web monitor."""

    requestFactory = BodyRequest


def build_site(monitor: Monitor, token: Callable[[], str], secure: bool, reactor: Any) -> LimitedFactory:
    """The site with all that it has.

    :param token: gives 16 hexadecimal digits that nobody can guess.
    :param secure: it is reached by https.
    """
    settings = monitor.settings
    front = Front(monitor, FormGuard(token, secure), secure)
    root = _Root(front)
    pages: dict[str, Resource] = {
        "": OverviewPage(front),
        "machines": MachinesPage(front),
        "taken-away": TakenAwayPage(front),
        "providers": ProvidersPage(front),
        "provider": ProviderPage(front),
        "search": SearchPage(front),
        "errors": ErrorsPage(front),
        "retry": RetryPage(front),
        "url": UrlPage(front),
        "feeds": FeedsPage(front),
        "feed": FeedPage(front),
        "crawls": CrawlsPage(front),
        "crawl": CrawlPage(front),
        "tasks": TasksPage(front),
        "task": TaskPage(front),
        "task-add": AddTaskPage(front),
        "jobs": JobsPage(front),
        "job": JobPage(front),
        "statistics": StatisticsPage(front),
        "live": LivePage(front),
        "login": LoginPage(front),
        "logout": LogoutPage(front),
        **{name: _Static(front, name) for name in STATIC},
    }
    for path, page in pages.items():
        root.putChild(path.encode(), page)
    site = MonitorSite(root, timeout=settings.idle_timeout, reactor=reactor, now=monitor.now)
    per_address = 0 if settings.proxy else settings.connections_per_address
    return LimitedFactory(site, settings.connections_max, "connections to the web monitor", per_address)
