"""The pictures, and what has to be run for each of their points."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from rows import Row

ROBOTS = (1, 2, 4)
PROVIDERS = (1, 10, 100, 1_000, 10_000, 100_000)
SET_SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
DEPTHS = {10_000: 10, 100_000: 2_000, 1_000_000: 20_000, 5_000_000: 100_000}
"""Queued URLs -> providers."""
SCRAPY_DEPTHS = (10_000, 100_000, 1_000_000)
ONCE_FROM = 5_000_000
"""What is as large as this is run once."""


@attrs.frozen
class Point:
    """One run of a benchmark.

    :ivar size: x; also what is left out by ``--max``.
    """

    name: str
    size: int
    script: str
    arguments: str
    runs: int = 3


@attrs.frozen
class Line:
    """One curve.

    :ivar points: names of points (their prefixes).
    :ivar row: the name of the row, in the rows of each point.
    :ivar theirs: the peer's figure of it.
    :ivar scale: of the figure, as a function.
    """

    label: str
    points: str
    row: str
    theirs: bool = False
    scale: Callable[[float], float] = float
    dashed: bool = False

    def figures(self, row: Row) -> list[float]:
        """Of one point, each run."""
        return [self.scale(value) for value in (row.theirs if self.theirs else row.ours)]


@attrs.frozen
class Panel:
    """One system of axes."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    xlog: bool = True
    ylog: bool = False
    levels: tuple[tuple[float, str], ...] = ()


@attrs.frozen
class Picture:
    """One file."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def _per_cpu_second(ms: float) -> float:
    return 1000 / ms


def _drain(kind: str, size: int, arguments: str) -> Point:
    return Point(f"{kind}-{size}", size, "drain", arguments)


def _depth(depth: int, providers: int) -> Point:
    pages = min(60_000, depth * 2 // 5)
    arguments = f"--small 10x10000 --large {providers}x{depth} --pages-large {pages}"
    return Point(f"depth-{depth}", depth, "queue_scale", arguments, 1 if depth >= ONCE_FROM else 2)


POINTS = (
    *(_drain("robots", count, f"--robots {count} --providers 64 --pages 10000") for count in ROBOTS),
    *(
        _drain("providers", count, f"--providers {count} --pages {2_000 if count < 10 else 10_000}")
        for count in PROVIDERS
    ),
    *(
        Point(f"intake-{size}", size, "intake_size", f"--urls {size}", 1 if size >= 1_000_000 else 3)
        for size in SET_SIZES
    ),
    *(_depth(depth, providers) for depth, providers in DEPTHS.items()),
    *(Point(f"scrapy-{depth}", depth, "scrapy_queue", f"--urls {depth}", 1) for depth in SCRAPY_DEPTHS),
)

_PAGES = "pages, queue to cache"
_PAGE_CPU = "CPU for a page, queue to cache"
_PAGE_CPU_ALL = "CPU for a page with the database, queue to cache"
_BOTH = "CPU for a page, huge queue against small"


def _chain(points: str, x: str, xlog: bool) -> tuple[Panel, Panel]:
    rate = Panel(
        "Pages a second (two cores for all: LCC, MariaDB, nginx)",
        x,
        "pages/s",
        (Line("LCC", points, _PAGES), Line("Scrapy, as polite", points, _PAGES, theirs=True, dashed=True)),
        xlog=xlog,
    )
    cpu = Panel(
        "Pages for each second of CPU",
        x,
        "pages / CPU s",
        (
            Line("LCC, all roles", points, _PAGE_CPU, scale=_per_cpu_second),
            Line("LCC and MariaDB", points, _PAGE_CPU_ALL, scale=_per_cpu_second),
            Line("Scrapy, as polite", points, _PAGE_CPU, theirs=True, scale=_per_cpu_second, dashed=True),
        ),
        xlog=xlog,
    )
    return rate, cpu


PICTURES = (
    Picture("robots", "Robots", _chain("robots", "robots (processes)", False)),
    Picture("providers", "Providers that have something to fetch", _chain("providers", "providers", True)),
    Picture(
        "intake",
        "From the provider to the durable queue, by the size of the set",
        (
            Panel(
                "URLs a second",
                "URLs in a set",
                "URLs/s",
                (
                    Line("LCC", "intake", "provider to queue"),
                    Line("LOAD DATA of the same rows", "intake", "provider to queue", theirs=True, dashed=True),
                ),
                ylog=True,
            ),
            Panel(
                "CPU",
                "URLs in a set",
                "µs a URL",
                (
                    Line("UNS, QM and MariaDB", "intake", "provider to queue, CPU"),
                    Line("UNS and QM", "intake", "provider to queue, CPU of UNS and QM"),
                    Line("LOAD DATA of the same rows", "intake", "provider to queue, CPU", theirs=True, dashed=True),
                ),
                ylog=True,
            ),
            Panel(
                "Memory",
                "URLs in a set",
                "MB, peak",
                (
                    Line("UNS", "intake", "peak memory of the UNS, taking in"),
                    Line("QM", "intake", "peak memory of the QM, taking in"),
                ),
            ),
        ),
    ),
    Picture(
        "depth",
        "The depth of the queue",
        (
            Panel(
                "CPU of QM and MariaDB for a page",
                "URLs queued",
                "ms",
                (
                    Line("this deep", "depth", _BOTH),
                    Line("10 providers, 10,000 URLs, in turn", "depth", _BOTH, theirs=True, dashed=True),
                ),
            ),
            Panel(
                "Memory",
                "URLs queued",
                "MB, peak",
                (
                    Line("QM", "depth", "peak memory of the QM, huge queue"),
                    Line("Scrapy, queue in memory", "scrapy", "Scrapy with its queue in memory", dashed=True),
                ),
                ylog=True,
                levels=((150, "goal"),),
            ),
        ),
    ),
)
