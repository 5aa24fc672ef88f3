"""Packages that nobody reads, that are given up, that hang; and what memory they take."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import md5
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.roles.cu.packages import bodies
from lcc.storage.disk.content_paths import content_path
from lcc.transport.http import streaming as http_streaming
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend
from tests.support.packages import A, Unpacked, put
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost
from tests.support.waiting import PATIENCE_SECONDS, until

PAGE = bytes(range(256)) * 2_000
PAGES = 200

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files whose content was opened."""
    files: list[int] = []
    real = bodies.Bodies.open

    def counting(self: bodies.Bodies, row: bodies.CachedUrl) -> bodies.Body:
        files.append(row.fetched_fileid or 0)
        return real(self, row)

    monkeypatch.setattr(bodies.Bodies, "open", counting)
    return files


def fill(cache: Cache, host: ContentHost) -> None:
    file_id = host.add(PAGE)
    for number in range(PAGES):
        put(cache, None, f"{A}{number}", PAGE, fetched_fileid=file_id)


@contextmanager
def unread(api: Api, kind: str = "tar", authorization: str = "") -> Iterator[socket.socket]:
    """A request for a package whose answer nobody reads."""
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", api.port))
        field = f"Authorization: {authorization}\r\n" if authorization else ""
        client.sendall(f"GET /package?kind={kind} HTTP/1.1\r\nHost: x\r\n{field}\r\n".encode())
        yield client


async def answered(client: socket.socket) -> int:
    """The status of the answer that begins; nothing is taken from it. A package has its place then."""
    head: bytes = await deferToThread(client.recv, len("HTTP/1.1 200"), socket.MSG_PEEK | socket.MSG_WAITALL)
    return int(head.split()[1])


