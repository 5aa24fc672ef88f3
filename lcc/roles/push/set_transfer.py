"""Both directions of a set that is submitted by HTTP: its body on its way to the UNS, and the lines of the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.client.conversation import Conversation
from lcc.errors import StreamError
from lcc.protocols.cp_uns import UrlFault
from lcc.protocols.set_bodies import SetBody
from lcc.transport.http.replies import reply
from lcc.transport.http.server import UploadRequest

MEDIA_TYPE = "application/x-ndjson"
HELD_BYTES_MAX = 65_536
"""Errors of a short body wait for the verdict, which decides the status: as many as this."""


def line_of(values: Mapping[str, Any]) -> bytes:
    """A line of an answer."""
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


class Upload:
    """Passes a body on to the UNS as it comes, no faster than that takes it.

    :ivar done: fires when all of it was passed on; fails with StreamError where it cannot be read or does not come.
    """

    def __init__(
        self,
        request: UploadRequest,
        conversation: Conversation,
        body: SetBody,
        clock: IReactorTime,
        stall_seconds: float,
    ) -> None:
        self.done: Deferred[None] = Deferred(lambda _: self._stop())
        self._request = request
        self._conversation = conversation
        self._body = body
        self._clock = clock
        self._stall_seconds = stall_seconds
        self._stall: IDelayedCall | None = None
        self._last = clock.seconds()
        self._over = False
        self._watch()

    def body_received(self, data: bytes) -> None:
        """As :class:`lcc.transport.http.server.UploadTaker` says."""
        if self._over:
            return
        self._last = self._clock.seconds()
        try:
            elements = self._body.receive(data)
        except StreamError as error:
            self._fail(error)
            return
        if elements:
            self._conversation.write(elements)
            room = self._conversation.room()
            if room is not None:
                self._request.hold_upload()
                self._cancel_watch()
                room.addCallback(self._go_on)

    def body_ended(self) -> None:
        """As :class:`lcc.transport.http.server.UploadTaker` says."""
        if self._over:
            return
        try:
            self._conversation.write(self._body.end())
        except StreamError as error:
            self._fail(error)
            return
        self._stop()
        self.done.callback(None)

    def refused(self, failure: Failure) -> None:
        """The UNS has refused the set, perhaps before its end."""
        self._fail(failure)

    def _fail(self, why: Failure | StreamError) -> None:
        if not self._over:
            self._stop()
            self.done.errback(why)

    def _go_on(self, _: None) -> None:
        if not self._over:
            self._last = self._clock.seconds()
            self._watch()
            self._request.resume_upload()

    def _stop(self) -> None:
        self._over = True
        self._cancel_watch()

    def _watch(self) -> None:
        if self._stall is None:
            self._stall = self._clock.callLater(self._stall_seconds, self._look)

    def _look(self) -> None:
        self._stall = None
        quiet = self._clock.seconds() - self._last
        if quiet >= self._stall_seconds:
            self._fail(StreamError("timeout", f"nothing of the body for {self._stall_seconds:g} seconds"))
        else:
            self._stall = self._clock.callLater(self._stall_seconds - quiet, self._look)

    def _cancel_watch(self) -> None:
        stall, self._stall = self._stall, None
        if stall is not None and stall.active():
            stall.cancel()


@implementer(IPushProducer)
class SetAnswer:
    """The answer: a line for each URL that is refused, then the verdict.

    While the client does not read, the UNS is not read: it keeps what it has to say.  Once the body has come, a
    client that does not read is dropped after a while.

    :ivar faults: lines so far.
    :ivar has_begun: some of it was written: the status is 200.
    """

    def __init__(
        self, request: UploadRequest, conversation: Conversation, clock: IReactorTime, stall_seconds: float
    ) -> None:
        self.faults = 0
        self.has_begun = False
        self._request = request
        self._conversation = conversation
        self._clock = clock
        self._stall_seconds = stall_seconds
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._waits = self._body_here = False
        self._stall: IDelayedCall | None = None
        self._gone = False
        request.notifyFinish().addBoth(lambda _: self.stopProducing())

    def fault(self, fault: UrlFault) -> None:
        """A URL was refused."""
        self.faults += 1
        line = line_of({"url": fault.url, "code": fault.code, "error": fault.text, "element": fault.attributes})
        if self._kept_bytes < HELD_BYTES_MAX:
            self._kept.append(line)
            self._kept_bytes += len(line)
        if self._gone:
            return
        if self.has_begun:
            self._request.write(line)
            return
        self._held.append(line)
        self._held_bytes += len(line)
        if self._request.uploads or self._held_bytes > HELD_BYTES_MAX:
            self._begin()

    def kept(self, verdict: Mapping[str, Any], most: int) -> str:
        """The answer as it can be given again, in so many bytes: all errors, or none of them."""
        last = line_of(verdict)
        if len(self._kept) == self.faults and self._kept_bytes + len(last) <= most:
            return b"".join([*self._kept, last]).decode()
        return line_of({**verdict, "errors_omitted": True}).decode()

    def repeat(self, status: int, text: str) -> None:
        """Answer as before."""
        self._request.setHeader("idempotent-replayed", "true")
        self._reply(status, text.encode())

    def finish(self, status: int, verdict: Mapping[str, Any]) -> None:
        """The last line; the status is this one unless the answer has begun."""
        if self._gone:
            return
        line = line_of(verdict)
        if not self.has_begun:
            self._reply(status, b"".join([*self._held, line]))
            return
        self._request.write(line)
        self._request.unregisterProducer()
        self._request.finish()

    def body_has_come(self) -> None:
        """From now on the client has nothing to do but to read."""
        self._body_here = True
        if self._waits:
            self._watch()

    def _reply(self, status: int, data: bytes) -> None:
        if not self._request.is_complete:
            self._request.setHeader("connection", "close")
        reply(self._request, status, MEDIA_TYPE, data, {})

    def _begin(self) -> None:
        self.has_begun = True
        request = self._request
        request.setHeader("content-type", MEDIA_TYPE)
        request.registerProducer(self, True)
        request.write(b"".join(self._held))
        self._held.clear()

    def _watch(self) -> None:
        if self._stall is None:
            channel: Any = self._request.channel
            self._stall = self._clock.callLater(self._stall_seconds, channel.forceAbortClient)

    # IPushProducer.

    def pauseProducing(self) -> None:
        """The client does not read."""
        self._waits = True
        self._conversation.pause()
        if self._body_here:
            self._watch()

    def resumeProducing(self) -> None:
        """It does again."""
        self._waits = False
        stall, self._stall = self._stall, None
        if stall is not None and stall.active():
            stall.cancel()
        self._conversation.resume()

    def stopProducing(self) -> None:
        """It is gone, or has everything."""
        self._gone = True
        self.resumeProducing()
