"""What memory a full set takes, however many URLs its provider has.

``python benchmarks/full_set_memory.py [--urls 1000000]``

A provider with that many URLs in the cache (an SQLite database that is filled beforehand) sends a full set to a real
``twistd lcc-uns``, which passes it on to a real ``twistd lcc-qm``: one of a hundred is not named any longer, one of a
hundred has changed, one of a hundred is new.  The resident memory of both is looked at twice a second; at the end the
cache and the queue must hold what they should.  No robot runs: fetching is measured elsewhere.

Ten million URLs take about 12 GB of disk in the folder for temporary files (``TMPDIR``), and most of an hour.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import argument_parser, cpu_seconds_of, free_port, peak_memory_bytes, scratch, table

from lcc.domain.keys import url_key
from lcc.protocols.cp_uns_client import init

BIN = Path(sys.executable).parent
ROOT = "http://www.site.example/"
BUCKETS = 256
SHARE = 100
"""One of so many URLs is gone, one has changed, one is new."""


def page(number: int) -> str:
    """The name of a page."""
    return f"section{number % 997}/page-{number}.html"


def is_gone(number: int) -> bool:
    """The set does not name it any longer."""
    return number % SHARE == 1


def told(number: int, changed: bool = False) -> tuple[str, int, int]:
    """md5, length and time of a page."""
    return f"{number + (1 << 100 if changed else 0):032x}", 1000 + number % 9000, 10**9 + number


def fill(path: Path, pid: int, count: int) -> None:
    """Put so many cached URLs of the provider into the database, in the order of their keys."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        buckets = [(Path(folder) / f"{bucket}").open("wb", buffering=1 << 16) for bucket in range(BUCKETS)]
        for number in range(count):
            key = url_key(pid, ROOT + page(number), "text/html")
            buckets[key[4]].write(key + number.to_bytes(8, "big"))
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        change, now = 0, int(time.time())
        for bucket in buckets:
            bucket.close()
            data = Path(bucket.name).read_bytes()
            rows = []
            for record in sorted(data[start : start + 28] for start in range(0, len(data), 28)):
                number = int.from_bytes(record[20:], "big")
                md5, length, mtime = told(number)
                change += 1
                rows.append(
                    (record[:20], pid, change, ROOT + page(number), md5, length, mtime, md5, length, change, now)
                )
            connection.execute("BEGIN")
            connection.executemany(
                "INSERT INTO lccurl (urlkey, pid, state, change_number, connseq, seen, generation, source, curl,"
                " furl, burl, mimetype, subtype, told_md5, told_len, told_mtime, md5, len, mtime, status, charset,"
                " etag, headers, fetched_time, fetched_machineid, fetched_fileid, confirmed_time) VALUES (?, ?, 1, ?,"
                " 0, 0, 1, 1, ?, '', '', 'text/html', '', ?, ?, ?, ?, ?, NULL, 200, '', '', '[]', 1, 1, ?, ?)",
                rows,
            )
            connection.execute("COMMIT")
        connection.execute("UPDATE counters SET value = ? WHERE name IN ('change', 'batch')", [change])
        connection.execute(
            "INSERT INTO pstats (pid, files_used, space_used) SELECT ?, COUNT(*), SUM(len) FROM lccurl", [pid]
        )
        connection.close()


def full_set(count: int) -> Iterator[bytes]:
    """The set, in pieces."""
    lines = [f'<lococa:set set="full" urlprefix="{ROOT}">\n']
    new = count // SHARE
    for number in range(count + new):
        if number < count and is_gone(number):
            continue
        md5, length, mtime = told(number, changed=number % SHARE == 2)
        lines.append(f'<url c="{page(number)}" m="text/html" md5="{md5}" len="{length}" mtime="{mtime}"/>\n')
        if len(lines) >= 1000:
            yield "".join(lines).encode()
            lines.clear()
    lines.append("</lococa:set>\n")
    yield "".join(lines).encode()


def send(port: int, pid: int, password: str, count: int) -> str:
    """Play the provider; gives what the UNS answered to the set."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(init(pid, password).encode())
        answer = b""
        while b"init_accepted>" not in answer:
            answer += connection.recv(65536)
        for piece in full_set(count):
            connection.sendall(piece)
        answer = b""
        while b"</lococa:set_result>" not in answer:
            data = connection.recv(65536)
            if not data:
                break
            answer += data
        return answer.decode()


def resident_bytes(pid: int) -> int:
    """What a process holds in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


class Watch:
    """Looks at the memory of processes, by phase."""

    def __init__(self, processes: dict[str, int]) -> None:
        self.processes = processes
        self.phase = ""
        self.peaks: dict[str, dict[str, int]] = {}
        self.lasts: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self._begun = 0.0

    def begin(self, phase: str) -> None:
        """A phase begins; the one before ends."""
        now = time.monotonic()
        if self.phase:
            self.seconds[self.phase] = now - self._begun
        self.phase, self._begun = phase, now
        if phase:
            self.peaks[phase] = dict.fromkeys(self.processes, 0)
            self.lasts[phase] = {}
            self.look()

    def look(self) -> None:
        """Look now."""
        for name, pid in self.processes.items():
            size = resident_bytes(pid)
            self.lasts[self.phase][name] = size
            self.peaks[self.phase][name] = max(self.peaks[self.phase][name], size)


