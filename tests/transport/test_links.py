"""Locks, ports that reopen, delays between attempts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import clientFromString
from twisted.internet.error import CannotListenError, ConnectionRefusedError
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure
from twisted.python.systemd import ListenFDs

from lcc.errors import Busy, ConfigError
from lcc.transport.links import LockService, PortService, RetryPolicy, link_service


def test_a_lock_is_exclusive_until_released(tmp_path: Path) -> None:
    first, second = LockService(tmp_path / "home" / "qm.lock"), LockService(tmp_path / "home" / "qm.lock")
    first.startService()
    with pytest.raises(Busy, match=r"qm\.lock"):
        second.startService()
    first.stopService()
    second.startService()
    second.stopService()


def test_delays_grow_and_start_again_after_a_good_hello() -> None:
    policy = RetryPolicy(lambda: 0.0)
    delays = [policy(1) for _ in range(8)]
    assert delays == sorted(delays)
    assert delays[0] <= 0.2
    assert max(delays) <= 2.0
    assert delays[-1] == 2.0
    policy.good_hello()
    assert policy(1) == delays[0]


class Greeter(Protocol):
    """Says hello and keeps the connection."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"hello")


class Listener(Protocol):
    """Waits for the first bytes."""

    def __init__(self, heard: Deferred[bytes]) -> None:
        self.heard = heard

    def dataReceived(self, data: bytes) -> None:
        self.heard.callback(data)
        assert self.transport is not None
        self.transport.loseConnection()


@inlineCallbacks
def hear(endpoint: str) -> Any:
    """What the port says to who connects."""
    heard: Deferred[bytes] = Deferred()
    yield clientFromString(reactor, endpoint).connect(Factory.forProtocol(lambda: Listener(heard)))
    return (yield heard)


@pytest_twisted.inlineCallbacks
def test_a_port_closes_and_opens_again_over_a_stale_socket(tmp_path: Path) -> Any:
    path = tmp_path / "s.sock"
    port = PortService(reactor, f"unix:{path}:mode=600:lockfile=0", Factory.forProtocol(Greeter))
    port.startService()
    assert (path.stat().st_mode & 0o777) == 0o600
    assert (yield hear(f"unix:{path}")) == b"hello"
    yield port.close_port()
    assert not port.is_open
    port.open_port()
    assert (yield hear(f"unix:{path}")) == b"hello"
    # A process that was killed leaves its socket behind; the next one removes it.
    orphan = tmp_path / "or:ph=an.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(orphan))
    left.close()
    name = str(orphan).replace(":", r"\:").replace("=", r"\=")
    other = PortService(reactor, f"unix:{name}:mode=600:lockfile=0", Factory.forProtocol(Greeter))
    other.startService()
    assert (yield hear(f"unix:{name}")) == b"hello"
    yield other.stopService()
    yield port.stopService()


@pytest_twisted.inlineCallbacks
def test_a_port_that_systemd_has_opened_lets_wait_while_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> Any:
    listening = socket.create_server(("127.0.0.1", 0))
    number = listening.getsockname()[1]
    # What Twisted reads of LISTEN_FDS when it is imported.
    inherited = ListenFDs([listening.detach()], ["uns"])
    monkeypatch.setattr("twisted.internet.endpoints._SystemdParser._sddaemon", inherited)
    port = PortService(reactor, "systemd:domain=INET:name=uns", Factory.forProtocol(Greeter))
    port.startService()
    endpoint = f"tcp:127.0.0.1:{number}"
    assert (yield hear(endpoint)) == b"hello"
    for _ in range(2):
        yield port.close_port()
        yield port.close_port()
        assert not port.is_open and port.is_closed_for_now
        waiting = hear(endpoint)
        yield deferLater(reactor, 0.2)
        assert not waiting.called, "it is neither refused nor served"
        port.open_port()
        assert port.is_open and not port.is_closed_for_now
        assert (yield waiting) == b"hello"
    yield port.close_port()
    yield port.stopService()


@pytest_twisted.inlineCallbacks
def test_a_taken_port_fails_at_once() -> Any:
    first = PortService(reactor, "tcp:0:interface=127.0.0.1", Factory.forProtocol(Greeter))
    first.startService()
    number = first.bound_port.getHost().port
    second = PortService(reactor, f"tcp:{number}:interface=127.0.0.1", Factory.forProtocol(Greeter))
    with pytest.raises(CannotListenError):
        second.startService()
    yield first.stopService()


@pytest_twisted.inlineCallbacks
def test_a_link_finds_a_peer_that_starts_later(tmp_path: Path) -> Any:
    path = tmp_path / "late.sock"
    heard: Deferred[bytes] = Deferred()
    link = link_service(
        reactor, f"unix:{path}", Factory.forProtocol(lambda: Listener(heard)), RetryPolicy(lambda: 0.5)
    )
    link.startService()
    port = PortService(reactor, f"unix:{path}:mode=600:lockfile=0", Factory.forProtocol(Greeter))
    wait: Deferred[None] = Deferred()
    reactor.callLater(0.3, wait.callback, None)  # type: ignore[attr-defined]
    yield wait
    port.startService()
    assert (yield heard) == b"hello"
    yield link.stopService()
    yield port.stopService()


def test_a_peer_that_is_away_is_logged_once_a_minute() -> None:
    clock = MemoryReactorClock()
    policy = RetryPolicy(lambda: 0.5)
    link = link_service(clock, "tcp:192.0.2.1:9100", Factory.forProtocol(Protocol), policy)
    with capturedLogs() as logged:
        link.startService()
        for _ in range(150):
            clock.tcpClients.pop()[2].clientConnectionFailed(None, Failure(ConnectionRefusedError()))
            clock.advance(2.1)
        clock.tcpClients.pop()[2].buildProtocol(None).makeConnection(StringTransport())
        policy.good_hello()
        link.stopService()
    lines = [formatEvent(event) for event in logged if "links" in event["log_namespace"] or "lient" in str(event)]
    away = "tcp:192.0.2.1:9100 is unreachable: Connection was refused by other side; retrying"
    assert lines == [*[away] * 6, "Connected to tcp:192.0.2.1:9100"]


@pytest.mark.parametrize("endpoint", ["tcp:host", "tcp:host:many", "tcp", "nonsense:1"])
def test_an_endpoint_that_makes_no_sense_is_named(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=endpoint):
        link_service(reactor, endpoint, Factory(), RetryPolicy(lambda: 0.5))
    with pytest.raises(ConfigError, match="invalid endpoint"):
        PortService(reactor, endpoint.replace("host", "many"), Factory()).startService()
