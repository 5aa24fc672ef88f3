"""What the front end's proxy costs: a large set, sessions of one page, and connections that say nothing; beside the
same UNS without it.

``python benchmarks/front_end.py [--urls 1000000] [--sessions 1000] [--idle 10000] [--runs 5] [--sqlite]``

Real ``lcc-uns``, ``lcc-qm`` and ``lcc-fe-uns``, on a private MariaDB that syncs each commit; the front end's database
is another one of that server.  Straight and through the proxy take turns on one LCC.  A set's rate is that of
``set_accepted``, its CPU that until all of it is in the queue.  A session connects, logs in, tells one new page and
leaves, one after the other.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common import argument_parser, cpu_seconds_of, free_port, scratch
from intake_size import send
from lcc_site import BIN, PASSWORD, LccSite, _resident_bytes
from queue_fill import note_chores_done
from rows import Row, add_options, at_least, at_most, give
from small_sets_provider import ROOT

from lcc.protocols.cp_uns_client import init
from lcc.testing.mariadb import PrivateMariaDb

LARGE = 1
PIDS = 200
LOOK_SECONDS = 0.05
READY_SECONDS = 60.0
QUEUED_SECONDS_MAX = 1200.0


class Front:
    """A front end before one LCC."""

    def __init__(self, folder: Path, site: LccSite, url: str, connections: int) -> None:
        folder.mkdir()
        self.port = free_port()
        config = folder / "front-end.toml"
        config.write_text(
            f'home = "home"\n[fe]\ndatabase = "{url}"\n[fe_uns]\nlisten = "tcp:{self.port}:interface=127.0.0.1"\n'
            f"connections_max = {connections}\nconnections_per_address = 0\n"
        )
        sub = site.url.replace("sqlite:", f"sqlite:{site.home}/")
        (folder / "url").write_text(sub)
        admin = [BIN / "lcc-admin", "--config", config, "fe"]
        subprocess.run([*admin, "init"], check=True, capture_output=True)
        uns = f"tcp:127.0.0.1:{site.port}"
        add = [*admin, "add", "one", "--uns", uns, "--database-file", folder / "url"]
        subprocess.run(add, check=True, capture_output=True)
        log = (folder / "fe-uns.log").open("ab")
        command = [BIN / "twistd", "-n", "lcc-fe-uns", "--config", config]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        _logged_in(self.port, 1).close()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def _logged_in(port: int, pid: int) -> socket.socket:
    """A connection that has logged in, once the port lets it."""
    end = time.monotonic() + READY_SECONDS
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(init(pid, PASSWORD).encode())
            answer = b""
            while b"init_accepted>" not in answer:
                data = connection.recv(65536)
                if not data:
                    raise ConnectionError(answer)
                answer += data
            return connection
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class Turns:
    """One LCC, told by turns straight and through the proxy."""

    def __init__(self, site: LccSite, front: Front, options: argparse.Namespace) -> None:
        self.site, self.front, self.options = site, front, options
        self.told = 0
        self.pages = 0

    def large(self, port: int) -> dict[str, float]:
        """One large set: URLs a second to set_accepted; CPU seconds of the proxy and of UNS and QM."""
        urls = self.options.urls
        queued, proxy = self.site.queued(), cpu_seconds_of(self.front.process.pid)
        roles, begun = sum(self.site.cpu_seconds().values()), time.monotonic()
        send(port, self.told, urls)
        rate = urls / (time.monotonic() - begun)
        self.told += urls
        end = time.monotonic() + QUEUED_SECONDS_MAX
        while self.site.queued() < queued + urls:
            self.site.check()
            if time.monotonic() > end:
                raise SystemExit("the set is not queued")
            time.sleep(LOOK_SECONDS)
        return {
            "rate": rate,
            "proxy": cpu_seconds_of(self.front.process.pid) - proxy,
            "roles": sum(self.site.cpu_seconds().values()) - roles,
        }

    def sessions(self, port: int) -> float:
        """The median time of a session, milliseconds."""
        command = [sys.executable, Path(__file__).with_name("small_sets_provider.py"), port, "sessions", PIDS, 1]
        command += [self.options.sessions, self.pages]
        said = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout
        self.pages += self.options.sessions
        times: list[float] = json.loads(said)["times_ms"]
        return statistics.median(times)

    def idle(self) -> float:
        """What a connection that has logged in and says nothing takes of the proxy's memory, kilobytes."""
        for warm in [_logged_in(self.front.port, 1 + number % PIDS) for number in range(100)]:
            warm.close()
        time.sleep(1)
        before = _resident_bytes(self.front.process.pid)
        connections = [_logged_in(self.front.port, 1 + number % PIDS) for number in range(self.options.idle)]
        time.sleep(1)
        found = (_resident_bytes(self.front.process.pid) - before) / 1000 / max(1, len(connections))
        for connection in connections:
            connection.close()
        return found


