"""Many seeds, on all processors."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Iterator

from twisted.logger import globalLogBeginner

from .faults import Fault
from .results import Results
from .run import Result, run_seed
from .shrink import shrink

TWICE_EVERY = 100


def quietly() -> None:
    """Logs go nowhere."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)


def run_one(seed: str) -> Result:
    """For a worker."""
    result = run_seed(seed)
    gc.collect()
    return result


def needed(result: Result) -> list[Fault]:
    """The faults without which the seed does not break the same promise."""
    promise = result.violations[0].split(" ")[0]

    def fails(faults: list[Fault]) -> bool:
        found = run_seed(result.seed, faults)
        gc.collect()
        return any(text.startswith(promise) for text in found.violations)

    return shrink(result.faults, fails)


def _jobs(seeds: list[str]) -> Iterator[str]:
    """The seeds, some of them once more."""
    for seed in seeds:
        yield seed
        if int(seed) % TWICE_EVERY == 0:
            yield seed


def run_many(seeds: list[str], results: Results, processes: int, until_found: bool = False) -> list[Result]:
    """Run these; gives those that broke a promise, or were not the same when they were run twice.

    :param until_found: the first one is enough.
    """
    bad: dict[str, Result] = {}
    digests: dict[str, str] = {}
    # Each process is a fresh one, so that what happens cannot depend on what was run before, or where memory lies.
    with multiprocessing.get_context("spawn").Pool(processes, quietly, maxtasksperchild=50) as pool:
        for number, result in enumerate(pool.imap_unordered(run_one, _jobs(seeds)), 1):
            before = digests.setdefault(result.seed, result.digest)
            if before != result.digest:
                result.violations.insert(0, f"the seed gave {before} and {result.digest}")
            if result.seed not in results.rows or result.violations:
                results.add(result)
            if result.violations:
                bad[result.seed] = result
                print(f"\nseed {result.seed}: {result.violations[0]}", flush=True)
                if until_found:
                    pool.terminate()
                    break
            if number % 10 == 0 and sys.stderr.isatty():
                print(f"\r{number} runs", end="", file=sys.stderr, flush=True)
    return list(bad.values())
