#!/usr/bin/env python3
"""link.py URL KEY: has the pages fetched that a page links to."""

import os
import sys
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin
from urllib.request import urlopen

from lcc.worker import Job, TemporaryError, run


class Links(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.found: dict[str, None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href") if tag == "a" else None
        if target:
            url = urldefrag(urljoin(self.base, target)).url
            if url.startswith(("http://", "https://")):
                self.found[url] = None


def main(job: Job) -> None:
    url, key = sys.argv[1:]
    links = Links(url)
    try:
        with urlopen(f"{os.environ['LCC_CU']}/content/{key}", timeout=30) as answer:
            links.feed(answer.read(10_000_000).decode("utf-8", "replace"))
    except OSError as error:
        raise TemporaryError(str(error)) from None
    for found in links.found:
        job.notify(found, source="link")
    job.status(f"{len(links.found)} links")


run(main)
