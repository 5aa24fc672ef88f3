"""Runs the benchmarks that are not done yet for this code, and writes one table of all.

``PYTHONPATH=benchmarks python -m suite [--quick] [--fresh] [--only NAME,…] [--runs 5]`` (``make bench``): can be
stopped and goes on where it was.  The table is build/bench.md (or build/bench-quick.md), and on the screen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from common import argument_parser, trash

from suite.plan import STEPS
from suite.results import Results
from suite.run import Suite
from suite.versions import versions

BUILD = Path(__file__).parent.parent.parent / "build"


def main() -> None:
    """Run what is to be run; exit code 1: a benchmark failed, or did not give its rows."""
    parser = argument_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, few runs: five minutes")
    parser.add_argument("--fresh", action="store_true", help="also what is done already")
    parser.add_argument("--only", default="", help="steps whose names contain one of these, by commas")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--table", action="store_true", help="run nothing, write the table of what is done")
    options = parser.parse_args()
    name = "bench-quick" if options.quick else "bench"
    suite = Suite(STEPS, Results(BUILD / name), options.quick, options.runs, versions())
    wanted = [] if options.table else [part for part in options.only.split(",") if part] or [""]
    with trash():
        failed = suite.run(wanted, options.fresh)
    text = suite.report()
    (BUILD / f"{name}.md").write_text(text)
    print(text)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin"
    main()
