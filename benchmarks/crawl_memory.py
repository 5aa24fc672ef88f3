"""Memory of a whole spider with very many known URLs, while it crawls other sites.

    make bench-crawl_memory [ARGS="--urls 5000000 --hosts 100000 --pages 3200"]

A frontier on SQLite is filled; then a whole LCC starts, and the spider crawls 32 sites on nginx beside it.  The hosts
of the filled crawl do not exist: their robots.txt is never known, so all of them are looked at again and again, which
is the most that they can cost.  It prints the peak of resident memory of the spider's process, and its CPU until the
sites were read.  Scrapy's queue and its filter of duplicates in memory are measured beside it (``--scrapy``).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from common import cpu_seconds_of, peak_memory_bytes, peer_python, scratch, table
from crawl_sites import CrawlingLcc, linked_sites
from frontier import Frontier, Web

from lcc.model.spider.crawls import UrlOrder
from lcc.storage.database.tables.locked_counter import draw
from lcc.storage.spider.claims import end
from lcc.storage.spider.orders import CRAWL_IDS

GOAL_MB = 150


def measure(work: Path, urls: int, hosts: int, pages: int) -> list[str]:
    """A row of the table."""
    with linked_sites(work, 32, pages // 32) as sites:
        lcc = CrawlingLcc(work / "lcc", None)
        try:
            if urls:
                frontier = Frontier(lcc.frontier, UrlOrder.DEPTH)
                frontier.fill(Web(urls, hosts), urls)
                lcc.frontier.write(draw, CRAWL_IDS)  # the filled crawl has the first number
                lcc.frontier.write(end, frontier.run)
            lcc.start()
            time.sleep(10)
            process = lcc.site.processes["spider"].pid
            lcc.crawl(sites.roots)
            lcc.wait(sites.count)
            time.sleep(5)
            peak, cpu = peak_memory_bytes(process) / 1e6, cpu_seconds_of(process)
            return [f"{urls:,}", f"{hosts:,}", f"{peak:.0f}", f"{cpu:.1f}"]
        finally:
            lcc.stop()


def scrapy_mb(urls: int, hosts: int) -> float:
    """Peak memory of Scrapy with so many known URLs, as requests in its scheduler."""
    command = [str(peer_python()), str(Path(__file__).with_name("crawl_memory_peer.py")), str(urls), str(hosts)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Scrapy failed: {done.stderr[-2000:]}")
    return float(done.stdout)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--urls", type=int, default=5_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=3200, help="that are crawled")
    parser.add_argument("--scrapy", default="", help="numbers of URLs for Scrapy, such as 100000,500000,1000000")
    options = parser.parse_args()
    rows = []
    for urls in dict.fromkeys((0, options.urls)):
        with scratch() as work:
            rows.append(measure(work, urls, options.hosts if urls else 0, options.pages))
            print(rows[-1], file=sys.stderr, flush=True)
    print(table(["known URLs", "hosts", "peak memory of the spider, MB", "its CPU, s"], rows))
    if options.scrapy:
        counts = [int(each) for each in options.scrapy.split(",")]
        theirs = [[f"{each:,}", f"{scrapy_mb(each, options.hosts):.0f}"] for each in counts]
        print("\n" + table(["known URLs", "peak memory of Scrapy, MB"], theirs))
    good = float(rows[-1][2]) <= GOAL_MB
    print(f"\nat most {GOAL_MB} MB: {'yes' if good else 'NO'}")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
