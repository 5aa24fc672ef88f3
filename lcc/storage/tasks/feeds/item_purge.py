"""Forgets items that have not been in their feed for a time, and feeds and items of tasks that were removed."""

from __future__ import annotations

from typing import NamedTuple

from lcc.storage.tasks.feeds.items import SEEN_WITHIN_SECONDS
from lcc.storage.tasks.write import TaskWrite

PAGE_ROWS = 500


class Place(NamedTuple):
    """Where the next page begins."""

    seen_time: int = -1
    task: int = 0
    identity: bytes = b""


def purge_items(write: TaskWrite, kept_seconds: int, after: Place) -> Place | None:
    """Look at the next page of items that were not seen for a time; where to go on, None: that was the last.

    An item that was in its feed's document when that was read last is kept, however long ago: the feed has not
    changed since, and all its items would be new again when it does.
    """
    txn = write.txn
    sql = (
        "SELECT seen_time, task, identity FROM feeditems WHERE seen_time <= ? AND"
        " (seen_time > ? OR (seen_time = ? AND (task > ? OR (task = ? AND identity > ?))))"
        " ORDER BY seen_time, task, identity LIMIT ?"
    )
    seen, task, identity = after
    values = [write.now - kept_seconds, seen, seen, task, task, identity, PAGE_ROWS]
    found = [Place(seen, task, bytes(identity)) for seen, task, identity in txn.query(sql, values)]
    reads = dict(
        txn.query_in("SELECT task, read_time FROM feeds WHERE task IN ({in})", sorted({each.task for each in found}))
    )
    for seen, task, identity in found:
        if task not in reads or seen < reads[task] - SEEN_WITHIN_SECONDS:
            txn.execute("DELETE FROM feeditems WHERE task = ? AND identity = ?", [task, identity])
    if len(found) == PAGE_ROWS:
        return found[-1]
    txn.execute("DELETE FROM feeds WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = feeds.task)")
    return None
