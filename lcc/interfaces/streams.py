"""Streams: what parses their bytes, and what handles what was parsed."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface

from lcc.errors import StreamError


class IFeed(Interface):
    """Parses the bytes of a stream into events (see :class:`lcc.protocols.xmlfeed.XmlFeed`)."""

    waiting: bool = Attribute("True from a document's end until next_document.")
    salvaged: list[Any] = Attribute("After a StreamError: the events of that call that came before the fault.")

    def receive(data: bytes) -> list[Any]:
        """Parse bytes, return events.  Raises StreamError."""

    def next_document() -> list[Any]:
        """Continue with the next document.  Raises StreamError."""


class IConversation(Interface):
    """The handler of a stream (see :class:`lcc.transport.stream.XmlStream`)."""

    def stream_opened(stream: Any) -> None:
        """The transport is connected; ``stream.send`` works from now on."""

    def events_received(events: list[Any]) -> Deferred[Any] | None:
        """Elements arrived.  A Deferred pauses the peer until it fires; a StreamError (raised, or its failure)
        is reported to ``stream_failed``, any other failure aborts the stream."""

    def stream_failed(error: StreamError) -> None:
        """Protocol error or timeout.  The conversation may still send, and must close the stream (``finish`` or
        ``abort``)."""

    def stream_resumed() -> None:
        """The transport's buffer has drained after ``writable`` was false."""

    def peer_finished() -> None:
        """The peer closed its sending half; the conversation may still send, and must close the stream."""

    def stream_closed(reason: Failure) -> None:
        """The connection is closed; called once, last."""
