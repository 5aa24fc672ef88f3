"""The control connection to an FTP server: Twisted's client, within bounds.

Twisted's client speaks the protocol; this stands between it and the transport, because it takes replies of any
length, waits for ever, and takes any line of a longer reply that begins with a number for its end.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.download import Connections
from lcc.fetchers.ftp_words import DETAIL_CHARS_MAX, refusal
from lcc.fetchers.steps import Steps


class FtpControl(Protocol):
    """One control connection, one command at a time.

    :ivar key: what the fetcher keeps it under.
    :ivar received_bytes: of replies, since :meth:`begin`.
    :ivar replies: how many came since then, a 421 not among them.
    :ivar served: fetches that it was used for.
    :ivar extended: EPSV has not been refused.
    :ivar machine_lists: nor has MLSD.
    :ivar lost: it is closed, or the server has said that it closes it (421; RFC 959, 5.4), or has spoken unasked.
    """

    def __init__(
        self, clock: Any, settings: BotConfig, connections: Connections, steps: Steps, key: object = None
    ) -> None:
        # Late: on import it asks for the global reactor, and uses it for nothing that is used here.
        from twisted.protocols.ftp import FTPClientBasic

        self.key = key
        self.received_bytes = 0
        self.replies = 0
        self.served = 0
        self.extended = True
        self.machine_lists = True
        self.lost = False
        self._clock = clock
        self._settings = settings
        self._connections = connections
        self._steps = steps
        self._idle: Any = None
        self._reply_bytes = 0
        self._long_reply = b""
        self._fault: FetchError | None = None
        client: Any = FTPClientBasic()
        self._line_received = client.lineReceived
        client.lineReceived = self._line
        self._send_line = client.sendLine
        client.sendLine = self._sent
        self._client = client

    # The fetcher's side.

    def begin(self) -> None:
        """Another fetch begins."""
        self.received_bytes = self.replies = 0
        self.served += 1
        if self._idle is not None and self._idle.active():
            self._idle.cancel()

    def rest(self) -> None:
        """No fetch for now: close after ``keepalive`` seconds."""
        self._idle = self._clock.callLater(self._settings.keepalive, self._say_goodbye)

    async def ask(self, command: str, login: bool = False) -> str:
        """The last line of the reply to a command.

        :param login: belongs to the login.
        :raises FetchError: the server refused, or did not answer in time.
        """
        return await self.send(command, login).addTimeout(self._settings.idle_timeout, self._clock, self._no_answer)

    def send(self, command: str, login: bool = False) -> Deferred[str]:
        """As :meth:`ask`, but without a limit in time."""
        from twisted.protocols.ftp import CommandFailed

        if self.lost or self._fault is not None:
            return fail(self._fault or FetchError("connection-lost", "the control connection"))
        self._reply_bytes = 0

        def replied(lines: list[str]) -> str:
            return lines[-1]

        def failed(failure: Failure) -> Failure:
            error: Any = failure.value
            cause = error
            while not isinstance(cause, CommandFailed) and cause.args and isinstance(cause.args[-1], Failure):
                cause = cause.args[-1].value  # "connection lost", because the greeting was a refusal
            if failure.check(CancelledError):
                return failure
            if self._fault is not None:
                return Failure(self._fault)
            if isinstance(cause, CommandFailed):
                return Failure(refusal(cause.args[0], login))
            if self.lost:
                name = "early-eof" if self.replies else "connection-lost"
                return Failure(FetchError(name, "the control connection was lost"))
            return Failure(FetchError("bad-response", str(error)[:DETAIL_CHARS_MAX]))

        result: Deferred[str] = self._client.queueStringCommand(command).addCallbacks(replied, failed)
        return result

    def abort(self) -> None:
        """Cut the connection."""
        if self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # it is connected

    # The transport's side.

    def connectionMade(self) -> None:
        self._connections.made(self)
        self._client.makeConnection(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self._reply_bytes += len(data)
        if self._reply_bytes > self._settings.header_bytes_max:
            self._fail(FetchError("headers-too-long", "a reply of the server"))
        elif self._fault is None:
            self._client.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True
        self._connections.lost(self)
        if self._idle is not None and self._idle.active():
            self._idle.cancel()
        self._client.connectionLost(reason)

    def _sent(self, line: str) -> None:
        """A command goes out: the first one only after the server's greeting."""
        self._steps.tell("request", line)
        self._send_line(line)

    def _line(self, line: bytes) -> None:
        """A line of a reply, for Twisted's client: one inside of a longer reply is made to look so."""
        if self._fault is not None:
            return
        if self._client.nextDeferred is None:
            # Nothing was asked: it says good-bye (421), or is out of step.
            self.lost = True  # at once: the transport says so a turn later, and a fetch may begin before
            self._fail(FetchError("bad-response", ascii(line[:DETAIL_CHARS_MAX].decode("latin-1"))))
            return
        self._steps.tell("response", line[:DETAIL_CHARS_MAX].decode("latin-1"))
        begin = line[:4]
        if self._long_reply:
            if begin == self._long_reply + b" ":
                self._long_reply = b""
            else:
                line = b" " + line
        elif begin[3:] == b"-" and begin[:3].isdigit():
            self._long_reply = begin[:3]
        if not self._long_reply:
            if begin == b"421 ":
                # The reply to any command; after an idle time it was sent before the command came.
                self.lost = True
            else:
                self.replies += 1
        self._line_received(line)

    def _fail(self, error: FetchError) -> None:
        self._fault = error
        self.abort()

    def _no_answer(self, result: Any, _seconds: float) -> Any:
        return Failure(FetchError("idle-timeout")) if isinstance(result, Failure) else result

    def _say_goodbye(self) -> None:
        # Without waiting for an answer: a server that has none is not worth a timer.
        self.transport.write(b"QUIT\r\n")  # type: ignore[union-attr]  # it is connected
        self.transport.loseConnection()  # type: ignore[union-attr]  # it is connected
