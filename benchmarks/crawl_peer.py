"""The peer of crawl.py: Scrapy's CrawlSpider, which follows all links of some sites.  Not for use alone.

``crawl_peer.py START-FILE TARGET-FOLDER``.  One request of a site at a time, without a pause; each body is hashed and
goes to a file of its own.  Prints how many pages it stored, and the seconds and CPU seconds from the first request to
the last page.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class Crawler(CrawlSpider):
    """Follows all links."""

    name = "crawl"
    target = Path()
    count = 0
    begun = cpu = wall_seconds = cpu_seconds = 0.0
    rules = (Rule(LinkExtractor(allow=r"^http://127\.0\.1\.\d+:"), callback="keep", follow=True),)

    async def start(self) -> Any:
        Crawler.begun, Crawler.cpu = time.perf_counter(), time.process_time()
        for url in self.start_urls:
            yield scrapy.Request(url)  # CrawlSpider's own would be fetched once more when something links to them

    def parse_start_url(self, response: Any, **_: Any) -> Any:
        self.keep(response)
        return ()

    def keep(self, response: Any) -> None:
        number = Crawler.count
        Crawler.count += 1
        folder = self.target / f"{number >> 10:x}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:x}").write_bytes(response.body)
        hashlib.md5(response.body, usedforsecurity=False).hexdigest()
        Crawler.wall_seconds = time.perf_counter() - self.begun
        Crawler.cpu_seconds = time.process_time() - self.cpu


def main() -> None:
    """Crawl."""
    starts = Path(sys.argv[1]).read_text().split()
    Crawler.target = Path(sys.argv[2])
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": len(starts),
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "CONCURRENT_ITEMS": 1,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "COOKIES_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(Crawler, start_urls=starts)
    process.start()
    print(Crawler.count, Crawler.wall_seconds, Crawler.cpu_seconds)


if __name__ == "__main__":
    main()
