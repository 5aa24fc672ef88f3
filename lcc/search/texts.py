"""The text of a document as a search reads it: HTML, PDF, plain text."""

from __future__ import annotations

import os
import unicodedata
from functools import cache
from importlib.util import find_spec
from typing import Any

from lcc.feeds.plain import NAVIGATION, plain_text, squeezed
from lcc.feeds.words import tidy, tidy_line
from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.spider.extractors.found import Document, Found
from lcc.spider.extractors.headers import read_headers
from lcc.spider.extractors.html import HtmlExtractor, in_utf8
from lcc.spider.extractors.poppler import PDF_TYPES, pdf_text

TYPES = {
    **dict.fromkeys(HtmlExtractor.mimetypes, "html"),
    **dict.fromkeys(PDF_TYPES, "pdf"),
    **dict.fromkeys(
        ("text/plain", "text/markdown", "text/x-markdown", "text/x-rst", "text/csv", "text/tab-separated-values"),
        "text",
    ),
}
"""MIME types that can be read, and what a search calls them."""
TITLE_CHARS_MAX = 500
_HEAD_CHARS = 10_000
"""Behind so much text no page says anything of itself."""
_LANGUAGE_CHARS = 3000
"""So much of a text tells its language."""
_LANGUAGE_CHARS_MIN = 60
"""So much does, if the page itself says nothing."""
_SURE = 0.9


def read_text(document: Document, limits: ExtractionLimits, robot: str) -> PageLinks:
    """Title, text, headings and language of a document; what cannot be read is a fault.

    :param limits: ``page_chars``, and of PDF documents ``page_seconds``.
    :param robot: as :class:`lcc.spider.extractors.extraction.Extraction`.
    """
    found = Found(document, limits)
    # Links are not looked for: "Full" would end it before all was read.
    read_headers([each for each in document.headers if each[0].lower() == "x-robots-tag"], found, robot)
    title = text = headings = declared = ""
    kind = TYPES.get(document.mimetype, "")
    if kind == "html":
        markup = in_utf8(document.content, document.charset)[0].decode("utf-8", "replace")
        plain = plain_text(markup, limits.page_chars, NAVIGATION)
        for words in plain.robots:
            found.robots(words)
        title, text, headings, declared = plain.title, plain.text, plain.headings, plain.language
        found.truncated = found.truncated or plain.cut
    elif kind == "pdf":
        title, text = _pdf(document, found)
    elif kind:
        whole = in_utf8(document.content, document.charset)[0].decode("utf-8", "replace")
        text = squeezed(whole[: limits.page_chars])
        found.truncated = found.truncated or len(whole) > limits.page_chars
    title, text, headings = (unicodedata.normalize("NFC", each) for each in (title, text, headings))
    text = tidy(text, limits.page_chars)
    return PageLinks(
        base=document.url,
        noindex=found.noindex,
        truncated=found.truncated,
        faults=found.result().faults,
        title=tidy_line(title, TITLE_CHARS_MAX),
        text=text,
        headings=tidy(headings, limits.page_chars),
        language=language_of(text, declared),
        noarchive=found.noarchive,
    )


def wants_no_copy(document: Document, robot: str) -> bool:
    """Whether a page asks that no copy of it is shown: it is not to be archived, or not even found.

    :param document: of HTML its content is looked at, too.
    """
    found = Found(document, ExtractionLimits())
    read_headers([each for each in document.headers if each[0].lower() == "x-robots-tag"], found, robot)
    if TYPES.get(document.mimetype) == "html" and document.content:
        markup = in_utf8(document.content, document.charset)[0].decode("utf-8", "replace")
        for words in plain_text(markup, _HEAD_CHARS).robots:
            found.robots(words)
    return found.noarchive or found.noindex


def _pdf(document: Document, found: Found) -> tuple[str, str]:
    """Title and text."""
    if not document.whole:
        found.fault("the document is cut: a PDF is read from its end")
        return "", ""
    read = pdf_text(document.content, found.limits.page_seconds / 2, found.limits.page_chars)
    if read.fault:
        found.fault(read.fault)
    found.truncated = found.truncated or read.cut
    return read.title, read.text


@cache
def identifier() -> Any:
    """Tells languages; None: py3langid is not installed."""
    if find_spec("py3langid") is None:
        return None
    # Of numpy, which it imports: each thread takes address space, of which there is a limit.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(text: str, declared: str) -> str:
    """The language of a text by its letters, ``en``; empty: unknown.

    :param declared: as the page says; believed where the text itself does not tell.
    """
    said = declared.partition("-")[0].partition("_")[0].lower()
    said = said if said.isascii() and said.isalpha() and len(said) in (2, 3) else ""
    known = identifier()
    if known is None or len(text) < _LANGUAGE_CHARS_MIN:
        return said
    language, certainty = known.classify(text[:_LANGUAGE_CHARS])
    return str(language) if certainty >= _SURE or not said else said
