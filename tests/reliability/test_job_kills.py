"""A small slice of ``make kill-jobs``."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.switches import LONG

from . import jobs, repeating
from .jobs import Outcome, run
from .oracle import Violation
from .run import Broken

SEED = int(os.environ.get("LCC_KILL_SEED", "0")) or time.time_ns() % 100_000
KILLS = 12 if LONG else 6


def test_jobs_survive_kills() -> None:
    print(f"LCC_KILL_SEED={SEED}")
    report = run(KILLS, SEED, 0.4, print)
    print(report)
    assert sum(report["kills"].values()) >= KILLS and report["jobs"]["completed"]


def test_runs_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    begun: list[tuple[int, str]] = []

    def ran(kills: int, seed: int, pace: float, tell: Any, backend: str, plain_share: float) -> dict[str, Any]:
        begun.append((kills, backend))
        outcome = Outcome(Counter(worker=kills), Counter(completed=5), 6)
        if len(begun) == 3:
            error = Broken([Violation("P13 to P15", "two workers of a task at once")], tmp_path)
            error.report = outcome.report(seed, backend, time.monotonic(), 1)
            raise error
        return outcome.report(seed, backend, time.monotonic(), 0)

    monkeypatch.setattr(jobs, "run", ran)
    monkeypatch.setattr(repeating, "stop_in_order", lambda: None)
    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(sys, "argv", ["kill-jobs", "--kills", "25", "--each", "10", "--results", str(path)])
    assert jobs.main() == 1
    assert begun == [(10, "sqlite"), (10, "mariadb"), (5, "sqlite")]
    assert "two workers" in capsys.readouterr().err
    # The run that failed is among them.
    assert jobs.main() == 1 and len(begun) == 3
    assert "3 runs, 25 kills {'worker': 25}, 15 jobs {'completed': 15}: 1 violations" in capsys.readouterr().out
