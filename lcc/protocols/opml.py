"""OPML, in which feed readers exchange lists of feeds (opml.org): read with limits, and written.

A document type is refused as soon as it is seen: no list of feeds needs one, and entities could explode in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

FEEDS_MAX = 100_000
BYTES_MAX = 100_000_000
DEPTH_MAX = 100
VALUE_CHARS_MAX = 10_000
PIECE_BYTES = 1 << 16


class OpmlError(ValueError):
    """The document is no OPML, or goes beyond a limit."""


class Outline(NamedTuple):
    """A feed of a list.

    :ivar folders: titles of the folders that it is in, the outermost first.
    """

    url: str
    title: str = ""
    page: str = ""
    folders: tuple[str, ...] = ()


class _Reader:
    def __init__(self) -> None:
        self.found: list[Outline] = []
        self._open: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, data: bytes, final: bool) -> None:
        try:
            self._parser.Parse(data, final)
        except OpmlError:
            raise
        except (expat.ExpatError, LookupError, ValueError) as error:  # LookupError: an unknown encoding
            raise OpmlError(f"it is no XML: {error}") from None

    def _doctype(self, *_: object) -> None:
        raise OpmlError("it has a document type (<!DOCTYPE>), which is refused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._open and tag.lower() != "opml":
            raise OpmlError(f"it is no OPML: its root is <{tag[:40]}>")
        if len(self._open) >= DEPTH_MAX:
            raise OpmlError(f"it is nested more than {DEPTH_MAX} deep")
        named = {name.lower(): value for name, value in attributes.items()}
        if any(len(value) > VALUE_CHARS_MAX for value in named.values()):
            raise OpmlError(
                f"line {self._parser.CurrentLineNumber}: a value of more than {VALUE_CHARS_MAX} characters"
            )
        title = named.get("title") or named.get("text") or ""
        url = named.get("xmlurl", "").strip()
        if tag.lower() == "outline" and url:
            if len(self.found) >= FEEDS_MAX:
                raise OpmlError(f"it has more than {FEEDS_MAX} feeds")
            folders = tuple(filter(None, self._open))
            self.found.append(Outline(url, title.strip(), named.get("htmlurl", "").strip(), folders))
        self._open.append(title if tag.lower() == "outline" and not url else "")

    def _end(self, _tag: str) -> None:
        self._open.pop()


def read_opml(file: IO[bytes]) -> list[Outline]:
    """The feeds of a list.

    :raises OpmlError: it is none.
    """
    reader = _Reader()
    size = 0
    while data := file.read(PIECE_BYTES):
        size += len(data)
        if size > BYTES_MAX:
            raise OpmlError(f"it has more than {BYTES_MAX} bytes")
        reader.feed(data, False)
    reader.feed(b"", True)
    return reader.found


def write_opml(title: str, feeds: Iterable[Outline]) -> Iterator[str]:
    """A list of feeds, line by line."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<opml version="2.0">\n'
    yield f"  <head><title>{_attribute(title)[1:-1]}</title></head>\n  <body>\n"
    for feed in feeds:
        page = f" htmlUrl={_attribute(feed.page)}" if feed.page else ""
        text = _attribute(feed.title or feed.url)
        yield f'    <outline type="rss" text={text} xmlUrl={_attribute(feed.url)}{page}/>\n'
    yield "  </body>\n</opml>\n"


def _attribute(text: str) -> str:
    """Quoted; what XML cannot hold becomes a question mark."""
    fit = "".join(char if char.isprintable() and char not in "\ufffe\uffff" else "?" for char in text)
    return quoteattr(fit, {'"': "&quot;"})
