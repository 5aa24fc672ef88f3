"""Rows into the queue, as the storage inserts them, beside LOAD DATA of the same rows.

``python benchmarks/queue_insert.py [--rows 200000] [--batch 2000] [--runs 5]``

A private MariaDB that syncs each commit; in turn (another one first each time), each into an empty table: the storage
inserts the rows in transactions of ``[qm] absorb_batch``, in the order of their keys within each; mariadbd loads all
of them from a file, in the order of their keys, in one transaction (the ceiling: nothing travels, nothing is parsed
as SQL, one commit).  Last, for comparison, into a database of its own, what an absorb of as many new URLs takes:
sets, rules, lookups and counters included, by the real storage without wires.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from common import argument_parser, scratch
from growth.simulation import done_at_once
from queue_fill import queue_row
from rows import Row, add_options, at_least, give

from lcc.config import QmConfig
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import url_key
from lcc.domain.notices.rules import QueueRules
from lcc.model import KeyedNotice, SetHeader, SetPiece, UrlNotice
from lcc.storage.database.tables.rows import QUEUE
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.store import QueueStore
from lcc.testing.inline_database import InlineDatabase
from lcc.testing.mariadb import PrivateMariaDb

NOW = 1_760_000_000
ROOT = "http://s{pid}.example/"
PID = 1


def insert(database: InlineDatabase, rows: int, batch: int) -> float:
    """Seconds that the storage takes."""

    def put(txn: Txn, some: list[tuple[object, ...]]) -> None:
        QUEUE.insert(txn, some)

    batches = [
        sorted(queue_row(ROOT, PID, 1, seq) for seq in range(first, min(first + batch, rows + 1)))
        for first in range(1, rows + 1, batch)
    ]
    begun = time.perf_counter()
    for some in batches:
        database.now(put, some)
    return time.perf_counter() - begun


def rows_file(server: PrivateMariaDb, work: Path, rows: int, batch: int) -> Path:
    """The rows in a file of mariadbd, by their keys."""
    path = server.folder / "data" / f"rows{rows}"
    with fresh(server, work) as (database, name):
        insert(database, rows, batch)
        server.execute(f"SELECT * FROM {name}.qdb ORDER BY urlkey INTO OUTFILE '{path}'")
    return path


def load(server: PrivateMariaDb, name: str, path: Path) -> float:
    """Seconds that LOAD DATA takes for the rows of the file, into an empty copy of the queue's table."""
    server.execute(f"CREATE TABLE {name}.peer LIKE {name}.qdb")
    begun = time.perf_counter()
    server.execute(f"LOAD DATA INFILE '{path}' INTO TABLE {name}.peer")
    return time.perf_counter() - begun


def absorb(database: InlineDatabase, rows: int, batch: int) -> float:
    """Seconds that it takes to absorb one set with as many new URLs."""
    columns = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")
    database.now(lambda txn: txn.insert("pidb", columns, [(PID, "", "", "", 0, 1, 0, 0)]))
    root = ROOT.format(pid=PID)
    database.now(lambda txn: txn.insert("proots", ("pid", "position", "root"), [(PID, 0, root)]))
    settings = QmConfig()
    store = QueueStore(database, QueueRules.configured(settings, TimeSlots(24, 3600, "UTC")), settings)  # type: ignore[arg-type]
    done_at_once(store.claim(NOW))
    header = SetHeader("uns", "bench", 1, PID, 1, False, 0, False, NOW)
    pieces = []
    for first in range(0, rows, batch):
        urls = [f"http://s{PID}.example/other/page{seq}.html" for seq in range(first, min(first + batch, rows))]
        notices = tuple(
            KeyedNotice(url_key(PID, url, "text/html"), UrlNotice(url, mimetype="text/html", sent="[]"))
            for url in urls
        )
        pieces.append(SetPiece(header, first, notices, first + len(notices) == rows))
    begun = time.perf_counter()
    for piece in pieces:
        done_at_once(store.absorb([piece], NOW))
    seconds = time.perf_counter() - begun
    queued = done_at_once(store.queue_size())
    assert queued == rows, f"{queued} rows are queued of {rows}"
    return seconds


@contextmanager
def fresh(server: PrivateMariaDb, work: Path) -> Iterator[tuple[InlineDatabase, str]]:
    """A new database, and its name."""
    url = server.new_database()
    database = InlineDatabase(work, Random(1), url)
    try:
        yield database, url.partition("?")[0].rpartition("/")[2]
    finally:
        database.close()


def run(server: PrivateMariaDb, work: Path, rows: int, batch: int, path: Path, turn: int) -> dict[str, float]:
    """One turn of each: rows a second.

    :param path: of :func:`rows_file`.
    """
    seconds = {}
    with fresh(server, work) as (database, name):
        ways: dict[str, tuple[str, Callable[[], float]]] = {
            "insert": ("qdb", lambda: insert(database, rows, batch)),
            "load": ("peer", lambda: load(server, name, path)),
        }
        for way in sorted(ways, reverse=turn % 2 == 1):
            table, work_of = ways[way]
            seconds[way] = work_of()
            count = server.execute(f"SELECT COUNT(*) FROM {name}.{table}")[0][0]
            if count != rows:
                raise SystemExit(f"{way}: {count} rows are there of {rows}")
    with fresh(server, work) as (database, _):
        seconds["absorb"] = absorb(database, rows, batch)
    return {way: rows / taken for way, taken in seconds.items()}


def main() -> None:
    """Take turns, print the rows."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=QmConfig().absorb_batch)
    add_options(parser)
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with (
        scratch() as folder,
        PrivateMariaDb(durable=True, log_mib=1024) as server,
    ):
        few = options.batch * 5  # warms up
        run(server, folder, few, options.batch, rows_file(server, folder, few, options.batch), 0)
        path = rows_file(server, folder, options.rows, options.batch)
        for turn in range(options.runs):
            runs.append(run(server, folder, options.rows, options.batch, path, turn))
            print(" ".join(f"{name} {rate:.0f}/s" for name, rate in runs[-1].items()), file=sys.stderr)
    note, loaded = f"{options.rows:,} rows, {options.batch} a transaction", [each["load"] for each in runs]
    give(
        options,
        [
            Row(
                "queue insert, against LOAD DATA",
                "rows/s",
                [each["insert"] for each in runs],
                "LOAD DATA of the same rows",
                loaded,
                at_least(0.45),
                note=note,
            ),
            Row(
                "absorb of new URLs by the storage",
                "URLs/s",
                [each["absorb"] for each in runs],
                "LOAD DATA of the same rows",
                loaded,
                note=note,
            ),
        ],
    )


if __name__ == "__main__":
    main()
