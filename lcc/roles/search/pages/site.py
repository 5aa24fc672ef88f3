"""The site as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.web.resource import Resource

from lcc.client.cache import CacheClient
from lcc.roles.front import STATIC, LoginPage, LogoutPage, StaticFile
from lcc.roles.search.engine import SearchServer
from lcc.roles.search.pages.base import Front, NoPage
from lcc.roles.search.pages.cached import CachedPage, CopyPage
from lcc.roles.search.pages.feed import OpenSearchPage
from lcc.roles.search.pages.results import ResultsPage, StartPage
from lcc.roles.search.readers import Readers
from lcc.transport.http.security import FormGuard
from lcc.transport.http.server import BodyRequest, GuardedSite
from lcc.transport.ports.limited import LimitedFactory

STYLE = "search.css"


class _Root(NoPage):
    """The root: its children are the pages."""

    isLeaf = False

    def getChild(self, path: bytes, request: Any) -> Resource:
        return NoPage(self.front)


class SearchSite(GuardedSite):
    """The site of the search."""

    requestFactory = BodyRequest


def build_site(
    engine: SearchServer,
    readers: Readers,
    client: CacheClient,
    token: Callable[[], str],
    secure: bool,
    in_thread: Callable[..., Deferred[Any]],
    reactor: Any,
) -> LimitedFactory:
    """The site with all that it has.

    :param client: reads copies of pages.
    :param token: gives 16 hexadecimal digits that nobody can guess.
    :param secure: it is reached by https.
    :param in_thread: calls a function that takes long.
    """
    settings = engine.settings
    front = Front(engine, readers, client, FormGuard(token, secure), secure, in_thread)
    root = _Root(front)
    pages: dict[str, Resource] = {
        "": StartPage(front),
        "search": ResultsPage(front),
        "cached": CachedPage(front),
        "copy": CopyPage(front, reactor, settings.idle_timeout),
        "opensearch.xml": OpenSearchPage(front),
        **{name: StaticFile(front, name, media_type) for name, media_type in STATIC.items()},
        STYLE: StaticFile(front, STYLE, "text/css; charset=utf-8", "lcc.roles.search.pages"),
    }
    if not settings.open:
        pages |= {"login": LoginPage(front), "logout": LogoutPage(front)}
    for path, page in pages.items():
        root.putChild(path.encode(), page)
    site = SearchSite(root, timeout=settings.idle_timeout, reactor=reactor, now=engine.now)
    per_address = 0 if settings.proxy else settings.connections_per_address
    return LimitedFactory(site, settings.connections_max, "connections to the search", per_address)
