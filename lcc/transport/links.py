"""Links that reconnect by themselves, ports that close and reopen, and the lock that makes a role single.

A link is a :class:`~twisted.application.internet.ClientService` on an endpoint string.  Its delays count the failures
since the last *good hello*, not since the last TCP connection: a peer that accepts and then refuses is not hammered.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from twisted.application.internet import ClientService, StreamServerEndpointService, backoffPolicy
from twisted.application.service import MultiService, Service
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.endpoints import clientFromString, serverFromString
from twisted.internet.interfaces import (
    INegotiated,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer, provider

from lcc.config import unix_socket_path
from lcc.errors import Busy, ConfigError
from lcc.transport.pipe_endpoints import NearEndpoint, PipeServerEndpoint
from lcc.transport.pipes import Pipes
from lcc.transport.tls.files import PREFIX
from lcc.transport.wires import shown

if TYPE_CHECKING:
    from lcc.transport.tls.endpoints import TlsClientEndpoint

_log = Logger()

OUTAGE_LOG_SECONDS = 60.0
_LOCK_TRIES = 10


class RetryPolicy:
    """Delays between attempts: 0.1 s growing to 2 s, from the last good hello on.

    :param random: gives numbers in [0, 1), for the jitter.
    :ivar when_good: called at each good hello.
    """

    def __init__(
        self, random: Callable[[], float], initial_seconds: float = 0.1, maximum_seconds: float = 2.0
    ) -> None:
        self._failures = 0
        self.when_good: Callable[[], object] = lambda: None
        self._policy = backoffPolicy(initial_seconds, maximum_seconds, 2, jitter=lambda: random() * initial_seconds)

    def __call__(self, _attempts: int) -> float:
        self._failures += 1
        return float(self._policy(min(self._failures, 30)))

    def good_hello(self) -> None:
        """The handshake succeeded: the next loss is retried quickly."""
        self._failures = 0
        self.when_good()


@provider(ILogObserver)
def _warnings_only(event: LogEvent) -> None:
    if event["log_level"] >= LogLevel.warn:
        globalLogPublisher(event)


class _Link(ClientService):
    """Logs no single attempt: :class:`_WatchedEndpoint` logs what matters."""

    _log = Logger(observer=_warnings_only)
    watched: _WatchedEndpoint

    def startService(self) -> None:
        self.watched.load()
        super().startService()

    def stopService(self) -> Any:
        # A TLS transport does not close as long as a producer is registered, and every stream is one.
        self.whenConnected().addCallbacks(_unregister, lambda failure: failure.trap(CancelledError) and None)
        return super().stopService()


def _unregister(protocol: Any) -> None:
    transport = protocol.transport
    if INegotiated.providedBy(transport):  # TLS
        transport.unregisterProducer()  # type: ignore[attr-defined]  # it is an ITransport, too


@implementer(IStreamClientEndpoint)
class _WatchedEndpoint:
    """Logs that the peer cannot be reached or refuses this end, at once and then at most once a minute, and when the
    two have greeted each other again.

    :param endpoint: its string.
    """

    def __init__(self, reactor: Any, endpoint: str, pipes: Pipes | None) -> None:
        parsed = _parsed(clientFromString, reactor, endpoint)
        self._tls: TlsClientEndpoint | None = parsed if endpoint.startswith(f"{PREFIX}:") else None
        self._endpoint: IStreamClientEndpoint = parsed
        path = unix_socket_path(endpoint)
        if pipes is not None and path:
            self._endpoint = NearEndpoint(pipes, path, self._endpoint)
        self._shown = shown(endpoint)
        self._clock: IReactorTime = reactor
        self._connected = False
        self._quiet_until: float | None = None
        if self._tls is not None:
            self._tls.refused = self._not_reached

    def load(self) -> None:
        """:raises ConfigError: its certificates cannot be used."""
        if self._tls is not None:
            self._tls.load()

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        connecting: Deferred[IProtocol] = self._endpoint.connect(factory)
        return connecting.addErrback(self._not_reached)

    def reached(self) -> None:
        """There was a good hello."""
        if not self._connected:
            self._connected = True
            _log.info("Connected to {endpoint}", endpoint=self._shown)

    def _not_reached(self, failure: Failure) -> Failure:
        self._connected = False
        now = self._clock.seconds()
        if not failure.check(CancelledError) and (self._quiet_until is None or now >= self._quiet_until):
            self._quiet_until = now + OUTAGE_LOG_SECONDS
            _log.info(
                "{endpoint} is unreachable: {reason}; retrying",
                endpoint=self._shown,
                reason=failure.getErrorMessage().rstrip("."),
            )
        return failure


def link_service(
    reactor: Any, endpoint: str, factory: IProtocolFactory, policy: RetryPolicy, pipes: Pipes | None = None
) -> ClientService:
    """A service that keeps one connection to the endpoint, for ever.

    :param policy: of this link alone; it is told of good hellos.
    :param pipes: of this process: to a UNIX socket that it listens on itself the link is a pipe.
    :raises ConfigError: the endpoint string does not make sense.
    """
    watched = _WatchedEndpoint(reactor, endpoint, pipes)
    policy.when_good = watched.reached
    link = _Link(watched, factory, retryPolicy=policy, clock=reactor)
    link.watched = watched
    return link


def client_endpoint(reactor: Any, endpoint: str, pipes: Pipes | None = None) -> IStreamClientEndpoint:
    """An endpoint for connections that are made when they are needed; that it cannot be reached is logged as of a
    link.

    :param pipes: as of :func:`link_service`.
    :raises ConfigError: the endpoint string does not make sense, or its certificates cannot be used.
    """
    watched = _WatchedEndpoint(reactor, endpoint, pipes)
    watched.load()
    return watched


def _parsed(parse: Callable[[Any, str], Any], reactor: Any, endpoint: str) -> Any:
    try:
        return parse(reactor, endpoint)
    except (OSError, ConfigError):
        raise  # a file that it names cannot be read: that says it best
    except Exception as error:  # the parsers raise whatever their conversions do
        raise ConfigError([f"invalid endpoint {shown(endpoint)!r}: {error}"]) from None


class PortService(MultiService):
    """A listening port that can be closed and opened again while the service runs.

    A port that cannot be opened at start raises at once: the process must not run without it.

    :param endpoint: an endpoint string; a stale ``unix:`` socket is removed first (the role holds its lock).  A
        socket is for this user alone, unless the string says another mode.  A ``systemd:`` one was opened by systemd,
        and cannot be opened twice: while it is closed, whoever connects waits.
    :param setting: table and key of ``lcc.toml`` that name the endpoint: the port's name in metrics; empty: none.
    :param pipes: where a UNIX socket listens for links of this process, too; None: it does not.
    """

    def __init__(
        self,
        reactor: Any,
        endpoint: str,
        factory: IProtocolFactory,
        setting: str = "",
        pipes: Pipes | None = None,
    ) -> None:
        super().__init__()
        self._pipes = pipes
        self._reactor = reactor
        self._endpoint = _private(endpoint)
        self.factory = factory
        self.setting = setting
        self._port: StreamServerEndpointService | None = None
        self._held: StreamServerEndpointService | None = None
        self._pipe_port: StreamServerEndpointService | None = None
        self.is_closed_for_now = False
        """It was closed by :meth:`close_port`."""

    @property
    def is_open(self) -> bool:
        """True while the port listens."""
        return self._port is not None

    @property
    def bound_port(self) -> Any:
        """The IListeningPort, once listening; None when closed."""
        waiting = getattr(self._port, "_waitingForPort", None)
        return getattr(waiting, "result", None)

    def startService(self) -> None:
        super().startService()
        self.open_port()

    def open_port(self) -> None:
        """Listen; nothing happens if the port is open."""
        if self._port is not None:
            return
        self.is_closed_for_now = False
        if self._held is not None:
            self._port, self._held = self._held, None
            self.bound_port.startReading()
            return
        _remove_stale_socket(self._endpoint)
        self._port = self._listening(_parsed(serverFromString, self._reactor, self._endpoint))
        self._port.setServiceParent(self)
        path = unix_socket_path(self._endpoint)
        if self._pipes is not None and path:
            self._pipe_port = self._listening(PipeServerEndpoint(self._pipes, path))
            self._pipe_port.setServiceParent(self)

    def _listening(self, endpoint: IStreamServerEndpoint) -> StreamServerEndpointService:
        port = StreamServerEndpointService(endpoint, self.factory)
        port._raiseSynchronously = True  # as strports.service does: fail loudly on a taken port
        return port

    def close_port(self) -> Deferred[Any]:
        """Stop listening; established connections stay."""
        self.is_closed_for_now = True
        port, self._port = self._port, None
        if port is None:
            return succeed(None)
        if self._endpoint.startswith("systemd:"):
            self._held = port
            listening: Any = port._waitingForPort
            listening.result.stopReading()
            return succeed(None)
        pipe_port, self._pipe_port = self._pipe_port, None
        if pipe_port is not None:
            pipe_port.disownServiceParent()  # at once
        result = port.disownServiceParent()
        return result if isinstance(result, Deferred) else succeed(None)


def _private(endpoint: str) -> str:
    """The endpoint string with Twisted's defaults for UNIX sockets replaced: that anybody may connect, and a lock of
    its own, which trusts a process id that may have been used again."""
    if unix_socket_path(endpoint):
        for name, value in (("mode", "600"), ("lockfile", "0")):
            if f":{name}=" not in endpoint:
                endpoint += f":{name}={value}"
    return endpoint


def _remove_stale_socket(endpoint: str) -> None:
    path = unix_socket_path(endpoint)
    if path and Path(path).is_socket():
        Path(path).unlink()


def _holder(file: IO[str]) -> str:
    """Who has written its process id there."""
    file.seek(0)
    text = file.read(20).strip()
    return f" (process {text})" if text.isascii() and text.isdigit() else ""


class LockService(Service):
    """Holds an exclusive lock on a file while the process runs, so that there is one of the role in this folder.

    The lock is taken at start, not at construction, and the kernel releases it whatever way the process ends.

    Whoever holds it may remove the file.

    :raises Busy: from ``startService`` when another process holds it.
    :raises OSError: from ``startService`` when nobody can lock it: the file system knows no locks, or disk error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def startService(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._locked()
        for _ in range(_LOCK_TRIES):
            if self._is_there(file):
                break
            file.close()  # it was removed between its opening and its locking
            file = self._locked()
        self._file = file
        try:
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())
        except OSError:
            pass  # it is for people; what counts is the lock, which needs no room on the disk
        super().startService()

    def stopService(self) -> None:
        super().stopService()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _locked(self) -> IO[str]:
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            file.close()
            raise Busy(
                f"{self._path} is locked: another process of this role is running in this folder{holder}"
            ) from None
        except OSError as error:
            file.close()
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        return file

    def _is_there(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False
