"""The whole chain against curl and Scrapy: providers tell, the LCC fetches and keeps; they fetch the same list.

``python benchmarks/whole_chain.py [--pages 20000] [--providers 32] [--runs 5] [--sqlite] [--one]``

Every role is a process of its own on a private MariaDB (or SQLite); ``--one``: all are in one (``twistd lcc``).  The
peers (peers.py) and the LCC take turns on the same nginx and the same two cores.  The LCC's time begins when the
first provider connects and ends when the last page is recorded in the database; a run counts only if all pages are
there with the md5 that their files have.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from common import (
    argument_parser,
    cpu_seconds_of,
    cpu_seconds_of_children,
    free_port,
    make_pages,
    nginx,
    peak_memory_bytes,
    scratch,
    spread,
    table,
)
from peers import CURL, SCRAPY, run_curl, run_scrapy
from rows import Row, add_options, at_least, at_most, give
from whole_chain_count import open_counter

from lcc.config import load_config
from lcc.storage.database.database import BlockingDatabase
from lcc.testing.mariadb import PrivateMariaDb

BIN = Path(sys.executable).parent
ROLES = ("uns", "qm", "botm", "bot")
SHOWN = {"uns": "UNS", "qm": "QM", "botm": "BOT-M", "bot": "BOT"}
LOOK_SECONDS = 0.02
RUN_SECONDS_MAX = 600.0
MEMORY_MAX_MB = {"botm": 60, "bot": 60}


class Databases:
    """Gives the URL of a fresh database for each run.

    :param server: None: SQLite in the home folder, whose URL is None.
    """

    def __init__(self, server: PrivateMariaDb | None) -> None:
        self._server = server

    def __call__(self) -> str | None:
        return None if self._server is None else self._server.new_database()

    def cpu_seconds(self) -> float:
        """CPU of the server so far; of SQLite it is that of the roles."""
        return (
            0.0 if self._server is None else cpu_seconds_of(int((self._server.folder / "data" / "pid").read_text()))
        )


class Lcc:
    """An LCC for one run.

    :param one: all roles are in one process.
    """

    def __init__(self, folder: Path, database_url: str | None, port: int, one: bool = False) -> None:
        self.folder = folder
        self.roles = {"all": "lcc"} if one else {role: f"lcc-{role}" for role in ROLES}
        folder.mkdir(parents=True)
        self.config = folder / "lcc.toml"
        self.uns_port = port
        database = f'[database]\nurl = "{database_url}"\n' if database_url else ""
        self.config.write_text(f'{database}[uns]\nlisten = "tcp:{port}:interface=127.0.0.1"\n')
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.admin("init")

    def admin(self, *arguments: str) -> str:
        """Run ``lcc-admin``."""
        command = [str(BIN / "lcc-admin"), "--config", str(self.config), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self) -> None:
        """Start every role and wait until the UNS answers."""
        for role, plugin in self.roles.items():
            with (self.folder / f"{role}.log").open("wb") as log:
                self.processes[role] = subprocess.Popen(
                    [str(BIN / "twistd"), "-n", plugin, "--config", str(self.config)], stdout=log, stderr=log
                )
        time.sleep(4)

    def stop(self) -> None:
        """Stop every role."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()

    def cpu_seconds(self) -> dict[str, float]:
        """CPU so far, by role."""
        return {role: cpu_seconds_of(process.pid) for role, process in self.processes.items()}

    def peaks(self) -> dict[str, int]:
        """Peak memory so far, by role."""
        return {role: peak_memory_bytes(process.pid) for role, process in self.processes.items()}


def run_lcc(work: Path, site: int, expected: list[list[str]], fresh: Databases, one: bool) -> dict[str, Any]:
    """One run of the whole chain.

    :param expected: md5 of each page of each provider.
    :param one: all roles are in one process.
    """
    providers, pages, uns_port = len(expected), len(expected[0]), free_port()
    lcc = Lcc(work, fresh(), uns_port, one)
    accounts = []
    for number in range(providers):
        url = f"http://127.0.0.1:{site}/p{number}/"
        options = ("--root", url, "--allow-private", "--json")
        accounts.append({**json.loads(lcc.admin("provider", "add", *options)), "url": url})
    (work / "accounts.json").write_text(json.dumps(accounts))
    lcc.start()
    try:
        count = open_counter(load_config(lcc.config))
        publisher = [sys.executable, str(Path(__file__).with_name("publish_many.py")), str(uns_port)]
        warm_up = [*publisher, str(work / "accounts.json"), "latency", "30", str(lcc.config)]
        subprocess.run(warm_up, check=True, capture_output=True)
        os.sync()  # nobody pays for what others have written
        before, cpu_before, database_before = count(), lcc.cpu_seconds(), fresh.cpu_seconds()
        children_before = cpu_seconds_of_children()
        publishing = subprocess.Popen(
            [*publisher, str(work / "accounts.json"), "all", str(pages), str(lcc.config)], stdout=subprocess.PIPE
        )
        assert publishing.stdout is not None
        begun = float(publishing.stdout.readline())
        total = providers * pages
        while count() < total:
            if time.monotonic() - begun > RUN_SECONDS_MAX:
                raise SystemExit(f"only {count()} of {total} pages after {RUN_SECONDS_MAX:.0f} s")
            time.sleep(LOOK_SECONDS)
        wall = time.monotonic() - begun
        cpu = {role: seconds - cpu_before[role] for role, seconds in lcc.cpu_seconds().items()}
        database_cpu = fresh.cpu_seconds() - database_before
        if publishing.wait() != 0:
            raise SystemExit("publishing failed")
        check_pages(lcc, accounts, expected)
        done = total - before
        return {
            "wall": wall,
            "rate": done / wall,
            "cpu_ms": {role: 1000 * seconds / done for role, seconds in cpu.items()},
            "database_ms": 1000 * database_cpu / done,
            "publisher_cpu": cpu_seconds_of_children() - children_before,
            "peaks": lcc.peaks(),
        }
    finally:
        lcc.stop()


