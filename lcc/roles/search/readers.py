"""Who searches, and what they may see.

Where the search is not open, people log in as at the web monitor (they see everything), or with the token of a
content user and no name (they see what that may); programs send the token as ``Authorization: Bearer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from lcc.config import SearchConfig
from lcc.roles.access import EVERYTHING, Access, AccessDenied
from lcc.roles.accounts import Accounts, Passwords
from lcc.roles.authenticator import Authenticator
from lcc.storage.database.database import Database
from lcc.storage.providers.web_users import WebUser, get_web_user
from lcc.transport.http.replies import HttpError, bearer_token
from lcc.transport.ports.connection_limits import party_of_host

CHECKED_SECONDS = 30.0
"""So old is what is known of a login's user at most."""


@attrs.frozen
class Reader:
    """Who searches.

    :ivar name: for people.
    :ivar user: of the web monitor; None: it has a token, or the search is open.
    :ivar token: of a content user; empty: it has none.
    """

    name: str
    access: Access = EVERYTHING
    user: WebUser | None = None
    token: str = ""


EVERYBODY = Reader("everybody")


class Readers:
    """Tells who asks.

    :param database: with the users; None: the search is open.
    :param in_thread: calls a function that takes long.
    :param secret: gives 16 hexadecimal digits that nobody can guess.
    """

    def __init__(
        self,
        settings: SearchConfig,
        database: Database | None,
        in_thread: Callable[..., Deferred[Any]],
        secret: Callable[[], str],
        clock: IReactorTime,
    ) -> None:
        self.is_open = settings.open
        self._database = database
        self._authenticator = None if database is None else Authenticator(database, "nothing", settings, clock)
        self._passwords = Passwords(self._find, in_thread)
        self._clock = clock
        self._checked: dict[Reader, float] = {}
        wrong = "Unknown user, wrong password, or unknown token."
        self.accounts: Accounts[Reader] = Accounts(settings, clock, self._check, secret, "Search", wrong)

    async def by_token(self, request: Request, address: str) -> Reader | None:
        """Who sends a token with a request; None: there is none.

        :param address: where it comes from; empty: not known.
        :raises HttpError: it is of no use.
        :raises AccessDenied: it is not known.
        """
        token = bearer_token(request)
        if token is None:
            return None
        if self._authenticator is None:
            return EVERYBODY
        access = await self._authenticator.admit(token, party_of_host(address) if address else "")
        if not access.content:
            raise HttpError(403, "this token is for rows only")
        return Reader(access.name, access, token=token)

    async def still(self, reader: Reader) -> Reader | None:
        """Who logged in earlier, as it is now; None: it may not any longer."""
        now = self._clock.seconds()
        if now - self._checked.get(reader, -CHECKED_SECONDS) < CHECKED_SECONDS:
            return reader
        found = await self._again(reader)
        self._checked = {each: time for each, time in self._checked.items() if now - time < CHECKED_SECONDS}
        if found == reader:
            self._checked[reader] = now
            return reader
        return None

    async def _again(self, reader: Reader) -> Reader | None:
        if reader.user is None:
            return await self._check("", reader.token)
        user = await self._find(reader.user.name)
        return None if user is None else Reader(user.name, user=user)

    async def _check(self, name: str, password: str) -> Reader | None:
        if name:
            user = await self._passwords.user(name, password)
            return None if user is None else Reader(user.name, user=user)
        if self._authenticator is None:
            return None
        try:
            # Wrong ones are counted where people log in.
            access = await self._authenticator.admit(password or "-", "")
        except AccessDenied:
            return None
        return Reader(access.name, access, token=password) if access.content else None

    def _find(self, name: str) -> Deferred[WebUser | None]:
        assert self._database is not None
        return self._database.interact(get_web_user, name)
