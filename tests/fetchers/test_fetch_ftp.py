"""The fetcher for ftp with a real vsftpd."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet import reactor as global_reactor
from twisted.internet.task import deferLater

from lcc.config import BotConfig
from lcc.errors import CODES
from lcc.fetchers.dial import Dialer
from lcc.fetchers.ftp import FtpFetcher
from lcc.model import FetchOrder, FetchStep
from tests.support.roles.fetchers import Outcome, Sink, close_clean, collect, stay
from tests.support.servers.vsftpd import PrivateVsftpd

reactor: Any = global_reactor
PATIENT = BotConfig(connect_timeout=30.0, idle_timeout=30.0, deadline=90.0, keepalive=30.0, contact="bot@lcc.example")


class Ftp:
    """A fetcher for a server."""

    def __init__(self, server: PrivateVsftpd, **changes: Any) -> None:
        self.server = server
        self.fetcher = FtpFetcher(reactor, attrs.evolve(PATIENT, **changes))

    def start(self, path: str, sink: Sink, pid: int = 1, private: bool = True, **fields: Any) -> Any:
        order = FetchOrder(pid, self.server.base + path, private=private, **fields)
        return self.fetcher.fetch(order, sink, stay)

    async def fetch(self, path: str, pid: int = 1, private: bool = True, **fields: Any) -> Outcome:
        sink = Sink()
        outcome: Outcome = await collect(self.start(path, sink, pid, private, **fields), sink)
        return outcome

    async def close(self) -> None:
        """Nothing may be left: no timer, no connection."""
        await close_clean(self.fetcher)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateVsftpd]:
    with PrivateVsftpd() as server:
        yield server


@pytest_twisted.ensureDeferred
async def test_content_arrives_as_it_is(server: PrivateVsftpd) -> None:
    content = bytes(range(256)) * 2000 + b"\r\n\n\r"
    server.put("pub/binary", content, modified=1_700_000_000)
    ftp = Ftp(server)
    outcome = await ftp.fetch("/pub/binary")
    assert (outcome.error, outcome.content) == ("", content)
    fetched = outcome.fetched
    assert fetched is not None
    assert (fetched.status, fetched.url, fetched.modified) == (0, server.base + "/pub/binary", 1_700_000_000)
    # None was told.
    assert (fetched.mimetype, fetched.unchanged, fetched.revalidate) == ("application/octet-stream", False, True)
    assert len(content) < fetched.wire_bytes < len(content) + 1000
    server.put("pub/empty", b"")
    assert (await ftp.fetch("/pub/empty")).fetched is not None
    assert (await ftp.fetch("/pub/binary;type=i")).content == content
    assert 'anon password "bot@lcc.example"' in server.log()
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_names_are_bytes(server: PrivateVsftpd) -> None:
    ftp = Ftp(server)
    for name, path in (
        ("a b", "/pub/a%20b"),
        ("ü;x=1", "/pub/%C3%BC;x=1"),
        ("-la", "/pub/-la"),
        ("what?", "/pub/what?"),
        ("100%", "/pub/100%25"),
    ):
        server.put(f"pub/{name}", name.encode())
        assert (await ftp.fetch(path)).content == name.encode()
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_what_is_not_there_is_404_and_the_connection_serves_on(server: PrivateVsftpd) -> None:
    server.put("pub/page", b"x")
    server.put("pub/secret", b"x").chmod(0)
    ftp = Ftp(server)
    for path in ("/pub/nothing", "/nowhere/x", "/pub", "/pub/page/x"):
        outcome = await ftp.fetch(path)
        assert outcome.error == "http-404" and outcome.failure is not None
        assert outcome.failure.code == 404 and "550" in outcome.failure.detail
    before = server.connections
    assert (await ftp.fetch("/pub/page")).content == b"x"
    assert server.connections == before
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_what_has_not_changed_is_not_fetched(server: PrivateVsftpd) -> None:
    server.put("pub/c", b"12345", modified=1_600_000_000)
    ftp = Ftp(server)
    before = server.log().count("OK DOWNLOAD")
    same = {"conditional": True, "modified": 1_600_000_000, "stored_bytes": 5}
    outcome = await ftp.fetch("/pub/c", **same)
    assert outcome.fetched is not None and outcome.fetched.unchanged and outcome.content == b""
    assert server.log().count("OK DOWNLOAD") == before
    for other in ({"conditional": False}, {"stored_bytes": 6}, {"modified": 1_600_000_001}, {"stored_bytes": None}):
        outcome = await ftp.fetch("/pub/c", **{**same, **other})
        assert outcome.fetched is not None and not outcome.fetched.unchanged and outcome.content == b"12345"
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_one_connection_for_a_provider(server: PrivateVsftpd) -> None:
    server.put("pub/page", b"x")
    ftp = Ftp(server)
    steps: list[FetchStep] = []
    ftp.fetcher.watch(steps.append)
    before = server.connections
    for _ in range(20):
        assert (await ftp.fetch("/pub/page")).content == b"x"
    assert server.connections == before + 1
    assert (await ftp.fetch("/pub/page", pid=2)).content == b"x"
    assert server.connections == before + 2
    names = [step.name for step in steps]
    assert names.count("reused") == 19 and "first-byte" in names
    assert names[:4] == ["connected", "response", "request", "response"], "the server speaks first"
    asked = [step.detail for step in steps if step.name == "request"]
    assert asked[:3] == ["USER anonymous", "PASS bot@lcc.example", "TYPE I"] and asked[-1] == "RETR pub/page"
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_a_kept_connection_that_died_is_replaced() -> None:
    with PrivateVsftpd(idle_session_timeout="3") as server:
        server.put("pub/page", b"x")
        ftp = Ftp(server)
        assert (await ftp.fetch("/pub/page")).content == b"x"
        while "timeout" not in server.log().lower():
            await deferLater(reactor, 0.05)
        assert (await ftp.fetch("/pub/page")).content == b"x"
        assert server.connections == 2
        await ftp.close()


@pytest_twisted.ensureDeferred
async def test_a_server_without_the_newer_commands() -> None:
    with PrivateVsftpd(cmds_denied="EPSV,SIZE,MDTM") as server:
        server.put("pub/page", b"x" * 100)
        ftp = Ftp(server)
        for _ in range(2):
            outcome = await ftp.fetch("/pub/page")
            assert outcome.content == b"x" * 100
            assert outcome.fetched is not None
            assert (outcome.fetched.modified, outcome.fetched.revalidate) == (None, False)
        # It is not asked again what it has refused.
        assert server.log().count('"EPSV"') == 1 and server.log().count('"PASV"') == 2
        await ftp.close()
        ftp = Ftp(server, body_bytes_max=99)
        assert (await ftp.fetch("/pub/page")).error == "body-too-long"
        await ftp.close()


@pytest_twisted.ensureDeferred
async def test_ipv6() -> None:
    with socket.socket(socket.AF_INET6) as probe:
        if probe.connect_ex(("::1", 9)) != 111:
            pytest.skip("this machine has no IPv6 on loopback")
    with PrivateVsftpd("::1") as server:
        server.put("pub/page", b"six")
        ftp = Ftp(server)
        assert (await ftp.fetch("/pub/page")).content == b"six"
        await ftp.close()


@pytest_twisted.ensureDeferred
async def test_who_is_not_let_in_waits() -> None:
    for changes in ({"anonymous_enable": "NO", "local_enable": "YES"}, {"max_clients": "1"}):
        with PrivateVsftpd(**changes) as server, socket.socket() as other:
            other.connect(("127.0.0.1", server.port))
            assert other.recv(1000).startswith(b"220")
            ftp = Ftp(server)
            outcome = await ftp.fetch("/pub/page")
            assert outcome.error == "login-refused" and outcome.failure is not None
            assert outcome.failure.code == CODES["login-refused"]
            assert outcome.failure.detail.startswith(("530", "421"))
            await ftp.close()


@pytest_twisted.ensureDeferred
async def test_private_addresses_are_for_those_who_may(server: PrivateVsftpd) -> None:
    before = server.connections
    ftp = Ftp(server)
    assert (await ftp.fetch("/pub/page", private=False)).error == "address-forbidden"
    assert server.connections == before
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_where_a_connection_has_led_to_is_judged(
    server: PrivateVsftpd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public address that leads to a private one: by a proxy or a translation of addresses in between."""
    server.put("pub/page", b"x")
    ftp = Ftp(server)
    endpoint, asked = Dialer.endpoint, []

    def elsewhere(self: Dialer, address: str, port: int, timeout_seconds: float) -> Any:
        asked.append(address)
        return endpoint(self, "127.0.0.1", server.port, timeout_seconds)

    monkeypatch.setattr(Dialer, "endpoint", elsewhere)
    sink = Sink()
    order = FetchOrder(1, "ftp://192.88.98.1/pub/page", private=False)
    outcome = await collect(ftp.fetcher.fetch(order, sink, stay), sink)
    assert (outcome.error, outcome.content) == ("address-forbidden", b"") and asked == ["192.88.98.1"]
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_limits_and_ends(tmp_path: Path) -> None:
    with PrivateVsftpd(anon_max_rate="65536") as server:
        server.put("pub/large", b"x" * 4_000_000)
        server.put("pub/page", b"x")
        ftp = Ftp(server, body_bytes_max=1000)
        outcome = await ftp.fetch("/pub/large")
        assert (outcome.error, outcome.content) == ("body-too-long", b"")
        await ftp.close()

        ftp = Ftp(server)
        sink = Sink(room=10)
        assert (await collect(ftp.start("/pub/large", sink), sink)).error == "store-failed"
        # A connection in an unknown state is not used again.
        assert (await ftp.fetch("/pub/page")).content == b"x"
        sink = Sink()
        running = ftp.start("/pub/large", sink)
        outcome_of = collect(running, sink)
        while not sink.content:
            await deferLater(reactor, 0.01)
        running.cancel()
        outcome = await outcome_of
        assert outcome.error == "cancelled" and 0 < len(outcome.content) < 4_000_000
        await ftp.close()

        for deadline in (0.5, 2.0, 8.0, 30.0):  # all of it would take a minute
            ftp = Ftp(server, deadline=deadline)
            outcome = await ftp.fetch("/pub/large")
            assert outcome.error == "deadline" and outcome.failure is not None
            assert outcome.failure.wire_bytes >= len(outcome.content)
            await ftp.close()
            if outcome.content:
                break  # else the login has taken all this time
        assert outcome.content


@pytest_twisted.ensureDeferred
async def test_closing_ends_what_is_going_on() -> None:
    with PrivateVsftpd(anon_max_rate="1024") as server:
        server.put("pub/large", b"x" * 1_000_000)
        ftp = Ftp(server)
        sink = Sink()
        outcome = collect(ftp.start("/pub/large", sink), sink)
        while not sink.content:
            await deferLater(reactor, 0.01)
        await ftp.close()
        assert (await outcome).error == "cancelled"
        assert (await ftp.fetch("/pub/large")).error == "robot-error"
