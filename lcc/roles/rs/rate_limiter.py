"""Who may ask, and how often: counted by where somebody comes from, which site is meant, and who gets mail."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.interfaces import IReactorTime

from lcc.config import RsConfig
from lcc.domain.registration.sites import name_of
from lcc.domain.throttle import Key, LoginThrottle, Throttle
from lcc.errors import RegistrationRefused
from lcc.transport.constant_time import constant_time
from lcc.transport.ports.connection_limits import party_of_host

DENIED_SECONDS = 0.5
"""A wrong password is answered after this time, or a multiple of it: else the time would tell whether there is such a
provider."""


class _Shared:
    """How often something may be done: in all, and, of what may be done for one site, from one address.  That is
    half: a stranger who asks for a site again and again must not keep its owner away.

    :param limit: so often.
    """

    def __init__(self, limit: int, window_seconds: float) -> None:
        self.whole = Throttle(limit, window_seconds)
        self.part = Throttle((limit + 1) // 2, window_seconds)


class RateLimiter:
    """Limits requests and wrong passwords.

    :param clock: the reactor or a clock.
    """

    def __init__(self, settings: RsConfig, clock: IReactorTime) -> None:
        window = settings.throttle_window
        self._clock = clock
        self._asks = _Shared(settings.asks_max, window)
        self._checks = _Shared(settings.checks_max, window)
        self._logins = LoginThrottle(settings.failed_logins, window)
        self._window = window

    def ask(self, address: str, folders: Iterable[str], contact: str = "") -> None:
        """A registration is asked for.

        :param address: where from; empty: not known.
        :param folders: what is meant.
        :param contact: mail shall go there, although nobody has proven that it is wanted there; empty: none shall.
        :raises RegistrationRefused: too often.
        """
        self._pass(self._asks, address, folders, contact)

    def check(self, address: str, folders: Iterable[str]) -> None:
        """Secrets are to be fetched.

        :raises RegistrationRefused: too often.
        """
        self._pass(self._checks, address, folders)

    def check_login(self, pid: int, address: str) -> None:
        """A password is about to be looked at.

        :raises RegistrationRefused: too many were wrong.
        """
        if self._logins.is_throttled(pid, party_of_host(address), self._clock.seconds()):
            raise RegistrationRefused("throttled", "too many failed logins, try again later", {}, self._window)

    def tried(self, pid: int, address: str) -> None:
        """As :meth:`lcc.domain.throttle.LoginThrottle.tried`."""
        self._logins.tried(pid, self._clock.seconds(), party_of_host(address))

    def passed(self, pid: int, address: str) -> None:
        """As :meth:`lcc.domain.throttle.LoginThrottle.passed`."""
        self._logins.passed(pid, self._clock.seconds(), party_of_host(address))

    async def failed(self, address: str, begun: float) -> None:
        """The password was wrong.  Waits until the answer tells nothing by when it comes.

        :param begun: when the question came.
        """
        now = self._clock.seconds()
        self._logins.failed(party_of_host(address), now)
        await constant_time(self._clock, begun, DENIED_SECONDS)

    def _pass(self, counts: _Shared, address: str, folders: Iterable[str], contact: str = "") -> None:
        sites = list(dict.fromkeys(map(name_of, folders)))
        keys: list[Key] = [("site", name) for name in sites]
        parts: list[Key] = []
        if address:
            party = party_of_host(address)
            keys.append(("address", party))
            parts = [("part", f"{name} {party}") for name in sites]
        if contact:
            keys.append(("contact", contact.lower()))
        now = self._clock.seconds()
        wait = counts.part.take(parts, now) or counts.whole.take(keys, now)
        if wait:
            text = "too many requests from this address, for this site, or to this mail address: try again later"
            raise RegistrationRefused("throttled", text, {}, wait)
