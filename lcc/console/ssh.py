"""The SSH server of a console.

Import this late: importing conch imports the global reactor.  The parts of it used here are passed a reactor.

*Guards.*  A client that has not logged in after a while is disconnected, even if it sends nothing at all (conch's own
timeout begins with the login, and is ten hours).  Wrong passwords are throttled by user.  Only sessions: no
forwarding, no subsystems.  Logins and failures are logged, with the key's fingerprint.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
from twisted.conch.avatar import ConchUser
from twisted.conch.checkers import IAuthorizedKeysDB, SSHPublicKeyChecker
from twisted.conch.insults.insults import ServerProtocol
from twisted.conch.interfaces import IConchUser, ISession
from twisted.conch.ssh.connection import SSHConnection
from twisted.conch.ssh.factory import SSHFactory
from twisted.conch.ssh.keys import FingerprintFormats, Key
from twisted.conch.ssh.session import SSHSession
from twisted.conch.ssh.transport import SSHServerTransport
from twisted.conch.ssh.userauth import SSHUserAuthServer
from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import IUsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import Factory
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.components import registerAdapter
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.config import ManholeConfig
from lcc.console.commands import SessionCommands
from lcc.console.credentials import UnsafeFile, key_lines, read_trusted, stored_hash
from lcc.console.interpreter import Console, OneCommand
from lcc.domain.throttle import LoginThrottle
from lcc.storage.providers.passwords import verify_password

_log = Logger()

LOGINS_A_CONNECTION = 5
_SHOWN_CHARS = 100


@attrs.frozen
class Operator:
    """An operator who has logged in.

    :ivar how: method and key.
    """

    name: str
    how: str

    def __str__(self) -> str:
        return f"{self.name} ({self.how})"


def _shown(name: bytes) -> str:
    return ascii(name.decode("utf-8", "replace")[:_SHOWN_CHARS])[1:-1]


@implementer(IAuthorizedKeysDB)
class KeyChecker(SSHPublicKeyChecker):
    """Accepts the keys in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(self)
        self._path = path

    def getAuthorizedKeys(self, username: bytes) -> Iterable[Key]:
        """The keys now in the file."""
        try:
            lines = key_lines(read_trusted(self._path))
        except UnsafeFile as error:
            _log.error("Console: cannot use the key file, rejecting keys: {error}", error=str(error))
            return
        for line in lines:
            try:
                key = Key.fromString(line.encode())
            except Exception:  # lines with options, or of other kinds, or damaged
                continue
            if key.isPublic():
                yield key

    def requestAvatarId(self, credentials: Any) -> Deferred[Operator]:
        """For the portal."""
        verified: Deferred[Any] = super().requestAvatarId(credentials)
        return verified.addCallback(self._operator, credentials)

    def _operator(self, username: bytes, credentials: Any) -> Operator:
        fingerprint = Key.fromString(credentials.blob).fingerprint(FingerprintFormats.SHA256_BASE64)
        return Operator(_shown(username), f"key SHA256:{fingerprint.rstrip('=')}")


@implementer(ICredentialsChecker)
class PasswordChecker:
    """Accepts the passwords in a file."""

    credentialInterfaces = (IUsernamePassword,)

    def __init__(self, path: Path, settings: ManholeConfig, reactor: Any) -> None:
        self._path = path
        self._reactor = reactor
        self._throttle = LoginThrottle(settings.failed_logins, settings.login_window)

    def requestAvatarId(self, credentials: Any) -> Deferred[Any]:
        """For the portal."""
        return Deferred.fromCoroutine(self._check(credentials.username, credentials.password))

    async def _check(self, username: bytes, password: bytes) -> Operator:
        name = username.decode("utf-8", "replace")
        now = self._reactor.seconds()
        if self._throttle.is_throttled(name, "", now):
            raise UnauthorizedLogin("too many wrong passwords")
        self._throttle.tried(name, now)
        try:
            stored = stored_hash(read_trusted(self._path), name)
        except UnsafeFile as error:
            _log.error("Console: cannot use the password file, rejecting passwords: {error}", error=str(error))
            raise UnauthorizedLogin("no passwords") from None
        pool = self._reactor.getThreadPool()
        text = password.decode("utf-8", "surrogateescape")
        if not await deferToThreadPool(self._reactor, pool, verify_password, text, stored):
            raise UnauthorizedLogin("wrong password")
        self._throttle.passed(name, now)
        return Operator(_shown(username), "password")


