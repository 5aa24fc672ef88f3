"""All roles at once, each with its own work, for a long time, and what came of it.

``PYTHONPATH=benchmarks python -m soak.roles --minutes 60 [--sqlite]`` (``make soak-roles MINUTES=60``).  Two LCCs are
behind a front end; each role is a process.  Sites whose pages change every twenty seconds tell by sets (through the
front end), by a feed with a hub, by a sitemap and by IndexNow; others are crawled and visited again.  Users follow
changes and items, subscribe to hubs, fetch packages, and search.  Any machine keeps up with this load: what is looked
for is what grows.

``--speed 8`` does eight times as much in the same time; ``--inside FOLDER`` has each process tell what its memory
consists of (soak/roles/inside): both to find out why something grows.

Prints a verdict for each promise, with its limit; exit code 1: one of them was not kept.  Writes
build/soak-roles.json, from which ``--judge`` gives the verdict anew, and .md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from common import argument_parser, free_port, scratch, table
from suite.versions import commit, machine
from whole_chain import database

from soak.finding import Finding
from soak.plan import HERE
from soak.roles.inside import Inside
from soak.roles.lccs import Lccs, admin
from soak.roles.sites import Sites
from soak.roles.verdict import judge
from soak.roles.watch import Look, Sizes, Watch
from soak.roles.world import Orders

BUILD = HERE.parent / "build"
PROVIDERS = 12
"""Of each LCC."""
ADDRESSES = [f"127.0.0.{number}" for number in range(1, 8)]
"""Of providers, feed, sitemap, pushing site and three crawled ones: each is a site of its own to the LCC."""
POLL_SECONDS, REVISIT_SECONDS = 10, 20
END_SECONDS = 180.0
SHOWN_SECONDS = 60.0


def order_work(lccs: Lccs, sites: Sites) -> None:
    """The feed, the sitemap and the crawl."""
    config = lccs.subs["one"].config
    admin(config, "provider", "add", "--watched", "--root", f"{sites.pushed}/", "--allow-private")
    every = ("--every", str(POLL_SECONDS), "--allow-private")
    admin(config, "feed", "add", f"{sites.feed}/feed.xml", "--full-content", *every)
    admin(config, "sitemap", "add", f"{sites.sitemap}/sitemap.xml", *every)
    scope = "|".join(each.replace(".", r"\.") for each in sites.crawled)
    starts = [word for site in sites.crawled for word in ("--start", f"{site}/")]
    seconds = str(REVISIT_SECONDS)
    visits = ("--revisit", seconds, "--revisit-least", seconds, "--revisit-most", str(3 * REVISIT_SECONDS))
    admin(config, "spider", "add", "soak", *starts, "--restrict-to", f"({scope})/", *visits, "--allow-private")


@contextmanager
def world(orders: Orders, work: Path, counts: Path) -> Iterator[subprocess.Popen[bytes]]:
    """All that is not the LCC, in a process of its own.

    :param counts: the file of its counts.
    """
    file = work / "orders.json"
    file.write_text(json.dumps(attrs.asdict(orders)))
    command = [sys.executable, "-m", "soak.roles.world", str(file), str(counts)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            yield process
            process.stdin.close()
            process.wait(END_SECONDS)
        except BaseException:
            process.kill()
            raise


def soak(
    work: Path, database_url: str | None, seconds: float, speed: float = 1.0, inside: Inside | None = None
) -> dict[str, Any]:
    """Run it; all that it is judged by.

    :param speed: how often the world does what it does, in proportion.
    """
    port = free_port()
    urls = [f"http://{address}:{port}" for address in ADDRESSES]
    sites = Sites(*urls[:4], tuple(urls[4:]))
    lccs = Lccs(work / "lccs", database_url, f"{sites.providers}/", PROVIDERS)
    pids = [pid for both in zip(*lccs.pids.values(), strict=True) for pid in both]
    caches = [lccs.front.url, lccs.urls["cu"]]
    orders = Orders(
        port, ADDRESSES, pids, lccs.front.port, lccs.urls["push"], lccs.urls["search"], caches, caches, speed
    )
    watch = Watch(lccs, inside)
    counts = work / "counts"
    try:
        lccs.start()
        with world(orders, work, counts) as process:
            order_work(lccs, sites)
            _watch(watch, seconds, process)
        lines = [json.loads(line) for line in counts.read_text().splitlines()]
    finally:
        lccs.stop()
    logs = [[name, log if "Traceback" in log or "Unhandled" in log else ""] for name, log in lccs.logs()]
    return {
        "looks": [attrs.asdict(each) for each in watch.looks],
        "sizes": [attrs.asdict(each) for each in watch.sizes],
        "counts": lines,
        "logs": logs,
    }


def _watch(watch: Watch, seconds: float, process: subprocess.Popen[bytes]) -> None:
    end, shown = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit("the world ended")
        watch.look()
        if time.monotonic() - shown > SHOWN_SECONDS:
            shown = time.monotonic()
            sizes = ", ".join(f"{name} {size:.1f}" for name, size in watch.looks[-1].own_mb.items())
            print(f"  {(end - shown) / 60:.0f} minutes left; MB: {sizes}", file=sys.stderr)
        time.sleep(0.5)


def verdict(found: dict[str, Any]) -> list[Finding]:
    """Of what :func:`soak` gave."""
    looks = [Look(**each) for each in found["looks"]]
    sizes = [Sizes(**each) for each in found["sizes"]]
    return judge(looks, sizes, found["counts"], [(name, log) for name, log in found["logs"]])


def main() -> None:
    """Run it; exit code 1: a promise was not kept."""
    parser = argument_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--out", type=Path, default=BUILD, help="folder for the figures")
    parser.add_argument("--speed", type=float, default=1.0, help="so many times as many sets, pushes, searches …")
    parser.add_argument(
        "--inside", type=Path, metavar="FOLDER", help="count the objects in each process, to explain growth"
    )
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge what a soak has kept (soak-roles.json)")
    options = parser.parse_args()
    if options.judge:
        found = json.loads(options.judge.read_text())
    else:
        with scratch() as work, database(work, options.sqlite) as fresh_url:
            inside = Inside(options.inside) if options.inside else None
            found = soak(work, fresh_url(), 60 * options.minutes, options.speed, inside)
        options.out.mkdir(parents=True, exist_ok=True)
        found["title"] = f"{options.minutes:g} minutes of all roles (commit {commit()}; {machine()})"
        (options.out / "soak-roles.json").write_text(json.dumps(found) + "\n")
    findings = verdict(found)
    if not options.judge:
        cells = [[each.what, "yes" if each.kept else "**no**", each.figures, each.limit] for each in findings]
        text = f"{found['title']}:\n\n{table(['promise', 'kept', 'figures', 'limit'], cells)}\n"
        (options.out / "soak-roles.md").write_text(text)
    for finding in findings:
        print(finding.line())
    sys.exit(0 if all(finding.kept for finding in findings) else 1)


if __name__ == "__main__":
    main()
