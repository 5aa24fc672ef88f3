r"""Fast-path elements: many of one spelling, read at once by a regular expression instead of expat.

A set has millions of elements of one kind, nearly all of them spelled alike: ``<url c="…" m="…" …/>``, the same
attributes in the same order, with values in which nothing is escaped.  :class:`Spelling` reads a run of those in
a tenth of the time that expat and its handlers take.

*Why it is the same.*  An element that the expression matches is well-formed by itself: ASCII only, a known tag, known
attributes, none of them twice (the spelling has none twice), values without ``<`` and quotes, white space only where
XML has it.  ``&`` comes only as ``&amp;``, where the values' patterns let it.  So expat would report just this start
tag and just these values.  What does not match is left to expat, whatever it is.  Whether an element may begin where
the text does is the feed's to know (:class:`lcc.protocols.xmlfeed.XmlFeed`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

Row = tuple[str, ...]
"""The values of one element as they stand in the XML, in the order of its attributes; behind them an empty text."""


class FastAttribute(NamedTuple):
    """One attribute.

    :ivar values: the pattern of its values: no groups; nothing but ASCII, no ``<``, ``&`` only as ``&amp;``, and not
        the quote.
    :ivar quote: around them; empty: they stand in the pattern with their quotes.
    :ivar optional: it may be absent; then its value is empty.
    """

    name: str
    values: str
    quote: str = '"'
    optional: bool = False

    @property
    def spelled(self) -> str:
        """The pattern of the attribute, with a group for the value."""
        pattern = f" {self.name}={self.quote}({self.values}){self.quote}"
        return f"(?:{pattern})?+" if self.optional else pattern


class Spelling:
    """Elements of one spelling.

    :param tag: of the elements; without a prefix.
    :param attributes: in the order in which they are spelled, each name once; at least one.
    """

    def __init__(self, tag: str, attributes: Sequence[FastAttribute]) -> None:
        self.tag = tag
        self.names = tuple(attribute.name for attribute in attributes)
        spelled = "".join(attribute.spelled for attribute in attributes)
        # What follows the run is its last match: so there is nothing between two elements, and the run is one call.
        self._find = re.compile(rf"[ \t\r\n]*+<{tag}{spelled}/>|(.+)", re.DOTALL | re.ASCII).findall
        self._first = re.compile(rf"[ \t\r\n]*+<{tag}{spelled}/>", re.ASCII).match

    def read(self, text: str, at: int) -> tuple[list[Row], int]:
        """The fast-path elements that stand one behind the other from this place on, and where they end.

        :param text: a character for each byte.
        """
        if self._first(text, at) is None:
            return [], at
        rows: list[Row] = self._find(text, at)
        rest = rows[-1][-1]
        if rest:
            rows.pop()
        return rows, len(text) - len(rest)

    def attributes(self, row: Row) -> dict[str, str]:
        """What expat would have said of this element."""
        return {name: value.replace("&amp;", "&") for name, value in zip(self.names, row, strict=False)}
