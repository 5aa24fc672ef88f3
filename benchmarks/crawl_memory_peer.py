"""The peer of crawl_memory.py: Scrapy's scheduler with so many requests.  Not for use alone.

``crawl_memory_peer.py URLS HOSTS`` prints the peak of resident memory in MB.  Queue and filter of duplicates are
those that Scrapy has by default, in memory.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class Filler(scrapy.Spider):
    """Fills the queue, and ends before anything is fetched."""

    name = "memory"
    urls = hosts = 0

    async def start(self) -> Any:
        queue: Any = self.crawler.engine
        for number in range(self.urls):
            host = number % self.hosts
            url = f"http://www{host}.example/folder{number % 97}/page-of-some-length-{number}.html"
            if not queue._slot.scheduler.enqueue_request(scrapy.Request(url)):
                os._exit(1)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, flush=True)
        os._exit(0)
        yield


def main(urls: int, hosts: int) -> None:
    """Fill it."""
    process = CrawlerProcess({"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False})
    process.crawl(Filler, urls=urls, hosts=hosts)
    process.start()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
