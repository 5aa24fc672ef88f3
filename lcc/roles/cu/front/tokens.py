"""The token of a front end's changes: where the user stands in each sub-LCC.

To the user it is opaque: ``fe1~SELECTION~SUBID.TIMELINE.NUMBER.BEGUN~…``.  The sub-LCCs stand in the order in which
they are read next: with a small limit each gets its turn.  One that is not named has not been read yet.  The token of
a single LCC is good as well: of the sub-LCC that it has become.
"""

from __future__ import annotations

import re

import attrs

from lcc.numbers import INT64_MAX, parse_number
from lcc.roles.cu.tokens import StartAgain, Token, TokenError

_PREFIX = "fe1~"
_SUBS_MAX = 1000
_SUBID_MAX = 2**31 - 1
_SELECTION = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_SUB = re.compile(r"([0-9]{1,10})\.([0-9A-Za-z_-]{1,64})\.([0-9]{1,19})\.([0-9]{1,19})", re.ASCII)


@attrs.frozen
class FrontToken:
    """A position in the changes of several sub-LCCs.

    :ivar selection: of what these are the changes.
    :ivar positions: by the numbers of the sub-LCCs, in the order in which they are read.
    """

    selection: str
    positions: dict[int, Token]

    def __str__(self) -> str:
        subs = []
        for subid, token in self.positions.items():
            begun = token.begun if token.begun > token.number else 0
            subs.append(f"{subid}.{token.timeline}.{token.number}.{begun}")
        return _PREFIX + "~".join([self.selection, *subs])


def is_front_token(text: str) -> bool:
    """Whether this looks like a token of a front end."""
    return text.strip().startswith(_PREFIX)


def parse_front_token(text: str) -> FrontToken:
    """The token that this text is.

    :raises TokenError: it is none.
    """
    selection, *subs = text.strip().removeprefix(_PREFIX).split("~", _SUBS_MAX + 1)
    positions: dict[int, Token] = {}
    try:
        if not is_front_token(text) or not _SELECTION.fullmatch(selection) or len(subs) > _SUBS_MAX:
            raise ValueError
        for sub in subs:
            match = _SUB.fullmatch(sub)
            if match is None:
                raise ValueError
            subid = parse_number(match[1], _SUBID_MAX, 1)
            if subid in positions:
                raise ValueError
            number, begun = (parse_number(each, INT64_MAX) for each in match.groups()[2:])
            positions[subid] = Token(match[2], number, begun, selection)
    except ValueError:
        raise TokenError(f"{text[:200]!r} is no token of a front end") from None
    return FrontToken(selection, positions)


def check_removed(token: FrontToken, there: set[int], removed: dict[int, int | None]) -> FrontToken:
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
        if last is None or position.number < last:
            raise StartAgain("this token is of a sub-LCC that was removed, or of another front end")
    return attrs.evolve(token, positions=kept)
