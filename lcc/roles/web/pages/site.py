"""The site as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.web.resource import Resource

from lcc.roles.front import STATIC, LoginPage, LogoutPage, StaticFile
from lcc.roles.web.engine import Monitor
from lcc.roles.web.pages.base import Front, NoPage
from lcc.roles.web.pages.crawl_lists import CrawlHostsPage, CrawlUrlsPage
from lcc.roles.web.pages.crawls import CrawlPage, CrawlsPage
from lcc.roles.web.pages.errors import ErrorsPage, RetryPage, UrlPage
from lcc.roles.web.pages.events import LivePage
from lcc.roles.web.pages.feed_lists import IMPORT_PATH, OPML_BYTES_MAX, DiscoverPage, ExportPage, ImportPage
from lcc.roles.web.pages.feeds import FeedPage, FeedsPage
from lcc.roles.web.pages.jobs import JobPage, JobsPage, StatisticsPage
from lcc.roles.web.pages.overview import MachinesPage, OverviewPage, TakenAwayPage
from lcc.roles.web.pages.previews import PicturePage, PreviewPage
from lcc.roles.web.pages.providers import ProviderPage, ProvidersPage, SearchPage
from lcc.roles.web.pages.push import PushPage
from lcc.roles.web.pages.readers import ReadersPage
from lcc.roles.web.pages.registrations import RegistrationsPage
from lcc.roles.web.pages.resources import ResourcesPage
from lcc.roles.web.pages.tasks import AddTaskPage, TaskPage, TasksPage
from lcc.transport.http.security import FormGuard
from lcc.transport.http.server import BodyRequest, GuardedSite
from lcc.transport.ports.limited import LimitedFactory

SCRIPT = "live.js"


class _Root(NoPage):
    """The root: its children are the pages."""

    isLeaf = False

    def getChild(self, path: bytes, request: Any) -> Resource:
        return NoPage(self.front)


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
        "preview": PreviewPage(front),
        "picture": PicturePage(front),
        "feeds": FeedsPage(front),
        "feed": FeedPage(front),
        "feed-discover": DiscoverPage(front),
        "feeds.opml": ExportPage(front),
        IMPORT_PATH: ImportPage(front),
        "crawls": CrawlsPage(front),
        "crawl": CrawlPage(front),
        "crawl-urls": CrawlUrlsPage(front),
        "crawl-hosts": CrawlHostsPage(front),
        "push": PushPage(front),
        "readers": ReadersPage(front),
        "registrations": RegistrationsPage(front),
        "tasks": TasksPage(front),
        "task": TaskPage(front),
        "task-add": AddTaskPage(front),
        "jobs": JobsPage(front),
        "job": JobPage(front),
        "resources": ResourcesPage(front),
        "statistics": StatisticsPage(front),
        "live": LivePage(front),
        "login": LoginPage(front),
        "logout": LogoutPage(front),
        **{name: StaticFile(front, name, media_type) for name, media_type in STATIC.items()},
        SCRIPT: StaticFile(front, SCRIPT, "text/javascript; charset=utf-8", "lcc.roles.web.pages"),
    }
    for path, page in pages.items():
        root.putChild(path.encode(), page)

    class MonitorRequest(BodyRequest):
        """Who has logged in may send a list of feeds."""

        def expect(self, path: bytes) -> None:
            if path.partition(b"?")[0] == b"/" + IMPORT_PATH.encode():
                self.parseCookies()
                if front.session(self) is not None:
                    self.body_bytes_max = OPML_BYTES_MAX

    class MonitorSite(GuardedSite):
        """The site of the web monitor."""

        requestFactory = MonitorRequest

    site = MonitorSite(root, timeout=settings.idle_timeout, reactor=reactor, now=monitor.now)
    per_address = 0 if settings.proxy else settings.connections_per_address
    return LimitedFactory(site, settings.connections_max, "connections to the web monitor", per_address)
