"""``/live``: tells pages that there is something new, as server-sent events.

An event has the number of the look and the level of what is wrong; a page that gets it asks for itself again, and
takes over the parts that have changed.  So what is shown is made in one place, and escaped there.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.web.server import Request

from lcc.monitor.web.front import Front, MonitorPage
from lcc.transport.http_replies import HttpError, reply
from lcc.transport.http_security import set_page_headers
from lcc.transport.http_server import BodyRequest
from lcc.users.web.streaming import Outlet

RETRY_MS = 5000
STREAMS_PER_SESSION = 12


class LivePage(MonitorPage):
    """The stream."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self.count = 0

    def not_logged_in(self, request: Request) -> None:
        # Not a redirect, which would be followed for ever.
        set_page_headers(request, self.front.secure)
        reply(request, 401, "text/plain; charset=utf-8", b"log in first\n", {})

    async def get(self, request: BodyRequest) -> None:
        session = self.front.session(request)
        if self.count >= self.monitor.settings.streams_max or session is None:
            raise HttpError(503, "Too many pages follow: this one has to be reloaded.")
        if len(session.streams) >= STREAMS_PER_SESSION:
            raise HttpError(429, "Too many pages of yours follow: this one has to be reloaded.")
        set_page_headers(request, self.front.secure)
        request.setHeader("content-type", "text/event-stream; charset=utf-8")
        request.setHeader("x-accel-buffering", "no")  # a web server in front passes it on at once
        if request.method == b"HEAD":
            request.finish()
            return
        stream = _Stream(self.monitor, request, self.monitor.settings.idle_timeout)
        self.count += 1
        session.streams.add(stream.end)
        self.monitor.followers.add(stream.tell)
        try:
            request.write(f"retry: {RETRY_MS}\n\n".encode())
            stream.tell()
            await stream.over
        finally:
            self.count -= 1
            session.streams.discard(stream.end)
            self.monitor.followers.discard(stream.tell)


class _Stream:
    """
    :ivar over: fires when it was ended here; it is cancelled when the client goes away.
    """

    def __init__(self, monitor: Any, request: BodyRequest, stall_seconds: float) -> None:
        self._monitor = monitor
        self._outlet = Outlet(request, monitor.clock, stall_seconds)
        self.over: Deferred[None] = Deferred()

    def tell(self) -> None:
        """Send what is new, unless the client has not taken the last one yet."""
        if self._outlet.full:
            return
        monitor = self._monitor
        self._outlet.write(f"id: {monitor.looks}\nevent: look\ndata: {monitor.level.name.lower()}\n\n".encode())

    def end(self) -> None:
        """The session is over."""
        if not self.over.called:
            self._outlet.finish()
            self.over.callback(None)
