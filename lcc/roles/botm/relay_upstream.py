"""The connection of a central BOT-M up to the queue manager, or to the central BOT-M above it."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.internet.defer import Deferred

from lcc.errors import StreamError
from lcc.protocols.flat import Flat
from lcc.protocols.work import DOWN, addressee, session_of
from lcc.protocols.xmlfeed import Start
from lcc.roles.upstream import Upstream


class RelayUpstream(Upstream):
    """Its messages are tuples: the machine that a message is for, its session (empty: none is named), the message."""

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        self.engine.upstream_messages(self, self._addressed(elements))
        return None

    def _addressed(self, elements: list[Start]) -> Iterator[tuple[int, str, Flat]]:
        for name, attributes, _depth in elements:
            message = DOWN.read(name, attributes)
            machine = addressee(name, attributes)
            if not machine:
                raise StreamError("syntax", f"<{name}> to no machine, at a BOT-M that has none of its own")
            yield machine, session_of(attributes), message
