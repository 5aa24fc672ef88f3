"""What workers store: items, what a feed says of itself, the text of pages; as JSON objects on their way.

Every worker may store items, not only that of feeds.  An object is one of::

    {"feed": {...}, "policy": "id"}                                 what the feed of this task says of itself
    {"item": {...}, "identity": hex, "digest": hex, "permalink": url}    an item, as the feed worker writes it
    {"robots": "..."}                                               the text of a robots.txt
    {"text": "...", "key": hex, "md5": hex, "title": "...", ...}      the text of a page
    {...}                                                           an item of any other worker: its fields

The fields of an item are those of :class:`lcc.model.feeds.FeedItem`; others are kept as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple

import attrs

from lcc.model.feeds import POLICIES, FeedInfo, PageText
from lcc.numbers import INT64_MAX

IDENTITY_BYTES = 16
LINK_BYTES = 8
KEY_HEX_CHARS = 40
_TEXTS_OF_PAGE = ("text", "title", "language", "method")


class ItemRow(NamedTuple):
    """An item on its way into the database.

    :ivar identity: by what it is known again (:data:`IDENTITY_BYTES` bytes).
    :ivar digest: of what is news when it changes (:data:`IDENTITY_BYTES` bytes).
    :ivar link: a hash of its link (:data:`LINK_BYTES` bytes); empty: it has none.
    :ivar published: in seconds since 1970; None: unknown.
    :ivar permalink: to be fetched if the item is new; empty: nothing.
    :ivar record: the item as JSON.
    """

    identity: bytes
    digest: bytes
    link: bytes
    published: int | None
    permalink: str
    record: str


class News(Enum):
    """What an item of a document is, compared with what is stored."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class KnownItem(NamedTuple):
    """What is stored of an item.

    :ivar before: the digest of the version before; empty: there was none.
    :ivar flaps: how often it went back to the version before, one after the other.
    """

    identity: bytes
    digest: bytes
    link: bytes
    before: bytes
    flaps: int


class Judged(NamedTuple):
    """An item of a document.

    :ivar known: what is stored of it; None: nothing.  Its identity is another one if the item's id has changed.
    :ivar flaps: to be stored.
    """

    row: ItemRow
    news: News
    known: KnownItem | None
    flaps: int


class TextRow(NamedTuple):
    """The text of a page on its way into the database.

    :ivar key: of the page.
    :ivar md5: of the content that it was made of.
    """

    key: bytes
    md5: str
    text: PageText


@attrs.frozen
class Harvest:
    """What a job stores.

    :ivar feed: what its feed says of itself, as JSON; empty: nothing.
    :ivar policy: by what the items of the feed are known, one of :data:`lcc.model.feeds.POLICIES`; empty: undecided.
    :ivar robots: the text of a robots.txt; None: none.
    """

    feed: str = ""
    policy: str = ""
    items: tuple[ItemRow, ...] = ()
    texts: tuple[TextRow, ...] = ()
    robots: str | None = None


