"""Pages as a spider reads them, and the links on them."""

from __future__ import annotations

from typing import NamedTuple

from lcc.model.cache import CachedUrl


class Page(NamedTuple):
    """A cached page with its content, or one that was deleted.

    :ivar row: as content users see it: of its ``headers`` there are those of ``lcc.model.headers.OF_PAGES``;
        ``change`` orders pages.
    :ivar content: as it is stored, at most so many bytes as the reader wanted.
    :ivar whole: False: there are more.
    :ivar missing: why its content cannot be read now; empty: it is there, or was deleted.
    """

    row: CachedUrl
    content: bytes
    whole: bool = True
    missing: str = ""

    @property
    def url(self) -> str:
        """The URL that answered: its links are relative to this."""
        return self.row.fetched_url or self.row.furl or self.row.curl


class Link(NamedTuple):
    """A link, as its page has it.

    :ivar url: absolute, normal (:func:`lcc.domain.urls.normalise`), without fragment; of any scheme that has ``//``.
    :ivar text: anchor text, ``alt`` or title, white space squeezed; may be empty or cut.
    :ivar rel: lower-case words with spaces between them; may be empty or cut.
    :ivar element: what names it: ``a``, ``img``, ``meta`` …, or ``header``, ``feed``, ``sitemap``, ``pdf``, ``list``.
    """

    url: str
    text: str = ""
    rel: str = ""
    element: str = "a"

    @property
    def nofollow(self) -> bool:
        """The page asks not to follow it."""
        return "nofollow" in self.rel and "nofollow" in self.rel.split()


class PageLinks(NamedTuple):
    """What was found on a page.

    :ivar links: in the order of the page, each URL and element once.
    :ivar base: what they are relative to.
    :ivar nofollow: the page, or its header, asks not to follow any of them.
    :ivar noindex: it asks not to be indexed.
    :ivar truncated: a limit was reached: there may be more.
    :ivar faults: what could not be read, for people, at most a few.
    :ivar title, text: of the page, if its text was wanted (:attr:`ExtractionLimits.page_chars`).
    :ivar failed: the page ended its worker, or took too long; the reason stands in ``faults``.
    :ivar headings, language: of the page, if it is read for a search: a line each; ``en`` and the like.
    :ivar noarchive: it asks that no copy of it is shown.
    """

    links: tuple[Link, ...] = ()
    base: str = ""
    nofollow: bool = False
    noindex: bool = False
    truncated: bool = False
    faults: tuple[str, ...] = ()
    failed: bool = False
    title: str = ""
    text: str = ""
    headings: str = ""
    language: str = ""
    noarchive: bool = False


class ExtractionLimits(NamedTuple):
    """What extraction may cost.

    :ivar links: of a page; further ones are left out, and the page is ``truncated``.
    :ivar document_bytes: of a page; what is behind them is not read.
    :ivar text_chars: of a link's text; 0: it is not wanted.
    :ivar page_chars: of the page's own text; 0: it is not wanted.
    :ivar page_seconds: of the clock, for a page; then its worker is killed.
    :ivar memory_bytes: of a worker's address space.
    :ivar cpu_seconds: of a worker for a page; the kernel kills it then.
    """

    links: int = 10_000
    document_bytes: int = 8 << 20
    text_chars: int = 200
    page_chars: int = 0
    page_seconds: float = 20.0
    memory_bytes: int = 1 << 30
    cpu_seconds: int = 10

    @property
    def parse_seconds(self) -> float:
        """Of the processor, for the links of a page of HTML, and as many for its text; what is behind is not read."""
        return self.cpu_seconds / 5


class StoreSettings(NamedTuple):
    """How stores keep pages.

    :ivar segment_bytes: a file that has as many is closed, and the next one begun.
    """

    segment_bytes: int = 50_000_000
