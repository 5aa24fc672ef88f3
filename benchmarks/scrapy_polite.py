"""The peer of drain.py: Scrapy with one request at a time for each provider.  Not for use alone.

``scrapy_polite.py URL-FILE TARGET-FOLDER CONCURRENCY``: a line of the file is a provider and a URL.  Each body is
hashed and goes to a file of its own.  Prints how many pages it stored, and the seconds and the CPU seconds from the
first request to the last page.

The providers are one host and port here.  Scrapy keeps as many connections to a host as
``CONCURRENT_REQUESTS_PER_DOMAIN`` says, and lets as many requests be on their way in a download slot; so that is the
concurrency, and each provider's slot has a concurrency of one (``DOWNLOAD_SLOTS``): connections are used again.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class PoliteSpider(scrapy.Spider):
    """Fetches every URL of a file."""

    name = "polite"
    lines: list[str] = []
    target = Path()
    count = 0
    begun = cpu = wall_seconds = cpu_seconds = 0.0

    async def start(self) -> Any:
        PoliteSpider.begun, PoliteSpider.cpu = time.perf_counter(), time.process_time()
        for line in self.lines:
            provider, url = line.split()
            yield scrapy.Request(url, dont_filter=True, meta={"download_slot": provider})

    def parse(self, response: Any) -> None:
        number = PoliteSpider.count
        PoliteSpider.count += 1
        folder = self.target / f"{number >> 10:x}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:x}").write_bytes(response.body)
        hashlib.md5(response.body, usedforsecurity=False).hexdigest()
        PoliteSpider.wall_seconds = time.perf_counter() - self.begun
        PoliteSpider.cpu_seconds = time.process_time() - self.cpu


def main() -> None:
    """Fetch."""
    PoliteSpider.lines = Path(sys.argv[1]).read_text().splitlines()
    PoliteSpider.target = Path(sys.argv[2])
    providers = {line.split()[0] for line in PoliteSpider.lines}
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": int(sys.argv[3]),
            "CONCURRENT_REQUESTS_PER_DOMAIN": int(sys.argv[3]),
            "DOWNLOAD_SLOTS": {provider: {"concurrency": 1, "delay": 0, "jitter": 0} for provider in providers},
            "CONCURRENT_ITEMS": 1,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "COOKIES_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(PoliteSpider)
    process.start()
    print(PoliteSpider.count, PoliteSpider.wall_seconds, PoliteSpider.cpu_seconds)


if __name__ == "__main__":
    main()
