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

from collections.abc import Callable, Collection
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.config import QmConfig
from lcc.errors import StreamError
from lcc.interfaces import IQueueStore
from lcc.model import Absorbed
from lcc.protocols.hello import Hello
from lcc.roles.qm.intake.absorber import Absorber
from lcc.roles.qm.part import Hub, Part

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


class Intake(Part):
    """Decides, and closes and opens the port.  A database that is unavailable is asked again with the next check.

    :param absorbers: gives those of the UNSes that are connected.
    :ivar port: the port for UNSes; None: there is none to close.
    :ivar reason: why nothing is taken in; empty: sets are taken in.
    :ivar since: since when (seconds since 1970); None: sets are taken in.
    :ivar sets_answered: so far.
    :ivar queue_rows: rows of the queue at the last check.
    :ivar progress: how far the cache had come at the last check: its timeline, and the number of its last change.
    """

    ASKS_AGAIN = False
    ERROR_TEXT = "Cannot measure the queue"

    def __init__(
        self,
        hub: Hub,
        store: IQueueStore,
        settings: QmConfig,
        absorbers: Callable[[], Collection[Absorber]],
    ) -> None:
        super().__init__(hub, store)
        self.port: Port | None = None
        self.reason = ""
        self.since: int | None = None
        self.queue_rows = 0
        self.progress = ("", 0)
        self.sets_answered = 0
        self._settings = settings
        self._absorbers = absorbers
        self._next_check = 0.0
        self._closing: Deferred[None] | None = None

    def check_hello(self, hello: Hello) -> None:
        """A peer says hello.

        :raises StreamError: it is refused.
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
        if now >= self._next_check and not self._job.busy:
            self._next_check = now + CHECK_SECONDS
            self._begin(self.check)
        self._decide()

    def changed(self, change: int) -> None:
        """The cache has come to this change."""
        timeline, before = self.progress
        self.progress = (timeline, max(before, change))

    def absorbed(self, outcome: Absorbed) -> None:
        """Something was queued."""
        self.sets_answered += len(outcome.answers)
        if outcome.queued:
            self.queue_rows = max(1, self.queue_rows)

    def _decide(self) -> None:
        settings = self._settings
        share = settings.overload_low if self.reason else 1.0
        absorbers = list(self._absorbers())
        backlog = sum(absorber.waiting_count for absorber in absorbers)
        backlog_bytes = sum(absorber.waiting_bytes for absorber in absorbers)
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
            self.since = self._hub.now()
            _log.warn("Overloaded, refusing UNSes: {reason}", reason=reason)
            self.reason = reason  # before anything is drained: that may come back here
            for absorber in absorbers:
                absorber.drain()
        elif self.reason and not reason:
            seconds = self._hub.now() - (self.since or 0)
            _log.info("No longer overloaded after {seconds} seconds, admitting UNSes again", seconds=seconds)
            self.since = None
        self.reason = reason
        self._set_port()

    def _set_port(self) -> None:
        port = self.port
        if port is None or self._closing is not None:
            return
        if self.reason and port.is_open:
            self._closing = port.close_port()
            self._closing.addErrback(lambda failure: _log.failure("Cannot close the port for UNSes", failure=failure))
            self._closing.addBoth(self._closed)
        elif not self.reason and not port.is_open:
            try:
                port.open_port()
            except Exception:
                _log.failure("Cannot open the port for UNSes; retrying in a second")

    def _closed(self, _: object) -> None:
        self._closing = None
