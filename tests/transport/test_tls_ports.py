"""TLS ports and links beyond the question of roles: renewal, resumption, what is not TLS, limits, logs."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, serverFromString
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock, deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import capturedLogs, formatEvent

from lcc.admin.setup.authority import PUBLIC
from lcc.errors import ConfigError
from lcc.protocols.hello import Hello
from lcc.protocols.work import UP
from lcc.roles.peer import HELLO_SECONDS, Peer
from lcc.transport.links import PortService, RetryPolicy, link_service
from lcc.transport.ports.limited import LimitedFactory
from lcc.transport.tls.endpoints import TlsFailed
from lcc.transport.tls.files import CertificateFiles
from tests.support.logs import LoggedErrors
from tests.support.tls import DAY, EXPIRED, HOST, RIGHT, VALIDITY, WRONG_CA, End, Pki, meet, reactor, string
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def public(pki: Pki) -> str:
    """A port for anybody."""
    files = pki.files(PUBLIC, RIGHT)
    return f"lcctls:0:interface={HOST}:certificate={files.certificate}:key={files.key}"


def lines(logged: list[Any]) -> list[str]:
    """What was logged about TLS and links."""
    return [str(formatEvent(event)) for event in logged if "transport" in str(event.get("log_namespace"))]


class Blocking:
    """Another implementation of TLS: Python's, in a thread."""

    def __init__(self, port: int, files: CertificateFiles | None = None, **settings: Any) -> None:
        self.port = port
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        for name, value in settings.items():
            setattr(self.context, name, value)
        if files is not None:
            self.context.load_cert_chain(str(files.certificate), str(files.key))
        self.session: Any = None

    def talk(self) -> tuple[bytes, str, bool]:
        """What is heard, by which version of TLS, and whether the session before was resumed."""
        plain = socket.create_connection((HOST, self.port), timeout=PATIENCE_SECONDS)
        with plain, self.context.wrap_socket(plain, session=self.session) as secure:
            heard = secure.recv(100)
            self.session = secure.session
            return heard, str(secure.version()), bool(secure.session_reused)


