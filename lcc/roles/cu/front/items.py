"""Items of the feeds of several sub-LCCs: one sub-LCC after the other, each in the order of its changes.

The token has the same form as that of changes (:mod:`lcc.roles.cu.front.tokens`).  A sub-LCC away: the others' items
come, the token stands still there, and the end mark names it.
"""

from __future__ import annotations

import attrs

from lcc.errors import StoreUnavailable
from lcc.roles.access import Access
from lcc.roles.cu.front.asking import choose_home, outcomes
from lcc.roles.cu.front.subs import Sub, Subs, parse_since
from lcc.roles.cu.front.tokens import FrontToken, position_at
from lcc.roles.cu.items import ItemPage, ItemPlace, ItemQuery, items_end, items_place, items_rows
from lcc.roles.cu.tokens import BEGINNING, StartAgain, Token
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.item_views import items_epoch


@attrs.frozen
class _Place:
    """Where an answer stands.

    :ivar left: items that may still come; 0: any number.
    :ivar token: covers what was given; its order is that of the reading.
    :ivar pending: where sub-LCCs are read, in that order.
    :ivar missing: sub-LCCs that could not be reached.
    """

    left: int
    token: FrontToken
    pending: tuple[tuple[Sub, ItemPlace], ...]
    missing: tuple[str, ...]


class FrontItems:
    """See :mod:`lcc.roles.cu.front.items`."""

    def __init__(self, subs: Subs) -> None:
        self._subs = subs

    async def begin(self, query: ItemQuery, access: Access) -> ItemPage:
        """The first page.

        :raises TokenError, StartAgain: the token is no good.
        :raises StoreUnavailable: no sub-LCC can be reached.
        """
        known = {sub.subid: sub for sub in await self._subs.some()}
        token, single = parse_since(query.since, query.digest)
        if not token.positions.keys() <= known.keys():
            raise StartAgain("this token is of a sub-LCC that was removed, or of another front end")
        others = (subid for subid, sub in known.items() if subid not in token.positions and self._subs.tasks(sub))
        order = [*token.positions, *others]
        asking = []
        for subid in order:
            since = str(token.positions[subid]) if subid in token.positions else BEGINNING[0]
            asking.append(
                self._subs.ask_tasks(known[subid], _begin, attrs.evolve(query, since=since), access, single)
            )
        found = dict(zip(order, await outcomes(asking), strict=True))
        missing = tuple(known[subid].known.name for subid, each in found.items() if each is None)
        places: dict[int, ItemPlace] = {subid: each[0] for subid, each in found.items() if each is not None}
        if missing and not places:
            raise StoreUnavailable(f"sub-LCC {', '.join(missing)} cannot be reached")
        if single is not None:
            choose_home([subid for subid, each in found.items() if each is not None and each[1]], missing)
        positions = {**token.positions, **{subid: position_at(place.token) for subid, place in places.items()}}
        pending = tuple((known[subid], place) for subid, place in places.items())
        return await self.go_on(
            _Place(query.limit, FrontToken(query.digest, positions, knows_moves=False), pending, missing)
        )

    async def go_on(self, place: _Place) -> ItemPage:
        """The next page.

        :param place: as the page before says.
        """
        if not place.pending:
            return ItemPage(items_end(str(place.token), place.missing), None)
        (sub, there), *rest = place.pending
        name = sub.known.name
        try:
            rows = await self._subs.ask_tasks(sub, items_rows, attrs.evolve(there, left=place.left), name)
        except StoreUnavailable:
            return await self.go_on(attrs.evolve(place, pending=tuple(rest), missing=(*place.missing, name)))
        positions = {**place.token.positions, sub.subid: position_at(rows.token)}
        left, ended = place.left - rows.count if place.left else 0, False
        if place.left and not left:  # the next answer begins with another one
            positions[sub.subid] = positions.pop(sub.subid)
            ended = True
        token = attrs.evolve(place.token, positions=positions)
        pending = tuple(rest) if rows.after is None else ((sub, rows.after), *rest)
        if ended or not pending:
            return ItemPage(rows.data + items_end(str(token), place.missing), None)
        return ItemPage(rows.data, _Place(left, token, pending, place.missing))


def _begin(txn: Txn, query: ItemQuery, access: Access, single: Token | None) -> tuple[ItemPlace, bool]:
    """Where the items begin, and whether this one knows the single LCC's token that the question has."""
    own = single is not None and items_epoch(txn) == single.timeline
    return items_place(txn, attrs.evolve(query, since=str(single)) if own else query, access), own
