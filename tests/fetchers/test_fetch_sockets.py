"""The fetcher on real sockets: the same cases as in memory, and what memory cannot show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, gatherResults

from lcc.fetchers.http import HttpFetcher
from lcc.model import FetchOrder
from lcc.roles.bot.redirects import Redirects
from tests.hostile.answers import BAD, CLOSE, GOOD, HANG, RESET, Case, reply
from tests.support.roles.fetchers import SMALL, Outcome, ScriptedServer, Sink, close_clean, collect
from tests.support.waiting import until

reactor: Any = global_reactor
# Long enough for a busy machine where the case is not about time; the idle time of those that hang stays short.
REAL = attrs.evolve(SMALL, connect_timeout=30.0, deadline=60.0, idle_timeout=20.0, keepalive=20.0)


class Web:
    """A scripted server on loopback with a fetcher."""

    def __init__(self, *scripts: Sequence[bytes | str], settings: Any = REAL) -> None:
        self.server = ScriptedServer(*scripts)
        self.port = reactor.listenTCP(0, self.server, interface="127.0.0.1")
        self.base = f"http://127.0.0.1:{self.port.getHost().port}"
        self.fetcher = HttpFetcher(reactor, settings)
        self.follow = Redirects().rule(self.base + "/")

    def fetch(self, path: str = "/page", pid: int = 1) -> Deferred[Outcome]:
        sink = Sink()
        order = FetchOrder(pid, self.base + path, private=True)
        return collect(self.fetcher.fetch(order, sink, self.follow), sink)

    async def close(self) -> None:
        """Nothing of the fetcher may be left: no timer, and no connection that the server still sees."""
        await close_clean(self.fetcher)
        await until(lambda: not self.server.open)
        await self.port.stopListening()


def script(case: Case) -> list[bytes | str]:
    return [case.sent, case.then]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
@pytest_twisted.ensureDeferred
async def test_a_good_answer(case: Case) -> None:
    web = Web(script(case))
    outcome = await web.fetch()
    assert (outcome.error, outcome.content) == ("", case.content)
    await web.close()


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
@pytest_twisted.ensureDeferred
async def test_a_bad_answer(case: Case) -> None:
    settings = attrs.evolve(REAL, idle_timeout=0.1) if case.error == "idle-timeout" else REAL
    web = Web(script(case), settings=settings)
    outcome = await web.fetch()
    assert outcome.error == case.error
    await web.close()


@pytest.mark.parametrize("digits", ["0" * 4300 + "5", "9" * 5000, "0" * 60_000 + "5"])
@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "304 Not Modified", "302 Found\r\nLocation: /x"])
@pytest_twisted.ensureDeferred
async def test_a_length_of_thousands_of_digits(digits: str, status: str) -> None:
    """More than Python's int() takes; the parser of the head lets zeros pass."""
    sent = f"HTTP/1.1 {status}\r\nContent-Length: {digits}\r\n\r\nhello".encode()
    web = Web([sent, CLOSE], settings=attrs.evolve(REAL, header_bytes_max=65536))
    outcome = await web.fetch()
    assert outcome.error == "bad-response"
    await web.close()


@pytest_twisted.ensureDeferred
async def test_a_hundred_fetches_of_a_provider_take_one_connection() -> None:
    web = Web([reply()])
    for number in range(100):
        assert (await web.fetch(f"/{number}")).content == b"hello"
    assert web.server.connections == 1
    assert len(web.server.requests) == 100
    assert (await web.fetch(pid=2)).content == b"hello"
    assert web.server.connections == 2
    await web.close()


@pytest_twisted.ensureDeferred
async def test_many_providers_at_once() -> None:
    web = Web([reply(b"x" * 9999)])
    outcomes: list[Outcome] = await gatherResults([web.fetch(pid=pid) for pid in range(50)])
    assert {outcome.content for outcome in outcomes} == {b"x" * 9999}
    await web.close()


@pytest.mark.parametrize("end", [CLOSE, RESET])
@pytest_twisted.ensureDeferred
async def test_a_server_that_drops_a_kept_connection_when_asked_again(end: str) -> None:
    web = Web([reply(), HANG], [end], [reply(b"again")])
    assert (await web.fetch()).content == b"hello"
    assert (await web.fetch()).content == b"again"
    assert web.server.connections == 2
    assert len(web.server.requests) == 3
    await web.close()


@pytest_twisted.ensureDeferred
async def test_a_server_that_dropped_it_in_between() -> None:
    web = Web([reply(), CLOSE])
    for _ in range(5):
        assert (await web.fetch()).content == b"hello"
    await web.close()


@pytest_twisted.ensureDeferred
async def test_large_bodies_pass_in_pieces() -> None:
    body = bytes(range(256)) * 40_000
    pieces: list[int] = []

    class Counting(Sink):
        def write(self, data: bytes) -> None:
            pieces.append(len(data))
            super().write(data)

    web = Web([reply(body)], settings=attrs.evolve(REAL, body_bytes_max=len(body)))
    sink = Counting()
    order = FetchOrder(1, web.base + "/", private=True)
    outcome = await collect(web.fetcher.fetch(order, sink, web.follow), sink)
    assert outcome.content == body
    assert max(pieces) <= 1 << 17
    await web.close()


@pytest_twisted.ensureDeferred
async def test_nobody_listens() -> None:
    web = Web([reply()])
    await web.port.stopListening()
    outcome = await web.fetch()
    assert outcome.error == "connect-refused"
    await web.fetcher.close()


@pytest_twisted.ensureDeferred
async def test_localhost_is_refused_and_allowed_by_name() -> None:
    web = Web([reply()])
    url = f"http://localhost:{web.port.getHost().port}/"
    for private, error in ((False, "address-forbidden"), (True, "")):
        sink = Sink()
        fetch = web.fetcher.fetch(FetchOrder(1, url, private=private), sink, web.follow)
        assert (await collect(fetch, sink)).error == error
    await web.close()


@pytest_twisted.ensureDeferred
async def test_cancelling_closes_the_connection() -> None:
    web = Web([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", HANG])
    started: Deferred[None] = Deferred()

    class Waiting(Sink):
        def write(self, data: bytes) -> None:
            started.callback(None)

    result = web.fetcher.fetch(FetchOrder(1, web.base + "/", private=True), Waiting(), web.follow)
    await started
    result.cancel()
    with pytest.raises(CancelledError):
        await ensureDeferred(_wait(result))
    await web.close()


async def _wait(result: Deferred[Any]) -> Any:
    return await result
