"""Texts as words of an index: what people leave out when they ask is left out, scripts without spaces are set apart.

The accents of Latin letters are left to tantivy (:func:`lcc.search.schema.word_analyzer`).  For the others it depends
on the script what is a letter of its own and what is only written with care:

* Greek: all accents, breathings and diaereses go; a final sigma is a sigma.
* Cyrillic: marks of stress go, and so does the diaeresis of Russian, which is mostly not written.  Й, ї, ў, ѓ, ќ and
  others are letters of their own.
* Hebrew: points and accents of reading go.
* Arabic: vowel signs and the stretching of words go, and an alef is one with or without hamza.
* Elsewhere, such as in Devanagari and Thai, marks are vowels: they stay.

Texts are in Unicode's form NFC.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain

_SEPARATOR = "\u200b"
"""A space of no width: what it is between are two words."""
_ONE_BY_ONE = (
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff"  # Han
    "\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # Hiragana, Katakana
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
)
"""Scripts without spaces between words: each character is one, and several together are a phrase."""
_UNSEEN = "\u00ad\u061c\u200c-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe00-\ufe0f\ufeff"
"""No reader sees them: soft hyphens, joiners, what turns the text around, what chooses among shapes."""
_MARKS = (
    "\u0300-\u036f\u0483-\u0487"  # of Latin, Greek and Cyrillic letters that have no composed form
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic
)
_GREEK = (range(0x0370, 0x0400), range(0x1F00, 0x2000))


def _greek() -> Iterator[tuple[str, str]]:
    for letter in map(chr, chain(*_GREEK)):
        parts = unicodedata.normalize("NFD", letter)
        plain, marks = parts[0], parts[1:]
        if marks and plain.isalpha() and all(map(unicodedata.combining, marks)):
            yield letter, plain


_PLAIN = {
    **dict(_greek()),
    "\u03c2": "\u03c3",
    **dict(zip("\u0451\u0401\u0450\u0400\u045d\u040d", "\u0435\u0415\u0435\u0415\u0438\u0418", strict=True)),
    **dict.fromkeys("\u0622\u0623\u0625\u0671", "\u0627"),
}
"""Letters that are taken for others."""
_FOLDED = re.compile(f"([{_ONE_BY_ONE}]+)|[{_UNSEEN}{_MARKS}]+|[{''.join(_PLAIN)}]")


def fold(text: str) -> str:
    """The text as its words are taken from it."""
    return text if text.isascii() else _FOLDED.sub(_piece, text)


def _piece(match: re.Match[str]) -> str:
    if match[1]:
        return f"{_SEPARATOR}{_SEPARATOR.join(match[1])}{_SEPARATOR}"
    return _PLAIN.get(match[0], "")


class Places:
    """Where the parts of a folded text are in the text itself."""

    def __init__(self, text: str) -> None:
        self._begins: list[int] = []
        """Of each piece that differs, in the folded text; and its length there, its place, its end, in the text."""
        self._pieces: list[tuple[int, int, int]] = []
        grown = 0
        for match in () if text.isascii() else _FOLDED.finditer(text):
            length = len(_piece(match))
            self._begins.append(match.start() + grown)
            self._pieces.append((length, match.start(), match.end()))
            grown += length - (match.end() - match.start())

    def place(self, at: int) -> int:
        """Of a place in the folded text; behind what was left out there."""
        found = bisect_right(self._begins, at) - 1
        if found < 0:
            return at
        length, begin, end = self._pieces[found]
        inside = at - self._begins[found]
        if inside >= length:
            return end + inside - length
        # Only those that are set apart are longer than one: a separator is in front of each.
        return begin + inside // 2
