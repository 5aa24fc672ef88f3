"""Runs of a kill test until so many kills are reached in all: what its commands have in common.

What was reached stands in a file, so it can be stopped and goes on where it was.  The first run in which a promise
was broken ends it; the run's folder is kept, and its violations stand in the file, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .commands import new_seed, stop_in_order, tell
from .results import Results
from .run import Broken

One = Callable[[Results, int, str], dict[str, Any]]
"""A run with this seed, on this backend; gives what is to be reported of it."""


def repeat(
    options: argparse.Namespace,
    backends: Sequence[str],
    one: One,
    *,
    reached: Callable[[Results], int] = Results.kills,
    had: Callable[[Results, str], int] = Results.kills,
    table: Callable[[Results], str] = Results.table,
) -> int:
    """Run until it is enough, or once if there is a seed.

    :param options: of :func:`commands.parser`.
    :param backends: in turn: the one that had the least so far, as ``had`` says.
    :param reached: kills that ``--kills`` counts.
    :param table: for people.
    :returns: the exit code: 1 if a promise was broken, in whichever run.
    """
    stop_in_order()
    results = Results(options.results)
    backends = (options.backend,) if options.backend else backends
    try:
        if options.seed is not None:
            print(one(results, options.seed, backends[0]), flush=True)
            return 0
        while not options.table and reached(results) < options.kills:
            backend, seed = min(backends, key=lambda name: had(results, name)), new_seed()
            tell(f"seed {seed} on {backend}")
            results.add(one(results, seed, backend))
            tell(f"{reached(results)} of {options.kills} kills")
    except Broken as broken:
        if broken.report and options.seed is None:
            results.add(broken.report)
        print(broken, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    print(table(results))
    return 1 if results.violations() else 0
