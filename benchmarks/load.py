"""Providers that tell of pages at a steady rate, whether they are answered in time or not.  Not for use alone.

``load.py UNS-PORT SITE PROVIDERS RATE SECONDS WINDOW LOG``: so many pages a second for so long.  Each of the
providers 1 to PROVIDERS, whose roots are SITEp1/, SITEp2/ …, sends one set a second, and begins anew with its first
page after WINDOW pages.  A line of the log for each set, when it is answered: time sent (seconds since 1970),
provider, number of its first page, pages, and how it ended: 0 accepted, -1 no answer, -2 not sent, for earlier ones
of this provider were not answered; else the code of its rejection.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, TextIO

from lcc_site import PASSWORD
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater, react

from lcc.provider.client import Submission, Unreachable, submit, uns_endpoint

OPEN_MAX = 6
"""Connections of one provider; the UNS allows 8."""


class Source:
    """A provider with news each second."""

    def __init__(self, port: int, pid: int, site: str, window: int, log: TextIO) -> None:
        self._endpoint = uns_endpoint(reactor, f"127.0.0.1:{port}")
        self._pid = pid
        self._root = f"{site}p{pid}/"
        self._window = window
        self._log = log
        self._next = 0
        self._owed = 0.0
        self._open = 0

    def tell(self, pages: float) -> Deferred[None] | None:
        """Send a set of so many pages; fractions add up."""
        self._owed += pages
        count = int(self._owed)
        self._owed -= count
        if not count:
            return None
        first, self._next = self._next, (self._next + count) % self._window
        sent = time.time()

        def note(outcome: int) -> None:
            self._log.write(f"{sent:.3f} {self._pid} {first} {count} {outcome}\n")

        if self._open >= OPEN_MAX:
            note(-2)
            return None
        self._open += 1

        def answered(result: Submission) -> None:
            self._open -= 1
            note(0 if result.accepted and result.received == count else result.code or -1)

        def failed(failure: Any) -> None:
            self._open -= 1
            failure.trap(Unreachable)
            note(-1)

        urls = ({"c": f"{(first + each) % self._window}.html", "m": "text/html"} for each in range(count))
        done = submit(reactor, self._endpoint, self._pid, PASSWORD, urls, urlprefix=self._root)
        done.addCallbacks(answered, failed)
        return done  # type: ignore[return-value]


async def main(
    _reactor: Any, port: str, site: str, providers: str, rate: str, seconds: str, window: str, log: str
) -> None:
    """Tell, and wait for the last answers."""
    with Path(log).open("a", buffering=1) as file:
        count = int(providers)
        sources = [Source(int(port), pid, site, int(window), file) for pid in range(1, count + 1)]
        waiting: set[Deferred[None]] = set()
        begun = time.monotonic()
        for number in range(int(float(seconds) * count)):
            await deferLater(reactor, max(0.0, begun + number / count - time.monotonic()))  # type: ignore[arg-type]
            done = sources[number % count].tell(float(rate) / count)
            if done is not None:
                waiting.add(done)
                done.addBoth(lambda _, done=done: waiting.discard(done))
        await DeferredList(list(waiting))


if __name__ == "__main__":
    react(lambda *arguments: Deferred.fromCoroutine(main(*arguments)), sys.argv[1:])
