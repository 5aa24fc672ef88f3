"""The token with which a content user asks for everything since last time.

To the user it is opaque. It holds the timeline of the database (what was done before a backup was restored is on
another one: :mod:`lcc.storage.database.tables.timeline`), the number of the last change that the user has seen, and
which selection it belongs to.

A user who starts from the beginning reads the cache in order of change, which may take many requests.  What was
deleted long before that concerns nobody, so the token also holds where the counter stood when the reading began:
only deletions after that are needed.
"""

from __future__ import annotations

import re

import attrs

from lcc.numbers import INT64_MAX, parse_number
from lcc.storage.views.selected import EVERYTHING

_TOKEN = re.compile(r"([0-9A-Za-z_-]{1,64})\.([0-9]{1,19})\.([0-9]{1,19})\.([0-9a-f]{1,16})", re.ASCII)

BEGINNING = ("", "0")
"""What a user says who has no token yet."""
NOW = "now"
"""What a user says who has no token yet, and wants only what changes from now on."""


class TokenError(Exception):
    """The text is no token, or one for another selection: a mistake of the caller."""


class StartAgain(Exception):
    """The changes since this token are no longer known: the user must drop its copy and start from the beginning."""


@attrs.frozen
class Token:
    """A position in the changes, with what it is valid for.

    :ivar timeline: on which the user has seen the changes.
    :ivar number: the last change that was seen.
    :ivar begun: where the counter of changes stood when the reading from the beginning began.
    :ivar selection: of what these are the changes (:attr:`lcc.storage.views.selected.Selection.digest`).
    """

    timeline: str
    number: int
    begun: int = 0
    selection: str = EVERYTHING

    def __str__(self) -> str:
        begun = self.begun if self.begun > self.number else 0
        return f"{self.timeline}.{self.number}.{begun}.{self.selection}"

    def advanced(self, number: int) -> Token:
        """The token after this change was seen."""
        return attrs.evolve(self, number=number)


def parse_token(text: str) -> Token:
    """The token that this text is.

    :raises TokenError: when it is none.
    """
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise TokenError(f"{text!r} is no token of an LCC")
    timeline, number, begun, selection = match.groups()
    try:
        return Token(timeline, parse_number(number, INT64_MAX), parse_number(begun, INT64_MAX), selection)
    except ValueError:
        raise TokenError(f"{text!r} is no token of an LCC") from None


def check_token(token: Token, known_upto: int | None, complete_since: int, selection: str) -> None:
    """Make sure that everything since this token can be told.

    :param known_upto: the number of the last change that the database has of the token's timeline; None: it knows
        nothing of this timeline.
    :param complete_since: all deletions with greater numbers are still known.
    :param selection: what is asked for now.
    :raises TokenError: for another selection.
    :raises StartAgain: when something would be missing.
    """
    if token.selection != selection:
        raise TokenError("this token is for another selection: ask for what you asked for when you got it")
    if known_upto is None:
        raise StartAgain("this token is of another database, or of one from before a backup was restored")
    if max(token.number, token.begun) > known_upto:
        raise StartAgain("this token is of a later state of the database, which is lost")
    if max(token.number, token.begun) < complete_since:
        raise StartAgain("deletions after this token are no longer known")
