"""The peer of drain.py: Scrapy with one request at a time for each provider.  Not for use alone.

``scrapy_polite.py URL-FILE TARGET-FOLDER CONCURRENCY``: a line of the file is a provider and a URL.  Each body is
hashed and goes to a file of its own.  Prints how many pages it stored, and the seconds from the first to the last.
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
    begun = 0.0
    last = 0.0

    async def start(self) -> Any:
        PoliteSpider.begun = time.monotonic()
        for line in self.lines:
            provider, url = line.split()
            yield scrapy.Request(url, dont_filter=True, meta={"download_slot": provider})

    def parse(self, response: Any) -> None:
        number = PoliteSpider.count
        PoliteSpider.count += 1
        folder = self.target / f"{number >> 10:x}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:x}").write_bytes(response.body)
        hashlib.md5(response.body).hexdigest()
        PoliteSpider.last = time.monotonic()


def main() -> None:
    """Fetch."""
    PoliteSpider.lines = Path(sys.argv[1]).read_text().splitlines()
    PoliteSpider.target = Path(sys.argv[2])
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": int(sys.argv[3]),
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "CONCURRENT_ITEMS": 1,
            "DOWNLOAD_DELAY": 0,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "COOKIES_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(PoliteSpider)
    process.start()
    print(PoliteSpider.count, PoliteSpider.last - PoliteSpider.begun)


if __name__ == "__main__":
    main()
