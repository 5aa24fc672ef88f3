"""A small slice of ``make kill-jobs``."""

from __future__ import annotations

import os
import time

from tests.support.switches import LONG

from .jobs import run

SEED = int(os.environ.get("LCC_KILL_SEED", "0")) or time.time_ns() % 100_000
KILLS = 12 if LONG else 6


def test_jobs_survive_kills() -> None:
    print(f"LCC_KILL_SEED={SEED}")
    outcome = run(KILLS, SEED, 0.4, print)
    print(outcome)
    assert sum(outcome.kills.values()) >= KILLS and outcome.jobs["completed"]
