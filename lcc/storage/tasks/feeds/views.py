"""Which feeds there are, those included that the scheduler has yet to add."""

from __future__ import annotations

import json
from collections.abc import Iterator

from lcc.model.tasks import Task
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.orders import TASK_ADD, read_task_body
from lcc.storage.tasks.rows import write_list
from lcc.storage.tasks.views import PAGE_ROWS

FEED = "feed"


def feed_urls(txn: Txn, kind: str = FEED) -> dict[str, int]:
    """URL of each feed (or of each task of another polled kind), and its id."""
    found: dict[str, int] = {}
    after = 0
    while True:
        sql = "SELECT id, args FROM tasks WHERE id > ? AND kind = ? ORDER BY id LIMIT ?"
        rows = txn.query(sql, [after, kind, PAGE_ROWS])
        for number, args in rows:
            for url in json.loads(args)[:1]:
                found.setdefault(url, number)
        if len(rows) < PAGE_ROWS:
            return {**dict(_ordered(txn, kind)), **found}
        after = rows[-1][0]


def feed_named(txn: Txn, url: str, kind: str = FEED) -> int:
    """The id of the feed (or of the task of another polled kind) with this URL; 0: there is none."""
    begin = write_list([url])[:-1]
    sql = "SELECT id FROM tasks WHERE kind = ? AND (args = ? OR SUBSTR(args, 1, ?) = ?) ORDER BY id LIMIT 1"
    found = txn.value(sql, [kind, f"{begin}]", len(begin) + 1, f"{begin},"], default=0)
    return int(found) or dict(_ordered(txn, kind)).get(url, 0)


def _ordered(txn: Txn, kind: str) -> Iterator[tuple[str, int]]:
    sql = "SELECT target, body FROM taskorders WHERE kind = ? AND done_time IS NULL ORDER BY id"
    for number, body in txn.query(sql, [TASK_ADD]):
        spec = json.loads(body)["spec"]
        if spec["kind"] == kind and spec["args"]:
            yield spec["args"][0], number


def ordered_task(txn: Txn, number: int) -> Task | None:
    """The task of this id that the scheduler has yet to add."""
    sql = "SELECT body FROM taskorders WHERE kind = ? AND target = ? AND done_time IS NULL LIMIT 1"
    row = txn.one(sql, [TASK_ADD, number])
    return None if row is None else read_task_body(number, json.loads(row[0]))
