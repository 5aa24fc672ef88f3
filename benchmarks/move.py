"""What a move of a provider to another LCC costs: its rows, its pages, the others' throughput, and how long it stands
still; beside a dump and a load of the same tables, and ``rsync -a`` of the same files.

``python benchmarks/move.py [--rows 1000000] [--pages 100000] [--others 50000] [--pairs 5] [--freezes 20]
[--parts rows,pages,others,freezes] [--mariadb]``

Two LCCs of real processes on SQLite, or on a private MariaDB that syncs each commit, and a front end's database on
SQLite.  Their CPU is that of all their processes, MariaDB's included, from the order of the move to its end.  The
rows of the first part are of deleted pages, so no content is copied; in the second each has a file of 10 KiB.  The
peer is the database's own program, ``.dump`` or ``mariadb-dump`` into a new database, and ``rsync``.

Third, other providers' pages are fetched from nginx at the first LCC, while nobody moves and while one does, in turn;
the second one, which would be another machine, runs at the lowest priority then (nice 19).

Fourth, a provider with few rows and the one with all of the first part move again and again; it stands still while
the front end holds its logins (``pmdb.state``).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from hashlib import md5
from pathlib import Path
from typing import Any

from cache_fill import cache_row
from common import argument_parser, cpu_seconds_of, free_port, nginx, scratch
from lcc_site import BIN, EVER_NEW, LccSite
from queue_fill import fill, note_chores_done
from rows import Goal, Row, add_options, at_least, at_most, give

from lcc.storage.database.transactions import Txn
from lcc.storage.disk.content_paths import content_path
from lcc.storage.providers.pid_range import highest_pid
from lcc.testing.mariadb import PrivateMariaDb

ONE, TWO = 1, 2
MACHINES = {ONE: 1, TWO: 10_001}
PIDS = 10_000_000
"""Ids of providers that each LCC has."""
FIRST_FILE = 1_000_000_000
"""Robots make files from 1 on."""
PAGE_BYTES = 10_240
AT_ONCE = 20_000
LOOK_SECONDS = 0.002
MOVE_SECONDS_MAX = 3600.0
OTHERS = 100
PAGES_OF_OTHERS = 1000
"""Of each."""
INTERVAL_SECONDS = 4.0
SETTLING_SECONDS = 10.0
FEW_ROWS = 100
STANDING_STILL_MS = 2000


PARTS = ("rows", "pages", "others", "freezes")


class World:
    """Two LCCs behind a front end.

    :param server: of their databases; None: SQLite.
    """

    def __init__(self, folder: Path, server: PrivateMariaDb | None) -> None:
        self.folder = folder
        self.server = server
        folder.mkdir()
        self.front = folder / "fe.sqlite"
        self.sites: dict[int, LccSite] = {}
        self.config = folder / "front-end.toml"
        self.config.write_text(f'home = "home"\n[fe]\ndatabase = "sqlite:{self.front}"\n')
        self.admin("fe", "init")
        for number, machine in MACHINES.items():
            port = free_port()
            settings = {
                "fe": {"database": f"sqlite:{self.front}", "name": f"s{number}", "report_interval": 1.0},
                "botm": {"machine": machine, "content_listen": f"tcp:{port}:interface=127.0.0.1"},
            }
            url = None if server is None else server.new_database()
            site = self.sites[number] = LccSite(folder / f"s{number}", url, settings, roles=("qm", "botm", "bot"))
            options = ("--uns", f"tcp:127.0.0.1:{site.port}", "--content", f"http://127.0.0.1:{port}")
            self.admin("fe", "add", f"s{number}", "--database", url or f"sqlite:{site.home}/lcc.db", *options)

    def admin(self, *words: str) -> None:
        """``lcc-admin`` of the front end."""
        subprocess.run([BIN / "lcc-admin", "--config", self.config, *words], check=True, capture_output=True)

    def start(self) -> None:
        for site in self.sites.values():
            note_chores_done(site.url, site.home)
            site.start()
        time.sleep(2.0)  # until both have reported

    def stop(self) -> None:
        for site in self.sites.values():
            site.stop()

    def cpu_seconds(self) -> float:
        return sum(sum(site.cpu_seconds().values()) for site in self.sites.values()) + _cpu_of(self.server)

    def order(self, pid: int, to: int) -> None:
        self.admin("move", str(pid), "--to", f"s{to}")

    def move(self, pid: int, to: int) -> dict[str, float]:
        """Seconds, CPU seconds, how long it stood still (milliseconds), and how long its rows took to arrive then."""
        cpu, begun = self.cpu_seconds(), time.monotonic()
        self.order(pid, to)
        still = arriving = 0.0
        last = time.monotonic()
        with closing(sqlite3.connect(f"file:{self.front}?mode=ro", uri=True)) as front:
            while True:
                state = front.execute("SELECT state FROM moves WHERE pid = ? ORDER BY id DESC", [pid]).fetchone()[0]
                place = front.execute("SELECT state FROM pmdb WHERE pid = ?", [pid]).fetchone()
                now = time.monotonic()
                if place is not None and place[0] == "frozen":
                    still += now - last
                if state == "flipped":
                    arriving += now - last
                last = now
                if state == "done":
                    break
                if state == "cancelled" or now > begun + MOVE_SECONDS_MAX:
                    why = front.execute("SELECT why FROM moves WHERE pid = ? ORDER BY id DESC", [pid]).fetchone()[0]
                    raise SystemExit(f"provider {pid} was not moved: {state} {why}")
                time.sleep(LOOK_SECONDS)
        return {"seconds": now - begun, "cpu": self.cpu_seconds() - cpu, "still": 1000 * still, "arriving": arriving}

    def put(self, number: int, pid: int, rows: int, pages: int) -> None:
        """A provider with so many rows of deleted pages, and so many pages with their files."""
        site = self.sites[number]
        root = f"http://p{pid}.example/"
        content = site.home / "content"

        def provider(txn: Txn) -> None:
            columns = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")
            txn.upsert("pidb", columns, [(pid, "", "", "", 0, 1, 0, 0)], ("pid",))
            txn.insert("proots", ("pid", "position", "root"), [(pid, 0, root)])
            # Whoever carries the content of one that comes here gets an id that nobody has.
            txn.execute("UPDATE meta SET value = ? WHERE name = 'pid'", [str(max(pid, highest_pid(txn)))])
            counted = (pid, pages, pages * PAGE_BYTES)
            txn.upsert("pstats", ("pid", "files_used", "space_used"), [counted], ("pid",))

        site.database.write(provider)
        before = site.changes()
        for first in range(0, rows + pages, AT_ONCE):
            found = []
            for index in range(first, min(first + AT_ONCE, rows + pages)):
                row = cache_row(pid, f"{root}{index}.html", before + index + 1)
                if index < rows:
                    row |= {"state": 0, "fetched_fileid": None, "fetched_machineid": None, "len": None, "md5": ""}
                else:
                    data = (f"{pid}/{index} " * PAGE_BYTES)[:PAGE_BYTES].encode()
                    file = FIRST_FILE + index
                    path = content / content_path(file)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                    digest = md5(data).hexdigest()
                    row |= {"fetched_fileid": file, "fetched_machineid": MACHINES[number], "md5": digest}
                    row |= {"told_md5": digest}
                found.append(row)
            site.database.write(_put, found, before + index + 1)

    def count(self, number: int, pid: int) -> int:
        """Rows of a provider."""
        sql = "SELECT COUNT(*) FROM lccurl WHERE pid = ?"
        return int(self.sites[number].database.interact(lambda txn: txn.value(sql, [pid])))


def _put(txn: Txn, rows: list[dict[str, Any]], change: int) -> None:
    ordered = sorted((list(row.values()) for row in rows), key=lambda values: bytes(values[0]))
    txn.insert("lccurl", list(rows[0]), ordered)
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [change])


def dump_and_load(world: World, work: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of the database's own programs."""
    work.mkdir()
    site, server = world.sites[ONE], world.server
    if server is None:
        return _run(f"sqlite3 {site.home / 'lcc.db'} .dump | sqlite3 {work / 'loaded.db'}")
    source, target = (url.partition("?")[0].rpartition("/")[2] for url in (site.url, server.new_database()))
    login = f"--no-defaults --socket={server.socket} --user=root"
    return _run(f"mariadb-dump {login} {source} | mariadb {login} {target}", server)


