"""The answer to a content user's question, read page by page in bounded memory.

Each page is a transaction of its own, so that a long answer never holds back the queue manager.  What changes while
an answer is read may therefore be in it as it was or as it is; nothing that was there throughout is missing, and the
token at the end covers exactly what was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from lcc.model import CachedUrl
from lcc.roles.cu.query import Query
from lcc.roles.cu.tokens import BEGINNING, NOW, Token, check_token, parse_token
from lcc.storage.database.tables.status import forgotten_upto, last_change
from lcc.storage.database.tables.timeline import current_timeline, known_upto
from lcc.storage.database.transactions import Txn
from lcc.storage.views.selected import page_by_change, page_by_key

Interact = Callable[..., Any]
"""``interact(function, *args)`` runs ``function(txn, *args)`` and gives its result."""

RECENT_CHANGES = 1000


@attrs.frozen
class Place:
    """Where the reading of an answer stands.

    :ivar left: rows that may still be given; None: without limit.
    :ivar key: the last key that was looked at, in an answer in the order of the keys.
    :ivar token: covers the changes that were given; None: in the order of the keys.
    :ivar upto: where the counter of changes stood when the question was asked: what came later is left to the next.
    """

    query: Query
    left: int | None
    key: bytes = b""
    token: Token | None = None
    upto: int = 0


@attrs.frozen
class Page:
    """Some rows of an answer; there may be none in it, and still others follow.

    :ivar after: where to go on; None: this was the last page.
    :ivar token: to come back with; None: the question was not about changes.
    """

    rows: list[CachedUrl]
    after: Place | None
    token: Token | None


def begin(txn: Txn, query: Query) -> Place:
    """Where the answer to this question begins.

    :raises TokenError: the token is none, or one for another selection.
    :raises StartAgain: the changes since then are no longer known.
    """
    if query.since is None:
        return Place(query, query.limit)
    current, digest = last_change(txn), query.selection.digest
    if query.since in BEGINNING:
        token = Token(current_timeline(txn), 0, begun=current, selection=digest)
    elif query.since == NOW:
        token = Token(current_timeline(txn), current, selection=digest)
    else:
        token = continued(txn, parse_token(query.since), digest)
    return Place(query, query.limit, token=token, upto=current)


def lately(txn: Txn, query: Query) -> Token:
    """The token of a short while ago: :data:`RECENT_CHANGES` changes of the whole cache came since."""
    token = begin(txn, attrs.evolve(query, since=NOW, limit=None)).token
    assert token is not None  # it is about changes
    return attrs.evolve(token, number=max(token.number - RECENT_CHANGES, forgotten_upto(txn), 0))


def read_page(txn: Txn, place: Place) -> Page:
    """The next page.

    :raises StartAgain: it took so long that deletions were forgotten meanwhile.
    """
    if place.token is None:
        return _by_key(txn, place)
    return _by_change(txn, place, place.token)


def _by_key(txn: Txn, place: Place) -> Page:
    page = page_by_key(txn, place.query.selection, place.key, place.left)
    left = None if place.left is None else place.left - len(page.rows)
    after = None if page.after is None or left == 0 else attrs.evolve(place, key=page.after, left=left)
    return Page(page.rows, after, None)


def _by_change(txn: Txn, place: Place, token: Token) -> Page:
    # A backup may have been put back meanwhile, too.
    token = continued(txn, token, token.selection)
    page = page_by_change(txn, place.query.selection, token.number, max(token.number, place.upto), place.left)
    token = token.advanced(page.after)
    left = None if place.left is None else place.left - len(page.rows)
    more = page.more and left != 0
    return Page(page.rows, attrs.evolve(place, token=token, left=left) if more else None, token)


def continued(txn: Txn, token: Token, selection: str) -> Token:
    """This token, on the current timeline.

    :raises TokenError, StartAgain: it is no good, or no longer.
    """
    check_token(token, known_upto(txn, token.timeline), forgotten_upto(txn), selection)
    return attrs.evolve(token, timeline=current_timeline(txn))


def pages(interact: Interact, query: Query) -> Iterator[Page]:
    """The whole answer, for code that may block.

    :raises TokenError, StartAgain: as :func:`begin` and :func:`read_page`.
    """
    place: Place | None = interact(begin, query)
    while place is not None:
        page: Page = interact(read_page, place)
        yield page
        place = page.after
