"""The sitemap worker: what a document lists now, as far as that differs from what it listed before.

It stores the buckets that have changed (:mod:`lcc.model.sitemaps`), and the scheduler finds in them which URLs are
new, changed or gone.  An index gives the documents that it lists.  Only what is on the host of the document is listed
by it: no site speaks for another.

Of ResourceSync, source descriptions and capability lists are indexes, and a resource list is a sitemap.  A change
list, or a feed, says of each URL only what became of it last: what it does not name, or no longer, stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.feeds.faults import FeedFault
from lcc.feeds.sitemaps import (
    CAPABILITIES,
    CHANGES,
    DESCRIPTION,
    INDEX,
    RANK_MAX,
    RANKS,
    Entry,
    SitemapDocument,
)
from lcc.model.polled import CONTENT_FILE
from lcc.model.sitemaps import (
    BUCKET_CHARS_MAX,
    BUCKETS,
    CHILDREN_AT_ONCE,
    CHILDREN_MAX,
    DELETED,
    URLS_MAX,
    bucket_of,
    bucket_text,
    changed_buckets,
    digests_of,
    level_of,
    read_digests,
    write_digests,
)
from lcc.workers.api import Job, PermanentError, run

_URL_CHARS_MAX = 4096
_NAMES = {DESCRIPTION: "source description", CAPABILITIES: "capability list", INDEX: "index"}
_LISTS = (CAPABILITIES, "resourcelist", CHANGES)
_COMMIT_CHARS = 1 << 20
"""So much is stored at once: the scheduler takes no more than [scheduler] effects_max."""


def main() -> None:
    """A job of the kind ``sitemap``."""
    run(_sitemap)


def _sitemap(job: Job) -> None:
    info = job.show()
    path = os.environ.get(CONTENT_FILE)
    if not path or not info.args:
        raise PermanentError("no content was fetched for this job")
    with Path(path).open("rb") as source:
        try:
            read_sitemap(job, source, info.args[0], info.data, level_of(info.args))
        except FeedFault as error:
            raise PermanentError(str(error)) from None


def read_sitemap(job: Job, source: BinaryIO, url: str, data: str, level: int) -> None:
    """Store what differs.

    :param url: of the document.
    :param data: of the task: what its last job has kept.
    :param level: the rank of what lists the document; 0: nothing does.
    :raises FeedFault: it cannot be read, or lists nothing.
    """
    document = SitemapDocument(source)
    site = own_site(url)
    if RANKS.get(document.kind, RANK_MAX) <= level:
        raise FeedFault(f"it is listed by an index, and may be no {_NAMES[document.kind]} itself")
    if document.kind in RANKS:
        _store_index(job, document, site, url)
        return
    changes = document.kind == CHANGES
    buckets, count, left_out = (collect_changes if changes else collect)(document.entries(), site)
    if not count and not changes:
        raise FeedFault(f"it lists no URL of {site(url)}: nothing is retracted")
    texts = [bucket_text(lines) for lines in buckets]
    digests = digests_of(texts)
    stored = 0
    for number in changed_buckets(read_digests(data), digests):
        text = texts[number]
        if len(text) > BUCKET_CHARS_MAX:
            raise FeedFault("it lists too many long URLs; Next: ask its site to split it")
        job.store({"sitemap": {"bucket": number, "urls": text, **({"changes": True} if changes else {})}})
        stored += len(text)
        if stored > _COMMIT_CHARS:
            job.commit()
            stored = 0
    if left_out:
        job.log(f"{left_out} of {count + left_out} URLs are left out: not of {site(url)}, or no URLs", "warn")
    job.store({"sitemap": {"kind": document.kind, "urls": count, "left_out": left_out}})
    job.store_data(write_digests(digests))


def own_site(url: str) -> Callable[[str], str]:
    """Gives the URL of the document's site for a URL that is of it, the scheme aside; else an empty text."""
    host = urlsplit(url).netloc.lower()
    origins = f"https://{host}/", f"http://{host}/"

    def site(loc: str) -> str:
        if loc.startswith(origins):
            return origins[0] if loc[4] == "s" else origins[1]
        try:
            normal = normalise(loc)
        except (UrlError, ValueError):
            return ""
        return next((origin for origin in origins if normal.startswith(origin)), "")

    return site


