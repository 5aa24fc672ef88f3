"""Content read through real content ports: of one machine, and of machines behind a central BOT-M."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.application.service import MultiService
from twisted.internet.defer import CancelledError, Deferred, gatherResults, inlineCallbacks
from twisted.internet.interfaces import IConsumer
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from zope.interface import implementer

from lcc.admin.processes.botm_status import BotmStatus, NotAsked, _connection, ask_botm
from lcc.client.content import Content, ContentClient, ContentGone, ContentUnavailable
from lcc.config import Config, parse_config
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.work import UP, Checked, Intact, MachineHello, Settled, Verify, addressed
from lcc.services import botm
from lcc.services.process.environment import real_environment
from lcc.storage.disk.content_paths import content_path
from lcc.transport.links import PortService
from tests.support.logs import LoggedErrors
from tests.support.roles.robots import FakePeer
from tests.support.waiting import until

BIG_BYTES = 20_000_000


@implementer(IConsumer)
class Slow:
    """Takes so much, then nothing until it is told to."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.data = bytearray()
        self.producer: Any = None
        self.paused = False

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert streaming
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def write(self, data: bytes) -> None:
        self.data += data
        if len(self.data) >= self.room and not self.paused:
            self.paused = True
            self.producer.pauseProducing()

    def go_on(self) -> None:
        self.room = 1 << 60
        self.producer.resumeProducing()


class Qm(Factory):
    """A queue manager, as far as it is needed: it notes who is there, and hears what they say."""

    noisy = False

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.peers: list[FakePeer] = []
        self.heard: list[Flat] = []

    def buildProtocol(self, addr: object) -> Any:
        peer = FakePeer(self._reactor, Hello("qm", "qm", run="q"), "botm", UP)
        peer.on_messages = self.heard.extend
        self.peers.append(peer)
        return peer.build_stream()


class Host:
    """BOT-Ms as services, each with a home of its own."""

    def __init__(self, folder: Path, reactor: Any) -> None:
        self.folder = folder
        self.reactor = reactor
        self.services = MultiService()
        self.qm = Qm(reactor)
        PortService(reactor, f"unix:{folder}/qm.sock:mode=600:lockfile=0", self.qm).setServiceParent(self.services)
        self.services.startService()
        self.running: dict[str, MultiService] = {}

    def config(self, name: str, text: str = "") -> Config:
        config = parse_config(f'home = "{name}"\n[botm]\nname = "{name}"\n{text}', self.folder)
        config.home.mkdir(exist_ok=True)
        return config

    def start(self, name: str, text: str = "") -> Config:
        connect = "" if "parent" in text else f'connect = "unix:{self.folder}/qm.sock"\n'
        config = self.config(name, connect + text)
        service = self.running[name] = botm.build(config, real_environment(self.reactor))
        service.setName(name)  # several of one role in one process
        service.setServiceParent(self.services)
        return config

    def stop(self, name: str) -> Any:
        return self.running.pop(name).disownServiceParent()

    def client(self, config: Config, **more: Any) -> ContentClient:
        return ContentClient(self.reactor, f"unix:{config.home}/content.sock", **more)

    def wait(self, check: Callable[[], Any]) -> Deferred[None]:
        return Deferred.fromCoroutine(until(check))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    from twisted.internet import reactor

    made = Host(tmp_path, reactor)
    yield made
    pytest_twisted.blockon(made.services.stopService())


