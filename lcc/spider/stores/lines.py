"""Stores of lines: JSON objects, one a line, in gzip files (``zcat`` shows them).

What was written between two places is one member of the gzip file, so a file that is cut at a place is whole.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.interfaces import IOpenStore, IPageStore
from lcc.model.spider.links import Page, PageLinks, StoreSettings
from lcc.spider.stores.segments import Segments
from lcc.storage.disk.file_system import Disk

_LEVEL = 6
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


@implementer(IOpenStore)
class _OpenLines:
    def __init__(self, store: _LinesStore, segments: Segments) -> None:
        self._store = store
        self._segments = segments
        self._squeezer: Any = None

    def write(self, pages: Sequence[tuple[Page, PageLinks]]) -> None:
        lines = "".join([_encode(each) + "\n" for page, links in pages for each in self._store.objects(page, links)])
        if not lines:
            return
        if self._squeezer is None:
            self._squeezer = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS + 16)
        self._segments.write(self._squeezer.compress(lines.encode("utf-8", "replace")))

    def flush(self) -> str:
        if self._squeezer is not None:
            self._segments.write(self._squeezer.flush())
            self._squeezer = None
        return self._segments.sync()

    def close(self) -> None:
        self._segments.close()


class _LinesStore:
    """Keeps some objects of each page.

    :ivar name: of the store, and of its files.
    """

    name = ""

    def open(self, folder: Path, place: str, disk: Disk, settings: StoreSettings) -> _OpenLines:
        """As :meth:`lcc.interfaces.IPageStore.open`."""
        name = f"{self.name}-{{}}.ndjson.gz"
        return _OpenLines(self, Segments(folder, name, place, disk, settings.segment_bytes))

    def objects(self, page: Page, links: PageLinks) -> Iterable[dict[str, Any]]:
        """What is kept of a page."""
        raise NotImplementedError


@implementer(IPlugin, IPageStore)
class LinkLog(_LinesStore):
    """A log of all links."""

    name = "links"
    summary = "a log of all links: source, target, text, rel, element"
    wants_text = False

    def objects(self, page: Page, links: PageLinks) -> Iterator[dict[str, Any]]:
        """A line for each link; ``change`` says which of two versions of a page is the newer one."""
        source, change = page.row.curl, page.row.change
        for url, text, rel, element in links.links:
            yield {
                "source": source,
                "target": url,
                "text": text,
                "rel": rel,
                "element": element,
                "change": change,
            }


@implementer(IPlugin, IPageStore)
class TextStore(_LinesStore):
    """The text of pages."""

    name = "text"
    summary = "the plain text of pages: url, title, text"
    wants_text = True

    def objects(self, page: Page, links: PageLinks) -> Iterator[dict[str, Any]]:
        """A line for each page that has a text; ``change`` says which of two versions of it is the newer one."""
        if links.text or links.title:
            yield {
                "url": page.row.curl,
                "title": links.title,
                "text": links.text,
                "mimetype": page.row.mimetype,
                "fetched_time": page.row.fetched_time,
                "change": page.row.change,
            }
