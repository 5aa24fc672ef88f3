"""The feed by itself: whatever arrives, in whatever pieces, the same events come out, or the same error."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.task import Clock

from lcc.errors import StreamError
from lcc.protocols.cp_uns import INIT_LIMITS, SET_LIMITS
from lcc.protocols.cu import QUERY_LIMITS
from lcc.protocols.hello import INTERNAL_LIMITS
from lcc.protocols.typed import TYPED_LIMITS
from lcc.protocols.xmlfeed import End, FeedLimits, XmlFeed
from tests.fuzz.target import Target, check
from tests.support.transports import Line

_LIMITS = (FeedLimits(), INIT_LIMITS, SET_LIMITS, QUERY_LIMITS, TYPED_LIMITS, INTERNAL_LIMITS)
_HONEST = b'<?xml version="1.0"?><a:b xmlns:a="http://www.lococa.org/1.0"><c d="e">f</c></a:b>\n<a:g/>'
_WHOLE_BYTES_MAX = 16_384


class Parser(Target):
    """Bytes to events."""

    name = "parser"
    share = 40
    streams = 500

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [
            _HONEST,
            _HONEST + b"<!-- x --><a:h>" + b"<a:i j='k' l='m'/>" * 30 + b"</a:h>",
            b"<a>" + b'<b c="&lt;&#65;&amp;" d=">"><![CDATA[<e>]]>text</b>' * 5 + b"</a>",
            b'<?xml version="1.0" encoding="utf-8" standalone="yes"?>\n<a xmlns="urn:x"><b xmlns=""/>\xc3\xa4</a>',
            b"<a><?pi data?><!-- comment --></a><b/><c></c>" * 3,
            b"  \n<a/>\n\n<?xml version='1.0'?><b/>",
        ]

    def __init__(self, home: Path) -> None:
        self.clock = Clock()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        raise NotImplementedError

    def play(self, random: Random, pieces: Any) -> Line | None:
        limits = random.choice(_LIMITS)
        events, error = _read(pieces, limits)
        # Where a fault is a matter of bytes that wait for more, the cuts decide when it is noticed, not whether.
        data = b"".join(pieces)
        if len(pieces) > 1 and len(data) <= _WHOLE_BYTES_MAX:
            whole, other = _read([data], limits)
            shorter = min(len(events), len(whole))
            check(events[:shorter] == whole[:shorter], "the cuts change the events")
            check((error == "") == (other == "") or "limit" in (error, other), f"cut: {error!r}, whole: {other!r}")
            if not error and not other:
                check(len(events) == len(whole), "the cuts change the number of events")
        return None

    def honest(self) -> None:
        events, error = _read([_HONEST], FeedLimits())
        check(not error and [event.name for event in events] == ["b", "c", "c", "b", "g", "g"], f"it read {events}")


def _read(pieces: Any, limits: FeedLimits) -> tuple[list[Any], str]:
    feed = XmlFeed(limits)
    events: list[Any] = []
    try:
        for piece in pieces:
            more = feed.receive(piece)
            events += more
            check(feed.held_bytes <= limits.token_bytes + 4 or feed.waiting, f"{feed.held_bytes} bytes are held")
            while feed.waiting:
                last = events[-1]
                check(isinstance(last, End) and last.depth == 1, "it waits inside of a document")
                events += feed.next_document()
    except StreamError as error:
        return events + feed.salvaged, error.entry.name
    return events, ""
