"""``make kill-test``: runs until so many kills are reached in all, on both databases in turn.

What was reached stands in a file, so it can be stopped and goes on where it was.  The first run in which a promise
was broken ends it; the run's folder is kept, and its violations stand in the file, too.
"""

from __future__ import annotations

import argparse
import sys

from .cluster import DATABASE
from .commands import new_seed, parser, stop_in_order, tell
from .results import Results
from .run import NODES_WEIGHT, PART_SHARE, Broken, Plan, run

BACKENDS = ("sqlite", "mariadb")


def main() -> int:
    """The exit code: 1 if a promise was broken, in whichever run."""
    settings = parser("kill-test", __doc__, "in all", "kills of one run", (*BACKENDS, "galera"))
    settings.set_defaults(kills=100, each=60)
    settings.add_argument("--rounds", type=int, default=2, help="times in a run when it is left alone, and judged")
    settings.add_argument(
        "--slow-central",
        action="store_true",
        help="runs whose queue manager is 600 ms away from the central BOT-M, and whose BOT-Ms lose their connections"
        " to that again and again; --kills counts only these",
    )
    settings.add_argument("--table", action="store_true", help="only show what was reached")
    options = settings.parse_args()
    stop_in_order()
    results = Results(options.results)
    backends = (options.backend,) if options.backend else BACKENDS
    try:
        slow = options.slow_central
        if options.seed is not None:
            print(run(_plan(options, options.seed, backends[0], options.each), tell), flush=True)
            return 0
        while not options.table and (reached := results.kills(slow_central=slow)) < options.kills:
            backend = min(backends, key=lambda name: results.kills(name, slow_central=slow))
            kills = min(options.each, max(2, options.kills - reached))
            plan = _plan(options, new_seed(), backend, kills)
            tell(f"{plan.kills} kills on {backend}, seed {plan.seed}")
            results.add(run(plan, tell))
            tell(f"{results.kills(slow_central=slow)} kills in all")
    except Broken as broken:
        if broken.report and options.seed is None:
            results.add(broken.report)
        print(broken, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    print(results.table())
    return 1 if results.violations() else 0


def _plan(options: argparse.Namespace, seed: int, backend: str, kills: int) -> Plan:
    return Plan(
        seed,
        backend,
        kills,
        options.rounds,
        slow_central=options.slow_central,
        plain_share=options.plain_share,
        part_share=PART_SHARE,
        weights={DATABASE: NODES_WEIGHT} if backend == "galera" else {},
    )


if __name__ == "__main__":
    sys.exit(main())
