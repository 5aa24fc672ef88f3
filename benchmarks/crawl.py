"""A crawl of linked pages against Scrapy's CrawlSpider, in turn.

``python benchmarks/crawl.py [--pages 50000] [--sites 32] [--runs 3] [--sqlite] [--alone]``

Pages of 10 KiB with 20 links each on nginx, each site on an address of its own.  Every role is a process of its own,
the spider, lcc-cu and the scheduler (robots.txt) among them, on a private MariaDB whose commits are synced, or on
SQLite.  Both fetch one page of a site at a time, without a pause, and begin at the first page of each site.  The
rate is from the first page that was read to the last one whose links are in the frontier; CPU is that of all
processes from the order to then, what extracts links included.  A run counts only if the cache has each page as its
file is.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import argument_parser, cpu_seconds_of, peer_python, scratch, spread, table
from crawl_sites import CrawlingLcc, LinkedSites, linked_sites
from rows import Row, add_options, at_least, at_most, give

from lcc.testing.mariadb import PrivateMariaDb

RUNS = 3
RATE_GOAL, CPU_GOAL_MS, EXTRACTION_GOAL_MS = 5, 1.3, 0.35
SCRAPY = "Scrapy's CrawlSpider"


def run_lcc(folder: Path, sites: LinkedSites, server: PrivateMariaDb | None) -> dict[str, Any]:
    """One crawl on a new LCC."""
    lcc = CrawlingLcc(folder, None if server is None else server.new_database())
    try:
        lcc.start()
        time.sleep(3)  # the spider begins
        os.sync()  # nobody pays for what others have written
        before = _cpu(lcc, server)
        ordered = time.monotonic()
        lcc.crawl(sites.roots)
        first, early, ended = lcc.wait(sites.count)
        cpu = {role: seconds - before.get(role, 0.0) for role, seconds in _cpu(lcc, server).items()}
        sites.check(lcc.pages())
        return {
            "rate": (sites.count - early) / (ended - first),
            "first": first - ordered,
            "cpu_ms": {role: 1000 * seconds / sites.count for role, seconds in cpu.items()},
            "peaks": lcc.site.peaks_mb(),
        }
    finally:
        lcc.stop()


def _cpu(lcc: CrawlingLcc, server: PrivateMariaDb | None) -> dict[str, float]:
    used = lcc.cpu_seconds()
    if server is not None and server.process is not None:
        used["mariadbd"] = cpu_seconds_of(server.process.pid)
    return used


def run_scrapy(folder: Path, sites: LinkedSites) -> dict[str, float]:
    """One crawl of Scrapy."""
    out = folder / "out"
    out.mkdir(parents=True)
    (folder / "starts").write_text("\n".join(sites.roots))
    command = [str(peer_python()), str(Path(__file__).with_name("crawl_peer.py")), str(folder / "starts"), str(out)]
    os.sync()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Scrapy failed: {done.stderr[-2000:]}")
    stored, wall, cpu = done.stdout.split()
    if int(stored) != sites.count:
        raise SystemExit(f"Scrapy stored {stored} pages of {sites.count}")
    return {"rate": sites.count / float(wall), "cpu_ms": 1000 * float(cpu) / sites.count}


@contextmanager
def database(sqlite: bool) -> Iterator[PrivateMariaDb | None]:
    """The server; None: there is none."""
    if sqlite:
        yield None
        return
    with PrivateMariaDb(durable=True) as server:
        yield server


def main() -> None:
    """Take turns, print the tables."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--sites", type=int, default=32)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--alone", action="store_true", help="without Scrapy")
    add_options(parser, RUNS)
    options = parser.parse_args()
    crawls: list[dict[str, Any]] = []
    peers: list[dict[str, float]] = []
    with (
        scratch() as work,
        linked_sites(work, options.sites, options.pages // options.sites) as sites,
        database(options.sqlite) as server,
    ):
        for run in range(options.runs):
            crawls.append(run_lcc(work / f"lcc{run}", sites, server))
            print(f"run {run + 1}: LCC {crawls[-1]['rate']:.0f}/s", file=sys.stderr)
            if not options.alone:
                peers.append(run_scrapy(work / f"scrapy{run}", sites))
                print(f"run {run + 1}: Scrapy {peers[-1]['rate']:.0f}/s", file=sys.stderr)
        count = sites.count
    name = "SQLite" if options.sqlite else "MariaDB"
    report(
        crawls, f"{count} pages of 10 KiB, {options.sites} sites, {name}, {len(crawls)} runs, {os.cpu_count()} cores"
    )
    give(options, rows(crawls, peers, name))


def report(crawls: list[dict[str, Any]], title: str) -> None:
    """Print what each role has used."""
    lines = []
    for role in crawls[0]["cpu_ms"]:
        peak = max(run["peaks"].get(role, 0.0) for run in crawls)
        lines.append([role, spread([run["cpu_ms"][role] for run in crawls]), f"{peak:.0f}" if peak else ""])
    lines.append(["all", spread([sum(run["cpu_ms"].values()) for run in crawls]), ""])
    print(f"\n{title}\n\n" + table(["process", "CPU ms a page", "peak memory, MB"], lines))


def rows(crawls: list[dict[str, Any]], peers: list[dict[str, float]], name: str) -> list[Row]:
    """The rows of the table."""
    cpu = [sum(run["cpu_ms"].values()) for run in crawls]
    rates, theirs = [run["rate"] for run in crawls], [run["rate"] for run in peers]
    note = f"first page after {statistics.median(run['first'] for run in crawls):.1f} s"
    is_goal = name == "MariaDB"
    return [
        Row(
            f"crawl on {name}, against Scrapy",
            "pages/s",
            rates,
            SCRAPY if peers else "",
            theirs,
            at_least(RATE_GOAL) if peers and is_goal else None,
            note=note,
        ),
        Row(
            f"CPU of all roles and the database for a crawled page, {name}",
            "ms",
            cpu,
            SCRAPY if peers else "",
            [run["cpu_ms"] for run in peers],
            at_most(CPU_GOAL_MS) if is_goal else None,
        ),
        Row(
            f"CPU of extraction for a crawled page, {name}",
            "ms",
            [run["cpu_ms"]["extraction"] for run in crawls],
            goal=at_most(EXTRACTION_GOAL_MS),
        ),
    ]


if __name__ == "__main__":
    main()
