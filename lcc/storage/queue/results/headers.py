"""Headers of responses that were found unchanged (:mod:`lcc.model.headers`)."""

from __future__ import annotations

from lcc.model.headers import header_pairs, stored_headers

_OF_CONTENT = frozenset({"content-length", "content-encoding", "content-type", "content-range"})
"""Fields that an answer "not modified" says nothing about (RFC 9111, section 3.2)."""


def renewed_headers(stored: str, renewed: str) -> str:
    """The header of stored content once a server has said "not modified".

    :param renewed: the header of that answer: its fields replace those of the same names.
    """
    try:
        old, new = header_pairs(stored), header_pairs(renewed)
    except ValueError:
        return stored
    new = [(name, value) for name, value in new if name.lower() not in _OF_CONTENT]
    names = {name.lower() for name, _ in new}
    kept = [(name, value) for name, value in old if name.lower() not in names]
    return stored_headers((*kept, *new))
