"""The push server's callbacks for hubs: ``/websub/ID``.

Who knows the ID of a subscription may ask whether it is meant; only who has its secret can push.
"""

from __future__ import annotations

from typing import Any

from twisted.web.resource import Resource

from lcc.domain.push.websub import WebSubRefused, once
from lcc.roles.push.engine import PushServer
from lcc.roles.push.web import Answering, Folder, query_fields
from lcc.transport.http.replies import reply, reply_json
from lcc.transport.http.server import BodyRequest, text_header

_IDENT_CHARS_MAX = 64


class Callbacks(Folder):
    """``/websub``: a callback for each subscription."""

    def __init__(self, server: PushServer) -> None:
        super().__init__()
        self._server = server

    def getChild(self, path: bytes, request: Any) -> Resource:
        return Callback(self._server, path[:_IDENT_CHARS_MAX].decode("ascii", "replace"))


class Callback(Answering):
    """One callback: the hub's question (GET), and what it pushes (POST)."""

    methods = (b"GET", b"POST")

    def __init__(self, server: PushServer, ident: str) -> None:
        super().__init__(server)
        self._ident = ident

    async def _answer(self, request: BodyRequest) -> None:
        subscriber = self._server.subscriber
        assert subscriber is not None  # else this resource is not there
        self._server.check_claimed()
        try:
            if request.method == b"GET":
                pairs = [(name, value) for name, values in query_fields(request).items() for value in values]
                challenge = await subscriber.question(self._ident, once(pairs))
                reply(request, 200, "text/plain; charset=utf-8", challenge.encode(), {})
            else:
                await subscriber.push(self._ident, text_header(request, "x-hub-signature"), request.body())
                reply_json(request, 200, {"accepted": "the feed is polled now"}, {})
        except WebSubRefused as refused:
            # Honest hubs push as often as they like; who guesses does not.
            self._server.check_rate(self._address(request))
            reply_json(request, refused.status, {"error": refused.text}, {})
