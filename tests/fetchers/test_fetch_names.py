"""The machine's resolver in threads: names that nobody answers for make no other name wait."""

from __future__ import annotations

import socket
import threading
from typing import Any

import attrs
import pytest_twisted
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred, gatherResults

from lcc.fetchers.http import HttpFetcher
from lcc.fetchers.names import SystemNames
from lcc.fetchers.resolver import CachingResolver
from lcc.model import FetchOrder
from tests.hostile.answers import reply
from tests.support.roles.fetchers import SMALL, Outcome, ScriptedServer, Sink, collect, stay

reactor: Any = global_reactor
REAL = attrs.evolve(SMALL, connect_timeout=30.0, deadline=60.0, idle_timeout=20.0)


class Silence:
    """A resolver some of whose names are answered only in the end."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.waiting = threading.Semaphore(0)

    def __call__(self, name: str, *more: Any) -> list[Any]:
        if name.startswith("silent"):
            self.waiting.release()
            self.over.wait()
        return socket.getaddrinfo("127.0.0.1", *more)


@pytest_twisted.ensureDeferred
async def test_as_many_silent_names_as_there_are_fetches_make_no_other_wait() -> None:
    silence = Silence()
    names = SystemNames(reactor, 32, silence)
    fetcher = HttpFetcher(reactor, attrs.evolve(REAL, connect_timeout=0.5), names)
    asked: list[Deferred[Outcome]] = []
    for pid in range(32):
        sink = Sink()
        order = FetchOrder(pid, f"http://silent{pid}.example/", private=True)
        asked.append(collect(fetcher.fetch(order, sink, stay), sink))
    outcomes: list[Outcome] = await gatherResults(asked)
    assert [outcome.error for outcome in outcomes] == ["dns-failed"] * 32
    # They have given up, but the threads are still held.
    for _ in range(32):
        assert silence.waiting.acquire(timeout=30)
    server = ScriptedServer([reply()])
    port = reactor.listenTCP(0, server, interface="127.0.0.1")
    patient = HttpFetcher(reactor, REAL, names)
    sink = Sink()
    order = FetchOrder(99, f"http://honest.example:{port.getHost().port}/", private=True)
    assert (await collect(patient.fetch(order, sink, stay), sink)).content == b"hello"
    # Nor does closing wait for them.
    names.close()
    await fetcher.close()
    await patient.close()
    assert not silence.over.is_set()
    silence.over.set()
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_fetcher_asks_the_machine_in_threads_of_its_own() -> None:
    """The reactor's threads are all taken, and nobody waits for one."""
    pool = reactor.getThreadPool()
    over = threading.Event()
    for _ in range(pool.max):
        pool.callInThread(over.wait)
    server = ScriptedServer([reply()])
    port = reactor.listenTCP(0, server, interface="127.0.0.1")
    fetcher = HttpFetcher(reactor, REAL)
    sink = Sink()
    order = FetchOrder(1, f"http://localhost:{port.getHost().port}/", private=True)
    try:
        assert (await collect(fetcher.fetch(order, sink, stay), sink)).content == b"hello"
    finally:
        over.set()
    await fetcher.close()
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_both_kinds_of_addresses_and_failures() -> None:
    def getaddrinfo(name: str, *more: Any) -> list[Any]:
        if name == "missing.example":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        if name == "long.example":
            raise UnicodeError("label too long")
        rows = [(family, socket.SOCK_STREAM, 6, "", ()) for family in (socket.AF_INET6, socket.AF_INET, 99)]
        return [(*row[:4], (address, 0)) for row, address in zip(rows, ("::1", "127.0.0.1", "?"), strict=True)]

    names = SystemNames(reactor, 1, getaddrinfo)
    resolver = CachingResolver(reactor, names, 60.0, 30.0)
    assert await resolver.resolve("both.example") == ("::1", "127.0.0.1")
    for name in ("missing.example", "long.example"):
        failures: list[Any] = []
        await resolver.resolve(name).addErrback(failures.append)
        assert failures[0].value.entry.name == "dns-failed"
    resolver.close()
    names.close()
