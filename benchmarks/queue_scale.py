"""What a fetched page costs the queue manager and the database, with a small queue and with a huge one.

``python benchmarks/queue_scale.py [--pages 20000] [--small 10x25000] [--large 100000x5000000]``

A private MariaDB is filled with that many providers and queued URLs; a real ``twistd lcc-qm`` works on it; this
process plays a BOT-M whose fetches end at once.  Counted is the CPU of the queue manager and of mariadbd between the
thousandth result and the last, reading ahead and recording included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pymysql
from common import cpu_seconds_of, peak_memory_bytes, table
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.protocol import Factory
from twisted.internet.task import react

from lcc.domain.keys import url_key
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.work import DOWN, Delete, Deleted, Done, Fetch, Ready, RecordedUpto
from lcc.roles.peer import Peer
from lcc.testing.mariadb import PrivateMariaDb

BIN = Path(sys.executable).parent
CAPACITY = 64
WARM_UP = 1000


class InstantBotm(Peer):
    """A BOT-M whose fetches all end at once.

    :ivar warm: fires when the warm-up is recorded.
    :ivar done: fires when all is recorded.
    """

    def __init__(self, pages: int) -> None:
        hello = Hello("botm", "bench", machine=1, names_upto=1, capacity=CAPACITY, run="bench")
        super().__init__(reactor, hello, frozenset({"qm"}), DOWN)  # type: ignore[arg-type]
        self.pages = pages
        self.number = 0
        self.started = time.monotonic()
        self.first_seconds = 0.0
        self.warm: Deferred[None] = Deferred()
        self.done: Deferred[None] = Deferred()

    def peer_ready(self, hello: Hello) -> None:
        self.say(Ready())

    def messages_received(self, messages: list[Flat]) -> None:
        for message in messages:
            if isinstance(message, Fetch):
                self._fetched(message)
            elif isinstance(message, Delete):
                self.say(Deleted(message.id))
            elif isinstance(message, RecordedUpto):
                if message.number >= WARM_UP and not self.warm.called:
                    self.warm.callback(None)
                if message.number >= WARM_UP + self.pages and not self.done.called:
                    self.done.callback(None)

    def _fetched(self, order: Fetch) -> None:
        self.number += 1
        if self.number == 1:
            self.first_seconds = time.monotonic() - self.started
        self.say(
            Done(
                number=self.number,
                id=order.id,
                pid=order.pid,
                key=order.key,
                generation=order.generation,
                code=0,
                status=200,
                url=order.url,
                size_bytes=10_240,
                md5=f"{self.number:032x}",
                mimetype="text/html",
                etag='"5f-1"',
                headers='["Server","nginx","Content-Type","text/html","Content-Length","10240"]',
                wire_bytes=10_480,
                elapsed_ms=2,
                machine=1,
                file=self.number,
            )
        )


def fill(connection: Any, providers: int, urls: int) -> None:
    """Put providers and their queued URLs into the tables, a set a provider."""
    each = urls // providers
    cursor = connection.cursor()
    cursor.execute("SET unique_checks = 0")
    for first in range(1, providers + 1, 1000):
        pids = range(first, min(first + 1000, providers + 1))
        cursor.executemany(
            "INSERT INTO pidb (pid, password, timeofday, timezone, priority, allow_private, insecure, removed)"
            " VALUES (%s, '', '', '', 0, 1, 0, 0)",
            [(pid,) for pid in pids],
        )
        cursor.executemany(
            "INSERT INTO proots (pid, position, root) VALUES (%s, 0, %s)",
            [(p, f"http://s{p}.example/") for p in pids],
        )
        cursor.executemany("INSERT INTO pstats (pid, nurlproc) VALUES (%s, %s)", [(pid, each) for pid in pids])
        cursor.executemany(
            "INSERT INTO qpsdb (psetid, slot, pid, pri, connseq, fullset, firstseq, lastseq, nurls, time)"
            " VALUES (%s, -1, %s, 0, 1, 0, 1, %s, %s, 1)",
            [(pid, pid, each, each) for pid in pids],
        )
        connection.commit()
        for pid in pids:
            rows = []
            for seq in range(1, each + 1):
                curl = f"http://s{pid}.example/docs/part{seq % 10}/page{seq}.html"
                rows.append((url_key(pid, curl, "text/html"), pid, pid, seq, curl, f'["c","page{seq}.html"]'))
            rows.sort()
            for start in range(0, len(rows), 5000):
                cursor.executemany(
                    "INSERT INTO qdb (urlkey, pid, psetid, slot, seq, operation, generation, connseq, attempts, seen,"
                    " curl, furl, burl, mimetype, subtype, md5, len, mtime, hours, ifabsent, sent)"
                    " VALUES (%s, %s, %s, -1, %s, 1, 1, 1, 0, 0,"
                    " %s, '', '', 'text/html', '', '', NULL, NULL, '', 0, %s)",
                    rows[start : start + 5000],
                )
        connection.commit()
    cursor.execute("UPDATE counters SET value = %s WHERE name = 'psetid'", (providers + 1,))
    cursor.execute("UPDATE counters SET value = %s WHERE name = 'queued'", (each * providers,))
    cursor.execute("UPDATE counters SET value = GREATEST(value, 10) WHERE name = 'batch'")
    connection.commit()


def mariadbd_pid(server: PrivateMariaDb) -> int:
    """The server's process."""
    return int((server.folder / "data" / "pid").read_text())


