"""Notes who reads, and how far it is, for the web monitor.

Owns: what was not written yet, a reading for each user.  Strategy: requests are noted in memory, and written together
every few seconds, one small row for each user that has asked meanwhile.  Failures: what cannot be written is tried
again with what comes next; a crash loses some seconds of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from lcc.errors import StoreUnavailable
from lcc.roles.access import Access
from lcc.roles.cu.tokens import BEGINNING, TokenError, parse_token
from lcc.storage.views.readers import Reading

_log = Logger()

WRITE_SECONDS = 10.0


class Readership:
    """What content users did last.

    :param write: writes readings (:func:`lcc.storage.views.readers.note_readings`).
    :param now: seconds since 1970.
    """

    def __init__(
        self, write: Callable[[Mapping[int, Reading]], Deferred[None]], clock: IReactorTime, now: Callable[[], float]
    ) -> None:
        self._write = write
        self._now = now
        self._readings: dict[int, Reading] = {}
        self._writer = LoopingCall(self._write_all)
        self._writer.clock = clock

    def start(self) -> None:
        """Write by the clock from now on."""
        self._writer.start(WRITE_SECONDS, now=False)

    def stop(self) -> Deferred[None]:
        """No longer; fires when all is written, or cannot be."""
        if self._writer.running:
            self._writer.stop()
        return Deferred.fromCoroutine(self._write_all())

    def asked(self, access: Access) -> None:
        """Somebody has asked for something."""
        before = self._readings.get(access.cuid)
        now = int(self._now())
        self._readings[access.cuid] = Reading(now) if before is None else attrs.evolve(before, last_time=now)

    def has(self, access: Access, since: str | None) -> None:
        """Somebody who has all changes up to here has asked for those since.

        :param since: a token, maybe none.
        """
        if since in BEGINNING:
            self._readings[access.cuid] = Reading(int(self._now()), "", 0)
            return
        try:
            token = parse_token(since or "")
        except TokenError:
            return
        self._readings[access.cuid] = Reading(int(self._now()), token.timeline, token.number)

    async def _write_all(self) -> None:
        readings, self._readings = self._readings, {}
        if not readings:
            return
        try:
            await self._write(readings)
        except Exception as error:
            self._readings = readings | self._readings
            if not isinstance(error, StoreUnavailable):  # that is logged by the store
                _log.failure("Cannot note who reads the cache")
