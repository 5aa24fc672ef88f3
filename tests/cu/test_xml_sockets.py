"""The XML interface over real sockets, with content from a real content port, on each database."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import gatherResults
from twisted.internet.threads import deferToThread

from lcc.transport.links import PortService
from tests.support.cache import Cache, add_user
from tests.support.certificates import Authority
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.roles.xml_users import documents, query, understand
from tests.support.servers.content_host import ContentHost
from tests.support.waiting import until, wait_for

A = "http://a.example.org/"
TCP = 'listen_xml = "tcp:0:interface=127.0.0.1"\nwithout_token = "content"\n'


def talk(connection: socket.socket, *questions: bytes, answers: int = 0) -> bytes:
    """Ask this, and read so many answers; 0: send all, close that half and read to the end."""
    heard = b""
    with closing(connection):
        for said in questions:
            connection.sendall(said)
            while answers and heard.count(b"answer>\n") + heard.count(b"rejected>\n") < answers:
                heard += _read(connection)
        if not answers:
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                heard += piece
    return heard


def _read(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    assert piece, "the connection ended"
    return piece


def xml_port(api: Api) -> PortService:
    ports = (service for service in api.services if isinstance(service, PortService))
    return next(port for port in ports if port.setting == "cu.listen_xml")


def connections(api: Api) -> int:
    factory: Any = xml_port(api).factory
    return len(factory.protocols)


def dial(api: Api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", xml_port(api).bound_port.getHost().port), timeout=30)


@pytest.fixture
def cu_settings() -> str:
    return TCP


def fill(cache: Cache, host: ContentHost, sizes: list[int]) -> dict[str, bytes]:
    data = {f"{A}{number}": (b"%d, " % number * size)[:size] for number, size in enumerate(sizes)}
    for curl, each in data.items():
        cache.put(1, curl, len=len(each), fetched_fileid=host.add(each))
    return data


@pytest_twisted.ensureDeferred
async def test_rows_and_content(api: Api, cache: Cache, host: ContentHost) -> None:
    data = fill(cache, host, [0, 1, 100, 5_000_000, 196_608, 196_609])
    questions = [query(since="0", content="yes"), query(limit=2), query()]
    heard = await deferToThread(lambda: talk(dial(api), b"".join(questions)))
    whole, two, rows = (understand(each) for each in documents(heard))
    assert {row["curl"]: row["content"] for row in whole.rows} == data and whole.end
    assert (len(two.rows), len(rows.rows)) == (2, 6)


@pytest_twisted.ensureDeferred
async def test_several_questions_by_turns(api: Api, cache: Cache, host: ContentHost) -> None:
    data = fill(cache, host, [10] * 5)

    def follow() -> list[str]:
        seen, token = [], "0"
        with closing(dial(api)) as connection:
            while True:
                connection.sendall(query(since=token, limit=2, content="yes"))
                heard = b""
                while not heard.endswith(b"answer>\n"):
                    heard += _read(connection)
                told = understand(heard)
                if not told.rows:
                    return seen
                seen += [row["curl"] for row in told.rows]
                assert told.end is not None
                token = told.end["next"]

    for seen in await gatherResults([deferToThread(follow) for _ in range(5)]):
        assert seen == list(data)


@pytest_twisted.ensureDeferred
async def test_waiting(api: Api, cache: Cache) -> None:
    waiting = deferToThread(lambda: talk(dial(api), query(since="0", wait=100), answers=1))
    cache.put(1, A)
    assert [row["curl"] for row in understand(await waiting).rows] == [A]


@pytest_twisted.ensureDeferred
async def test_a_long_answer_to_a_slow_reader(api: Api, cache: Cache) -> None:
    cache.fill(5000)

    def read_slowly() -> bytes:
        with closing(dial(api)) as connection:
            connection.sendall(query())
            heard = connection.recv(1000)
            time.sleep(0.5)
            while not heard.endswith(b"answer>\n"):
                heard += _read(connection)
            return heard

    told = understand(await deferToThread(read_slowly))
    assert len({row["key"] for row in told.rows}) == 5000 and told.end == {}


@pytest_twisted.ensureDeferred
async def test_who_does_not_read_is_dropped(backend: Backend, cache: Cache, host: ContentHost) -> None:
    fill(cache, host, [30_000_000])
    api = Api(backend, TCP + "idle_timeout = 1\n")

    def do_not_read() -> int:
        with closing(dial(api)) as connection:
            connection.sendall(query(content="yes"))
            connection.recv(100)
            wait_for("it is dropped", lambda: not connections(api))
            count = 100
            try:
                while piece := connection.recv(1 << 20):
                    count += len(piece)
            except ConnectionResetError:
                pass
            return count

    try:
        assert await deferToThread(do_not_read) < 40_000_000
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_readers_that_go_away(api: Api, cache: Cache, host: ContentHost) -> None:
    fill(cache, host, [5_000_000])

    def break_off() -> None:
        with closing(dial(api)) as connection:
            connection.sendall(query(content="yes"))
            connection.recv(10)

    for _ in range(30):
        await deferToThread(break_off)
    heard = await deferToThread(lambda: talk(dial(api), query(content="yes")))
    assert len(understand(heard).rows[0]["content"]) == 5_000_000, "no connection to the content port is left over"


@pytest_twisted.ensureDeferred
async def test_no_more_connections_than_allowed(backend: Backend, cache: Cache) -> None:
    api = Api(backend, TCP + "connections_max = 2\n")
    held: list[socket.socket] = []

    def asked(connection: socket.socket) -> bytes:
        held.append(connection)
        connection.sendall(query())
        try:
            return connection.recv(65536)
        except ConnectionError:
            return b""

    try:
        assert [bool(await deferToThread(lambda: asked(dial(api)))) for _ in range(3)] == [True, True, False]
        held[0].close()
        # Its place is free as soon as the server has noticed.
        await until(lambda: connections(api) == 1)
        assert await deferToThread(lambda: asked(dial(api)))
    finally:
        for connection in held:
            connection.close()
        await api.stop()


def dial_path(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(path))
    return connection


@pytest_twisted.ensureDeferred
async def test_by_default_a_unix_socket_that_needs_no_token(
    backend: Backend, cache: Cache, host: ContentHost
) -> None:
    data = fill(cache, host, [100])
    api = Api(backend, "")
    try:
        path = backend.home / "cu-xml.sock"
        assert path.stat().st_mode & 0o777 == 0o600
        heard = await deferToThread(lambda: talk(dial_path(path), query(content="yes")))
        assert [row["content"] for row in understand(heard).rows] == list(data.values())
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_elsewhere_a_token_is_needed_and_tls_protects_it(backend: Backend, cache: Cache) -> None:
    key, certificate, authority = Authority().write(backend.home, "localhost")
    cache.put(2, A)
    cache.fill(3000)
    _, token = add_user(cache, {2})
    _, everything = add_user(cache)
    endpoint = f"tls:0:interface=127.0.0.1:key={key}:certificate={certificate}"
    api = Api(backend, f'listen_xml = "{endpoint}"\n')

    def connect() -> socket.socket:
        context = ssl.create_default_context(cafile=str(authority))
        return context.wrap_socket(dial(api), server_hostname="localhost")

    try:
        questions = (
            query(),
            query(token=token, provider=2, mimetype="text/html", prefix=A, limit=1),
            query(token=everything),
        )
        heard = await deferToThread(lambda: talk(connect(), b"".join(questions), answers=3))
        refused, told, long = (understand(each) for each in documents(heard))
        assert refused.reason == "access-denied"
        assert [row["pid"] for row in told.rows] == ["2"]
        assert len(long.rows) == 3001
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_the_service_ends_with_its_connections(backend: Backend, cache: Cache) -> None:
    api = Api(backend, TCP)
    connection = await deferToThread(lambda: dial(api))
    with closing(connection):
        await deferToThread(lambda: connection.sendall(query(since="0", wait=100)))
        await until(lambda: connections(api) == 1)
        await api.stop()
        with suppress(ConnectionResetError):
            assert not understand(await deferToThread(lambda: connection.recv(65536))).rows, (
                "it is told its place at most"
            )


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nVia: <x>\r\n\r\n", b"\0" * 70_000])
@pytest_twisted.ensureDeferred
async def test_who_speaks_something_else(api: Api, said: bytes) -> None:
    def speak() -> bytes:
        with closing(dial(api)) as connection:
            connection.sendall(said)
            return connection.recv(65536)

    assert understand(await deferToThread(speak)).root == "rejected"
