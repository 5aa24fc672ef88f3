"""Runs the points that are not there yet, and draws the pictures from what is there.

``PYTHONPATH=benchmarks python -m curves [--only WORD,…] [--max SIZE] [--runs N] [--fresh] [--draw]``
(``make bench-curves``).  Points are kept in build/curves, whatever the commit (each tells its own): can be stopped,
and goes on where it was.  The pictures go to doc/performance, with a table of their points.  ``--max 1000000``
leaves out what is larger; everything takes some hours on two cores, the sizes up to 100,000 less than one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import argument_parser, scratch, table, trash
from plot import draw
from rows import Row, loaded, shown
from suite.versions import commit, machine

from curves.plan import PICTURES, POINTS, Line, Panel, Picture, Point

BENCHMARKS = Path(__file__).parent.parent
PROJECT = BENCHMARKS.parent
HOURS_MAX = 6


class Curves:
    """What is measured of all points.

    :param folder: with a file for each point.
    """

    def __init__(self, folder: Path, points: Sequence[Point] = POINTS, benchmarks: Path = BENCHMARKS) -> None:
        self._folder = folder
        self._points = points
        self._benchmarks = benchmarks
        folder.mkdir(parents=True, exist_ok=True)

    def measure(self, point: Point, runs: int = 0) -> None:
        """Run its benchmark.

        :param runs: how often; 0: as often as the plan says.
        :raises subprocess.SubprocessError: it failed.
        """
        with scratch() as folder:
            kept = folder / "rows.json"
            script = self._benchmarks / f"{point.script}.py"
            command = [sys.executable, str(script), *point.arguments.split(), "--runs", str(runs or point.runs)]
            subprocess.run([*command, "--json", str(kept)], check=True, stdout=sys.stderr, timeout=HOURS_MAX * 3600)
            found = json.loads(kept.read_text())
        found |= {"commit": commit(), "machine": machine(), "load": os.getloadavg()[0]}
        path = self._path(point)
        path.with_suffix(".part").write_text(json.dumps(found, indent=1))
        path.with_suffix(".part").replace(path)

    def done(self, point: Point) -> bool:
        """Whether it is there."""
        return self._path(point).exists()

    def rows(self, prefix: str) -> list[tuple[Point, dict[str, Row]]]:
        """The points of a curve that are there, by size, with their rows by name."""
        found = []
        for point in sorted(self._points, key=lambda point: point.size):
            if point.name == f"{prefix}-{point.size}" and self.done(point):
                found.append((point, {row.name: row for row in loaded(self._path(point).read_text())}))
        return found

    def where(self) -> str:
        """Commits and machines of the points."""
        kept = [json.loads(self._path(point).read_text()) for point in self._points if self.done(point)]
        commits = sorted({each["commit"] for each in kept})
        machines = sorted({each["machine"] for each in kept})
        load = max((each["load"] for each in kept), default=0.0)
        where = f"Commits {', '.join(commits)}; {'; '.join(machines)}; load of the machine up to {load:.0f}."
        return where if kept else "Nothing is measured."

    def _path(self, point: Point) -> Path:
        return self._folder / f"{point.name}.json"


def drawn_line(curves: Curves, line: Line) -> dict[str, Any]:
    """For plot.py; a band from the smallest to the largest."""
    x, y, low, high = [], [], [], []
    for point, rows in curves.rows(line.points):
        if line.row not in rows:
            continue
        figures = line.figures(rows[line.row])
        if figures:
            x.append(point.size)
            y.append(statistics.median(figures))
            low.append(min(figures))
            high.append(max(figures))
    return {"name": line.label, "x": x, "y": y, "low": low, "high": high, "dashed": line.dashed}


def spec(curves: Curves, picture: Picture) -> dict[str, Any]:
    """For plot.py."""

    def drawn(panel: Panel) -> dict[str, Any]:
        return {
            **{key: getattr(panel, key) for key in ("title", "x", "y", "xlog", "ylog")},
            "lines": [line for line in (drawn_line(curves, each) for each in panel.lines) if line["x"]],
            "levels": [{"at": at, "name": name} for at, name in panel.levels],
        }

    return {"title": picture.title, "panels": [drawn(panel) for panel in picture.panels]}


def points_table(curves: Curves, picture: Picture) -> str:
    """The same figures as a table."""
    lines = [(panel, line) for panel in picture.panels for line in panel.lines]
    sizes = sorted({point.size for _, line in lines for point, _ in curves.rows(line.points)})
    cells = []
    for size in sizes:
        row = [f"{size:,}"]
        for _, line in lines:
            found = [rows for point, rows in curves.rows(line.points) if point.size == size and line.row in rows]
            row.append(shown(line.figures(found[0][line.row])) if found else "")
        cells.append(row)
    return table([picture.panels[0].x, *(f"{line.label}, {panel.y}" for panel, line in lines)], cells)


def write(curves: Curves, folder: Path) -> None:
    """The pictures, and a page with their figures."""
    about = "Medians, in parentheses the smallest and largest; what has none is a single run."
    texts = [f"# The figures of the curves\n\n{about}"]
    for picture in PICTURES:
        draw(spec(curves, picture), folder / f"{picture.name}.svg")
        texts.append(f"## {picture.title}\n\n{points_table(curves, picture)}")
    texts.append(curves.where())
    (folder / "curves.md").write_text("\n\n".join(texts) + "\n")


def main() -> None:
    """Measure and draw; exit code 1: a point failed."""
    parser = argument_parser(__doc__)
    parser.add_argument("--only", default="", help="points whose names contain one of these, by commas")
    parser.add_argument("--max", type=int, default=10_000_000, help="the largest size")
    parser.add_argument("--runs", type=int, default=0, help="of each point, instead of what the plan says")
    parser.add_argument("--fresh", action="store_true", help="also what is there")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--out", type=Path, default=PROJECT / "doc" / "performance")
    options = parser.parse_args()
    curves = Curves(PROJECT / "build" / "curves")
    failed = []
    words = options.only.split(",")
    with trash():
        for point in sorted(POINTS, key=lambda point: point.size):
            wanted = any(word in point.name for word in words) and point.size <= options.max and not options.draw
            if not wanted or (curves.done(point) and not options.fresh):
                continue
            print(f"{point.name} …", file=sys.stderr)
            try:
                curves.measure(point, options.runs)
            except (subprocess.SubprocessError, OSError) as error:
                print(f"{point.name}: {error}", file=sys.stderr)
                failed.append(point.name)
    write(curves, options.out)
    print(f"pictures and figures are in {options.out}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
