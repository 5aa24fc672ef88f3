"""Which part of a content a ``Range`` header asks for (RFC 9110, section 14)."""

from __future__ import annotations

import re

from lcc.numbers import parse_number

_RANGE = re.compile(r"bytes=(?:([0-9]{1,19})-([0-9]{0,19})|-([0-9]{1,19}))", re.ASCII)
_POSITION_MAX = 10**19


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
        length = min(parse_number(suffix, _POSITION_MAX), size_bytes)
        return (size_bytes - length, length) if length else None
    start = parse_number(first, _POSITION_MAX)
    end = parse_number(last, _POSITION_MAX) if last else _POSITION_MAX
    if end < start:
        return 0, size_bytes
    end = min(end, size_bytes - 1)
    return (start, end - start + 1) if start < size_bytes else None
