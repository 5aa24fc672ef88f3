"""Runs worlds: ``python -m tests.simulation 1000`` (``make sim SEEDS=1000``).

Every fourth seed is also run with sites that tell of their pages in fast-path elements, as sites mostly do: "8p"; and
every fourth with a scheduler, managers and tasks: "2t"; with spiders: "1s"; with spiders, and several restores of the
queue's tables: "3r"; and with several LCCs behind a front end, and providers that move between them: "1m".

Seeds that were run before with the same code are not run again.  One in a hundred is run twice, in another process
each time, and must come out the same, event by event.  A violation is shown with its seed and the faults that it
needs; ``--seed 123`` runs one seed and shows its log; ``--faults FILE`` (or ``-``) takes the faults from there.

``--week`` runs one world for a week, without faults, and tells what grew in it.  ``--busy`` runs worlds with more
providers than robots, without faults, and tells which of them waited for too long.
"""

from __future__ import annotations

import argparse
import os
import sys
from hashlib import blake2b
from pathlib import Path

from twisted.logger import LogEvent, formatEvent, globalLogBeginner

from .busy import show_busy
from .fault import Fault, parse_fault
from .many import needed, quietly, run_many
from .results import Results
from .run import CRAWLS, MOVES, PLAIN, RESTORED, TASKS, Result, run_seed
from .week import show_week

VARIED_EVERY = 4
ROOT = Path(__file__).parents[2]


def code_version() -> str:
    """Names what is run: every file of the LCC and of the simulation."""
    found = blake2b(digest_size=8)
    for folder in ("lcc", "tests/simulation"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".sql"):
                found.update(path.read_bytes())
    return found.hexdigest()


def show(seed: str, faults: list[Fault] | None) -> Result:
    """Run one seed; its log goes to standard output."""

    def observe(event: LogEvent) -> None:
        print(f"{event.get('log_namespace', ''):28} {formatEvent(event)}")

    globalLogBeginner.beginLoggingTo([observe], redirectStandardIO=False, discardBuffer=True)
    result = run_seed(seed, faults)
    print(f"seed {seed}: {result.events} events, {result.seconds:.0f} simulated seconds, digest {result.digest}")
    for fault in result.faults:
        print(f"  {fault}")
    for text in result.violations:
        print(f"violation: {text}")
    return result


def main() -> int:
    """Gives the exit code."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="?", default=100, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", help="run one and show its log")
    parser.add_argument("--faults", type=argparse.FileType("r"), help="in place of those that the seed decides")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "simulation" / "results.jsonl")
    kinds = parser.add_mutually_exclusive_group()
    help_text = "all of them with {}, and no others"
    kinds.add_argument(
        "--tasks", dest="kind", action="store_const", const=TASKS, default="", help=help_text.format("a scheduler")
    )
    kinds.add_argument("--spiders", dest="kind", action="store_const", const=CRAWLS, help=help_text.format("spiders"))
    help_restores = help_text.format("spiders and several restores")
    kinds.add_argument("--restores", dest="kind", action="store_const", const=RESTORED, help=help_restores)
    help_moves = help_text.format("several LCCs behind a front end")
    kinds.add_argument("--moves", dest="kind", action="store_const", const=MOVES, help=help_moves)
    parser.add_argument("--week", action="store_true", help="one world for a week, in which nothing may grow")
    parser.add_argument("--busy", action="store_true", help="worlds in which each provider must come to its turn")
    parser.add_argument("--until-found", action="store_true", help="stop at the first violation")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    faults = [parse_fault(line) for line in options.faults if line.strip()] if options.faults else None
    if options.week:
        quietly()
        return bool(show_week(str(options.first)))
    if options.busy:
        quietly()
        return bool(show_busy(range(options.first, options.first + options.seeds)))
    if options.seed is not None:
        return bool(show(options.seed, faults).violations)
    results = Results(options.results, code_version())
    numbers = range(options.first, options.first + options.seeds)
    wanted = [f"{number}{options.kind}" for number in numbers]
    if not (options.until_found or options.kind):
        for rest, kind in ((0, PLAIN), (1, CRAWLS), (2, TASKS), (3, RESTORED), (1, MOVES)):
            wanted += [f"{number}{kind}" for number in numbers if number % VARIED_EVERY == rest]
    bad = run_many(wanted, results, options.jobs, options.until_found)
    quietly()
    for result in bad[:5]:
        print(f"\nseed {result.seed}:")
        for text in result.violations[:5]:
            print(f"  {text}")
        if not options.no_shrink and not options.until_found and result.faults:
            print("  it needs these faults (--faults takes them):")
            for fault in needed(result):
                print(f"    {fault}")
    for name, count in results.table():
        print(f"{name:24} {count:>12,}")
    return any(row["violations"] for row in results.rows.values())


if __name__ == "__main__":
    sys.exit(main())
