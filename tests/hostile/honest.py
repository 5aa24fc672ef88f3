"""An honest provider, as a process of its own: publishes one small set after the other, and says how long each took.

``python -m tests.hostile.honest PORT PID PASSWORD URLPREFIX NAME…``; a line of JSON for each set: ``connected``,
``accepted`` (seconds from its begin; the second from its first element on), or ``error``.  It ends when standard
input is closed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from twisted.internet import reactor as global_reactor
from twisted.internet import stdio, task
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from lcc.provider.client import Unreachable, submit

reactor: Any = global_reactor
PAUSE_SECONDS = 0.05


async def publish(port: int, pid: int, password: str, prefix: str, names: list[str]) -> None:
    """Publish for ever."""
    number = 0
    while True:
        number += 1
        begun = reactor.seconds()
        welcomed: list[float] = []
        urls = [{"c": name, "m": "text/html", "mtime": str(1_000_000_000 + number)} for name in names]

        def welcome(_: Any, welcomed: list[float] = welcomed) -> bool:
            welcomed.append(reactor.seconds())
            return True

        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", port, 30)
        told: dict[str, Any] = {}
        try:
            answer = await submit(
                reactor, endpoint, pid, password, urls, urlprefix=prefix, on_welcome=welcome, timeout_seconds=60
            )
            now = reactor.seconds()
            told = {"connected": welcomed[0] - begun, "accepted": now - welcomed[0]} if welcomed else {}
            if not answer.accepted or answer.received != len(urls):
                told = {"error": f"{answer.code} {answer.text}"}
        except Unreachable as error:
            told = {"error": str(error)}
        print(json.dumps(told), flush=True)
        await task.deferLater(reactor, PAUSE_SECONDS)


class _End(Protocol):
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if reactor.running:
            reactor.stop()


def main() -> None:
    """The process."""
    port, pid, password, prefix, *names = sys.argv[1:]
    stdio.StandardIO(_End(), 0, sys.stderr.fileno())
    done: Deferred[None] = ensureDeferred(publish(int(port), int(pid), password, prefix, names))
    done.addErrback(lambda failure: (failure.printTraceback(), reactor.stop()))
    reactor.run()


if __name__ == "__main__":
    main()
