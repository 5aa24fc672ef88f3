"""The spider's frontier: links committed a second, the bytes of a URL that is known, the time to tell the next.

Pages of 20 links, 15 of them to their own host, are committed in batches; then URLs are told and answered, host by
host.  Real tables, durable commits; on SQLite all the CPU is this process's.

    .venv/bin/python benchmarks/frontier.py --pages 50000 --urls 250000 --hosts 32 --order depth
    .venv/bin/python benchmarks/frontier.py --mariadb
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from lcc.config import DatabaseConfig
from lcc.domain.spider.keys import found_url, host_key
from lcc.domain.spider.rules import FrontierRules
from lcc.model.spider.crawls import (
    BUCKETS,
    Crawl,
    CrawlSettings,
    CrawlState,
    FrontierBatch,
    HostRef,
    HostRow,
    ReadPage,
    UrlOrder,
    UrlRow,
    UrlState,
)
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import MAIN, SPIDER
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.claims import claim_run, take_buckets
from lcc.storage.spider.commit import commit_batch
from lcc.storage.spider.rows import CRAWLS, HOSTS, URLS, crawl_values, host_values, url_values
from lcc.storage.spider.telling import ready_hosts, tell
from lcc.storage.spider.write import FrontierWrite
from lcc.testing.mariadb import PrivateMariaDb

NOW = 1_780_000_000
LINKS, OWN = 20, 15


class Web:
    """URLs that link to each other at random."""

    def __init__(self, urls: int, hosts: int) -> None:
        self.urls, self.hosts = urls, hosts
        self._random = Random(1)

    def url(self, number: int) -> Any:
        host = number % self.hosts
        url = f"http://www{host}.example/folder{number % 97}/page-of-some-length-{number}.html"
        return found_url(url, url)

    def page(self, number: int, change: int) -> ReadPage:
        below, hosts = self._random.randrange, self.hosts
        own = [below(self.urls // hosts) * hosts + number % hosts for _ in range(OWN)]
        others = [below(self.urls) for _ in range(LINKS - OWN)]
        links = [self.url(each) for each in (*own, *others)]
        return ReadPage(1, self.url(number), change, f"{change:032x}", links)


class Frontier:
    """The tables, in plain calls."""

    def __init__(self, database: BlockingDatabase, order: UrlOrder) -> None:
        self._database = database
        self._rules = FrontierRules()
        self.run = database.write(claim_run, "bench").run
        database.write(take_buckets, self.run, BUCKETS)
        crawl = Crawl(1, "bench", CrawlSettings(order=order), CrawlState.ACTIVE, NOW, frozenset(), 1)
        database.write(lambda txn: CRAWLS.insert(txn, [crawl_values(crawl)]))
        self._writes = 0

    def fill(self, web: Web, urls: int) -> None:
        """So many URLs that wait, in the order of their keys: much faster than as links."""
        hosts = sorted(range(web.hosts), key=lambda host: host_key(web.url(host).root))
        for start in range(0, len(hosts), 1000):
            self._database.write(self._fill, web, hosts[start : start + 1000], urls)

    def _fill(self, txn: Txn, web: Web, hosts: Sequence[int], urls: int) -> None:
        rows: list[UrlRow] = []
        for host in hosts:
            found = sorted(web.url(number) for number in range(host, urls, web.hosts))
            root, count = found[0].root, len(found)
            _, domain, bucket = self._rules.host_place(root)
            key = host_key(root)
            place = (domain, bucket, 1, 0, count, count, 0, 0, 0, 0, 0, 0, None, NOW, None)
            HOSTS.insert(txn, [host_values(HostRow(1, key, root, *place))])
            rows += [
                UrlRow(
                    1, url.key, key, url.path, UrlState.WAITING, 2, 2, 1, found[0].key, 0, 0, 0, b"", 0, 0, 0, 0, 0
                )
                for url in found
            ]
        URLS.insert(txn, [url_values(row) for row in rows])

    def write(self, function: Any, *args: Any) -> Any:
        self._writes += 1

        def work(txn: Any) -> Any:
            write = FrontierWrite(txn, self._rules, self.run, self._writes, NOW)
            result = function(write, *args)
            write.save()
            return result

        return self._database.write(work)

    def ready(self, limit: int) -> list[HostRef]:
        found = self._database.interact(ready_hosts, 1, range(BUCKETS), NOW, limit)
        return [HostRef(host.crawl, host.root) for host in found]


@contextmanager
def database(mariadb: bool, folder: Path) -> Iterator[tuple[BlockingDatabase, int]]:
    """With the process id of its server; 0: none."""
    settings = DatabaseConfig()
    if not mariadb:
        made = BlockingDatabase("sqlite:spider.sqlite", folder, settings, random=Random(1), series=SPIDER)
        yield made, 0
        made.close()
        return
    with PrivateMariaDb(durable=True) as server:
        made = BlockingDatabase(server.new_database(), folder, settings, random=Random(1), series=MAIN)
        assert server.process is not None
        yield made, server.process.pid
        made.close()


def cpu_seconds(pid: int) -> float:
    """Of this process and the server."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    if pid:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--urls", type=int, default=250_000, help="that pages link to")
    parser.add_argument("--fill", type=int, default=0, help="URLs that wait before")
    parser.add_argument("--hosts", type=int, default=32)
    parser.add_argument("--batch", type=int, default=500, help="pages in a transaction")
    parser.add_argument("--order", choices=[order.value for order in UrlOrder], default="depth")
    parser.add_argument("--mariadb", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as name, database(options.mariadb, Path(name)) as (made, pid):
        frontier = Frontier(made, UrlOrder(options.order))
        web = Web(options.urls, options.hosts)
        if options.fill:
            frontier.fill(web, options.fill)
            print(f"filled: {options.fill:,} URLs of {options.hosts:,} hosts", flush=True)
        wall = cpu = 0.0
        for start in range(0, options.pages, options.batch):
            numbers = range(start, min(start + options.batch, options.pages))
            batch = FrontierBatch([web.page(number % options.urls, number + 1) for number in numbers], {0: "t"})
            begun, used = time.perf_counter(), cpu_seconds(pid)
            frontier.write(commit_batch, batch)
            wall, cpu = wall + time.perf_counter() - begun, cpu + cpu_seconds(pid) - used
        links = options.pages * LINKS
        (urls,) = made.interact(lambda txn: txn.query("SELECT COUNT(*) FROM spurl"))[0]
        print(f"commit: {links:,} links of {options.pages:,} pages, {urls:,} URLs known", flush=True)
        each = cpu / links * 1e6
        print(f"  {links / wall:,.0f} links/s; {each:.1f} us of CPU a link: {links / cpu:,.0f} links a CPU second")
        if options.mariadb:
            sql = "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_name = 'spurl'"
            made.interact(lambda txn: txn.query("ANALYZE TABLE spurl"))
            size = int(made.interact(lambda txn: txn.value(sql)))
        else:
            made.write(lambda txn: None)
            sql = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            size = int(made.interact(lambda txn: txn.value(sql)))
        print(f"disk: {size / urls:.0f} bytes for a known URL of {len(web.url(1).furl)} characters")
        told, wall, cpu = 0, 0.0, 0.0
        begun, used = time.perf_counter(), cpu_seconds(pid)
        for _ in range(20):
            hosts = frontier.ready(100)
            for each in frontier.write(tell, dict.fromkeys(hosts, ())):
                told += len(each.urls)
            if len(hosts) < 100:
                made.write(lambda txn: txn.execute("UPDATE sphost SET told = 0, ready_time = 0"))
        wall, cpu = time.perf_counter() - begun, cpu_seconds(pid) - used
        print(f"tell: {told:,} URLs; {told / wall:,.0f}/s; {cpu / max(told, 1) * 1e6:.1f} us of CPU each")
        print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most")


if __name__ == "__main__":
    main()
