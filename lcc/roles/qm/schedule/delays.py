"""Providers that must wait, and until when.  (Seed 002: the "bandwidth-delay" table and the delay of time slots.)

Some reasons, each with its own time; a provider waits for the latest of them:

*bandwidth*
    what was fetched from it is not paid for yet (:mod:`lcc.domain.fetches.bandwidth`).  Provider 0 is the whole site.
*interval*
    its last fetch began too short a time ago.
*hours*
    its hours are closed.
*retry-after*
    its web server has answered 429 or 503, and said when to come back.
*site-error*
    its site is unreachable.  The delay doubles with each failure in a row, up to a maximum, and is shortened a
    little at random, so that providers on one dead network do not all come back in the same second.

A delay is one small record, whatever waits behind it in the queue.  Delays that matter beyond a restart are saved;
times are seconds since 1970 for that reason.  When the wall clock is set, forward or back, all of them are moved with
it (:meth:`Delays.stepped`), so that none becomes longer or shorter; hours are looked at again, because they are times
of day.  The same is done with what was saved, if the clock was set back while no queue manager ran: each delay that
is saved says when that was.  If it was set forward then, that looks as if more time had passed: what waits for no
hours goes on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush, nsmallest

from lcc.domain.fetches import bandwidth
from lcc.model import Delay

SITE = 0
"""In place of a provider's id: everybody."""

BANDWIDTH, INTERVAL, HOURS, SITE_ERROR, RETRY_AFTER = REASONS = (
    "bandwidth",
    "interval",
    "hours",
    "site-error",
    "retry-after",
)

SAVED_SECONDS = 1.0
"""What ends sooner is not saved: no restart is so quick."""
_URGENT_SECONDS = 10.0
_BANDWIDTH_CAP_SECONDS = 90 * 86400.0
_LONG_CAP_SECONDS = 30 * 86400.0
"""Of intervals, and of what web servers ask for, as they are loaded."""


class Delayed:
    """One provider's delays.

    :ivar owed: when what was fetched is paid for; 0: it is.
    :ivar rate: bytes per second, that ``owed`` was reckoned with.
    :ivar due: when its next fetch may begin, because of when the last one did; 0: at any time.
    :ivar interval: seconds, that ``due`` was reckoned with.
    :ivar hours: when its hours open; 0: they are open.
    :ivar asked: until when its web server has asked to be left alone; 0: it has not.
    :ivar asked_code: the answer in which it did.
    :ivar retry: when its site is retried; 0: it is reachable, as far as is known.
    :ivar code: the error that ``retry`` is for.
    :ivar failures: in a row.
    :ivar since: when the first of them was, or of those before an operator's retry; 0: it was reached since.
    :ivar until: the latest of them while it waits; 0: it does not.
    """

    __slots__ = (
        *("asked", "asked_code", "code", "due", "failures", "hours", "interval", "owed", "rate", "retry"),
        *("since", "until"),
    )

    def __init__(self) -> None:
        self.owed = 0.0
        self.rate: int | None = None
        self.due = 0.0
        self.interval = 0.0
        self.hours = 0.0
        self.asked = 0.0
        self.asked_code = 0
        self.retry = 0.0
        self.code = 0
        self.failures = 0
        self.since = 0.0
        self.until = 0.0

    def forgive(self) -> None:
        """Nothing is known against its site."""
        self.failures = self.code = 0
        self.since = 0.0

    @property
    def latest(self) -> float:
        """When nothing of all this is a reason any longer."""
        return max(self.owed, self.due, self.hours, self.asked, self.retry)

    @property
    def reason(self) -> str:
        """Why it waits."""
        if not self.until:
            return ""
        if self.retry >= self.until:
            return SITE_ERROR
        if self.asked >= self.until:
            return RETRY_AFTER
        if self.hours >= self.until:
            return HOURS
        return INTERVAL if self.due >= self.until else BANDWIDTH

    @property
    def why_code(self) -> int:
        """The error that :attr:`reason` is about; 0: none."""
        return self.asked_code if self.reason == RETRY_AFTER else self.code


