"""The connection of a machine's BOT-M up to the queue manager, or to a central BOT-M that several machines share."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.protocols.work import session_of
from lcc.protocols.xmlfeed import FastElements, Start
from lcc.roles.upstream import Upstream

_log = Logger()


class BotmUpstream(Upstream):
    """Drops what was meant for an earlier connection of this BOT-M; what names none can have come by no other."""

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        mine = ("", self.hello.session)
        here = [each for each in elements if isinstance(each, FastElements) or session_of(each.attributes) in mine]
        if len(here) < len(elements):
            _log.info("Dropping {count} messages for an earlier connection", count=len(elements) - len(here))
        return super().elements_received(here) if here else None
