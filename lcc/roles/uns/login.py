"""Whether a provider is let in: the decision on its ``<init>`` (seed 002, section 5).

*Strategy.*  Throttling comes before the password, and again after each wait, because others may have tried meanwhile.
A refusal takes a multiple of :data:`REFUSED_SECONDS`, whatever its cause.

*Failures.*  A database that is away means "try again later"; nothing is counted against the provider then.
"""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from lcc.errors import ERRORS, ErrorEntry, code
from lcc.model import Provider, ProviderStatus
from lcc.model import Session as Counted
from lcc.protocols.cp_uns import Init
from lcc.roles.uns.engine import Uns
from lcc.storage.providers.passwords import hash_of, is_slow, verify_password

REFUSED_SECONDS = 0.5
"""A wrong login is answered after this time, or a multiple of it."""


class LoginRefused(Exception):
    """The provider is not let in.

    :ivar entry: the error that it is told.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.entry: ErrorEntry = ERRORS[code(name)]


@attrs.frozen
class LoggedIn:
    """A provider that may submit sets.

    :ivar status: what it is told of its queue, its cache and its errors.
    :ivar counted: its connection, as the database has counted it.
    """

    provider: Provider
    status: ProviderStatus
    counted: Counted


class Login:
    """The login of one connection.

    :param gateway: the connection is one of a gateway that speaks for the provider.
    """

    def __init__(self, uns: Uns, gateway: bool) -> None:
        self._uns = uns
        self._gateway = gateway
        self._waiting: IDelayedCall | None = None

    def cancel(self) -> None:
        """The connection is gone: a refusal that waits for its time is not given."""
        call, self._waiting = self._waiting, None
        if call is not None and call.active():
            call.cancel()

    async def decide(self, init: Init, address: str, party: str) -> LoggedIn:
        """Check the password, the throttles and the number of connections, and count this one.

        :param address: where the provider is; empty: at a UNIX socket.
        :param party: whom failed logins are counted for (:mod:`lcc.transport.ports.connection_limits`).
        :raises LoginRefused: it is not let in.
        :raises StoreUnavailable: the database cannot be reached.
        """
        uns = self._uns
        self._check_throttle(init.pid, party)
        begun = uns.clock.seconds()
        spooled = uns.forwarder.elements_of(init.pid)  # before the queue is asked: what moves meanwhile counts twice
        found = await uns.ask(uns.providers.login(init.pid))
        self._check_throttle(init.pid, party)  # others may have been tried while this one waited
        now = uns.clock.seconds()
        uns.throttle.tried(init.pid, now, party)
        stored = hash_of(found and found[0], init.password)
        if is_slow(stored):
            right = await uns.in_thread(verify_password, init.password, stored)
        else:
            right = verify_password(init.password, stored)
        if found is None or not right:
            # Whoever sent it here, because a front end's database is being repaired, will know better.
            elsewhere = found is None and await uns.ask(uns.providers.has_left(init.pid))
            uns.throttle.failed(party, now)
            await self._even_out(begun)
            raise LoginRefused("try-later" if elsewhere else "access-denied")
        uns.throttle.passed(init.pid, now, party)
        provider, status = found
        self._check_connections(provider.pid)
        newest = uns.forwarder.newest_order(provider.pid)
        counting = uns.ask(uns.sessions.open_session(provider.pid, address, uns.now(), newest))
        if status.error_count and uns.settings.errors_shown:
            # Read together, so that their count matches the list.
            reading = uns.ask(uns.providers.status(provider.pid, uns.settings.errors_shown))
            try:
                counted = await counting
            except BaseException:
                reading.addErrback(lambda _: None)
                raise
            status = await reading
        else:
            counted = await counting
        self._check_connections(provider.pid)  # others came in while this one waited
        return LoggedIn(provider, attrs.evolve(status, processing=status.processing + spooled), counted)

    def _check_throttle(self, pid: int, party: str) -> None:
        if self._uns.throttle.is_throttled(pid, party, self._uns.clock.seconds()):
            raise LoginRefused("throttled")

    def _check_connections(self, pid: int) -> None:
        if self._uns.sessions_of(pid, self._gateway) >= self._uns.settings.connections_per_provider:
            raise LoginRefused("too-many-connections")

    def _even_out(self, begun: float) -> Deferred[None]:
        """Wait until the answer tells nothing by when it comes: hashing takes long for some passwords, and not at all
        where there is no such provider.

        :param begun: when the login came.
        """
        clock = self._uns.clock
        passed = clock.seconds() - begun
        evened: Deferred[None] = Deferred()
        wait = REFUSED_SECONDS * (passed // REFUSED_SECONDS + 1) - passed
        self._waiting = clock.callLater(wait, evened.callback, None)
        return evened