def progress(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Elements of the set that are taken in, whether it has arrived as a whole, whether it is applied."""
    row = connection.execute("SELECT part_done, last_number FROM setspos").fetchone()
    swept = connection.execute("SELECT fullconnseq FROM pstats").fetchone()
    return (row[0], swept[0], row[1]) if row else (0, 0, 0)


def check(connection: sqlite3.Connection, count: int) -> None:
    """What should be there is there."""
    gone, changed = (sum(number % SHARE == rest for number in range(count)) for rest in (1, 2))
    new = count // SHARE
    found = {
        "cached": connection.execute("SELECT COUNT(*) FROM lccurl WHERE state = 1").fetchone()[0],
        "deleted": connection.execute("SELECT COUNT(*) FROM lccurl WHERE state = 0").fetchone()[0],
        "queued": connection.execute("SELECT COUNT(*) FROM qdb WHERE operation = 1").fetchone()[0],
        "files": connection.execute("SELECT files_used FROM pstats").fetchone()[0],
        "orders": connection.execute("SELECT COUNT(*) FROM fsmdb").fetchone()[0],
    }
    expected = {
        "cached": count - gone,
        "deleted": gone,
        "queued": changed + new,
        "files": count - gone,
        "orders": gone,
    }
    if found != expected:
        raise SystemExit(f"the database holds {found}, not {expected}")


def run(work: Path, count: int) -> Watch:
    """One measurement."""
    port = free_port()
    config = work / "lcc.toml"
    config.write_text(f'[uns]\nlisten = "tcp:{port}:interface=127.0.0.1"\nspool_max_bytes = {1 << 35}\n')
    admin: list[Any] = [BIN / "lcc-admin", "--config", config]
    subprocess.run([*admin, "init"], check=True, capture_output=True)
    added = subprocess.run(
        [*admin, "provider", "add", "--root", ROOT, "--json"], check=True, capture_output=True, text=True
    )
    account = json.loads(added.stdout)
    database = work / "lcc-home" / "lcc.db"
    begun = time.monotonic()
    fill(database, account["pid"], count)
    print(f"{count:,} cached URLs: filled in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for role in ("uns", "qm"):
            with (work / f"{role}.log").open("wb") as log:
                command = [BIN / "twistd", "-n", f"lcc-{role}", "--config", config]
                processes[role] = subprocess.Popen(command, stdout=log, stderr=log)
        time.sleep(5)
        watch = Watch({role: process.pid for role, process in processes.items()})
        return _measure(watch, database, port, account, count)
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait()


def _measure(watch: Watch, database: Path, port: int, account: dict[str, Any], count: int) -> Watch:
    answers: list[str] = []
    sender = threading.Thread(
        target=lambda: answers.append(send(port, account["pid"], account["password"], count)), daemon=True
    )
    watch.begin("before")
    watch.begin("arriving")
    sender.start()
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)
    shown = time.monotonic()
    while True:
        time.sleep(0.5)
        watch.look()
        done, arrived, applied = progress(connection)
        if applied:
            break
        if arrived and watch.phase != "deleting":
            watch.begin("deleting")
        elif done and not arrived and watch.phase != "absorbing":
            watch.begin("absorbing")
        if time.monotonic() - shown >= 30:
            shown = time.monotonic()
            sizes = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in watch.lasts[watch.phase].items())
            print(f"{watch.phase}: {done:,} elements taken in; {sizes}", file=sys.stderr)
    sender.join()
    if "<set_accepted" not in answers[0]:
        raise SystemExit(f"the set was answered with {answers[0][-500:]}")
    watch.begin("")
    check(connection, count)
    cpu = {name: cpu_seconds_of(pid) for name, pid in watch.processes.items()}
    peaks = {name: peak_memory_bytes(pid) / 1e6 for name, pid in watch.processes.items()}
    print(
        f"CPU of the UNS {cpu['uns']:.0f} s, of the QM {cpu['qm']:.0f} s;"
        f" peak memory {peaks['uns']:.0f} MB and {peaks['qm']:.0f} MB",
        file=sys.stderr,
    )
    return watch


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    options = parser.parse_args()
    with scratch() as folder:
        watch = run(folder, options.urls)
    rows = [
        [
            phase,
            f"{watch.seconds[phase]:.0f}",
            *(f"{watch.peaks[phase][name] / 1e6:.0f}" for name in watch.processes),
            *(f"{watch.lasts[phase][name] / 1e6:.0f}" for name in watch.processes),
        ]
        for phase in watch.seconds
    ]
    heads = ["phase", "seconds", "UNS at most, MB", "QM at most, MB", "UNS at its end, MB", "QM at its end, MB"]
    print(table(heads, rows))


if __name__ == "__main__":
    main()
