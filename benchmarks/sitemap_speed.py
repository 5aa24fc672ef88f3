"""What a changed sitemap costs its worker, beside lxml's bare iterparse of the same document.

``python benchmarks/sitemap_speed.py [--urls 50000] [--changed 10] [--runs 7]``

Both read the same bytes in the same process, in turn: ``iterparse`` alone, which clears each element; then all that
the worker does: parse, buckets, digests, and the messages to the manager with the buckets that have changed.  It
gives CPU milliseconds a document; the ratio may be at most 6.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from lxml import etree
from rows import Row, add_options, at_most, give

from lcc.feeds.sitemap_worker import read_sitemap
from lcc.workers.api import Job

URL = "http://www.example.org/sitemap.xml"
RATIO_MAX = 6


class Said:
    """Makes the messages, and drops them."""

    def __init__(self) -> None:
        self.bytes = 0
        self.data = ""

    def log(self, text: str, level: str = "info") -> None:
        self.bytes += len(text)

    def store(self, item: Mapping[str, Any]) -> None:
        self.bytes += len(json.dumps(item, ensure_ascii=False, separators=(",", ":")))

    def store_data(self, data: str) -> None:
        self.data = data

    def commit(self) -> None:
        """Nothing more."""


def document(urls: int, changed: int) -> bytes:
    """A sitemap; the first of its URLs have another time."""
    entries = (
        f"<url><loc>http://www.example.org/section-{at % 37}/page-{at}.html</loc>"
        f"<lastmod>2026-{1 + at % 12:02}-{1 + at % 28:02}T0{2 if at < changed else 1}:00:00+00:00</lastmod></url>\n"
        for at in range(urls)
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    return f"{head}{''.join(entries)}</urlset>\n".encode()


def bare(data: bytes) -> None:
    """What is compared with."""
    for _, element in etree.iterparse(io.BytesIO(data), tag="{http://www.sitemaps.org/schemas/sitemap/0.9}url"):
        element.clear()


def worked(data: bytes, before: str = "") -> Said:
    """What the worker does."""
    said = Said()
    read_sitemap(cast(Job, said), io.BytesIO(data), URL, before, 0)
    return said


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of a call."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--urls", type=int, default=50_000)
    parser.add_argument("--changed", type=int, default=10)
    add_options(parser, runs=7)
    options = parser.parse_args()
    before = worked(document(options.urls, 0)).data
    data = document(options.urls, options.changed)
    parses, works = [], []
    for _ in range(options.runs):
        parses.append(cpu_ms(lambda: bare(data)))
        works.append(cpu_ms(lambda: worked(data, before)))
    note = f"{options.urls:,} URLs, {options.changed:,} changed"
    name = "CPU of a changed sitemap"
    goal = at_most(RATIO_MAX, of_ratio=True)
    give(options, [Row(name, "ms", works, peer="lxml's iterparse", theirs=parses, goal=goal, note=note)])
    print(f"to the scheduler: {worked(data, before).bytes:,} bytes of {len(data):,}")


if __name__ == "__main__":
    main()