class Collected(NamedTuple):
    """What a document lists.

    :ivar buckets: lines of each bucket.
    """

    buckets: list[list[str]]
    urls: int
    left_out: int


def collect(entries: Iterable[Entry], site: Callable[[str], str]) -> Collected:
    """What a document lists, each URL once.

    :raises FeedFault: more than may be.
    """
    seen: set[str] = set()
    buckets: list[list[str]] = [[] for _ in range(BUCKETS)]
    left_out = 0
    times: dict[str, str] = {}
    for loc, lastmod, _, _ in entries:
        loc = loc.partition("#")[0] if "#" in loc else loc
        if loc in seen:
            continue
        if not site(loc) or len(loc) > _URL_CHARS_MAX or not loc.isprintable():
            left_out += 1
            continue
        if len(seen) >= URLS_MAX:
            raise FeedFault(f"it lists more than {URLS_MAX:,} URLs; Next: ask its site to split it")
        seen.add(loc)
        if lastmod:
            time = times.get(lastmod)
            if time is None:
                time = times[lastmod] = seconds_of(lastmod)
            buckets[bucket_of(loc)].append(f"{loc}\t{time}")
        else:
            buckets[bucket_of(loc)].append(loc)
    return Collected(buckets, len(seen), left_out)


def collect_changes(entries: Iterable[Entry], site: Callable[[str], str]) -> Collected:
    """What became of each URL last, as a change list says: its time, or :data:`lcc.model.sitemaps.DELETED`; behind it
    the time of the change, so that the same once more is something new.

    :raises FeedFault: more than may be, or something else than changes.
    """
    last: dict[str, str] = {}
    left_out = 0
    for loc, lastmod, _, said in entries:
        loc = loc.partition("#")[0]
        change, time = said.get("change"), said.get("datetime") or lastmod
        if change not in ("created", "updated", "deleted") or not time:
            raise FeedFault(f"a change list with a URL that has no change, or no time: {loc[:200]}")
        if not site(loc) or len(loc) > _URL_CHARS_MAX or not loc.isprintable():
            left_out += 1
            continue
        what = DELETED if change == "deleted" else seconds_of(lastmod or time)
        last[loc] = f"{what}@{seconds_of(time)}"
        if len(last) > URLS_MAX:
            raise FeedFault(f"it lists more than {URLS_MAX:,} URLs; Next: ask its site to split it")
    buckets: list[list[str]] = [[] for _ in range(BUCKETS)]
    for loc, what in last.items():
        buckets[bucket_of(loc)].append(f"{loc}\t{what}")
    return Collected(buckets, len(last), left_out)


def seconds_of(lastmod: str) -> str:
    """A time as in sitemaps, in seconds since 1970; one that cannot be read: its beginning, to be compared only."""
    try:
        time = datetime.fromisoformat(lastmod)
        return str(max(0, int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())))
    except (ValueError, OverflowError):
        return "".join(each for each in lastmod[:40] if each.isalnum() or each in "-:+.") + "?"


def _store_index(job: Job, document: SitemapDocument, site: Callable[[str], str], own: str) -> None:
    children: dict[str, None] = {}
    left_out = 0
    for entry in document.entries():
        if document.kind != INDEX and entry.said.get("capability") not in _LISTS:
            continue  # dumps, archives
        try:
            url = normalise(entry.loc).partition("#")[0]
        except (UrlError, ValueError):
            url = ""
        if not url or not site(url) or url == own or len(url) > _URL_CHARS_MAX:
            left_out += 1
            continue
        children[url] = None
        if len(children) > CHILDREN_MAX:
            raise FeedFault(f"the index lists more than {CHILDREN_MAX:,} sitemaps")
    if not children:
        raise FeedFault("the index lists no sitemap of its site: nothing is retracted")
    if left_out:
        job.log(f"{left_out} sitemaps are left out: not of the index's host, the index itself, or no URLs", "warn")
    urls = list(children)
    for start in range(0, len(urls), CHILDREN_AT_ONCE):
        job.store({"sitemap": {"children": urls[start : start + CHILDREN_AT_ONCE]}})
    job.store({"sitemap": {"kind": document.kind, "urls": len(urls), "left_out": left_out}})
    job.store_data("")  # should it be a sitemap one day, all of that is new


__all__ = ["collect", "collect_changes", "main", "own_site", "read_sitemap", "seconds_of"]