async def measure(work: Path, server: PrivateMariaDb, providers: int, urls: int, pages: int) -> dict[str, float]:
    """One size."""
    work.mkdir()
    url = server.new_database()
    (work / "lcc.toml").write_text(f'[database]\nurl = "{url}"\n')
    subprocess.run([BIN / "lcc-admin", "--config", work / "lcc.toml", "init"], check=True, capture_output=True)
    name = url.partition("?")[0].rpartition("/")[2]
    connection = pymysql.connect(unix_socket=str(server.socket), user="root", database=name)
    begun = time.monotonic()
    fill(connection, providers, urls)
    print(f"{providers} providers, {urls} URLs: filled in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    connection.close()
    with (work / "qm.log").open("wb") as log:
        qm = subprocess.Popen([BIN / "twistd", "-n", "lcc-qm", "--config", work / "lcc.toml"], stdout=log, stderr=log)
    try:
        socket = work / "lcc-home" / "qm-botm.sock"
        while not socket.exists():
            if qm.poll() is not None:
                raise SystemExit((work / "qm.log").read_text()[-3000:])
            time.sleep(0.02)
        botm = InstantBotm(pages)
        endpoint = clientFromString(reactor, f"unix:{socket}")
        await endpoint.connect(Factory.forProtocol(botm.build_stream))
        await botm.warm
        database = mariadbd_pid(server)
        cpu = (cpu_seconds_of(qm.pid), cpu_seconds_of(database))
        wall = time.monotonic()
        await botm.done
        wall = time.monotonic() - wall
        used = (cpu_seconds_of(qm.pid) - cpu[0], cpu_seconds_of(database) - cpu[1])
        return {
            "qm_ms": 1000 * used[0] / pages,
            "database_ms": 1000 * used[1] / pages,
            "rate": pages / wall,
            "first_seconds": botm.first_seconds,
            "peak_mb": peak_memory_bytes(qm.pid) / 1e6,
        }
    finally:
        qm.terminate()
        qm.wait()


async def main(_reactor: Any, options: argparse.Namespace) -> None:
    """Measure both sizes in one run and print the ratio."""
    rows, costs = [], []
    with tempfile.TemporaryDirectory(prefix="lcc-bench-") as folder:
        Path(folder).chmod(0o755)
        for number, size in enumerate((options.small, options.large)):
            providers, urls = (int(part) for part in size.split("x"))
            with PrivateMariaDb(durable=True) as server:
                found = await measure(Path(folder) / f"lcc{number}", server, providers, urls, options.pages)
            costs.append(found["qm_ms"] + found["database_ms"])
            rows.append(
                [
                    f"{providers:,} providers, {urls:,} URLs",
                    *(f"{found[name]:.3f}" for name in ("qm_ms", "database_ms")),
                    f"{costs[-1]:.3f}",
                    f"{found['rate']:.0f}",
                    f"{found['first_seconds']:.2f}",
                    f"{found['peak_mb']:.0f}",
                ]
            )
    heads = [
        "queue",
        "QM, CPU ms a page",
        "MariaDB, CPU ms a page",
        "both",
        "pages/s",
        "to the first order, s",
        "QM, MB",
    ]
    print(table(heads, rows))
    print(f"\nlarge / small = {costs[1] / costs[0]:.2f} (goal: 1.2)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--small", default="10x25000")
    parser.add_argument("--large", default="100000x5000000")
    react(main, [parser.parse_args()])
