"""What Scrapy's queue in memory takes: ``python benchmarks/scrapy_queue.py [--urls 100000]``.

A spider whose start is paused has so many requests put into its scheduler (100 download slots), as they would wait to
be fetched; what is resident then, less what was before, is its queue.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path


def measure(count: int) -> None:
    """In the peers' environment: prints MB before and after."""
    import scrapy
    from scrapy.crawler import CrawlerProcess

    def resident_mb() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

    class QueueSpider(scrapy.Spider):
        name = "queue"

        async def start(self):  # type: ignore[no-untyped-def]
            scheduler = self.crawler.engine._slot.scheduler
            before = resident_mb()
            for number in range(count):
                url = f"http://s{number % 100}.example/docs/part{number % 10}/page{number}.html"
                scheduler.enqueue_request(scrapy.Request(url, meta={"download_slot": f"s{number % 100}"}))
            print(json.dumps([before, resident_mb()]), flush=True)
            import os

            os._exit(0)  # nothing of it is to be fetched
            yield

    process = CrawlerProcess({"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, "CONCURRENT_REQUESTS": 1})
    process.crawl(QueueSpider)
    process.start()


def main() -> None:
    """Measure, print."""
    # Not at the top: the peers' environment, in which this file is run again, has none of it.
    from common import peer_python
    from rows import Row, add_options, give

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--urls", type=int, default=100_000)
    add_options(parser)
    options = parser.parse_args()
    runs = []
    for _ in range(options.runs):
        command = [peer_python(), __file__, "--measure", str(options.urls)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout))
    give(
        options,
        [
            Row("Scrapy with its queue in memory", "MB", [after for _, after in runs], peak=True),
            Row("Scrapy before", "MB", [before for before, _ in runs], peak=True),
        ],
    )


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(int(sys.argv[-1]))
    else:
        main()
