"""What a role does again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from lcc.roles.background import Background

LOG_SECONDS = 60.0


class LogLimit:
    """Keeps what fails again and again out of the log: each thing is logged once a minute at most."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._quiet_until: dict[str, float] = {}

    def allows(self, what: str) -> bool:
        """Whether this may be logged; if so, it is."""
        now = self._clock.seconds()
        if now < self._quiet_until.get(what, 0.0):
            return False
        self._quiet_until = {text: until for text, until in self._quiet_until.items() if until > now}
        self._quiet_until[what] = now + LOG_SECONDS
        return True


class Loop:
    """Does one thing again and again: when it is woken, each second, and again at once if it was woken meanwhile.

    :param work: does all that there is to do.
    :param failed: called with its failure; gives how many seconds it rests then.
    """

    def __init__(
        self, clock: IReactorTime, work: Callable[[], Awaitable[None]], failed: Callable[[Failure], float]
    ) -> None:
        self._clock = clock
        self._do = work
        self._failed_with = failed
        self._background = Background("", ended=self._ended, failed=self._failed)
        self._again = False
        self._stopped = True
        self._rests_until = 0.0

    def start(self) -> None:
        self._stopped = False
        self._rests_until = 0.0

    def wake(self) -> None:
        """There may be something to do."""
        if self._stopped or self._clock.seconds() < self._rests_until:
            return
        if self._background.busy:
            self._again = True
        else:
            self._again = False
            self._background.begin(self._run())

    def stop(self) -> None:
        """End it; :meth:`start` lets it be woken again."""
        self._stopped = True
        self._again = False
        self._background.cancel()

    @property
    def busy(self) -> bool:
        """It does something."""
        return self._background.busy

    async def _run(self) -> None:
        await self._do()

    def _failed(self, failure: Failure) -> None:
        self._again = False
        if not failure.check(CancelledError) or not self._stopped:
            self._rests_until = self._clock.seconds() + self._failed_with(failure)

    def _ended(self) -> None:
        if self._again:
            self.wake()
