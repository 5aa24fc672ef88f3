"""Metrics and conditions of a role.

A :class:`Metric` is declared once, with its name, its meaning and its labels; a :class:`Reading` is what it shows
at one moment.  Roles give readings when asked (:class:`lcc.interfaces.IRoleMetrics`).

Names are those of Prometheus: base units, a counter's without ``_total`` (its series have it).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from typing import TypeVar

import attrs

_K = TypeVar("_K")


class Kind(Enum):
    """How a metric behaves."""

    COUNTER = "counter"
    """Only grows; begins at 0 with the process."""
    GAUGE = "gauge"
    """Goes up and down."""
    INFO = "info"
    """Always 1; its labels tell something.  Its series ends in ``_info``."""
    HISTOGRAM = "histogram"
    """Counts by size since the start of the process."""
    GAUGE_HISTOGRAM = "gaugehistogram"
    """Counts by size as it is now."""


class Histogram:
    """Counts by size.

    :param bounds: upper ends of the buckets, in order; what is larger than all of them counts, too.
    """

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.total = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        """One more of this size."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def shown(self) -> Buckets:
        """As it is now."""
        return Buckets(tuple(self.bounds), tuple(accumulate(self._counts)), self.total)


@attrs.frozen
class Buckets:
    """A histogram at one moment.

    :ivar bounds: upper ends.
    :ivar upto: how many there are up to each of them; at the end: in all.
    :ivar total: the sum of all sizes.
    """

    bounds: tuple[float, ...]
    upto: tuple[int, ...]
    total: float


@attrs.frozen
class Metric:
    """
    :ivar name: with its unit at the end.
    :ivar meaning: one line, for display.
    :ivar labels: names of what its series differ in.
    """

    kind: Kind
    name: str
    meaning: str
    labels: tuple[str, ...] = ()

    def __call__(self, value: float | Buckets) -> Reading:
        """A reading of one series, without labels."""
        return Reading(self, (((), value),))

    def by(self, values: Mapping[_K, float | Buckets] | Iterable[tuple[_K, float | Buckets]]) -> Reading:
        """A reading of several series.

        :param values: the label's value, or a tuple of them -> what it shows.
        """
        items = values.items() if isinstance(values, Mapping) else values
        series = ((key if isinstance(key, tuple) else (key,), value) for key, value in items)
        return Reading(self, tuple((tuple(map(str, key)), value) for key, value in series))

    @property
    def series_name(self) -> str:
        """What its series are called (a histogram's have further endings)."""
        return self.name + {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self.kind, "")


@attrs.frozen
class Reading:
    """What a metric shows now.

    :ivar series: values of the labels, in their order -> what it shows.
    """

    metric: Metric
    series: tuple[tuple[tuple[str, ...], float | Buckets], ...]


@attrs.frozen
class Condition:
    """Something that must hold so that a role can do its work.

    :ivar name: stable, lower case, for programs.
    :ivar fault: what is wrong, for display; empty: it holds.
    :ivar remedy: what to do if it does not.
    :ivar alive: without it the process is broken, and a new one is better; else it waits for something outside.
    :ivar note: how it is while it holds, for display; empty: there is nothing to say.
    """

    name: str
    fault: str
    remedy: str
    alive: bool = False
    note: str = ""

    @property
    def holds(self) -> bool:
        """All is well."""
        return not self.fault


def not_paused(role: str, paused: bool, consequence: str) -> Condition:
    """That an operator has not paused a role.

    :param consequence: what it does not do while it is, such as ``it accepts no sets``.
    """
    fault = f"paused by an operator: {consequence}" if paused else ""
    return Condition("not-paused", fault, f"resume() at its console (lcc-admin console {role})")


def counter(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a counter."""
    return Metric(Kind.COUNTER, name, meaning, labels)


def gauge(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a gauge."""
    return Metric(Kind.GAUGE, name, meaning, labels)


def histogram(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a histogram."""
    return Metric(Kind.HISTOGRAM, name, meaning, labels)
