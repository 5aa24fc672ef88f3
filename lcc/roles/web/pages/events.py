"""``/live``: tells pages that there is something new, as server-sent events.

An event has the number of the look and the level of what is wrong; a page that gets it asks for itself again, and
takes over the parts that have changed.  So what is shown is made in one place, and escaped there.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred
from twisted.web.server import Request

from lcc.roles.web.pages.base import Front, MonitorPage
from lcc.transport.http.replies import HttpError, reply
from lcc.transport.http.security import set_page_headers
from lcc.transport.http.server import BodyRequest
from lcc.transport.http.streaming import HttpWriter

RETRY_MS = 5000
STREAMS_PER_SESSION = 12


class LivePage(MonitorPage):
    """``/live``: a stream of server-sent events."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self._streams: dict[_Stream, str] = {}

    def not_logged_in(self, request: Request) -> None:
        # Not a redirect, which would be followed for ever.
        set_page_headers(request, self.front.secure)
        reply(request, 401, "text/plain; charset=utf-8", b"log in first\n", {})

    async def get(self, request: BodyRequest) -> None:
        session = self.front.session(request)
        if session is not None and len(session.streams) >= STREAMS_PER_SESSION:
            raise HttpError(429, "You have too many live pages: reload this one.")
        if session is None or (request.method != b"HEAD" and not self._has_room(session.user.name)):
            raise HttpError(503, "Too many live pages: reload this one.")
        set_page_headers(request, self.front.secure)
        request.setHeader("content-type", "text/event-stream; charset=utf-8")
        request.setHeader("x-accel-buffering", "no")  # a web server in front passes it on at once
        if request.method == b"HEAD":
            request.finish()
            return
        stream = _Stream(self.monitor, request, self.monitor.settings.idle_timeout)
        self._streams[stream] = session.user.name
        session.streams.add(stream.end)
        self.monitor.followers.add(stream.tell)
        try:
            request.write(f"retry: {RETRY_MS}\n\n".encode())
            stream.tell()
            await stream.over
        finally:
            del self._streams[stream]
            session.streams.discard(stream.end)
            self.monitor.followers.discard(stream.tell)

    def _has_room(self, name: str) -> bool:
        """Whether one more page of this user may follow.  If there are too many, the oldest ends of the user who has
        the most, where that is more than this one would have."""
        if len(self._streams) < self.monitor.settings.streams_max:
            return True
        each = Counter(self._streams.values())
        most = max(each, key=lambda user: each[user])
        if each[most] <= each[name] + 1:
            return False
        next(stream for stream, user in self._streams.items() if user == most).end()
        return True


class _Stream:
    """One open stream of events.

    :ivar over: fires when it was ended here; it is cancelled when the client disconnects.
    """

    def __init__(self, monitor: Any, request: BodyRequest, stall_seconds: float) -> None:
        self._monitor = monitor
        self._writer = HttpWriter(request, monitor.clock, stall_seconds)
        self.over: Deferred[None] = Deferred()

    def tell(self) -> None:
        """Send what is new, unless the client has not taken the last one yet."""
        if self._writer.full:
            return
        monitor = self._monitor
        self._writer.write(f"id: {monitor.looks}\nevent: look\ndata: {monitor.level.name.lower()}\n\n".encode())

    def end(self) -> None:
        """The session is over, or somebody else needs the place."""
        if not self.over.called:
            self._writer.finish()
            self.over.callback(None)
