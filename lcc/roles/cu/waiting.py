"""An answer about changes that begins as soon as there is something to tell."""

from __future__ import annotations

import attrs
from twisted.internet.interfaces import IReactorTime

from lcc.numbers import parse_number
from lcc.roles.cu.answers import Answer, Piece, begin_answer
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import Format
from lcc.roles.cu.query import Query

_WAIT_MAX_SECONDS = 10**9 - 1


def parse_wait(text: str) -> float:
    """How many seconds somebody would wait.

    :raises ValueError: the text is no whole number.
    """
    try:
        return parse_number(text, _WAIT_MAX_SECONDS)
    except ValueError:
        raise ValueError(f"{text[:80]!r} is no number of seconds") from None


async def answer_when_changed(
    cache: Cache, clock: IReactorTime, query: Query, form: Format, wait_seconds: float = 0.0
) -> Answer:
    """The answer to a question.

    About changes it begins with a piece that has rows in it, or it is empty because the time is over.

    :param wait_seconds: only for a question about changes.
    :raises TokenError, StartAgain, StoreUnavailable: as :func:`lcc.roles.cu.answers.begin_answer`.
    """
    until = clock.seconds() + wait_seconds
    while True:
        answer = await begin_answer(cache, query, form)
        piece: Piece = await answer.next_piece()
        while not piece.rows and not answer.ended:
            more = await answer.next_piece()
            piece = attrs.evolve(more, data=piece.data + more.data)
        answer.put_back(piece)
        left = until - clock.seconds()
        if piece.rows or piece.token is None or left <= 0:
            return answer
        # What was looked at and did not belong to the selection need not be looked at again.
        query = attrs.evolve(query, since=piece.token)
        if not await cache.changed(piece.token, left):
            return answer
