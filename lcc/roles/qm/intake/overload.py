"""Whether sets are taken in: over its limits the queue manager closes its port for UNSes (seed 002, section 10).

The limits are on the rows of the queue (the store keeps the counters exactly; they are summed up every
:data:`CHECK_SECONDS`) and on the elements that wait in memory to be absorbed: how many, and what they take there.
Above one of them the port is closed, and each UNS that is connected is closed after the set in passage, once all that
it has sent is answered.  At or below the lower mark of all (``overload_low``) the port is opened again; nobody has to
do anything.

BOT-Ms are not touched: fetching is what helps.  Where they have no port of their own (``listen_botm`` is empty) the
common port stays open, and UNSes are turned away when they say hello.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from lcc.config import QmConfig
from lcc.errors import StoreUnavailable, StreamError
from lcc.interfaces import IQueueStore
from lcc.protocols.hello import Hello

_log = Logger()

CHECK_SECONDS = 3.0


class Port(Protocol):
    """A port that can be closed and opened (:class:`lcc.transport.links.PortService`)."""

    @property
    def is_open(self) -> bool:
        """True while it listens."""

    def open_port(self) -> None:
        """Listen.  Whatever goes wrong is raised."""

    def close_port(self) -> Deferred[Any]:
        """Stop listening; connections stay."""


class Inlet(Protocol):
    """A UNS that is connected (:class:`lcc.roles.qm.intake.absorber.Absorber`)."""

    @property
    def waiting_count(self) -> int:
        """Elements that wait to be absorbed."""

    @property
    def waiting_bytes(self) -> int:
        """What they take in memory."""

    def drain(self) -> None:
        """Take the set in passage, answer everything, and close the connection."""


class Taking(Protocol):
    """What is needed of the engine."""

    @property
    def absorbers(self) -> Collection[Inlet]:
        """The UNSes that are connected."""

    def now(self) -> int:
        """Seconds since 1970."""


class Intake:
    """Decides, and closes and opens the port.

    :ivar port: the port for UNSes; None: there is none to close.
    :ivar reason: why nothing is taken in; empty: sets are taken in.
    :ivar since: since when (seconds since 1970); None: sets are taken in.
    :ivar queue_rows: rows of the queue at the last check.
    :ivar progress: how far the cache had come at the last check: its timeline, and the number of its last change.
    """

    def __init__(self, engine: Taking, store: IQueueStore, settings: QmConfig) -> None:
        self.port: Port | None = None
        self.reason = ""
        self.since: int | None = None
        self.queue_rows = 0
        self.progress = ("", 0)
        self._engine = engine
        self._store = store
        self._settings = settings
        self._next_check = 0.0
        self._check: Deferred[None] | None = None
        self._closing: Deferred[None] | None = None

    @property
    def overloaded(self) -> bool:
        """Nothing is taken in."""
        return bool(self.reason)

    def welcome(self, hello: Hello) -> None:
        """Somebody says hello.

        :raises StreamError: it is turned away.
        """
        if self.reason and hello.role == "uns":
            raise StreamError("try-later", f"nothing is taken in: {self.reason}")

    def stepped(self, step: float) -> None:
        """The wall clock was set by so many seconds."""
        if self.since is not None:
            self.since += round(step)

    async def check(self) -> None:
        """Look how much is queued.

        :raises StoreUnavailable: it cannot be known.
        """
        self.queue_rows = await self._store.queue_size()
        progress = await self._store.progress()
        if progress[0] != self.progress[0] or progress[1] > self.progress[1]:
            self.progress = progress
        self._decide()

    def tick(self, now: float) -> None:
        """To be called every second."""
        if self._check is None and now >= self._next_check:
            self._next_check = now + CHECK_SECONDS
            self._check = Deferred.fromCoroutine(self.check())
            # A database that is away is asked again in a while; others say loudly that it is away.
            self._check.addErrback(lambda failure: failure.trap(StoreUnavailable, CancelledError) and None)
            self._check.addErrback(lambda failure: _log.failure("The queue cannot be measured", failure=failure))
            self._check.addBoth(self._checked)
        self._decide()

    def changed(self, change: int) -> None:
        """The cache has come to this change."""
        timeline, before = self.progress
        self.progress = (timeline, max(before, change))

    def stop(self) -> None:
        """End what is going on."""
        if self._check is not None:
            self._check.cancel()

    def _checked(self, _: object) -> None:
        self._check = None

    def _decide(self) -> None:
        settings = self._settings
        share = settings.overload_low if self.reason else 1.0
        backlog = sum(inlet.waiting_count for inlet in self._engine.absorbers)
        backlog_bytes = sum(inlet.waiting_bytes for inlet in self._engine.absorbers)
        reasons = []
        if self.queue_rows > settings.queue_rows_max * share:
            reasons.append(f"{self.queue_rows} URLs are queued (queue_rows_max is {settings.queue_rows_max})")
        if backlog > settings.absorb_backlog_max * share:
            reasons.append(
                f"{backlog} elements wait to be absorbed (absorb_backlog_max is {settings.absorb_backlog_max})"
            )
        if backlog_bytes > settings.absorb_backlog_max_bytes * share:
            reasons.append(
                f"{backlog_bytes} bytes of elements wait to be absorbed (absorb_backlog_max_bytes is "
                f"{settings.absorb_backlog_max_bytes})"
            )
        reason = "; ".join(reasons)
        if reason and not self.reason:
            self.since = self._engine.now()
            _log.warn("Overload: nothing is taken in from UNSes any longer: {reason}", reason=reason)
            self.reason = reason  # before anything is drained: that may come back here
            for inlet in list(self._engine.absorbers):
                inlet.drain()
        elif self.reason and not reason:
            seconds = self._engine.now() - (self.since or 0)
            _log.info("The overload is over after {seconds} seconds: UNSes are let in again", seconds=seconds)
            self.since = None
        self.reason = reason
        self._set_port()

    def _set_port(self) -> None:
        port = self.port
        if port is None or self._closing is not None:
            return
        if self.reason and port.is_open:
            self._closing = port.close_port()
            self._closing.addErrback(lambda failure: _log.failure("Closing the port has failed", failure=failure))
            self._closing.addBoth(self._closed)
        elif not self.reason and not port.is_open:
            try:
                port.open_port()
            except Exception:
                _log.failure("The port for UNSes cannot be opened; it is tried again in a second")

    def _closed(self, _: object) -> None:
        self._closing = None
