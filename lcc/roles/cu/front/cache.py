"""Answers over several sub-LCCs.

*Owns* nothing.  Where an answer stands is in its place, and in the token: some hundred bytes for each sub-LCC.

*Strategy.*  Rows as they are now come in the order of the keys, as from one LCC: of each sub-LCC a bound is known
below which it has nothing more, and the one with the least is read up to the bounds of the others.  Providers have
their ranges of ids, so this is a page of one sub-LCC after the other.  Changes come sub-LCC by sub-LCC, each in its
order; whether there are any is asked of all at once.  With a limit, the next answer begins with the next sub-LCC.

*Failures.*  A sub-LCC away: a listing fails, since it cannot be complete.  Changes go on without it: the token stands
still there, and the end mark names it.  All of them away: the answer fails.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure

from lcc.errors import StoreUnavailable
from lcc.insight.records import user_record
from lcc.roles.access import Access
from lcc.roles.cu.answers import Piece, Reads
from lcc.roles.cu.formats import Format
from lcc.roles.cu.front.asking import all_of, choose_home, outcomes
from lcc.roles.cu.front.items import FrontItems
from lcc.roles.cu.front.robots import FrontRobots
from lcc.roles.cu.front.subs import Sub, Subs, parse_since
from lcc.roles.cu.front.tokens import FrontToken, check_removed, parse_front_token
from lcc.roles.cu.items import ItemPage, ItemQuery
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import Page, Place, begin, lately, read_page
from lcc.roles.cu.site_robots import AskedSite
from lcc.roles.cu.tokens import BEGINNING, NOW, Token
from lcc.storage.database.timeline import known_upto
from lcc.storage.database.transactions import Txn
from lcc.storage.views.selected import page_by_key


@attrs.frozen
class _Bound:
    """Where a sub-LCC is read next, in the order of the keys.

    :ivar after: rows up to this key were given.
    :ivar least: it has none before this one that was not.
    :ivar exact: it has that one, or had it.
    """

    sub: Sub
    after: bytes = b""
    least: bytes = b""
    exact: bool = False


@attrs.frozen
class _Listing:
    """Where a listing stands.

    :ivar left: rows that may still be given; None: without limit.
    :ivar bounds: of the sub-LCCs that have not been read to their end.
    """

    query: Query
    left: int | None
    bounds: tuple[_Bound, ...]


@attrs.frozen
class _Changes:
    """Where an answer about changes stands.

    :ivar token: covers what was given; its order is that of the reading.
    :ivar pending: where sub-LCCs with changes are read, in that order.
    :ivar missing: sub-LCCs that could not be reached.
    """

    query: Query
    left: int | None
    token: FrontToken
    pending: tuple[tuple[Sub, Place], ...]
    missing: tuple[str, ...]


class FrontCache:
    """See :mod:`lcc.roles.cu.front.cache` (:class:`lcc.roles.cu.cache.Cache`).

    :param front: the front end's database, where content users are.
    """

    def __init__(self, front: Reads, subs: Subs, robots: FrontRobots) -> None:
        self.users = front
        self._subs = subs
        self._items = FrontItems(subs)
        self._robots = robots

    def begin(self, query: Query, form: Format) -> Deferred[Piece]:
        if query.since is None:
            return Deferred.fromCoroutine(self._begin_listing(query, form))
        return Deferred.fromCoroutine(self._begin_changes(query, form))

    def since(self, query: Query) -> Deferred[str]:
        async def begin() -> str:
            return str((await self._changes(query, query.since or BEGINNING[0])).token)

        return Deferred.fromCoroutine(begin())

    def go_on(self, after: Any, form: Format) -> Deferred[Piece]:
        read = self._list(after, form) if isinstance(after, _Listing) else self._change(after, form)
        return Deferred.fromCoroutine(read)

    def lately(self, query: Query) -> Deferred[str]:
        async def ask() -> str:
            subs = await self._subs.some()
            tokens: Sequence[Token] = await all_of([self._subs.ask(sub, lately, query) for sub in subs])
            positions = {sub.subid: token for sub, token in zip(subs, tokens, strict=True)}
            return str(FrontToken(query.selection.digest, positions))

        return Deferred.fromCoroutine(ask())

    def items(self, query: ItemQuery, access: Access) -> Deferred[ItemPage]:
        return Deferred.fromCoroutine(self._items.begin(query, access))

    def more_items(self, after: Any) -> Deferred[ItemPage]:
        return Deferred.fromCoroutine(self._items.go_on(after))

    def tasks(self, pid: int) -> Deferred[Reads | None]:
        async def find() -> Reads | None:
            sub = await self._subs.home(pid)
            return None if sub is None else self._subs.tasks(sub)

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

    # In the order of the keys.

    async def _begin_listing(self, query: Query, form: Format) -> Piece:
        bounds = tuple(_Bound(sub) for sub in await self._subs.some())
        return await self._list(_Listing(query, query.limit, bounds), form)

    async def _list(self, place: _Listing, form: Format) -> Piece:
        bounds = await self._bounds(place)
        if not bounds:
            return Piece(form.end(None), [], None, None)
        first, *others = sorted(bounds, key=lambda bound: bound.least)
        before = others[0].least if others else None
        page, data = await self._subs.ask(first.sub, _keyed_piece, place.query, first.after, place.left, before, form)
        rest = tuple(bound for bound in bounds if bound is not first)
        if page.after is not None:
            rest += (attrs.evolve(first, after=page.rows_upto, least=page.after, exact=page.exact),)
        left = None if place.left is None else place.left - len(page.rows)
        if not rest or left == 0:
            return Piece(data + form.end(None), page.rows, None, None)
        return Piece(data, page.rows, None, attrs.evolve(place, left=left, bounds=rest))

    async def _bounds(self, place: _Listing) -> list[_Bound]:
        """All bounds, exact ones where they decide who is next, and for how long."""
        bounds = list(place.bounds)
        while True:
            bounds.sort(key=lambda bound: (bound.least, bound.exact))
            # The first one need not be exact: what it gives is compared with the others.
            unsure = [bound for bound in bounds[1:] if not bound.exact and bound.least <= bounds[0].least]
            if not unsure and len(bounds) > 1 and not bounds[1].exact:
                unsure = [bounds[1]]
            if not unsure:
                return bounds
            asking = [self._subs.ask(bound.sub, _peek, place.query, bound) for bound in unsure]
            found: Sequence[_Bound | None] = await all_of(asking)
            bounds = [bound for bound in bounds if bound not in unsure]
            bounds += [bound for bound in found if bound is not None]

    # In the order of the changes.

    async def _begin_changes(self, query: Query, form: Format) -> Piece:
        assert query.since is not None  # it is about changes
        return await self._change(await self._changes(query, query.since), form)

    async def _changes(self, query: Query, since: str) -> _Changes:
        subs = await self._subs.some()
        digest = query.selection.digest
        token, single = parse_since(since, digest)
        known = {sub.subid: sub for sub in subs}
        if not token.positions.keys() <= known.keys():
            token = check_removed(token, set(known), await self._subs.removed())
        order = [*token.positions, *(subid for subid in known if subid not in token.positions)]
        asking = []
        for subid in order:
            position = token.positions.get(subid)
            asked = since if since == NOW else BEGINNING[0] if position is None else str(position)
            asking.append(self._subs.ask(known[subid], _begin, attrs.evolve(query, since=asked), single))
        found = await outcomes(asking)
        missing = tuple(known[subid].known.name for subid, each in zip(order, found, strict=True) if each is None)
        places = {subid: each for subid, each in zip(order, found, strict=True) if each is not None}
        if not places or (missing and since == NOW):
            raise StoreUnavailable(f"sub-LCC {', '.join(missing)} cannot be reached")
        if single is not None:
            choose_home([subid for subid, each in places.items() if each.own], missing)
        positions = {
            subid: _token(places[subid].place) if subid in places else token.positions[subid]
            for subid in order
            if subid in places or subid in token.positions
        }
        pending = tuple(
            (known[subid], each.place)
            for subid, each in places.items()
            if _token(each.place).number < each.place.upto
        )
        return _Changes(query, query.limit, FrontToken(digest, positions), pending, missing)

    async def _change(self, place: _Changes, form: Format) -> Piece:
        if not place.pending or place.left == 0:
            return Piece(form.end(str(place.token), place.missing), [], str(place.token), None, place.missing)
        (sub, there), *rest = place.pending
        try:
            page, data = await self._subs.ask(sub, _changed_piece, attrs.evolve(there, left=place.left), form)
        except StoreUnavailable:
            missing = (*place.missing, sub.known.name)
            return await self._change(attrs.evolve(place, pending=tuple(rest), missing=missing), form)
        left = None if place.left is None else place.left - len(page.rows)
        positions = dict(place.token.positions)
        assert page.token is not None  # it is about changes
        positions[sub.subid] = page.token
        if left == 0:  # the next answer begins with another one
            positions[sub.subid] = positions.pop(sub.subid)
        pending = tuple(rest) if page.after is None else ((sub, page.after), *rest)
        after = attrs.evolve(place, left=left, token=attrs.evolve(place.token, positions=positions), pending=pending)
        token = str(after.token)
        if not pending or left == 0:
            return Piece(data + form.end(token, place.missing), page.rows, token, None, place.missing)
        return Piece(data, page.rows, token, after, place.missing)


# In the sub-LCCs' threads.


@attrs.frozen
class _Begun:
    """
    :ivar own: it knows the single LCC's token that the question has.
    """

    place: Place
    own: bool = False


def _begin(txn: Txn, query: Query, single: Token | None) -> _Begun:
    if single is not None and known_upto(txn, single.timeline) is not None:
        return _Begun(begin(txn, attrs.evolve(query, since=str(single))), True)
    return _Begun(begin(txn, query))


def _token(place: Place) -> Token:
    assert place.token is not None  # it is about changes
    return place.token


def _changed_piece(txn: Txn, place: Place, form: Format) -> tuple[Page, bytes]:
    page = read_page(txn, place)
    return page, form.rows(map(user_record, page.rows)) if page.rows else b""


@attrs.frozen
class _KeyedPage:
    """
    :ivar rows_upto: where to go on reading.
    :ivar after: there is nothing else before this key; None: there is nothing else.
    :ivar exact: there was a row with it.
    """

    rows: list[Any]
    rows_upto: bytes
    after: bytes | None
    exact: bool


def _keyed_piece(
    txn: Txn, query: Query, after: bytes, left: int | None, before: bytes | None, form: Format
) -> tuple[_KeyedPage, bytes]:
    """Rows that follow a key, and come before another one."""
    page = page_by_key(txn, query.selection, after, left)
    rows = page.rows if before is None else [row for row in page.rows if row.key < before]
    if len(rows) < len(page.rows):
        cut = page.rows[len(rows)].key
        found = _KeyedPage(rows, rows[-1].key if rows else after, cut, True)
    else:
        found = _KeyedPage(rows, page.after or b"", page.after, False)
    return found, form.rows(map(user_record, rows)) if rows else b""


def _peek(txn: Txn, query: Query, bound: _Bound) -> _Bound | None:
    """The bound, nearer to the truth; None: there is nothing else."""
    page = page_by_key(txn, query.selection, max(bound.least, bound.after), 1)
    if page.rows:
        return attrs.evolve(bound, least=page.rows[0].key, exact=True)
    return None if page.after is None else attrs.evolve(bound, after=page.after, least=page.after)
