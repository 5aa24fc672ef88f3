"""What is known of a document, and what extractors find in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lcc.domain.links import REFERENCE_CHARS_MAX, Base
from lcc.errors import UrlError
from lcc.model.spider.links import ExtractionLimits, Link, PageLinks

FAULTS_MAX = 10
FAULT_CHARS_MAX = 200
REL_CHARS_MAX = 100
_HEADER = "header"


class Document(NamedTuple):
    """A page as its links are looked for.

    :ivar url: that answered, normal.
    :ivar mimetype: lower case, without parameters.
    :ivar charset: as the server said; may be empty.
    :ivar headers: of its answer, names and values: ``Link`` and ``X-Robots-Tag`` are looked at.
    :ivar whole: False: ``content`` is the beginning only.
    """

    url: str
    mimetype: str
    charset: str
    headers: Sequence[tuple[str, str]]
    content: bytes
    whole: bool = True


class Full(Exception):
    """There are as many links as are wanted: no more need be looked for."""


class Found:
    """Takes what is found in a document.

    :ivar document: where it is found; its ``content`` is the whole, what an extractor is given may be decoded.
    :ivar limits: what it may cost.
    :ivar encoding: in which the queries of its links are meant; ``utf-8`` for all that is no HTML.
    :ivar nofollow: none of its links is to be followed.
    :ivar noindex: it is not to be indexed; noarchive: no copy of it is to be shown.
    :ivar truncated: there may be more.
    """

    def __init__(self, document: Document, limits: ExtractionLimits) -> None:
        self.document = document
        self.limits = limits
        self.encoding = "utf-8"
        self.nofollow = False
        self.noindex = self.noarchive = False
        self.truncated = not document.whole
        self._base = ""
        self._links: list[tuple[str, str, str, str]] = []
        self._links_max = limits.links
        self._too_long = 0
        self._faults: list[str] = []

    def link(self, reference: str, text: str = "", rel: str = "", element: str = "a") -> None:
        """A reference, as it is written; what it is relative to may be told later.

        :param text: white space is squeezed.
        :raises Full: there are as many as are wanted.
        """
        if len(self._links) >= self._links_max:
            self.truncated = True
            raise Full
        if len(reference) > REFERENCE_CHARS_MAX:
            self._too_long += 1
            return
        if text:
            chars = self.limits.text_chars
            text = " ".join(text[: 4 * chars].split())[:chars] if chars else ""
        if rel:
            rel = " ".join(rel[:REL_CHARS_MAX].lower().split())
        self._links.append((reference, text, rel, element))

    def base(self, reference: str) -> None:
        """What all references are relative to, also those before it; the first one counts, as browsers have it.

        It is itself relative to the URL that answered.
        """
        if self._base:
            return
        try:
            self._base = Base(self.document.url).resolve(reference)
        except UrlError as error:
            self.fault(f"<base>: {error.text}")

    def robots(self, directives: str) -> None:
        """The content of a ``<meta name="robots">``, or of an ``X-Robots-Tag`` for everybody."""
        words = directives.lower().replace(",", " ").split()
        self.nofollow = self.nofollow or "nofollow" in words or "none" in words
        self.noindex = self.noindex or "noindex" in words or "none" in words
        self.noarchive = self.noarchive or "noarchive" in words

    def fault(self, text: str) -> None:
        """Something of it cannot be read."""
        if len(self._faults) < FAULTS_MAX:
            self._faults.append("".join(c if c.isprintable() else " " for c in text[:FAULT_CHARS_MAX]))

    def result(self) -> PageLinks:
        """All of it."""
        own = Base(self.document.url)
        base = Base(self._base or own.url, self.encoding)
        resolve = base.resolve
        links: dict[tuple[str, str], Link] = {}
        bad = 0
        for reference, text, rel, element in self._links:
            try:
                url = own.resolve(reference) if element == _HEADER else resolve(reference)
            except UrlError as error:
                if error.entry.name == "too-long":
                    self._too_long += 1
                else:
                    bad += 1
                continue
            if not url:
                continue
            link = Link(url, text, rel, element)
            key = url, element
            known = links.setdefault(key, link)
            if known is not link and _says_more(link, known):
                links[key] = link
        if self._too_long:
            self.fault(f"{self._too_long} links are longer than {REFERENCE_CHARS_MAX} characters")
        if bad:
            self.fault(f"{bad} links are no URLs")
        return PageLinks(
            tuple(links.values()), base.url, self.nofollow, self.noindex, self.truncated, tuple(self._faults)
        )


def _says_more(link: Link, known: Link) -> bool:
    """Of two links to one place: this one may be followed, or has a text, and the other is not or has not."""
    if link.nofollow != known.nofollow:
        return known.nofollow
    return bool(link.text) and not known.text
