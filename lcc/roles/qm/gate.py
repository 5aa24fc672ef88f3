"""Whether what is next may be fetched at this moment: the hours of a provider, and of a URL."""

from __future__ import annotations

from lcc.domain.timeslots import TimeSlots
from lcc.model import FETCH_NOW, QueueRow
from lcc.roles.qm.delays import Delays
from lcc.roles.qm.work import Limits, ProviderWork

_NO_LIMITS = Limits()


class Gate:
    """Looks at hours, and collects the rows that must not be handed out.

    :param margin_seconds: the end of hours that is not used, because an order may wait for a robot as long.

    :ivar removed: rows whose operation is "nothing" that were reached: ``(key, generation)``, for the recorder.
    :ivar closed: rows whose own hours had closed when they were reached: ``(key, generation, slot)``, likewise.
    :ivar never: rows whose hours never meet their provider's: to be recorded as errors.
    """

    def __init__(self, timeslots: TimeSlots, delays: Delays, margin_seconds: float) -> None:
        self._timeslots = timeslots
        self._delays = delays
        self._margin = min(margin_seconds, timeslots.slot_seconds / 4)
        self.removed: list[tuple[bytes, int]] = []
        self.closed: list[tuple[bytes, int, int]] = []
        self.never: list[QueueRow] = []

    @property
    def reached_count(self) -> int:
        """Rows that were reached and not handed out, which the recorder is to take."""
        return len(self.removed) + len(self.closed) + len(self.never)

    def lets_provider(self, work: ProviderWork, now: float) -> bool:
        """Whether the provider's hours are open; else it is delayed until they are."""
        if work.open_since <= now < work.open_until:
            return True
        limits = _NO_LIMITS if work.info is None else work.info.limits
        slots = self._timeslots
        mask = slots.mask(limits.hours)
        opens = slots.opening(mask, now, limits.timezone)
        if opens is not None and opens <= now:
            closes = slots.closing(mask, now, limits.timezone)
            if now < closes - self._margin:
                work.open_since, work.open_until = now, closes - self._margin
                return True
            opens = slots.opening(mask, closes, limits.timezone)
        # Hours that this period does not know are never open; a change of the provider ends the delay.
        self._delays.closed(work.pid, now + slots.period_seconds if opens is None else opens, now)
        return False

    def lets_row(self, work: ProviderWork, row: QueueRow, now: float) -> bool:
        """Whether the row may be handed out; else it is in one of the lists."""
        if row.delete:
            self.removed.append((row.key, row.generation))
            return False
        hours = row.notice.hours
        if not hours:
            return True
        limits = _NO_LIMITS if work.info is None else work.info.limits
        slots = self._timeslots
        mask = slots.meet(hours, limits.hours)
        if not mask:
            self.never.append(row)
            return False
        is_open = slots.is_open(mask, now, limits.timezone)
        later = now + self._margin
        if is_open and slots.is_open(mask, later, limits.timezone):
            return True
        slot = slots.slot(hours, limits.hours, limits.timezone, later if is_open else now)
        assert slot != FETCH_NOW
        self.closed.append((row.key, row.generation, slot))
        return False
