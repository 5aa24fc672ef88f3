"""The same bytes, cut in every way."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.errors import StreamError
from lcc.protocols.xmlfeed import Event, FeedLimits, XmlFeed


def segmentations(data: bytes) -> Iterator[list[bytes]]:
    """Every cut into two pieces, then every size of pieces."""
    for cut in range(1, len(data)):
        yield [data[:cut], data[cut:]]
    for size in range(1, min(len(data), 80) + 1):
        yield [data[start : start + size] for start in range(0, len(data), size)]


def read(
    pieces: list[bytes], limits: FeedLimits | None = None, prefixes: dict[str, str] | None = None
) -> tuple[list[Event], str]:
    """All events of a conversation that always wants the next document, and the name of the error that ended it."""
    feed = XmlFeed(limits, prefixes)
    events: list[Event] = []
    try:
        for piece in pieces:
            events += feed.receive(piece)
            while feed.waiting:
                more = feed.next_document()
                events += more
    except StreamError as error:
        return events + feed.salvaged, error.entry.name
    return events, ""


def read_patiently(pieces: list[bytes]) -> tuple[list[Event], str]:
    """The same for a conversation that asks for the next document only when all bytes are there."""
    feed = XmlFeed()
    events: list[Event] = []
    try:
        for piece in pieces:
            events += feed.receive(piece)
        while feed.waiting:
            events += feed.next_document()
    except StreamError as error:
        return events + feed.salvaged, error.entry.name
    return events, ""