def measure(work: Path, url: str, front_url: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run on a new LCC."""
    most = options.idle + 200
    uns = {"proxies": ["127.0.0.1"], "connections_max": most, "connections_per_address": 0}
    settings = {"uns": {**uns, "connections_per_provider": most}, "qm": {"queue_rows_max": 50_000_000}}
    site = LccSite(work / "lcc", url, settings, roles=("uns", "qm"))
    site.add_providers({LARGE: "http://www.site.example/", **{p: ROOT.format(pid=p) for p in range(2, PIDS + 1)}})
    site.database.write(_roots_of_the_first)
    note_chores_done(url, site.home)
    try:
        site.start()
        front = Front(work / "front", site, front_url, most)
        try:
            turns = Turns(site, front, options)
            found: dict[str, Any] = {"idle": turns.idle()}
            for port in (site.port, front.port):
                turns.sessions(port)
            found["session"] = turns.sessions(site.port)
            found["session_proxied"] = turns.sessions(front.port)
            found["set"] = turns.large(site.port)
            found["set_proxied"] = turns.large(front.port)
            return found
        finally:
            front.stop()
    finally:
        site.stop()


def _roots_of_the_first(txn: Any) -> None:
    txn.insert("proots", ("pid", "position", "root"), [(LARGE, 1, ROOT.format(pid=LARGE))])


def main() -> None:
    """Measure."""
    parser = argument_parser(__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000, help="of the large set")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    add_options(parser)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options.idle = min(options.idle, hard // 2 - 200)
    runs = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
        for number in range(options.runs):
            work = folder / str(number)
            work.mkdir()
            urls = (
                ("sqlite:lcc.db", "sqlite:fe.db")
                if server is None
                else (server.new_database(), server.new_database())
            )
            runs.append(measure(work, *urls, options))
            print(runs[-1], file=sys.stderr)

    def of(key: str, part: str) -> list[float]:
        return [run[key][part] for run in runs]

    shares = [100 * run["set_proxied"]["proxy"] / run["set_proxied"]["roles"] for run in runs]
    note = f"{options.urls:,} URLs"
    rows = [
        Row(
            "a set through the front end",
            "URLs/s",
            of("set_proxied", "rate"),
            "without it",
            of("set", "rate"),
            at_least(0.95),
            note=f"to set_accepted; {note}",
        ),
        Row("CPU of the proxy for a set", "% of UNS and QM", shares, goal=at_most(5), note=note),
        Row(
            "a session of one page through the front end, p50",
            "ms",
            [run["session_proxied"] for run in runs],
            "without it",
            [run["session"] for run in runs],
            at_most(1.25, of_ratio=True),
            note="one after the other",
        ),
        Row(
            "memory of an idle connection at the proxy",
            "KB",
            [run["idle"] for run in runs],
            goal=at_most(50),
            peak=True,
            note=f"{options.idle:,} connections",
        ),
    ]
    give(options, rows)


if __name__ == "__main__":
    main()
