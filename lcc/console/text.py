"""Output of console commands."""

from __future__ import annotations

import re
from collections.abc import Iterable

NAME_CHARS = 13
LINE_CHARS = 300

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """The text with control characters escaped: URLs and errors in it come from strangers."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class Text(str):
    """The result of a command: shown as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def screen(lines: Iterable[tuple[str, str]]) -> str:
    """Lines of name and text; long ones are cut."""
    return "\n".join(_line(name, text) for name, text in lines)


def _line(name: str, text: str) -> str:
    line = f"{name:<{NAME_CHARS}} {text}".rstrip()
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
