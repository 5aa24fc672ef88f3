"""Users logged in at pages of ours.

Sessions are in memory, bounded in number and time: after a restart everybody logs in again.  A session ends when its
user is removed, or gets another password or role.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.domain.throttle import LoginThrottle
from lcc.storage.providers.passwords import is_slow, verify_password
from lcc.storage.providers.web_users import NAME_CHARS, WebUser
from lcc.transport.constant_time import constant_time
from lcc.transport.ports.connection_limits import party_of_host

_log = Logger()

DENIED_SECONDS = 0.5
"""A wrong password is answered after this time, or a multiple of it: else the time would tell whether there is such a
user."""
HASHING_MAX = 2
"""Passwords that are hashed at once: each takes 16 MB."""
PASSWORD_CHARS = 1024
_NOBODY = WebUser("", f"scrypt$16384$8$1${'00' * 16}${'00' * 32}")
"""Has a password that nothing matches."""


class LoginRefused(Exception):
    """The login is refused.

    :ivar text: why, for who tries.
    :ivar retry_seconds: when to come back; 0: at once.
    """

    def __init__(self, text: str, retry_seconds: float = 0.0) -> None:
        super().__init__(text)
        self.text = text
        self.retry_seconds = retry_seconds


class LoginLimits(Protocol):
    """Settings of logins (:class:`lcc.config.WebConfig`)."""

    @property
    def failed_logins(self) -> int: ...
    @property
    def login_window(self) -> float: ...
    @property
    def session_max(self) -> float: ...
    @property
    def session_idle(self) -> float: ...
    @property
    def sessions_max(self) -> int: ...
    @property
    def sessions_per_user(self) -> int: ...


class User(Protocol):
    """Who can log in; equal as long as it may stay."""

    @property
    def name(self) -> str: ...


U = TypeVar("U", bound=User)


class Passwords:
    """Users of the web monitor by their names and passwords.

    :param find: gives the user of a name, or None.
    :param in_thread: calls a function that takes long.
    """

    def __init__(
        self, find: Callable[[str], Deferred[WebUser | None]], in_thread: Callable[..., Deferred[Any]]
    ) -> None:
        self._find = find
        self._in_thread = in_thread
        self._hashing = DeferredSemaphore(HASHING_MAX)

    async def user(self, name: str, password: str) -> WebUser | None:
        """Who has both; None: nobody."""
        user = await self._find(name)
        if len(password) <= PASSWORD_CHARS and await self._is_right(password, user or _NOBODY):
            return user
        return None

    async def _is_right(self, password: str, user: WebUser) -> bool:
        if not is_slow(user.password_hash):
            return verify_password(password, user.password_hash)
        await self._hashing.acquire()
        try:
            return bool(await self._in_thread(verify_password, password, user.password_hash))
        finally:
            self._hashing.release()


@attrs.define(eq=False)
class Session(Generic[U]):
    """A login.

    :ivar began, seen: on the clock.
    :ivar streams: pages that follow by themselves; each is called when the session ends.
    """

    user: U
    began: float
    seen: float
    streams: set[Callable[[], None]] = attrs.field(factory=set)


class Accounts(Generic[U]):
    """Checks logins, and knows their sessions by their cookies.

    :param check: gives the user with this name and password, or None.
    :param token: gives 16 hexadecimal digits that nobody can guess.
    :param where: the site, for the log.
    :param wrong: what who was refused is told.
    """

    def __init__(
        self,
        settings: LoginLimits,
        clock: IReactorTime,
        check: Callable[[str, str], Coroutine[Any, Any, U | None]],
        token: Callable[[], str],
        where: str,
        wrong: str = "Unknown user or wrong password.",
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._check = check
        self._token = token
        self._where = where
        self._wrong = wrong
        self._throttle = LoginThrottle(settings.failed_logins, settings.login_window)
        self._sessions: dict[bytes, Session[U]] = {}

    @property
    def count(self) -> int:
        """Sessions that there are."""
        return len(self._sessions)

    async def log_in(self, name: str, password: str, address: str) -> str:
        """Let somebody in.

        :param address: where from; empty: not known.
        :returns: the secret of the session.
        :raises LoginRefused: not with these.
        """
        name, begun, party = name[:NAME_CHARS], self._clock.seconds(), party_of_host(address)
        # Whoever has no name is known by the password alone, and keeps nobody else out.
        account = name or hashlib.sha256(password.encode("utf-8", "replace")).hexdigest()
        if self._throttle.is_throttled(account, party, begun):
            raise LoginRefused("Too many failed logins: try again later.", self._settings.login_window)
        self._throttle.tried(account, begun, party)
        user = await self._check(name, password)
        if user is None:
            self._throttle.failed(party, self._clock.seconds())
            _log.warn(
                "{where}: login of {name!r} from {address!r} failed", where=self._where, name=name, address=address
            )
            await constant_time(self._clock, begun, DENIED_SECONDS)
            raise LoginRefused(self._wrong)
        self._throttle.passed(account, self._clock.seconds(), party)
        _log.info("{where}: {name!r} logged in from {address!r}", where=self._where, name=user.name, address=address)
        return self._open(user)

    def session(self, secret: str) -> Session[U] | None:
        """The session of this secret, which is seen now; None: there is none."""
        key, now = _key(secret), self._clock.seconds()
        found = self._sessions.get(key)
        if found is None:
            return None
        if self._is_over(found, now):
            self._end(key)
            return None
        found.seen = now
        return found

    def log_out(self, secret: str) -> None:
        """End a session."""
        self._end(_key(secret))

    def check(self, users: Iterable[U]) -> None:
        """These are all users that there are: sessions of others end, and those whose time is over."""
        known = set(users)
        now = self._clock.seconds()
        for key, session in list(self._sessions.items()):
            if session.user not in known or self._is_over(session, now):
                self._end(key)

    def stop(self) -> None:
        """End all of them."""
        for key in list(self._sessions):
            self._end(key)

    def _open(self, user: U) -> str:
        # Nobody's logins end those of others, but of who has more of them.
        while True:
            each = Counter(session.user.name for session in self._sessions.values())
            if each[user.name] >= self._settings.sessions_per_user:
                whose = user.name
            elif len(self._sessions) >= self._settings.sessions_max:
                whose = max(each, key=lambda name: (each[name], name == user.name))
            else:
                break
            theirs = [key for key, session in self._sessions.items() if session.user.name == whose]
            self._end(min(theirs, key=lambda key: self._sessions[key].seen))
        secret = self._token() + self._token()
        now = self._clock.seconds()
        self._sessions[_key(secret)] = Session(user, now, now)
        return secret

    def _is_over(self, session: Session[U], now: float) -> bool:
        if now - session.began > self._settings.session_max:
            return True
        # A page that follows by itself is looked at.
        return not session.streams and now - session.seen > self._settings.session_idle

    def _end(self, key: bytes) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            for close in list(session.streams):
                close()


def _key(secret: str) -> bytes:
    # Looked up by a hash: the time of a look-up tells nothing of the secret.
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
