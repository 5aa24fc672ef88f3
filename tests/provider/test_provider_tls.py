"""lcccp over TLS: nothing is said to a UNS whose certificate is not good, and the reason is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from click.testing import CliRunner
from twisted.internet.defer import ensureDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock

from lcc.admin.setup.authority import PUBLIC
from lcc.provider.client import uns_endpoint
from lcc.provider.lcccp import command
from lcc.provider.submitter import Orders, Submitter
from lcc.transport.tls.endpoints import TlsClientEndpoint
from tests.support.servers.uns import Script, ScriptedUns
from tests.support.tls import EXPIRED, HOST, RIGHT, End, Pki, reactor


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


async def check(uns: str, ca_file: Path | None, tls: bool = True) -> int:
    """``lcccp --check``; gives its exit code."""
    orders = Orders(uns, 1, "canary-secret", "", 20.0, 0, 3, False, tls, ca_file)
    return int(await ensureDeferred(Submitter(orders, None, None).run(reactor)))


@pytest_twisted.ensureDeferred
async def test_who_is_not_trusted_hears_nothing(pki: Pki, capsys: pytest.CaptureFixture[str]) -> None:
    ca = pki.files("qm", RIGHT).ca
    for kind, host, trusted, words in (
        (RIGHT, HOST, None, "is of an authority that is not trusted"),
        (EXPIRED, HOST, ca, "has expired"),
        (RIGHT, "localhost", ca, "is not for localhost"),
    ):
        files, script = pki.files(PUBLIC, kind), Script()
        factory = Factory.forProtocol(lambda: ScriptedUns(script))  # noqa: B023
        text = f"lcctls:0:interface={HOST}:certificate={files.certificate}:key={files.key}"
        port = await serverFromString(reactor, text).listen(factory)
        assert await check(f"{host}:{port.getHost().port}", trusted) == 4
        await port.stopListening()
        said = capsys.readouterr().err
        assert f"cannot connect: its certificate (no role at {HOST}, by CN=ours) {words}" in said
        assert "may have been accepted" not in said and "canary" not in said
        assert not script.inits


@pytest_twisted.ensureDeferred
async def test_a_uns_without_tls_is_told_from_one_with(pki: Pki, capsys: pytest.CaptureFixture[str]) -> None:
    plain = reactor.listenTCP(0, End(), interface=HOST)
    assert await check(f"{HOST}:{plain.getHost().port}", None) == 4
    await plain.stopListening()
    assert "cannot connect: it does not speak TLS" in capsys.readouterr().err
    files = pki.files(PUBLIC, RIGHT)
    factory = Factory.forProtocol(lambda: ScriptedUns(Script()))
    text = f"lcctls:0:interface={HOST}:certificate={files.certificate}:key={files.key}"
    port = await serverFromString(reactor, text).listen(factory)
    assert await check(f"{HOST}:{port.getHost().port}", None, tls=False) == 4
    await port.stopListening()
    assert "a TLS port needs --tls" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["host:9000", "tls:host:9000", "[::1]:9000", "tls:[::1]:9000", "host"])
def test_ways_to_say_it(text: str) -> None:
    assert isinstance(uns_endpoint(MemoryReactorClock(), text, tls=True), TlsClientEndpoint)


def test_what_makes_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCC_PASSWORD", "x")
    (tmp_path / "ca.pem").write_text("nonsense")

    def say(*arguments: str) -> Any:
        return CliRunner().invoke(command, ["--pid=1", "--check", *arguments])

    told = say("--uns=host:9000", f"--ca-file={tmp_path}/ca.pem")
    assert told.exit_code == 2 and "--ca-file requires --tls" in told.output
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        uns_endpoint(MemoryReactorClock(), "unix:/x", tls=True)


@pytest_twisted.ensureDeferred
async def test_authorities_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    assert await check("host:9000", tmp_path / "ca.pem") == 2
    assert f"--ca-file: {tmp_path}/ca.pem holds no certificate" in capsys.readouterr().err
