"""Whether what a command shows is what the page says."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\b(?=[0-9a-zA-Z_-]*\d)[0-9a-zA-Z_-]{20,}\b|\b[0-9a-f]{16}\b")
_NUMBER = re.compile(r"\d[\d,.]*")
REST = "…"
"""In a page: anything, up to the line's end or to what stands behind it; alone on a line: any number of lines."""


def plain(text: str) -> list[str]:
    """Lines, without what differs from run to run: numbers, secrets, ages, how wide a column is."""
    text = _TOKEN.sub("N", text)
    text = _NUMBER.sub("N", text)
    text = re.sub(r"\bN (seconds?|minutes?|hours?)", "N s", text)
    text = re.sub(r"[ \t]+|─+|━+", " ", text)
    return [line.strip() for line in text.strip().splitlines()]


def alike(shown: str, told: str) -> bool:
    """Whether this was shown as it is told."""
    told = re.sub(rf"\w*\d\w*{REST}", REST, told)  # the beginning of a secret
    pattern = "\n".join(map(re.escape, plain(told)))
    lines = re.escape(REST)
    pattern = re.sub(rf"(?m)^{lines}$\n?", r"(?:.*\n)*?", pattern).replace(lines, ".*")
    return re.fullmatch(pattern + r"\n?", "\n".join(plain(shown)) + "\n") is not None
