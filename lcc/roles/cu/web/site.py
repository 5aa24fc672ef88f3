"""The HTTP interface as a whole."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from twisted.internet.defer import succeed
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from lcc.client.content import ContentOpener
from lcc.config import CuConfig
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.hub.engine import Hub
from lcc.roles.cu.packages.production import Workshop
from lcc.roles.cu.readership import Readership
from lcc.roles.cu.resourcesync import FOLDER, WELL_KNOWN
from lcc.roles.cu.web.contents import Contents
from lcc.roles.cu.web.hub import Atom, HubRequests
from lcc.roles.cu.web.items import Items
from lcc.roles.cu.web.line_questions import UserSite
from lcc.roles.cu.web.listings import Changes, Listing
from lcc.roles.cu.web.openapi import document
from lcc.roles.cu.web.packages import Packages
from lcc.roles.cu.web.resourcesync import Description, Lists
from lcc.roles.cu.web.robots import Robots
from lcc.roles.cu.web.states import States
from lcc.transport.http.replies import JsonDocument, reply_json
from lcc.transport.ports.limited import LimitedFactory


class _Nothing(Resource):
    """404 for unknown paths."""

    isLeaf = True

    def render(self, request: Any) -> bytes | int:
        reply_json(request, 404, {"error": "there is nothing here; /openapi.json tells what there is"}, {})
        return NOT_DONE_YET


class _Root(Resource):
    def getChild(self, path: bytes, request: Any) -> Resource:
        return _Nothing()


def build_site(
    cache: Cache,
    content: ContentOpener,
    workshop: Workshop,
    settings: CuConfig,
    without: str,
    reactor: Any,
    now: Callable[[], float] | None,
    hub: Hub | None = None,
    readership: Readership | None = None,
) -> LimitedFactory:
    """The site with all that it has.

    :param content: reads content files.
    :param workshop: makes packages.
    :param without: what those who have no token may see (:data:`lcc.roles.access.WITHOUT_TOKEN`).
    :param now: seconds since 1970, for the dates of answers; None: as the machine has them.
    :param hub: None: there is none.
    :param readership: notes who reads; None: nobody does.
    """
    root = _Root()
    stall = settings.idle_timeout
    readership = readership or Readership(lambda _: succeed(None), reactor, now or (lambda: 0.0))
    authenticator = Authenticator(cache.users, without, settings, reactor, readership.asked)
    root.putChild(b"urls", Listing(cache, authenticator, reactor, stall))
    root.putChild(b"changes", Changes(cache, authenticator, reactor, stall, settings.wait_max, readership))
    root.putChild(b"content", Contents(cache, authenticator, content, reactor, stall))
    source = cache, authenticator, reactor, stall, settings.url
    root.putChild(FOLDER.encode(), Lists(*source))
    well_known = _Root()
    well_known.putChild(FOLDER.encode(), Description(*source))
    root.putChild(WELL_KNOWN.encode(), well_known)
    root.putChild(b"states", States(cache, authenticator, reactor, stall))
    root.putChild(b"atom", Atom(cache, authenticator, settings.url, hub, now or (lambda: 0.0)))
    root.putChild(b"items", Items(cache, authenticator, reactor, stall))
    root.putChild(b"robots", Robots(cache, authenticator, reactor, stall))
    if hub is not None:
        root.putChild(b"hub", HubRequests(cache, authenticator, hub))
    packages = Packages(
        cache,
        authenticator,
        workshop,
        reactor,
        stall,
        settings.wait_max,
        settings.package_rate_min,
        settings.connections_per_address > 0,
        readership,
    )
    root.putChild(b"package", packages)
    site = UserSite(root, timeout=settings.idle_timeout, reactor=reactor, now=now)
    root.putChild(b"openapi.json", JsonDocument(document(version("lcc"))))
    return LimitedFactory(site, settings.connections_max, "content users over HTTP", settings.connections_per_address)
