"""Who is let in to a port of content users; wrong tokens are throttled by the address that they come from.

Tokens cannot be guessed (128 random bits).  The throttle keeps those who try all the same, or have one that was
revoked, from asking the database as fast as they can.  Not by user: anybody could keep a user out then.  Tokens that
were right lately are let through, so that nobody is kept out by a neighbour behind the same address.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.domain.throttle import Windows
from lcc.roles.access import Access, AccessDenied, access_without_token, check_access

_log = Logger()

RIGHT_KEPT = 10_000


class Throttled(AccessDenied):
    """Too many wrong tokens came from this address.

    :ivar seconds: until the next one is looked at.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__("too many wrong tokens came from your address, try again later")
        self.seconds = max(1, int(seconds + 1))


class TokenLimits(Protocol):
    """Settings of tokens (:class:`lcc.config.CuConfig`)."""

    @property
    def failed_tokens(self) -> int: ...
    @property
    def token_window(self) -> float: ...


class Selects(Protocol):
    """What reads the database."""

    def select(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Run ``function(txn, *args)``, which runs one SELECT, in a reading thread."""


class Authenticator:
    """Checks tokens.

    :param without_token: what those who have no token may see (:data:`lcc.roles.access.WITHOUT_TOKEN`).
    :param admitted: hears of everybody who is.
    """

    def __init__(
        self,
        database: Selects,
        without_token: str,
        settings: TokenLimits,
        clock: IReactorTime,
        admitted: Callable[[Access], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._without_token = without_token
        self._most = settings.failed_tokens
        self._clock = clock
        self._admitted = admitted
        self._wrong = Windows(settings.token_window)
        self._right: OrderedDict[bytes, None] = OrderedDict()

    async def admit(self, token: str | None, party: str) -> Access:
        """What whoever asks may see.

        :param token: None: there is none.
        :param party: who asks, as :func:`lcc.transport.ports.connection_limits.party_of` says; empty: nobody is
            counted.
        :raises AccessDenied: nothing.
        :raises StoreUnavailable: the database cannot be reached.
        """
        access = await self._check(token, party)
        self._admitted(access)
        return access

    async def _check(self, token: str | None, party: str) -> Access:
        if token is None:
            return access_without_token(self._without_token)
        key = ("address", party)
        seen = sha256(token.encode("utf-8", "surrogatepass")).digest()
        now = self._clock.seconds()
        if party and seen not in self._right and self._wrong.count(key, now) >= self._most:
            raise Throttled(self._wrong.seconds_left(key, now))
        try:
            access: Access = await self._database.select(check_access, token, self._without_token)
        except AccessDenied:
            self._right.pop(seen, None)
            self._wrong.add(key, self._clock.seconds())
            if self._wrong.count(key, self._clock.seconds()) == self._most and party:
                _log.warn("Too many wrong tokens from {party}: throttling", party=party)
            raise
        self._right[seen] = None
        self._right.move_to_end(seen)
        if len(self._right) > RIGHT_KEPT:
            self._right.popitem(last=False)
        return access
