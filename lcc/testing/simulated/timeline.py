"""One clock for a whole world, and the order in which everything happens on it."""

from __future__ import annotations

import re
from array import array
from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from math import inf, nextafter
from random import Random
from typing import Any, Protocol

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from zope.interface import implementer

_log = Logger()

EPOCH = 1_767_225_600.0
"""The time at which every world begins, in seconds since 1970 (2026-01-01 00:00 UTC)."""
LOOK_EVERY_EVENTS = 200
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
"""In the name of a function that has another one's in it: where that lies in memory."""
_NOTES_TOGETHER = 1500
"""Notes that are hashed at once: that is cheaper."""


class Owner(Protocol):
    """To whom an event happens: a process that may be frozen, or dead.

    :ivar address: of its machine.
    :ivar frozen: it is alive, and does nothing.
    """

    name: str
    address: str
    alive: bool
    frozen: bool

    def happens(self, event: Event) -> bool:
        """Whether the event may happen now; False: it never will, or its owner keeps it for later."""


@implementer(IDelayedCall)
class Event:
    """Something that is going to happen."""

    __slots__ = ("_timeline", "args", "called", "cancelled", "function", "kwargs", "order", "owner", "time", "zero")

    def __init__(
        self,
        timeline: Timeline,
        time: float,
        owner: Owner | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._timeline = timeline
        self.time = time
        self.owner = owner
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.order = 0
        self.zero = 0.0
        """When the clock began of who asks :meth:`getTime`."""
        self.called = False
        self.cancelled = False

    def __lt__(self, other: Event) -> bool:
        return (self.time, self.order) < (other.time, other.order)

    def getTime(self) -> float:
        """When, on the clock of the reactor that it belongs to."""
        return self.time - self.zero

    def active(self) -> bool:
        """It will happen."""
        return not (self.called or self.cancelled)

    def cancel(self) -> None:
        """It shall not happen."""
        self._check()
        self.cancelled = True

    def reset(self, secondsFromNow: float) -> None:
        """It shall happen so many seconds from now."""
        self._check()
        self._timeline.move(self, self._timeline.later(secondsFromNow))

    def delay(self, secondsLater: float) -> None:
        """It shall happen so many seconds later than it would."""
        self._check()
        self._timeline.move(self, self.time + secondsLater)

    def _check(self) -> None:
        if self.cancelled:
            raise AlreadyCancelled
        if self.called:
            raise AlreadyCalled


class Timeline:
    """What happens, in order.

    :param seed: decides everything.
    :ivar now: seconds since 1970.
    :ivar events: how many have happened.
    :ivar look: called after every :data:`LOOK_EVERY_EVENTS` events.
    """

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.now = EPOCH
        self.events = 0
        self.look: Callable[[], None] | None = None
        self._orders = 0
        self._heap: list[tuple[float, int, Event]] = []
        self._soon: deque[tuple[float, int, Event]] = deque()
        """What was asked for without a delay, of which there is much: in order, and it happens at :attr:`now`."""
        self._hash = blake2b(digest_size=8)
        self._notes: list[str] = []
        self._times_hash = blake2b()
        self._times = array("d")

    def random(self, name: str) -> Random:
        """A source of chance of its own for whoever has this name: what one does with it changes nothing for
        others."""
        return Random(f"{self.seed}/{name}")

    def call_later(
        self, delay: float, owner: Owner | None, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Event:
        """Let something happen.

        :param delay: seconds from now.
        :param owner: None: it happens whatever happens to processes.
        """
        now = self.now
        self._orders = order = self._orders + 1
        if delay <= 0:
            event = Event(self, now, owner, function, args, kwargs)
            event.order = order
            self._soon.append((now, order, event))
            return event
        time = now + delay
        if time <= now:
            time = self.later(delay)
        event = Event(self, time, owner, function, args, kwargs)
        event.order = order
        heappush(self._heap, (time, order, event))
        return event

    def later(self, delay: float) -> float:
        """The time so many seconds from now: not now, however small the delay is.

        A process counts its time from its boot, so finely that it asks for delays that are lost in :attr:`now`; a
        ``LoopingCall`` would ask again for ever.
        """
        if delay <= 0:
            return self.now
        return max(self.now + delay, nextafter(self.now, inf))

    def move(self, event: Event, time: float) -> None:
        """Let it happen at this time."""
        self._orders += 1
        event.time = time
        event.order = self._orders
        heappush(self._heap, (time, self._orders, event))

    def pending(self) -> Counter[str]:
        """How many events are to happen, by the names of their owners."""
        return Counter(
            event.owner.name
            for _, order, event in (*self._soon, *self._heap)
            if event.owner is not None and event.active() and event.order == order
        )

    def note(self, text: str) -> None:
        """Make something part of what :attr:`digest` tells apart."""
        self._notes.append(text)

    @property
    def digest(self) -> str:
        """Of everything that has happened so far, and when."""
        self._hash_notes()
        both = self._hash.copy()
        both.update(self._times_hash.digest())
        return both.hexdigest()

    def _hash_notes(self) -> None:
        text = _ADDRESS.sub("", "\n".join(self._notes))
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self._notes = [""]
        self._times_hash.update(self._times.tobytes())
        self._times = array("d")

    def run_until(self, time: float) -> None:
        """Let everything happen up to this time."""
        step = self._step
        while step(time):
            pass
        self.now = max(self.now, time)

    def run_while(self, check: Callable[[], bool], longest: float) -> bool:
        """Let things happen while ``check()`` is true, asked after each event.

        :param longest: give up after so many seconds.
        :returns: ``check()`` has become false.
        """
        end = self.now + longest
        while check():
            if not self._step(end):
                self.now = max(self.now, end)
                return not check()
        return True

    def _step(self, end: float) -> bool:
        """Let the next event happen; False: there is none up to ``end``."""
        soon, heap = self._soon, self._heap
        if soon and not (heap and heap[0] < soon[0]):
            time, order, event = soon.popleft()
        elif heap and heap[0][0] <= end:
            time, order, event = heappop(heap)
        else:
            return False
        if event.cancelled or event.called or event.order != order:
            return True
        if time > self.now:
            self.now = time
        owner = event.owner
        if owner is None:
            name = ""
        elif owner.happens(event):
            name = owner.name
        else:
            return True
        event.called = True
        self.events += 1
        function = event.function
        self._times.append(self.now)
        notes = self._notes
        notes.append(name)
        notes.append(getattr(function, "__qualname__", None) or type(function).__name__)
        try:
            function(*event.args, **event.kwargs)
        except Exception:
            if owner is None:
                raise
            _log.failure("Unhandled error in {name}", name=name)  # as a reactor does it
        if not self.events % LOOK_EVERY_EVENTS and self.look is not None:
            self.look()
        if len(notes) > _NOTES_TOGETHER:
            self._hash_notes()
        return True
