"""What content users cost: a long answer, a short answer about a large cache, content.

``python benchmarks/content_users.py [--rows 1000000] [--small 100000] [--tiny 10000] [--questions 500]
[--files 5000] [--rounds 3] [--sqlite] [--parts rows,since,stalled,content]``

Real ``twistd lcc-cu`` processes answer over HTTP on a UNIX socket; this process asks and throws away what it reads.

rows
    Everything in the cache as JSON lines, XML and CSV: rows for each second of the CPU of lcc-cu (the database's CPU
    stands beside it), the resident memory looked at 20 times a second, for two sizes of the cache.
since
    ``/changes`` with a token that is ten changes old, one question after the other on one connection: CPU of lcc-cu
    and of the database for a question, for a small cache and for a large one.
stalled
    Many clients that ask for everything and do not read: the resident memory of lcc-cu.
content
    Files of 10 KiB by ``/content/KEY`` through a real ``lcc-botm``, and the same files from nginx, in turn.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from cache_fill import change_some, fill_cache, put_files
from common import argument_parser, cpu_seconds_of, make_pages, nginx, scratch, spread, table

from lcc.client.blocking import Cache, UnixConnection
from lcc.storage.disk.content_folder import AttemptFolder, ContentFolder
from lcc.storage.disk.content_sync import ContentSync, boot_id
from lcc.storage.disk.durable import DurableCounter
from lcc.testing.mariadb import PrivateMariaDb

BIN = Path(sys.executable).parent
CHANGES = 10
WARM_UP = 50
CLIENTS = 400
SAMPLE_SECONDS = 0.05
PIECE_BYTES = 1 << 18


class Process:
    """A role as a ``twistd`` process.

    :param ready: a socket that it makes.
    """

    def __init__(self, role: str, folder: Path, ready: Path) -> None:
        ready.unlink(missing_ok=True)
        with (folder / f"{role}.log").open("ab") as log:
            command = [BIN / "twistd", "-n", role, "--config", folder / "lcc.toml"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        while not ready.exists():
            if self._process.poll() is not None:
                raise SystemExit((folder / f"{role}.log").read_text()[-3000:])
            time.sleep(0.02)
        self.pid = self._process.pid

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


class Memory:
    """Looks at a process's resident memory while something is done.

    :ivar most_bytes: the largest that was seen.
    """

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self.most_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            for line in self._status.read_text().splitlines():
                if line.startswith("VmRSS:"):
                    self.most_bytes = max(self.most_bytes, int(line.split()[1]) * 1024)


class Lcc:
    """A home folder with a filled database, and what asks its ``lcc-cu``.

    :param server: None: SQLite.
    """

    def __init__(self, server: PrivateMariaDb | None, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.home = folder / "lcc-home"
        self.socket = self.home / "cu.sock"
        self.url = "sqlite:cache.sqlite" if server is None else server.new_database()
        self._server = server
        (folder / "lcc.toml").write_text(f'[database]\nurl = "{self.url}"\n')
        admin = [BIN / "lcc-admin", "--config", folder / "lcc.toml", "init"]
        subprocess.run(admin, check=True, capture_output=True)

    @contextmanager
    def answering(self) -> Iterator[Process]:
        """A ``lcc-cu`` that runs, and was asked something already."""
        process = Process("lcc-cu", self.folder, self.socket)
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

    def database_cpu_seconds(self) -> float:
        """Of the database server so far; SQLite has none."""
        if self._server is None:
            return 0.0
        return cpu_seconds_of(int((self._server.folder / "data" / "pid").read_text()))


def read_rows(lcc: Lcc, form: str, rows: int) -> dict[str, float]:
    """Read everything once, in a fresh ``lcc-cu``."""
    with lcc.answering() as process, closing(lcc.connection()) as connection:
        used, database = cpu_seconds_of(process.pid), lcc.database_cpu_seconds()
        began, size, last = time.monotonic(), 0, b""
        with Memory(process.pid) as memory:
            connection.request("GET", f"/urls?format={form}")
            response = connection.getresponse()
            while piece := response.read(PIECE_BYTES):
                size += len(piece)
                last = (last + piece)[-100:]
        used, database = cpu_seconds_of(process.pid) - used, lcc.database_cpu_seconds() - database
        if not last.strip().endswith((b'{"next":null}', b"</lcc:urls>", b"#end,")):
            raise SystemExit(f"the response was cut off: {last!r}")
    return {
        "rate": rows / used,
        "database": rows / database if database else 0.0,
        "wall": rows / (time.monotonic() - began),
        "bytes": size / rows,
        "most": memory.most_bytes / 1e6,
    }


def measure_rows(lcc: Lcc, rows: int, rounds: int) -> list[list[str]]:
    """Lines of the table."""
    found = []
    for form in ("jsonl", "xml", "csv"):
        results = [read_rows(lcc, form, rows) for _ in range(rounds)]
        each = {name: [result[name] for result in results] for name in results[0]}
        rates = [f"{statistics.median(each[name]):,.0f}" for name in ("rate", "database", "wall")]
        found.append([f"{rows:,}", form, *rates, f"{each['bytes'][0]:.0f}", f"{max(each['most']):.0f}"])
        print(found[-1], file=sys.stderr)
    return found


def ask_changes(lcc: Lcc, rows: int, questions: int) -> tuple[float, float]:
    """CPU milliseconds of lcc-cu, and of the database, for a question that is answered with ten changes."""
    with lcc.answering() as process, closing(lcc.connection()) as connection:
        with lcc.cache() as cache:
            answer = cache.changes(limit=1)
            list(answer)
            epoch = str(answer.token).partition(".")[0]
        target = f"/changes?since={epoch}.{rows}.0.0"
        for number in range(-WARM_UP, questions):
            if not number:
                used, database = cpu_seconds_of(process.pid), lcc.database_cpu_seconds()
            connection.request("GET", target)
            lines = connection.getresponse().read().splitlines()
            if len(lines) != CHANGES + 1 or not json.loads(lines[-1])["next"]:
                raise SystemExit(f"{len(lines)} lines instead of {CHANGES} and the end")
        used, database = cpu_seconds_of(process.pid) - used, lcc.database_cpu_seconds() - database
    return 1000 * used / questions, 1000 * database / questions


def measure_since(sites: list[tuple[Lcc, int]], questions: int, rounds: int) -> list[list[str]]:
    """Lines of the table."""
    for lcc, rows in sites:
        change_some(lcc.url, lcc.home, CHANGES, rows)
    found: dict[int, list[tuple[float, float]]] = {rows: [] for _, rows in sites}
    for _ in range(rounds):
        for lcc, rows in sites:
            found[rows].append(ask_changes(lcc, rows, questions))
            print(rows, found[rows][-1], file=sys.stderr)
    return [
        [f"{rows:,}", *(spread([each[n] for each in times]) for n in (0, 1)), spread([sum(each) for each in times])]
        for rows, times in found.items()
    ]


def measure_stalled(lcc: Lcc, clients: int) -> list[list[str]]:
    """A line of the table."""
    with lcc.answering() as process, ExitStack() as stack, Memory(process.pid) as memory:
        time.sleep(1)
        before = memory.most_bytes
        for _ in range(clients):
            peer = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
            peer.connect(str(lcc.socket))
            peer.sendall(b"GET /urls HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(5)
        most = memory.most_bytes
    return [[str(clients), f"{before / 1e6:.0f}", f"{most / 1e6:.0f}", f"{(most - before) / clients / 1000:.0f}"]]


def get_all(connection: http.client.HTTPConnection, targets: list[str], size_bytes: int) -> None:
    """Ask for each of them, and throw the content away."""
    for target in targets:
        connection.request("GET", target)
        response = connection.getresponse()
        read = 0
        while piece := response.read(PIECE_BYTES):
            read += len(piece)
        if (response.status, read) != (200, size_bytes):
            raise SystemExit(f"{target}: status {response.status}, {read} bytes")


def measure_content(lcc: Lcc, files: int, size_bytes: int, rounds: int) -> list[list[str]]:
    """Lines of the table."""
    work = lcc.folder / "nginx"
    make_pages(work / "www", 1, files, size_bytes)
    paths = sorted((work / "www" / "p0").iterdir())
    folder = ContentFolder(lcc.home / "content", lambda path: DurableCounter(path, 1000))
    folder.open()
    sync = ContentSync(folder.path, boot_id())
    sync.open(folder.names_upto)
    keys = put_files(lcc.url, lcc.home, paths, lambda data: _keep(folder, data))
    sync.advance(folder.names_upto)
    sync.close()
    ours: list[tuple[float, float, float]] = []
    theirs: list[tuple[float, float]] = []
    botm = Process("lcc-botm", lcc.folder, lcc.home / "content.sock")
    try:
        with nginx(work / "www", work) as port, lcc.answering() as process:
            nginx_pid = int((work / "nginx.pid").read_text())
            for _ in range(rounds):
                pids = (process.pid, botm.pid)
                before = [cpu_seconds_of(pid) for pid in pids]
                began = time.monotonic()
                with closing(lcc.connection()) as connection:
                    get_all(connection, [f"/content/{key}" for key in keys], size_bytes)
                wall = time.monotonic() - began
                cu, multiplexer = (cpu_seconds_of(pid) - start for pid, start in zip(pids, before, strict=True))
                ours.append((1000 * cu / files, 1000 * multiplexer / files, files / wall))
                used, began = cpu_seconds_of(nginx_pid), time.monotonic()
                with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                    get_all(connection, [f"/p0/{path.name}" for path in paths], size_bytes)
                wall = time.monotonic() - began
                theirs.append((1000 * (cpu_seconds_of(nginx_pid) - used) / files, files / wall))
                print(ours[-1], theirs[-1], file=sys.stderr)
    finally:
        botm.stop()
    own = [spread([each[n] for each in ours]) for n in range(3)]
    other = [spread([each[n] for each in theirs]) for n in range(2)]
    return [
        [f"{size_bytes:,}", "lcc-cu", own[0], own[1], own[2]],
        [f"{size_bytes:,}", "nginx", other[0], "", other[1]],
    ]


def _keep(folder: ContentFolder, data: bytes) -> int:
    file = folder.reserve()
    attempt = folder.attempt(file, 1)
    sink = AttemptFolder(folder.path).sink(attempt)
    sink.write(data)
    sink.close()
    folder.accept(attempt, file)
    return file


def main(options: argparse.Namespace) -> None:
    """Measure the parts that are asked for and print their tables."""
    parts = set(options.parts.split(","))
    with ExitStack() as stack:
        work = stack.enter_context(scratch())
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
        sites = {}
        if parts & {"rows", "since", "stalled"}:
            for rows in sorted({options.tiny, options.small, options.rows}):
                sites[rows] = Lcc(server, work / f"lcc{rows}")
                fill_cache(sites[rows].url, sites[rows].home, rows)
                print(f"{rows} rows filled", file=sys.stderr)
        if "rows" in parts:
            found = [
                line
                for rows in sorted({options.small, options.rows})
                for line in measure_rows(sites[rows], rows, options.rounds)
            ]
            heads = ["rows", "format", "rows / s CPU of lcc-cu", "rows / s CPU of the database", "rows / s"]
            print(table([*heads, "bytes / row", "memory, MB"], found) + "\n")
        if "since" in parts:
            found = measure_since(
                [(sites[rows], rows) for rows in (options.tiny, options.rows)], options.questions, options.rounds
            )
            print(table(["rows in the cache", "lcc-cu, CPU ms", "database, CPU ms", "both"], found) + "\n")
        if "stalled" in parts:
            found = measure_stalled(sites[options.small], CLIENTS)
            print(table(["clients that do not read", "memory before, MB", "then", "KB a client"], found) + "\n")
        if "content" in parts:
            found = []
            for files, size_bytes in ((options.files, 10_240), (max(1, options.files // 20), 1 << 20)):
                found += measure_content(
                    Lcc(server, work / f"content{size_bytes}"), files, size_bytes, options.rounds
                )
            print(table(["bytes", "server", "CPU ms a file", "lcc-botm, CPU ms a file", "files / s"], found))


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=100_000)
    parser.add_argument("--tiny", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default="rows,since,stalled,content")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    main(parser.parse_args())
