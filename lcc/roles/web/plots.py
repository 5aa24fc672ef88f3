"""Plots as paths of SVG.  Text beside them is HTML, so that it is as large on a phone as on a wall."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from lcc.domain.fetches.hours import DAY_SLOTS
from lcc.domain.wording import utc

WIDTH, HEIGHT = 600, 120
SPACE = "\u00a0"
"""One that does not break."""
UNITS = ("", "k", "M", "G", "T", "P")


@attrs.frozen
class Plot:
    """A plot as SVG.

    :ivar line, area: the ``d`` of paths in a box of :data:`WIDTH` x :data:`HEIGHT`; where nothing is known is a gap.
    :ivar most: the same of the highest values, which are above the line where a part has several.
    :ivar ticks: labels of the vertical axis, from the top down to zero.
    :ivar times: labels of the horizontal axis.
    :ivar words: the latest value, the mean, the most and when that was.
    """

    title: str
    line: str
    area: str
    most: str
    ticks: tuple[str, ...]
    times: tuple[str, ...]
    words: str


def plot(
    title: str,
    values: Sequence[float | None],
    most: Sequence[float | None],
    samples: Sequence[tuple[float, float, float]],
    start: float,
    end: float,
    unit: str,
    now: float | None,
) -> Plot:
    """Values over a span of time, one for each equal part of it.

    :param most: the highest ones in each part.
    :param samples: (end, seconds, value): what the values were made from; what is said of them is of these, so that
        "now" is never above the peak.
    :param start, end: seconds since 1970.
    :param unit: of bytes, such as ``B/s``; empty: numbers.
    :param now: the latest value; None: it is not known.
    """
    top = nice(max((value for value in (*values, *most) if value is not None), default=0.0))
    line, area = _paths(values, top)
    ticks = tuple(_with_unit(top * share, unit) if share else "0" for share in (1, 0.5, 0))
    form = slice(11, 16)
    times = tuple(utc(start + (end - start) * share)[form] for share in (0, 0.5, 1))
    return Plot(title, line, area, _paths(most, top)[0], ticks, times, _words(samples, unit, now))


def _words(samples: Sequence[tuple[float, float, float]], unit: str, now: float | None) -> str:
    if not samples:
        return "no data yet"
    at, _, most = max(samples, key=lambda sample: sample[2])
    mean = sum(seconds * value for _, seconds, value in samples) / sum(seconds for _, seconds, _ in samples)
    latest = "currently unknown" if now is None else f"now {_with_unit(now, unit)}"
    return f"{latest}; mean {_with_unit(mean, unit)}; peak {_with_unit(most, unit)} at {utc(at)[11:16]}"


def _with_unit(value: float, unit: str) -> str:
    return f"{size(value)}{unit.removeprefix('B')}" if unit.startswith("B") else short(value)


def _paths(values: Sequence[float | None], top: float) -> tuple[str, str]:
    line: list[str] = []
    area: list[str] = []
    run: list[tuple[float, float]] = []
    width = WIDTH / len(values)

    def end_run() -> None:
        if not run:
            return
        if len(run) == 1:
            run.append((run[0][0] + width, run[0][1]))
        drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in run)
        line.append(f"M{drawn}")
        area.append(f"M{run[0][0]:.1f} {HEIGHT}L{drawn}L{run[-1][0]:.1f} {HEIGHT}Z")
        run.clear()

    for part, value in enumerate(values):
        if value is None:
            end_run()
        else:
            run.append(((part + 0.5) * width, HEIGHT - 1 - value / top * (HEIGHT - 4)))
    end_run()
    return "".join(line), "".join(area)


def nice(most: float) -> float:
    """The end of an axis: 1, 2 or 5 times a power of ten, and no less than what there is."""
    if most <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= most * 0.999999))


def short(value: float) -> str:
    """``0``, ``0.25``, ``12.3``, ``1,234`` , ``12.3 k``, ``4.56 M``; it does not break."""
    if value < 10_000:
        digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
        return f"{value:,.{digits}f}"
    for unit in UNITS:
        if value < 999.5:
            return f"{value:.3g}{SPACE}{unit}"
        value /= 1000
    return f"{value:.3g}{SPACE}E"


def size(count: float) -> str:
    """Bytes as people say them: ``12.3 MB``."""
    return f"{short(count)}{SPACE if count < 10_000 else ''}B"


@attrs.frozen
class Mask:
    """Hours when fetching is allowed.

    :ivar days: for each day (one, or seven from monday on) its open stretches as (begin, length) in hours' slots.
    :ivar slots: of a day.
    :ivar now: (day, slot) of this moment.
    """

    days: tuple[tuple[tuple[int, int], ...], ...]
    slots: int
    now: tuple[int, int]
    always: bool


def mask(bits: int, slots: int, current: int) -> Mask:
    """A mask of slots (:mod:`lcc.domain.fetches.hours`) as stretches.

    :param slots: of the period.
    :param current: the slot of this moment.
    """
    day_slots = DAY_SLOTS if slots % DAY_SLOTS == 0 else slots
    days = []
    for first in range(0, slots, day_slots):
        stretches: list[tuple[int, int]] = []
        for slot in range(day_slots):
            if bits >> (first + slot) & 1:
                if stretches and sum(stretches[-1]) == slot:
                    stretches[-1] = (stretches[-1][0], stretches[-1][1] + 1)
                else:
                    stretches.append((slot, 1))
        days.append(tuple(stretches))
    return Mask(tuple(days), day_slots, divmod(current, day_slots), bits == (1 << slots) - 1)
