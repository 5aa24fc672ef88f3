"""Documents of sitemaps, and what their worker says of them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

from lcc.feeds.sitemap_worker import read_sitemap
from lcc.model.sitemaps import read_bucket
from lcc.workers.api import Job

URL = "http://h.example/sitemap.xml"


class Said:
    """What a job says."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.stored: list[Mapping[str, Any]] = []
        self.data = ""
        self.commits = 0

    def log(self, text: str, level: str = "info") -> None:
        self.logs.append(text)

    def store(self, item: Mapping[str, Any]) -> None:
        self.stored.append(item)

    def store_data(self, data: str) -> None:
        self.data = data

    def commit(self) -> None:
        self.commits += 1

    @property
    def urls(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.stored:
            if "bucket" in each["sitemap"]:
                found |= read_bucket(each["sitemap"]["urls"])
        return found


def worked(data: bytes | str, before: str = "", level: int = 0, url: str = URL) -> Said:
    said = Said()
    content = data.encode() if isinstance(data, str) else data
    read_sitemap(cast(Job, said), io.BytesIO(content), url, before, level)
    return said


def urlset(*urls: str, lastmod: str = "") -> str:
    time = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    inner = "".join(f"<url><loc>{url}</loc>{time}</url>" for url in urls)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</urlset>'


RS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"'


def resync(capability: str, *entries: str, root: str = "urlset") -> str:
    """A document of ResourceSync."""
    head = f'<rs:ln rel="up" href="http://h.example/x"/><rs:md capability="{capability}"/>'
    return f"<{root} {RS}>{head}{''.join(entries)}</{root}>"


def capable(name: object, capability: str) -> str:
    """An entry of a source description or a capability list."""
    return f'<url><loc>http://h.example/{name}</loc><rs:md capability="{capability}"/></url>'


def changed(name: object, change: str, time: str, lastmod: str = "") -> str:
    """An entry of a change list."""
    mod = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    return f'<url><loc>http://h.example/{name}</loc>{mod}<rs:md change="{change}" datetime="{time}"/></url>'


def pages(*names: object) -> list[str]:
    return [f"http://h.example/{name}" for name in names]