class Listening:
    """A port, closed again at the end."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.end = End()

    async def __aenter__(self) -> Listening:
        self._port = await serverFromString(reactor, self._endpoint).listen(self.end)
        self.number = self._port.getHost().port
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_public_port_resumes_sessions(pki: Pki) -> None:
    async with Listening(public(pki)) as port:
        for version, name in ((ssl.TLSVersion.TLSv1_3, "TLSv1.3"), (ssl.TLSVersion.TLSv1_2, "TLSv1.2")):
            client = Blocking(port.number, maximum_version=version)
            told = [await deferToThread(client.talk) for _ in range(2)]
            assert told == [(b"hello", name, False), (b"hello", name, True)]


@pytest_twisted.ensureDeferred
async def test_between_roles_each_connection_is_verified_anew(pki: Pki) -> None:
    async with Listening(string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns")) as port:
        client = Blocking(port.number, pki.files("uns", RIGHT))
        told = [await deferToThread(client.talk) for _ in range(3)]
        assert told == [(b"hello", "TLSv1.3", False)] * 3


@pytest_twisted.ensureDeferred
async def test_older_versions_are_refused(pki: Pki) -> None:
    with capturedLogs() as logged:
        async with Listening(string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns")) as port:
            client = Blocking(port.number, pki.files("uns", RIGHT), maximum_version=ssl.TLSVersion.TLSv1_2)
            with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
                await deferToThread(client.talk)
        async with Listening(public(pki)) as port:
            client = Blocking(port.number)
            with pytest.warns(DeprecationWarning):
                client.context.minimum_version = ssl.TLSVersion.TLSv1
                client.context.maximum_version = ssl.TLSVersion.TLSv1_1
            client.context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.raises(ssl.SSLError, match=r"PROTOCOL_VERSION|NO_PROTOCOLS"):
                await deferToThread(client.talk)
    assert sum("older version" in line or "unsupported" in line for line in lines(logged)) >= 1


@pytest_twisted.ensureDeferred
async def test_what_speaks_no_tls_is_told_from_what_does(pki: Pki) -> None:
    def plain(port: int, said: bytes) -> bytes:
        with socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS) as client:
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(1000), b""))

    with capturedLogs() as logged:
        async with Listening(public(pki)) as port:
            for said in (b"GET / HTTP/1.1\r\n\r\n", b"<lococa:init/>", b"", b"\x16\x03\x01"):
                assert b"hello" not in await deferToThread(plain, port.number, said)
        assert not port.end.heard
    told = lines(logged)
    assert len(told) == 4, told
    for line, words in zip(
        told,
        (
            "it speaks HTTP without TLS",
            "it does not speak TLS",
            "within the TLS handshake",
            "within the TLS handshake",
        ),
        strict=True,
    ):
        assert words in line


@pytest_twisted.ensureDeferred
async def test_who_does_not_trust_a_public_port_says_why_and_sends_nothing(pki: Pki) -> None:
    for kind, words in ((RIGHT, ""), (WRONG_CA, "an authority that is not trusted"), (EXPIRED, "has expired")):
        files = pki.files(PUBLIC, kind)
        met = await meet(
            f"lcctls:0:interface={HOST}:certificate={files.certificate}:key={files.key}",
            lambda port: f"lcctls:{HOST}:{port}:ca={files.ca}",  # noqa: B023
        )
        assert met.talked == (kind == RIGHT)
        assert words in met.client and bool(met.server_heard) == (kind == RIGHT)
    met = await meet(public(pki), lambda port: f"lcctls:{HOST}:{port}")
    assert "an authority that is not trusted" in met.client, "whom the system trusts, that is not"
    met = await meet(public(pki), lambda port: f"lcctls:localhost:{port}:ca={pki.files('qm', RIGHT).ca}")
    assert "is not for localhost" in met.client and "the other end refuses this one" in met.log[0]


@pytest_twisted.ensureDeferred
async def test_renewed_files_are_read_and_broken_ones_are_not(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    """At the next connection, at both ends, without a restart."""
    pki = Pki(tmp_path)
    now = datetime.now(UTC)
    near, far = pki.files("uns", RIGHT), pki.files("qm", RIGHT)
    server = serverFromString(reactor, string(f"0:interface={HOST}", far, roles="uns"))
    end = End()
    port = await server.listen(end)
    client = clientFromString(reactor, string(f"{HOST}:{port.getHost().port}", near, roles="qm"))

    async def talk() -> str:
        mine = End()
        try:
            protocol = await client.connect(mine)
        except Exception as error:
            return str(error)
        await mine.first
        protocol.transport.loseConnection()
        await mine.ended()
        return mine.failure.getErrorMessage() if mine.failure else mine.heard.decode()

    assert await talk() == "hello"
    pki.write(pki.authority, "qm", RIGHT, now, ("elsewhere.example",))
    assert "is not for 127.0.0.1" in await talk()
    pki.write(pki.authority, "qm", RIGHT, now)
    assert await talk() == "hello"
    pki.authority.revoke([near.certificate], now)  # type: ignore[list-item]
    assert "or revoked" in await talk()
    pki.write(pki.authority, "uns", RIGHT, now)
    assert await talk() == "hello"
    assert far.certificate is not None and far.key is not None
    whole = far.certificate.read_bytes()
    for broken in (b"", b"nonsense", whole[:-100], pki.files("qm", EXPIRED).certificate.read_bytes()):  # type: ignore[union-attr]
        far.certificate.write_bytes(broken)
        assert await talk() == "hello", "the certificate from before goes on"
        assert await talk() == "hello"
        (told,) = logged_errors.flush("Cannot use the changed certificates")
        assert str(far.certificate) in told or str(far.key) in told
    far.certificate.unlink()
    assert await talk() == "hello"
    assert logged_errors.flush("No such file")
    far.certificate.write_bytes(whole)
    assert await talk() == "hello"
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_certificate_that_is_about_to_expire_is_warned_of(pki: Pki) -> None:
    now = datetime.now(UTC)
    for begin, words, count in (
        (now - VALIDITY + 13 * DAY, "expires at", 1),
        (now - VALIDITY + 15 * DAY, "", 0),
        (now - 2 * VALIDITY, "has expired at", 1),
    ):
        files = pki.write(pki.authority, PUBLIC, "late", begin)
        with capturedLogs() as logged:
            port = f"lcctls:0:interface={HOST}:certificate={files.certificate}:key={files.key}"
            await meet(port, lambda port: f"lcctls:{HOST}:{port}:ca={files.ca}")  # noqa: B023
        told = [line for line in lines(logged) if "renew it" in line]
        assert len(told) == count and all(f"{files.certificate} {words}" in line for line in told)


@pytest_twisted.ensureDeferred
async def test_a_port_that_is_full_refuses_over_tls_too(pki: Pki) -> None:
    end = End()
    port = await serverFromString(reactor, public(pki)).listen(LimitedFactory(end, 1, "tests"))
    client = clientFromString(reactor, f"lcctls:{HOST}:{port.getHost().port}:ca={pki.files('qm', RIGHT).ca}")
    first, second = End(), End()
    protocol = await client.connect(first)
    assert await first.first == b"hello"
    with pytest.raises(Exception, match=r"lost|ended within"):
        await client.connect(second)
    protocol.transport.loseConnection()
    await first.ended()
    await end.ended()
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_flood_of_refusals_is_logged_in_a_few_lines(pki: Pki) -> None:
    stranger = pki.files("uns", WRONG_CA)
    with capturedLogs() as logged:
        async with Listening(string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns")) as port:
            client = Blocking(port.number, stranger)
            for _ in range(25):
                with pytest.raises(OSError, match=r"UNKNOWN_CA|reset|Broken pipe"):
                    await deferToThread(client.talk)
    assert len(lines(logged)) == 10


@pytest.mark.parametrize("broken", ["certificate", "key", "ca"])
def test_a_role_does_not_start_with_certificates_that_it_cannot_use(pki: Pki, tmp_path: Path, broken: str) -> None:
    files = pki.files("botm", RIGHT)
    for path, text in ((tmp_path / "missing", None), (tmp_path / "bad", b"nonsense")):
        if text is not None:
            path.write_bytes(text)
        used = CertificateFiles(**{**{n: getattr(files, n) for n in ("ca", "certificate", "key")}, broken: path})
        with pytest.raises(ConfigError, match=str(path)):
            PortService(reactor, string("0:interface=127.0.0.1", used, roles="bot"), End()).startService()
        link = link_service(reactor, string(f"{HOST}:1", used, roles="qm"), End(), RetryPolicy(lambda: 0.5))
        with pytest.raises(ConfigError, match=str(path)):
            link.startService()
    other = CertificateFiles(files.ca, files.certificate, pki.files("qm", RIGHT).key)
    with pytest.raises(ConfigError, match="is not the key of"):
        PortService(reactor, string("0:interface=127.0.0.1", other, roles="bot"), End()).startService()


@pytest_twisted.ensureDeferred
async def test_a_link_that_is_refused_says_so_and_goes_on_trying(pki: Pki) -> None:
    """Logged once, tried again with the delays of a link, and welcome once its certificate is good."""
    port = await serverFromString(reactor, string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns")).listen(
        server := End()
    )
    number = port.getHost().port
    near = pki.write(pki.authority, "uns", "renewed", datetime(2020, 1, 1, tzinfo=UTC))
    policy = RetryPolicy(lambda: 0.5, 0.01, 0.05)
    mine = End()
    with capturedLogs() as logged:
        link = link_service(reactor, string(f"{HOST}:{number}", near, roles="qm"), mine, policy)
        link.startService()
        while len(server.lost) < 4:
            await deferLater(reactor, 0.02, lambda: None)
        pki.write(pki.authority, "uns", "renewed", datetime.now(UTC))
        while not server.heard:
            await deferLater(reactor, 0.02, lambda: None)
        policy.good_hello()
        await link.stopService()
    await port.stopListening()
    mine.first.addErrback(lambda _: None)
    told = [line for line in lines(logged) if "is unreachable" in line or "Connected" in line]
    assert told == [
        f"tls:{HOST}:{number} is unreachable: the other end refuses this one: this end's certificate has expired "
        "(its log tells more); retrying",
        f"Connected to tls:{HOST}:{number}",
    ]


class Closing(Protocol):
    """Closes at once."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.loseConnection()


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("closes", [True, False])
async def test_a_link_that_is_lost_in_the_handshake_says_so_and_goes_on_trying(
    pki: Pki, closes: bool, logged_errors: LoggedErrors
) -> None:
    """Not only when the handshake times out, and without a traceback."""
    if closes:
        port = reactor.listenTCP(0, Factory.forProtocol(Closing), interface=HOST)
        words = "the connection ended within the TLS handshake"
    else:
        text = string(f"0:interface={HOST}", pki.files("qm", EXPIRED), roles="uns")
        port = await serverFromString(reactor, text).listen(End())
        words = "has expired"
    number = port.getHost().port
    tried = Peers("uns", "qm")
    with capturedLogs() as logged:
        text = string(f"{HOST}:{number}", pki.files("uns", RIGHT), roles="qm")
        link = link_service(reactor, text, tried, RetryPolicy(lambda: 0.5, 0.01, 0.05))  # type: ignore[arg-type]
        link.startService()
        await until(lambda: tried.built >= 3)
        await link.stopService()
    await port.stopListening()
    (told,) = [line for line in lines(logged) if "is unreachable" in line]
    assert words in told, told
    assert not logged_errors.events


