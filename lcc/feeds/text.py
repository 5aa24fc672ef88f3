"""The text of a page without navigation and advertisements: trafilatura, or lxml where that is not installed.

It belongs to the page (the table ``texts``, by its key), not to the item of a feed that named it.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from lcc.feeds.encodings import media_type, to_utf8
from lcc.feeds.faults import FeedFault
from lcc.feeds.plain import ASIDE, plain_text, squeezed
from lcc.feeds.words import tidy, tidy_line
from lcc.model.feeds import PageText

TREE_BYTES_MAX = 2_000_000
"""trafilatura builds trees: larger pages are lxml's, which needs none."""
MAIN_CHARS_MIN = 200
"""An ``<article>`` with less text is a teaser."""
TITLE_CHARS_MAX = 1000
_HTML = frozenset({"text/html", "application/xhtml+xml"})


@cache
def has_trafilatura() -> bool:
    """Whether trafilatura can be used: it needs lxml_html_clean, too."""
    return find_spec("trafilatura") is not None and find_spec("lxml_html_clean") is not None


def can_be_read(mimetype: str) -> bool:
    """Whether there is text in content of this type that we can read."""
    return mimetype in _HTML or mimetype.startswith("text/")


def text_of(data: bytes, content_type: str, url: str, chars_max: int) -> PageText:
    """The text of a page.

    :param content_type: with its charset, as the server said.
    :param url: of the page.
    :param chars_max: at most so much text.
    :raises FeedFault: its type is none that has text.
    """
    mimetype, _ = media_type(content_type)
    if not can_be_read(mimetype):
        raise FeedFault(f"content of type {mimetype[:80] or 'unknown'} has no text that can be read")
    markup = to_utf8(data, content_type)[0].decode("utf-8", "replace")
    if mimetype not in _HTML:
        text = squeezed(tidy(markup, chars_max))
        return PageText("", text, "", "plain", len(markup) > chars_max)
    found = plain_text(markup, chars_max, ASIDE)
    text, method, cut = found.text, "lxml", found.cut
    if len(found.main) >= MAIN_CHARS_MIN:
        text = found.main
    if has_trafilatura() and len(data) <= TREE_BYTES_MAX:
        better = _by_trafilatura(markup, url)
        if better:
            text, method, cut = better[:chars_max], "trafilatura", len(better) > chars_max
    title = tidy_line(found.title, TITLE_CHARS_MAX)
    return PageText(title, tidy(text, chars_max), tidy_line(found.language, 35), method, cut)


def _by_trafilatura(markup: str, url: str) -> str:
    """Its text; empty: it finds none."""
    import trafilatura

    try:
        # Without metadata: the search for dates is slow, and nothing that anybody needs.
        text = trafilatura.extract(markup, url=url, include_comments=False, with_metadata=False)
    except Exception:  # whatever a page makes it do: there is another way
        return ""
    return text or ""
