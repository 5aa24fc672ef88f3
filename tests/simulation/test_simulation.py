"""A few seeds, and the simulator itself.  ``make sim SEEDS=1000`` runs many."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs import LoggedErrors

from .fault import Fault, parse_fault
from .results import Results
from .run import Result, run_seed
from .shrink import shrink

# A killed process leaves coroutines that will never go on, and may wait in a ``finally``.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <coroutine:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def errors_are_expected(logged_errors: LoggedErrors) -> Iterator[None]:
    """Disks and databases fail here, and the LCC says so; tracebacks are found by the run itself."""
    yield
    gc.collect()
    logged_errors.events.clear()


@pytest.mark.parametrize(
    "seed",
    [
        *("0", "1", "3", "5", "0p", "2t", "23t", "13s", "2m"),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in ("2", "4", "6", "7", "4t", "12t", "30t", "60029s")),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in ("1m", "40m")),
    ],
)
def test_promises_are_kept(seed: str) -> None:
    result = run_seed(seed)
    assert not result.violations, "\n".join([f"seed {seed}", *map(str, result.faults), *result.violations])
    assert result.counts["sets accepted"] and result.counts["requests"]


def test_files_that_were_removed_since_the_backup_are_fetched_again() -> None:
    """Pages come back with the content that they had in the backup, 16 seconds old.  Without fsck
    this seed breaks P7."""
    result = run_seed("5827", [parse_fault("19.167 restore 10.0.0.2 16.269 701978147")])
    assert not result.violations


@pytest.mark.parametrize("kind", ["", pytest.param("m", marks=pytest.mark.long)])
def test_a_seed_decides_everything(kind: str) -> None:
    first, again, other = run_seed(f"3{kind}"), run_seed(f"3{kind}"), run_seed(f"4{kind}")
    assert (first.digest, first.events, first.counts) == (again.digest, again.events, again.counts)
    assert first.digest != other.digest


def test_faults_can_be_written_and_read() -> None:
    fault = Fault(1.5, "kill", "qm", 2.25, 77)
    assert parse_fault(str(fault)) == fault


def test_shrinking_keeps_what_is_needed() -> None:
    faults = [Fault(float(number), "kill", "qm", 1.0, number) for number in range(20)]
    needed = {3, 17}
    found = shrink(faults, lambda some: needed <= {fault.number for fault in some})
    assert {fault.number for fault in found} == needed


def test_results_add_up(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results = Results(path, "this")
    results.add(Result("1", events=5))
    results.add(Result("1", events=5, violations=["the seed gave one thing and another"]))
    results.add(Result("2", events=7))
    with path.open("a") as file:
        file.write('{"cut off')
    for again in (results, Results(path, "this")):
        assert (again.runs("1"), again.runs("2"), again.runs("3")) == (2, 1, 0)
        table = dict(again.table())
        assert [table[name] for name in ("seeds", "seeds with violations", "seeds run twice", "events")] == [
            2,
            1,
            1,
            12,
        ]
    assert not Results(path, "other").rows
