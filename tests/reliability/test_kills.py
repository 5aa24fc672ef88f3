"""A small slice of ``make kill-test``; LCC_LONG=1 does it on MariaDB and on a Galera cluster as well."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.databases import need_galera
from tests.support.switches import LONG

from .cluster import Kind
from .run import Plan, run

BACKENDS = ("sqlite", "mariadb", "galera") if LONG else ("sqlite",)
SEED = int(os.environ.get("LCC_KILL_SEED", "0")) or time.time_ns() % 100_000


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_kills(backend: str) -> None:
    if backend == "galera":
        need_galera()
    # Three kills may leave nobody the time to be asked twice.
    for seed in range(SEED, SEED + 3):
        print(f"LCC_KILL_SEED={seed}")
        plan = Plan(
            seed,
            backend,
            kills=5 if LONG else 3,
            rounds=1,
            providers=6,
            special=(Kind(interval_seconds=2.5),),
            pace_seconds=0.8,
            fault_seconds=0.4,
            still_share=0.0,
            damage=False,
            unses=1,
            machines=1,
            robots=1,
        )
        result = run(plan, print)
        print(result)
        assert sum(result["kills"].values()) >= plan.kills
        assert result["accepted"] and result["requests"] and result["cached"], "it has done nothing"
        if result["requests_in_interval"]:
            return
    raise AssertionError("nobody was asked twice in an interval's time")
