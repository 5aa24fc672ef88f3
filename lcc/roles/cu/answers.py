"""An answer as a stream of pieces, made page by page in the database's threads.

Only the bytes reach the reactor's thread: making them costs more than anything else here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, succeed

from lcc.insight.records import user_record
from lcc.model import CachedUrl
from lcc.roles.cu.formats import Format
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import Place, begin, read_page
from lcc.storage.database.transactions import Txn

T = TypeVar("T")


class Reads(Protocol):
    """What reads the database: :class:`lcc.storage.database.database.Database`, or something in front of it."""

    def interact(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(txn, *args)`` in a reading thread; all that it asks sees one state."""

    def select(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """The same, for a function that runs one SELECT."""


@attrs.frozen
class Piece:
    """A part of an answer.

    :ivar data: its bytes; there may be none.
    :ivar urls: the rows that are in it.
    :ivar token: to come back with; None: the question was not about changes.
    :ivar after: where the next one begins, for who has made it; None: this was the last one.
    :ivar missing: names of sub-LCCs that could not be reached: what is theirs is not in the answer.
    """

    data: bytes
    urls: list[CachedUrl]
    token: str | None
    after: Any
    missing: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return len(self.urls)


class Pieces(Protocol):
    """What makes answers (:class:`lcc.roles.cu.cache.Cache`)."""

    def begin(self, query: Query, form: Format) -> Deferred[Piece]: ...
    def go_on(self, after: Any, form: Format) -> Deferred[Piece]: ...


class Answer:
    """The rows of an answer, as bytes.

    :param first: its first part.
    """

    def __init__(self, cache: Pieces, form: Format, first: Piece) -> None:
        self._cache = cache
        self._form = form
        self._first: Piece | None = attrs.evolve(first, data=form.head() + first.data)
        self._place = first.after

    @property
    def ended(self) -> bool:
        """All of it was given."""
        return self._first is None and self._place is None

    def next_piece(self) -> Deferred[Piece]:
        """The next part, to be called when the one before is there, until ``ended``.

        :raises StartAgain: (as the Deferred's failure) deletions were forgotten meanwhile.
        :raises StoreUnavailable: (as the Deferred's failure) the database cannot be reached.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return succeed(first)
        return self._cache.go_on(self._place, self._form).addCallback(self._made)

    def put_back(self, piece: Piece) -> None:
        """The next piece is this one: the last one that was given, or all that were given so far."""
        self._first = piece

    def _made(self, piece: Piece) -> Piece:
        self._place = piece.after
        return piece


def begin_answer(cache: Pieces, query: Query, form: Format) -> Deferred[Answer]:
    """The answer to a question; its first part is read at once.

    :raises TokenError, StartAgain: (as the Deferred's failure) its token is no good.
    """
    return cache.begin(query, form).addCallback(lambda piece: Answer(cache, form, piece))


def begin_piece(txn: Txn, query: Query, form: Format) -> Piece:
    """The first piece of an LCC's answer.

    :raises TokenError, StartAgain: as :func:`lcc.roles.cu.selection.begin`.
    """
    return next_piece(txn, begin(txn, query), form)


def next_piece(txn: Txn, place: Place, form: Format) -> Piece:
    """The piece at a place.

    :raises StartAgain: as :func:`lcc.roles.cu.selection.read_page`.
    """
    page = read_page(txn, place)
    data = form.rows(map(user_record, page.rows)) if page.rows else b""
    token = None if page.token is None else str(page.token)
    if page.after is None:
        data += form.end(token)
    return Piece(data, page.rows, token, page.after)
