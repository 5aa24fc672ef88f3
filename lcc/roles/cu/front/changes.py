"""What has changed in several sub-LCCs: one after the other, each in the order of its changes; moves between them.

*Strategy.*  Whether there are changes is asked of all at once.  With a limit, the next answer begins with the next
sub-LCC.  Rows that a sub-LCC has imported are left out, for the user has got them where they last changed.  If it was
not as far as that when it became known that their provider has moved, it gets them first, before anything else is
read: those whose origin is behind its position there.  Each page is read together with the flips that are noted where
it is; one that the map does not have makes the map be read again, and then the page.  So no position passes what has
gone elsewhere.

*Failures.*  A sub-LCC away: changes go on without it.  The token stands still there, keeps what origins are to be
compared with, and the end mark names it.  All of them away: the answer fails.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from lcc.errors import StoreUnavailable
from lcc.insight.records import user_record
from lcc.model import CachedUrl
from lcc.roles.cu.answers import Piece
from lcc.roles.cu.formats import Format
from lcc.roles.cu.front.asking import all_of, choose_home, outcomes
from lcc.roles.cu.front.map import ProviderMap
from lcc.roles.cu.front.subs import Sub, Subs, does_not_match, parse_since
from lcc.roles.cu.front.tokens import ALL_IMPORTS, FrontToken, Position, check_removed, position_at
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import begin, continued
from lcc.roles.cu.tokens import BEGINNING, NOW, StartAgain, Token
from lcc.storage.database.tables.timeline import known_upto
from lcc.storage.database.transactions import Txn
from lcc.storage.views.moved import (
    Forgotten,
    MapView,
    check_imports,
    imported_page,
    knows_flips,
    told_here,
)
from lcc.storage.views.selected import Selection, page_by_change


@attrs.frozen
class ChangesPlace:
    """Where an answer about changes stands.

    :ivar left: rows that may still be given; None: without limit.
    :ivar token: covers what was given; its order is that of the reading.
    :ivar subs: that can be reached, by their numbers.
    :ivar upto: of each of them, up to which change it is read.
    :ivar missing: names of sub-LCCs that cannot be reached.
    :ivar unread: numbers of those among them that have never been read.
    :ivar map: with which the token was looked at last.
    """

    query: Query
    left: int | None
    token: FrontToken
    subs: Mapping[int, Sub]
    upto: Mapping[int, int]
    missing: tuple[str, ...]
    unread: frozenset[int]
    map: ProviderMap

    def wants(self, pid: int) -> bool:
        """Whether this provider is among those that are asked for."""
        providers = self.query.selection.providers
        return providers is None or pid in providers

    def without(self, sub: Sub) -> ChangesPlace:
        """It cannot be reached."""
        subs = {subid: each for subid, each in self.subs.items() if subid != sub.subid}
        return attrs.evolve(self, subs=subs, missing=(*self.missing, sub.known.name))


@attrs.frozen
class _Turn:
    """What is read next.

    :ivar arrival: flip and provider whose imported rows these are; None: the changes of the sub-LCC.
    """

    sub: Sub
    arrival: tuple[int, int] | None


class FrontChanges:
    """See :mod:`lcc.roles.cu.front.changes`."""

    def __init__(self, subs: Subs) -> None:
        self._subs = subs
        self._timelines: dict[int, str] = {}
        """Of each sub-LCC the timeline since whose beginning the map has been read."""

    async def begin(self, query: Query) -> ChangesPlace:
        """Where the answer to a question begins.

        :raises TokenError, StartAgain: its token is no good.
        :raises StoreUnavailable: nobody answers.
        """
        assert query.since is not None  # it is about changes
        since, digest = query.since, query.selection.digest
        token, single = parse_since(since, digest)
        # Before the sub-LCCs are asked: what has arrived by then is in what they say.
        known_map = await self._map_for(token)
        known = {sub.subid: sub for sub in await self._subs.some()}
        if not token.positions.keys() <= known.keys():
            token = check_removed(token, set(known), await self._subs.removed())
        order = [*token.positions, *(subid for subid in known if subid not in token.positions)]
        asking = []
        for subid in order:
            position = token.positions.get(subid)
            asked = since if since == NOW else BEGINNING[0] if position is None else str(position)
            asking.append(self._subs.ask(known[subid], _begin, attrs.evolve(query, since=asked), single))
        answers = await outcomes(asking)
        found: dict[int, _Begun] = {
            subid: each for subid, each in zip(order, answers, strict=True) if each is not None
        }
        missing = tuple(known[subid].known.name for subid in order if subid not in found)
        if not found or (missing and since == NOW):
            raise StoreUnavailable(f"sub-LCC {', '.join(missing)} cannot be reached")
        if single is not None:
            choose_home([subid for subid, each in found.items() if each.own], missing)
        await self._check_joined(token, single, known, found)
        positions: dict[int, Position] = {}
        for subid in order:
            position = _position(token, subid, found.get(subid), since == NOW, known_map.settled(subid))
            if position is not None:
                positions[subid] = position
        subs = {subid: known[subid] for subid in found}
        upto = {subid: each.upto for subid, each in found.items()}
        begun = FrontToken(digest, positions)
        unread = frozenset(order) - positions.keys()
        return _planned(ChangesPlace(query, query.limit, begun, subs, upto, missing, unread, known_map))

    async def _check_joined(
        self, token: FrontToken, single: Token | None, known: Mapping[int, Sub], found: Mapping[int, _Begun]
    ) -> None:
        """Sub-LCCs that the token does not know are read from their beginning; but deletions of what moved there from
        those that it does know are needed.

        :raises StartAgain: they are no longer known.
        """
        seen = {subid: position.seen for subid, position in token.positions.items()}
        if single is not None:
            seen = {subid: single.number for subid, each in found.items() if each.own}
        joined = [subid for subid, each in found.items() if subid not in token.positions and not each.own]
        if seen and joined:
            try:
                await all_of([self._subs.ask(known[subid], check_imports, seen) for subid in joined])
            except Forgotten as error:
                raise StartAgain(str(error)) from None

    async def _map_for(self, token: FrontToken) -> ProviderMap:
        known = await self._subs.map()
        if not _knows(known, token):
            known = await self._subs.map(newest=True)
            if token.flip > known.newest:
                await self._check_own(token)
                raise StartAgain("this token is of another front end, or of a later state of its database")
            if not _knows(known, token):
                raise StoreUnavailable("a provider is about to arrive that has been there before")
        return known

    async def _check_own(self, token: FrontToken) -> None:
        """:raises StoreUnavailable: a token of more moves than the front end's database has is of this front end, all
        the same: that database was lost, or put back from a backup, and will be repaired."""
        subs = {sub.subid: sub for sub in await self._subs.some()}
        if not token.positions.keys() <= subs.keys():
            return
        asking = [self._subs.ask(subs[subid], known_upto, each.timeline) for subid, each in token.positions.items()]
        if None not in await all_of(asking):
            raise StoreUnavailable("the front end's database lacks moves: lcc-admin fe repair has not been run yet")

    async def go_on(self, place: ChangesPlace, form: Format) -> Piece:
        """The next piece of an answer.

        :raises StartAgain: its token is no good any longer.
        """
        while True:
            newest = await self._subs.map()
            if newest is not place.map:
                place = _planned(attrs.evolve(place, map=newest))
            turn = _next_turn(place)
            if turn is None:
                return _piece(place, [], form)
            try:
                told = await self._read(place, turn, form)
            except StoreUnavailable:
                place = place.without(turn.sub)
                continue
            if told is not None:
                return _piece(_told(place, turn, told), told.rows, form, told.data)

    async def _read(self, place: ChangesPlace, turn: _Turn, form: Format) -> _Told | None:
        """:returns: None: the map is a newer one now.
        :raises StoreUnavailable: the sub-LCC cannot be reached, or does not go with the map."""
        sub, positions = turn.sub, place.token.positions
        ask = _Ask(
            place.query.selection,
            positions[sub.subid],
            place.upto[sub.subid],
            place.left,
            turn.arrival,
            {} if turn.arrival is None else _seen(place),
            place.map.view(sub.subid),
        )
        told: _Told | None = await self._subs.ask(sub, _read, ask, form)
        if told is None and await self._subs.map(newest=True) is place.map:
            raise does_not_match(sub)
        if told is not None and told.position.timeline != self._timelines.get(sub.subid):
            # It may have been restored from a backup: then the map must have the flips of before that.
            newest = await self._subs.map(newest=True)
            self._timelines[sub.subid] = told.position.timeline
            return told if newest is place.map else None
        return told


def _knows(known: ProviderMap, token: FrontToken) -> bool:
    """Whether the map has all that this token accounts for."""
    positions = token.positions
    return token.flip <= known.newest and not any(
        each.dest in positions and each.flip <= positions[each.dest].flip for each in known.undecided.values()
    )


def _position(token: FrontToken, subid: int, begun: _Begun | None, now: bool, settled: int) -> Position | None:
    """Where the reading of a sub-LCC begins; None: that is not known yet."""
    old = token.positions.get(subid)
    if begun is None:
        if old is not None and not token.knows_moves:
            return attrs.evolve(old, flip=settled, imports=ALL_IMPORTS, base=0)
        return old
    if now:
        return position_at(begun.token, settled)
    if old is None or begun.own or not token.knows_moves or old.imports == ALL_IMPORTS:
        # All that has arrived is told like its other rows.
        return attrs.evolve(position_at(begun.token, settled, begun.upto), base=0)
    return attrs.evolve(old, timeline=begun.token.timeline)


def _seen(place: ChangesPlace) -> dict[int, int]:
    """What origins are compared with, for each sub-LCC."""
    seen = {subid: position.seen for subid, position in place.token.positions.items()}
    return seen | dict.fromkeys(place.unread, 0)


def _planned(place: ChangesPlace) -> ChangesPlace:
    """The place, with a token that says what of the moves in the map is accounted for."""
    positions: dict[int, Position] = {}
    waiting = bool(place.unread)
    for subid, position in place.token.positions.items():
        arrival = place.map.next_arrival(subid, position.flip, place.wants)
        waiting |= arrival is not None or position.number < position.imports
        settled = place.map.settled(subid)
        flip = max(settled if arrival is None else min(settled, arrival[0] - 1), position.flip)
        after = position.after
        if after is not None and (after[0] <= flip or (arrival is not None and after[0] != arrival[0])):
            after = None
        positions[subid] = attrs.evolve(position, flip=flip, after=after)
    for subid, position in positions.items():
        # What origins are compared with stands still until all that was elsewhere before is told.
        positions[subid] = attrs.evolve(position, base=position.seen if waiting else None)
    return attrs.evolve(place, token=attrs.evolve(place.token, positions=positions))


def _next_turn(place: ChangesPlace) -> _Turn | None:
    if place.left == 0:
        return None
    here = [(subid, each) for subid, each in place.token.positions.items() if subid in place.subs]
    for subid, position in here:
        arrival = place.map.next_arrival(subid, position.flip, place.wants)
        if arrival is not None and arrival[0] <= place.map.settled(subid):
            return _Turn(place.subs[subid], arrival)
    for subid, position in here:
        if position.number < place.upto[subid]:
            return _Turn(place.subs[subid], None)
    return None


def _told(place: ChangesPlace, turn: _Turn, told: _Told) -> ChangesPlace:
    """Where the answer stands after a page."""
    positions = dict(place.token.positions)
    positions[turn.sub.subid] = told.position
    left = None if place.left is None else place.left - len(told.rows)
    if left == 0 and turn.arrival is None:  # the next answer begins with another one
        positions[turn.sub.subid] = positions.pop(turn.sub.subid)
    place = attrs.evolve(place, left=left, token=attrs.evolve(place.token, positions=positions))
    # With the last page of a first reading, or of what has arrived, nothing may be open any longer.
    at_end = told.position.base is not None and told.position.number >= told.position.imports
    return _planned(place) if at_end or turn.arrival is not None else place


def _piece(place: ChangesPlace, rows: list[CachedUrl], form: Format, data: bytes = b"") -> Piece:
    token = str(place.token)
    if _next_turn(place) is None:
        return Piece(data + form.end(token, place.missing), rows, token, None, place.missing)
    return Piece(data, rows, token, place, place.missing)


# In the sub-LCCs' threads.


@attrs.frozen
class _Begun:
    """
    :ivar upto: the number of its last change.
    :ivar own: it knows the single LCC's token that the question has.
    """

    token: Token
    upto: int
    own: bool = False


def _begin(txn: Txn, query: Query, single: Token | None) -> _Begun:
    own = single is not None and known_upto(txn, single.timeline) is not None
    place = begin(txn, attrs.evolve(query, since=str(single)) if own else query)
    assert place.token is not None  # it is about changes
    return _Begun(place.token, place.upto, own)


@attrs.frozen
class _Ask:
    """What is asked of a sub-LCC.

    :ivar upto: the number of the last change that is looked at.
    :ivar arrival: flip and provider whose imported rows are asked for; None: changes are.
    :ivar seen: with it, what origins are compared with, for each sub-LCC.
    """

    selection: Selection
    position: Position
    upto: int
    left: int | None
    arrival: tuple[int, int] | None
    seen: Mapping[int, int]
    view: MapView


@attrs.frozen
class _Told:
    rows: list[CachedUrl]
    data: bytes
    position: Position


def _read(txn: Txn, ask: _Ask, form: Format) -> _Told | None:
    """The next page; None: the map is not as new as that."""
    if not knows_flips(txn, ask.view):
        return None
    # A backup may have been put back meanwhile.
    timeline = continued(txn, ask.position, ask.position.selection).timeline
    position = attrs.evolve(ask.position, timeline=timeline)
    number = position.number
    if ask.arrival is None:
        page = page_by_change(txn, ask.selection, number, max(number, ask.upto), ask.left, position.imports)
        found, position = page.rows, attrs.evolve(position, number=page.after)
    else:
        flip, pid = ask.arrival
        after = b"" if position.after is None else position.after[1]
        between = number, position.imports
        try:
            some = imported_page(txn, ask.selection, pid, after, ask.seen, between, ask.left)
        except Forgotten as error:
            raise StartAgain(str(error)) from None
        found = some.rows
        if some.after is None:
            position = attrs.evolve(position, flip=flip, after=None)
        else:
            position = attrs.evolve(position, after=(flip, some.after))
    rows = told_here(txn, ask.view, found)
    if rows is None:
        return None
    return _Told(rows, form.rows(map(user_record, rows)) if rows else b"", position)
