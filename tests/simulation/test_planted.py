"""Planted bugs can still be planted, and are found.  ``make sim-proof`` looks for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .planted import BUGS
from .planted.bug import Bug
from .planted.finding import ROOT, find


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_bug_fits_the_code(bug: Bug, tmp_path: Path) -> None:
    for path, *_ in bug.changes:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / path).read_bytes())
    bug.plant(tmp_path)
    for path, *_ in bug.changes:
        compile((tmp_path / path).read_text(encoding="utf-8"), path, "exec")


def test_names_differ() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_a_bug_is_found() -> None:
    bug = next(bug for bug in BUGS if bug.name == "told-length-only")
    seed, seen = find(bug, first=3, seeds=30, jobs=1)
    assert seed and seen.startswith("P5"), seen
