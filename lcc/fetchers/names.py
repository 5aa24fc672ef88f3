"""The machine's resolver, asked in threads of its own.

A name server that does not answer holds a thread for as long as the machine's resolver is patient, half a minute or
more, and nothing can interrupt it.  The reactor has ten threads for everything: ten such names would make all others
wait, and in the LCC of one process the spool and the folders, too.  So the robot has more threads than its fetches
can hold, started when they are needed, and nobody else uses them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHostnameResolver, IHostResolution, IResolutionReceiver
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

_log = Logger()

THREADS_FOR_A_FETCH = 4
"""A fetch gives up its lookup (``connect_timeout``) long before the machine's resolver does."""
THREADS_MAX = 512
_KINDS = {socket.AF_INET: IPv4Address, socket.AF_INET6: IPv6Address}


class _Daemon(Thread):
    """Does not keep the process from ending, whatever it still waits for."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, daemon=True, **named)


class _Threads(ThreadPool):
    threadFactory = _Daemon


@implementer(IHostResolution)
class _Question:
    """One that cannot be taken back."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Nothing to do."""


@implementer(IHostnameResolver)
class SystemNames:
    """Asks as the machine is configured: its hosts file, its name servers.

    :param fetches: at once, at most.
    :param getaddrinfo: as :func:`socket.getaddrinfo`; it may block.
    """

    def __init__(self, reactor: Any, fetches: int, getaddrinfo: Callable[..., Any] = socket.getaddrinfo) -> None:
        self._reactor = reactor
        self._getaddrinfo = getaddrinfo
        self._pool = _Threads(0, min(THREADS_FOR_A_FETCH * fetches, THREADS_MAX), "names")

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """As the interface says; always of both kinds of addresses, for TCP."""
        if not self._pool.started:
            self._pool.start()
        question = _Question(hostName)
        resolutionReceiver.resolutionBegan(question)

        def answered(rows: list[Any]) -> None:
            for family, _, _, _, address in rows:
                kind = _KINDS.get(family)
                if kind is not None:
                    resolutionReceiver.addressResolved(kind("TCP", address[0], portNumber))
            resolutionReceiver.resolutionComplete()

        def failed(reason: Failure) -> None:
            # No such host, a label that is too long.
            reason.trap(OSError, UnicodeError)
            resolutionReceiver.resolutionComplete()

        arguments = (hostName, portNumber, socket.AF_UNSPEC, socket.SOCK_STREAM)
        rows: Deferred[Any] = deferToThreadPool(self._reactor, self._pool, self._getaddrinfo, *arguments)
        rows.addCallbacks(answered, failed)
        rows.addErrback(lambda reason: _log.failure("Cannot look up a name", failure=reason))
        return question

    def close(self) -> None:
        """End the threads; those that still wait end when they are answered."""
        if self._pool.started:
            # It waits for all of them; that is not for the reactor to do.
            _Daemon(target=self._pool.stop).start()
