"""Figures over time: what the queue manager has counted, as rates, in rings of bounded length."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from lcc.insight.evidence import Point, Values

COUNTED = ("results_recorded", "stored", "unchanged", "failed", "wire_bytes", "sets_answered", "orders_sent")
"""Counts of the queue manager's state; each is a rate here, per second."""
LEVELS = ("queue_rows", "orders_out", "capacity")
"""Of the same state, as they are."""

RECENT_POINTS = 1000
DAY_POINTS = 1500
DAY_POINT_SECONDS = 60
STEP_SECONDS = 2.0
"""The queue manager's wall clock was set by this, or more; the times that it tells are whole seconds."""
STALE_SECONDS = 20.0
"""Older ones are no "now"."""


_NAMES = (*COUNTED, *LEVELS)

_ROW_VALUES = 2 + len(_NAMES)


class _Ring:
    """The last so many points, in one piece of memory: thousands of objects would take more, and grow for a day.

    :param points_max: the oldest go for those that are more.
    """

    def __init__(self, points_max: int) -> None:
        self._rows = array("d", bytes(8 * _ROW_VALUES * points_max))
        self._points_max = points_max
        self._first = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Point]:
        return (self[number] for number in range(self._count))

    def __getitem__(self, number: int) -> Point:
        """One of them: 0 is the oldest, -1 the latest."""
        at = self._place(number % self._count)
        time, seconds, *values = self._rows[at : at + _ROW_VALUES]
        return Point(time, seconds, dict(zip(_NAMES, values, strict=True)))

    def append(self, point: Point) -> None:
        """Add one."""
        if self._count == self._points_max:
            self._first = (self._first + 1) % self._points_max
        else:
            self._count += 1
        at = self._place(self._count - 1)
        row = (point.time, point.seconds, *(point.values[name] for name in _NAMES))
        self._rows[at : at + _ROW_VALUES] = array("d", row)

    def since(self, time: float) -> list[Point]:
        """Those that end after this time, in their order."""
        first = self._count
        while first and self._rows[self._place(first - 1)] > time:
            first -= 1
        return [self[number] for number in range(first, self._count)]

    def drop_from(self, time: float) -> None:
        """Forget the latest ones that end after this time."""
        while self._count and self._rows[self._place(self._count - 1)] > time:
            self._count -= 1

    def move(self, step: float) -> None:
        """All end so many seconds later."""
        for number in range(self._count):
            self._rows[self._place(number)] += step

    def _place(self, number: int) -> int:
        return (self._first + number) % self._points_max * _ROW_VALUES


class Samples:
    """Rings of samples: the last hour or so as polled, the last day by minutes."""

    def __init__(self) -> None:
        self._before: Mapping[str, Any] = {}
        self._recent = _Ring(RECENT_POINTS)
        self._day = _Ring(DAY_POINTS)
        self._minute: list[Point] = []

    def add(self, state: Mapping[str, Any]) -> None:
        """What the queue manager said of itself; the same once more, or nothing, adds nothing."""
        before, self._before = self._before, state
        if not state or not before or state["run"] != before["run"]:
            return
        seconds = state["clock"] - before["clock"]
        if seconds <= 0:
            return
        self._move(state["time"] - before["time"] - seconds)
        counts, known = _counts(state), _counts(before)
        values = {name: max(0, counts.get(name, 0) - known.get(name, 0)) / seconds for name in COUNTED}
        values |= {name: float(state.get(name, 0)) for name in LEVELS}
        point = Point(float(state["time"]), seconds, values)
        for ring in (self._recent, self._day):
            ring.drop_from(point.time)  # the clock was set back while nobody looked
        self._recent.append(point)
        if self._minute and _minute(self._minute[-1]) != _minute(point):
            self._day.append(_mean(self._minute))
            self._minute = []
        self._minute.append(point)

    def _move(self, step: float) -> None:
        """The wall clock was set by so many seconds; less than 0: back."""
        if abs(step) < STEP_SECONDS:
            return
        for ring in (self._recent, self._day):
            ring.move(step)
        self._minute = [attrs.evolve(point, time=point.time + step) for point in self._minute]

    def now(self, time: float) -> Values | None:
        """The latest figures; None: there are none that are not old."""
        if not self._recent or time - self._recent[-1].time > STALE_SECONDS:
            return None
        return self._recent[-1].values

    def since(self, time: float) -> list[Point]:
        """Those that end after this, in their order: as fine as they are kept."""
        recent = self._recent.since(time)
        if not self._recent:
            return recent
        first = self._recent[0]
        if first.time - first.seconds <= time:
            return recent
        return [*(point for point in self._day.since(time) if point.time < first.time), *recent]

    def kept(self) -> dict[str, Iterable[Any]]:
        """All of it, for JSON: names of the values, and iterators of each ring's [end, seconds, value, ...]."""
        return {"names": _NAMES, "recent": map(_row, self._recent), "day": map(_row, self._day)}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """What :meth:`kept` gave in another run, of this program or of an older one.

        :raises ValueError, TypeError, KeyError, AttributeError: it did not.
        """
        rings = []
        for name in ("recent", "day"):
            points = []
            for time, seconds, *values in kept[name]:
                if not seconds > 0:
                    raise ValueError(f"{seconds} seconds")
                found = {name: float(value) for name, value in zip(kept["names"], values, strict=True)}
                points.append(Point(float(time), float(seconds), {name: found.get(name, 0.0) for name in _NAMES}))
            rings.append(sorted(points, key=lambda point: point.time))
        for ring, restored in zip((self._recent, self._day), rings, strict=True):
            for point in restored:
                ring.append(point)


def _counts(state: Mapping[str, Any]) -> Mapping[str, int]:
    return {**state["counts"], **state.get("results", {})}


def _row(point: Point) -> list[float]:
    return [point.time, round(point.seconds, 3), *(round(point.values[name], 3) for name in _NAMES)]


def _minute(point: Point) -> int:
    return int(point.time // DAY_POINT_SECONDS)


def _mean(points: list[Point]) -> Point:
    seconds = sum(point.seconds for point in points)
    values = {
        name: sum(point.values[name] * point.seconds for point in points) / seconds for name in points[0].values
    }
    return Point(points[-1].time, seconds, values)


def binned(points: list[Point], name: str, start: float, end: float, count: int) -> list[float | None]:
    """A figure over a span of time in this many equal parts; None: nothing is known of that part.

    A point that tells of a longer time than a part (one that was missed, or the minutes of an old one) counts in all
    parts that it covers.
    """
    sums, weights = [0.0] * count, [0.0] * count
    for part, overlap, value in _parts(points, name, start, end, count):
        sums[part] += value * overlap
        weights[part] += overlap
    return [total / weight if weight > 0 else None for total, weight in zip(sums, weights, strict=True)]


def highest(points: list[Point], name: str, start: float, end: float, count: int) -> list[float | None]:
    """The same: the highest value in each part."""
    found: list[float | None] = [None] * count
    for part, _, value in _parts(points, name, start, end, count):
        known = found[part]
        found[part] = value if known is None else max(known, value)
    return found


def _parts(
    points: list[Point], name: str, start: float, end: float, count: int
) -> Iterator[tuple[int, float, float]]:
    """Part, seconds of it, value of each point."""
    width = (end - start) / count
    for point in points:
        first = max(0, int((point.time - point.seconds - start) // width))
        last = min(count - 1, int((point.time - start) // width))
        for part in range(first, last + 1):
            begins = start + part * width
            overlap = min(point.time, begins + width) - max(point.time - point.seconds, begins)
            if overlap > 0:
                yield part, overlap, point.values[name]
