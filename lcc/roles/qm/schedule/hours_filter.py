"""Whether what is next may be fetched at this moment: the hours of a provider, and of a URL; its roots.

Hours end for an order, too: it says how long its fetch may still be begun (``start_seconds``), and whoever holds it
then sends it back.  So an order may wait for a robot, for another robot, for a disk, and still no fetch begins
outside its hours.  What the way takes cannot be seen from either end: a margin before the end is left for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lcc.domain.fetches.timeslots import TimeSlots
from lcc.model import QueueRow, Source
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.work import Limits, ProviderWork

_NO_LIMITS = Limits()
_POLLED = int(Source.POLLED)
_LEAST_SECONDS = 1.0
"""An order with less time to begin than this is not worth sending."""


class Closed(NamedTuple):
    """A row that was reached outside its own hours; it is to go to its slot.

    :ivar after: the slot that comes first after this time is meant (seconds since 1970).
    """

    key: bytes
    generation: int
    hours: str
    limits: Limits
    after: float


class HoursFilter:
    """Looks at hours, and collects the rows that must not be handed out.

    :param margin_seconds: the end of hours that is not used; a quarter of a slot at most.

    :ivar removed: rows whose operation is "nothing" that were reached: ``(key, generation)``, for the recorder.
    :ivar closed: rows whose own hours had closed when they were reached, likewise.
    :ivar never: rows whose hours never meet their provider's: to be recorded as errors.
    :ivar outside: rows outside of their provider's roots, which have changed since they were told: likewise.
    """

    def __init__(self, timeslots: TimeSlots, delays: Delays, margin_seconds: float) -> None:
        self._timeslots = timeslots
        self._delays = delays
        self._margin = min(margin_seconds, timeslots.slot_seconds / 4)
        self.removed: list[tuple[bytes, int]] = []
        self.closed: list[Closed] = []
        self.never: list[QueueRow] = []
        self.outside: list[QueueRow] = []

    @property
    def reached_count(self) -> int:
        """Rows that were reached and not handed out, which the recorder is to take."""
        return len(self.removed) + len(self.closed) + len(self.never) + len(self.outside)

    def lets_provider(self, work: ProviderWork, now: float) -> bool:
        """Whether the provider's hours are open; else it is delayed until they are."""
        if work.open_since <= now < work.open_until:
            return True
        limits = _NO_LIMITS if work.info is None else work.info.limits
        slots = self._timeslots
        mask = slots.mask(limits.hours)
        opens = slots.opening(mask, now, limits.timezone)
        if opens is not None:
            closes = slots.closing(mask, now, limits.timezone)  # now, if they are closed
            until = closes - self._margin
            if now < until - _LEAST_SECONDS:
                work.open_since, work.open_until, work.hours_end = now, until - _LEAST_SECONDS, until
                return True
            opens = slots.opening(mask, closes, limits.timezone)
        # Hours that this period does not know are never open; a change of the provider ends the delay.
        self._delays.closed(work.pid, now + slots.period_seconds if opens is None else opens, now)
        return False

    def lets_row(self, work: ProviderWork, row: QueueRow, now: float) -> bool:
        """Whether the row may be handed out, and until when it must be begun then (``work.start_by``); else it is in
        one of the lists."""
        if row.delete:
            self.removed.append((row.key, row.generation))
            return False
        if work.info is not None and not row.notice.lies_within(work.info.prefixes) and row.source != _POLLED:
            self.outside.append(row)
            return False
        work.start_by = work.hours_end
        hours = row.notice.hours
        if not hours:
            return True
        limits = _NO_LIMITS if work.info is None else work.info.limits
        slots = self._timeslots
        mask = slots.meet(hours, limits.hours)
        if not mask:
            self.never.append(row)
            return False
        closes = slots.closing(mask, now, limits.timezone)  # now, if they are closed
        until = closes - self._margin
        if now < until - _LEAST_SECONDS:
            work.start_by = until
            return True
        self.closed.append(Closed(row.key, row.generation, hours, limits, closes))
        return False

    def slots_of(self, closed: Iterable[Closed], now: float) -> list[tuple[bytes, int, int]]:
        """Rows with the slots that they go to: ``(key, generation, slot)``.  It is asked when they are written, not
        when they were reached: a slot that has begun in between will not be opened again for a whole period."""
        slot = self._timeslots.slot
        return [
            (row.key, row.generation, slot(row.hours, row.limits.hours, row.limits.timezone, max(now, row.after)))
            for row in closed
        ]
