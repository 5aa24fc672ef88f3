"""What is in the queue is fetched: by some robots, for some providers; beside Scrapy with the same list.

``python benchmarks/drain.py [--pages 10000] [--providers 32] [--robots 1] [--runs 5] [--sqlite] [--no-peer]``

The queue is filled beforehand, intake is not part of it.  A BOT-M and so many robots, each a process of its own, are
ready before the queue manager starts; they fetch from nginx, whose pages of 10 KiB are new at each request; measured
from the first hundredth of the pages on.  Scrapy has so many processes, too, each with its share of the providers and
as many pages, and does as a polite robot has to: one request at a time for a provider (a download slot of its own for
each, ``DOWNLOAD_SLOTS``), 32 in all, ``CONCURRENT_ITEMS=1``; it keeps its queue in memory and nothing but the files
afterwards.  Its start is left out of its time and of its CPU.

``--alone``: one provider, and curl on one connection as a second peer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from common import argument_parser, cpu_seconds_of, nginx, peer_python, scratch
from lcc_site import BIN, EVER_NEW, START_SECONDS, LccSite
from peers import CURL_ALONE, run_curl
from queue_fill import fill, note_chores_done
from rows import Goal, Row, add_options, at_least, at_most, give

from lcc.testing.mariadb import PrivateMariaDb

READY = "is ready for"
"""The BOT-M logs it of each robot."""
RUN_SECONDS_MAX = 1800.0
MANY_PROVIDERS = 10_000
"""From here on each page or two are another provider's, as on the real web; this has goals."""
LOOK_SECONDS = 0.01


def start(site: LccSite, robots: int) -> None:
    """Start the BOT-M and its robots, and when all of them are ready the queue manager.

    :raises SystemExit: a role ended, or they do not come up.
    """
    site.start(wait=False)
    deadline = time.monotonic() + START_SECONDS
    while site.log("botm").count(READY) < robots:
        site.check()
        if time.monotonic() > deadline:
            raise SystemExit(f"the robots are not ready after {START_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)
    with (site.folder / "qm.log").open("ab") as log:
        command = [BIN / "twistd", "-n", "lcc-qm", "--config", site.config]
        site.processes["qm"] = subprocess.Popen(command, stdout=log, stderr=log)


def run_lcc(
    folder: Path, server: PrivateMariaDb | None, web: str, providers: int, pages: int, robots: int
) -> dict[str, Any]:
    """Fill a queue and have so many pages of it fetched.

    :param server: None: SQLite.
    """
    settings = {"botm": {"robots_max": max(64, robots)}}
    site = LccSite(folder, server and server.new_database(), settings, robots, ("botm", "bot"))
    daemon = int((server.folder / "data" / "pid").read_text()) if server else None

    def cpu_seconds() -> dict[str, float]:
        return site.cpu_seconds() | ({"mariadbd": cpu_seconds_of(daemon)} if daemon else {})

    try:
        fill(site.url, site.home, providers, max(pages, providers), web + "p{pid}/")
        note_chores_done(site.url, site.home)
        start(site, robots)
        warm, deadline = pages // 100, time.monotonic() + RUN_SECONDS_MAX
        begun, first, cpu = 0.0, 0, {}
        pages -= pages % providers if pages > providers else 0
        while (done := site.changes()) < pages:
            if not cpu and done >= warm:
                begun, first, cpu = time.monotonic(), done, cpu_seconds()
            site.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"only {done} of {pages} pages in {RUN_SECONDS_MAX:.0f} s")
            time.sleep(LOOK_SECONDS)
        wall, used = time.monotonic() - begun, cpu_seconds()
        cpu_ms = {name: 1000 * (used[name] - cpu[name]) / (done - first) for name in used}
        return {
            "rate": (done - first) / wall,
            "cpu_ms": sum(cpu_ms.values()) - cpu_ms.get("mariadbd", 0.0),
            "all_cpu_ms": sum(cpu_ms.values()),
            "roles": cpu_ms,
            "peaks": site.peaks_mb(),
        }
    finally:
        site.stop()


