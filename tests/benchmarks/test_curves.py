"""The curves: points are kept, lines and tables are made of what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from curves.__main__ import Curves, drawn_line, points_table, spec
from curves.plan import PICTURES, POINTS, Line, Panel, Picture, Point

from tests.benchmarks.conftest import BENCHMARKS

FAKE = """
import argparse
import sys
sys.path.append({path!r})
from rows import Row, add_options, give

parser = argparse.ArgumentParser()
add_options(parser)
parser.add_argument("--size", type=float)
options = parser.parse_args()
if options.size > 100:
    raise SystemExit(3)
give(options, [Row("cost", "ms", [options.size, 2 * options.size, 3 * options.size], "peer", [1, 2, 4])])
"""
COST = Line("LCC", "fake", "cost")
PER_SECOND = Line("peer", "fake", "cost", theirs=True, scale=lambda ms: 1000 / ms, dashed=True)
PICTURE = Picture("fake", "Fake", (Panel("Cost", "size", "ms", (COST, PER_SECOND)),))


@pytest.fixture
def curves(tmp_path: Path) -> Curves:
    (tmp_path / "fake.py").write_text(FAKE.format(path=str(BENCHMARKS)))
    points = [Point(f"fake-{size}", size, "fake", f"--size {size}") for size in (10, 2, 1000)]
    found = Curves(tmp_path / "kept", points, tmp_path)
    for point in points[:2]:
        found.measure(point)
    return found


def test_a_line_has_the_points_that_are_there_by_size(curves: Curves) -> None:
    line = drawn_line(curves, COST)
    assert (line["x"], line["y"], line["low"], line["high"]) == ([2, 10], [4, 20], [2, 10], [6, 30])
    assert drawn_line(curves, PER_SECOND)["y"] == [500, 500]
    assert drawn_line(curves, Line("none", "other", "cost"))["x"] == []


def test_the_same_figures_stand_in_a_table(curves: Curves) -> None:
    lines = points_table(curves, PICTURE).splitlines()
    assert lines[0] == "| size | LCC, ms | peer, ms |"
    assert lines[2:] == ["| 2 | 4 (2 to 6) | 500 (250 to 1,000) |", "| 10 | 20 (10 to 30) | 500 (250 to 1,000) |"]


def test_a_picture_leaves_out_lines_without_points(curves: Curves) -> None:
    empty = Picture("x", "X", (Panel("", "", "", (COST, Line("none", "other", "cost"))),))
    assert [line["name"] for line in spec(curves, empty)["panels"][0]["lines"]] == ["LCC"]


def test_a_point_that_fails_is_not_there(curves: Curves, tmp_path: Path) -> None:
    point = Point("fake-1000", 1000, "fake", "--size 1000")
    with pytest.raises(Exception, match="exit status 3"):
        curves.measure(point)
    assert not curves.done(point)


def test_every_point_is_drawn_and_can_be_run() -> None:
    assert len({point.name for point in POINTS}) == len(POINTS)
    drawn = {line.points for picture in PICTURES for panel in picture.panels for line in panel.lines}
    assert {point.name.rpartition("-")[0] for point in POINTS} == drawn
    assert all((BENCHMARKS / f"{point.script}.py").exists() for point in POINTS)
