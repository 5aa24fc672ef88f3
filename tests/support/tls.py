"""Certificates of every role and every fault, and ends that talk over TLS on real sockets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, serverFromString
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from lcc.admin.setup.authority import PUBLIC, Authority
from lcc.config import Config, parse_config
from lcc.transport.tls.certificates import ROLES
from lcc.transport.tls.files import CertificateFiles
from tests.support.waiting import PATIENCE_SECONDS

reactor: Any = global_reactor
HOST = "127.0.0.1"
NONE, RIGHT, WRONG_CA, EXPIRED, EARLY, REVOKED = "none", "right", "wrong-ca", "expired", "early", "revoked"
KINDS = (NONE, RIGHT, WRONG_CA, EXPIRED, EARLY, REVOKED)
DAY = timedelta(days=1)
VALIDITY = 100 * DAY


class Pki:
    """Two authorities; of each role a certificate of each kind, for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        self.folder = folder
        self.authority = Authority.create(folder / "ours", "ours", 3650, now)
        stranger = Authority.create(folder / "theirs", "theirs", 3650, now)
        self.config: Config = parse_config('home = "home"\n', folder)
        for role in (*ROLES, PUBLIC):
            for kind, authority, when in (
                (RIGHT, self.authority, now),
                (WRONG_CA, stranger, now),
                (EXPIRED, self.authority, now - 2 * VALIDITY),
                (EARLY, self.authority, now + 10 * DAY),
                (REVOKED, self.authority, now),
            ):
                self.write(authority, role, kind, when)
        self.authority.revoke([self.files(role, REVOKED).certificate for role in ROLES], now)  # type: ignore[misc]

    def write(
        self, authority: Authority, role: str, kind: str, when: datetime, hosts: tuple[str, ...] = (HOST,)
    ) -> CertificateFiles:
        """Issue one that is valid from then on."""
        key, certificate = authority.issue(list(hosts), role, VALIDITY, when)
        files = self.files(role, kind)
        assert files.key is not None and files.certificate is not None
        files.key.write_bytes(key)
        files.certificate.write_bytes(certificate)
        return files

    def files(self, role: str, kind: str) -> CertificateFiles:
        """Of a role, trusting our authority."""
        path = self.folder / f"{role}-{kind}"
        return CertificateFiles(self.folder / "ours" / "ca.pem", path.with_suffix(".pem"), path.with_suffix(".key"))


def string(endpoint: str, files: CertificateFiles, *, kind: str = RIGHT, roles: str = "") -> str:
    """An endpoint string of ours with these certificates."""
    parts = [f"lcctls:{endpoint}", f"ca={files.ca}"]
    if kind != NONE:
        parts += [f"certificate={files.certificate}", f"key={files.key}"]
    return ":".join([*parts, f"roles={roles}"] if roles else parts)


class Talker(Protocol):
    """Says something, keeps what it hears."""

    def __init__(self, end: End) -> None:
        self.end = end

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"hello")

    def dataReceived(self, data: bytes) -> None:
        self.end.heard += data
        if not self.end.first.called:
            self.end.first.callback(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.end.lost.append(reason)
        if not self.end.first.called:
            self.end.first.errback(reason)
        for waiting in self.end.waiting:
            waiting.callback(None)
        self.end.waiting.clear()


class End(Factory):
    """One end of a connection.

    :ivar first: fires with the first bytes, or with how the connection was lost before.
    """

    noisy = False

    def __init__(self) -> None:
        self.heard = b""
        self.first: Deferred[bytes] = Deferred()
        self.first.addErrback(self._not_talked)
        self.lost: list[Failure] = []
        self.waiting: list[Deferred[None]] = []
        self.failure: Failure | None = None

    def buildProtocol(self, addr: Any) -> Protocol:
        return Talker(self)

    def _not_talked(self, failure: Failure) -> bytes:
        self.failure = failure
        return b""

    async def ended(self) -> None:
        """Its connection is lost."""
        if not self.lost:
            self.waiting.append(Deferred())
            await self.waiting[-1].addTimeout(PATIENCE_SECONDS, reactor)


@attrs.define
class Met:
    """What became of an attempt.

    :ivar talked: each end has heard the other one.
    :ivar client: why the connecting end has no connection.
    :ivar log: what was logged, line by line.
    """

    talked: bool
    client: str
    log: list[str]
    server_heard: bytes


async def meet(server: str, client: Callable[[int], str]) -> Met:
    """Listen, connect, talk, close.

    :param client: the string of the connecting end, for a port.
    """
    near, far = End(), End()
    why = ""
    with capturedLogs() as logged:
        port = await serverFromString(reactor, server).listen(far)
        try:
            protocol = await clientFromString(reactor, client(port.getHost().port)).connect(near)
        except Exception as error:
            why = str(error)
            await far.ended()
        else:
            await near.first.addTimeout(PATIENCE_SECONDS, reactor)
            if near.failure is not None:
                why = near.failure.getErrorMessage()
            elif not far.heard:
                await far.first.addTimeout(PATIENCE_SECONDS, reactor)
            protocol.transport.loseConnection()
            await near.ended()
            await far.ended()
        await port.stopListening()
    lines = [formatEvent(event) for event in logged if event.get("log_namespace") == "lcc.transport.tls.endpoints"]
    return Met(bool(near.heard and far.heard), why, [str(line) for line in lines], far.heard)
