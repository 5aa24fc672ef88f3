"""The form in which a benchmark gives what it found: rows, each with its peer and its goal.

A benchmark measures LCC and peer in turn, several times, and ends with::

    parser = argparse.ArgumentParser(...)
    add_options(parser)
    ...
    give(options, [Row("robot alone", "fetches/s", ours=[…], peer="curl", theirs=[…], goal=at_least(0.8))])

``--runs N`` says how often; ``--json FILE`` keeps the rows for ``make bench``, which makes one table of all
benchmarks.  ``ours[i]`` and ``theirs[i]`` are of the same turn: absolute figures move from day to day, ratios do not.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
from common import table

RUNS = 5
HEADS = ["what", "LCC", "peer", "peer's", "LCC / peer", "goal", "reached", "runs"]


@attrs.frozen
class Goal:
    """What is to be reached.

    :ivar bound: inclusive.
    :ivar least: the figure may not be under the bound; otherwise it may not be over it.
    :ivar of_ratio: the figure is LCC / peer; otherwise it is the LCC's own, in the row's unit.
    """

    bound: float
    least: bool
    of_ratio: bool

    def met_by(self, figure: float) -> bool:
        """Whether this figure is good enough."""
        return figure >= self.bound if self.least else figure <= self.bound

    def text(self, unit: str) -> str:
        """As the table shows it."""
        return f"{'≥' if self.least else '≤'} {self.bound:,g} {'x peer' if self.of_ratio else unit}"


def at_least(bound: float, of_ratio: bool = True) -> Goal:
    """The ratio (or the LCC's own figure) is this or more."""
    return Goal(bound, True, of_ratio)


def at_most(bound: float, of_ratio: bool = False) -> Goal:
    """The LCC's own figure (or the ratio) is this or less."""
    return Goal(bound, False, of_ratio)


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


@attrs.frozen
class Row:
    """One thing that was measured.

    :ivar name: stays the same from run to run; unlike the names of all other rows.
    :ivar unit: of ``ours`` and ``theirs``.
    :ivar ours: the LCC's figure of each run.
    :ivar peer: who did the same; empty: nobody did.
    :ivar theirs: the peer's figure of each run, in the same turns as the LCC's.
    :ivar peak: the largest figure counts (memory), not the median.
    :ivar note: a short remark for the reader.
    """

    name: str
    unit: str
    ours: tuple[float, ...] = attrs.field(converter=_floats, validator=attrs.validators.min_len(1))
    peer: str = ""
    theirs: tuple[float, ...] = attrs.field(converter=_floats, default=())
    goal: Goal | None = None
    peak: bool = False
    note: str = ""

    def __attrs_post_init__(self) -> None:
        if self.theirs and len(self.theirs) != len(self.ours):
            raise ValueError(f"{self.name}: {len(self.ours)} runs of ours, {len(self.theirs)} of the peer")
        if self.goal is not None and self.goal.of_ratio and not self.theirs:
            raise ValueError(f"{self.name}: a goal against a peer that was not measured")

    @property
    def ratios(self) -> list[float]:
        """LCC / peer of each turn."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=False)]

    @property
    def figure(self) -> float:
        """The one that the goal is about."""
        if self.goal is not None and self.goal.of_ratio:
            return statistics.median(self.ratios)
        return max(self.ours) if self.peak else statistics.median(self.ours)

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None: there is no goal."""
        return None if self.goal is None else self.goal.met_by(self.figure)

    def cells(self) -> list[str]:
        """The row of the table, as :data:`HEADS`."""
        return [
            self.name + (f" ({self.note})" if self.note else ""),
            f"{shown(self.ours, self.peak)} {self.unit}",
            self.peer,
            shown(self.theirs, self.peak),
            shown(self.ratios),
            self.goal.text(self.unit) if self.goal else "",
            {True: "yes", False: "**no**", None: ""}[self.reached],
            str(len(self.ours)),
        ]


def shown(values: Sequence[float], peak: bool = False) -> str:
    """Median (or the largest value), and in parentheses the smallest and largest; three digits that count."""
    if not values:
        return ""
    middle = max(values) if peak else statistics.median(values)
    return _digits(middle) + (f" ({_digits(min(values))} to {_digits(max(values))})" if len(values) > 1 else "")


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rows_table(rows: Iterable[Row]) -> str:
    """A Markdown table."""
    return table(HEADS, [row.cells() for row in rows])


def add_options(parser: argparse.ArgumentParser, runs: int = RUNS) -> None:
    """``--runs N`` and ``--json FILE``."""
    parser.add_argument("--runs", type=int, default=runs, help="turns of LCC and peer that count")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows in this file, for 'make bench'")


def give(options: argparse.Namespace, rows: Sequence[Row]) -> None:
    """Print the rows as a table; keep them if asked to."""
    print("\n" + rows_table(rows))
    if options.json:
        options.json.write_text(dumped(rows), encoding="utf-8")


def dumped(rows: Sequence[Row]) -> str:
    """As JSON."""
    return json.dumps({"rows": [attrs.asdict(row) for row in rows]}, indent=1)


def loaded(text: str) -> list[Row]:
    """The inverse of :func:`dumped`.

    :raises ValueError: it is something else.
    """
    try:
        return [_row(fields) for fields in json.loads(text)["rows"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"these are no rows of a benchmark: {error!r}") from error


def _row(fields: dict[str, Any]) -> Row:
    goal = fields.pop("goal")
    return Row(**fields, goal=Goal(**goal) if goal else None)
