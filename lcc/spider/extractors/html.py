"""Links of HTML and XHTML, by lxml's target parser: no tree, so that no markup can make it large.

Of elements that never end it keeps a stack, and looks through all of it for each end tag that has no start.  A page
made of these takes time that grows with the square of its size: what is not read in time is left out.
"""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lxml import etree
from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.interfaces import ILinkExtractor
from lcc.spider.extractors.found import Found

PIECE_BYTES = 1 << 16
"""An exception in a target takes effect only behind the piece that is fed."""
_HEAD_BYTES = 1024
_META_CHARSET = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,80})""", re.IGNORECASE)
_NO_CHARSETS = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"})
"""Codecs of Python that are none, or whose time grows with the square of the length."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_REFRESH = re.compile(
    r"""[\s]*[0-9.]*[\s;,]*(?:url[\s]*=[\s]*)?(?:"([^"]*)|'([^']*)|(.*))""", re.IGNORECASE | re.DOTALL
).match
_CONTENT_CHARS_MAX = 8192
"""Of a ``<meta>``."""
_NO_DOCUMENTS = frozenset({"preconnect", "dns-prefetch"})
"""What ``<link>`` may name that is a host."""

Attributes = Mapping[Any, Any]


@implementer(IPlugin, ILinkExtractor)
class HtmlExtractor:
    """Finds ``a``, ``area``, ``frame``, ``iframe``, ``link``, ``img``, ``source`` and the refresh of ``meta``."""

    name = "html"
    mimetypes = ("text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml")

    def __init__(self) -> None:
        self._parsers: dict[bool, _Parser] = {}
        """For links with texts, and without."""

    def extract(self, content: bytes, found: Found) -> None:
        """As :meth:`lcc.interfaces.ILinkExtractor.extract`."""
        text, found.encoding = in_utf8(content, found.document.charset)
        with_texts = found.limits.text_chars > 0
        # What raises, or does not come to its end, leaves a parser behind that nobody uses again.
        parser = self._parsers.pop(with_texts, None) or _Parser(with_texts)
        if parser.read(text, found):
            self._parsers[with_texts] = parser


