"""Names to addresses: remembered, joined, bounded."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IHostnameResolver
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.errors import FetchError
from lcc.fetchers import resolver as module
from lcc.fetchers.resolver import ADDRESSES_MAX, CachingResolver
from tests.hostile.answers import reply
from tests.support.roles.fetchers import SMALL, MemoryWeb


@implementer(IHostnameResolver)
class Names:
    """A name server that answers when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.receivers: list[Any] = []

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Any = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        if hostName == "invalid":
            raise ValueError("label too long")
        self.asked.append(hostName)
        self.receivers.append(resolutionReceiver)
        resolutionReceiver.resolutionBegan(None)
        return None

    def answer(self, *addresses: str) -> None:
        receiver = self.receivers.pop(0)
        for address in addresses:
            kind = IPv6Address if ":" in address else IPv4Address
            receiver.addressResolved(kind("TCP", address, 0))
        receiver.addressResolved(UNIXAddress("/nowhere"))
        receiver.resolutionComplete()


def make(keep_seconds: float = 60.0) -> tuple[Clock, Names, CachingResolver]:
    clock, names = Clock(), Names()
    return clock, names, CachingResolver(clock, names, keep_seconds, 10.0)


def ask(resolver: CachingResolver, name: str = "example.org") -> list[Any]:
    """The list gets the addresses, or the error's text."""
    found: list[Any] = []
    resolver.resolve(name).addCallbacks(found.append, lambda reason: found.append(reason.value))
    return found


def test_lookups_of_one_name_are_joined_and_remembered() -> None:
    clock, names, resolver = make()
    first, second, other = ask(resolver), ask(resolver), ask(resolver, "other.example")
    assert names.asked == ["example.org", "other.example"]
    names.answer("8.8.8.8", "2606::1", "8.8.8.8")
    assert first == second == [("8.8.8.8", "2606::1")]
    names.answer("1.1.1.1")
    assert other == [("1.1.1.1",)]
    clock.advance(59)
    assert ask(resolver) == first
    clock.advance(2)
    assert ask(resolver) == []
    assert len(names.asked) == 3
    names.answer("8.8.4.4")
    assert clock.getDelayedCalls() == []


def test_failures_are_remembered_briefly() -> None:
    clock, names, resolver = make()
    (found,) = [ask(resolver)]
    names.answer()
    assert isinstance(found[0], FetchError)
    assert found[0].entry.name == "dns-failed"
    assert "no such host" in found[0].text
    assert isinstance(ask(resolver)[0], FetchError)
    assert len(names.asked) == 1
    clock.advance(6)
    ask(resolver)
    assert len(names.asked) == 2
    resolver.close()


def test_a_silent_name_server_is_not_waited_for() -> None:
    clock, names, resolver = make()
    found = ask(resolver)
    clock.advance(10)
    assert "no answer within 10 seconds" in found[0].text
    names.answer("8.8.8.8")
    assert len(found) == 1
    assert clock.getDelayedCalls() == []


def test_an_endless_answer_is_refused() -> None:
    _, names, resolver = make()
    found = ask(resolver)
    names.answer(*(f"8.8.{number // 250}.{number % 250}" for number in range(ADDRESSES_MAX + 1)))
    assert found[0].entry.name == "dns-failed"


def test_what_cannot_be_asked() -> None:
    _, _, resolver = make()
    assert "label too long" in ask(resolver, "invalid")[0].text


def test_cancelling_one_leaves_the_others() -> None:
    _, names, resolver = make()
    gone = resolver.resolve("example.org")
    ends: list[Failure] = []
    gone.addErrback(ends.append)
    stays = ask(resolver)
    gone.cancel()
    assert ends[0].check(CancelledError)
    names.answer("8.8.8.8")
    assert stays == [("8.8.8.8",)]


def test_without_keeping_each_is_asked() -> None:
    _, names, resolver = make(0.0)
    for _ in range(2):
        found = ask(resolver)
        names.answer("8.8.8.8")
        assert found == [("8.8.8.8",)]
    assert len(names.asked) == 2


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAMES_MAX", 3)
    _, names, resolver = make()
    for number in range(5):
        ask(resolver, f"n{number}.example")
        names.answer("8.8.8.8")
    ask(resolver, "n0.example")
    ask(resolver, "n4.example")
    assert names.asked.count("n0.example") == 2
    assert names.asked.count("n4.example") == 1
    resolver.close()


def test_a_fetch_resolves_and_tries_each_address() -> None:
    names = Names()
    web = MemoryWeb(SMALL, names)
    outcomes = web.fetch("http://example.org/", private=False)
    names.answer("2606::1", "8.8.8.8")
    host, port, factory, timeout, _ = web.reactor.tcpClients[-1]
    assert (host, port) == ("2606::1", 80)
    assert timeout <= SMALL.connect_timeout
    factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
    assert web.reactor.tcpClients[-1][0] == "8.8.8.8"
    web.accept().send(reply())
    assert outcomes[0].content == b"hello"
    web.finish()


def test_a_name_with_a_private_address_is_refused_as_a_whole() -> None:
    names = Names()
    web = MemoryWeb(SMALL, names)
    outcomes = web.fetch("http://rebind.example/", private=False)
    names.answer("8.8.8.8", "127.0.0.1")
    assert outcomes[0].error == "address-forbidden"
    assert web.reactor.tcpClients == []
    web.finish()


def test_a_name_that_is_not_there() -> None:
    names = Names()
    web = MemoryWeb(SMALL, names)
    outcomes = web.fetch("http://gone.example/", private=False)
    names.answer()
    assert outcomes[0].error == "dns-failed"
    web.finish()


def test_closing_while_a_name_is_asked_for() -> None:
    names = Names()
    web = MemoryWeb(SMALL, names)
    outcomes = web.fetch("http://slow.example/")
    web.finish()
    assert outcomes[0].error == "cancelled"
    names.answer("8.8.8.8")
    assert web.reactor.tcpClients == []
