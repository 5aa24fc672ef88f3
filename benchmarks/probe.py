"""Single pages, again and again, to see how long each takes from being told to being cached.  Not for use alone.

``probe.py CONFIG UNS-PORT FIRST-PID PIDS EACH-SECONDS LOG [COUNT]``: the providers take turns.  With COUNT each page
waits for the one before, and it ends after so many; without, one is told every EACH-SECONDS, until the process is
terminated.  A line of the log for each: when it was told (seconds since 1970), milliseconds from the first byte to
the UNS until ``set_accepted``, and from there until a reader of the database sees it cached, and 0; ``- -`` and the
code, if it was rejected (-1: no answer).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random
from typing import Any, TextIO

import attrs
from lcc_site import PASSWORD
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater, react

from lcc.config import load_config
from lcc.domain.keys import url_key
from lcc.provider.client import Unreachable, submit, uns_endpoint
from lcc.storage.database import BlockingDatabase
from lcc.storage.providers import get_providers

LOOK_SECONDS = 0.004
LOOK_IDLE_SECONDS = 0.001
NAMES = 2000
"""A provider's pages; then the first again."""
PAGE_SECONDS_MAX = 600.0


@attrs.define
class Told:
    """A page that is on its way.

    :ivar accepted: when; 0: not yet.
    :ivar before: the number of its last change.
    """

    before: int
    accepted: float = 0.0
    cached: Deferred[None] = attrs.Factory(Deferred)


class Prober:
    """Tells of pages and looks for them."""

    def __init__(self, config: Path, port: int, first: int, count: int, log: TextIO) -> None:
        settings = load_config(config)
        self._database = BlockingDatabase(settings.database.url, settings.home, settings.database, random=Random())
        self._endpoint = uns_endpoint(reactor, f"127.0.0.1:{port}")
        pids = range(first, first + count)
        providers = self._database.interact(lambda txn: get_providers(txn, pids))
        self._roots = [(pid, providers[pid].roots[0]) for pid in pids]
        self._told: dict[bytes, Told] = {}
        self._known: dict[bytes, int] = {}
        self._number = 0
        self._log = log

    async def one(self) -> None:
        """Tell of one page and wait until it is there."""
        pid, root = self._roots[self._number % len(self._roots)]
        url = f"{root}{self._number // len(self._roots) % NAMES}.html"
        self._number += 1
        key = url_key(pid, url, "text/html")
        if key in self._told:
            return
        if key not in self._known:  # an earlier probe may have told of it
            sql = "SELECT change_number FROM lccurl WHERE urlkey = ?"
            self._known[key] = self._database.interact(lambda txn: txn.value(sql, [key], 0))
        wall, begun = time.time(), time.monotonic()
        told = self._told[key] = Told(self._known[key])
        try:
            answer = await submit(reactor, self._endpoint, pid, PASSWORD, [{"c": url, "m": "text/html"}])
            code = 0 if answer.accepted else answer.code
        except Unreachable:
            code = -1
        if code:
            del self._told[key]
            self._log.write(f"{wall:.3f} - - {code}\n")
            return
        told.accepted = time.monotonic()
        await told.cached
        now = time.monotonic()
        self._log.write(f"{wall:.3f} {1000 * (told.accepted - begun):.2f} {1000 * (now - told.accepted):.2f} 0\n")

    def look(self) -> None:
        """See which of them are cached by now."""
        accepted = [key for key, told in self._told.items() if told.accepted]
        if not accepted:
            return
        sql = "SELECT urlkey, change_number FROM lccurl WHERE urlkey IN ({in}) AND state = 1"
        for key, change in self._database.interact(lambda txn: txn.query_in(sql, accepted)):
            told = self._told[bytes(key)]
            if change > told.before:
                del self._told[bytes(key)]
                self._known[bytes(key)] = change
                told.cached.callback(None)
            elif time.monotonic() - told.accepted > PAGE_SECONDS_MAX:
                raise SystemExit("a page that was accepted is not cached")


async def main(
    _reactor: Any, config: str, port: str, first: str, pids: str, each: str, log: str, count: str = "0"
) -> None:
    """Probe."""
    with Path(log).open("a", buffering=1) as file:
        prober = Prober(Path(config), int(port), int(first), int(pids), file)
        looking = LoopingCall(prober.look)
        failed = looking.start(LOOK_IDLE_SECONDS if int(count) else LOOK_SECONDS)
        failed.addErrback(lambda failure: failure.printTraceback())
        if int(count):
            for _ in range(int(count)):
                await deferLater(reactor, float(each))  # type: ignore[arg-type]
                await prober.one()
            looking.stop()
            return

        def tell() -> None:
            Deferred.fromCoroutine(prober.one()).addErrback(lambda failure: failure.printTraceback())

        await LoopingCall(tell).start(float(each))


if __name__ == "__main__":
    react(lambda *arguments: Deferred.fromCoroutine(main(*arguments)), sys.argv[1:])
