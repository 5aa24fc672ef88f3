"""The provider's end of the conversation, over transports in memory, at every cut of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from lcc.interfaces import IConversation
from lcc.protocols.cp_uns import InitAccepted, write_fault
from lcc.protocols.cp_uns_server import init_rejected, set_accepted, set_rejected, set_result_open
from lcc.provider.client import ProviderConversation, Request, Submission, Unreachable, provider_stream, uns_endpoint
from tests.support.servers.uns import welcome

FAULT = write_fault(1204, "http://site/b", [("c", "b")], "outside")
URLS = [{"c": "a", "m": "text/html"}, {"c": "b", "m": "text/html"}]


class Transport(StringTransport):
    """A string transport that can be aborted, and tells the protocol when it is closed."""

    aborted = False
    protocol: Any = None

    def loseConnection(self) -> None:
        super().loseConnection()
        self.protocol.connectionLost(Failure(ConnectionDone()))

    def abortConnection(self) -> None:
        self.aborted = True
        self.protocol.connectionLost(Failure(ConnectionLost()))


@attrs.define
class Talk:
    """A conversation under test."""

    clock: Clock
    transport: Transport
    stream: Any
    results: list[Any]
    done: Any

    def hear(self, text: str, size: int = 0) -> None:
        """The UNS says this, in pieces of so many bytes."""
        data = text.encode()
        for start in range(0, len(data), size or len(data)):
            if self.results:
                break
            self.stream.dataReceived(data[start : start + (size or len(data))])
            self.clock.advance(0)

    @property
    def said(self) -> str:
        """What was sent so far."""
        self.clock.advance(0)
        return self.transport.value().decode()

    @property
    def answer(self) -> Any:
        """The one result; exceptions as they are."""
        (result,) = self.results
        return result.value if isinstance(result, Failure) else result


def talk(**request: Any) -> Talk:
    """Connect."""
    clock = Clock()
    request.setdefault("urls", URLS)
    conversation = ProviderConversation(clock, Request(7, 'p&"w', **request))
    assert verifyObject(IConversation, conversation)
    results: list[Any] = []
    conversation.done.addBoth(results.append)
    stream = provider_stream(clock, conversation, 300)
    transport = Transport()
    transport.protocol = stream
    stream.makeConnection(transport)
    return Talk(clock, transport, stream, results, conversation.done)


@pytest.mark.parametrize("size", [0, *range(1, 40), 1000])
def test_an_accepted_set(size: int) -> None:
    one = talk(urlprefix="http://site/", full=True)
    assert '<provider id="7" passwd="p&amp;&quot;w"/>' in one.said
    one.hear(welcome(errors=1), size)
    assert one.said.endswith('<lococa:set set="full" urlprefix="http://site/">\n<url c="a" m="text/html"/>\n'
                             '<url c="b" m="text/html"/>\n</lococa:set>\n')  # fmt: skip
    one.hear(set_result_open("lococa") + FAULT + set_accepted("lococa", 1), size)
    answer = one.answer
    assert isinstance(answer, Submission)
    assert (answer.accepted, answer.received, answer.sent, answer.fault_count) == (True, 1, 2, 1)
    assert answer.faults[0].url == "http://site/b"
    assert answer.welcome is not None
    assert answer.welcome.errors[0].text == "Not Found"
    assert not one.transport.aborted
    assert not one.clock.getDelayedCalls()


@pytest.mark.parametrize("size", [0, 1, 7, 31])
def test_rejections(size: int) -> None:
    one = talk()
    one.hear(init_rejected("lococa", 1010, "no"), size)
    assert (one.answer.accepted, one.answer.code, one.answer.text, one.answer.welcome) == (False, 1010, "no", None)
    one = talk()
    one.hear(welcome(), size)
    one.hear(set_result_open("lococa") + set_rejected("lococa", 1101, "no"), size)
    assert (one.answer.accepted, one.answer.code) == (False, 1101)
    assert one.answer.welcome is not None


def test_a_rejection_without_the_prefix_is_understood() -> None:
    one = talk()
    one.hear(init_rejected("", 1014, "later"))
    assert one.answer.code == 1014


class Filling:
    """Endless elements; each time that 600 were drawn, the connection is full."""

    def __init__(self) -> None:
        self.drawn = 0
        self.stream: Any = None

    def __iter__(self) -> Iterator[dict[str, str]]:
        while True:
            self.drawn += 1
            if self.drawn % 600 == 0:
                self.stream.pauseProducing()
            yield {"c": "a"}


def filling_talk() -> tuple[Talk, Filling]:
    """A conversation that never comes to its set's end."""
    filling = Filling()
    one = talk(urls=filling)
    filling.stream = one.stream
    one.hear(welcome())
    return one, filling


