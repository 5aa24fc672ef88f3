"""What a connection needs from those around it: limits, an owner, and somebody who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from lcc.errors import FetchError
from lcc.fetchers.http_head import ResponseHead
from lcc.interfaces import IContentSink

if TYPE_CHECKING:
    from lcc.fetchers.http_protocol import HttpConnection


class Limits(Protocol):
    """What of :class:`lcc.config.BotConfig` concerns one connection."""

    @property
    def connect_timeout(self) -> float: ...
    @property
    def idle_timeout(self) -> float: ...
    @property
    def keepalive(self) -> float: ...
    @property
    def header_bytes_max(self) -> int: ...
    @property
    def body_bytes_max(self) -> int: ...


class Exchange(Protocol):
    """Who asked for something on a connection."""

    def head_received(self, head: ResponseHead) -> IContentSink | None:
        """The final response has begun.  Gives the sink for its body; None: the body is not wanted.

        :raises FetchError: the response is not acceptable."""

    def exchange_ended(self, connection: HttpConnection, error: FetchError | None, untouched: bool) -> None:
        """The response is complete, or failed.  Called last, once; the next request may be sent at once.

        :param untouched: a connection that had served before was lost before any byte of this response: the request
            may be sent again."""


class Owner(Protocol):
    """Who keeps connections."""

    def connection_made(self, connection: HttpConnection) -> None:
        """There is a socket now."""

    def connection_lost(self, connection: HttpConnection) -> None:
        """It is gone; called once, also for one that was never ready."""


def describe_loss(reason: Failure) -> str:
    """Why a connection was lost, in words: OpenSSL's reasons are lists of triples."""
    arguments = reason.value.args if reason.value is not None else ()
    first = arguments[0] if arguments else None
    if isinstance(first, list) and first and isinstance(first[0], tuple):
        return "; ".join(str(item[-1]) for item in first)[:200]
    if reason.check(ConnectionDone):
        return "the server closed the connection"
    return reason.getErrorMessage()[:200]
