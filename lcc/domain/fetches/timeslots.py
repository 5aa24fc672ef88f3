"""Slots: the rolling period of a day or a week, and when its hours are open.

A slot is numbered by the *local* clock: with 24 slots of an hour, slot 2 is what the clock on the wall shows as 2h.
So it does not come at all on the day when the clocks go forward over it, and lasts two hours when they go back.
Every answer is about instants, seconds since 1970, which have no such holes: the local clock is only asked what it
shows at an instant.

Two zones meet here.  Hours are meant in their provider's zone; the slots that a queue row waits in are those of the
LCC.  Where their slots do not begin together (half-hour zones), a row waits for the LCC's slot that begins first
after its hours have opened: its hours last a whole slot, so they are still open then.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from lcc.domain.fetches.hours import DAY_SLOTS, parse_hours
from lcc.model import FETCH_NOW

SLOT_SECONDS = 3600
_MONDAY = 4 * 86400
"""1970-01-05 was a monday: slot 0 of a week begins there."""
_PARSED = 10_000


class TimeSlots:
    """The LCC's period.  Pure but for what it keeps to answer faster, and for the table of time zones.

    :param slots: 24 or 168 (see :func:`lcc.domain.fetches.hours.parse_hours`).
    :param slot_seconds: length of a slot.
    :param timezone: the LCC's IANA zone; empty: the machine's.
    """

    def __init__(self, slots: int = DAY_SLOTS, slot_seconds: int = SLOT_SECONDS, timezone: str = "") -> None:
        self.slots = slots
        self.slot_seconds = slot_seconds
        self.timezone = timezone
        self.period_seconds = slots * slot_seconds
        self.always = (1 << slots) - 1
        self._spans: dict[str, tuple[float, float, int]] = {}
        self._parse = lru_cache(_PARSED)(parse_hours)

    # Hours.

    def mask(self, hours: str) -> int:
        """Hours as a mask, bit 0 for slot 0; 0: they cannot be understood in this period."""
        try:
            return self._parse(hours, self.slots)
        except ValueError:
            return 0

    def meet(self, hours: str, provider_hours: str) -> int:
        """When both allow fetching; 0: never."""
        return self.mask(hours) & self.mask(provider_hours)

    # The clock.

    def current(self, now: float, timezone: str = "") -> int:
        """The slot of this instant."""
        return self._span(now, timezone)[2]

    def slot_end(self, now: float, timezone: str = "") -> float:
        """The first instant after this one when the local clock enters a slot (or is set, which may enter one)."""
        return self._span(now, timezone)[1]

    def is_open(self, mask: int, now: float, timezone: str = "") -> bool:
        """Whether these hours are open at this instant."""
        return bool(mask >> self._span(now, timezone)[2] & 1)

    def opening(self, mask: int, now: float, timezone: str = "") -> float | None:
        """The first instant from now on when these hours are open (now, if they are); None: never."""
        if not mask & self.always:
            return None
        at = now
        # A clock change may swallow a slot once, not twice in a row: two periods and some are enough.
        for _ in range(3 * self.slots):
            _since, end, slot = self._compute(at, timezone)
            if mask >> slot & 1:
                return at
            at = end
        return None

    def closing(self, mask: int, now: float, timezone: str = "") -> float:
        """The first instant from now on when these hours are closed (now, if they are); without end where they never
        close within two periods."""
        if mask & self.always == self.always:
            return float("inf")
        at = now
        for _ in range(3 * self.slots):
            _since, end, slot = self._compute(at, timezone)
            if not mask >> slot & 1:
                return at
            at = end
        return float("inf")

    def closed_spans(self, hours: str, begin: float, now: float, timezone: str = "") -> list[tuple[float, float]]:
        """The stretches of time after ``begin``, and within the last eight periods, in which these hours were closed,
        and that have ended by now: when each began, when it ended; the latest one last.  None where they are never
        open, or cannot be understood."""
        mask, spans, at = self.mask(hours), [], max(begin, now - 8 * self.period_seconds)
        while mask:
            closed = self.closing(mask, at, timezone)
            at = now if closed > now else self.opening(mask, closed, timezone) or now
            if closed > now or at > now:
                break
            spans.append((closed, at))
        return spans

    # Rows of the queue.

    def slot(self, hours: str, provider_hours: str, timezone: str, now: float) -> int:
        """Where a row waits: FETCH_NOW, or the LCC's slot when it may be fetched next.

        A row without hours of its own never waits in a slot: its provider does.  One whose hours never meet those of
        the provider (they have changed since) is not hidden in a slot either: it is reported when it is reached.
        """
        if not hours.strip():
            return FETCH_NOW
        opens = self.opening(self.meet(hours, provider_hours), now, timezone)
        if opens is None or opens <= now:
            return FETCH_NOW
        since, end, slot = self._compute(opens, "")
        return slot if since == opens else self.current(end)

    def begun(self, after: float, now: float) -> list[int]:
        """The LCC's slots that have begun after one instant and up to another, in order, each once; those of the last
        period, if it is longer than that."""
        begun: dict[int, None] = {}  # the latest first
        first = max(after, now - self.period_seconds - 86400.0)
        since, _, slot = self._compute(now, "")
        while since > first and len(begun) < self.slots:
            begun.setdefault(slot)
            since, _, slot = self._compute(since - 1.0, "")
        return list(reversed(begun))

    # Inside.

    def _span(self, now: float, timezone: str) -> tuple[float, float, int]:
        span = self._spans.get(timezone)
        if span is None or not span[0] <= now < span[1]:
            span = self._spans[timezone] = self._compute(now, timezone)
        return span

    def _compute(self, at: float, timezone: str) -> tuple[float, float, int]:
        """A stretch around an instant in which the local clock shows one slot and is not set: when it began, when it
        ends, the slot."""
        zone = timezone or self.timezone
        offset = _offset(at, zone)
        shown = at + offset - _MONDAY
        number = int(shown // self.slot_seconds)
        since = float(number * self.slot_seconds + _MONDAY - offset)
        end = since + self.slot_seconds
        if _offset(end, zone) != offset:  # (a clock that is set exactly at the end changes nothing here)
            end = _change(at, end, zone, offset)
        if _offset(since, zone) != offset:
            since = _change(since, at, zone, _offset(since, zone))
        return since, end, number % self.slots


def _change(low: float, high: float, zone: str, before: int) -> float:
    """The instant (a whole second) in between from which the zone's offset is another than before."""
    first, last = int(low // 1), int(high // 1)
    while last - first > 1:
        middle = (first + last) // 2
        if _offset(middle, zone) == before:
            first = middle
        else:
            last = middle
    return float(last)


def _offset(at: float, zone: str) -> int:
    """Seconds that the local clock is ahead of UTC at this instant."""
    if not zone:
        return time.localtime(at).tm_gmtoff
    offset = datetime.fromtimestamp(at, _zone(zone)).utcoffset() or timedelta()
    return offset.days * 86400 + offset.seconds


@lru_cache(1000)
def _zone(name: str) -> ZoneInfo:
    """A zone that this machine does not know (any longer) counts as UTC: ``lcc-admin check`` tells of it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")
