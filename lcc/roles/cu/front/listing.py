"""Rows of several sub-LCCs as they are now, in the order of their keys, as from one LCC.

*Strategy.*  Of each sub-LCC a bound is known below which it has nothing more, and the one with the least is read up
to the bounds of the others.  Providers have their ranges of ids, so this is a page of one sub-LCC after the other.  A
provider's rows are taken from where the map has it.  When it moves meanwhile, its new sub-LCC is looked at again from
where the listing stands.  Each page is read together with the flips that are noted where it is; one that the map does
not have makes the map be read again, and then the page.

*Failures.*  A sub-LCC away: the listing fails, since it cannot be complete.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lcc.insight.records import user_record
from lcc.model import CachedUrl
from lcc.roles.cu.answers import Piece
from lcc.roles.cu.formats import Format
from lcc.roles.cu.front.asking import all_of
from lcc.roles.cu.front.map import ProviderMap
from lcc.roles.cu.front.subs import Sub, Subs, does_not_match
from lcc.roles.cu.query import Query
from lcc.storage.database.transactions import Txn
from lcc.storage.views.moved import MapView, knows_flips, told_here
from lcc.storage.views.selected import page_by_key


@attrs.frozen
class _Bound:
    """Where a sub-LCC is read next.

    :ivar after: rows up to this key were given.
    :ivar least: it has none before this one that was not.
    :ivar exact: it has that one, or had it.
    """

    sub: Sub
    after: bytes = b""
    least: bytes = b""
    exact: bool = False


@attrs.frozen
class ListingPlace:
    """Where a listing stands.

    :ivar left: rows that may still be given; None: without limit.
    :ivar bounds: of the sub-LCCs that have not been read to their end.
    :ivar map: with which they were read.
    """

    query: Query
    left: int | None
    bounds: tuple[_Bound, ...]
    map: ProviderMap


class _MapTooOld(Exception):
    """A sub-LCC does not go with the map."""

    def __init__(self, sub: Sub) -> None:
        super().__init__()
        self.sub = sub


class FrontListing:
    """See :mod:`lcc.roles.cu.front.listing`."""

    def __init__(self, subs: Subs) -> None:
        self._subs = subs

    async def begin(self, query: Query) -> ListingPlace:
        """Where a listing begins.

        :raises StoreUnavailable: nobody answers.
        """
        known_map = await self._subs.map()
        bounds = tuple(_Bound(sub) for sub in await self._subs.some())
        return ListingPlace(query, query.limit, bounds, known_map)

    async def go_on(self, place: ListingPlace, form: Format) -> Piece:
        """The next piece.

        :raises StoreUnavailable: a sub-LCC cannot be reached.
        """
        while True:
            place = self._mapped(place, await self._subs.map())
            try:
                return await self._read(place, form)
            except _MapTooOld as error:
                if await self._subs.map(newest=True) is place.map:
                    raise does_not_match(error.sub) from None

    def _mapped(self, place: ListingPlace, newest: ProviderMap) -> ListingPlace:
        """The place, with a newer map: what has come to a sub-LCC since is not passed over there."""
        if newest is place.map or not place.bounds:
            return attrs.evolve(place, map=newest)
        bounds = {bound.sub.subid: bound for bound in place.bounds}
        passed = min(max(bound.after, _key_before(bound.least)) for bound in place.bounds)
        for subid in newest.gained(place.map):
            sub = self._subs.by_number(subid)
            if sub is not None:
                bounds[subid] = _Bound(sub, passed, passed)
        return attrs.evolve(place, bounds=tuple(bounds.values()), map=newest)

    async def _read(self, place: ListingPlace, form: Format) -> Piece:
        bounds = await self._exact(place)
        if not bounds:
            return Piece(form.end(None), [], None, None)
        first, *others = sorted(bounds, key=lambda bound: bound.least)
        before = others[0].least if others else None
        view = place.map.view(first.sub.subid)
        page: _KeyedPage | None = await self._subs.ask(
            first.sub, _keyed_piece, view, place.query, first.after, place.left, before, form
        )
        if page is None:
            raise _MapTooOld(first.sub)
        rest = tuple(bound for bound in bounds if bound is not first)
        if page.after is not None:
            rest += (attrs.evolve(first, after=page.rows_upto, least=page.after, exact=page.exact),)
        left = None if place.left is None else place.left - len(page.rows)
        if not rest or left == 0:
            return Piece(page.data + form.end(None), page.rows, None, None)
        return Piece(page.data, page.rows, None, attrs.evolve(place, left=left, bounds=rest))

    async def _exact(self, place: ListingPlace) -> list[_Bound]:
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
            asking = [
                self._subs.ask(bound.sub, _peek, place.map.view(bound.sub.subid), place.query, bound)
                for bound in unsure
            ]
            found: Sequence[_Peeked | None] = await all_of(asking)
            bounds = [bound for bound in bounds if bound not in unsure]
            for bound, peeked in zip(unsure, found, strict=True):
                if peeked is None:
                    raise _MapTooOld(bound.sub)
                if peeked.bound is not None:
                    bounds.append(peeked.bound)


def _key_before(key: bytes) -> bytes:
    return (int.from_bytes(key, "big") - 1).to_bytes(len(key), "big") if key.strip(b"\0") else b""


# In the sub-LCCs' threads.


@attrs.frozen
class _Peeked:
    """
    :ivar bound: nearer to the truth; None: there is nothing else.
    """

    bound: _Bound | None


@attrs.frozen
class _KeyedPage:
    """
    :ivar rows_upto: where to go on reading.
    :ivar after: there is nothing else before this key; None: there is nothing else.
    :ivar exact: there was a row with it.
    """

    rows: list[CachedUrl]
    data: bytes
    rows_upto: bytes
    after: bytes | None
    exact: bool


def _keyed_piece(
    txn: Txn, view: MapView, query: Query, after: bytes, left: int | None, before: bytes | None, form: Format
) -> _KeyedPage | None:
    """Rows that follow a key, and come before another one; None: the map is too old."""
    if not knows_flips(txn, view):
        return None
    page = page_by_key(txn, query.selection, after, left)
    rows = told_here(txn, view, page.rows)
    if rows is None:
        return None
    some = rows if before is None else [row for row in rows if row.key < before]
    data = form.rows(map(user_record, some)) if some else b""
    if len(some) < len(rows):
        return _KeyedPage(some, data, some[-1].key if some else after, rows[len(some)].key, True)
    return _KeyedPage(some, data, page.after or b"", page.after, False)


def _peek(txn: Txn, view: MapView, query: Query, bound: _Bound) -> _Peeked | None:
    if not knows_flips(txn, view):
        return None
    page = page_by_key(txn, query.selection, max(bound.least, bound.after), 1)
    if page.rows:
        return _Peeked(attrs.evolve(bound, least=page.rows[0].key, exact=True))
    return _Peeked(None if page.after is None else attrs.evolve(bound, after=page.after, least=page.after))
