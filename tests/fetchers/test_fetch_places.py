"""Hostile hosts: none is connected to, whoever asks, by a URL or by a redirect."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IHostnameResolver
from zope.interface import implementer

from lcc.roles.bot.redirects import Redirects
from tests.hostile.answers import reply
from tests.hostile.places import NO_ANSWER, PLACES, PUBLIC, Place
from tests.support.roles.fetchers import SMALL, MemoryWeb

NOT_REMEMBERED = attrs.evolve(SMALL, dns_cache=0.0, keepalive=0.0, connect_timeout=1.0)


@implementer(IHostnameResolver)
class Names:
    """Answers as these places do."""

    def __init__(self, place: Place) -> None:
        self._answers = list(place.answers)

    def resolveHostName(self, resolutionReceiver: Any, hostName: str, *more: Any, **named: Any) -> Any:
        resolutionReceiver.resolutionBegan(None)
        answer = self._answers.pop(0)
        if answer != NO_ANSWER:
            for address in answer:
                kind = IPv6Address if ":" in address else IPv4Address
                resolutionReceiver.addressResolved(kind("TCP", address, 0))
            resolutionReceiver.resolutionComplete()


CASES = [(place, private) for place in PLACES for private in (False, True) if place.private or not private]


@pytest.mark.parametrize(("place", "private"), CASES, ids=[f"{place.name}, {private}" for place, private in CASES])
def test_nobody_is_connected_to(place: Place, private: bool) -> None:
    web = MemoryWeb(NOT_REMEMBERED, Names(place))
    url = f"http://{place.host}/"
    for _ in place.answers[1:]:
        # Until its owner thinks otherwise, it is a good one.
        outcomes = web.fetch(url, private=private)
        web.accept().send(reply())
        assert outcomes[0].content == b"hello"
    connected = len(web.reactor.tcpClients)
    outcomes = web.fetch(url, private=private)
    if not outcomes:
        web.reactor.advance(NOT_REMEMBERED.connect_timeout)
    assert outcomes[0].error == place.error
    assert len(web.reactor.tcpClients) == connected
    web.finish()


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_nor_behind_a_redirect(place: Place) -> None:
    roots = f"http://{PUBLIC}/"
    if not place.odd:
        roots += f" http://{place.host}/"  # so that nothing but its address speaks against it
    web = MemoryWeb(NOT_REMEMBERED, Names(attrs.evolve(place, answers=place.answers[-1:])))
    outcomes = web.fetch(f"http://{PUBLIC}/", follow=Redirects().rule(roots), private=False)
    web.accept().send(reply(b"", "302 Found", f"Location: http://{place.host}/"))
    if not outcomes:
        web.reactor.advance(NOT_REMEMBERED.connect_timeout)
    if place.odd:
        # 127.0.0.1. has another spelling, which lies outside; the others are no hosts.
        assert outcomes[0].error in ("bad-response", "redirect-outside")
    else:
        # A dead site behind a redirect is the trouble of this URL alone.
        expected = "redirect-unreachable" if place.error == "dns-failed" else place.error
        assert outcomes[0].error == expected
    assert len(web.reactor.tcpClients) == 1
    web.finish()
