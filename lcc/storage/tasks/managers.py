"""Managers of jobs, as the scheduler knows them: the table ``managers``.

Anyone may read them with :func:`managers`; what they mean is in :class:`lcc.model.tasks.ManagerStatus`::

    for each in await database.interact(managers):
        print(each.name, each.host, each.state(now).value, each.since(now), each.running)

A manager that is down stays for a week after it was heard of last; then its row is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lcc.model.tasks import JobState, KindLimits, ManagerStatus
from lcc.storage.database.table import Table
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.write import TaskWrite

_MANAGERS = Table(
    "managers",
    ["name"],
    (
        *("name", "host", "run", "first_time", "started_time", "heard_time", "down_time", "paused", "capacity"),
        "kinds",
    ),
)
_UPDATED = _MANAGERS.without(["name", "first_time"])


def managers(txn: Txn) -> list[ManagerStatus]:
    """All that are up, and those that were heard of lately, by name; each with the jobs that it has."""
    sql = "SELECT manager, COUNT(*) FROM jobs WHERE state = ? GROUP BY manager"
    running = dict(txn.query(sql, [JobState.RUNNING.value]))
    found = []
    for row in txn.query(f"{_MANAGERS.select} ORDER BY name"):
        fields: dict[str, Any] = dict(zip(_MANAGERS.columns, row, strict=True))
        fields["kinds"] = tuple(KindLimits(*each) for each in json.loads(fields["kinds"]))
        found.append(ManagerStatus(**fields, running=running.get(fields["name"], 0)))
    return found


def save_managers(
    write: TaskWrite, changed: Sequence[ManagerStatus], heard: Sequence[str], kept_seconds: int
) -> None:
    """Write what has become of managers, and that the scheduler itself is heard of.

    :param heard: names of those that are connected, and were heard of just now.
    :param kept_seconds: how long the row of one that is down is kept after it was heard of last.
    """
    rows = [
        (
            *(each.name, each.host, each.run, each.first_time, each.started_time, each.heard_time, each.down_time),
            *(each.paused, each.capacity, json.dumps(each.kinds, separators=(",", ":"), ensure_ascii=False)),
        )
        for each in changed
    ]
    _MANAGERS.upsert(write.txn, rows, _UPDATED)
    write.heard()
    write.txn.execute_in("UPDATE managers SET heard_time = ? WHERE name IN ({in})", list(heard), [write.now])
    sql = "DELETE FROM managers WHERE down_time IS NOT NULL AND heard_time <= ?"
    write.txn.execute(sql, [write.now - kept_seconds])
