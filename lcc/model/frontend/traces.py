"""What the sub-LCCs' own databases say of moves: what a front end's database is repaired from (doc/front-end.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs

from lcc.model.frontend.moves import Fence, FenceOrder, Move
from lcc.model.frontend.places import Placement


class FencedAt(NamedTuple):
    """A row of ``fenced``: what a sub-LCC obeys for a provider."""

    epoch: int
    state: Fence


@attrs.frozen
class FlipTrace:
    """A row of ``flips``, as a move.

    :ivar arrived: it is the destination's.
    :ivar flip: version of the map.
    :ivar source, dest: numbers of sub-LCCs.
    :ivar epoch: of the provider, since the flip.
    :ivar time: when it was noted.
    """

    arrived: bool
    flip: int
    pid: int
    source: int
    dest: int
    epoch: int
    time: int


@attrs.frozen
class CarrierTrace:
    """A provider of a sub-LCC that carries the content of a move to there.

    :ivar pid: its own id.
    :ivar moved: the provider that moves.
    :ivar move: number of the move.
    :ivar made_time: when the move was ordered.
    :ivar source: name of the other sub-LCC.
    :ivar content: URL of the content port there.
    :ivar bandwidth: bytes a second; None: without limit.
    """

    pid: int
    moved: int
    move: int
    made_time: int
    source: str
    content: str
    bandwidth: int | None


@attrs.frozen
class Traces:
    """What the database of one sub-LCC says.

    :ivar here: its providers that are fenced or have ids of others' ranges; and whatever else was asked about.
    :ivar files: how many files each of these has.
    :ivar newest_move: no greater number of a move is known there.
    :ivar newest_subid: no greater number of a sub-LCC is.
    """

    fences: Mapping[int, FencedAt]
    flips: Sequence[FlipTrace]
    carriers: Sequence[CarrierTrace]
    here: frozenset[int]
    files: Mapping[int, int]
    newest_move: int
    newest_subid: int


@attrs.frozen
class FrontState:
    """What the front end's database says.

    :ivar counters: the last numbers given to sub-LCCs (``subid``), moves (``move``) and flips (``flip``).
    """

    places: Mapping[int, Placement]
    moves: Sequence[Move]
    fences: Mapping[tuple[int, int], FenceOrder]
    counters: Mapping[str, int]


@attrs.frozen
class Mend:
    """What is put right of one provider.

    :ivar text: what was found, and where the provider is.
    :ivar place: its row in ``pmdb``; None: that is right.
    :ivar moves: rows of ``moves``; one whose number is 0 gets the next free one.
    :ivar fences: rows of ``fences``.
    """

    pid: int
    text: str
    place: Placement | None = None
    moves: tuple[Move, ...] = ()
    fences: tuple[FenceOrder, ...] = ()


@attrs.frozen
class Trouble:
    """What cannot be put right without an operator.

    :ivar advice: what can be done.
    """

    pid: int
    text: str
    advice: str


@attrs.frozen
class RepairPlan:
    """
    :ivar counters: what they are raised to.
    """

    mends: Sequence[Mend] = ()
    troubles: Sequence[Trouble] = ()
    counters: Mapping[str, int] = attrs.Factory(dict)