class Delays:
    """All of them.

    :param initial_seconds: the first delay after an error of a site.
    :param maximum_seconds: the longest one.
    :param random: gives numbers in [0, 1).
    """

    def __init__(self, initial_seconds: float, maximum_seconds: float, random: Callable[[], float]) -> None:
        self._initial = initial_seconds
        self._maximum = max(initial_seconds, maximum_seconds)
        self._random = random
        self._records: dict[int, Delayed] = {}
        self._waiting = 0
        self._heap: list[tuple[float, int]] = []
        self._dirty: set[int] = set()
        self._saved: set[int] = set()
        self._last = 0.0
        self.frozen: set[int] = set()
        """Those that wait until somebody says otherwise; not saved here."""
        self.urgent = False
        """A long delay is not saved yet."""

    def __contains__(self, pid: int) -> bool:
        """True while it must wait."""
        return pid in self.frozen or bool(self.until(pid))

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    def get(self, pid: int) -> Delayed | None:
        """What is known of it."""
        return self._records.get(pid)

    def first(self, limit: int) -> list[tuple[int, Delayed]]:
        """Those that wait, and what is known of them, soonest first.  Looks at all."""
        waiting = ((pid, record) for pid, record in self._records.items() if record.until)
        return nsmallest(limit, waiting, key=lambda entry: (entry[1].until, entry[0]))

    def until(self, pid: int) -> float:
        """Until when it must wait; 0: it need not."""
        record = self._records.get(pid)
        return 0.0 if record is None else record.until

    @property
    def now(self) -> float:
        """The latest time that :meth:`release` was told."""
        return self._last

    @property
    def next_end(self) -> float | None:
        """When the first of them ends; None: nobody waits."""
        heap = self._heap
        while heap:
            end, pid = heap[0]
            record = self._records.get(pid)
            if record is not None and record.until == end:
                return end
            heappop(heap)
        return None

    def is_due(self, pid: int) -> bool:
        """An interval is known that it waits for."""
        record = self._records.get(pid)
        return record is not None and record.due > self._last

    @property
    def changed(self) -> bool:
        """Something has changed that may be worth saving."""
        return bool(self._dirty)

    def has_changed(self, pid: int) -> bool:
        """Something of this provider has."""
        return pid in self._dirty

    # Delays begin.

    def charge(self, pid: int, wire_bytes: int, rate: int | None, now: float) -> None:
        """So much has come from it."""
        if not rate and pid not in self._records:
            return
        record = self._record(pid)
        record.owed = bandwidth.charge(record.owed, now, wire_bytes, rate)
        record.rate = rate
        self._reschedule(pid, record, now)

    def began(self, pid: int, begun: float, interval: float, now: float) -> None:
        """A fetch of it began then, or earlier."""
        record = self._record(pid)
        record.due = bandwidth.after_start(record.due, begun, interval)
        record.interval = interval
        self._reschedule(pid, record, now)

    def arrived(self, pid: int, now: float) -> None:
        """It comes from another queue manager, which has not saved what ends soon."""
        record = self._record(pid)
        record.due = max(record.due, now + SAVED_SECONDS)
        self._reschedule(pid, record, now)

    def asked(self, pid: int, code: int, seconds: float, now: float) -> None:
        """Its web server has answered so, and asked to be left alone for so long."""
        record = self._record(pid)
        record.asked, record.asked_code = max(record.asked, now + seconds), code
        self._reschedule(pid, record, now)

    def closed(self, pid: int, opens: float, now: float) -> None:
        """Its hours are closed."""
        record = self._record(pid)
        record.hours = opens
        self._reschedule(pid, record, now)

    def site_error(self, pid: int, code: int, now: float) -> float:
        """Its site is unreachable; gives the delay in seconds.  If it waits for that already, nothing changes."""
        record = self._record(pid)
        if record.retry <= now:
            record.failures += 1
            record.since = record.since or now
            longest = self._initial * 2.0 ** min(record.failures - 1, 60)
            delay = min(longest, self._maximum) * (1 - 0.25 * self._random())
            record.retry, record.code = now + delay, code
            self._reschedule(pid, record, now)
        return record.retry - now

    def reached(self, pid: int) -> None:
        """A fetch has reached its site."""
        record = self._records.get(pid)
        if record is not None and (record.failures or record.since):
            record.forgive()
            self._tidy(pid, record)

    # Delays end.

    def release(self, now: float) -> list[int]:
        """Those whose delays have ended."""
        self._last = now
        ended: list[int] = []
        while (end := self.next_end) is not None and end <= now:
            _, pid = heappop(self._heap)
            self._end(pid, self._records[pid])
            ended.append(pid)
        return ended

    def limits_changed(self, pid: int, rate: int | None, now: float, interval: float = 0.0) -> None:
        """Its limits were changed: its hours are looked at again, what it owes costs what it costs now."""
        record = self._records.get(pid)
        if record is not None:
            record.hours = 0.0
            record.owed = bandwidth.changed(record.owed, now, record.rate, rate)
            record.rate = rate
            record.due = record.due and interval and max(0.0, record.due - record.interval + interval)
            record.interval = interval
            self._reschedule(pid, record, now)

    def try_again(self, pid: int, code: int, now: float) -> None:
        """An operator says that its site can be reached (0: all sites).

        Its delays begin anew; since when it is unreachable is known until it is reached.

        :param code: only if it waits because of this error; 0: of any.
        """
        for key in [pid] if pid else list(self._records):
            if (record := self._records.get(key)) is not None:
                failed = record.failures and code in (0, record.code)
                asked = record.asked and code in (0, record.asked_code)
                if failed:
                    record.retry = 0.0
                    record.failures = record.code = 0
                if asked:
                    record.asked = 0.0
                if failed or asked:
                    self._reschedule(key, record, now)

    def discard(self, pid: int) -> None:
        """Forget it."""
        record = self._records.get(pid)
        if record is not None:
            record.forgive()
            self._end(pid, record)

    # The wall clock is set.

    def stepped(self, step: float, now: float) -> None:
        """The wall clock was set.

        :param step: by so many seconds; less than 0: back.
        :param now: what it shows now.
        """
        self._last = max(0.0, self._last + step)
        for record in self._records.values():
            # 0 is no time but says that there is none.
            record.owed = record.owed and max(0.0, record.owed + step)
            record.due = record.due and max(0.0, record.due + step)
            record.asked = record.asked and max(0.0, record.asked + step)
            record.retry = record.retry and max(0.0, record.retry + step)
            record.since = record.since and max(0.0, record.since + step)
            record.hours = record.hours and now
            if record.until:
                record.until = max(now, record.latest)
        self._heap = [(record.until, pid) for pid, record in self._records.items() if record.until]
        heapify(self._heap)
        self._dirty.update(self._records)

    # A restart.

    def load(self, saved: Iterable[Delay], period_seconds: float, now: float, set_back: float = 0.0) -> None:
        """Begin with what was saved; a time that no such delay can have is shortened.

        :param period_seconds: of the LCC's hours.
        :param set_back: the wall clock was set back by so many seconds since they were saved.
        """
        self._last = now
        for delay in saved:
            record = self._record(delay.pid)
            self._saved.add(delay.pid)
            record.failures = delay.failures
            record.code = 0 if delay.reason == RETRY_AFTER else delay.code
            record.since = min(max(0.0, delay.since_time - set_back), now)
            until = delay.until_time - set_back
            if delay.reason == SITE_ERROR:
                record.retry = min(until, now + self._maximum)
            elif delay.reason == RETRY_AFTER:
                record.asked, record.asked_code = min(until, now + _LONG_CAP_SECONDS), delay.code
            elif delay.reason == INTERVAL:
                record.due = min(until, now + _LONG_CAP_SECONDS)
            elif delay.reason == HOURS and not set_back:  # else they are looked at again
                record.hours = min(until, now + 2 * period_seconds)
            owed = min(delay.owed_time - set_back, now + _BANDWIDTH_CAP_SECONDS)
            record.owed, record.rate = max(0.0, owed), delay.rate
            self._reschedule(delay.pid, record, now)

    def to_save(self, now: float) -> list[Delay]:
        """What has changed and is worth saving; once it is saved (or :meth:`not_saved`)."""
        self.urgent = False
        rows: list[Delay] = []
        for pid in sorted(self._dirty):
            record = self._records.get(pid)
            if record is not None and (record.until - now > SAVED_SECONDS or record.failures):
                owed, rate = (record.owed, record.rate or 0) if record.owed > now else (0.0, 0)
                why = record.until, record.reason, record.why_code, record.failures
                rows.append(Delay(pid, *why, owed, rate, record.since, saved_time=now))
                self._saved.add(pid)
            elif pid in self._saved:
                rows.append(Delay(pid, 0.0, ""))
                self._saved.discard(pid)
        self._dirty.clear()
        return rows

    def not_saved(self, rows: Iterable[Delay]) -> None:
        """These could not be saved."""
        for row in rows:
            self._dirty.add(row.pid)
            self._saved.add(row.pid)

    @contextmanager
    def saving(self, now: float) -> Iterator[list[Delay]]:
        """Save what has changed in the body; if that fails, it has changed still.

        Each attempt must begin here: what is written last must be what was asked last.
        """
        rows = self.to_save(now)
        try:
            yield rows
        except BaseException:
            self.not_saved(rows)
            raise

    # Inside.

    def _record(self, pid: int) -> Delayed:
        record = self._records.get(pid)
        if record is None:
            record = self._records[pid] = Delayed()
        return record

    def _reschedule(self, pid: int, record: Delayed, now: float) -> None:
        until = record.latest
        if until <= now:
            # Not before release() has said so, if it waits: whoever waits is told once.
            if record.until:
                until = now
            else:
                self._tidy(pid, record)
                return
        if until != record.until:
            self._waiting += not record.until
            record.until = until
            heappush(self._heap, (until, pid))
            if len(self._heap) > 2 * self._waiting + 1000:
                self._heap = [(other.until, key) for key, other in self._records.items() if other.until]
                heapify(self._heap)
        self._dirty.add(pid)
        if until - now > _URGENT_SECONDS:
            self.urgent = True

    def _end(self, pid: int, record: Delayed) -> None:
        self._waiting -= bool(record.until)
        record.until = record.owed = record.due = record.hours = record.asked = record.retry = 0.0
        self._tidy(pid, record)

    def _tidy(self, pid: int, record: Delayed) -> None:
        if not (record.failures or record.until or record.since):
            del self._records[pid]
        if pid in self._saved:
            self._dirty.add(pid)
