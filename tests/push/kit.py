"""A push server in memory: its tables on a database, one fake clock, HTTP over transports in memory, and a UNS and
sites that are played."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from lcc.config import PushConfig, WatchedConfig
from lcc.errors import FetchError
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.roles.proof_files import ProofFiles
from lcc.roles.push.engine import PushServer
from lcc.roles.push.web import build_site
from lcc.storage.database.migrations import MAIN, PUSH
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.push.store import PushStore
from tests.support.databases import Backend, DirectDatabase

NOW = 1_780_000_000
KEY = "abcdef0123456789"
SITE = "http://www.example.org/"


def push_database(backend: Backend) -> DirectDatabase:
    """The tables of push servers on this backend."""
    return DirectDatabase(backend.url, backend.home, PUSH if backend.kind == "sqlite" else MAIN)


class Sites:
    """In place of the fetcher: the files of all sites.

    :ivar files: URL -> content, or the failure; or it comes when this fires.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes | FetchError | Deferred[bytes]] = {}
        self.asked: list[str] = []

    def fetch(self, order: Any, sink: Any, follow: Callable[[str, str], str]) -> Deferred[None]:
        self.asked.append(order.url)
        found = self.files.get(order.url, FetchError.from_status(404))
        if isinstance(found, Deferred):
            return found.addCallback(sink.write)
        if isinstance(found, FetchError):
            return fail(found)
        sink.write(found)
        return succeed(None)


class Uns:
    """In place of the link to a UNS.

    :ivar told: sets; each has its answer once :meth:`answer` gives it.
    """

    def __init__(self, main: DirectDatabase) -> None:
        self._main = main
        self.connected = self.has_room = True
        self.held = ""
        self.order = 100
        self.told: list[SourcedSet] = []
        self.outcomes: dict[int, Deferred[NoticeOutcome]] = {}

    def watch(self, root: str) -> Deferred[int]:
        return succeed(self._main.now(find_or_make_watched, root, WatchedConfig()))

    def draw(self, pid: int, held: int = 0) -> Deferred[int]:
        self.order += 1
        return succeed(self.order)

    def tell(self, told: SourcedSet) -> Deferred[NoticeOutcome]:
        assert not self.told or told.number > self.told[-1].number
        self.told.append(told)
        outcome = self.outcomes[told.number] = Deferred()
        return outcome

    def answer(self, **wrong: Any) -> None:
        """Answer all sets that have none."""
        for number in sorted(self.outcomes):
            self.outcomes.pop(number).callback(NoticeOutcome(number, **wrong))

    def close(self) -> None:
        pass

    @property
    def urls(self) -> list[tuple[int, list[str]]]:
        """Provider and URLs of each set that was told."""
        return [(each.pid, [url["c"] for url in each.urls]) for each in self.told]


class World:
    """A push server with all that it works with; :meth:`restart` loses what is in memory."""

    def __init__(self, backend: Backend, **settings: Any) -> None:
        self.settings = PushConfig(listen="tcp:1", any_port=True, **settings)
        self.tables = push_database(backend)
        self.main = DirectDatabase(backend.url, backend.home)
        self.clock = Clock()
        self.sites = Sites()
        self.ended = 0
        self.restart()

    def restart(self) -> None:
        """As after a kill: what is in memory is gone."""
        if hasattr(self, "server"):
            self.server.stop()
        self.uns = Uns(self.main)
        self.server = self.made()
        self.server.start()

    def made(self) -> PushServer:
        tables: Any = self.tables
        files = ProofFiles(self.sites, self.settings)  # type: ignore[arg-type]  # stands in

        def ended() -> None:
            self.ended += 1

        main: Any = self.main
        clock = self.clock
        server = PushServer(
            self.settings, PushStore(tables), main, files, clock, lambda: NOW + self.clock.seconds(), ended
        )
        server.claimed = lambda _: setattr(server.draws, "link", self.uns)
        return server

    def site(self) -> Any:
        """What it serves."""
        return build_site(self.server, self.clock)

    def ask(self, request: bytes, peer: str = "192.0.2.1") -> tuple[int, Any]:
        """One request over a connection of its own; status and JSON of the answer."""
        protocol: Any = self.site().buildProtocol(IPv4Address("TCP", peer, 1))
        transport = StringTransport(peerAddress=IPv4Address("TCP", peer, 1))
        transport.abortConnection = transport.loseConnection  # type: ignore[method-assign]
        protocol.makeConnection(transport)
        protocol.dataReceived(request)
        head, _, body = transport.value().partition(b"\r\n\r\n")
        self.headers = head.decode()
        return int(head.split()[1]), json.loads(body) if body.startswith(b"{") else body

    def get(self, path: str = "/indexnow", peer: str = "192.0.2.1", **fields: str) -> tuple[int, Any]:
        text = f"GET {path}?{urlencode(fields)} HTTP/1.1\r\nHost: push\r\n\r\n"
        return self.ask(text.encode(), peer)

    def post(self, body: Any, path: str = "/indexnow") -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: push\r\nContent-Length: {len(data)}\r\n\r\n"
        return self.ask(head.encode() + data)

    def push(self, *names: str, key: str = KEY, **more: Any) -> tuple[int, Any]:
        """Push pages of the site."""
        return self.post({"host": "www.example.org", "key": key, "urlList": [SITE + name for name in names], **more})

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def close(self) -> None:
        self.server.stop()
        self.tables.blocking.close()
        self.main.blocking.close()