def put(config: Config, file: int, data: bytes) -> Path:
    path = config.under_home(config.botm.content) / content_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def ask(config: Config, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Any:
    """A request as any HTTP client makes it: the answer and its body."""

    def blocking() -> tuple[HTTPResponse, bytes]:
        connection = _connection(config)
        try:
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    return deferToThread(blocking)


@pytest_twisted.inlineCallbacks
def test_a_file_and_its_parts(host: Host) -> Any:
    config = host.start("one", "machine = 3\nnames_block = 100\n")
    put(config, 7, b"0123456789")
    put(config, 8, b"")
    answer, body = yield ask(config, "/3/7")
    assert (answer.status, body, answer.headers["Content-Length"]) == (200, b"0123456789", "10")
    assert answer.headers["Accept-Ranges"] == "bytes"
    etag = answer.headers["ETag"]
    answer, body = yield ask(config, "/3/8")
    assert (answer.status, body) == (200, b"")
    for asked, expected, told in (
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=7-99999999999", b"789", "bytes 7-9/10"),
        ("bytes=-4", b"6789", "bytes 6-9/10"),
        ("bytes=-99", b"0123456789", None),
        ("bytes=9-9", b"9", "bytes 9-9/10"),
        ("bytes=4-2", b"0123456789", None),
        ("bytes=0-1,3-4", b"0123456789", None),
        ("lines=1-2", b"0123456789", None),
        ("bytes=" + "9" * 5000 + "-", b"0123456789", None),
    ):
        answer, body = yield ask(config, "/3/7", Range=asked)
        assert (body, answer.headers["Content-Range"]) == (expected, told)
        assert answer.status == (200 if told is None else 206)
    for asked in ("bytes=10-", "bytes=99-100", "bytes=-0"):
        answer, body = yield ask(config, "/3/7", Range=asked)
        assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */10")
    answer, body = yield ask(config, "/3/7", Range="bytes=2-4", If_Range=etag)
    assert (answer.status, body) == (206, b"234")
    answer, body = yield ask(config, "/3/7", Range="bytes=2-4", If_Range='"other"')
    assert (answer.status, body) == (200, b"0123456789")
    answer, body = yield ask(config, "/3/7", If_None_Match=etag)
    assert (answer.status, body) == (304, b"")
    answer, body = yield ask(config, "/3/7", If_None_Match=f'"x", W/{etag}')
    assert (answer.status, body) == (304, b"")
    answer, body = yield ask(config, "/3/7", If_Match='"other"')
    assert answer.status == 412
    answer, body = yield ask(config, "/3/7", If_Match=etag)
    assert (answer.status, body) == (200, b"0123456789")
    answer, body = yield ask(config, "/3/7", "HEAD")
    assert (answer.status, answer.headers["Content-Length"], body) == (200, "10", b"")


@pytest_twisted.inlineCallbacks
def test_what_is_not_there(host: Host) -> Any:
    config = host.config("one")
    config.under_home("content").mkdir()
    (config.under_home("content") / "counter").write_text("100\n")
    (config.under_home("content") / "synced").write_text("100 clean - 0\n")
    config = host.start("one", "machine = 3\nnames_block = 100\n")
    for path, status in (
        ("/3/50", 410),
        ("/3/100", 404),
        ("/3/0", 404),
        ("/4/7", 421),
        ("/3/7/", 404),
        ("/3/..%2f..%2fcounter", 404),
        ("/3/-1", 404),
        ("/3/" + "9" * 30, 404),
        ("/", 404),
        ("/%ff%00", 404),
    ):
        answer, body = yield ask(config, path)
        assert answer.status == status, path
        assert b"<" not in body
    answer, _ = yield ask(config, "/3/7", "POST", b"x" * 1000)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    answer, body = yield ask(config, "/3/7", "POST", b"x" * 3_000_000)  # all of it, before it reads
    assert (answer.status, body) == (413, b"the body is longer than 1024 bytes\n")
    answer, _ = yield ask(config, "/3/50")
    assert answer.status == 410
    put(config, 7, b"x")
    answer, body = yield ask(config, "/3/7", "GET", b"y" * 1000)
    assert (answer.status, body) == (200, b"x")


@pytest_twisted.inlineCallbacks
def test_a_read_that_has_begun_ends_well_and_no_faster_than_its_reader(host: Host) -> Any:
    config = host.start("one", "machine = 3\n")
    data = bytes(range(256)) * (BIG_BYTES // 256)
    path = put(config, 7, data)
    client = host.client(config)
    content: Content = yield client.open(3, 7)
    assert (content.size_bytes, content.whole_bytes) == (len(data), len(data))
    slow = Slow(100_000)
    done = content.pipe_to(slow)
    yield host.wait(lambda: slow.paused)
    path.unlink()
    yield deferLater(host.reactor, 0.3)
    taken = len(slow.data)
    assert taken < 2_000_000, "it is held back only by memory"
    with pytest.raises(ContentGone):
        yield client.open(3, 7)
    slow.go_on()
    assert (yield done) == len(data)
    assert slow.data == data and slow.producer is None
    yield client.close()


@pytest_twisted.inlineCallbacks
def test_a_reader_that_stands_still_is_dropped(host: Host, logged_errors: LoggedErrors) -> Any:
    config = host.start("one", "machine = 3\ncontent_idle_timeout = 3\ncontent_connections_max = 1\n")
    put(config, 7, bytes(BIG_BYTES))
    stuck = host.client(config)
    slow = Slow(100_000)
    content = yield stuck.open(3, 7)
    done = content.pipe_to(slow)
    yield host.wait(lambda: slow.paused)
    other = host.client(config)
    opened = []

    @inlineCallbacks
    def try_again() -> Any:
        while not opened:
            try:
                opened.append((yield other.open(3, 7, 5, 3)))
            except ContentUnavailable:
                yield deferLater(host.reactor, 0.1)

    yield try_again()
    assert (yield opened[0].read(3)) == bytes(3)
    slow.go_on()
    with pytest.raises(ContentUnavailable, match="disconnected"):
        yield done
    assert len(slow.data) < BIG_BYTES
    yield stuck.close()
    yield other.close()


@pytest_twisted.inlineCallbacks
def test_many_files_over_few_connections(host: Host) -> Any:
    config = host.start("one", "machine = 3\n")
    for file in range(1, 301):
        put(config, file, b"%d" % file * 1000)
    client = host.client(config, connections_max=4)

    @inlineCallbacks
    def read(file: int) -> Any:
        content = yield client.open(3, file)
        data = yield content.read(10_000)
        assert data == b"%d" % file * 1000

    yield gatherResults([read(file) for file in range(1, 301)])
    assert sum(len(kept) for kept in client._http._pool._connections.values()) <= 4
    content = yield client.open(3, 7)
    with pytest.raises(ContentUnavailable, match="more than 10 bytes"):
        yield content.read(10)
    content = yield client.open(3, 7)
    content.drop()
    # A reader that changes its mind, before and after there is an answer.
    opening = client.open(3, 7)
    opening.cancel()
    with pytest.raises(CancelledError):
        yield opening
    content = yield client.open(3, 7)
    reading = content.read(10_000)
    reading.cancel()
    with pytest.raises(CancelledError):
        yield reading
    yield gatherResults([read(file) for file in range(1, 21)])
    yield client.close()


@pytest_twisted.inlineCallbacks
def test_through_a_central_botm(host: Host, logged_errors: LoggedErrors) -> Any:
    central = host.start("central", 'serves = "botms"\n')
    yield host.wait(lambda: host.qm.peers)
    parent = f'parent = "unix:{central.home}/botm.sock"\n'
    near = host.start("near", parent + "machine = 3\n")
    service = host.start("far", parent + 'machine = 4\ncontent_listen = "tcp:0:interface=127.0.0.1"\n')
    put(near, 7, b"near 7")
    put(service, 9, bytes(BIG_BYTES))
    port = next(each for each in host.running["far"] if isinstance(each, PortService) and "tcp" in each._endpoint)
    number = port.bound_port.getHost().port
    yield host.stop("far")
    listen = f'content_listen = "tcp:{number}:interface=127.0.0.1"\ncontent_url = "http://127.0.0.1:{number}"\n'
    far = host.start("far", parent + "machine = 4\n" + listen)
    relay = host.running["central"]
    client = host.client(central)

    def readable(machine: int, file: int) -> Any:
        @inlineCallbacks
        def wait() -> Any:
            while True:
                try:
                    return (yield client.open(machine, file))
                except ContentUnavailable:
                    yield deferLater(host.reactor, 0.05)

        return wait()

    # Through the central one, because a socket is nothing for others.
    content = yield readable(3, 7)
    assert (yield content.read(100)) == b"near 7"
    content = yield client.open(3, 7, 1, 3)
    assert (content.size_bytes, content.whole_bytes) == (3, 6)
    assert (yield content.read(100)) == b"ear"
    answer, _ = yield ask(central, "/3/8")
    assert answer.status == 404
    answer, _ = yield ask(central, "/3/7", "HEAD")
    assert (answer.status, answer.headers["Content-Length"]) == (200, "6")
    # Directly, as the central one says; it is asked once for each machine.
    content = yield readable(4, 9)
    slow = Slow(100_000)
    done = content.pipe_to(slow)
    yield host.wait(lambda: slow.paused)
    slow.go_on()
    assert (yield done) == BIG_BYTES
    answer, _ = yield ask(central, "/4/9")
    assert (answer.status, answer.headers["Location"]) == (307, f"http://127.0.0.1:{number}/4/9")
    # Through the central one all the same, for who may reach no other machine.
    answer, body = yield ask(central, "/4/9?relay=yes")
    assert (answer.status, body) == (200, bytes(BIG_BYTES))
    # One that is not connected may have the file.
    answer, _ = yield ask(central, "/5/9")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert client._known == {4: f"http://127.0.0.1:{number}"}
    # A big one through the central one, with its reader standing still for a while.
    put(near, 8, bytes(BIG_BYTES))
    content = yield client.open(3, 8)
    slow = Slow(100_000)
    done = content.pipe_to(slow)
    yield host.wait(lambda: slow.paused)
    yield deferLater(host.reactor, 0.2)
    assert len(slow.data) < 4_000_000
    slow.go_on()
    assert (yield done) == BIG_BYTES
    # The machine goes away in the middle of it.
    content = yield client.open(3, 8)
    slow = Slow(100_000)
    done = content.pipe_to(slow)
    yield host.wait(lambda: slow.paused)
    yield host.stop("near")
    slow.go_on()
    with pytest.raises(ContentUnavailable):
        yield done
    with pytest.raises((ContentUnavailable, ContentGone)):
        yield client.open(3, 7)
    yield host.stop("far")
    with pytest.raises((ContentUnavailable, ContentGone)):
        yield client.open(4, 9)
    assert client._known == {}
    assert relay.running and far.botm.machine == 4
    yield client.close()


@pytest_twisted.inlineCallbacks
def test_a_machine_behind_a_central_botm_is_verified_too(host: Host) -> Any:
    central = host.start("central", 'serves = "botms"\n')
    yield host.wait(lambda: host.qm.peers)
    config = host.config("near")
    folder = config.under_home("content")
    folder.mkdir()
    (folder / "counter").write_text("100\n")
    (folder / "synced").write_text("50 running another-boot 0\n")
    put(config, 60, b"abc")
    host.start("near", f'parent = "unix:{central.home}/botm.sock"\nmachine = 3\n')
    yield host.wait(lambda: any(isinstance(message, Ready) for message in host.qm.heard))
    (machine,) = [message for message in host.qm.heard if isinstance(message, MachineHello)]
    assert (machine.machine, machine.suspect_from, machine.suspect_upto) == (3, 50, 100)
    peer = host.qm.peers[0]
    for message in (Settled(), Verify(60, 3, "900150983cd24fb0d6963f7d28e17f72"), Intact(100)):
        peer.raw(addressed(message, 3))
    yield host.wait(lambda: Checked(60, True) in host.qm.heard)
    yield host.wait(lambda: "running" in (folder / "synced").read_text())
    status = yield deferToThread(ask_botm, host.config("near", "machine = 3\n"))
    assert status.settled


@pytest_twisted.inlineCallbacks
def test_a_machine_that_names_the_central_ones_own_socket_is_not_asked_in_circles(host: Host) -> Any:
    central = host.start("central", 'serves = "botms"\n')
    yield host.wait(lambda: host.qm.peers)
    own = f'content_url = "unix:{central.home}/content.sock"\n'
    host.start("near", f'parent = "unix:{central.home}/botm.sock"\nmachine = 3\n{own}')
    while True:
        answer, _body = yield ask(central, "/3/7")
        if answer.status != 503:
            break
        yield deferLater(host.reactor, 0.05)
    assert answer.status == 502


@pytest_twisted.inlineCallbacks
def test_the_program_in_the_documentation(host: Host) -> Any:
    text = (Path(__file__).parents[2] / "doc" / "content.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    config = host.start("one", "machine = 3\n")
    put(config, 7, b"0123456789abcdef")
    for file, said in (("7", "16 bytes, beginning with b'0123456789'\n"), ("8", "read its row again")):
        command = [sys.executable, "-c", program, f"unix:{config.home}/content.sock", "3", file]
        done = yield deferToThread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
        assert said in done.stdout, done.stderr


class Says(Protocol):
    """Answers anything with a text, and stays or goes."""

    def dataReceived(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(self.factory.text)  # type: ignore[attr-defined]
        if self.factory.goes:  # type: ignore[attr-defined]
            self.transport.loseConnection()


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        (b"", True),
        (b"", False),
        (b"HTTP/1.1 200 OK\r\n", False),
        (b"garbage\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", False),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", True),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 307 There\r\nLocation: ftp://x/1\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 307 There\r\nContent-Length: 0\r\n\r\n", False),
    ],
)
@pytest_twisted.inlineCallbacks
def test_other_ends_that_fail(host: Host, text: bytes, goes: bool) -> Any:
    factory = Factory.forProtocol(Says)
    factory.noisy = False
    factory.text, factory.goes = text, goes  # type: ignore[attr-defined]
    PortService(host.reactor, f"unix:{host.folder}/odd.sock", factory).setServiceParent(host.services)
    client = ContentClient(host.reactor, f"unix:{host.folder}/odd.sock", timeout_seconds=0.5)
    with pytest.raises(ContentUnavailable):
        content = yield client.open(1, 1)
        yield content.read(100)
    yield client.close()


@pytest_twisted.inlineCallbacks
def test_nobody_there(host: Host) -> Any:
    client = ContentClient(host.reactor, f"unix:{host.folder}/none.sock")
    with pytest.raises(ContentUnavailable):
        yield client.open(1, 1)
    with pytest.raises(ValueError):
        ContentClient(host.reactor, "none.sock")
    with pytest.raises(NotAsked, match="cannot query"):
        yield deferToThread(ask_botm, host.config("nowhere"))
    with pytest.raises(NotAsked, match="no content port"):
        yield deferToThread(ask_botm, host.config("nowhere", 'content_listen = ""\n'))
    yield client.close()


@pytest_twisted.inlineCallbacks
def test_what_a_botm_holds_and_what_it_verifies_after_a_crash(host: Host, logged_errors: LoggedErrors) -> Any:
    config = host.config("one")
    folder = config.under_home("content")
    folder.mkdir()
    (folder / "counter").write_text("100\n")
    (folder / "synced").write_text("50 running another-boot 0\n")
    good, bad = b"as it was", b"as it w\0\0"
    put(config, 40, good)
    put(config, 60, good)
    put(config, 61, bad)
    config = host.start("one", "machine = 3\n")
    yield host.wait(lambda: any(isinstance(message, Ready) for message in host.qm.heard))
    peer = host.qm.peers[0]
    hello = peer.peer_hello
    assert hello is not None and (hello.suspect_from, hello.suspect_upto) == (50, 100)
    assert hello.content == f"unix:{config.home}/content.sock"
    answer, _ = yield ask(config, "/3/60")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    answer, body = yield ask(config, "/3/40")
    assert body == good
    status = yield deferToThread(ask_botm, config)
    assert status == BotmStatus(3, False, frozenset(), frozenset())
    peer.say(Settled())
    md5 = hashlib.md5(good).hexdigest()
    for file in (60, 61, 62):
        peer.say(Verify(file, len(good), md5))
    yield host.wait(lambda: len([m for m in host.qm.heard if isinstance(m, Checked)]) == 3)
    assert [m for m in host.qm.heard if isinstance(m, Checked)] == [
        Checked(60, True),
        Checked(61, False),
        Checked(62, False),
    ]
    peer.say(Intact(100))
    while True:
        answer, body = yield ask(config, "/3/60")
        if answer.status != 503:
            break
        yield deferLater(host.reactor, 0.05)
    assert body == good
    assert "running" in (folder / "synced").read_text()
    answer, body = yield ask(config, "/status")
    assert json.loads(body)["settled"] is True and json.loads(body)["suspect"] == [0, 0]
    yield host.stop("one")
    assert "clean" in (folder / "synced").read_text()
