"""``/atom``, the changes of a selection as a feed, and ``/hub``, where subscribers of such feeds come (WebSub)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import attrs
from twisted.web.server import Request

from lcc.domain.push.websub import WebSubRefused, read_form
from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.atom import MEDIA_TYPE, address_of, atom_document, changed_lately, feed_query, link_header
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.hub.engine import Hub
from lcc.roles.cu.query import parse_query
from lcc.roles.cu.web.listings import asked_pairs
from lcc.roles.cu.web.replies import Asked
from lcc.roles.cu.web.resourcesync import own_url
from lcc.transport.http.replies import HttpError, bearer_token, reply_json
from lcc.transport.http.server import text_header
from lcc.transport.ports.connection_limits import party_of


class _BasicAsked(Asked):
    """Admits by HTTP's Basic authentication, too: readers of feeds and subscribers know nothing else.  The user is
    the part of the token before the dash, the password the rest."""

    def token(self, request: Request) -> str | None:
        value = text_header(request, "authorization") or ""
        scheme, _, text = value.partition(" ")
        if scheme.lower() != "basic":
            return bearer_token(request)
        try:
            user, _, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise HttpError(401, "the Authorization cannot be read", www_authenticate='Basic realm="LCC"') from None
        return f"{user}-{password}"


class Atom(_BasicAsked):
    """``GET /atom``: what has changed in a selection lately, or since a token.

    :param url: of this server; empty: as the request says.
    :param hub: None: there is none.
    """

    def __init__(
        self, cache: Cache, authenticator: Authenticator, url: str, hub: Hub | None, now: Callable[[], float]
    ) -> None:
        super().__init__(cache, authenticator)
        self._url = url and f"{url.rstrip('/')}/"
        self._hub = hub
        self._now = now

    async def answer(self, request: Request, access: Access) -> None:
        pairs, _ = asked_pairs(request)
        query = feed_query(parse_query(pairs)).within(access.providers)
        rows, token = await changed_lately(self.cache, query)
        url = self._url or own_url(request)
        topic, hub = address_of(url, pairs), f"{url}hub" if self._hub is not None else ""
        data = atom_document(rows, token, topic, url, hub, int(self._now()))
        request.setHeader("content-type", MEDIA_TYPE)
        request.setHeader("content-length", str(len(data)))
        request.setHeader("cache-control", "no-store")
        request.setHeader("x-content-type-options", "nosniff")
        request.setHeader("link", link_header(topic, hub))
        if request.method != b"HEAD":
            request.write(data)
        request.finish()


class HubRequests(_BasicAsked):
    """``POST /hub``: subscribe to an Atom feed, or no longer."""

    methods = (b"POST",)

    def __init__(self, cache: Cache, authenticator: Authenticator, hub: Hub) -> None:
        super().__init__(cache, authenticator)
        self._hub = hub

    async def answer(self, request: Any, access: Access) -> None:
        try:
            form = read_form(request.body())
            told = await self._hub.request(form, attrs.evolve(access), party_of(request.getClientAddress()))
        except WebSubRefused as refused:
            raise HttpError(refused.status, refused.text) from None
        reply_json(request, 202, told, {})
