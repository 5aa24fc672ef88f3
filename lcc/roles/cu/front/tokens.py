"""The token of a front end's changes: where the user stands in each sub-LCC, and which moves it has been told of.

To the user it is opaque: ``fe2~SELECTION~FLIP~SUBID.TIMELINE.NUMBER.BEGUN~…``.  The sub-LCCs stand in the order in
which they are read next: with a small limit each gets its turn.  One that is not named has not been read yet.  FLIP
is the version of the map up to which moves are accounted for.  A sub-LCC for which something else holds has more
fields, each with its letter: those of :class:`Position`.

Tokens of former versions (``fe1~SELECTION~SUBID…``) say nothing of moves.  Those of a single LCC are good as well: of
the sub-LCC that it has become.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from lcc.numbers import INT64_MAX, parse_number
from lcc.roles.cu.tokens import StartAgain, Token, TokenError

_PREFIX, _FORMER_PREFIX = "fe2~", "fe1~"
_SUBS_MAX = 1000
_SUBID_MAX = 2**31 - 1
_SELECTION = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_SUB = re.compile(
    r"([0-9]{1,10})\.([0-9A-Za-z_-]{1,64})\.([0-9]{1,19})\.([0-9]{1,19})"
    r"(?:\.f([0-9]{1,19}))?(?:\.i([0-9]{1,19}))?(?:\.b([0-9]{1,19}))?(?:\.k([0-9]{1,19})\.([0-9a-f]{40}))?",
    re.ASCII,
)
ALL_IMPORTS = INT64_MAX
"""As :attr:`Position.imports`: all that are there when it is read next."""


@attrs.frozen
class Position(Token):
    """A position in the changes of one sub-LCC.

    :ivar flip: moves to there up to this one are accounted for.
    :ivar imports: rows that were imported up to this change number are told like others; later ones are left out.
    :ivar base: the number that its origins are compared with, as long as some move is not accounted for, or the first
        reading of some sub-LCC goes on: where the user stood when that began; None: ``number``.
    :ivar after: flip of a move to there and key: of what has arrived with it, rows up to this key were told.
    """

    flip: int = 0
    imports: int = 0
    base: int | None = None
    after: tuple[int, bytes] | None = None

    @property
    def seen(self) -> int:
        """What origins are compared with."""
        return self.number if self.base is None else self.base

    def fields(self, flip: int) -> str:
        """As in a token that accounts for moves up to this one."""
        text = f".f{self.flip}" if self.flip != flip else ""
        if self.imports > self.seen and self.imports != (self.begun if self.begun > self.number else 0):
            text += f".i{self.imports}"
        if self.base is not None and self.base != self.number:
            text += f".b{self.base}"
        if self.after is not None:
            text += f".k{self.after[0]}.{self.after[1].hex()}"
        return text


def position_at(token: Token, flip: int = 0, imports: int = 0) -> Position:
    """A position that says more than this token."""
    return Position(token.timeline, token.number, token.begun, token.selection, flip, imports)


@attrs.frozen
class FrontToken:
    """A position in the changes of several sub-LCCs.

    :ivar selection: of what these are the changes.
    :ivar positions: by the numbers of the sub-LCCs, in the order in which they are read.
    :ivar knows_moves: False: it is of a version that knew of none, or of something that does not move.
    """

    selection: str
    positions: Mapping[int, Position]
    knows_moves: bool = True

    @property
    def flip(self) -> int:
        """Of all moves that are accounted for the last one."""
        return max((position.flip for position in self.positions.values()), default=0)

    def __str__(self) -> str:
        head, flip = _PREFIX if self.knows_moves else _FORMER_PREFIX, self.flip
        subs = [str(flip)] if self.knows_moves else []
        for subid, token in self.positions.items():
            begun = token.begun if token.begun > token.number else 0
            more = token.fields(flip) if self.knows_moves else ""
            subs.append(f"{subid}.{token.timeline}.{token.number}.{begun}{more}")
        return head + "~".join([self.selection, *subs])


def is_front_token(text: str) -> bool:
    """Whether this looks like a token of a front end."""
    return text.strip().startswith((_PREFIX, _FORMER_PREFIX))


def parse_front_token(text: str) -> FrontToken:
    """The token that this text is.

    :raises TokenError: it is none.
    """
    try:
        if not is_front_token(text):
            raise ValueError
        knows_moves = text.strip().startswith(_PREFIX)
        selection, *subs = text.strip()[len(_PREFIX) :].split("~", _SUBS_MAX + 2)
        flip = parse_number(subs.pop(0) if subs else "", INT64_MAX) if knows_moves else 0
        if not _SELECTION.fullmatch(selection) or len(subs) > _SUBS_MAX:
            raise ValueError
        positions: dict[int, Position] = {}
        for sub in subs:
            subid, position = _parse_sub(sub, selection, flip)
            if subid in positions or (not knows_moves and position.fields(0)):
                raise ValueError
            positions[subid] = position
    except ValueError:
        raise TokenError(f"{text[:200]!r} is no token of a front end") from None
    return FrontToken(selection, positions, knows_moves)


def _parse_sub(text: str, selection: str, flip: int) -> tuple[int, Position]:
    match = _SUB.fullmatch(text)
    if match is None:
        raise ValueError
    subid = parse_number(match[1], _SUBID_MAX, 1)
    number, begun = parse_number(match[3], INT64_MAX), parse_number(match[4], INT64_MAX)
    own, imports, base = (None if each is None else parse_number(each, INT64_MAX) for each in match.group(5, 6, 7))
    base = None if base == number else base
    if imports is None or imports <= (number if base is None else base):
        imports = begun
    position = Position(
        match[2],
        number,
        begun,
        selection,
        flip if own is None else own,
        imports,
        base,
        None if match[8] is None else (parse_number(match[8], INT64_MAX), bytes.fromhex(match[9])),
    )
    return subid, position


def check_removed(token: FrontToken, there: set[int], removed: Mapping[int, int | None]) -> FrontToken:
    """The token without the sub-LCCs that were removed.

    :param there: numbers of those that are there.
    :param removed: of each that was removed the number of its last change; None: that is not known.
    :raises StartAgain: what happened there since is no longer known.
    """
    kept = {}
    for subid, position in token.positions.items():
        if subid in there:
            kept[subid] = position
            continue
        last = removed.get(subid)
        # Not its number: what had gone elsewhere before it was read is still to be told there.
        if last is None or position.seen < last:
            raise StartAgain("this token is of a sub-LCC that was removed, or of another front end")
    return attrs.evolve(token, positions=kept)
