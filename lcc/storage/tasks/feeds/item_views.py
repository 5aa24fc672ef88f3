"""What content users and commands see of feeds, items and texts: only read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from lcc.model.feeds import PageText
from lcc.storage.database.transactions import Txn

PAGE_ROWS = 500


class StoredItem(NamedTuple):
    """A row of ``feeditems``.

    :ivar record: JSON.
    """

    task: int
    identity: bytes
    change: int
    published: int | None
    found_time: int
    changed_time: int
    record: str


class StoredFeed(NamedTuple):
    """A row of ``feeds``.

    :ivar record: JSON.
    :ivar changed_time: 0: never.
    """

    task: int
    policy: str
    record: str
    read_time: int
    changed_time: int


class StoredText(NamedTuple):
    """A row of ``texts``.

    :ivar md5: of the content that it was made of.
    """

    md5: str
    text: PageText
    made_time: int


ITEMS = "feeditems"
_ITEM = f"SELECT task, identity, change_number, published, found_time, changed_time, record FROM {ITEMS}"


def last_change(txn: Txn) -> int:
    """The number of the last change of an item; 0: there was none."""
    return int(txn.value("SELECT value FROM schedulerfence WHERE name = 'item'", default=0))


def items_epoch(txn: Txn) -> str:
    """Names the database that change numbers are of."""
    return str(txn.value("SELECT value FROM meta WHERE name = 'epoch'", default="0"))


def items_since(
    txn: Txn,
    after: int,
    tasks: Collection[int] | None = None,
    pids: Collection[int] | None = None,
    limit: int = PAGE_ROWS,
) -> list[StoredItem]:
    """Items with greater change numbers, in order.

    :param tasks: only of these (some hundreds at most); None: of all.
    :param pids: only those that were in a page of these providers last; None: all.
    """
    condition, values = "", [after]
    if tasks is not None:
        condition = f" AND task IN ({', '.join('?' * len(tasks))})" if tasks else " AND 1 = 0"
        values += sorted(tasks)
    sql = f"{_ITEM} WHERE change_number > ?{condition}"
    if pids is None:
        rows = txn.query(f"{sql} ORDER BY change_number LIMIT ?", [*values, limit])
    else:
        sql += " AND pid IN ({in}) ORDER BY change_number LIMIT ?"
        rows = sorted(txn.query_in(sql, sorted(pids), values, [limit]), key=lambda row: row[2])[:limit]
    return [_item(row) for row in rows]


def items_of_task(txn: Txn, task: int, limit: int) -> list[StoredItem]:
    """The items of a task, the newest first."""
    sql = f"{_ITEM} WHERE task = ? ORDER BY change_number DESC LIMIT ?"
    return [_item(row) for row in txn.query(sql, [task, limit])]


def count_items(txn: Txn, task: int) -> tuple[int, int]:
    """How many items a task has, and their size in bytes."""
    sql = f"SELECT COUNT(*), COALESCE(SUM(size_bytes), 0) FROM {ITEMS} WHERE task = ?"
    count, size_bytes = txn.query(sql, [task])[0]
    return int(count), int(size_bytes)


def feeds_of(txn: Txn, tasks: Sequence[int]) -> dict[int, StoredFeed]:
    """What feeds say of themselves, by task."""
    sql = f"SELECT {', '.join(StoredFeed._fields)} FROM feeds WHERE task IN ({{in}})"
    return {row[0]: StoredFeed(*row) for row in txn.query_in(sql, list(tasks))}


def text_of_page(txn: Txn, key: bytes) -> StoredText | None:
    """The text of a page; None: none is stored."""
    row = txn.one("SELECT md5, made_time, title, text, language, method, cut FROM texts WHERE urlkey = ?", [key])
    if row is None:
        return None
    md5, made_time, title, text, language, method, cut = row
    return StoredText(md5, PageText(title, text, language, method, bool(cut)), made_time)


def _item(row: tuple[Any, ...]) -> StoredItem:
    return StoredItem(row[0], bytes(row[1]), *row[2:])
