"""Many seeds, on all processors."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Iterator

from twisted.logger import globalLogBeginner

from .fault import Fault
from .results import Results
from .run import Result, run_seed, seed_number
from .shrink import shrink

TWICE_EVERY = 100


def quietly() -> None:
    """Logs go nowhere."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)


def _begin_worker() -> None:
    """What is loaded by now stays: it need not be looked through after each world."""
    quietly()
    gc.collect()
    gc.freeze()


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


def _run(seeds: list[str], processes: int) -> Iterator[Result]:
    """Run these in new processes: nothing can depend on where memory lies, or how strings are hashed there."""
    with multiprocessing.get_context("spawn").Pool(processes, _begin_worker, maxtasksperchild=200) as pool:
        for number, result in enumerate(pool.imap_unordered(run_one, seeds), 1):
            yield result
            if number % 10 == 0 and sys.stderr.isatty():
                print(f"\r{number} runs", end="", file=sys.stderr, flush=True)


def run_many(seeds: list[str], results: Results, processes: int, until_found: bool = False) -> list[Result]:
    """Run those of these that were not run before, then some of them once more, in other processes.

    :param until_found: the first one that breaks a promise is enough, and none is run twice.
    :returns: those that broke a promise, or were not the same when they were run twice.
    """
    bad: dict[str, Result] = {}

    def is_enough(result: Result) -> bool:
        results.add(result)
        if result.violations:
            bad[result.seed] = result
            print(f"\nseed {result.seed}: {result.violations[0]}", flush=True)
        return bool(result.violations) and until_found

    for result in _run([seed for seed in seeds if seed not in results.rows], processes):
        if is_enough(result):
            break
    if until_found:
        return list(bad.values())
    for result in _run(
        [seed for seed in seeds if seed_number(seed) % TWICE_EVERY == 0 and results.runs(seed) < 2],
        processes,
    ):
        before = results.rows[result.seed]["digest"]
        if before != result.digest:
            result.violations.insert(0, f"the seed gave {before} and {result.digest}")
        is_enough(result)
    return list(bad.values())
