"""What content users of a front end cost: everything over four sub-LCCs beside one LCC; nothing new over sixteen; and
a large provider that has moved.

``python benchmarks/front_content_users.py [--rows 400000] [--arrived 100000] [--questions 300] [--sqlite]``

Real ``lcc-cu`` and ``lcc-fe-cu`` processes answer over HTTP on a UNIX socket; this process asks and throws away what
it reads.

All rows (``/urls``), and all changes (``/changes?since=0``), are JSON lines: rows for each second of the CPU of
``lcc-cu`` over one cache, and of ``lcc-fe-cu`` over four with a quarter of the rows each, in turns.  Nothing new is
``/changes`` with a token that is up to date, one question after the other; then the first one after a provider has
moved, of which no page has changed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random

from cache_fill import ROWS_AT_ONCE, TIME, cache_row, fill_cache, page_url
from common import argument_parser, cpu_seconds_of, scratch
from content_users import BIN, PIECE_BYTES, WARM_UP, Lcc, Process
from queue_fill import opened
from rows import Row, add_options, at_least, at_most, give

from lcc.client.blocking import Cache, UnixConnection
from lcc.config import DatabaseConfig
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import FE
from lcc.storage.database.transactions import Txn
from lcc.testing.mariadb import PrivateMariaDb

FEW, MANY = 4, 16
SMALL_ROWS = 1_000
PIDS_EACH = 1_000
MOVED = 900
"""A provider of the first one, which has moved to the second."""


class Front:
    """A front end over some LCCs, and what asks its ``lcc-fe-cu``."""

    def __init__(self, folder: Path, url: str, subs: list[Lcc]) -> None:
        folder.mkdir()
        self.folder = folder
        self.socket = folder / "lcc-home" / "cu.sock"
        self.socket.parent.mkdir()
        config = folder / "lcc.toml"
        config.write_text(f'[fe]\ndatabase = "{url}"\n')
        admin = [BIN / "lcc-admin", "--config", config, "fe"]
        subprocess.run([*admin, "init"], check=True, capture_output=True)
        for number, lcc in enumerate(subs):
            (folder / "url").write_text(lcc.url.replace("sqlite:", f"sqlite:{lcc.home}/"))
            first = number * PIDS_EACH + 1
            pids = ("--pids", f"{first}-{first + PIDS_EACH - 1}")
            name = f"s{number + 1}"
            add = [*admin, "add", name, "--uns", "tcp:127.0.0.1:9000", "--database-file", folder / "url", *pids]
            subprocess.run(add, check=True, capture_output=True)

    @contextmanager
    def answering(self) -> Iterator[Process]:
        """A ``lcc-fe-cu`` that runs, and was asked something already."""
        process = Process("lcc-fe-cu", self.folder, self.socket)
        try:
            with self.cache() as cache:
                list(cache.urls(limit=1000))
            yield process
        finally:
            process.stop()

    def cache(self) -> Cache:
        """The cache, to be asked for rows."""
        return Cache(f"unix:{self.socket}")

    def connection(self) -> UnixConnection:
        """A connection to it."""
        return UnixConnection(str(self.socket), 300)


def read_all(site: Lcc | Front, path: str, rows: int) -> float:
    """Rows for each second of CPU, of a fresh process."""
    with site.answering() as process, closing(site.connection()) as connection:
        used, lines, last = cpu_seconds_of(process.pid), 0, b""
        connection.request("GET", path)
        response = connection.getresponse()
        while piece := response.read(PIECE_BYTES):
            lines += piece.count(b"\n")
            last = (last + piece)[-2000:]
        used = cpu_seconds_of(process.pid) - used
    if lines != rows + 1 or b'{"next":' not in last:
        raise SystemExit(f"{lines} lines instead of {rows} and the end: {last!r}")
    return rows / used


def next_token(connection: UnixConnection, token: str) -> tuple[int, str]:
    """How many rows there are since then, and the new token."""
    connection.request("GET", f"/changes?since={token}")
    *rows, end = connection.getresponse().read().splitlines()
    return len(rows), json.loads(end)["next"]


def ask_in_vain(front: Front, questions: int) -> tuple[float, float]:
    """Milliseconds to the answer, and of CPU, of a question with a token that is up to date."""
    with front.answering() as process, closing(front.connection()) as connection:
        _, token = next_token(connection, "0")
        times = []
        for number in range(-WARM_UP, questions):
            if not number:
                used = cpu_seconds_of(process.pid)
            began = time.monotonic()
            rows, token = next_token(connection, token)
            times.append(time.monotonic() - began)
            if rows:
                raise SystemExit(f"{rows} rows instead of none")
        used = cpu_seconds_of(process.pid) - used
    return 1000 * statistics.median(times[WARM_UP:]), 1000 * used / questions


def ask_after_a_move(front: Front, front_url: str, dest: Lcc, rows: int) -> float:
    """Milliseconds of CPU of the first such question after a provider has moved."""
    with front.answering() as process, closing(front.connection()) as connection:
        _, token = next_token(connection, "0")
        database = opened(dest.url, dest.home)
        try:
            for first in range(1, rows + 1, ROWS_AT_ONCE):
                database.write(_arrive, range(first, min(first + ROWS_AT_ONCE, rows + 1)))
            database.write(_note, "flips", (1, MOVED, 1, 1, 2, TIME))
        finally:
            database.close()
        settings = DatabaseConfig()
        there = BlockingDatabase(front_url, front.socket.parent, settings, random=Random(), series=FE)
        try:
            there.write(_note, "moves", (1, MOVED, 1, 2, 1, "done", 2, TIME, TIME, "{}", ""))
        finally:
            there.close()
        time.sleep(2)
        used = cpu_seconds_of(process.pid)
        found, _ = next_token(connection, token)
        used = cpu_seconds_of(process.pid) - used
    if found:
        raise SystemExit(f"{found} rows instead of none")
    return 1000 * used


def _arrive(txn: Txn, numbers: range) -> None:
    """So many pages of a provider, which last changed where it was, before anybody asked."""
    rows = [cache_row(MOVED, page_url(number), SMALL_ROWS + number) for number in numbers]
    rows.sort(key=lambda row: bytes(row["urlkey"]))
    txn.insert("lccurl", list(rows[0]), [list(row.values()) for row in rows])
    origins = [(row["urlkey"], row["change_number"], 1, 1) for row in rows]
    txn.insert("origins", ("urlkey", "change_number", "subid", "number"), origins)
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [SMALL_ROWS + numbers[-1]])


def _note(txn: Txn, name: str, row: tuple[object, ...]) -> None:
    columns = {
        "flips": ("flip", "pid", "subid", "arrived", "epoch", "time"),
        "moves": (
            *("id", "pid", "source", "dest", "flip", "state", "epoch", "made_time", "changed_time", "progress"),
            "why",
        ),
    }
    txn.insert(name, columns[name], [row])


def main() -> None:
    """Measure."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--arrived", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    add_options(parser, runs=3)
    options = parser.parse_args()
    paths = {"everything": "/urls", "all changes": "/changes?since=0"}
    alone: dict[str, list[float]] = {name: [] for name in paths}
    several: dict[str, list[float]] = {name: [] for name in paths}
    with scratch() as work, ExitStack() as stack:
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))

        def front(name: str, subs: int, rows: int) -> tuple[Front, str, list[Lcc]]:
            lccs = [Lcc(server, work / f"{name}{number}") for number in range(subs)]
            for number, lcc in enumerate(lccs):
                fill_cache(lcc.url, lcc.home, rows, number * PIDS_EACH + 1)
            url = f"sqlite:{work}/{name}.sqlite" if server is None else server.new_database()
            return Front(work / name, url, lccs), url, lccs

        one = Lcc(server, work / "one")
        fill_cache(one.url, one.home, options.rows)
        four, _, _ = front("few", FEW, options.rows // FEW)
        sixteen, url, subs = front("many", MANY, SMALL_ROWS)
        asked = []
        for _ in range(options.runs):
            for name, path in paths.items():
                alone[name].append(read_all(one, path, options.rows))
                several[name].append(read_all(four, path, options.rows))
                print(name, alone[name][-1], several[name][-1], file=sys.stderr)
            asked.append(ask_in_vain(sixteen, options.questions))
            print(asked[-1], file=sys.stderr)
        after = ask_after_a_move(sixteen, url, subs[1], options.arrived)
    note = f"{options.rows:,} rows"
    rows = [
        Row(
            f"{name} of {FEW} sub-LCCs",
            "rows/s CPU",
            several[name],
            "lcc-cu, one LCC",
            alone[name],
            at_least(0.9),
            note=note,
        )
        for name in paths
    ]
    rows.append(Row(f"nothing new over {MANY} sub-LCCs", "ms", [wall for wall, _ in asked], goal=at_most(10)))
    rows.append(Row(f"CPU for nothing new over {MANY} sub-LCCs", "ms", [cpu for _, cpu in asked]))
    moved = f"a provider of {options.arrived:,} pages"
    rows.append(Row("CPU for nothing new after a move", "ms", [after], note=moved))
    give(options, rows)


if __name__ == "__main__":
    main()
