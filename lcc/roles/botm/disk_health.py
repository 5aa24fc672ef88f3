"""Whether content can be stored: looked at by the clock, and when storing has failed.

*No room*: the disk is full (or nearly full: a reserve is kept), read-only, or fails.  That is no fault of the
URLs that were to be stored, and lasts until somebody repairs it: orders go back to the queue manager, uncounted, and
none are taken.  It is looked at every few seconds, at last by writing something, and the work goes on by itself.

*A pause*: storing has failed, but the disk says that all is well (one content larger than all that is free, say).
The failure is the URL's; for a while, longer each time, nothing else is begun, so that a fault that is not understood
does not fail the whole queue.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from lcc.interfaces import IContentFolder

_log = Logger()

LOOK_SECONDS = 2.0
PAUSE_FIRST_SECONDS = 5.0
PAUSE_MAX_SECONDS = 60.0


class DiskHealth:
    """Checks the disk of the content folder.

    :param changed: called when :attr:`ok` or :attr:`no_room` has changed.
    :ivar no_room: why nothing can be stored until somebody repairs it, for display; empty: it can be.
    """

    def __init__(self, clock: IReactorTime, content: IContentFolder, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._content = content
        self._changed = changed
        self.no_room = ""
        self._pause_seconds = 0.0
        self._pause_call: IDelayedCall | None = None
        self._looked: float | None = None
        self._loop = LoopingCall(self._look)
        self._loop.clock = clock

    @property
    def ok(self) -> bool:
        """Content can be stored, for all that is known."""
        return not self.no_room and self._pause_call is None

    @property
    def look_age_seconds(self) -> float:
        """Since the disk was looked at last; 0: that has not begun."""
        return 0.0 if self._looked is None else max(0.0, self._clock.seconds() - self._looked)

    def start(self) -> None:
        """The content folder is open: look at once, then by the clock."""
        self._loop.start(LOOK_SECONDS)

    def stop(self) -> None:
        """Look no longer."""
        if self._loop.running:
            self._loop.stop()
        if self._pause_call is not None and self._pause_call.active():
            self._pause_call.cancel()

    def failed(self, why: str) -> bool:
        """Something could not be stored.

        :returns: whether that is because there is no room.
        """
        self._see(self._content.no_room(True))
        if self.no_room:
            return True
        if self._pause_call is None:
            seconds = self._pause_seconds = min(max(PAUSE_FIRST_SECONDS, self._pause_seconds * 2), PAUSE_MAX_SECONDS)
            _log.error("Cannot store content: {why}; no fetches for {seconds} seconds", why=why, seconds=seconds)
            self._pause_call = self._clock.callLater(seconds, self._go_on)
            self._changed()
        return False

    def stored(self) -> None:
        """Something was stored."""
        self._pause_seconds = 0.0

    def _go_on(self) -> None:
        self._pause_call = None
        self._changed()

    def _look(self) -> None:
        try:
            self._see(self._content.no_room(bool(self.no_room)))
        except Exception:
            _log.failure("Cannot check the content disk")  # and comes again
        else:
            self._looked = self._clock.seconds()

    def _see(self, no_room: str) -> None:
        before, self.no_room = self.no_room, no_room
        if no_room and not before:
            _log.error("No room for content: {why}. Fetching stops until there is", why=no_room)
        elif before and not no_room:
            _log.info("There is room for content again; fetching goes on")
        if no_room != before:
            self._changed()