class Somebody(Peer):
    """A role that says who it is."""

    def __init__(self, role: str, expected: str, ready: Callable[[str], None], clock: Any) -> None:
        super().__init__(clock, Hello(role, "x"), frozenset(expected.split()), UP)
        self._ready = ready

    def peer_ready(self, hello: Hello) -> None:
        self._ready(hello.role)


class Peers:
    """Builds such peers."""

    def __init__(self, role: str, expected: str) -> None:
        self.role, self.expected = role, expected
        self.ready: list[str] = []
        self.some: Deferred[str] = Deferred()
        self.clock = reactor
        self.built = 0

    def doStart(self) -> None:
        pass

    doStop = doStart

    def buildProtocol(self, addr: Any) -> Any:
        def ready(role: str) -> None:
            self.ready.append(role)
            if not self.some.called:
                self.some.callback(role)

        self.built += 1
        return Somebody(self.role, self.expected, ready, self.clock).build_stream()


@pytest.fixture
def both() -> Iterator[Peers]:
    """A QM's port for UNSes, where BOT-Ms are served, too."""
    yield Peers("qm", "uns botm")


@pytest_twisted.ensureDeferred
async def test_a_hello_says_what_the_certificate_says(pki: Pki, both: Peers) -> None:
    """At a port that serves two roles, one of them must not pose as the other."""
    port = await serverFromString(
        reactor, string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns+botm")
    ).listen(
        both  # type: ignore[arg-type]  # as much of a factory as is needed
    )

    async def greet(role: str, certificate: str) -> Any:
        endpoint = string(f"{HOST}:{port.getHost().port}", pki.files(certificate, RIGHT), roles="qm")
        return await clientFromString(reactor, endpoint).connect(Peers(role, "qm"))  # type: ignore[arg-type]

    stream = await greet("uns", "uns")
    assert await both.some == "uns"
    stream.transport.loseConnection()
    with capturedLogs() as logged:
        await greet("botm", "uns")
        while not any("its certificate says" in str(formatEvent(event)) for event in logged):
            await deferLater(reactor, 0.01, lambda: None)
    assert both.ready == ["uns"]
    await deferLater(reactor, 0.05, lambda: None)
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_the_front_end_speaks_for_notifiers(pki: Pki) -> None:
    """With its own certificate, at a port that says so; for nobody else."""
    both = Peers("uns", "spider qm")
    text = string(f"0:interface={HOST}", pki.files("uns", RIGHT), roles="spider+qm+fe_uns")
    port = await serverFromString(reactor, text).listen(both)  # type: ignore[arg-type]  # as before

    async def greet(role: str) -> Any:
        endpoint = string(f"{HOST}:{port.getHost().port}", pki.files("fe_uns", RIGHT), roles="uns")
        return await clientFromString(reactor, endpoint).connect(Peers(role, "uns"))  # type: ignore[arg-type]

    stream = await greet("spider")
    assert await both.some == "spider"
    stream.transport.loseConnection()
    with capturedLogs() as logged:
        await greet("qm")
        while not any("its certificate says" in str(formatEvent(event)) for event in logged):
            await deferLater(reactor, 0.01, lambda: None)
    assert both.ready == ["spider"]
    await deferLater(reactor, 0.05, lambda: None)
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_link_that_stops_closes_its_stream(pki: Pki, both: Peers) -> None:
    """Although a stream is a producer, for which TLS would wait for ever."""
    text = string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns")
    port = await serverFromString(reactor, text).listen(both)  # type: ignore[arg-type]  # as before
    near = Peers("uns", "qm")
    text = string(f"{HOST}:{port.getHost().port}", pki.files("uns", RIGHT), roles="qm")
    link = link_service(reactor, text, near, RetryPolicy(lambda: 0.5))  # type: ignore[arg-type]  # as before
    link.startService()
    assert await near.some == "qm"
    assert await both.some == "uns"
    await link.stopService().addTimeout(PATIENCE_SECONDS, reactor)
    await port.stopListening()


