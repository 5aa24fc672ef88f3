"""The content of pages, read completely before any of it is passed on: a content that is cut off must not spoil a
stream in which its length stands first, and a slow consumer must not keep the LCC waiting."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

import attrs

from lcc.client.blocking import Cache, CacheError, Gone, Unavailable
from lcc.export.pages import Page
from lcc.export.texts import as_latin1, as_references, charset_of, decoded, islice_chars, title_of
from lcc.feeds.plain import plain_text
from lcc.spider.extractors.poppler import pdf_text

MEMORY_BYTES = 1 << 20
"""What is longer waits on the disk."""
ATTEMPTS = 3
PAUSE_SECONDS = 1.0
PDF_BYTES_MAX = 128 << 20
PDF_MEMORY_BYTES = 512 << 20
PDF_SECONDS = 60.0
"""A PDF document is read by a program within these limits."""
TROUBLES_MAX = 10
"""So many pages in a row without their content: it is not the pages, it is the LCC."""


class Words(NamedTuple):
    """What a page says, without markup.

    :ivar text: empty: there is none.
    :ivar fault: why it could not be read, or not to its end; empty: it could.
    """

    title: str
    text: str
    fault: str = ""


@attrs.frozen
class Document:
    """A page with its content.

    :ivar data: the content as it was fetched.
    :ivar charset: of a text.
    """

    page: Page
    data: IO[bytes]
    size_bytes: int
    charset: str

    @property
    def title(self) -> str:
        """As the page says; may be empty."""
        return title_of(self.data, self.charset) if self.page.kind == "html" else ""

    def raw(self) -> Iterator[bytes]:
        """The content as it was fetched."""
        self.data.seek(0)
        while piece := self.data.read(1 << 16):
            yield piece

    def text(self) -> Iterator[str]:
        """A text, decoded."""
        return decoded(self.data, self.charset)

    def words(self, chars_max: int) -> Words:
        """Title and text without markup.

        :param chars_max: at most so much text; it is not read much further.
        """
        if self.page.is_pdf:
            return self._pdf(chars_max)
        if self.page.kind == "other":
            return Words("", "")
        if self.page.kind == "text":
            return Words("", "".join(islice_chars(self.text(), chars_max)))
        # Markup may be long where its text is short.
        markup = "".join(islice_chars(self.text(), chars_max * 4))
        return Words(self.title, plain_text(markup, chars_max).text)

    def _pdf(self, chars_max: int) -> Words:
        if self.size_bytes > PDF_BYTES_MAX:
            return Words("", "", f"a PDF of more than {PDF_BYTES_MAX >> 20} MiB is not read")
        found = pdf_text(b"".join(self.raw()), PDF_SECONDS, chars_max, PDF_MEMORY_BYTES)
        return Words(" ".join(found.title.split()), found.text, found.fault)

    def plain(self) -> Iterator[bytes]:
        """For an engine that reads Latin-1: markup in ASCII with references, other text in Latin-1, what is no text
        as it is."""
        if self.page.kind == "other":
            return self.raw()
        return map(as_latin1 if self.page.kind == "text" else as_references, self.text())

    @contextmanager
    def converted(self) -> Iterator[tuple[IO[bytes], int]]:
        """:meth:`plain` as a file, and its length in bytes."""
        with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as file:
            for piece in self.plain():
                file.write(piece)
            size_bytes = file.tell()
            file.seek(0)
            yield file, size_bytes


class Contents:
    """Gets content from an LCC.

    :param sleep: takes seconds.
    :ivar held_over: the names of pages whose content cannot be had now.
    """

    def __init__(self, cache: Cache, sleep: Callable[[float], None] = time.sleep) -> None:
        self._cache = cache
        self._sleep = sleep
        self.held_over: set[str] = set()
        self._troubles = 0

    @contextmanager
    def document(self, name: str, page: Page) -> Iterator[Document | None]:
        """A page with its content, as it is now.

        None: there is none; it may be in :attr:`held_over` then, or the cache does not have it any longer.

        :raises CacheError: the LCC cannot be asked, or has content of none.
        """
        with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as file:
            try:
                size_bytes, charset = self._get(page, file)
            except Gone:
                yield None
                return
            except Unavailable as error:
                self._troubles += 1
                if self._troubles >= TROUBLES_MAX:
                    raise CacheError(f"cannot read content: {error}") from error
                self.held_over.add(name)
                yield None
                return
            self._troubles = 0
            if page.kind != "other":
                charset = charset_of(file, charset, page.kind != "text")
            yield Document(page, file, size_bytes, charset)

    def _get(self, page: Page, file: IO[bytes]) -> tuple[int, str]:
        for attempt in range(ATTEMPTS):
            if attempt:
                self._sleep(PAUSE_SECONDS * attempt)
            try:
                content = self._cache.content(page.key)
            except Unavailable:
                if attempt + 1 == ATTEMPTS or self._troubles:
                    raise
                continue
            for piece in content.pieces():
                file.write(piece)
            _, _, charset = content.mimetype.partition("charset=")
            return content.size_bytes, charset.strip('"')
        raise AssertionError("not reached")
