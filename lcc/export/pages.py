"""A page as search engines get it: what is kept of its row from one export to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from lcc.spider.extractors.poppler import PDF_TYPES

HTML = frozenset({"text/html", "application/xhtml+xml"})


@attrs.frozen
class Page:
    """What the cache had of a URL when it was listed.

    :ivar key: names its content, 40 hexadecimal digits.
    :ivar burl: what to show in a browser; None: nothing.
    :ivar mtime: when it was modified last, seconds since 1970; None: nobody knows.
    :ivar fetched_time: seconds since 1970.
    """

    key: str
    pid: int
    curl: str
    burl: str | None
    mimetype: str
    subtype: str
    mtime: int | None
    fetched_time: int | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Page:
        """From a row as the LCC gives it."""
        return cls(*(row[field.name] for field in attrs.fields(cls)))

    @property
    def kind(self) -> str:
        """``html``, ``xml``, ``text``, or ``other`` where there is no text to index."""
        if self.mimetype in HTML:
            return "html"
        if self.mimetype.endswith(("/xml", "+xml")):
            return "xml"
        return "text" if self.mimetype.startswith("text/") else "other"

    @property
    def is_pdf(self) -> bool:
        """It is a PDF document."""
        return self.mimetype in PDF_TYPES

    @property
    def rank(self) -> tuple[int, int, str]:
        """Of several pages with one name, the least is the one to show: HTML before text, text before what has none,
        then the provider that was there first."""
        return ("html", "xml", "text", "other").index(self.kind), self.pid, self.key

    def pack(self) -> str:
        """Serialize it."""
        return json.dumps(attrs.astuple(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def unpack(cls, text: str) -> Page:
        """What :meth:`pack` gave."""
        return cls(*json.loads(text))
