"""A peer that has said hello, while its hello is being compared with the database.

What it says meanwhile is kept, and it is paused at once, so that this is what one read brought at most.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from lcc.errors import StreamError
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.peers.connections import Guest


class Newcomer:
    """A guest that is not let in yet.

    :param admit: makes the guest that it becomes.
    """

    def __init__(self, admit: Callable[[], Guest]) -> None:
        self._admit = admit
        self._guest: Guest | None = None
        self._elements: list[Start] = []
        self._room: Deferred[None] | None = None
        self._lost = False

    def let_in(self) -> None:
        """Its hello is in order."""
        if self._lost:
            return
        room, self._room = self._room, None
        try:
            guest = self._guest = self._admit()
            more = guest.elements_received(self._elements) if self._elements else None
        except StreamError as error:
            if room is None:
                raise
            room.errback(error)
            return
        finally:
            self._elements = []
        if room is not None and more is not None:
            more.chainDeferred(room)
        elif room is not None:
            room.callback(None)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        """It says this."""
        if self._guest is not None:
            return self._guest.elements_received(elements)
        self._elements += elements
        if self._room is None:
            self._room = Deferred()
        return self._room

    def stream_failed(self, error: StreamError) -> None:
        """What it says cannot be understood."""
        if self._guest is not None:
            self._guest.stream_failed(error)

    def lost(self) -> None:
        """It is gone."""
        self._lost = True
        self._elements = []
        room, self._room = self._room, None
        if room is not None:
            room.callback(None)  # the connection may be shared with others, who go on
        if self._guest is not None:
            self._guest.lost()
