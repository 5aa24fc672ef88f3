"""Single pages at a steady rate, until it is told to end; then it waits for the last of them.  Not for use alone.

``python -m soak.probing CONFIG UNS-PORT FIRST-PID PIDS EACH-SECONDS LOG``: as probe.py, and its log.  When its
standard input ends it tells of no more pages.  So all that was told is in the log when it has ended: a page that is
not cached by then has a line with -3.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

from probe import Prober
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater, react
from twisted.internet.threads import deferToThread

from soak.samples import NEVER_CACHED

LOOK_SECONDS = 0.004
NAMES = 2000
"""A provider's pages; then the first again."""
LAST_SECONDS = 60.0
"""So long the last pages have."""


async def main(_reactor: Any, config: str, port: str, first: str, pids: str, each: str, log: str) -> None:
    """Probe."""
    with Path(log).open("a", buffering=1) as file:
        providers = range(int(first), int(first) + int(pids))
        prober = Prober(Path(config), int(port), providers, itertools.cycle(range(NAMES)), file)
        looking = LoopingCall(prober.look)
        looking.start(LOOK_SECONDS).addErrback(lambda failure: failure.printTraceback())
        begun: dict[Deferred[None], float] = {}

        def tell() -> None:
            done = Deferred.fromCoroutine(prober.one())
            begun[done] = time.time()

            def ended(result: Any) -> None:
                begun.pop(done, None)
                if result is not None:
                    result.printTraceback()
                    file.write(f"{time.time():.3f} - - {NEVER_CACHED}\n")

            done.addBoth(ended)

        telling = LoopingCall(tell)
        telling.start(float(each)).addErrback(lambda failure: failure.printTraceback())
        await deferToThread(sys.stdin.read)
        telling.stop()
        deadline = time.monotonic() + LAST_SECONDS
        while begun and time.monotonic() < deadline:
            await deferLater(reactor, LOOK_SECONDS)  # type: ignore[arg-type]  # a module, to mypy
        looking.stop()
        for moment in begun.values():
            file.write(f"{moment:.3f} - - {NEVER_CACHED}\n")


if __name__ == "__main__":
    react(lambda *arguments: Deferred.fromCoroutine(main(*arguments)), sys.argv[1:])
