"""How far subscribers and the hub are, as it is stored: a timeline and a number, or positions in several sub-LCCs."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from lcc.roles.cu.front.tokens import is_front_token, parse_front_token
from lcc.roles.cu.tokens import Token, parse_token
from lcc.storage.views.selected import EVERYTHING


class Position(NamedTuple):
    """
    :ivar timeline: of the changes; behind a front end its token, for no selection.
    :ivar number: of the last change; behind a front end the sum of those of all sub-LCCs: the greater one
        of two positions is not covered by the other.
    """

    timeline: str
    number: int


def position_of(token: str) -> Position:
    """What is stored of a token.

    :raises TokenError: it is none.
    """
    if not is_front_token(token):
        single = parse_token(token)
        return Position(single.timeline, single.number)
    front = attrs.evolve(parse_front_token(token), selection=EVERYTHING)
    return Position(str(front), sum(each.number for each in front.positions.values()))


def token_at(position: Position, selection: str) -> str:
    """The token of a position.

    :param selection: the digest of what is asked for.
    """
    if is_front_token(position.timeline):
        return str(attrs.evolve(parse_front_token(position.timeline), selection=selection))
    return str(Token(position.timeline, position.number, 0, selection))


def covers(position: Position, other: Position) -> bool:
    """Whether who has got all changes up to the one has got all up to the other, moves included."""
    if not is_front_token(position.timeline) or not is_front_token(other.timeline):
        return position.number >= other.number
    mine = parse_front_token(position.timeline).positions
    theirs = parse_front_token(other.timeline).positions
    return all(
        subid in mine and mine[subid].number >= each.number and mine[subid].flip >= each.flip
        for subid, each in theirs.items()
    )
