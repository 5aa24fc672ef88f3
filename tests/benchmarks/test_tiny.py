"""Each benchmark that is cheap works and gives the rows that the plan names: tiny runs, figures mean nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rows import loaded
from suite.plan import STEPS

from tests.benchmarks.conftest import BENCHMARKS

TINY = {
    "TLS": "--connections 2",
    "intake": "--urls 500",
    "packages": "--files 20 --file-bytes 500",
    "sitemaps": "--urls 200",
}
TINY_LONG = {
    "front end": "--urls 200 --sessions 5 --idle 10 --sqlite",
    "content users of a front end": "--rows 400 --questions 5 --arrived 300 --sqlite",
    "moves": "--rows 500 --pages 30 --others 300 --pairs 1 --freezes 1",
    "IndexNow": "--seconds 0.3 --connections 2",
    "feeds without news, SQLite": "--feeds 3 --items 1 --peers sfeed --sqlite",
    "fetching": "--files 40 --peers curl",
    "latency": "--urls 2 --sqlite",
    "sets by HTTP": "--posts 20 --providers 3 --at-once 4 --urls 2000",
    "subscribers of the hub": "--subscribers 5 --topics 2",
    "small sets, SQLite": "--sessions 20 --sets 40 --providers 5 --at-once 4 --sqlite",
}
"""Those that start a whole LCC, or more."""


def cases() -> list[object]:
    """Names, and what is run of each."""
    long = [pytest.param(name, arguments, marks=pytest.mark.long, id=name) for name, arguments in TINY_LONG.items()]
    return [*long, *(pytest.param(name, arguments, id=name) for name, arguments in TINY.items())]


@pytest.mark.parametrize(("name", "arguments"), cases())
def test_a_tiny_run(name: str, arguments: str, tmp_path: Path) -> None:
    step = next(step for step in STEPS if step.name == name)
    kept = tmp_path / "rows.json"
    command = [sys.executable, BENCHMARKS / f"{step.script}.py", *arguments.split(), "--runs", "1", "--json", kept]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {row.name.removesuffix(" on SQLite"): row for row in loaded(kept.read_text())}
    peer = arguments.partition("--peers ")[2].partition(" ")[0]
    named = {row for row in step.rows if row.endswith(peer)}
    assert named <= rows.keys()
    # Memory may have grown by nothing.
    assert all(len(row.ours) == 1 and (row.ours[0] > 0 or row.unit == "MB") for row in rows.values())


def test_a_tiny_frontier() -> None:
    arguments = ["--pages", "20", "--urls", "200", "--hosts", "4", "--batch", "10", "--fill", "100"]
    command = [sys.executable, str(BENCHMARKS / "frontier.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "bytes for a known URL" in done.stdout and "tell: 0 URLs" not in done.stdout
