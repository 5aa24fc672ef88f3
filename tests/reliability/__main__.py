"""``make kill-test``: runs until so many kills are reached in all, on both databases in turn (:mod:`repeating`)."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .cluster import DATABASE
from .commands import parser, tell
from .repeating import repeat
from .results import Results
from .run import NODES_WEIGHT, PART_SHARE, Plan, run

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
    options = settings.parse_args()

    def kills(results: Results, backend: str | None = None) -> int:
        return results.kills(backend, slow_central=options.slow_central)

    def one(results: Results, seed: int, backend: str) -> dict[str, Any]:
        left = options.each if options.seed is not None else max(2, options.kills - kills(results))
        return run(_plan(options, seed, backend, min(options.each, left)), tell)

    return repeat(options, BACKENDS, one, reached=kills, had=kills)


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
