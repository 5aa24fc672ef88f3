"""Bodies of ``POST /sets``: the elements of a set as lines of JSON, or as ``<url>`` elements without a root.

Both come out as the ``<url>`` elements that a UNS reads.  What cannot be read refuses the set as a whole, as XML that
is not well-formed does over the port of providers: of a full set, an element that nobody understood would be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lcc.errors import StreamError
from lcc.protocols.cp_uns import SET_LIMITS, URL_TAG
from lcc.protocols.cp_uns_client import url_element
from lcc.protocols.xmlfeed import Start, XmlFeed

LINE_BYTES_MAX = 65_536
_BOM = b"\xef\xbb\xbf"
_load = json.JSONDecoder().decode


class SetBody:
    """Reads a body, in whatever pieces it comes; its first character says which kind it is.

    :ivar elements: so many came.
    """

    def __init__(self) -> None:
        self.elements = 0
        self._lines = 0
        self._held = b""
        self._feed: XmlFeed | None = None
        self._begun = False

    def receive(self, data: bytes) -> str:
        """The elements that are complete now.

        :raises StreamError: it cannot be read; the text says where.
        """
        if not self._begun:
            data = (self._held + data).removeprefix(_BOM).lstrip()
            self._held = b""
            if not data or _BOM.startswith(data):
                self._held = data
                return ""
            self._begun = True
            if data.startswith(b"<"):
                self._feed = XmlFeed(SET_LIMITS)
                self._feed.receive(b"<set>")
        if self._feed is not None:
            return "".join(self._urls(self._feed, data))
        head, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._held += data
            self._check_length()
            return ""
        whole, self._held = self._held + head, rest
        self._check_length()
        return "".join(self._elements(whole))

    def end(self) -> str:
        """The same of the rest: that was all.

        :raises StreamError: it cannot be read.
        """
        if self._feed is not None:
            text = "".join(self._urls(self._feed, b"</set>"))
            if not self._feed.waiting:
                raise StreamError("syntax", "the last element is not complete")
            return text
        rest, self._held = self._held, b""
        return "".join(self._elements(rest)) if rest.strip() else ""

    def _check_length(self) -> None:
        if len(self._held) > LINE_BYTES_MAX:
            raise StreamError("limit", f"a line behind line {self._lines} is longer than {LINE_BYTES_MAX:,} bytes")

    def _elements(self, lines: bytes) -> Iterator[str]:
        try:
            text = lines.decode()
        except UnicodeDecodeError as error:
            number = self._lines + 1 + lines.count(b"\n", 0, error.start)
            raise StreamError("encoding", f"line {number} is not UTF-8") from None
        for line in text.split("\n"):
            self._lines += 1
            if len(line) > LINE_BYTES_MAX:
                raise StreamError("limit", f"line {self._lines} is longer than {LINE_BYTES_MAX:,} bytes")
            if not line or line.isspace():
                continue
            self.elements += 1
            try:
                yield url_element(_attributes(_load(line)))
            except RecursionError:
                raise StreamError("syntax", f"line {self._lines}: nested too deep") from None
            except ValueError as error:
                raise StreamError("syntax", f"line {self._lines}: {error}") from None

    def _urls(self, feed: XmlFeed, data: bytes) -> Iterator[str]:
        if feed.waiting:
            raise StreamError("syntax", "</set> among the elements: only <url> elements may stand there")
        for event in feed.receive(data):
            if isinstance(event, Start) and event.depth == 2 and event.name == URL_TAG:
                self.elements += 1
                # What has a namespace is nothing that a UNS knows.
                told = {name: value for name, value in event.attributes.items() if not {":", "{"} & set(name)}
                try:
                    yield url_element(told)
                except ValueError as error:
                    raise StreamError("syntax", f"element {self.elements}: {error}") from None


def _attributes(found: Any) -> dict[str, str]:
    """
    :raises ValueError: it is no element.
    """
    if type(found) is not dict:
        raise ValueError('each line must be an object, such as {"c": "http://site/page", "m": "text/html"}')
    if all(type(value) is str for value in found.values()):
        return found
    told = {}
    for name, value in found.items():
        if type(value) is int:
            value = str(value)
        elif value is None:
            continue
        elif type(value) is not str:
            raise ValueError(f"the value of {name[:80]!r} must be text or a whole number")
        told[name] = value
    return told
