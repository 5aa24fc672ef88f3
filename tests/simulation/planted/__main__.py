"""``python -m tests.simulation.planted`` (``make sim-proof``) plants each bug, runs seeds until one breaks a promise,
and prints the table of doc/reliability/planted.md; ``--only NAME`` does so for one of them."""

from __future__ import annotations

import argparse
import os
import sys

from . import BUGS
from .finding import find

SEEDS_MAX = 5000


def main() -> int:
    """Gives the exit code: at most one is not found."""
    parser = argparse.ArgumentParser(prog="planted", description=__doc__)
    parser.add_argument("--only", action="append", help="names of bugs")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    missed = 0
    print("| bug | what it breaks | seed | what was seen |\n|---|---|---|---|")
    for bug in BUGS:
        if options.only and bug.name not in options.only:
            continue
        seed, seen = find(bug, options.first, options.seeds, options.jobs)
        missed += not seed
        seen = seen[:90].replace("|", " ")
        print(f"| {bug.name} | {bug.about} | {seed or 'none'} | {seen} |", flush=True)
    return missed > 1


if __name__ == "__main__":
    sys.exit(main())
