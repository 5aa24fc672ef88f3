"""What a content user asks for, read page by page in bounded memory.

Each page is a transaction of its own, so that a long listing never holds back the queue manager.  What changes while
a listing is read may therefore be in it as it was or as it is; nothing that was there throughout is missing, and the
token at the end covers exactly what was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs

from lcc.model import CachedUrl
from lcc.storage.cache import changes, current_change, database_epoch, forgotten_upto, urls
from lcc.users.tokens import BEGINNING, Token, check_token, parse_token

PAGE_ROWS = 1000

T = TypeVar("T")
Interact = Callable[..., Any]
"""``interact(function, *args)`` runs ``function(txn, *args)`` and gives its result."""


@attrs.frozen
class ChangesPage:
    """Some changes, in their order.

    :ivar token: covers everything up to and including these rows.
    :ivar more: there was more when the page was read.
    """

    rows: list[CachedUrl]
    token: Token
    more: bool


def all_urls(interact: Interact, pid: int | None = None, limit: int | None = None) -> Iterator[CachedUrl]:
    """Everything that is in the cache, in the order of its keys.

    :param pid: only this provider's.
    :param limit: at most so many rows; None: all.
    """
    after: bytes | None = None
    while limit is None or limit > 0:
        size = PAGE_ROWS if limit is None else min(PAGE_ROWS, limit)
        page: list[CachedUrl] = interact(urls, pid, after, size)
        yield from page
        if len(page) < size:
            return
        after = page[-1].key
        if limit is not None:
            limit -= len(page)


def start_token(txn: Any, since: str, pid: int | None = None) -> Token:
    """The token that a user came with, checked; one for the beginning, if it came with none.

    :raises TokenError: it is none, or one for other providers.
    :raises StartAgain: the changes since then are no longer known.
    """
    epoch, current = database_epoch(txn), current_change(txn)
    if since in BEGINNING:
        return Token(epoch, 0, begun=current, pid=pid)
    token = parse_token(since)
    check_token(token, epoch, current, forgotten_upto(txn), pid)
    return token


def changes_page(txn: Any, token: Token, limit: int = PAGE_ROWS) -> ChangesPage:
    """The changes that follow a token, deletions included.

    :param limit: at most so many rows.
    :raises StartAgain: it took so long that deletions were forgotten meanwhile.
    """
    check_token(token, token.epoch, current_change(txn), forgotten_upto(txn), token.pid)
    # Read before the rows: every change up to this number can be seen by now.
    current = current_change(txn)
    rows = changes(txn, token.number, limit, token.pid)
    more = len(rows) == limit
    reached = rows[-1].change if rows else token.number
    # Other providers' changes behind the last row need not be looked at again.
    return ChangesPage(rows, token.advanced(reached if more else max(reached, current)), more)


def all_changes(interact: Interact, token: Token, limit: int | None = None) -> Iterator[ChangesPage]:
    """The changes that follow a token up to now, in pages; the last page's token is the one to come back with.

    :param limit: at most so many rows in all; None: all.
    :raises StartAgain: as :func:`changes_page`.
    """
    upto: int = interact(current_change)
    while True:
        size = PAGE_ROWS if limit is None else min(PAGE_ROWS, limit)
        page: ChangesPage = interact(changes_page, token, size)
        yield page
        token = page.token
        if limit is not None:
            limit -= len(page.rows)
        # On a busy LCC there is always more; what came after the question was asked is left to the next one.
        if not page.more or token.number >= upto or limit == 0:
            return
