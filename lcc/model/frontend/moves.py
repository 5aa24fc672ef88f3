"""Moves of providers between sub-LCCs (doc/moves.md)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from lcc.model.sets import KeyedNotice, SetHeader


class Fence(Enum):
    """What a sub-LCC obeys for a provider."""

    OPEN = "open"
    """There is none."""
    FOLLOWED = "followed"
    """It is being copied, and goes on as ever; which rows change is noted (``touched``)."""
    FROZEN = "frozen"
    """It is about to leave: no orders, no logins, no new sets; sets of spools are held; changes are noted."""
    ARRIVING = "arriving"
    """It is here, but not yet all of its rows: no orders; it may log in; sets are held.  The destination's own."""
    LEFT = "left"
    """It is elsewhere: sets of spools are held for its new home."""

    @property
    def holds(self) -> bool:
        """Nothing is fetched, sets are held."""
        return self in (Fence.FROZEN, Fence.ARRIVING, Fence.LEFT)


class MoveState(Enum):
    """How far a move is."""

    PLANNED = "planned"
    COPYING = "copying"
    FREEZING = "freezing"
    FLIPPED = "flipped"
    """PMDB says that the provider is at its destination; its rows are made there."""
    ACTIVE = "active"
    """It is at its destination, as a whole; its source removes its rows."""
    DONE = "done"
    CANCELLED = "cancelled"


UNDECIDED = (MoveState.PLANNED, MoveState.COPYING, MoveState.FREEZING)
"""A move that may still be cancelled."""
UNFINISHED = (*UNDECIDED, MoveState.FLIPPED, MoveState.ACTIVE)


@attrs.frozen
class Move:
    """A row of ``moves``.

    :ivar source, dest: numbers of sub-LCCs.
    :ivar flip: version of the map that its flip has made; 0: it has not flipped.
    :ivar epoch: of the provider, at the last step.
    :ivar progress: what its destination notes: ``carrier`` (provider id), ``content`` (URL), ``bandwidth``, ``rows``,
        ``counted`` (1: as many rows as the source has), ``passes``, ``changed`` (rows, in the last pass),
        ``content_left``, ``freezes``, ``frozen_time``, ``cleaned``, ``behind`` (1: the front end's database is of
        before a later step, and is to be repaired), ``since`` (:attr:`Flip.since`).
    :ivar why: it does not go on, or was cancelled.
    """

    id: int
    pid: int
    source: int
    dest: int
    flip: int
    state: MoveState
    epoch: int
    made_time: int
    changed_time: int
    progress: Mapping[str, Any]
    why: str

    def number(self, name: str) -> int:
        """What was noted as this; 0: nothing was."""
        value = self.progress.get(name)
        return value if isinstance(value, int) else 0


@attrs.frozen
class Flip:
    """A move that has flipped, as readers of the caches need it.

    :ivar flip: its number, a version of the map.
    :ivar source, dest: numbers of sub-LCCs.
    :ivar active: the destination has all rows; the source, which changes none any longer, may remove its own.
    :ivar since: until then: a timeline of the source and the number of a change in it; the source had all that was
        copied when it was there.  None: that is not known.
    """

    flip: int
    pid: int
    source: int
    dest: int
    active: bool
    since: tuple[str, int] | None = None


@attrs.frozen
class FenceOrder:
    """A row of ``fences``.

    :ivar obeyed_epoch: of the last fence that the sub-LCC has obeyed.
    """

    pid: int
    subid: int
    epoch: int
    state: Fence
    obeyed_epoch: int


@attrs.frozen
class HeldPiece:
    """A piece of a set of a fenced provider.

    :ivar whole: number of the set among those that are held.
    :ivar lost: a part of the set was applied where the provider has been: it is asked for a full set.
    """

    id: int
    whole: int
    header: SetHeader
    first_index: int
    notices: tuple[KeyedNotice, ...]
    lost: bool = False
