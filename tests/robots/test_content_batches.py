"""Batches of content files, read from a real content port."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from lcc.model.content_batches import FILE_BYTES_MAX, FILES_MAX, write_names
from lcc.protocols.content_batch import CONTENT_TYPE, BatchReader
from lcc.transport.http.client import HttpClient
from tests.support.logs import LoggedErrors
from tests.support.servers.content_host import ContentHost

BODY_MAX = 1 << 24


class Asked:
    """What a content port has answered."""

    def __init__(self, status: int, kind: str | None, body: bytes) -> None:
        self.status, self.kind, self.body = status, kind, body

    def files(self, count: int) -> list[bytes | None]:
        reader = BatchReader(count)
        found = reader.feed(self.body)
        reader.finish()
        return found


async def ask(host: ContentHost, path: str) -> Asked:
    client = HttpClient(reactor, 2, 5.0)
    try:
        answer = await client.get(f"http://127.0.0.1:{host.port}", path, {})
        return Asked(answer.status, answer.header("Content-Type"), await answer.read(BODY_MAX))
    finally:
        await client.close()


@pytest_twisted.async_yield_fixture
async def host(tmp_path: Path) -> Any:
    found = ContentHost(tmp_path / "a", endpoint="tcp:0:interface=127.0.0.1")
    yield found
    await found.stop()


@pytest_twisted.async_yield_fixture
async def central(tmp_path: Path, host: ContentHost) -> Any:
    """A BOT-M of another machine, which knows where machine 1 is."""
    found = ContentHost(tmp_path / "b", machine=2, endpoint="tcp:0:interface=127.0.0.1")
    found.knows[1] = f"http://127.0.0.1:{host.port}"
    yield found
    await found.stop()


@pytest_twisted.ensureDeferred
async def test_files_come_in_one_answer(host: ContentHost) -> None:
    contents = [b"%d " % number * (number * 40) for number in range(FILES_MAX)]
    files = [host.add(content) for content in contents]
    answer = await ask(host, f"/1/{write_names(files)}")
    assert (answer.status, answer.kind) == (200, CONTENT_TYPE)
    assert answer.files(FILES_MAX) == contents
    assert (await ask(host, f"/1/{files[5]}")).body == contents[5]


@pytest_twisted.ensureDeferred
async def test_what_is_missing_or_too_large_is_left_out(host: ContentHost) -> None:
    contents: list[bytes | None] = [b"a", b"b", b"x" * FILE_BYTES_MAX, None]
    files = [host.add(content or b"y" * (FILE_BYTES_MAX + 1)) for content in contents]
    host.folder.remove(files[1])
    contents[1] = None
    answer = await ask(host, f"/1/{write_names([*files, 1_000_000])}")
    assert answer.files(5) == [*contents, None]


@pytest_twisted.ensureDeferred
async def test_through_another_machine(host: ContentHost, central: ContentHost) -> None:
    files = [host.add(content) for content in (b"one", b"two")]
    answer = await ask(central, f"/1/{write_names(files)}?relay=yes")
    assert (answer.status, answer.files(2)) == (200, [b"one", b"two"])
    assert (await ask(central, f"/3/{write_names(files)}?relay=yes")).status == 421


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/1/1,0", 400),
        ("/1/1,x", 404),
        ("/1/1,", 404),
        ("/1/" + ",".join(["1"] * (FILES_MAX + 1)), 404),
        ("/1/1," + "9" * 20, 404),
        ("/1/0", 404),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_is_no_batch(host: ContentHost, path: str, status: int) -> None:
    host.add(b"a")
    assert (await ask(host, path)).status == status


@pytest_twisted.ensureDeferred
async def test_a_file_that_cannot_be_read_spoils_no_others(
    host: ContentHost, logged_errors: LoggedErrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [host.add(content) for content in (b"one", b"two", b"three")]
    read = host.folder.read

    def planted(file: int) -> Any:
        if file == files[1]:
            raise OSError(5, "planted")
        return read(file)

    monkeypatch.setattr(host.folder, "read", planted)
    answer = await ask(host, f"/1/{write_names(files)}")
    assert answer.files(3) == [b"one", None, b"three"]
    assert "planted" in str(logged_errors.flush())


def read_slowly(port: int, path: str) -> bytes:
    """With so little room that the port must wait."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        data = bytearray()
        while piece := client.recv(3000):
            data += piece
        return bytes(data.partition(b"\r\n\r\n")[2])


@pytest_twisted.ensureDeferred
async def test_a_slow_reader_gets_all(host: ContentHost) -> None:
    contents = [b"%d" % (number % 10) * FILE_BYTES_MAX for number in range(50)]
    files = [host.add(content) for content in contents]
    body = await deferToThread(read_slowly, host.port, f"/1/{write_names(files)}")
    assert Asked(200, None, body).files(50) == contents


def leave(port: int, path: str) -> None:
    """Ask, and be gone."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        client.recv(100)


@pytest_twisted.ensureDeferred
async def test_a_reader_that_goes_away_disturbs_nobody(host: ContentHost) -> None:
    files = [host.add(b"x" * FILE_BYTES_MAX) for _ in range(50)]
    path = f"/1/{write_names(files)}"
    for _ in range(3):
        await deferToThread(leave, host.port, path)
    assert len((await ask(host, path)).files(50)) == 50
