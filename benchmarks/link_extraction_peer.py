"""Scrapy's LinkExtractor, for link_extraction.py: ``link_extraction_peer.py PAGES BYTES LINKS``.

Runs in the environment of the peers.  Prints how many links were found, and the CPU seconds that this took.
"""

from __future__ import annotations

import sys
import time

from linked_pages import linked_pages
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor


def main(count: int, page_bytes: int, links: int) -> None:
    """Extract all."""
    pages = [*linked_pages(count, page_bytes, links)]
    extractor = LinkExtractor(unique=True)
    found = 0
    begun = time.process_time()
    for url, body in pages:
        response = HtmlResponse(url, body=body, headers={"Content-Type": "text/html; charset=utf-8"})
        found += len(extractor.extract_links(response))
    print(found, time.process_time() - begun)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
