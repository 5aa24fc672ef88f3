"""What is read from the head of a response: pure functions, all tolerant, all bounded."""

from __future__ import annotations

import json
import re
from datetime import date
from email.utils import mktime_tz, parsedate_tz
from functools import lru_cache
from typing import NamedTuple

ETAG_CHARS_MAX = 255
"""A longer entity tag is dropped."""
SETTLED_SECONDS = 2
"""What was last modified so long before it was sent can have been modified since only visibly."""
DETAIL_CHARS_MAX = 200
"""Of what a server sent, as much is repeated in error texts."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}"
_TYPE = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*(?:;(.*))?", re.DOTALL)
_CHARSET = re.compile(rf"""(?:^|;)\s*charset\s*=\s*(?:"({_TOKEN})"|({_TOKEN}))\s*(?=;|$)""", re.IGNORECASE)
_FIXDATE = re.compile(rb"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT")
_MONTHS = {
    name: number
    for number, name in enumerate(
        (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"), 1
    )
}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_NOT_KEPT = frozenset([b"set-cookie", b"set-cookie2"])
_PLAIN = bytes(range(0x20, 0x7F)) + b"\n"  # a line feed is in no field: the parser refuses it

RawHeaders = list[tuple[bytes, bytes]]
"""Names and values as they came, in order."""


class ResponseHead(NamedTuple):
    """The head of a final response.

    :ivar raw: all fields, in order.
    :ivar fields: lower-case name to the last value with that name.
    """

    status: int
    raw: RawHeaders
    fields: dict[bytes, bytes]


@lru_cache(maxsize=1024)
def content_type(value: bytes) -> tuple[str, str]:
    """``(mime type, charset)`` of a Content-Type, lower case; empty where it names none that is valid."""
    match = _TYPE.fullmatch(value.decode("latin-1"))
    if match is None:
        return "", ""
    found = _CHARSET.search(match[2]) if match[2] else None
    return match[1].lower(), (found[1] or found[2]).lower() if found else ""


def http_time(value: bytes) -> int | None:
    """Seconds since 1970 of an HTTP date; None: it cannot be understood, or lies before 1970."""
    match = _FIXDATE.fullmatch(value)
    seconds: float
    try:
        if match is not None:
            day, month, year, hour, minute, second = match.groups()
            days = date(int(year), _MONTHS[month], int(day)).toordinal() - _EPOCH_DAY
            clock = (int(hour), int(minute), int(second))
            if clock > (23, 59, 60) or clock[1] > 59 or clock[2] > 60:
                return None
            seconds = days * 86400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
        else:
            parsed = parsedate_tz(value.decode("latin-1")[:100])
            if parsed is None:
                return None
            seconds = mktime_tz(parsed)
    except (ValueError, KeyError, OverflowError, IndexError, TypeError):
        return None
    return int(seconds) if 0 <= seconds < 1 << 40 else None


server_clock = lru_cache(maxsize=64)(http_time)
"""The same for Date fields, of which many responses have the same."""


def may_revalidate(fields: dict[bytes, bytes], etag: str, modified: int | None) -> bool:
    """Whether what the server says of this content tells it from every later one, so that it may be asked for a
    newer one only.

    What was modified in the second in which it was fetched may be modified once more in that second; Last-Modified
    does not show it, nor do entity tags that are made of it (RFC 9110, section 8.8.2.2).

    :param etag, modified: of ``fields``, as far as they are usable.
    """
    if b"last-modified" not in fields:
        return etag != ""
    now = server_clock(fields.get(b"date", b""))
    return modified is not None and now is not None and now - modified >= SETTLED_SECONDS


def entity_tag(value: bytes) -> str:
    """An ETag as sent; empty: too long or not printable."""
    text = value.strip().decode("latin-1")
    return text if len(text) <= ETAG_CHARS_MAX and text.isprintable() else ""


def kept_headers(head: ResponseHead, bytes_max: int) -> str:
    """The fields to be stored, a JSON list ``[name, value, …]`` in ASCII: as many of the first ones as fit.

    Cookies are left out: they are secrets between that server and the robot.
    """
    raw = head.raw
    if not _NOT_KEPT.isdisjoint(head.fields):
        raw = [pair for pair in raw if pair[0].lower() not in _NOT_KEPT]
    # Quotes apart (each ETag has two) nearly all heads need no escapes: three passes in C instead of an encoder.
    joined = b"\n".join([item for pair in raw for item in pair])
    if not raw or joined.translate(None, _PLAIN):
        text = _encoded(raw)
    else:
        escaped = joined.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b'","')
        text = f'["{escaped.decode("ascii")}"]'
    while len(text) > bytes_max:
        # Rare: too long; the last fields go, a quarter of what is left at a time.
        if not raw:
            return ""
        raw = raw[: len(raw) * 3 // 4]
        text = _encoded(raw)
    return text


def _encoded(raw: RawHeaders) -> str:
    return json.dumps([item.decode("latin-1") for pair in raw for item in pair], separators=(",", ":"))


def printable(value: bytes) -> str:
    """A piece of what a server sent, fit for an error text."""
    return ascii(value[:DETAIL_CHARS_MAX].decode("latin-1"))
