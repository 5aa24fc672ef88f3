"""All cuts: every conversation, cut after every byte (``make cuts``).

It takes a while, in as many processes as there are cores; what is done is kept in a file, so that it can be stopped
and goes on where it was.  At the end stands a table; a cut with which a promise is broken is shown as it happens.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any, Protocol

import attrs
from twisted.logger import globalLogPublisher

from tests.support.logs import LoggedErrors
from tests.support.net import SILENT_EVERY, Cut
from tests.support.roles.chain import prepare

from .chain import Chain
from .full_set import FullSet
from .notifying import Notifying
from .reading import Reading

CHUNK = 200
FIRST_HOWS = 2 / (2 + 1 / SILENT_EVERY)
"""Where a conversation can also fall silent, that part of its cuts are of the other kinds."""
MEMORY = Path("/dev/shm")


class Conversation(Protocol):
    """What can be cut."""

    def cuts(self) -> Iterator[Cut]:
        """All cuts there are."""

    def run(self, cut: Cut) -> None:
        """Have the conversation, cut there; raises AssertionError if a promise is broken."""

    def end(self) -> None:
        """Stop everything; nothing may be left."""


def _fresh(base: Path) -> Path:
    return Path(mkdtemp(dir=base))


MAKE: dict[str, Callable[[Path, Path], Conversation]] = {
    "full set": lambda base, prepared: FullSet(_fresh(base), prepared),
    "chain": lambda _, prepared: Chain(prepared),
    "notifier": lambda _, prepared: Notifying(prepared),
    "users over HTTP": lambda base, prepared: Reading(_fresh(base), prepared, xml=False),
    "users over XML": lambda base, prepared: Reading(_fresh(base), prepared, xml=True),
}
"""The conversations by name; each is made in a folder, with a prepared LCC."""


def temporary() -> Path:
    """A new folder, in memory where that is possible."""
    return Path(mkdtemp(prefix="lcc-cuts-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))


def cut_all(name: str, choose: Callable[[list[Cut]], list[Cut]]) -> tuple[Counter[str], list[str]]:
    """Have a conversation with each of some cuts.

    :param choose: which of all.
    :returns: cuts by kind, and what was found to be wrong.
    """
    gc.collect()
    gc.freeze()  # what is loaded stays: the many worlds that come and go are cheaper to clear away
    base = temporary()
    errors = LoggedErrors()
    globalLogPublisher.addObserver(errors)
    done: Counter[str] = Counter()
    faults = []
    try:
        prepared = base / "prepared"
        prepared.mkdir()
        prepare(prepared)
        conversation = MAKE[name](base, prepared)
        cut: Cut | None
        for cut in [*choose(sorted(conversation.cuts(), key=_is_silent)), None]:
            try:
                if cut is None:
                    conversation.end()
                else:
                    done[kind_of(cut)] += 1
                    conversation.run(cut)
                logged = errors.flush()
                assert not logged, "errors were logged:\n" + "\n".join(logged)
            except Exception:
                faults.append(f"{name}: {cut or 'at the end'}: {traceback.format_exc()}")
                errors.flush()
                conversation = MAKE[name](base, prepared)
    finally:
        globalLogPublisher.removeObserver(errors)
        gc.unfreeze()
        shutil.rmtree(base)
    return done, faults


def _is_silent(cut: Cut) -> bool:
    """These take longest, and come last."""
    return cut.how == "silence"


def kind_of(cut: Cut) -> str:
    """For the table."""
    return f"{cut.wire} {'to' if cut.up else 'from'} the listening end, {cut.how}"


def sample(name: str, stride: int, seed: int, extra: int) -> tuple[Counter[str], list[str]]:
    """Some of the cuts: in steps of ``stride``, and ``extra`` random ones."""

    def choose(cuts: list[Cut]) -> list[Cut]:
        random = Random(seed)
        return cuts[random.randrange(stride) :: stride] + random.sample(cuts, extra)

    return cut_all(name, choose)


@attrs.frozen
class _Chunk:
    """Some cuts that follow each other."""

    name: str
    first: int

    def run(self) -> dict[str, Any]:
        done, faults = cut_all(self.name, lambda cuts: cuts[self.first : self.first + CHUNK])
        return {"name": self.name, "first": self.first, "done": done, "faults": faults}


def _count(name: str) -> int:
    counted = []

    def choose(cuts: list[Cut]) -> list[Cut]:
        counted.append(len(cuts))
        return []

    cut_all(name, choose)
    return counted[0]


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(prog="make cuts", description=__doc__)
    parser.add_argument("--state", type=Path, default=Path("build/cuts.jsonl"), help="what is done stands here")
    parser.add_argument("--again", action="store_true", help="start over")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--chunks", type=int, help=f"do so many times {CHUNK} cuts, and stop")
    arguments = parser.parse_args()
    state: Path = arguments.state
    if arguments.again:
        state.unlink(missing_ok=True)
    state.parent.mkdir(parents=True, exist_ok=True)
    results = [json.loads(line) for line in state.read_text().splitlines()] if state.exists() else []
    finished = {(result["name"], result["first"]) for result in results}
    totals = {name: _count(name) for name in MAKE}
    chunks = [_Chunk(name, first) for name in MAKE for first in range(0, totals[name], CHUNK)]
    # In any order, so that a part of them says something of all; but silence takes longest, and comes last.
    Random(1).shuffle(chunks)
    chunks.sort(key=lambda chunk: chunk.name != "full set" and chunk.first / totals[chunk.name] > FIRST_HOWS)
    todo = [chunk for chunk in chunks if (chunk.name, chunk.first) not in finished]
    print(f"{len(chunks)} times {CHUNK} cuts, {len(todo)} of them to be done", flush=True)
    with Pool(arguments.jobs) as pool, state.open("a") as file:
        for result in pool.imap_unordered(_Chunk.run, islice(todo, arguments.chunks)):
            results.append(result)
            file.write(json.dumps(result) + "\n")
            file.flush()
            for fault in result["faults"]:
                print(fault, flush=True)
            print(f"{len(results)} of {len(chunks)}", end="\r", file=sys.stderr, flush=True)
    return _report(results)


def _report(results: list[dict[str, Any]]) -> int:
    done: Counter[tuple[str, str]] = Counter()
    faults: Counter[str] = Counter()
    for result in results:
        for kind, count in result["done"].items():
            done[result["name"], kind] += count
        faults[result["name"]] += len(result["faults"])
    for (name, kind), count in sorted(done.items()):
        print(f"{name:18} {kind:48} {count:7}")
    for name in MAKE:
        total = sum(count for (of, _), count in done.items() if of == name)
        print(f"{name}: {total} cuts, {faults[name]} violations")
    print(f"all: {sum(done.values())} cuts, {sum(faults.values())} violations")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
