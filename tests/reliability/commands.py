"""What the commands of the kill tests have in common: options, signals, what they say."""

from __future__ import annotations

import argparse
import resource
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes.starting import PLAIN_SHARE


def parser(
    command: str, about: str | None, kills: str, each: str, backends: Sequence[str]
) -> argparse.ArgumentParser:
    """Options of a command whose results stand in a file.

    :param command: of make.
    :param kills: what ``--kills`` counts; ``each``: what ``--each`` does.
    """
    options = argparse.ArgumentParser(prog=f"make {command}", description=about)
    options.add_argument("--kills", type=int, help=f"{kills}, what the file has included")
    options.add_argument("--each", type=int, help=each)
    options.add_argument("--results", type=Path, default=Path(f"build/{command}.jsonl"))
    options.add_argument("--backend", choices=backends, help="only this one")
    options.add_argument("--seed", type=int, help="one run with this seed, not added to the file")
    options.add_argument("--table", action="store_true", help="only show what was reached")
    options.add_argument(
        "--plain-share",
        type=float,
        default=PLAIN_SHARE,
        help="of the starts, those that load all modules; the others are forked (default: %(default)s)",
    )
    return options


def stop_in_order() -> None:
    """Let both signals end a run in order, also one in the background: all its processes are ended, and what was not
    finished is forgotten."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def cpu_seconds() -> float:
    """Of this process and of its children that have ended, with theirs."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def new_seed() -> int:
    """For a run."""
    return time.time_ns() % 10**6


def tell(text: str) -> None:
    """Say something to who watches."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
