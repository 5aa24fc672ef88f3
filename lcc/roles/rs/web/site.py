"""The site as a whole."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from twisted.web.resource import Resource

from lcc.config import RsConfig
from lcc.roles.front import STATIC
from lcc.roles.rs.registrar import Registrar
from lcc.roles.rs.web.api import Api
from lcc.roles.rs.web.openapi import document
from lcc.roles.rs.web.pages import PAGES, FormPage, NoPage, Pages, RegistrationPage, StartPage, StaticPage, Templates
from lcc.transport.http.replies import JsonDocument
from lcc.transport.http.security import FormGuard
from lcc.transport.http.server import BodyRequest, GuardedSite
from lcc.transport.ports.limited import LimitedFactory

OWN_STATIC = {"register.css": "text/css; charset=utf-8", "copy.js": "text/javascript; charset=utf-8"}


class _Root(NoPage):
    """The root: its children are the pages."""

    isLeaf = False

    def getChild(self, path: bytes, request: Any) -> Resource:
        return NoPage(self.pages)


class RegistrationSite(GuardedSite):
    """The site of the registration server: pages and API."""

    requestFactory = BodyRequest


def build_site(
    registrar: Registrar,
    settings: RsConfig,
    token: Callable[[], str],
    timezones: tuple[str, ...],
    secure: bool,
    reactor: Any,
) -> LimitedFactory:
    """The site with all that it has.

    :param token: gives 16 hexadecimal digits that nobody can guess.
    :param timezones: names that are suggested.
    :param secure: it is reached by https.
    """
    pages = Pages(registrar, Templates(registrar, timezones), FormGuard(token, secure), secure)
    root, api = _Root(pages), _Root(pages)
    root.putChild(b"", StartPage(pages))
    for path in PAGES:
        root.putChild(path, FormPage(pages, path))
    root.putChild(b"registration", RegistrationPage(pages))
    for name, media_type in STATIC.items():
        root.putChild(name.encode(), StaticPage(pages, name, media_type, "lcc.roles"))
    for name, media_type in OWN_STATIC.items():
        root.putChild(name.encode(), StaticPage(pages, name, media_type, "lcc.roles.rs.web"))
    root.putChild(b"api", api)
    api.putChild(b"registrations", Api(registrar))
    root.putChild(b"openapi.json", JsonDocument(document(version("lcc"))))
    site = RegistrationSite(root, timeout=settings.idle_timeout, reactor=reactor, now=registrar.now)
    per_address = 0 if settings.proxy else settings.connections_per_address
    return LimitedFactory(site, settings.connections_max, "registration clients", per_address)
