"""Plays mutated streams against all that reads from a connection; ``make fuzz STREAMS=1000000``.

Runs add up: each goes on where the last one was stopped, in the results' folder.  A stream that breaks something is
kept there as a file; ``--replay FILE`` plays its world again up to it.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from twisted.logger import globalLogBeginner

from tests.fuzz.campaign import Report, play_world
from tests.fuzz.results import OtherSeed, Results
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS
from tests.fuzz.watching import ErrorLog

SAMPLE_EVERY = 400
"""Of so many worlds one has its memory and its work measured."""
_SAMPLE = 7
SAVE_SECONDS = 10.0

_errors = ErrorLog()


class Job(NamedTuple):
    """A world to be played.

    :ivar number: counts the worlds of the target.
    """

    target: str
    number: int
    first: int
    count: int
    seed: str
    sample: bool


def by_name(name: str) -> type[Target]:
    """The target of this name."""
    return next(kind for kind in TARGETS if kind.name == name)


def begin_process() -> None:
    """What each process begins with."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # what was imported need not be looked at after each world
    globalLogBeginner.beginLoggingTo([_errors], redirectStandardIO=False, discardBuffer=True)


def play(job: Job) -> tuple[Job, Report]:
    """Play a world."""
    memory = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(prefix="lcc-fuzz-", dir=memory if memory.is_dir() else None))
    try:
        return job, play_world(by_name(job.target), home, job.seed, job.first, job.count, _errors, job.sample)
    finally:
        shutil.rmtree(home)


def jobs(results: Results, kinds: Sequence[type[Target]], streams: int, samples: bool) -> Iterator[Job]:
    """Worlds, until there are so many streams in all; each target has its share at any time."""
    given = {kind.name: results.total(kind.name).next for kind in kinds}
    while sum(given.values()) < streams:
        kind = min(kinds, key=lambda each: given[each.name] / each.share)
        first = given[kind.name]
        number = first // kind.streams
        given[kind.name] += kind.streams
        yield Job(kind.name, number, first, kind.streams, results.seed, samples and number % SAMPLE_EVERY == _SAMPLE)


def run(results: Results, kinds: Sequence[type[Target]], streams: int, processes: int, samples: bool = True) -> None:
    """Play until there are so many streams."""
    saved = time.monotonic()
    played: dict[str, set[int]] = {kind.name: set() for kind in TARGETS}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.targets"])
    with context.Pool(processes, begin_process) as pool:
        try:
            for job, report in pool.imap_unordered(play, jobs(results, kinds, streams, samples)):
                results.add(report)
                for fault in report.faults:
                    print(f"{fault.target}, stream {fault.number}: {fault.what}", file=sys.stderr)
                # A world that another process plays still is played again by the next run, if this one is stopped.
                done, total = played[job.target], results.total(job.target)
                done.add(job.first)
                while total.next in done:
                    done.remove(total.next)
                    total.next += job.count
                if time.monotonic() - saved > SAVE_SECONDS:
                    saved = time.monotonic()
                    results.save()
        except KeyboardInterrupt:
            print("stopped; the next run goes on from here", file=sys.stderr)
            pool.terminate()
    results.save()


def replay(path: Path) -> int:
    """Play the world of a fault again; the exit code."""
    begin_process()
    told = json.loads(path.read_text())
    kind = by_name(told["target"])
    first = told["number"] // kind.streams * kind.streams
    print(f"{told['target']}, stream {told['number']}: {bytes.fromhex(told['data'])!r}")
    _job, report = play(Job(kind.name, 0, first, told["number"] - first + 1, told["seed"], False))
    for fault in report.faults:
        print(f"stream {fault.number}: {fault.what}")
    print(f"{len(report.faults)} faults")
    return 1 if report.faults else 0


def main() -> int:
    """The command; its exit code: 1 when there are faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=20_000, help="in all, with those of earlier runs")
    parser.add_argument("--seed", default="lcc", help="what the streams are made from")
    parser.add_argument("--results", type=Path, default=Path("build/fuzz"), help="folder that runs add to")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-samples", dest="samples", action="store_false", help="measure nothing: it is faster")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="ends that have one of these words in their names")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="play the world of a fault again")
    options = parser.parse_args()
    if options.replay is not None:
        return replay(options.replay)
    try:
        results = Results(options.results, options.seed)
    except OtherSeed as error:
        parser.error(f"{error}; name another folder with --results")
    kinds = [kind for kind in TARGETS if any(word in kind.name for word in options.only or [""])]
    if not kinds:
        parser.error(f"--only: there are {', '.join(kind.name for kind in TARGETS)}")
    run(results, kinds, options.streams, options.processes, options.samples)
    print(results.table())
    return 1 if results.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
