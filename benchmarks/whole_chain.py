"""The whole chain against curl and Scrapy: providers tell, the LCC fetches and keeps; they fetch the same list.

``python benchmarks/whole_chain.py [--pages 20000] [--providers 32] [--runs 5] [--sqlite]``

Every role is a process of its own on a private MariaDB (or SQLite).  The peers (peers.py) and the LCC take turns on
the same nginx and the same two cores.  The LCC's time begins when the first provider connects and ends when the last
page is recorded in the database.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import (
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

BIN = Path(sys.executable).parent
ROLES = ("uns", "qm", "botm", "bot")
SHOWN = {"uns": "UNS", "qm": "QM", "botm": "BOT-M", "bot": "BOT"}


class Lcc:
    """An LCC for one run."""

    def __init__(self, folder: Path, database_url: str | None, port: int) -> None:
        self.folder = folder
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
        for role in ROLES:
            with (self.folder / f"{role}.log").open("wb") as log:
                self.processes[role] = subprocess.Popen(
                    [str(BIN / "twistd"), "-n", f"lcc-{role}", "--config", str(self.config)], stdout=log, stderr=log
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


def run_lcc(
    work: Path, site: int, uns_port: int, providers: int, pages: int, database_url: str | None
) -> dict[str, Any]:
    """One run of the whole chain."""
    lcc = Lcc(work, database_url, uns_port)
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
        before, cpu_before = count(), lcc.cpu_seconds()
        children_before = cpu_seconds_of_children()
        begun = time.monotonic()
        publishing = subprocess.Popen([*publisher, str(work / "accounts.json"), "all", str(pages), str(lcc.config)])
        total = providers * pages
        while count() < total:
            if time.monotonic() - begun > 600:
                raise SystemExit(f"only {count()} of {total} pages after 600 s")
            time.sleep(0.1)
        wall = time.monotonic() - begun
        if publishing.wait() != 0:
            raise SystemExit("publishing failed")
        cpu = {role: seconds - cpu_before[role] for role, seconds in lcc.cpu_seconds().items()}
        done = total - before
        return {
            "wall": wall,
            "rate": done / wall,
            "cpu_ms": {role: 1000 * seconds / done for role, seconds in cpu.items()},
            "publisher_cpu": cpu_seconds_of_children() - children_before,
            "peaks": lcc.peaks(),
        }
    finally:
        lcc.stop()


def main() -> None:
    """Take turns, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--providers", type=int, default=32)
    add_options(parser)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    options = parser.parse_args()
    pages = options.pages // options.providers
    chain: list[dict[str, Any]] = []
    peers: dict[str, list[dict[str, float]]] = {"curl": [], "Scrapy": []}
    with scratch() as work:
        make_pages(work / "www", options.providers, pages)
        with nginx(work / "www", work / "nginx") as site, database(work, options.sqlite) as fresh_url:
            urls = [
                f"http://127.0.0.1:{site}/p{number}/{page}.html"
                for page in range(pages)
                for number in range(options.providers)
            ]
            for run in range(options.runs):
                chain.append(run_lcc(work / f"lcc{run}", site, free_port(), options.providers, pages, fresh_url()))
                peers["curl"].append(run_curl(work / f"curl{run}", urls))
                peers["Scrapy"].append(run_scrapy(work / f"scrapy{run}", urls))
                rates = ", ".join(f"{name} {found[-1]['rate']:.0f}/s" for name, found in peers.items())
                print(f"run {run + 1}: LCC {chain[-1]['rate']:.0f}/s, {rates}", file=sys.stderr)
    name = "SQLite" if options.sqlite else "MariaDB"
    report(chain, name, options.providers * pages, options.providers)
    give(options, rows(chain, peers, name))


@contextmanager
def database(work: Path, sqlite: bool) -> Iterator[Any]:
    """A function that gives a fresh database's URL for each run; None means SQLite in the home folder."""
    if sqlite:
        yield lambda: None
        return
    from lcc.testing.mariadb import PrivateMariaDb

    with PrivateMariaDb(durable=True) as server:
        yield server.new_database


def report(chain: list[dict[str, Any]], name: str, pages: int, providers: int) -> None:
    """Print what each role has used."""
    print(f"\n{pages} pages of 10 KiB, {providers} providers, {name}, {len(chain)} runs, {os.cpu_count()} cores\n")
    roles = [
        [
            role,
            spread([run["cpu_ms"][role] for run in chain]),
            f"{max(run['peaks'][role] for run in chain) / 1e6:.0f}",
        ]
        for role in ROLES
    ]
    print("\n" + table(["role", "CPU ms a page", "peak memory, MB"], roles))


def rows(chain: list[dict[str, Any]], peers: dict[str, list[dict[str, float]]], name: str) -> list[Row]:
    """The rows of the table."""
    goals = {("curl", "MariaDB"): 0.4, ("Scrapy", "MariaDB"): 6, ("Scrapy", "SQLite"): 3}
    rates = [run["rate"] for run in chain]
    found = []
    for peer, shown in (("curl", CURL), ("Scrapy", SCRAPY)):
        theirs = [run["rate"] for run in peers[peer]]
        goal = at_least(goals[peer, name]) if (peer, name) in goals else None
        found.append(Row(f"whole chain on {name}, against {peer}", "pages/s", rates, shown, theirs, goal))
    cpu = [sum(run["cpu_ms"].values()) for run in chain]
    theirs = [run["cpu_ms"] for run in peers["Scrapy"]]
    goal = at_most(0.25) if name == "MariaDB" else None
    found.append(Row(f"CPU of all roles for a page, {name}", "ms", cpu, SCRAPY, theirs, goal))
    for role in ROLES:
        cpu = [run["cpu_ms"][role] for run in chain]
        found.append(Row(f"CPU of the {SHOWN[role]} for a page, {name}", "ms", cpu))
    if name == "MariaDB":
        for role in ("botm", "bot"):
            peaks = [run["peaks"][role] / 1e6 for run in chain]
            found.append(Row(f"peak memory of the {SHOWN[role]}", "MB", peaks, goal=at_most(60), peak=True))
    return found


if __name__ == "__main__":
    main()
