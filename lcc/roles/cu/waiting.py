"""An answer about changes that begins as soon as there is something to tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import attrs
from twisted.internet.interfaces import IReactorTime

from lcc.numbers import parse_number
from lcc.roles.cu.answers import Answer, Reads, begin_answer
from lcc.roles.cu.formats import Format
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import Page, begin, read_page
from lcc.roles.cu.tokens import Token, parse_token
from lcc.roles.cu.watcher import ChangeWatcher

_WAIT_MAX_SECONDS = 10**9 - 1
T = TypeVar("T")


def parse_wait(text: str) -> float:
    """How many seconds somebody would wait.

    :raises ValueError: the text is no whole number.
    """
    try:
        return parse_number(text, _WAIT_MAX_SECONDS)
    except ValueError:
        raise ValueError(f"{text[:80]!r} is no number of seconds") from None


@attrs.frozen
class Looked(Generic[T]):
    """The beginning of an answer.

    :ivar found: there are rows in it.
    :ivar token: covers what was looked at; None: the question is not about changes.
    """

    answer: T
    found: bool
    token: Token | None


async def until_changed(
    watcher: ChangeWatcher,
    clock: IReactorTime,
    query: Query,
    wait_seconds: float,
    look: Callable[[Query], Awaitable[Looked[T]]],
) -> T:
    """An answer that has rows, or is about no changes, or is empty because the time is over.

    :param look: begins the answer to a question.
    """
    until = clock.seconds() + wait_seconds
    while True:
        looked = await look(query)
        left = until - clock.seconds()
        if looked.found or looked.token is None or left <= 0:
            return looked.answer
        # What was looked at and did not belong to the selection need not be looked at again.
        query = attrs.evolve(query, since=str(looked.token))
        if not await watcher.changed(looked.token.number, left):
            return looked.answer


async def answer_when_changed(
    database: Reads,
    watcher: ChangeWatcher,
    clock: IReactorTime,
    query: Query,
    form: Format,
    wait_seconds: float = 0.0,
) -> Answer:
    """The answer to a question.

    About changes it begins with a piece that has rows in it, or it is empty because the time is over.

    :param wait_seconds: only for a question about changes.
    :raises TokenError, StartAgain, StoreUnavailable: as :func:`lcc.roles.cu.answers.begin_answer`.
    """

    async def look(asked: Query) -> Looked[Answer]:
        answer = await begin_answer(database, asked, form)
        piece = await answer.next_piece()
        while not piece.rows and not answer.ended:
            more = await answer.next_piece()
            piece = attrs.evolve(more, data=piece.data + more.data)
        answer.put_back(piece)
        return Looked(answer, bool(piece.rows), None if piece.token is None else parse_token(piece.token))

    return await until_changed(watcher, clock, query, wait_seconds, look)


async def page_when_changed(
    database: Reads, watcher: ChangeWatcher, clock: IReactorTime, query: Query, wait_seconds: float = 0.0
) -> Page:
    """The first page that has rows in it, or, if there is none, the last one.

    :param wait_seconds: only for a question about changes.
    :raises TokenError, StartAgain, StoreUnavailable: as :func:`lcc.roles.cu.selection.begin`.
    """

    async def look(asked: Query) -> Looked[Page]:
        page = await database.interact(read_page, await database.interact(begin, asked))
        while not page.rows and page.after is not None:
            page = await database.interact(read_page, page.after)
        return Looked(page, bool(page.rows), page.token)

    return await until_changed(watcher, clock, query, wait_seconds, look)
