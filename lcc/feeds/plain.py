"""Plain text of HTML, by lxml's target parser: no tree, so that no markup can make it large."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from math import inf
from typing import Any

import attrs

PIECE_CHARS = 1 << 16
"""An exception in a target takes effect only behind the piece that is fed."""
DEPTH_MAX = 10_000
_HIDDEN = frozenset(
    {"script", "style", "template", "noscript", "iframe", "object", "svg", "math", "select", "textarea"}
)
NAVIGATION = frozenset({"nav", "footer", "aside", "label", "button"})
"""Not forms themselves: of some sites, such as those by ASP.NET, all of a page is in one."""
ASIDE = NAVIGATION | {"header", "form"}
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
HEADINGS_CHARS_MAX = 10_000
_MAIN = frozenset({"article", "main"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption"}
    | {"figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p"}
    | {"pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"}
)
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)


_WHITE = re.compile(r"\s+")


class _Full(Exception):
    """There is as much text as is wanted."""


@attrs.frozen
class Plain:
    """
    :ivar text: blocks are separated by line ends; white space is squeezed.
    :ivar title, language: of the page; empty: none.
    :ivar main: only what is in ``<article>`` or ``<main>``.
    :ivar cut: there was more.
    :ivar headings: a line each.
    :ivar robots: what its ``<meta name="robots">`` say.
    """

    text: str
    title: str
    language: str
    main: str
    cut: bool
    headings: str = ""
    robots: tuple[str, ...] = ()


class _Target:
    """Collects text."""

    def __init__(self, chars_max: int, without: frozenset[str]) -> None:
        self._left = chars_max
        self._headings_left = HEADINGS_CHARS_MAX
        self._skipped = _HIDDEN | without
        self._skipping: list[str] = []
        self._mains = self._pre = self._in_headings = 0
        self._in_title = False
        self.headings: list[str] = []
        self.robots: list[str] = []
        self.parts: list[str] = []
        self.main: list[str] = []
        self.title: list[str] = []
        self.language = ""
        self.cut = False

    def start(self, tag: Any, attrib: Mapping[Any, Any]) -> None:
        if self._skipping or tag in self._skipped:
            if tag not in _VOID and len(self._skipping) < DEPTH_MAX:
                self._skipping.append(tag)
            return
        if tag == "html" and not self.language:
            self.language = (attrib.get("lang") or attrib.get("xml:lang") or "")[:35]
        elif tag == "title" and not self.title:
            self._in_title = True
        elif tag in _BLOCKS:
            self._mains += tag in _MAIN
            self._pre += tag == "pre"
            self._in_headings += tag in _HEADINGS
            self._add("\n")
        elif tag == "meta" and (attrib.get("name") or "").strip().lower() == "robots":
            self.robots.append(attrib.get("content") or "")

    def end(self, tag: Any) -> None:
        if self._skipping:
            if tag in self._skipping:
                while self._skipping.pop() != tag:
                    pass
            return
        if tag == "title":
            self._in_title = False
        elif tag in _BLOCKS:
            self._add("\n")
            self._mains = max(0, self._mains - (tag in _MAIN))
            self._pre = max(0, self._pre - (tag == "pre"))
            self._in_headings = max(0, self._in_headings - (tag in _HEADINGS))

    def data(self, data: Any) -> None:
        if self._in_title:
            self.title.append(data[:1000])
        elif not self._skipping:
            self._add(data if self._pre else _WHITE.sub(" ", data))

    def comment(self, text: Any) -> None:
        """Nothing is said in comments."""

    def close(self) -> None:
        return None

    def _add(self, text: str) -> None:
        if self.cut:
            return
        self._left -= len(text)
        if self._left < 0:
            self.cut = True
            text = text[: self._left]
        self.parts.append(text)
        if self._mains:
            self.main.append(text)
        if self._in_headings and self._headings_left > 0:
            self._headings_left -= len(text)
            self.headings.append(text)
        if self.cut:
            raise _Full


def plain_text(markup: str, chars_max: int, without: frozenset[str] = frozenset(), seconds: float = inf) -> Plain:
    """The text of HTML.

    :param chars_max: read at most so much text.
    :param without: elements that are left out: :data:`NAVIGATION`, or :data:`ASIDE`.
    :param seconds: of the processor; what is not read by then is cut (elements that never end make it slow).
    """
    from lxml import etree

    target = _Target(chars_max, without)
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True)
    data = markup.encode("utf-8", "replace")
    until = time.process_time() + seconds
    try:
        for start in range(0, len(data), PIECE_CHARS):
            if time.process_time() > until:
                target.cut = True
                raise _Full
            parser.feed(data[start : start + PIECE_CHARS])
        if data.strip():
            parser.close()
    except _Full:
        pass
    except etree.XMLSyntaxError:
        pass  # nothing in it; or it ends where lxml gives up: what was read is kept
    return Plain(
        squeezed("".join(target.parts)),
        " ".join("".join(target.title).split()),
        target.language,
        squeezed("".join(target.main)),
        target.cut,
        squeezed("".join(target.headings))[:HEADINGS_CHARS_MAX],
        tuple(target.robots),
    )


def squeezed(text: str) -> str:
    """White space squeezed, line by line; no empty lines."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(filter(None, lines))