class _Auth(SSHUserAuthServer):
    """The login."""

    transport: Any
    attemptsBeforeDisconnect = LOGINS_A_CONNECTION

    def serviceStarted(self) -> None:
        factory = self.transport.factory
        self.clock = factory.reactor
        self.loginTimeout = factory.settings.login_timeout
        super().serviceStarted()

    def _ebBadAuth(self, reason: Failure) -> None:
        if reason.check(UnauthorizedLogin) and self.method != b"none":
            _log.warn(
                "Console: login of {name} from {address} by {method} rejected",
                name=_shown(self.user or b""),
                address=self.transport.address,
                method=_shown(self.method),
            )
        super()._ebBadAuth(reason)


class _Server(SSHServerTransport):
    """One connection.

    :ivar address: of the other end, for the log.
    """

    supportedCiphers = [b"aes256-ctr", b"aes192-ctr", b"aes128-ctr"]
    supportedMACs = [b"hmac-sha2-512", b"hmac-sha2-256"]
    supportedKeyExchanges = [
        name
        for name in SSHServerTransport.supportedKeyExchanges
        if not name.startswith(b"diffie-hellman")  # no group file here, and SHA-1
    ]
    supportedCompressions = [b"none"]

    factory: Any
    transport: Any
    avatar: Any
    """Set by the login."""
    address = ""
    _timer: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self.address = _peer(self.transport)
        self._timer = self.factory.reactor.callLater(self.factory.settings.login_timeout, self._too_late)
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        if self._timer is not None and hasattr(self, "avatar"):
            self._timer.reset(self.factory.settings.idle_timeout)
        super().dataReceived(data)

    def setService(self, service: Any) -> None:
        if isinstance(service, SSHConnection) and self._timer is not None:
            self._timer.reset(self.factory.settings.idle_timeout)
            operator, address = str(self.avatar.operator), self.address
            _log.warn("Console: session of {operator} from {address} opened", operator=operator, address=address)
        super().setService(service)

    def receiveError(self, reasonCode: int, description: bytes) -> None:
        """The peer disconnects, with a reason: no error of ours."""
        _log.debug("Console: {address} disconnects: {why}", address=self.address, why=_shown(description))

    def connectionLost(self, reason: Any = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.factory.connections.discard(self)
        if hasattr(self, "avatar"):
            operator, address = str(self.avatar.operator), self.address
            _log.info("Console: session of {operator} from {address} closed", operator=operator, address=address)
        super().connectionLost(reason)

    def _too_late(self) -> None:
        self._timer = None
        _log.info("Console: timeout, closing the connection from {address}", address=self.address)
        self.transport.abortConnection()


def _peer(transport: Any) -> str:
    """The peer: its address, or the user at a UNIX socket."""
    handle = transport.getHandle()
    if isinstance(handle, socket.socket) and handle.family == socket.AF_UNIX:
        found = handle.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return f"user {struct.unpack('3i', found)[1]} of this machine"
    peer = transport.getPeer()
    return f"{peer.host} port {peer.port}"


class _User(ConchUser):
    """A logged-in operator."""

    def __init__(self, factory: ConsoleFactory, operator: Operator) -> None:
        super().__init__()
        self.factory = factory
        self.operator = operator
        self.channelLookup[b"session"] = SSHSession


@attrs.frozen
class _Wire:
    """One direction between a channel and its terminal."""

    write: Callable[[bytes], None]
    loseConnection: Callable[[], None]


@implementer(ISession)
class _Session:
    """A channel's content: a terminal or one command."""

    def __init__(self, user: _User) -> None:
        self._user = user
        self._factory = user.factory
        self._size = (80, 24)
        self._terminal: Any = None

    def getPty(self, term: bytes, windowSize: tuple[int, int, int, int], attributes: object) -> None:
        """The terminal has this many rows and columns."""
        self._size = (windowSize[1], windowSize[0])

    def openShell(self, proto: Any) -> None:
        """A terminal."""
        namespace = self._factory.namespace(self._user.operator)
        terminal = self._terminal = ServerProtocol(
            Console, namespace, self._factory.settings.output_bytes_max, self._factory.greeting
        )
        terminal.makeConnection(_Wire(proto.write, lambda: proto.processEnded(Failure(ProcessDone(0)))))
        self.windowChanged((self._size[1], self._size[0], 0, 0))
        proto.makeConnection(_Wire(terminal.dataReceived, lambda: None))

    def execCommand(self, proto: Any, cmd: bytes) -> None:
        """One command."""

        def ended(code: int) -> None:
            proto.processEnded(Failure(ProcessTerminated(code) if code else ProcessDone(0)))

        namespace = self._factory.namespace(self._user.operator)
        command = OneCommand(namespace, self._factory.settings.output_bytes_max, proto.outReceived, ended)
        # Only after the client has the reply to its request.
        self._factory.reactor.callLater(0, command.run, cmd)

    def windowChanged(self, newWindowSize: tuple[int, int, int, int]) -> None:
        """The terminal has another size."""
        if self._terminal is not None:
            self._terminal.terminalProtocol.terminalSize(newWindowSize[1], newWindowSize[0])

    def eofReceived(self) -> None:
        """End of input.  (A command given to ssh still runs.)"""
        if self._terminal is not None:
            self._terminal.loseConnection()

    def closed(self) -> None:
        """The channel is closed."""
        if self._terminal is not None:
            self._terminal.terminalProtocol.gone()


registerAdapter(_Session, _User, ISession)


@implementer(IRealm)
class _Realm:
    def __init__(self, factory: ConsoleFactory) -> None:
        self._factory = factory

    def requestAvatar(self, avatarId: Any, mind: object, *interfaces: Any) -> tuple[Any, Any, Callable[[], None]]:
        return IConchUser, _User(self._factory, avatarId), lambda: None


class ConsoleFactory(SSHFactory):
    """Makes the connections of one console.

    :param reactor: for timers and threads.
    :param host_key: of this machine.
    :param keys: file of the public keys that may log in.
    :param passwords: file of the passwords; None: there are none.
    :param commands: of the roles, by name (:mod:`lcc.console.commands`).
    :param more: what else is in the namespace of a session.
    """

    noisy = False
    protocol = _Server
    services = {b"ssh-userauth": _Auth, b"ssh-connection": SSHConnection}
    primes = None

    def __init__(
        self,
        reactor: Any,
        settings: ManholeConfig,
        host_key: Key,
        keys: Path,
        passwords: Path | None,
        commands: Mapping[str, Any],
        more: Mapping[str, Any],
        greeting: str,
    ) -> None:
        self.reactor = reactor
        self.settings = settings
        self.greeting = greeting
        self.connections: set[_Server] = set()
        self.privateKeys = {host_key.sshType(): host_key}
        self.publicKeys = {host_key.sshType(): host_key.public()}
        checkers: list[Any] = [KeyChecker(keys)]
        if passwords is not None:
            checkers.append(PasswordChecker(passwords, settings, reactor))
        self.portal = Portal(_Realm(self), checkers)
        self._commands = commands
        self._more = more

    def buildProtocol(self, addr: IAddress | None) -> Any:
        if len(self.connections) >= self.settings.connections_max:
            _log.warn("Console: connection refused: {limit} are open", limit=self.settings.connections_max)
            return None
        server = Factory.buildProtocol(self, addr)  # SSHFactory's own logs the same line for each connection
        assert isinstance(server, _Server)
        server.supportedPublicKeys = list(
            chain.from_iterable(key.supportedSignatureAlgorithms() for key in self.privateKeys.values())
        )
        self.connections.add(server)
        return server

    def namespace(self, operator: Operator) -> dict[str, Any]:
        """What an operator finds: the commands, and what else there is."""
        return {"__name__": "__console__", **self._more, **SessionCommands(self._commands, str(operator)).namespace()}

    def drop_all(self) -> None:
        """Close all connections."""
        for server in list(self.connections):
            server.transport.abortConnection()
