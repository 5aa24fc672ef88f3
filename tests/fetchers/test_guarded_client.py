"""Asking other people's servers outside the queue: guards, certificates, bounds.  Real sockets on loopback."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.internet import reactor
from twisted.internet.defer import gatherResults

from lcc.config import BotConfig
from lcc.fetchers.guarded_client import ANSWER_BYTES_MAX, GuardedClient, NoAnswer, Reply
from tests.support.certificates import Authority
from tests.support.servers.web_site import WebSite


def made(private: bool = True, seconds: float = 20.0, **bot: Any) -> GuardedClient:
    return GuardedClient(reactor, BotConfig(**bot), at_once=4, deadline_seconds=seconds, allow_private=private)


@pytest_twisted.async_yield_fixture
async def client() -> AsyncIterator[GuardedClient]:
    client = made()
    yield client
    client.close()


@pytest.fixture
def site() -> Iterator[WebSite]:
    site = WebSite()
    yield site
    site.stop()


@pytest_twisted.ensureDeferred
async def test_it_asks(client: GuardedClient, site: WebSite) -> None:
    site.files["/hub"] = (202, {"Set-Cookie": "a=b", "Location": "/elsewhere"}, b"queued")
    for _ in range(2):
        reply = await client.post(site.url + "hub", b"a=1", {"Content-Type": "text/x"})
        assert (reply.status, reply.body, reply.location, reply.is_success) == (202, b"queued", "", True)
    for path, headers, body in site.posted:
        assert (path, body, headers["Content-Type"]) == ("/hub", b"a=1", "text/x")
        assert headers["User-Agent"].startswith("LCC/") and "Cookie" not in headers
    assert (await client.get(site.url + "nothing?x=%2F")).status == 404
    assert site.asked[-1] == "/nothing?x=%2F"
    many = await gatherResults([client.get(site.url + str(number)) for number in range(20)])
    assert [each.status for each in many] == [404] * 20


@pytest_twisted.ensureDeferred
async def test_redirects_are_not_followed(client: GuardedClient, site: WebSite) -> None:
    site.files["/a"] = (302, {"Location": site.url + "b"}, b"")
    reply = await client.post(site.url + "a", b"", {})
    assert (reply.status, reply.location) == (302, site.url + "b") and site.asked == ["/a"]
    assert reply.said() == "HTTP status 302 (redirects are not followed)"


@pytest_twisted.ensureDeferred
async def test_private_addresses(site: WebSite) -> None:
    client = made(private=False)
    for name in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1"):
        with pytest.raises(NoAnswer, match=r"130[0-9]"):
            await client.get(f"http://{name}:{site.port}/")
    assert site.asked == []
    client.close()


@pytest_twisted.ensureDeferred
async def test_answers_that_do_not_end(client: GuardedClient, site: WebSite) -> None:
    site.files["/long"] = b"x" * (4 * ANSWER_BYTES_MAX)
    site.files["/head"] = (200, {f"X-{number}": "y" * 1000 for number in range(80)}, b"")
    assert len((await client.get(site.url + "long")).body) <= ANSWER_BYTES_MAX
    with pytest.raises(NoAnswer):
        await client.get(site.url + "head")
    site.files["/slow"] = lambda _: (time.sleep(1.0), (200, {}, b""))[1]
    impatient = made(seconds=0.2)
    with pytest.raises(NoAnswer, match="no answer within"):
        await impatient.get(site.url + "slow")
    impatient.close()
    with pytest.raises(NoAnswer, match=r"1302|refused"):
        await client.get("http://127.0.0.1:9/")


@pytest_twisted.ensureDeferred
async def test_certificates(tmp_path: Path) -> None:
    authority = Authority()
    roots = tmp_path / "roots.pem"
    roots.write_bytes(authority.pem())
    for names, trusted, right in (
        (("127.0.0.1", "localhost"), True, True),
        (("127.0.0.1", "localhost"), False, False),
        (("www.example.org",), True, False),
    ):
        key, certificate = authority.issue(*names)
        files = tmp_path / "key.pem", tmp_path / "certificate.pem"
        files[0].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        files[1].write_bytes(certificate.public_bytes(Encoding.PEM))
        site = WebSite(*files)
        client = made(extra_roots=str(roots) if trusted else "")
        for name in ("127.0.0.1", "localhost"):
            if right:
                assert (await client.post(f"https://{name}:{site.port}/", b"x", {})).status == 404
            else:
                with pytest.raises(NoAnswer, match=r"1306|certificate"):
                    await client.post(f"https://{name}:{site.port}/", b"x", {})
        assert bool(site.posted) == right
        client.close()
        site.stop()


def test_what_a_server_says_is_fit_for_a_log() -> None:
    assert Reply(500, b"no\x1b[2J \xff\r\n  more\x9b").said() == "HTTP status 500: no\ufffd[2J \ufffd more\ufffd"