def check_pages(lcc: Lcc, accounts: list[dict[str, Any]], expected: list[list[str]]) -> None:
    """See that the cache has each page as its file is.

    :raises SystemExit: it has not.
    """
    config = load_config(lcc.config)
    database = BlockingDatabase(config.database.url, config.home, config.database, random=Random())
    try:
        rows = database.interact(lambda txn: txn.query("SELECT curl, md5 FROM lccurl WHERE state = 1"))
    finally:
        database.close()
    wanted = {
        f"{account['url']}{page}.html": digest
        for account, digests in zip(accounts, expected, strict=True)
        for page, digest in enumerate(digests)
    }
    found = dict(rows)
    wrong = [url for url, digest in wanted.items() if found.get(url) != digest]
    if wrong or len(found) != len(wanted):
        raise SystemExit(f"{len(wrong)} of {len(wanted)} pages are not what their files are, such as {wrong[:3]}")


def main() -> None:
    """Take turns, print the table."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--providers", type=int, default=32)
    add_options(parser)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--one", action="store_true", help="all roles in one process")
    options = parser.parse_args()
    providers, pages = options.providers, options.pages // options.providers
    chain: list[dict[str, Any]] = []
    peers: dict[str, list[dict[str, float]]] = {"curl": [], "Scrapy": []}
    with scratch() as work:
        make_pages(work / "www", providers, pages)
        files = [
            [work / "www" / f"p{number}" / f"{page}.html" for page in range(pages)] for number in range(providers)
        ]
        expected = [[hashlib.md5(file.read_bytes()).hexdigest() for file in each] for each in files]
        with nginx(work / "www", work / "nginx") as site, database(work, options.sqlite) as fresh:
            urls = [
                f"http://127.0.0.1:{site}/p{number}/{page}.html"
                for page in range(pages)
                for number in range(providers)
            ]
            for run in range(options.runs):
                chain.append(run_lcc(work / f"lcc{run}", site, expected, fresh, options.one))
                os.sync()
                peers["curl"].append(run_curl(work / f"curl{run}", urls))
                os.sync()
                peers["Scrapy"].append(run_scrapy(work / f"scrapy{run}", urls))
                rates = ", ".join(f"{name} {found[-1]['rate']:.0f}/s" for name, found in peers.items())
                print(f"run {run + 1}: LCC {chain[-1]['rate']:.0f}/s, {rates}", file=sys.stderr)
    name = f"{'SQLite' if options.sqlite else 'MariaDB'}{', all in one process' if options.one else ''}"
    report(chain, name, providers * pages, providers)
    give(options, rows(chain, peers, name))


@contextmanager
def database(_: Path, sqlite: bool) -> Iterator[Databases]:
    """Fresh databases for the runs."""
    if sqlite:
        yield Databases(None)
        return
    with PrivateMariaDb(durable=True) as server:
        yield Databases(server)


def report(chain: list[dict[str, Any]], name: str, pages: int, providers: int) -> None:
    """Print what each role has used."""
    print(f"\n{pages} pages of 10 KiB, {providers} providers, {name}, {len(chain)} runs, {os.cpu_count()} cores\n")
    roles = [
        [
            role,
            spread([run["cpu_ms"][role] for run in chain]),
            f"{max(run['peaks'][role] for run in chain) / 1e6:.0f}",
        ]
        for role in chain[0]["cpu_ms"]
    ]
    print("\n" + table(["role", "CPU ms a page", "peak memory, MB"], roles))


def rows(chain: list[dict[str, Any]], peers: dict[str, list[dict[str, float]]], name: str) -> list[Row]:
    """The rows of the table."""
    goals = {("curl", "MariaDB"): 0.4, ("Scrapy", "MariaDB"): 6, ("Scrapy", "SQLite, all in one process"): 4.5}
    rates = [run["rate"] for run in chain]
    found = []
    for peer, shown in (("curl", CURL), ("Scrapy", SCRAPY)):
        theirs = [run["rate"] for run in peers[peer]]
        goal = at_least(goals[peer, name]) if (peer, name) in goals else None
        found.append(Row(f"whole chain on {name}, against {peer}", "pages/s", rates, shown, theirs, goal))
    cpu = [sum(run["cpu_ms"].values()) for run in chain]
    theirs = [run["cpu_ms"] for run in peers["Scrapy"]]
    goal = at_most(0.18) if name == "MariaDB" else None
    found.append(Row(f"CPU of all roles for a page, {name}", "ms", cpu, SCRAPY, theirs, goal))
    for role, shown in SHOWN.items():
        if role in chain[0]["cpu_ms"]:
            found.append(Row(f"CPU of the {shown} for a page, {name}", "ms", [run["cpu_ms"][role] for run in chain]))
    if any(run["database_ms"] for run in chain):
        found.append(Row(f"CPU of the database for a page, {name}", "ms", [run["database_ms"] for run in chain]))
    for role in ROLES if name == "MariaDB" else ():
        peaks = [run["peaks"][role] / 1e6 for run in chain]
        most = MEMORY_MAX_MB.get(role)
        goal = None if most is None else at_most(most)
        found.append(Row(f"peak memory of the {SHOWN[role]}", "MB", peaks, goal=goal, peak=True))
    return found


if __name__ == "__main__":
    main()