def test_a_full_connection_stops_the_sending() -> None:
    one, filling = filling_talk()
    assert filling.drawn == 1000
    one.clock.advance(1)
    assert filling.drawn == 1000
    one.stream.resumeProducing()
    one.clock.advance(0)
    assert filling.drawn == 1500
    # A rejection while we send: nothing more goes out.
    one.hear(set_result_open("lococa") + set_rejected("lococa", 1102, "large"))
    assert one.answer.code == 1102
    assert one.transport.aborted
    assert "</lococa:set>" not in one.said
    assert not one.clock.getDelayedCalls()


def test_only_connecting() -> None:
    seen: list[InitAccepted] = []
    one = talk(urls=None, on_welcome=lambda heard: bool(seen.append(heard)) or True)
    one.hear(welcome(wanted="old-files"))
    assert one.answer.accepted
    assert not one.answer.finished
    assert seen[0].full_set_reason == "old-files"
    assert "set=" not in one.said
    one = talk(on_welcome=lambda _: False)
    one.hear(welcome())
    assert one.answer.accepted
    assert one.answer.sent == 0


def test_lost_connections_say_whether_the_set_may_be_in() -> None:
    one = talk()
    one.stream.connectionLost(Failure(ConnectionLost()))
    assert isinstance(one.answer, Unreachable)
    assert not one.answer.uncertain
    one, _ = filling_talk()
    one.stream.readConnectionLost()
    assert not one.answer.uncertain
    one = talk()
    one.hear(welcome())
    one.stream.connectionLost(Failure(ConnectionLost()))
    assert one.answer.uncertain


def test_silence() -> None:
    one = talk(timeout_seconds=10)
    one.clock.pump([3, 3, 3])
    assert not one.results
    one.hear(welcome())
    one.clock.pump([3, 3, 3])
    assert not one.results
    one.clock.advance(2)
    assert "no response for 10 seconds" in str(one.answer)
    assert one.answer.uncertain
    assert one.transport.aborted


def test_a_peer_that_does_not_let_go_is_dropped() -> None:
    one = talk(urls=None)
    one.transport.loseConnection = lambda: None  # type: ignore[method-assign]
    one.hear(welcome())
    assert not one.results
    one.clock.advance(6)
    assert one.answer.accepted


@pytest.mark.parametrize(
    "text",
    [
        "HTTP/1.0 400 <Bad>",
        "<lococa:hello/>",
        "<!DOCTYPE x><init_accepted/>",
        '<lococa:init_rejected><reason code="x">t</reason></lococa:init_rejected>',
        "<lococa:init_rejected></lococa:init_rejected>",
    ],
)
def test_strange_peers(text: str) -> None:
    one = talk()
    one.hear(text)
    assert isinstance(one.answer, Unreachable)
    assert "cannot parse the response" in str(one.answer)
    assert one.transport.aborted


def test_accepted_too_early_is_not_believed() -> None:
    one, _ = filling_talk()
    one.hear(set_result_open("lococa") + set_accepted("lococa", 1))
    assert isinstance(one.answer, Unreachable)


def test_faults_of_the_caller_come_back() -> None:
    def broken() -> Iterator[dict[str, str]]:
        yield {"c": "a"}
        raise OSError("disk")

    def refuse(_heard: InitAccepted) -> bool:
        raise KeyError("x")

    one = talk(urls=broken())
    one.hear(welcome())
    assert isinstance(one.answer, OSError)
    assert "</lococa:set>" not in one.said
    one = talk(on_welcome=refuse)
    one.hear(welcome())
    assert isinstance(one.answer, KeyError)


def test_it_can_be_interrupted() -> None:
    one = talk()
    one.done.cancel()
    assert str(one.answer) == "interrupted"


def test_the_password_does_not_show() -> None:
    assert "secret" not in repr(Request(7, "secret", None))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9000", "localhost", 9000),
        ("site.example", "site.example", 9000),
        ("tls:9002", "tls", 9002),
    ],
)
def test_hosts(text: str, host: str, port: int) -> None:
    endpoint = uns_endpoint(MemoryReactorClock(), text)
    assert isinstance(endpoint, HostnameEndpoint)
    assert (endpoint._hostText, endpoint._port) == (host, port)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("[::1]:9001", "::1", 9001), ("[fe80::1%1]", "fe80::1", 9000), ("192.0.2.1:1", "192.0.2.1", 1)],
)
def test_addresses_are_not_looked_up(text: str, host: str, port: int) -> None:
    clock = MemoryReactorClock()
    uns_endpoint(clock, text).connect(Factory())
    ((connected_host, connected_port, *_),) = clock.tcpClients
    assert connected_host.partition("%")[0] == host
    assert connected_port == port


def test_endpoints() -> None:
    for text in ("unix:/run/lcc/uns", "tls:host:9000", "tcp:host:9000", "tcp:port=9:host=h"):
        uns_endpoint(MemoryReactorClock(), text)
    for text in ("", "host:0", "host:99999", "bogus:a:b", "http://host:9000"):
        with pytest.raises(ValueError, match=r"neither|no port"):
            uns_endpoint(MemoryReactorClock(), text)
