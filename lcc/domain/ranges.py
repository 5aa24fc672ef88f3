"""Which part of a content a ``Range`` header asks for (RFC 9110, section 14)."""

from __future__ import annotations

import re

_RANGE = re.compile(r"bytes=(?:([0-9]{1,19})-([0-9]{0,19})|-([0-9]{1,19}))", re.ASCII)


def requested_range(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """The part that a ``Range`` header asks for: first byte and length.

    One that makes no sense, or asks for several parts, asks for the whole, as RFC 9110 (14.2) permits.

    :returns: None: there is no such part.
    """
    match = None if header is None else _RANGE.fullmatch(header.strip())
    if match is None:
        return 0, size_bytes
    first, last, suffix = match.groups()
    if suffix is not None:
        length = min(int(suffix), size_bytes)
        return (size_bytes - length, length) if length else None
    start = int(first)
    end = min(int(last), size_bytes - 1) if last else size_bytes - 1
    if last and int(last) < start:
        return 0, size_bytes
    return (start, end - start + 1) if start < size_bytes else None
