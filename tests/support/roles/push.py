"""A push server in memory: its tables on a database, one fake clock, HTTP over transports in memory, and a UNS and
sites that are played."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from lcc.config import PushConfig, WatchedConfig
from lcc.domain.push.websub import sign
from lcc.errors import FetchError
from lcc.fetchers.guarded_client import Reply
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.model.push.websub import HubSubscription
from lcc.model.tasks import JobSpec
from lcc.roles.proof_files import ProofFiles
from lcc.roles.push.callbacks import Callbacks
from lcc.roles.push.engine import PushServer
from lcc.roles.push.subscriber import Subscriber
from lcc.roles.push.web import build_site
from lcc.storage.database.migrations import MAIN, PUSH
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.push.store import PushStore
from lcc.storage.push.subscriptions import list_subscriptions
from tests.support.databases import Backend, DirectDatabase
from tests.support.tasks import Tasks, task_database

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
    """A push server with all that it works with; :meth:`restart` loses what is in memory.

    :ivar clock_ahead: somebody has set the wall clock forward by so many seconds.
    """

    def __init__(self, backend: Backend, **settings: Any) -> None:
        self.settings = PushConfig(listen="tcp:1", any_port=True, **settings)
        self.tables = push_database(backend)
        self.main = DirectDatabase(backend.url, backend.home)
        self.clock = Clock()
        self.sites = Sites()
        self.ended = self.clock_ahead = 0
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
            self.settings,
            PushStore(tables),
            main,
            files,
            clock,
            lambda: NOW + self.clock_ahead + self.clock.seconds(),
            ended,
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
        protocol.connectionLost(Failure(ConnectionDone()))
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


HUB, TOPIC = "https://hub.example.net/", "https://www.example.org/feed.xml"


class Hub:
    """In place of what asks hubs.

    :ivar answer: of the next requests; an exception: there is none.
    :ivar asked: URL and form of each request.
    :ivar hanging: URLs that never answer.
    """

    def __init__(self) -> None:
        self.answer: Reply | Exception = Reply(202, b"")
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.hanging: set[str] = set()

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Deferred[Reply]:
        self.asked.append((url, {name: values[0] for name, values in parse_qs(body.decode()).items()}))
        if url in self.hanging:
            return Deferred()
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)

    @property
    def modes(self) -> list[str]:
        """``hub.mode`` of all requests."""
        return [form["hub.mode"] for _, form in self.asked]


class HubWorld(World):
    """A push server that subscribes, a scheduler's tables, and a hub that is played."""

    def __init__(self, backend: Backend, **settings: Any) -> None:
        self.hub = Hub()
        self.tasks = Tasks(task_database(backend))
        self.tokens = 0
        super().__init__(backend, url="https://push.example.org:9743/", **settings)

    def made(self) -> Any:
        server = super().made()
        store = server.store
        tasks: Any = self.tasks.database
        server.subscriber = Subscriber(
            self.settings, store.subscriptions, tasks, self.hub, self.now, self.token, server.counters
        )
        return server

    def now(self) -> float:
        return NOW + self.clock_ahead + self.clock.seconds()

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:016x}"

    def site(self) -> Any:
        return build_site(self.server, self.clock, {b"websub": Callbacks(self.server)})

    def feed(self, url: str = TOPIC, hub: str = HUB, **more: Any) -> int:
        """A feed that a worker has read."""
        task = self.tasks.add(spec=JobSpec("feed", args=(url,)), now=int(self.now()))
        self.read(task, hub, **more)
        return task

    def read(self, task: int, hub: str = HUB, news: bool = False) -> None:
        """A worker reads it (again)."""
        now = int(self.now())
        links = [{"url": hub, "rel": "hub"}, {"url": TOPIC, "rel": "self"}] if hub else []
        row = (task, "id", json.dumps({"links": links}), now, now if news else 0)
        columns = ("task", "policy", "record", "read_time", "changed_time")
        update = columns[2:] if news else columns[2:4]
        self.tasks.database.now(lambda txn: txn.upsert("feeds", columns, [row], ["task"], update))

    @property
    def all(self) -> list[HubSubscription]:
        return self.tables.blocking.interact(list_subscriptions, None, 10)

    @property
    def only(self) -> HubSubscription:
        [found] = self.all
        return found

    def confirm(self, ident: str = "", **changed: str) -> tuple[int, Any]:
        """The hub asks whether a subscription is meant."""
        found = next(each for each in self.all if not ident or each.id == ident)
        fields = {
            "mode": "subscribe",
            "topic": TOPIC,
            "challenge": "a b<i>",
            "lease_seconds": str(10 * 86400),
        } | changed
        query = urlencode({f"hub.{name}": value for name, value in fields.items()})
        return self.ask(f"GET /websub/{found.id}?{query} HTTP/1.1\r\nHost: push\r\n\r\n".encode())

    def hear(self, body: bytes = b"<diff/>", signature: str = "", ident: str = "") -> tuple[int, Any]:
        """The hub pushes."""
        found = next(each for each in self.all if not ident or each.id == ident)
        signature = signature or sign(found.secret, body)
        head = f"POST /websub/{found.id} HTTP/1.1\r\nHost: push\r\nContent-Length: {len(body)}\r\n"
        return self.ask(f"{head}X-Hub-Signature: {signature}\r\n\r\n".encode() + body)

    def polls(self) -> int:
        """Polls that were ordered since the last call; the scheduler carries them out."""
        return self.tasks.carry_out(int(self.now())).count

    def subscribed(self, **more: Any) -> int:
        """A feed with a confirmed subscription; its first poll is over."""
        task = self.feed(**more)
        self.pass_time(2)
        assert self.confirm()[0] == 200
        self.pass_time(1)
        assert self.polls() == 1
        self.poll_over(task)
        self.pass_time(10)
        return task

    def poll_over(self, task: int, every: int = 3600) -> None:
        """What the scheduler does with a poll: the next one is due a period later."""
        due = int(self.now()) + every
        self.tasks.database.now(lambda txn: txn.execute("UPDATE tasks SET due_time = ? WHERE id = ?", [due, task]))

    def close(self) -> None:
        super().close()
        self.tasks.database.blocking.close()
