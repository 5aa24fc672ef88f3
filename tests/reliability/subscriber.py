"""A subscriber of the hub of content users in a kill test: it writes into the journal what it hears."""

from __future__ import annotations

import hashlib
import hmac
import http.client
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from lxml import etree
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

if TYPE_CHECKING:
    from .world import World

SECRET = "of the subscriber"
URL = "{http://www.lococa.org/1.0}url"
AGAIN_SECONDS = 0.3


class Subscriber(Resource):
    """
    :param port: its own.
    :param hub_port: of the content user server that has the hub.
    """

    isLeaf = True

    def __init__(self, world: World, port: int, hub_port: int) -> None:
        super().__init__()
        self._world = world
        self._hub_port = hub_port
        self._callback = f"http://127.0.0.1:{port}/callback"
        self._asked: Deferred[None] = Deferred()
        reactor.listenTCP(port, Site(self), interface="127.0.0.1")  # type: ignore[attr-defined]

    async def subscribe(self) -> None:
        """To all changes; returns when the hub has asked whether it is meant."""
        while await deferToThread(self._ask) != 202:
            await deferLater(reactor, AGAIN_SECONDS)  # type: ignore[arg-type]
        await self._asked

    def _ask(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._hub_port, timeout=20)
        topic = f"http://127.0.0.1:{self._hub_port}/atom"
        fields = {"mode": "subscribe", "topic": topic, "callback": self._callback, "secret": SECRET}
        try:
            connection.request("POST", "/hub", urlencode({f"hub.{name}": text for name, text in fields.items()}))
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def render_GET(self, request: Request) -> bytes:
        """The hub asks whether the subscription is meant, or says that it has ended."""
        arguments: dict[bytes, list[bytes]] = request.args or {}
        if b"hub.challenge" not in arguments:
            self._world.note("unheard", why=request.uri.decode())
            return b""
        if not self._asked.called:
            reactor.callLater(0, self._asked.callback, None)  # type: ignore[attr-defined]
        return arguments[b"hub.challenge"][0]

    def render_POST(self, request: Request) -> bytes:
        """The hub tells changes."""
        assert request.content is not None
        body = request.content.read()
        signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        if request.getHeader("x-hub-signature") != signature:
            self._world.note("unheard", why="a delivery with a wrong signature")
            return b""
        changes: list[Any] = [
            [url.get("curl"), int(url.get("change")), url.get("state")] for url in etree.fromstring(body).iter(URL)
        ]
        self._world.note("heard", changes=sorted(changes, key=lambda change: change[1]))
        return b""