def run_scrapy(folder: Path, web: str, providers: int, pages: int, robots: int) -> dict[str, float]:
    """The same list, by so many processes of Scrapy; without their start."""
    each = -(-pages // providers)
    python = str(peer_python())
    processes, wanted = [], 0
    for robot in range(robots):
        mine = range(1 + robot, providers + 1, robots)
        urls = [f"p{pid} {web}p{pid}/{page}.html" for page in range(each) for pid in mine]
        work = folder / f"scrapy{robot}"
        (work / "out").mkdir(parents=True)
        (work / "urls").write_text("\n".join(urls[: pages // robots]))
        wanted += min(len(urls), pages // robots)
        command = [python, Path(__file__).with_name("scrapy_polite.py"), work / "urls", work / "out", "32"]
        processes.append(subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True))
    stored, walls, cpu = 0, [], 0.0
    for process in processes:
        output, _ = process.communicate()
        if process.returncode:
            raise SystemExit("scrapy failed")
        count, wall_seconds, cpu_seconds = output.split()
        stored += int(count)
        walls.append(float(wall_seconds))
        cpu += float(cpu_seconds)
    if stored != wanted:
        raise SystemExit(f"scrapy stored {stored} of {wanted} pages")
    return {"rate": stored / max(walls), "cpu_ms": 1000 * cpu / stored, "all_cpu_ms": 1000 * cpu / stored}


def main() -> None:
    """Take turns, print the rows."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--peer-pages", type=int, default=0, help="default: as many as --pages")
    parser.add_argument("--providers", type=int, default=32)
    parser.add_argument("--robots", type=int, default=1)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--alone", action="store_true", help="one provider, beside curl on one connection, too")
    add_options(parser)
    options = parser.parse_args()
    if options.alone:
        options.providers = 1
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, float]] = []
    alone: list[dict[str, float]] = []
    peer_pages = options.peer_pages or options.pages
    with (
        scratch() as work,
        nginx(work, work / "nginx", EVER_NEW) as port,
        nullcontext() if options.sqlite else PrivateMariaDb(durable=True) as server,
    ):
        web = f"http://127.0.0.1:{port}/"
        for run in range(options.runs):
            found = run_lcc(work / f"lcc{run}", server, web, options.providers, options.pages, options.robots)
            ours.append(found)
            if not options.no_peer:
                place = work / f"peer{run}"
                theirs.append(run_scrapy(place, web, options.providers, peer_pages, options.robots))
            if options.alone:
                urls = [f"{web}p1/{page}.html" for page in range(peer_pages)]
                alone.append(run_curl(work / f"curl{run}", urls, at_once=1))
            print(f"run {run + 1}: {ours[-1]} {theirs[-1:]} {alone[-1:]}", file=sys.stderr)
    where = "SQLite" if options.sqlite else "MariaDB"
    what = f"{_count(options.providers, 'provider')}, {_count(options.robots, 'robot')}, {where}"
    peer = "" if options.no_peer else "Scrapy" if options.robots == 1 else f"Scrapy, {options.robots} processes"
    rate_goal, cpu_goal = _goals(options)
    subject, page = ("pages of one provider", "page of one provider") if options.alone else ("pages", "page")
    rows = [
        Row(
            f"{name}, queue to cache",
            unit,
            [run[key] for run in ours],
            peer,
            [run[key] for run in theirs],
            goal,
            note=what,
        )
        for name, unit, key, goal in (
            (subject, "pages/s", "rate", rate_goal),
            (f"CPU for a {page}", "ms", "cpu_ms", cpu_goal),
            (f"CPU for a {page} with the database", "ms", "all_cpu_ms", None),
        )
    ]
    if alone:
        rates = [run["rate"] for run in alone]
        goal = at_least(0.5) if rate_goal else None
        rows.insert(1, Row(f"{subject}, against curl", "pages/s", rows[0].ours, CURL_ALONE, rates, goal, note=what))
    give(options, rows)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _goals(options: argparse.Namespace) -> tuple[Goal | None, Goal | None]:
    """Of pages/s and of CPU."""
    if options.sqlite or options.no_peer:
        return None, None
    if options.providers >= MANY_PROVIDERS:
        return at_least(4), at_most(0.3)
    return (at_least(2), None) if options.alone else (None, None)


if __name__ == "__main__":
    main()