def as_json(record: Any) -> str:
    """JSON, as short as it can be, text as UTF-8."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def hashed(size_bytes: int, *parts: str) -> bytes:
    """A hash of texts."""
    made = blake2b(digest_size=size_bytes)
    for part in parts:
        data = part.encode("utf-8", "replace")
        made.update(b"%d:%b" % (len(data), data))
    return made.digest()


def link_hash(link: str) -> bytes:
    """A hash of a link; empty: no link."""
    return hashed(LINK_BYTES, link) if link else b""


def feed_object(info: FeedInfo, policy: str) -> dict[str, Any]:
    """The object for what a feed says of itself."""
    return {"feed": info.record(), "policy": policy}


def item_object(record: Mapping[str, Any], identity: bytes, digest: bytes, permalink: str) -> dict[str, Any]:
    """The object for an item of a feed."""
    found = {"item": record, "identity": identity.hex(), "digest": digest.hex()}
    return found | {"permalink": permalink} if permalink else found


def text_object(key: str, md5: str, text: PageText) -> dict[str, Any]:
    """The object for the text of a page."""
    return {"key": key, "md5": md5, **attrs.asdict(text)}


def read_harvest(objects: Iterable[str]) -> Harvest:
    """What a job stores.

    :raises ValueError: an object makes no sense; says which, and why.
    """
    feed, policy = "", ""
    robots: str | None = None
    items: dict[bytes, ItemRow] = {}
    texts: dict[bytes, TextRow] = {}
    for number, text in enumerate(objects, 1):
        try:
            read = json.loads(text)
            if not isinstance(read, dict):
                raise ValueError("it is no object")
            if "\\u" in text:
                as_json(read).encode()  # fails: half of a character cannot be stored
            if isinstance(read.get("feed"), dict):
                feed, policy = _feed(read["feed"]), _policy(read.get("policy"))
            elif isinstance(read.get("item"), dict):
                row = _item(read)
                items[row.identity] = row
            elif read.keys() == {"robots"}:
                robots = _string(read, "robots")
            elif "key" in read and "md5" in read:
                page = _text(read)
                texts[page.key] = page
            else:
                row = _any_item(read)
                items[row.identity] = row
        except (ValueError, RecursionError, UnicodeEncodeError) as error:
            raise ValueError(f"stored object {number}: {error!s:.200}") from None
    return Harvest(feed, policy, tuple(items.values()), tuple(texts.values()), robots)


def _policy(value: object) -> str:
    if value not in (*POLICIES, "", None):
        raise ValueError("its policy is none")
    return str(value or "")


def _feed(record: Mapping[str, Any]) -> str:
    """What the LCC itself reads of it has to be what :class:`lcc.model.feeds.FeedInfo` says."""
    for name in ("kind", "title", "link"):
        _string(record, name)
    _numbers(record, "ttl_seconds", [record.get("ttl_seconds") or 0], INT64_MAX)
    _numbers(record, "skip_hours", record.get("skip_hours", []), 23)
    _numbers(record, "skip_days", record.get("skip_days", []), 6)
    return as_json(record)


def _numbers(record: Mapping[str, Any], name: str, values: object, most: int) -> None:
    if not isinstance(values, list) or not all(type(each) is int and 0 <= each <= most for each in values):
        raise ValueError(f"its {name} cannot be {as_json(record[name])}"[:200])


def _item(read: Mapping[str, Any]) -> ItemRow:
    record = read["item"]
    identity, digest = (_hex(read, name, 2 * IDENTITY_BYTES) for name in ("identity", "digest"))
    permalink = _string(read, "permalink")
    return ItemRow(identity, digest, link_hash(_string(record, "link")), _dated(record), permalink, as_json(record))


def _any_item(record: Mapping[str, Any]) -> ItemRow:
    """Known by its id, else its link, else all of it."""
    text = as_json(record)
    link = _string(record, "link")
    identity = hashed(IDENTITY_BYTES, _string(record, "id") or link or text)
    return ItemRow(identity, hashed(IDENTITY_BYTES, text), link_hash(link), _dated(record), "", text)


def _text(read: Mapping[str, Any]) -> TextRow:
    key, md5 = _hex(read, "key", KEY_HEX_CHARS), _hex(read, "md5", 32).hex()
    text, title, language, method = (_string(read, name) for name in _TEXTS_OF_PAGE)
    return TextRow(key, md5, PageText(title[:1000], text, language[:35], method[:20], read.get("cut") is True))


def _hex(read: Mapping[str, Any], name: str, chars: int) -> bytes:
    value = _string(read, name)
    if len(value) != chars:
        raise ValueError(f"its {name} has not {chars} hexadecimal digits")
    return bytes.fromhex(value)


def _string(read: Mapping[str, Any], name: str) -> str:
    value = read.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"its {name} is no text")
    return value


def _dated(record: Mapping[str, Any]) -> int | None:
    for name in ("published", "updated"):
        value = record.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT64_MAX:
            return value
    return None
