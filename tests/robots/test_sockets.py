"""A BOT-M and two robots as services, over UNIX sockets, fetching from a real web server on loopback."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from lcc.config import Config, parse_config
from lcc.errors import Busy
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.work import UP, Capacity, Done, Fetch, RecordedUpto
from lcc.services import bot, botm
from lcc.services.common import RoleOptions
from lcc.services.process.environment import real_environment
from lcc.storage.disk.content_paths import content_path
from lcc.transport.links import PortService
from tests.support.roles.robots import FakePeer

PROVIDERS = 8
PAGES = 6


class Web(Resource):
    """Answers a little later, and counts what goes on at once for each provider."""

    isLeaf = True

    def __init__(self, reactor: Any) -> None:
        super().__init__()
        self._reactor = reactor
        self.active: Counter[bytes] = Counter()
        self.most = 0

    def render_GET(self, request: Request) -> bytes | int:
        provider = request.path.split(b"/")[1]
        self.active[provider] += 1
        self.most = max(self.most, self.active[provider])
        request.notifyFinish().addBoth(self._ended, provider)
        if request.path.endswith(b"/moved"):
            request.redirect(b"/" + provider + b"/target")
            return b""
        if request.path.endswith(b"/gone"):
            request.setResponseCode(404)
            return b"gone"
        answer = deferLater(self._reactor, 0.002, self._answer, request)
        request.notifyFinish().addErrback(lambda _lost: answer.cancel())
        answer.addErrback(lambda _cancelled: None)
        return NOT_DONE_YET

    def _ended(self, _result: Any, provider: bytes) -> None:
        self.active[provider] -= 1

    def _answer(self, request: Request) -> None:
        request.setHeader(b"content-type", b"text/html; charset=utf-8")
        request.write(body_of(request.path.decode()))
        request.finish()


def body_of(path: str) -> bytes:
    return f"<p>{path}</p>".encode() * 400


class FakeQueue(Factory):
    """A queue manager: one order at a time for each provider."""

    noisy = False

    def __init__(self, reactor: Any, base: str) -> None:
        self._reactor = reactor
        self.base = base
        self.peer: FakePeer | None = None
        self.capacity = 0
        self.waiting: dict[int, list[str]] = {}
        self.out: dict[str, Fetch] = {}
        self.results: dict[str, Done] = {}
        self.count = 0
        self.on_change: Any = lambda: None

    def buildProtocol(self, addr: object) -> Any:
        peer = FakePeer(self._reactor, Hello("qm", "qm", run="q"), "botm", UP)
        peer.on_messages = lambda messages: self._hear(peer, messages)
        return peer.build_stream()

    def order(self, pid: int, pages: list[str]) -> None:
        self.waiting[pid] = [f"{self.base}/{pid}/{page}" for page in pages]
        self._send(pid)

    @property
    def finished(self) -> bool:
        return not self.out and not any(self.waiting.values())

    def _hear(self, peer: FakePeer, messages: list[Flat]) -> None:
        for message in messages:
            if isinstance(message, Ready):
                self.peer = peer
                assert peer.peer_hello is not None
                self.capacity = peer.peer_hello.capacity
                for order in self.out.values():
                    peer.say(order)
            elif isinstance(message, Capacity):
                self.capacity = message.fetches
            elif isinstance(message, Done):
                if message.id in self.out:
                    order = self.out.pop(message.id)
                    self.results[order.url] = message
                    self._send(order.pid)
                peer.say(RecordedUpto(message.number))
        self.on_change()

    def _send(self, pid: int) -> None:
        if self.waiting[pid]:
            self.count += 1
            url = self.waiting[pid].pop(0)
            root = f"{self.base}/{pid}/"
            order = Fetch(
                f"q-{self.count}", pid, f"{pid:08x}{self.count:032x}", 1, url, root, 60, "text/html", private=True
            )
            self.out[order.id] = order
            if self.peer is not None:
                self.peer.say(order)


def until(reactor: Any, queue: FakeQueue, condition: Any) -> Deferred[None]:
    """Fires once the condition holds; it is looked at whenever the queue manager hears something."""
    done: Deferred[None] = Deferred()
    limit = reactor.callLater(60, done.errback, AssertionError("not in a minute"))

    def look() -> None:
        if condition() and not done.called:
            limit.cancel()
            done.callback(None)

    queue.on_change = look
    look()
    return done


def configuration(home: Path) -> Config:
    return parse_config('home = "."\n[bot]\nconcurrency = 3\n', home)


@pytest_twisted.inlineCallbacks
def test_fetching_with_two_robots_of_which_one_leaves(tmp_path: Path) -> Any:
    from twisted.internet import reactor as global_reactor

    reactor: Any = global_reactor

    web = Web(reactor)
    port = reactor.listenTCP(0, Site(web, reactor=reactor), interface="127.0.0.1")
    queue = FakeQueue(reactor, f"http://127.0.0.1:{port.getHost().port}")
    config = configuration(tmp_path)
    qm_port = PortService(reactor, f"unix:{tmp_path}/qm-botm.sock:mode=600:lockfile=0", queue)
    master = botm.build(config, real_environment(reactor))
    robots = [bot.build(config, real_environment(reactor)), bot.build(config, real_environment(reactor))]
    for service in (robots[0], master, qm_port, robots[1]):  # any order: they find each other
        service.startService()
    try:
        yield until(reactor, queue, lambda: queue.capacity == 6)
        with pytest.raises(Busy):
            next(iter(botm.build(config, real_environment(reactor)))).startService()
        pages = [f"{number}.html" for number in range(PAGES)]
        for pid in range(1, PROVIDERS + 1):
            queue.order(pid, [*pages[:3], "moved", "gone", *pages[3:]])
        yield until(reactor, queue, lambda: len(queue.results) > PROVIDERS * 2)
        yield robots[0].stopService()
        yield until(reactor, queue, lambda: queue.finished and queue.capacity == 3)
        check(queue, tmp_path)
        assert web.most == 1
        first_files = {result.file for result in queue.results.values()}

        # The BOT-M starts again: everything finds together, and no name is used twice.
        yield master.stopService()
        queue.peer = None
        master = botm.build(config, real_environment(reactor))
        master.startService()
        queue.results.clear()
        queue.order(1, pages)
        yield until(reactor, queue, lambda: queue.finished and queue.capacity == 3)
        assert not first_files - {None} & {result.file for result in queue.results.values()}
        assert all(result.code == 0 for result in queue.results.values())
    finally:
        yield stop_all(robots[1], master, qm_port)
        yield port.stopListening()


@inlineCallbacks
def stop_all(*services: MultiService) -> Any:
    for service in services:
        yield service.stopService()


def check(queue: FakeQueue, home: Path) -> None:
    assert len(queue.results) == PROVIDERS * (PAGES + 2)
    for url, result in queue.results.items():
        path = url.removeprefix(queue.base)
        if url.endswith("gone"):
            assert (result.code, result.status, result.file) == (404, 404, None)
            continue
        body = body_of(path.replace("moved", "target"))
        assert (result.code, result.detail) == (0, "")
        assert result.url == url.replace("moved", "target")
        assert (result.size_bytes, result.md5) == (len(body), hashlib.md5(body).hexdigest())
        assert (result.mimetype, result.machine) == ("text/html", 1)
        assert result.file is not None
        assert (home / "content" / content_path(result.file)).read_bytes() == body
    assert list((home / "content" / "attempts").glob("*/*")) == []


def test_services_are_made_without_touching_anything(tmp_path: Path) -> None:
    from twisted.internet.testing import MemoryReactorClock

    for module in (botm, bot):
        options: RoleOptions = module.Options()
        options.config = configuration(tmp_path)
        service = module.makeService(options, real_environment(MemoryReactorClock()))
        assert not service.running
    assert list(tmp_path.iterdir()) == []
