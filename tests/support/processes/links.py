"""Slow and unreliable wires: a proxy between ends that believe they talk to each other.

Run as a program: ``links.py SEED LINKS``, where LINKS is a JSON list of ``[listen, target, delay seconds, reset
seconds]``: two loopback ports; how long everything takes each way; how long, on average, until one of the connections
there is cut (0: none is).  Prints ``ready`` when it listens, and a line for each reset.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from twisted.internet import reactor
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

START_SECONDS = 60.0


class Link(NamedTuple):
    """A wire, as told above."""

    listen: int
    target: int
    delay_seconds: float = 0.0
    reset_seconds: float = 0.0


class Links:
    """These wires, in a process of their own.

    :param log: for what it prints.
    """

    def __init__(self, seed: int, links: list[Link], log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(seed), json.dumps(links)], stdout=out, stderr=out
            )
        end = time.monotonic() + START_SECONDS
        while "ready" not in log.read_text():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise AssertionError(f"the links do not listen: {log.read_text()}")
            time.sleep(0.05)

    @property
    def resets(self) -> int:
        """Connections that were reset so far."""
        return self._log.read_text().splitlines().count("reset")

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class _Half(Protocol):
    """One end; what it hears is said at the other one, later."""

    transport: ITCPTransport

    def __init__(self, delay_seconds: float) -> None:
        self.other: _Half | None = None
        self._delay = delay_seconds
        self._later: deque[Callable[[], None]] = deque()
        self._early: list[bytes] = []

    def join(self, other: _Half) -> None:
        """The other end is there."""
        self.other = other
        early, self._early = self._early, []
        for data in early:
            self.dataReceived(data)

    def dataReceived(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            other = self.other
            self._in_order(lambda: other.transport.write(data))

    def connectionLost(self, reason: Failure | None = None) -> None:
        if self.other is not None:
            self._in_order(self.other.transport.abortConnection)

    def _in_order(self, act: Callable[[], None]) -> None:
        self._later.append(act)
        reactor.callLater(self._delay, lambda: self._later.popleft()())  # type: ignore[attr-defined]


class _Ends(Factory):
    noisy = False

    def __init__(self, link: Link, random: Random) -> None:
        self._link = link
        self._random = random
        self._near: set[_Half] = set()

    def buildProtocol(self, address: object) -> _Half:
        near, far = _Half(self._link.delay_seconds), _Half(self._link.delay_seconds)
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self._link.target)
        far_factory = Factory.forProtocol(lambda: far)
        far_factory.noisy = False

        def connected(_: object) -> None:
            near.join(far)
            far.join(near)

        endpoint.connect(far_factory).addCallbacks(connected, lambda _: near.transport.abortConnection())
        self._near.add(near)
        return near

    def reset_later(self) -> None:
        """Cut these connections, now and then."""
        if self._link.reset_seconds:
            seconds = self._random.expovariate(1 / self._link.reset_seconds)
            reactor.callLater(seconds, self._reset)  # type: ignore[attr-defined]

    def _reset(self) -> None:
        self._near = {near for near in self._near if near.connected}
        if self._near:
            # One of them: what was on its way there goes to somebody else, who has kept his connection.
            self._random.choice(sorted(self._near, key=id)).transport.abortConnection()
            print("reset", flush=True)
        self.reset_later()


def main() -> None:
    """Listen until killed."""
    random = Random(sys.argv[1])
    for values in json.loads(sys.argv[2]):
        link = Link(*values)
        ends = _Ends(link, random)
        reactor.listenTCP(link.listen, ends, interface="127.0.0.1")  # type: ignore[attr-defined]
        ends.reset_later()
    print("ready", flush=True)
    reactor.run()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
