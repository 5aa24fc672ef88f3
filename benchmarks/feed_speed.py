"""What a changed feed costs its worker, beside feedparser's own parse of the same document.

    make bench-feed_speed [ARGS="--items 20 --new 2 --rounds 200"]

A document of RSS and one of Atom; between two rounds the first items change, as in a feed with news.  Both parse the
same bytes in the same process, in turn: feedparser alone, then all ten stages with the plugin "full-content" (UTF-8,
parse, plain text, identities, JSON of all items, and the messages to the manager).  What reading 20 rows of the
database costs is not in it: that is the scheduler's.  It prints CPU milliseconds a document, the least of all rounds
and their spread; the ratio may be at most 1.5.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import feedparser
from common import spread, table

from lcc.feeds.registry import plugin_named
from lcc.feeds.run import FeedRun, run_stages
from lcc.protocols.xmltext import escape

URL = "http://feeds.example.org/feed.xml"
RATIO_MAX = 1.5
WORDS = (
    "the",
    "of",
    "and",
    "to",
    "is",
    "that",
    "for",
    "was",
    "on",
    "with",
    "his",
    "they",
    "this",
    "from",
    "have",
    "not",
)


class Said:
    """Makes messages for the manager, as the worker does, and drops them."""

    def __init__(self) -> None:
        self.bytes = 0

    def log(self, text: str) -> None:
        self.bytes += len(text)

    def store(self, item: Mapping[str, Any]) -> None:
        text = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
        self.bytes += len(f'<store item="{escape(text)}"/>\n'.encode())

    def notify(self, url: str, source: str) -> None:
        self.bytes += len(url)


def paragraphs(random: Random, count: int) -> str:
    def words(number: int) -> str:
        return " ".join(random.choice(WORDS) for _ in range(number))

    return "".join(f"<p>{words(40)} <a href='/{words(1)}'>{words(3)}</a> <b>{words(2)}</b></p>" for _ in range(count))


def document(kind: str, items: int, first: int, seed: int = 1) -> bytes:
    """A feed whose newest item has the number ``first + items - 1``; each has some 2,000 characters of HTML."""
    made = []
    for number in reversed(range(first, first + items)):
        html = escape(paragraphs(Random(seed * 1_000_003 + number), 7))
        if kind == "rss":
            made.append(
                f"<item><title>Item {number}</title><link>{URL}/{number}</link><guid>{URL}/{number}</guid>"
                f"<pubDate>Fri, 13 Feb 2009 23:31:30 GMT</pubDate><category>news</category>"
                f"<description>{html}</description></item>"
            )
        else:
            made.append(
                f"<entry><title>Item {number}</title><link href='{URL}/{number}'/><id>{URL}/{number}</id>"
                f"<updated>2009-02-13T23:31:30Z</updated><author><name>A</name></author>"
                f"<content type='html'>{html}</content></entry>"
            )
    inner = "".join(made)
    if kind == "rss":
        return f"<?xml version='1.0'?><rss version='2.0'><channel><title>F</title>{inner}</channel></rss>".encode()
    return f"<feed xmlns='http://www.w3.org/2005/Atom'><title>F</title>{inner}</feed>".encode()


def cpu_ms(function: Callable[[], object]) -> float:
    begin = time.process_time()
    function()
    return (time.process_time() - begin) * 1000


def theirs(data: bytes) -> None:
    headers = {"content-type": "application/xml", "content-location": URL}
    parsed = feedparser.parse(io.BytesIO(data), response_headers=headers)
    assert parsed.entries


def ours(data: bytes) -> None:
    said = Said()
    run = FeedRun(URL, io.BytesIO(data), said, now=1_800_000_000, content_type="application/xml", policy="id")
    run_stages(plugin_named("full-content"), run)
    assert said.bytes


def measure(kind: str, items: int, new: int, rounds: int) -> tuple[list[float], list[float]]:
    """CPU milliseconds of each round, feedparser's and ours."""
    documents = [document(kind, items, first) for first in range(0, rounds * new, new)]
    theirs(documents[0])
    ours(documents[0])
    found: tuple[list[float], list[float]] = ([], [])
    for number, data in enumerate(documents):
        both = [(found[0], theirs), (found[1], ours)]
        for times, function in both if number % 2 else reversed(both):
            times.append(cpu_ms(lambda function=function, data=data: function(data)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--new", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    rows, good = [], True
    for kind in ("rss", "atom"):
        own, all_stages = measure(kind, options.items, options.new, options.rounds)
        ratio = min(all_stages) / min(own)
        good = good and ratio <= RATIO_MAX
        size = len(document(kind, options.items, 0)) // 1000
        rows.append([kind, f"{size} kB", *(f"{min(t):.2f} ({spread(t)})" for t in (own, all_stages)), f"{ratio:.2f}"])
    heads = ["feed", "size", "feedparser, ms", "all stages, ms", "ratio"]
    print(table(heads, rows))
    print(f"at most {RATIO_MAX}: {'yes' if good else 'NO'}")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
