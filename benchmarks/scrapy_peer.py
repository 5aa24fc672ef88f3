"""The peer: Scrapy fetches a list of URLs into files and takes their md5.  Run by peers.py."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class ListSpider(scrapy.Spider):
    """Fetches every URL of a file."""

    name = "list"
    urls: list[str] = []
    target = Path()
    count = digest = 0
    begun = cpu = wall_seconds = cpu_seconds = 0.0

    async def start(self) -> Any:
        ListSpider.begun, ListSpider.cpu = time.perf_counter(), time.process_time()
        for url in self.urls:
            yield scrapy.Request(url, dont_filter=True)

    def parse(self, response: Any) -> None:
        number = ListSpider.count
        ListSpider.count += 1
        (self.target / f"{number:x}").write_bytes(response.body)
        ListSpider.digest ^= int(hashlib.md5(response.body, usedforsecurity=False).hexdigest(), 16)
        ListSpider.wall_seconds = time.perf_counter() - self.begun
        ListSpider.cpu_seconds = time.process_time() - self.cpu


def main() -> None:
    """``scrapy_peer.py URL-FILE TARGET-FOLDER CONCURRENCY``; prints pages stored, wall and CPU seconds, digest."""
    ListSpider.urls = Path(sys.argv[1]).read_text().split()
    ListSpider.target = Path(sys.argv[2])
    concurrency = int(sys.argv[3])
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": concurrency,
            "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
            "CONCURRENT_ITEMS": 1,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "COOKIES_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(ListSpider)
    process.start()
    print(ListSpider.count, ListSpider.wall_seconds, ListSpider.cpu_seconds, ListSpider.digest)


if __name__ == "__main__":
    main()
