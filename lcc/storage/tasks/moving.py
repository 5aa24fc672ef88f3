"""Tasks of a provider that moves to another sub-LCC with a scheduler of its own (doc/moves.md).

The scheduler alone writes its tables.  So the queue manager of the source orders that the provider's tasks rest, go
on, or are removed; that of the destination reads them at the source, and orders that they be added, with what their
workers have collected.  Ids and change numbers are the destination's own.  What polls robots.txt stays: the scheduler
of the destination asks for it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lcc.model.tasks import JobState, TaskState, When
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.locked_counter import draw
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.jobs.endings import end_waiting
from lcc.storage.tasks.jobs.new_tasks import TASK_IDS
from lcc.storage.tasks.polling.robots import ROBOTS, remove_task
from lcc.storage.tasks.rows import TASKS
from lcc.storage.tasks.write import TaskWrite

TASKS_REST = "tasks-rest"
TASKS_GO_ON = "tasks-go-on"
TASKS_LEFT = "tasks-left"
TASKS_ARRIVE = "tasks-arrive"
"""Orders; the target is the provider."""
PAGE_ROWS = 200
_WHEN = ("every_seconds", "at_time", "cron", "timezone", "started_time")
_POLLED = ("asked_time", "polled", "texts", "pid", "urlkey", "polls", "seen_digest")
_COLUMNS: dict[str, tuple[str, ...]] = {
    "tasks": (*TASKS.columns, *_POLLED),
    "feeds": ("task", "policy", "record", "read_time", "changed_time"),
    "feeditems": (
        *("task", "identity", "change_number", "digest", "digest_before", "flaps", "link", "published", "found_time"),
        *("changed_time", "seen_time", "size_bytes", "record", "pid"),
    ),
    "sitemaps": (
        *("task", "site", "kind", "urls", "gone", "held", "left_out", "pid", "connorder", "read_time", "gone_time"),
        "confirmed",
    ),
    "sitemapurls": ("task", "bucket", "listed", "gone"),
    "texts": ("urlkey", "md5", "title", "language", "method", "cut", "made_time", "text"),
}
"""What moves, in this order."""
_KEYS = {
    "tasks": ("id",),
    "feeds": ("task",),
    "feeditems": ("task", "identity"),
    "sitemaps": ("task",),
    "sitemapurls": ("task", "bucket"),
    "texts": ("urlkey",),
}
_BYTES = frozenset({"urlkey", "seen_digest", "identity", "digest", "digest_before", "link", "listed", "gone"})
_OF_TASK = ("feeds", "feeditems", "sitemaps", "sitemapurls")
_OWN = "pid = ? AND kind <> ?"


class TaskRows(NamedTuple):
    """Rows of one table, as an order has them.

    :ivar rows: bytes are hexadecimal.
    """

    table: str
    rows: list[list[Any]]


# The source: read by its own queue manager, and by that of the destination.


def own_tasks(txn: Txn, pid: int) -> list[int]:
    """Tasks that move with this provider."""
    return [number for (number,) in txn.query(f"SELECT id FROM tasks WHERE {_OWN} ORDER BY id", [pid, ROBOTS])]


def at_rest(txn: Txn, pid: int) -> bool:
    """Whether none of its tasks is carried out, or will be, and all that came with it are here."""
    if is_ordered(txn, TASKS_ARRIVE, pid):
        return False
    sql = f"SELECT 1 FROM tasks WHERE {_OWN} AND (due_time IS NOT NULL OR look_time IS NOT NULL) LIMIT 1"
    if txn.one(sql, [pid, ROBOTS]) is not None:
        return False
    return not _open_jobs(txn, pid)


def is_ordered(txn: Txn, kind: str, pid: int) -> bool:
    """Whether such an order is open."""
    sql = "SELECT 1 FROM taskorders WHERE done_time IS NULL AND kind = ? AND target = ? LIMIT 1"
    return txn.one(sql, [kind, pid]) is not None


def resting(txn: Txn, pid: int) -> bool:
    """Whether tasks of it rest that should not."""
    return any(True for _ in _resting(txn, pid))


def _open_jobs(txn: Txn, pid: int) -> list[tuple[int, int, str]]:
    numbers = own_tasks(txn, pid)
    return txn.query_in("SELECT id, attempt, state FROM jobs WHERE opentask IN ({in})", numbers)


def _resting(txn: Txn, pid: int) -> Iterator[tuple[Any, ...]]:
    sql = (
        f"SELECT id, asked_time, {', '.join(_WHEN)} FROM tasks"
        f" WHERE {_OWN} AND state = ? AND due_time IS NULL ORDER BY id"
    )
    for row in txn.query(sql, [pid, ROBOTS, TaskState.ACTIVE.value]):
        if txn.one("SELECT 1 FROM jobs WHERE opentask = ?", [row[0]]) is None:
            yield row


def departing_tasks(txn: Txn, pid: int, table: str, after: Sequence[Any], limit: int = PAGE_ROWS) -> TaskRows:
    """The next rows of a table.

    :param after: key of the last one; empty: from the start.
    """
    columns, key = _COLUMNS[table], _KEYS[table]
    where, values = "1 = 1", []
    if table == "texts":
        first, last = provider_range(pid)
        where, values = "urlkey > ? AND urlkey <= ?", [first, last]
    else:
        numbers = own_tasks(txn, pid)
        if not numbers:
            return TaskRows(table, [])
        where, values = f"{key[0]} IN ({','.join(map(str, numbers))})", []
    if after:
        before = [bytes.fromhex(value) if name in _BYTES else value for name, value in zip(key, after, strict=True)]
        if len(key) == 1:
            where += f" AND {key[0]} > ?"
            values = [*values, before[0]]
        else:
            where += f" AND ({key[0]} > ? OR ({key[0]} = ? AND {key[1]} > ?))"
            values = [*values, before[0], before[0], before[1]]
    sql = f"SELECT {', '.join(columns)} FROM {table} WHERE {where} ORDER BY {', '.join(key)} LIMIT ?"
    rows = [
        [value.hex() if isinstance(value, bytes | bytearray) else value for value in row]
        for row in txn.query(sql, [*values, limit])
    ]
    return TaskRows(table, rows)


def key_of(table: str, row: Sequence[Any]) -> list[Any]:
    """Of a row of :class:`TaskRows`."""
    return [row[_COLUMNS[table].index(name)] for name in _KEYS[table]]


def tables() -> tuple[str, ...]:
    """That move, in this order."""
    return tuple(_COLUMNS)


# The destination.


def draw_ids(txn: Txn, count: int) -> list[int]:
    """Ids of new tasks."""
    return [draw(txn, TASK_IDS) for _ in range(count)]


def renumbered(found: TaskRows, ids: Mapping[int, int]) -> TaskRows:
    """The same, with the ids of tasks that they have at the destination."""
    columns = _COLUMNS[found.table]
    places = [columns.index(name) for name in ("id", "task", "site") if name in columns]
    rows = []
    for row in found.rows:
        new = list(row)
        for place in places:
            new[place] = ids.get(row[place], 0)
        rows.append(new)
    return TaskRows(found.table, rows)


# The scheduler's side.


def rest(write: TaskWrite, pid: int) -> list[int]:
    """Have the tasks of a provider rest: no new jobs, no polls; jobs that wait end, those that run go on.

    :returns: jobs that ended.
    """
    txn = write.txn
    ended = []
    for number, attempt, state in _open_jobs(txn, pid):
        if state != JobState.RUNNING.value:
            end_waiting(write, number, attempt, "its provider moves to another sub-LCC")
            ended.append(number)
    txn.execute(f"UPDATE tasks SET due_time = NULL, look_time = NULL WHERE {_OWN}", [pid, ROBOTS])
    return ended


def go_on(write: TaskWrite, first_due: Callable[[When, int], int | None], pid: int) -> None:
    """The provider stays: its tasks are due again as they were, one whose poll was open at once."""
    for number, asked, *when in list(_resting(write.txn, pid)):
        row = dict(zip(_WHEN, when, strict=True))
        due = write.now if asked is not None else _next_due(first_due, row, write.now)
        write.txn.execute("UPDATE tasks SET due_time = ?, asked_time = NULL WHERE id = ?", [due, number])


def _next_due(first_due: Callable[[When, int], int | None], row: Mapping[str, Any], now: int) -> int | None:
    """When a task is due that was started last as its row says, by the clock of where it comes from."""
    if row["every_seconds"] and row["started_time"] is not None:
        return int(max(now, min(now, row["started_time"]) + row["every_seconds"]))
    return first_due(When(row["every_seconds"], row["at_time"], row["cron"], row["timezone"]), now)


def arrive(write: TaskWrite, first_due: Callable[[When, int], int | None], found: TaskRows) -> None:
    """Add rows, unless they are there."""
    txn, table = write.txn, found.table
    columns, keys = _COLUMNS[table], _KEYS[table]
    for row in found.rows:
        values = [
            bytes.fromhex(value) if name in _BYTES and isinstance(value, str) else value
            for name, value in zip(columns, row, strict=True)
        ]
        new = dict(zip(columns, values, strict=True))
        where = " AND ".join(f"{name} = ?" for name in keys)
        if txn.one(f"SELECT 1 FROM {table} WHERE {where}", [new[name] for name in keys]) is not None:
            continue
        if table == "tasks":
            asked = new.pop("asked_time")
            if new["state"] == TaskState.ACTIVE.value:
                new["due_time"] = write.now if asked is not None else _next_due(first_due, new, write.now)
        if table == "feeditems":
            new["change_number"] = write.next("item")
        txn.insert(table, list(new), [list(new.values())])


def leave(write: TaskWrite, pid: int) -> None:
    """The provider is elsewhere, and so are its tasks; those that poll its robots.txt are of no use any longer."""
    txn = write.txn
    for number in own_tasks(txn, pid):
        for table in _OF_TASK:
            txn.execute(f"DELETE FROM {table} WHERE task = ?", [number])
        txn.execute("DELETE FROM tasks WHERE id = ?", [number])
    for (number,) in txn.query("SELECT id FROM tasks WHERE pid = ? AND kind = ?", [pid, ROBOTS]):
        remove_task(write, number)
    first, last = provider_range(pid)
    txn.execute("DELETE FROM texts WHERE urlkey > ? AND urlkey <= ?", [first, last])
