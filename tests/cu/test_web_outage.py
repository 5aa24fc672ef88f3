"""The HTTP interface while the database is away, and when it is back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.protocol import Factory, Protocol

from lcc.testing.mariadb import PrivateMariaDb
from tests.support.cache import Cache
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.waiting import until


class HangUp(Protocol):
    """Closes every connection at once."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.loseConnection()


@asynccontextmanager
async def away(server: PrivateMariaDb) -> AsyncIterator[None]:
    """Meanwhile nobody who connects gets an answer, and all connections there were are gone."""
    path = server.socket
    server.socket = path.rename(path.with_name("away"))
    port = reactor.listenUNIX(str(path), Factory.forProtocol(HangUp), mode=0o666)  # type: ignore[attr-defined]
    try:
        server.kill_connections()
        yield
    finally:
        await port.stopListening()
        server.socket = server.socket.rename(path)


@pytest.mark.long("mariadb")
@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_the_database_is_away_for_a_while(backend: Backend, cache: Cache, mariadb: PrivateMariaDb) -> None:
    """Who asks is told to try again; who waits for changes goes on waiting, and hears of the next one."""
    cache.put(1, "http://a.example.org/1")
    api = Api(backend)
    try:
        token = (await api.get("/changes")).lines()[-1]["next"]
        waiting = api.get(f"/changes?since={token}&wait=100")
        await until(lambda: api.engine.watcher.waiting)
        async with away(mariadb):
            for path in ("/urls", f"/changes?since={token}", f"/content/{'0' * 40}"):
                reply = await api.get(path)
                assert (reply.status, reply.headers["retry-after"]) == (503, "5")
                assert "database" in reply.json()["error"]
            assert not waiting.called
        assert (await api.get("/urls")).status == 200
        cache.put(1, "http://a.example.org/2")
        row, end = (await waiting).lines()
        assert row["curl"] == "http://a.example.org/2"
        assert end["next"] != token
    finally:
        await api.stop()