async def has_room(api: Api, read: Callable[[], object] = lambda: None) -> None:
    """Wait until another package is admitted.

    :param read: called in a thread before each attempt.
    :raises AssertionError: none is.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        await deferToThread(read)
        if (await api.get("/package?kind=tar&limit=1")).status == 200:
            return
        await deferToThread(time.sleep, 0.05)
    raise AssertionError("no place was given back")


async def settled(opened: list[int]) -> int:
    """How many contents were opened once no more are."""
    seen = 0
    while len(opened) > seen or not opened:
        seen = len(opened)
        await deferToThread(time.sleep, 0.5)
    return seen


@pytest_twisted.ensureDeferred
async def test_what_nobody_reads_is_not_made(
    backend: Backend, cache: Cache, host: ContentHost, opened: list[int]
) -> None:
    fill(cache, host)
    api = Api(backend, 'without_token = "content"\npackages_max = 1')
    try:
        with unread(api) as client:
            assert await answered(client) == 200
            assert await settled(opened) < PAGES / 2
            reply = await api.get("/package?kind=tar")
            assert reply.status == 503 and reply.headers["retry-after"] and "as may be" in reply.json()["error"]
            assert "content-disposition" not in reply.headers

            def read() -> bytes:
                response = http.client.HTTPResponse(client)
                response.begin()
                return response.read()

            found = Unpacked(await deferToThread(read))
            assert len(found.files) == PAGES == len(opened)
        assert (await api.get("/package?kind=tar&limit=1")).status == 200
        # One that is given up makes room for the next.
        with unread(api, "warc.gz") as client:
            assert await answered(client) == 200
        await has_room(api)
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_who_does_not_read_is_dropped(
    backend: Backend, cache: Cache, host: ContentHost, opened: list[int]
) -> None:
    fill(cache, host)
    api = Api(backend, 'without_token = "content"\npackages_max = 1\nidle_timeout = 1')
    try:
        with unread(api):
            await until(lambda: opened)  # it has its place, and may have lost it already
            await has_room(api)
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_nobody_takes_all_packages(backend: Backend, cache: Cache, host: ContentHost) -> None:
    """Who reads none of many keeps nobody else waiting: each user, and each address without a token, has a share."""
    fill(cache, host)
    tokens = [add_user(cache)[1] for _ in range(2)]
    greedy, honest = ({"Authorization": f"Bearer {token}"} for token in tokens)
    api = Api(backend, 'without_token = "content"\npackages_max = 4\npackages_per_user = 2')
    try:
        with ExitStack() as stack:
            clients = [stack.enter_context(unread(api, authorization=greedy["Authorization"])) for _ in range(8)]
            statuses = [await answered(client) for client in clients]
            assert sorted(statuses) == [200] * 2 + [429] * 6
            reply = await api.get("/package?kind=tar&limit=1", **greedy)
            assert reply.status == 429 and reply.headers["retry-after"] and "one user" in reply.json()["error"]
            for _ in range(3):
                assert (await api.get("/package?kind=tar&limit=1", **honest)).status == 200
                assert (await api.get("/package?kind=tar&limit=1")).status == 200  # this address
            for _ in range(2):
                assert await answered(stack.enter_context(unread(api))) == 200
            assert (await api.get("/package?kind=tar&limit=1")).status == 429
            assert (await api.get("/package?kind=tar&limit=1", **honest)).status == 503
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_behind_a_proxy_all_are_not_one_user(backend: Backend, cache: Cache, host: ContentHost) -> None:
    """connections_per_address = 0 says that addresses tell nobody from another; tokens do."""
    fill(cache, host)
    token = add_user(cache)[1]
    more = "packages_max = 4\npackages_per_user = 2\nconnections_per_address = 0"
    api = Api(backend, f'without_token = "content"\n{more}')
    try:
        with ExitStack() as stack:
            for _ in range(3):
                assert await answered(stack.enter_context(unread(api))) == 200
            assert (await api.get("/package?kind=tar&limit=1")).status == 200
            assert await answered(stack.enter_context(unread(api, authorization=f"Bearer {token}"))) == 200
            assert (await api.get("/package?kind=tar&limit=1")).status == 503
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_who_reads_too_slowly_is_dropped(
    backend: Backend, cache: Cache, host: ContentHost, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then, long before the idle time."""
    monkeypatch.setattr(http_streaming, "SLOW_SECONDS", 0.5)
    fill(cache, host)
    more = "packages_max = 1\nidle_timeout = 300\npackage_rate_min = 100_000_000"
    api = Api(backend, f'without_token = "content"\n{more}')
    try:
        with unread(api) as client:
            await until(lambda: opened)  # it has its place, and may have lost it already

            def read() -> None:
                with suppress(ConnectionResetError):  # dropped
                    client.recv(1)

            await has_room(api, read)
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_a_stop_does_not_wait_for_a_machine_that_is_silent(backend: Backend, cache: Cache) -> None:
    put(cache, None, A, PAGE, fetched_machineid=2)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        api = Api(backend, f'without_token = "content"\ncontent = "http://127.0.0.1:{port}"')
        with unread(api):
            client, _ = await deferToThread(silent.accept)
            with closing(client):
                assert (await deferToThread(client.recv, 1000)).startswith(b"GET /2/")
                await api.stop()
                # Its thread has ended: the connection is closed.
                assert await deferToThread(client.recv, 1000) == b""


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_memory_is_bounded(backend: Backend, cache: Cache, host: ContentHost) -> None:
    """A content of 200 MB here, one elsewhere, a thousand small ones: some tens of MB, whatever kind it is."""
    size = 200
    found = md5()
    for _ in range(size):
        found.update(bytes(1 << 20))
    large = {"md5": found.hexdigest(), "len": size << 20}
    for name, machine in (("here", 1), ("there", 2)):
        file_id = host.add(b"")
        with (backend.home / "content" / content_path(file_id)).open("r+b") as file:
            file.truncate(size << 20)
        put(cache, None, A + name, b"", fetched_fileid=file_id, fetched_machineid=machine, **large)
    file_id = host.add(PAGE[:20_000])
    for number in range(1000):
        put(cache, None, f"{A}small/{number}", PAGE[:20_000], fetched_fileid=file_id)
    host.as_machine(2)
    config = backend.home / "lcc.toml"
    config.write_text('home = "."\n')
    code = "from lcc.services.console import cu; cu()"
    process = subprocess.Popen([sys.executable, "-c", code, "--config", config], stderr=subprocess.DEVNULL)
    try:
        await until((backend.home / "cu.sock").exists)

        def take(kind: str) -> int:
            with closing(socket.socket(socket.AF_UNIX)) as client:
                client.connect(str(backend.home / "cu.sock"))
                client.sendall(f"GET /package?kind={kind} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                response = http.client.HTTPResponse(client)
                response.begin()
                length = 0
                while piece := response.read(1 << 20):
                    length += len(piece)
                return length

        assert await deferToThread(take, f"tar&prefix={A}small/&limit=1") > 0
        before = peak_mib(process.pid)
        assert await deferToThread(take, "tar") > size * 2 << 20
        for kind in ("tar.gz", "warc.gz"):
            assert await deferToThread(take, kind) > 100_000
        assert peak_mib(process.pid) - before < 60
    finally:
        process.terminate()
        await deferToThread(process.wait, 30)


def peak_mib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")) // 1024
