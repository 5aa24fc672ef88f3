"""Java's .properties files: keys and values, a pair a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lcc.errors import ConfigError

_BLANK = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.?)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)


def properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, key and value of each pair.

    A line that ends with a backslash goes on in the next one; ``#`` and ``!`` begin comments.

    :raises ConfigError: ``\\u`` without four hexadecimal digits.
    """
    for number, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None, "it matches anything"
        yield number, _unescaped(match[1], number), _unescaped(match[2], number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, joined; each with the number of its first one."""
    begun: list[str] = []
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANK)
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun.append(line[:-1] if continues else line)
        if not continues:
            yield first, "".join(begun)
            begun.clear()
    if begun:
        yield first, "".join(begun)


def _unescaped(text: str, number: int) -> str:
    def char(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise ConfigError([f"line {number}: \\u needs four hexadecimal digits"])
        return _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(char, text) if "\\" in text else text
