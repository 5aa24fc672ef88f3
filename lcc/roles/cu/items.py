"""Items of feeds as content users read them: everything since a token, page by page, as JSON lines.

An item that changes moves to the end; one that its feed no longer has is forgotten after a time, without a word.  The
token is opaque: it holds the database, the number of the last change that was seen, and what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import attrs

from lcc.roles.access import Access
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.tokens import BEGINNING, StartAgain, Token, TokenError, parse_token
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.item_views import (
    PAGE_ROWS,
    StoredItem,
    items_epoch,
    items_since,
    last_change,
)

FIELDS = {
    "feed": "the feed's id",
    "lcc": "behind a front end: the sub-LCC that the feed is of; another one may have a feed of the same id",
    "item": "names the item within its feed",
    "change": "the number of its last change",
    "found_time": "when it was new here; seconds since 1970",
    "changed_time": "when it was new here, or changed last",
    "id": "as the feed says",
    "link": "the page of the item",
    "title": "plain text",
    "text": "the content or summary as plain text",
    "summary": "as the feed has it: value and type; cleaned of scripts",
    "content": "as the feed has it: value and type; cleaned of scripts",
    "published": "as the feed says; seconds since 1970",
    "updated": "as the feed says; seconds since 1970",
    "authors": "name, email, url",
    "categories": "term, scheme, label",
    "enclosures": "url, type, size_bytes",
    "links": "other links: url, rel, type, title",
    "places": "kind and coordinates, as GeoJSON has them",
    "comments": "the page with comments on it",
    "language": "of the item",
}
"""What an item has; what its feed does not say is left out."""
OF_CONTENT = ("text", "summary", "content")
"""Not for those who may see rows only."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@attrs.frozen
class ItemQuery:
    """What is asked for.

    :ivar since: a token, or one of :data:`lcc.roles.cu.tokens.BEGINNING`.
    :ivar feeds: only of these; None: of all.
    :ivar limit: items at most; 0: all.
    """

    since: str = BEGINNING[0]
    feeds: frozenset[int] | None = None
    limit: int = 0

    @property
    def digest(self) -> str:
        """Names what is asked for, in tokens."""
        feeds = "*" if self.feeds is None else " ".join(map(str, sorted(self.feeds)))
        return blake2b(f"items {feeds}".encode(), digest_size=8).hexdigest()


@attrs.frozen
class ItemPlace:
    """Where the next page of an answer begins.

    :ivar left: items that may still come; 0: any number.
    """

    query: ItemQuery
    access: Access
    token: Token
    left: int


@attrs.frozen
class ItemPage:
    """A page of an answer.

    :ivar after: where the next one begins, for who has made it; None: this was the last.
    """

    data: bytes
    after: Any


@attrs.frozen
class ItemRows:
    """Items of one LCC.

    :ivar data: their lines.
    :ivar token: covers them.
    :ivar after: where the next ones begin; None: these were the last.
    """

    data: bytes
    count: int
    token: Token
    after: ItemPlace | None


def begin_items(txn: Txn, query: ItemQuery, access: Access) -> ItemPage:
    """The first page.

    :raises TokenError, StartAgain: as :func:`items_place`.
    """
    return items_page(txn, items_place(txn, query, access))


def items_place(txn: Txn, query: ItemQuery, access: Access) -> ItemPlace:
    """Where the answer begins.

    :raises TokenError: the token is none, or for another question.
    :raises StartAgain: the changes since it are not known.
    """
    epoch = items_epoch(txn)
    if query.since in BEGINNING:
        token = Token(epoch, 0, selection=query.digest)
    else:
        token = parse_token(query.since)
        if token.selection != query.digest:
            raise TokenError("this token is for another selection: ask for what you asked for when you got it")
        if token.timeline != epoch:
            raise StartAgain("this token is of another database, or of one from before a backup was restored")
        if token.number > last_change(txn):
            raise StartAgain("this token is of a later state of the database, which is lost")
    return ItemPlace(query, access, token, query.limit)


def items_page(txn: Txn, place: ItemPlace) -> ItemPage:
    """A page, with the end mark behind the last one."""
    rows = items_rows(txn, place)
    return ItemPage(rows.data if rows.after else rows.data + items_end(str(rows.token)), rows.after)


def items_rows(txn: Txn, place: ItemPlace, lcc: str = "") -> ItemRows:
    """The items of a page.

    :param lcc: the name of the sub-LCC; empty: there is one LCC.
    """
    limit = min(PAGE_ROWS, place.left or PAGE_ROWS)
    rows = items_since(txn, place.token.number, place.query.feeds, place.access.providers, limit)
    token = place.token.advanced(rows[-1].change) if rows else place.token
    own = {"lcc": lcc} if lcc else {}
    data = "".join([f"{_ENCODER.encode(_record(row, place.access.content) | own)}\n" for row in rows])
    left = place.left - len(rows)
    ended = len(rows) < limit or (place.left > 0 and left <= 0)
    after = None if ended else attrs.evolve(place, token=token, left=left if place.left else 0)
    return ItemRows(data.encode("utf-8", "replace"), len(rows), token, after)


def items_end(token: str, missing: Sequence[str] = ()) -> bytes:
    """The end mark.

    :param missing: names of sub-LCCs that could not be reached.
    """
    return JsonLines().end(token, missing)


def _record(row: StoredItem, content: bool) -> dict[str, Any]:
    own = json.loads(row.record)
    if not content:
        own = {name: value for name, value in own.items() if name not in OF_CONTENT}
    return {
        **own,
        "feed": row.task,
        "item": row.identity.hex(),
        "change": row.change,
        "found_time": row.found_time,
        "changed_time": row.changed_time,
    }
