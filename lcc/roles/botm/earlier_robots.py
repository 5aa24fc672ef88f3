"""Robots of the BOT-M before this one that may still be fetching.

A robot ends all its fetches when its BOT-M dies.  One that hangs does not, and its connections to web servers stay
open.  The orders of the dead BOT-M are known to the queue manager alone, so it is told whether there is such a robot:
then it does not give them out again before their leases end, or this BOT-M has connected again and says that none
hangs any longer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from lcc.interfaces import IContentFolder
from lcc.protocols.hello import Ready

_log = Logger()

WAIT_SECONDS = 5.0
"""A robot may need so long, from the start of this BOT-M, to notice that the one before is gone."""
LOOK_SECONDS = 0.5
WATCH_SECONDS = 2.0
"""Between looks once the queue manager has been told."""


class EarlierRobots:
    """Finds them by the locks that they hold in the content folder.

    :param is_here: whether the robot of this run has connected to this BOT-M: then it has ended its fetches.
    :param over: called when there are none any longer, although the queue manager was told that there are.
    """

    def __init__(
        self,
        clock: IReactorTime,
        content: IContentFolder,
        is_here: Callable[[str], bool],
        over: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._content = content
        self._is_here = is_here
        self._over = over
        self._runs: set[str] = set()
        self._started = 0.0
        self._call: IDelayedCall | None = None

    def load(self) -> None:
        """Begin: no robot has connected yet."""
        self._started = self._clock.seconds()
        try:
            self._runs = self._content.fetching_robots()
        except OSError as error:
            _log.warn("Cannot see which robots hang: {error}", error=str(error))

    def tell(self, told: Callable[[Ready], object]) -> None:
        """Call this with what the queue manager is told: at once, unless they may be about to notice."""
        self.cancel()
        self._look()
        if self._runs and self._clock.seconds() - self._started < WAIT_SECONDS:
            self._call = self._clock.callLater(LOOK_SECONDS, self.tell, told)
            return
        if self._runs:
            _log.warn(
                "Robots of an earlier run of this BOT-M hang ({count}), and may still be fetching: what it had "
                "waits until they have ended, or the leases have. Their process ids are in {folder}",
                count=len(self._runs),
                folder=str(self._content.robots_path),
            )
            self._call = self._clock.callLater(WATCH_SECONDS, self._watch)
        told(Ready(True, int(self._clock.seconds() - self._started)) if self._runs else Ready())

    def cancel(self) -> None:
        """Nobody is to be told any longer."""
        call, self._call = self._call, None
        if call is not None and call.active():
            call.cancel()

    def _watch(self) -> None:
        self._call = None
        self._look()
        if self._runs:
            self._call = self._clock.callLater(WATCH_SECONDS, self._watch)
        else:
            _log.info("No robot of an earlier run of this BOT-M hangs any longer")
            self._over()

    def _look(self) -> None:
        """Which of them are there still."""
        runs = {run for run in self._runs if not self._is_here(run)}
        if runs:
            with suppress(OSError):  # nothing is known, then
                runs = self._content.fetching_robots(runs)
        self._runs = runs
