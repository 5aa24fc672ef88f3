"""Single pages, again and again, to see how long each takes from being told to being cached.  Not for use alone.

``probe.py CONFIG UNS-PORT FIRST-PID PIDS EACH-SECONDS LOG COUNT [FIRST-PAGE]``: the providers take turns.  Each page
waits for the one before, and EACH-SECONDS; it ends after so many, of names from FIRST-PAGE on.  (The soak tells at a
steady rate: soak/probing.py.)  A line of the log for each: when it was told (seconds since 1970), milliseconds from
the connect to the UNS until the provider has heard ``set_accepted`` and has hung up, and from there until a reader of
the database sees it cached, and 0; ``- -`` and the code, if it was rejected (-1: no answer).  A page that is accepted
and never cached ends it with an error.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, TextIO

import attrs
from lcc_site import PASSWORD
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import LoopingCall, deferLater, react

from lcc.config import load_config
from lcc.domain.keys import url_key
from lcc.provider.client import Unreachable, submit, uns_endpoint
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.providers.providers import get_providers

LOOK_SECONDS = 0.001
PAGE_SECONDS_MAX = 600.0


@attrs.define
class Told:
    """A page that is on its way.

    :ivar accepted: when the provider had heard it and had hung up; 0: not yet.
    :ivar before: the number of its last change.
    """

    before: int
    accepted: float = 0.0
    cached: Deferred[None] = attrs.Factory(Deferred)


class NeverCached(Exception):
    """A page was accepted, and is not cached after :data:`PAGE_SECONDS_MAX`."""


class Prober:
    """Tells of pages and looks for them.

    :param pids: the providers.
    :param pages: the numbers of each provider's pages, one after the other.
    """

    def __init__(self, config: Path, port: int, pids: range, pages: Iterator[int], log: TextIO) -> None:
        settings = load_config(config)
        self._database = BlockingDatabase(settings.database.url, settings.home, settings.database, random=Random())
        self._endpoint = uns_endpoint(reactor, f"127.0.0.1:{port}")
        providers = self._database.interact(lambda txn: get_providers(txn, pids))
        self._roots = [(pid, providers[pid].roots[0]) for pid in pids]
        self._told: dict[bytes, Told] = {}
        self._known: dict[bytes, int] = {}
        self._names = ((pid, f"{root}{page}.html") for page in pages for pid, root in self._roots)
        self._log = log

    async def one(self) -> None:
        """Tell of one page and wait until it is there."""
        pid, url = next(self._names)
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
        """See which of them are cached by now.

        :raises NeverCached: one is not, for too long.
        """
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
        late = time.monotonic() - PAGE_SECONDS_MAX
        if any(0 < told.accepted < late for told in self._told.values()):
            raise NeverCached


async def tell_some(prober: Prober, each_seconds: float, count: int) -> None:
    """So many pages, one after the other."""
    for _ in range(count):
        await deferLater(reactor, each_seconds)  # type: ignore[arg-type]  # a module, to mypy
        await prober.one()


async def main(
    _reactor: Any,
    config: str,
    port: str,
    first_pid: str,
    pids: str,
    each: str,
    log: str,
    count: str,
    first_page: str = "0",
) -> None:
    """Probe."""
    providers = range(int(first_pid), int(first_pid) + int(pids))
    with Path(log).open("a", buffering=1) as file:
        prober = Prober(Path(config), int(port), providers, itertools.count(int(first_page)), file)
        looking = LoopingCall(prober.look).start(LOOK_SECONDS)
        telling = Deferred.fromCoroutine(tell_some(prober, float(each), int(count)))
        # The first that ends, ends it: what looks ends only by an error.
        await DeferredList([telling, looking], fireOnOneCallback=True, fireOnOneErrback=True, consumeErrors=True)


if __name__ == "__main__":
    react(lambda *arguments: Deferred.fromCoroutine(main(*arguments)), sys.argv[1:])
