"""The cache of a front end: the answers of several sub-LCCs as one.

*Owns* nothing.  Where an answer stands is in its place, and in the token: some hundred bytes for each sub-LCC.

Rows as they are now: :mod:`lcc.roles.cu.front.listing`; changes: :mod:`lcc.roles.cu.front.changes`; items of feeds:
:mod:`lcc.roles.cu.front.items`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure

from lcc.roles.access import Access
from lcc.roles.cu.answers import Piece, Reads
from lcc.roles.cu.formats import Format
from lcc.roles.cu.front.asking import all_of
from lcc.roles.cu.front.changes import FrontChanges
from lcc.roles.cu.front.items import FrontItems
from lcc.roles.cu.front.listing import FrontListing, ListingPlace
from lcc.roles.cu.front.robots import FrontRobots
from lcc.roles.cu.front.subs import Subs
from lcc.roles.cu.front.tokens import FrontToken, parse_front_token, position_at
from lcc.roles.cu.items import ItemPage, ItemQuery
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import lately
from lcc.roles.cu.site_robots import AskedSite
from lcc.roles.cu.tokens import Token


class FrontCache:
    """See :mod:`lcc.roles.cu.front.cache` (:class:`lcc.roles.cu.cache.Cache`).

    :param front: the front end's database, where content users are.
    """

    def __init__(self, front: Reads, subs: Subs, robots: FrontRobots) -> None:
        self.users = front
        self._subs = subs
        self._items = FrontItems(subs)
        self._robots = robots
        self._listing = FrontListing(subs)
        self._changes = FrontChanges(subs)

    def begin(self, query: Query, form: Format) -> Deferred[Piece]:
        async def begin() -> Piece:
            if query.since is None:
                return await self._listing.go_on(await self._listing.begin(query), form)
            return await self._changes.go_on(await self._changes.begin(query), form)

        return Deferred.fromCoroutine(begin())

    def since(self, query: Query) -> Deferred[str]:
        async def begin() -> str:
            return str((await self._changes.begin(query)).token)

        return Deferred.fromCoroutine(begin())

    def go_on(self, after: Any, form: Format) -> Deferred[Piece]:
        reader = self._listing if isinstance(after, ListingPlace) else self._changes
        return Deferred.fromCoroutine(reader.go_on(after, form))

    def lately(self, query: Query) -> Deferred[str]:
        async def ask() -> str:
            known_map = await self._subs.map()
            subs = await self._subs.some()
            tokens: Sequence[Token] = await all_of([self._subs.ask(sub, lately, query) for sub in subs])
            positions = {
                sub.subid: position_at(token, known_map.settled(sub.subid))
                for sub, token in zip(subs, tokens, strict=True)
            }
            return str(FrontToken(query.selection.digest, positions))

        return Deferred.fromCoroutine(ask())

    def items(self, query: ItemQuery, access: Access) -> Deferred[ItemPage]:
        return Deferred.fromCoroutine(self._items.begin(query, access))

    def more_items(self, after: Any) -> Deferred[ItemPage]:
        return Deferred.fromCoroutine(self._items.go_on(after))

    def tasks(self, pid: int) -> Deferred[list[Reads]]:
        async def find() -> list[Reads]:
            home = await self._subs.home(pid)
            former = [move.source for move in reversed((await self._subs.map()).moves_of(pid))]
            subs = [home, *map(self._subs.by_number, former)]
            tasks = [self._subs.tasks(sub) for sub in dict.fromkeys(subs) if sub is not None]
            return [each for each in tasks if each is not None]

        return Deferred.fromCoroutine(find())

    def robots(self, asked: Sequence[AskedSite], pids: Collection[int] | None) -> Deferred[list[bytes]]:
        return Deferred.fromCoroutine(self._robots.lines(asked, pids))

    def home(self, pid: int) -> Deferred[Reads]:
        async def find() -> Reads:
            sub = await self._subs.home(pid)
            # Nobody's rows are in the first as well as in any other.
            return (await self._subs.some())[0].reads if sub is None else sub.reads

        return Deferred.fromCoroutine(find())

    def homes(self) -> Deferred[list[Reads]]:
        async def find() -> list[Reads]:
            return [sub.reads for sub in await self._subs.some()]

        return Deferred.fromCoroutine(find())

    def changed(self, token: str, timeout_seconds: float) -> Deferred[bool]:
        positions = parse_front_token(token).positions
        waiting: list[Deferred[bool]] = []

        def cancel(_: Deferred[bool]) -> None:
            for each in waiting:
                each.cancel()

        result: Deferred[bool] = Deferred(cancel)
        left = [0]

        def heard(changed: bool | Failure) -> None:
            left[0] -= 1
            if isinstance(changed, Failure):
                changed.trap(CancelledError)
                return
            if not result.called and (changed or not left[0]):
                result.callback(changed)
                cancel(result)

        for sub in self._subs.all:
            if sub.subid in positions:
                waiting.append(sub.watcher.changed(positions[sub.subid], timeout_seconds))
        left[0] = len(waiting)
        for each in list(waiting):
            each.addBoth(heard)
        return result if waiting else succeed(False)
