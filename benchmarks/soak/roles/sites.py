"""The sites of the soak: pages, a feed and a sitemap that change with time, and nothing else does."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from html import escape

import attrs

VERSION_SECONDS = 20
"""Each page has other words after so long."""
PROVIDER_PAGES = 60
FEED_ITEMS, FEED_NAMES = 30, 90
"""Items that the feed has at a time, and that it ever has: an old name comes back as a changed item."""
SITEMAP_PAGES, SITEMAP_AWAY = 120, 6
"""Pages that a sitemap knows, and that it does not list at a time: others each version."""
CRAWL_PAGES, CRAWL_LINKS = 60, 6
PUSHED_PAGES = 40
KEY = "soak0123456789abcdef"
"""Of IndexNow."""


def _vocabulary() -> list[str]:
    """Words as a language has them: so many that an index has something to do."""
    luck = random.Random(1)
    return ["".join(luck.choices("abcdefghiklmnoprstuvwz", k=luck.randint(3, 9))) for _ in range(5000)]


VOCABULARY = _vocabulary()


@attrs.frozen
class Sites:
    """URLs of what changes, without a slash at their end.

    :ivar providers: of the site of providers, which lie below it as ``/p1/``.
    :ivar crawled: of several sites that link to each other.
    """

    providers: str
    feed: str
    sitemap: str
    pushed: str
    crawled: tuple[str, ...]


def version(now: float) -> int:
    """That all pages have now."""
    return int(now // VERSION_SECONDS)


def page(host: str, path: str, number: int, links: tuple[str, ...] = ()) -> bytes:
    """A page of about 3 KB.

    :param number: its version.
    """
    luck = random.Random(f"{host}{path}{number}")
    words = " ".join(luck.choices(VOCABULARY, k=400))
    anchors = "".join(f'<li><a href="{escape(link)}">{escape(link)}</a></li>' for link in links)
    return (
        f"<!DOCTYPE html><html lang=en><head><title>{path} version {number}</title></head>"
        f"<body><h1>soak v{number}v</h1><p>{words}</p><ul>{anchors}</ul></body></html>"
    ).encode()


def links_of(sites: Sites, site: int, number: int) -> tuple[str, ...]:
    """The links of a page of a crawled site; all of them together reach all pages."""
    near = [(number * (CRAWL_LINKS - 1) + each + 1) % CRAWL_PAGES for each in range(CRAWL_LINKS - 1)]
    other = sites.crawled[(site + 1) % len(sites.crawled)]
    return (*(f"/{each}.html" for each in near), f"{other}/{number}.html")


def feed(sites: Sites, hub: str, now: float) -> bytes:
    """An Atom feed that has a new item in each version, and lacks the oldest."""
    number = version(now)
    items = []
    for each in range(number - FEED_ITEMS + 1, number + 1):
        name = each % FEED_NAMES
        updated = _iso(each * VERSION_SECONDS)
        items.append(
            f"<entry><id>urn:soak:{name}</id><title>Item {name} of version {each}</title>"
            f'<updated>{updated}</updated><link href="{sites.feed}/{name}.html"/>'
            f"<content type='html'>{escape(f'<p>Words of version {each}')}</content></entry>"
        )
    return (
        "<?xml version='1.0' encoding='utf-8'?><feed xmlns='http://www.w3.org/2005/Atom'><title>Soak</title>"
        f"<id>urn:soak</id><updated>{_iso(number * VERSION_SECONDS)}</updated>"
        f"<link rel='self' href='{sites.feed}/feed.xml'/><link rel='hub' href='{hub}'/>{''.join(items)}</feed>"
    ).encode()


def sitemap(sites: Sites, now: float) -> bytes:
    """A sitemap: a tenth of its pages has another lastmod in each version, some are away."""
    number = version(now)
    rows = []
    for each in range(SITEMAP_PAGES):
        if (each - number * SITEMAP_AWAY) % SITEMAP_PAGES < SITEMAP_AWAY:
            continue
        changed = number - (number - each) % 10
        rows.append(
            f"<url><loc>{sites.sitemap}/{each}.html</loc><lastmod>{_iso(changed * VERSION_SECONDS)}</lastmod></url>"
        )
    return (
        "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>"
        + "".join(rows)
        + "</urlset>"
    ).encode()


def _iso(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