def copy_files(site: LccSite, work: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of ``rsync -a``."""
    return _run(f"rsync -a {site.home}/content {work}/")


def _run(command: str, server: PrivateMariaDb | None = None) -> tuple[float, float]:
    before, begun = _cpu_of_children() + _cpu_of(server), time.monotonic()
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun, _cpu_of_children() + _cpu_of(server) - before


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_of(server: PrivateMariaDb | None) -> float:
    return 0.0 if server is None or server.process is None else cpu_seconds_of(server.process.pid)


def one_move(folder: Path, server: PrivateMariaDb | None, rows: int, pages: int) -> dict[str, float]:
    """Move a provider with these, beside the peers."""
    world = World(folder, server)
    try:
        world.put(ONE, 1, rows, pages)
        load_seconds, load_cpu = dump_and_load(world, folder / "load")
        copy_seconds, copy_cpu = copy_files(world.sites[ONE], folder / "load") if pages else (0.0, 0.0)
        world.start()
        found = world.move(1, TWO)
        if world.count(TWO, 1) != rows + pages or world.count(ONE, 1):
            raise SystemExit("the rows are not where they should be")
    finally:
        world.stop()
    peer = {"peer_seconds": load_seconds + copy_seconds, "peer_cpu": load_cpu + copy_cpu}
    return found | peer


def others(folder: Path, server: PrivateMariaDb | None, moved: int, pairs: int) -> dict[str, list[float]]:
    """Pages a second of other providers at the first LCC, while nobody moves and while one does, in turn.

    It comes back after it has left, so that the first LCC is the source of one move and the destination of the next.
    The others have an interval, and leave more than half of a core idle: what is measured is what a move takes from
    them, not how fast this machine is just now.
    """
    world = World(folder, server)
    site = world.sites[ONE]
    pid = OTHERS + 1
    found: dict[str, list[float]] = {"free": [], "busy": [], "cores": []}
    with nginx(folder, folder / "nginx", EVER_NEW) as port:
        try:
            fill(site.url, site.home, OTHERS, PAGES_OF_OTHERS * OTHERS, f"http://127.0.0.1:{port}/p{{pid}}/")
            site.database.write(lambda txn: txn.execute("UPDATE pidb SET interval_seconds = ?", [INTERVAL_SECONDS]))
            world.put(ONE, pid, moved, 0)
            world.start()
            for process in world.sites[TWO].processes.values():
                os.setpriority(os.PRIO_PROCESS, process.pid, 19)
            _rested(world, SETTLING_SECONDS)
            before, _ = _rested(world, SETTLING_SECONDS)
            for number in range(pairs):
                first = _fetched(site)
                moving = world.move(pid, TWO if number % 2 == 0 else ONE)
                busy = (_fetched(site) - first) / moving["seconds"]
                after, cores = _rested(world, max(SETTLING_SECONDS, moving["seconds"]))
                found["busy"].append(busy)
                found["free"].append((before + after) / 2)
                found["cores"].append(cores)
                before = after
        finally:
            world.stop()
    return found


def _fetched(site: LccSite) -> int:
    """Pages of other providers."""
    sql = "SELECT COUNT(*) FROM lccurl WHERE pid <= ? AND state = 1"
    return int(site.database.interact(lambda txn: txn.value(sql, [OTHERS])))


def _rested(world: World, seconds: float) -> tuple[float, float]:
    """Pages a second while nobody moves, and how many cores both LCCs use."""
    site = world.sites[ONE]
    first, cpu, begun = _fetched(site), world.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    site.check()
    took = time.monotonic() - begun
    return (_fetched(site) - first) / took, (world.cpu_seconds() - cpu) / took


def freezes(folder: Path, server: PrivateMariaDb | None, rows: int, times: int) -> dict[str, list[float]]:
    """How long a small provider and a large one stand still, each so many times: milliseconds."""
    world = World(folder, server)
    found: dict[str, list[float]] = {"few": [], "many": []}
    try:
        world.put(ONE, 1, FEW_ROWS, 0)
        world.put(ONE, 2, rows, 0)
        world.start()
        for number in range(times):
            to = TWO if number % 2 == 0 else ONE
            found["few"].append(world.move(1, to)["still"])
            found["many"].append(world.move(2, to)["still"])
    finally:
        world.stop()
    return found


def main() -> None:
    """Measure all, and give the rows."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--others", type=int, default=50_000, help="rows that move while others are fetched")
    parser.add_argument("--pairs", type=int, default=5, help="times others are fetched without a move, and with one")
    parser.add_argument("--freezes", type=int, default=20)
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, separated by commas")
    parser.add_argument("--mariadb", action="store_true", help="MariaDB instead of SQLite")
    add_options(parser)
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    if unknown := set(options.parts) - {*PARTS}:
        parser.error(f"no such parts: {', '.join(sorted(unknown))}")
    dump = ("mariadb-dump", "mariadb-client") if options.mariadb else ("sqlite3", "sqlite3")
    for program, package in (dump, ("rsync", "rsync")):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed: apt-get install {package}")
    runs: list[dict[str, Any]] = []
    for _ in range(options.runs):
        with scratch() as work, PrivateMariaDb(durable=True) if options.mariadb else nullcontext() as server:
            runs.append(_turn(work, server, options))
    give(options, _rows(runs, options))