@pytest.mark.parametrize(
    "text",
    [
        "lcctls:9000",
        "lcctls:9000:certificate=a",
        "lcctls:9000:certificate=a:key=b:roles=qm",
        "lcctls:9000:certificate=a:key=b:ca=c",
        "lcctls:9000:certificate=a:key=b:ca=c:roles=queen",
        "lcctls:many:certificate=a:key=b",
        "lcctls:9000:certificate=a:key=b:nonsense=c",
    ],
)
def test_strings_that_make_no_sense(text: str) -> None:
    with pytest.raises(ConfigError, match="invalid endpoint"):
        PortService(reactor, text, End()).startService()
    with pytest.raises(ConfigError, match="invalid endpoint"):
        link_service(reactor, text.replace("9000", "host:many"), End(), RetryPolicy(lambda: 0.5))


@pytest_twisted.ensureDeferred
async def test_names_in_a_strangers_certificate_do_no_harm(pki: Pki) -> None:
    """They come into the log."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "evil\n2026 \x1b[31mforged line \u2028")])
    now = datetime.now(UTC)
    hosts = [x509.DNSName(f"{'x' * 60}{number}.example") for number in range(100)]
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - DAY).not_valid_after(now + DAY)
    made = made.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    files = pki.files("uns", "stranger")
    assert files.certificate is not None and files.key is not None
    files.certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with capturedLogs() as logged:
        async with Listening(string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns")) as port:
            with pytest.raises(OSError, match=r"ALERT|reset|Broken pipe"):
                await deferToThread(Blocking(port.number, files).talk)
    (line,) = lines(logged)
    assert line.isprintable() and line.isascii() and len(line) < 700


@pytest_twisted.ensureDeferred
async def test_a_handshake_that_stands_still_is_dropped(pki: Pki) -> None:
    """A role's limits count from the TCP connection on, on either side of the handshake."""
    both = Peers("qm", "uns")
    text = string(f"0:interface={HOST}", pki.files("qm", RIGHT), roles="uns")
    clock = Clock()
    both.clock = clock
    port = await serverFromString(reactor, text).listen(both)  # type: ignore[arg-type]  # as before

    def stand_still() -> bytes:
        with socket.create_connection((HOST, port.getHost().port), timeout=PATIENCE_SECONDS) as silent:
            silent.sendall(b"\x16\x03\x01")
            return silent.recv(100)

    waiting = deferToThread(stand_still)
    while not both.built:
        await deferLater(reactor, 0.01, lambda: None)
    await deferLater(reactor, 0.05, lambda: None)
    clock.advance(HELLO_SECONDS + 1)
    with suppress(ConnectionResetError):
        assert await waiting == b""
    # The end that connects: the port takes the connection, and says nothing.
    silent = reactor.listenTCP(0, Factory.forProtocol(Protocol), interface=HOST)
    files = pki.files("uns", RIGHT)
    endpoint = string(f"{HOST}:{silent.getHost().port}:timeout=1", files, roles="qm")
    with pytest.raises(TlsFailed, match="no TLS handshake within 1 second"):
        await clientFromString(reactor, endpoint).connect(End())
    await silent.stopListening()
    await port.stopListening()
