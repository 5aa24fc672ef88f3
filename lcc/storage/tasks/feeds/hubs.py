"""What the push server sees of feeds: which hubs they name, when news came, when they are polled next.  Only read; it
has feeds polled by an order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcc.model.push.websub import FeedFacts
from lcc.model.tasks import TaskState
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.views import FEED
from lcc.storage.tasks.orders import ORDERS, TASK_POLL

_SELECT = (
    "SELECT t.id, t.args, t.state, f.record, f.read_time, f.changed_time, t.due_time, t.every_seconds"
    " FROM feeds f JOIN tasks t ON t.id = f.task"
)


def _facts(row: Sequence[Any]) -> FeedFacts:
    task, args, state, record, read, changed, due, every = row
    url = str(next(iter(json.loads(args)), ""))
    active = state == TaskState.ACTIVE.value
    return FeedFacts(task, url, active, _links(record), read, changed, due, every)


def _links(record: str) -> tuple[tuple[str, str], ...]:
    if '"hub"' not in record:
        return ()
    links = [(each.get("rel", ""), each.get("url", "")) for each in json.loads(record).get("links") or []]
    return tuple(link for link in links if link[0] in ("hub", "self"))


def feeds_read_since(txn: Txn, since: tuple[int, int], limit: int) -> list[FeedFacts]:
    """Feeds that workers have read after this time and task, in this order."""
    sql = f"{_SELECT} WHERE (f.read_time > ? OR f.read_time = ? AND f.task > ?) AND t.kind = ?"
    rows = txn.query(f"{sql} ORDER BY f.read_time, f.task LIMIT ?", [since[0], *since, FEED, limit])
    return [_facts(row) for row in rows]


def facts_of_feeds(txn: Txn, tasks: Sequence[int]) -> dict[int, FeedFacts]:
    """Of these tasks, those that are feeds and were read."""
    return {row[0]: _facts(row) for row in txn.query_in(f"{_SELECT} WHERE f.task IN ({{in}})", list(tasks))}


def order_polls(txn: Txn, tasks: Sequence[int], now: int) -> None:
    """Have these feeds polled now."""
    for task in tasks:
        ORDERS.give(txn, TASK_POLL, task, {}, now)
