"""What the worker of a sitemap says of its document, and what the scheduler keeps of it.

The URLs of a document are in :data:`BUCKETS` buckets, by their hash.  The worker has the digests of those that were
stored last (they are the data of its task), and stores those that differ now: where ten of 50,000 URLs are new, the
scheduler sees ten buckets.  A bucket is text: a line for each URL, in order, with its time behind a tab.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

BUCKETS = 256
BUCKET_CHARS_MAX = 900_000
URLS_MAX = 1_000_000
"""Of one document; sitemaps.org allows 50,000."""
SITE_URLS_MAX = 10_000_000
"""Of an index, all documents together."""
CHILDREN_MAX = 10_000
"""Documents that an index may list."""
CHILDREN_AT_ONCE = 200
INDEX_OPTION = "--index"
"""Among a task's arguments, with the task of the index that lists it behind it."""
LEVEL_OPTION = "--level"
"""Likewise, with the rank of the document that lists it, if that is none of an index."""
PRIVATE_OPTION = "--allow-private"
DELETED = "deleted"
"""In place of the time of a URL in a bucket of changes."""
_INDEX_LEVEL = 3
_DIGEST_BYTES = 6


def bucket_of(url: str) -> int:
    """Where a URL is."""
    return crc32(url.encode("utf-8", "replace")) % BUCKETS


def bucket_text(lines: Iterable[str]) -> str:
    """The text of a bucket."""
    return "\n".join(sorted(lines))


def read_bucket(text: str) -> dict[str, str]:
    """URL -> its time as a text; empty: it has none."""
    found = {}
    for line in text.split("\n") if text else ():
        url, _, time = line.partition("\t")
        found[url] = time
    return found


def digests_of(texts: Sequence[str]) -> bytes:
    """The digests of all buckets."""
    return b"".join(
        blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest() if text else bytes(_DIGEST_BYTES)
        for text in texts
    )


def changed_buckets(before: bytes, after: bytes) -> list[int]:
    """Those whose digests differ."""
    size = _DIGEST_BYTES
    return [
        at for at in range(BUCKETS) if before[at * size : at * size + size] != after[at * size : at * size + size]
    ]


def write_digests(digests: bytes) -> str:
    """As the data of a task."""
    return b64encode(digests).decode()


def read_digests(data: str) -> bytes:
    """What :func:`write_digests` has written; of anything else: those of no URL."""
    try:
        found = b64decode(data, validate=True)
    except ValueError:
        found = b""
    return found if len(found) == BUCKETS * _DIGEST_BYTES else bytes(BUCKETS * _DIGEST_BYTES)


def index_of(args: Sequence[str]) -> int:
    """The task of the index that lists a document; 0: an operator has named it."""
    return _number_behind(args, INDEX_OPTION)


def level_of(args: Sequence[str]) -> int:
    """The rank of what lists a document; 0: an operator has named it."""
    return (_number_behind(args, LEVEL_OPTION) or _INDEX_LEVEL) if index_of(args) else 0


def _number_behind(args: Sequence[str], option: str) -> int:
    words = list(args[1:])
    at = words.index(option) if option in words else -1
    number = words[at + 1] if 0 <= at < len(words) - 1 else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0


class SitemapRead(NamedTuple):
    """What a job has stored of a document.

    :ivar buckets: those that have changed, by number; ``changes``: the same of a change list.
    :ivar children: documents that an index lists.
    :ivar kind: of the document (``lcc.feeds.sitemaps``); empty: it is not read to its end yet.
    :ivar urls: that it lists.
    :ivar left_out: that it lists, and may not.
    """

    buckets: dict[int, str]
    children: list[str]
    kind: str
    urls: int
    left_out: int
    changes: dict[int, str]


def read_stored(objects: Iterable[str]) -> SitemapRead:
    """What the worker of a sitemap has stored.

    :raises ValueError: an object makes no sense.
    """
    buckets: dict[int, str] = {}
    changes: dict[int, str] = {}
    children: list[str] = []
    kind, urls, left_out = "", 0, 0
    for text in objects:
        read: Any = json.loads(text)
        said = read.get("sitemap") if isinstance(read, dict) else None
        if not isinstance(said, dict):
            raise ValueError("a job of the kind 'sitemap' stores objects with 'sitemap' only")
        if "bucket" in said:
            number, lines = said["bucket"], said.get("urls")
            if type(number) is not int or not 0 <= number < BUCKETS or not isinstance(lines, str):
                raise ValueError("a bucket of a sitemap makes no sense")
            (changes if said.get("changes") is True else buckets)[number] = lines
        elif "children" in said:
            listed = said["children"]
            if not isinstance(listed, list) or not all(isinstance(url, str) for url in listed):
                raise ValueError("the documents of an index make no sense")
            children += listed
        else:
            kind, urls, left_out = str(said.get("kind", "")), int(said.get("urls", 0)), int(said.get("left_out", 0))
    if len(children) > CHILDREN_MAX:
        raise ValueError(f"an index of more than {CHILDREN_MAX:,} documents")
    return SitemapRead(buckets, children, kind, urls, left_out, changes)
