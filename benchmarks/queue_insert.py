"""Rows into the queue, as the storage inserts them, beside LOAD DATA of the same rows.

``python benchmarks/queue_insert.py [--rows 200000] [--batch 2000] [--runs 5]``

A private MariaDB that syncs each commit; in turn, each into an empty table: the storage inserts the rows in
transactions of ``[qm] absorb_batch``, in the order of their keys within each; mariadbd loads all of them from a file
in one transaction (the ceiling: nothing travels, nothing is parsed as SQL, one commit).  Last, for comparison, what
an absorb of as many new URLs takes: sets, rules, lookups and counters included, by the real storage without wires.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

from common import scratch
from growth.simulation import done_at_once
from queue_fill import queue_row
from rows import Row, add_options, at_least, give

from lcc.config import QmConfig
from lcc.domain.keys import url_key
from lcc.domain.rules import QueueRules
from lcc.domain.timeslots import TimeSlots
from lcc.model import KeyedNotice, SetHeader, SetPiece, UrlNotice
from lcc.storage.queue import QueueStore
from lcc.storage.rows import QUEUE_COLUMNS
from lcc.storage.transactions import Txn
from lcc.testing.inline_database import InlineDatabase
from lcc.testing.mariadb import PrivateMariaDb

NOW = 1_760_000_000
ROOT = "http://s{pid}.example/"
PID = 1


def insert(database: InlineDatabase, rows: int, batch: int) -> float:
    """Seconds that the storage takes."""

    def put(txn: Txn, some: list[tuple[object, ...]]) -> None:
        txn.insert("qdb", QUEUE_COLUMNS, some)

    batches = [
        sorted(queue_row(ROOT, PID, 1, seq) for seq in range(first, min(first + batch, rows + 1)))
        for first in range(1, rows + 1, batch)
    ]
    begun = time.perf_counter()
    for some in batches:
        database.now(put, some)
    return time.perf_counter() - begun


def load(server: PrivateMariaDb, name: str) -> float:
    """Seconds that LOAD DATA takes for what is in the queue; into an empty copy of its table."""
    path = server.folder / "data" / "rows"
    server.execute(f"SELECT * FROM {name}.qdb ORDER BY seq INTO OUTFILE '{path}'")
    server.execute(f"CREATE TABLE {name}.peer LIKE {name}.qdb")
    begun = time.perf_counter()
    server.execute(f"LOAD DATA INFILE '{path}' INTO TABLE {name}.peer")
    seconds = time.perf_counter() - begun
    path.unlink()
    server.execute(f"DROP TABLE {name}.peer")
    return seconds


def absorb(database: InlineDatabase, rows: int, batch: int) -> float:
    """Seconds that it takes to absorb one set with as many new URLs."""
    database.now(lambda txn: txn.execute("DELETE FROM qdb"))
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


def run(server: PrivateMariaDb, work: Path, rows: int, batch: int) -> dict[str, float]:
    """One turn of each: rows a second."""
    url = server.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    database = InlineDatabase(work, Random(1), url)
    try:
        columns = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")
        database.now(lambda txn: txn.insert("pidb", columns, [(PID, "", "", "", 0, 1, 0, 0)]))
        found = {"insert": rows / insert(database, rows, batch), "load": rows / load(server, name)}
        return found | {"absorb": rows / absorb(database, rows, batch)}
    finally:
        database.close()


def main() -> None:
    """Take turns, print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=QmConfig().absorb_batch)
    add_options(parser)
    options = parser.parse_args()
    runs = []
    with (
        scratch() as folder,
        PrivateMariaDb(durable=True, log_mib=1024) as server,
    ):
        run(server, folder, options.batch * 5, options.batch)  # warms up
        for _ in range(options.runs):
            runs.append(run(server, folder, options.rows, options.batch))
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
