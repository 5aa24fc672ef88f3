"""The cache as content users ask it: that of one LCC, or of several behind a front end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred, succeed

from lcc.domain.keys import pid_of
from lcc.model import CachedUrl
from lcc.roles.access import Access
from lcc.roles.cu.answers import Piece, Reads, begin_piece, next_piece
from lcc.roles.cu.formats import Format
from lcc.roles.cu.items import ItemPage, ItemQuery, begin_items, items_page
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import begin, lately
from lcc.roles.cu.site_robots import AskedSite, robots_lines
from lcc.roles.cu.tokens import parse_token
from lcc.roles.cu.watcher import ChangeWatcher
from lcc.storage.providers.watched import roots_of_sites
from lcc.storage.views.selected import url


class Cache(Protocol):
    """
    :ivar users: where content users are.
    """

    users: Reads

    def begin(self, query: Query, form: Format) -> Deferred[Piece]:
        """The first piece of the answer to a question.

        :raises TokenError, StartAgain: (as the Deferred's failure) its token is no good.
        :raises StoreUnavailable: (as the Deferred's failure) nobody answers.
        """

    def go_on(self, after: Any, form: Format) -> Deferred[Piece]:
        """The next piece.

        :param after: as the piece before says.
        :raises StartAgain, StoreUnavailable: (as the Deferred's failure) as :meth:`begin`.
        """

    def since(self, query: Query) -> Deferred[str]:
        """The token where the answer to a question about changes begins.

        :raises TokenError, StartAgain, StoreUnavailable: (as the Deferred's failure) as :meth:`begin`.
        """

    def lately(self, query: Query) -> Deferred[str]:
        """The token of a short while ago (:func:`lcc.roles.cu.selection.lately`), for this question.

        :raises StoreUnavailable: (as the Deferred's failure) nobody answers.
        """

    def items(self, query: ItemQuery, access: Access) -> Deferred[ItemPage]:
        """The first page of an answer about items of feeds.

        :raises TokenError, StartAgain, StoreUnavailable: (as the Deferred's failure) as :meth:`begin`.
        """

    def more_items(self, after: Any) -> Deferred[ItemPage]:
        """The next page.

        :param after: as the page before says.
        """

    def tasks(self, pid: int) -> Deferred[list[Reads]]:
        """The tables of tasks of the LCC where a provider's rows are, then of those where they have been.

        :raises StoreUnavailable: (as the Deferred's failure) nobody can say.
        """

    def robots(self, asked: Sequence[AskedSite], pids: Collection[int] | None) -> Deferred[list[bytes]]:
        """What robots.txt of these sites say: a line of the answer for each (:mod:`lcc.roles.cu.site_robots`).  What
        nobody polls yet of a site that has a provider is ordered.

        :param pids: only sites of these providers; None: of any.
        :raises StoreUnavailable: (as the Deferred's failure) nobody can say.
        """

    def home(self, pid: int) -> Deferred[Reads]:
        """The database where a provider's rows are.

        :raises StoreUnavailable: (as the Deferred's failure) nobody can say.
        """

    def homes(self) -> Deferred[list[Reads]]:
        """All databases with rows.

        :raises StoreUnavailable: (as the Deferred's failure) nobody can say which there are.
        """

    def changed(self, token: str, timeout_seconds: float) -> Deferred[bool]:
        """Fires when something has changed since this token (True), or the time is over.  It may be cancelled."""


class OneLcc:
    """The cache of one LCC.

    :param tasks: the tables of tasks; None: they are in the same database.
    :param order_robots: orders that robots.txt of these sites are polled.
    """

    def __init__(
        self,
        database: Reads,
        watcher: ChangeWatcher,
        tasks: Reads | None = None,
        order_robots: Callable[[Sequence[str]], Deferred[None]] = lambda _: succeed(None),
    ) -> None:
        self.users = database
        self._watcher = watcher
        self._tasks = tasks or database
        self._order_robots = order_robots

    def begin(self, query: Query, form: Format) -> Deferred[Piece]:
        return self.users.interact(begin_piece, query, form)

    def go_on(self, after: Any, form: Format) -> Deferred[Piece]:
        return self.users.interact(next_piece, after, form)

    def since(self, query: Query) -> Deferred[str]:
        return self.users.interact(begin, query).addCallback(lambda place: str(place.token))

    def lately(self, query: Query) -> Deferred[str]:
        return self.users.interact(lately, query).addCallback(str)

    def items(self, query: ItemQuery, access: Access) -> Deferred[ItemPage]:
        return self._tasks.interact(begin_items, query, access)

    def more_items(self, after: Any) -> Deferred[ItemPage]:
        return self._tasks.interact(items_page, after)

    def tasks(self, pid: int) -> Deferred[list[Reads]]:
        return succeed([self._tasks])

    def robots(self, asked: Sequence[AskedSite], pids: Collection[int] | None) -> Deferred[list[bytes]]:
        return Deferred.fromCoroutine(self._robots(asked, pids))

    async def _robots(self, asked: Sequence[AskedSite], pids: Collection[int] | None) -> list[bytes]:
        sites = {each.site for each in asked}
        roots = await self.users.interact(roots_of_sites, sorted(sites), pids)
        visible = sites if pids is None else roots.keys()
        lines, unknown = await self._tasks.interact(robots_lines, asked, visible, roots)
        wanted = sorted(unknown.intersection(roots))
        if wanted:
            await self._order_robots(wanted)
        return lines

    def home(self, pid: int) -> Deferred[Reads]:
        return succeed(self.users)

    def homes(self) -> Deferred[list[Reads]]:
        return succeed([self.users])

    def changed(self, token: str, timeout_seconds: float) -> Deferred[bool]:
        return self._watcher.changed(parse_token(token), timeout_seconds)


async def row_of(cache: Cache, key: bytes) -> CachedUrl | None:
    """One row, a tombstone as well; None: there is none.

    :raises StoreUnavailable: nobody answers.
    """
    row: CachedUrl | None = await at_home(cache, pid_of(key), url, key)
    return row


async def at_home(cache: Cache, pid: int, function: Callable[..., Any], *args: Any) -> Any:
    """What ``function(txn, *args)`` finds in one SELECT among a provider's rows, also if they are just leaving.

    :raises StoreUnavailable: nobody answers.
    """
    home = await cache.home(pid)
    while True:
        found = await home.select(function, *args)
        if found:
            return found
        now = await cache.home(pid)
        if now is home:
            return found
        home = now
