"""Headers of responses, as they are stored (``lccurl.headers``): a JSON list ``[name, value, name, value …]``."""

from __future__ import annotations

import json
from collections.abc import Iterable

OF_PAGES = ("link", "x-robots-tag", "content-language")
"""Fields that say something of the page itself: content users see them, and they are the last to be given up where a
header is too long to be stored."""
_QUOTED = tuple(f'"{name}","' for name in OF_PAGES)


def header_pairs(stored: str) -> list[tuple[str, str]]:
    """Names and values, in order.

    :raises ValueError: it is no stored header.
    """
    texts = json.loads(stored) if stored else []
    if not isinstance(texts, list):
        raise ValueError("it is no list")
    return [(str(name), str(value)) for name, value in zip(texts[::2], texts[1::2], strict=True)]


def stored_headers(pairs: Iterable[tuple[str, str]]) -> str:
    """The text that is stored; empty: there are none."""
    texts = [text for pair in pairs for text in pair]
    return json.dumps(texts, separators=(",", ":")) if texts else ""


def page_headers(stored: str) -> str:
    """The fields that say something of the page, as lines ``Name: value``; empty: there are none."""
    # Few have any, and this is asked of each row that is shown.
    lower = stored.lower()
    if not any(name in lower for name in _QUOTED):
        return ""
    try:
        pairs = header_pairs(stored)
    except ValueError:
        return ""
    return "\n".join(f"{name}: {value}" for name, value in pairs if name.lower() in OF_PAGES)


def pairs_of_lines(text: str) -> list[tuple[str, str]]:
    """Names and values of such lines."""
    return [(name, value) for name, _, value in (line.partition(": ") for line in text.split("\n") if line)]