def _turn(work: Path, server: PrivateMariaDb | None, options: argparse.Namespace) -> dict[str, Any]:
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "rows": lambda folder: one_move(folder, server, options.rows, 0),
        "pages": lambda folder: one_move(folder, server, 0, options.pages),
        "others": lambda folder: others(folder, server, options.others, options.pairs),
        "freezes": lambda folder: freezes(folder, server, options.rows, options.freezes),
    }
    return {name: parts[name](work / name) for name in PARTS if name in options.parts}


def _rows(runs: list[dict[str, Any]], options: argparse.Namespace) -> list[Row]:
    def against(name: str, part: str, unit: str, count: int, peer: str, goal: Goal | None, scale: float) -> Row:
        ours = [scale * run[part][unit] / count for run in runs]
        theirs = [scale * run[part][f"peer_{unit}"] / count for run in runs]
        label = "µs" if scale == 1e6 else "s"
        return Row(
            name, label, ours, peer, theirs, goal, note=f"{options.rows if part == 'rows' else options.pages:,}"
        )

    load, both = "dump and load", "these and rsync -a"
    cores = [each for run in runs if "others" in run for each in run["others"]["cores"]]
    few, many = ([max(run["freezes"][kind]) for run in runs if "freezes" in run] for kind in ("few", "many"))
    rows: dict[str, Callable[[], list[Row]]] = {
        "rows": lambda: [
            against("CPU of a row that moves", "rows", "cpu", options.rows, load, at_most(2, of_ratio=True), 1e6),
            against("time of rows that move", "rows", "seconds", 1, load, None, 1),
            Row(
                "rows that arrive after the flip",
                "rows/s",
                [options.rows / run["rows"]["arriving"] for run in runs],
                note=f"{options.rows:,}; until the last one is there the provider is not fetched",
            ),
        ],
        "pages": lambda: [
            against("CPU of a page that moves", "pages", "cpu", options.pages, both, at_most(3, of_ratio=True), 1e6),
            against("time of pages that move", "pages", "seconds", 1, both, None, 1),
        ],
        "others": lambda: [
            Row(
                "pages of other providers while one moves",
                "pages/s",
                [rate for run in runs for rate in run["others"]["busy"]],
                "while none does",
                [rate for run in runs for rate in run["others"]["free"]],
                at_least(0.8),
                note=f"{options.others:,} rows move, while none does {max(cores):.2f} cores are used",
            )
        ],
        "freezes": lambda: [
            Row(
                "a provider with few rows stands still, longest",
                "ms",
                few,
                goal=at_most(STANDING_STILL_MS),
                peak=True,
                note=f"{options.freezes} moves, {FEW_ROWS} rows",
            ),
            Row(
                "a provider with many rows stands still, longest",
                "ms",
                many,
                goal=at_most(STANDING_STILL_MS),
                peak=True,
                note=f"{options.freezes} moves, {options.rows:,} rows",
            ),
        ],
    }
    return [row for part in PARTS if part in options.parts for row in rows[part]()]


if __name__ == "__main__":
    main()
