"""A database with very many providers and queued URLs, as it stands after their sets were absorbed."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

from lcc.config import DatabaseConfig
from lcc.domain.keys import url_key
from lcc.model import FETCH_NOW, UrlNotice
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.tables.rows import FETCH, QUEUE, SETS, notice_values
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.maintenance.housekeeping import FULL_SETS_SECONDS, JOBS

PIDS_AT_ONCE = 500
ROOT = "http://s{pid}.example/"
_ZEROS = QUEUE.columns.index("source") - QUEUE.columns.index("connseq") - 1
"""Columns that count what has not happened yet."""


def opened(url: str, home: Path) -> BlockingDatabase:
    """A connection to this database."""
    return BlockingDatabase(url, home, DatabaseConfig(), random=Random())


def fill(url: str, home: Path, providers: int, urls: int, root: str = ROOT) -> None:
    """Fill the tables: a set for each provider, its rows as lcc-admin and the queue manager would have written them.

    :param root: of a provider, with ``{pid}`` in it.

    The sets came in another order than the providers: who comes to his turn is no neighbour of who came before.
    """
    each = urls // providers
    psetids = list(range(1, providers + 1))
    Random(providers).shuffle(psetids)
    database = opened(url, home)
    try:
        for first in range(1, providers + 1, PIDS_AT_ONCE):
            last = min(first + PIDS_AT_ONCE, providers + 1)
            database.write(_fill_some, {pid: psetids[pid - 1] for pid in range(first, last)}, each, root)
        counters = {"psetid": providers + 1, "queued": each * providers, "batch": 10}
        database.write(lambda txn: txn.upsert("counters", ("name", "value"), list(counters.items()), ("name",)))
    finally:
        database.close()


def _fill_some(txn: Txn, sets: dict[int, int], each: int, root: str) -> None:
    columns = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")
    txn.insert("pidb", columns, [(pid, "", "", "", 0, 1, 0, 0) for pid in sets])
    txn.insert("proots", ("pid", "position", "root"), [(pid, 0, root.format(pid=pid)) for pid in sets])
    txn.insert("pstats", ("pid", "nurlproc"), [(pid, each) for pid in sets])
    rows = [(psetid, FETCH_NOW, pid, 0, 1, 0, 1, each, each, 1) for pid, psetid in sets.items()]
    SETS.insert(txn, rows)
    for pid, psetid in sets.items():
        QUEUE.insert(txn, sorted(queue_row(root, pid, psetid, seq) for seq in range(1, each + 1)))


def queue_row(root: str, pid: int, psetid: int, seq: int) -> tuple[Any, ...]:
    """A row of the queue, in the order of :data:`QUEUE`."""
    curl = f"{root.format(pid=pid)}docs/part{seq % 10}/page{seq}.html"
    notice = UrlNotice(curl, mimetype="text/html", sent=f'["c","page{seq}.html"]')
    place = (url_key(pid, curl, "text/html"), pid, psetid, FETCH_NOW, seq, FETCH)
    return (*place, 1, 1, *[0] * _ZEROS, 1, "", *notice_values(notice))


def note_chores_done(url: str, home: Path) -> None:
    """Note the chores of the background as just done."""
    due = int(time.time()) + FULL_SETS_SECONDS
    rows = [(name, due, b"") for name in JOBS]
    database = opened(url, home)
    try:
        database.write(lambda txn: txn.upsert("chores", ("name", "due", "progress"), rows, ("name",)))
    finally:
        database.close()
