"""Headers of responses, as they are stored: a JSON list ``[name, value, name, value …]``."""

from __future__ import annotations

import json

_OF_CONTENT = frozenset({"content-length", "content-encoding", "content-type", "content-range"})
"""Fields that an answer "not modified" says nothing about (RFC 9111, section 3.2)."""


def renewed_headers(stored: str, renewed: str) -> str:
    """The header of stored content once a server has said "not modified".

    :param renewed: the header of that answer: its fields replace those of the same names.
    """
    try:
        old, new = _pairs(stored), _pairs(renewed)
    except (ValueError, TypeError):
        return stored
    new = [(name, value) for name, value in new if name.lower() not in _OF_CONTENT]
    names = {name.lower() for name, _ in new}
    kept = [(name, value) for name, value in old if name.lower() not in names]
    return json.dumps([text for pair in (*kept, *new) for text in pair], separators=(",", ":"))


def _pairs(text: str) -> list[tuple[str, str]]:
    texts = json.loads(text) if text else []
    return [(str(name), str(value)) for name, value in zip(texts[::2], texts[1::2], strict=True)]