class _Parser:
    """lxml's parser, for one document after the other: to make one takes as long as some of a page's links."""

    def __init__(self, with_texts: bool) -> None:
        self._target = _TargetWithTexts() if with_texts else _Target()
        target: Any = self._target  # lxml's stubs want every method
        self._parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True)

    def read(self, text: bytes, found: Found) -> bool:
        """Read a document; whether the next one may be read, too.

        :param text: in UTF-8.
        """
        target, parser = self._target, self._parser
        target.begin(found)
        ended = False
        try:
            if len(text) <= PIECE_BYTES:
                parser.feed(text)
            else:
                until = time.process_time() + found.limits.parse_seconds
                for start in range(0, len(text), PIECE_BYTES):
                    if time.process_time() > until:
                        found.truncated = True
                        found.fault(f"its markup takes too long: only the first {start} bytes were read")
                        text = b""
                        break
                    parser.feed(text[start : start + PIECE_BYTES])
            if text and not text.isspace():
                parser.close()
                ended = True
        except etree.XMLSyntaxError as error:
            if getattr(error, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY:
                raise MemoryError from None
            # Nothing in it; or it ends where lxml gives up: what was read is kept.
        target.finish()
        return ended


def in_utf8(content: bytes, charset: str) -> tuple[bytes, str]:
    """HTML in UTF-8, and the encoding it had, as browsers find out: its mark, the header, ``<meta>``, UTF-8 if it is
    that, Windows-1252.  Wide encodings are believed only of what has NULs."""
    marked = next((each for each in _MARKS if content.startswith(each[0])), None)
    if marked is not None:
        content, name = content[len(marked[0]) :], marked[1]
    else:
        wide = b"\0" in content[:_HEAD_BYTES]
        name = _codec(charset)
        if name.startswith(("utf-16", "utf-32")) != wide:
            name = _wide(content) if wide else ""
        if not name and (match := _META_CHARSET.search(content, 0, _HEAD_BYTES)):
            name = _codec(match[1].decode("ascii"))
            if name.startswith(("utf-16", "utf-32")):
                name = "utf-8"  # it was read byte by byte
    if name in ("", "utf-8"):
        try:
            content.decode()
        except UnicodeDecodeError:
            return _without_nul(content.decode(name or "cp1252", "replace")), name or "cp1252"
        return (content.replace(b"\0", b"") if b"\0" in content else content), "utf-8"
    encoding = "utf-8" if name.startswith(("utf-16", "utf-32")) else name
    return _without_nul(content.decode(name, "replace")), encoding


def _without_nul(text: str) -> bytes:
    return text.replace("\0", "").encode("utf-8", "replace")


def _wide(content: bytes) -> str:
    head = content[:4]
    if head[:1] == b"\0" != head[1:2]:
        return "utf-16-be"
    return "utf-16-le" if head[1:2] == b"\0" else ""


def _codec(name: str) -> str:
    """Python's name of this encoding of text; empty: there is none."""
    if not name:
        return ""
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return ""
    found = info.name
    if found in ("iso8859-1", "ascii"):
        return "cp1252"  # a superset that is meant by the name of the subset
    if found == "gb2312":
        return "gb18030"
    return "" if found.replace("-", "_") in _NO_CHARSETS or not getattr(info, "_is_text_encoding", True) else found


class _Target:
    """Hands links to ``found``, without texts: lxml tells only what it has methods for."""

    def begin(self, found: Found) -> None:
        """Another document."""
        self._found = found
        self._link = found.link

    def finish(self) -> None:
        """That was all of it."""

    def start(self, tag: Any, attrib: Attributes) -> None:
        handler = self._HANDLERS.get(tag)
        if handler is not None:
            handler(self, attrib)

    def close(self) -> None:
        return None

    def _a(self, attrib: Attributes) -> None:
        href = attrib.get("href")
        if href is not None:
            self._link(href, "", attrib.get("rel") or "")

    def _area(self, attrib: Attributes) -> None:
        self._named("area", attrib.get("href"), attrib, "alt")

    def _frame(self, attrib: Attributes) -> None:
        self._named("frame", attrib.get("src"), attrib, "title")

    def _iframe(self, attrib: Attributes) -> None:
        self._named("iframe", attrib.get("src"), attrib, "title")

    def _of_head(self, attrib: Attributes) -> None:
        rel = attrib.get("rel") or ""
        if rel.strip().lower() not in _NO_DOCUMENTS:
            self._named("link", attrib.get("href"), attrib, "title")

    def _img(self, attrib: Attributes) -> None:
        self._named("img", attrib.get("src"), attrib, "alt")
        self._set_of("img", attrib)

    def _source(self, attrib: Attributes) -> None:
        self._named("source", attrib.get("src"), attrib, "title")
        self._set_of("source", attrib)

    def _base(self, attrib: Attributes) -> None:
        if attrib.get("href"):
            self._found.base(attrib["href"])

    def _meta(self, attrib: Attributes) -> None:
        content = attrib.get("content") or ""
        if (attrib.get("name") or "").strip().lower() == "robots":
            self._found.robots(content)
        elif (attrib.get("http-equiv") or "").strip().lower() == "refresh":
            match = _REFRESH(content[:_CONTENT_CHARS_MAX])
            target = (match[1] or match[2] or match[3] or "").strip() if match else ""
            if target:
                self._link(target, "", "", "meta")

    def _named(self, element: str, reference: str | None, attrib: Attributes, text: str) -> None:
        if reference:
            self._link(reference, attrib.get(text) or "", attrib.get("rel") or "", element)

    def _set_of(self, element: str, attrib: Attributes) -> None:
        candidates = attrib.get("srcset")
        if candidates:
            text = attrib.get("alt") or ""
            for reference in image_candidates(candidates):
                self._link(reference, text, "", element)

    _HANDLERS: Mapping[str, Callable[[Any, Attributes], None]] = {
        "a": _a,
        "area": _area,
        "base": _base,
        "frame": _frame,
        "iframe": _iframe,
        "img": _img,
        "link": _of_head,
        "meta": _meta,
        "source": _source,
    }


class _TargetWithTexts(_Target):
    """The text of an ``<a>`` is collected until it ends, another begins, or there is enough of it."""

    def begin(self, found: Found) -> None:
        super().begin(found)
        self._enough = 4 * found.limits.text_chars
        self._href: str | None = None
        self._rel = self._title = ""
        self._text: list[str] = []
        self._chars = 0

    def finish(self) -> None:
        self.end("a")

    def end(self, tag: Any) -> None:
        if tag == "a" and self._href is not None:
            href, self._href = self._href, None
            self._link(href, "".join(self._text) or self._title, self._rel)

    def data(self, data: Any) -> None:
        if self._href is not None and self._chars < self._enough:
            self._chars += len(data)
            self._text.append(data[: self._enough])

    def _a(self, attrib: Attributes) -> None:
        if self._href is not None:
            self.end("a")
        self._href = attrib.get("href")
        if self._href is not None:
            self._rel = attrib.get("rel") or ""
            self._title = attrib.get("title") or ""
            self._text = []
            self._chars = 0

    def _img(self, attrib: Attributes) -> None:
        alt = attrib.get("alt")
        if alt and self._href is not None:
            self.data(f" {alt} ")
        super()._img(attrib)

    _HANDLERS = {**_Target._HANDLERS, "a": _a, "img": _img}


_CANDIDATE = re.compile(r"[\s,]*([^\s,]\S*)[^,]*")


def image_candidates(srcset: str) -> Iterator[str]:
    """The references of a ``srcset`` (HTML, 4.8.4.2.1): each up to white space; commas at its end are none of it."""
    at = 0
    while match := _CANDIDATE.match(srcset, at):
        reference = match[1].rstrip(",")
        if reference:
            yield reference
        at = match.end(1) if match[1].endswith(",") else match.end()
