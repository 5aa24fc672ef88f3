"""Connections to the UNSes of a sub-LCC: spread, and those that cannot be reached left out."""

from __future__ import annotations

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from lcc.roles.fe_uns.engine import Unreachable
from lcc.roles.fe_uns.uplinks import AVOIDED_SECONDS, Uplinks

from .kit import sublcc


class Bench:
    """Uplinks whose connections are answered by hand."""

    def __init__(self) -> None:
        self.clock = MemoryReactorClock()
        self.uplinks = Uplinks(lambda text: TCP4ClientEndpoint(self.clock, text, 9000), self.clock)
        self.sub = sublcc(1, uns=("10.0.0.1", "10.0.0.2"))

    @property
    def tried(self) -> list[str]:
        """The hosts, in order."""
        return [host for host, *_ in self.clock.tcpClients]

    def connect(self) -> Deferred[object]:
        return Deferred.fromCoroutine(self.uplinks.connect(self.sub))

    def refuse(self) -> None:
        """Refuse the newest connection."""
        factory = self.clock.tcpClients[-1][2]
        factory.clientConnectionFailed(self.clock.connectors[-1], Failure(ConnectionRefusedError()))


@pytest_twisted.ensureDeferred
async def test_a_uns_that_refuses_is_tried_last_for_some_seconds() -> None:
    bench = Bench()
    connecting = bench.connect()
    bench.refuse()
    bench.refuse()
    with pytest.raises(Unreachable, match=r"10\.0\.0\..*refused.*10\.0\.0\..*refused"):
        await connecting
    assert sorted(bench.tried) == ["10.0.0.1", "10.0.0.2"]
    bench.clock.advance(AVOIDED_SECONDS)
    bench.connect().addErrback(lambda _: None)
    bench.refuse()
    bad = bench.tried[-2]
    for _ in range(3):
        bench.connect()
        assert bench.tried[-1] != bad


@pytest_twisted.ensureDeferred
async def test_who_goes_meanwhile_is_connected_nowhere() -> None:
    bench = Bench()
    connecting = bench.connect()
    connecting.cancel()
    with pytest.raises(CancelledError):
        await connecting
    assert len(bench.tried) == 1
