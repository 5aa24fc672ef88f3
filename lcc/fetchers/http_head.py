"""What is read from the head of a response: pure functions, all tolerant, all bounded."""

from __future__ import annotations

import json
import re
from datetime import date
from email.utils import mktime_tz, parsedate_tz
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from lcc.errors import FetchError
from lcc.model.headers import OF_PAGES
from lcc.numbers import INT64_MAX, parse_number

ETAG_CHARS_MAX = 255
"""A longer entity tag is dropped."""
TIME_CHARS_MAX = 100
"""Of a date, no more is read."""
TYPE_CHARS_MAX = 1024
"""A longer Content-Type is none."""
SETTLED_SECONDS = 2
"""What was last modified so long before it was sent can have been modified since only visibly."""
RETRY_SECONDS_MAX = 30 * 86400
"""Nobody who asks to be left alone for longer means it."""
UNKNOWN_TYPE = "application/octet-stream"
"""Of content whose type a server does not tell (RFC 9110, section 8.3)."""
DETAIL_CHARS_MAX = 200
"""Of what a server sent, as much is repeated in error texts."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}"
_TYPE = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*(?:;(.*))?", re.DOTALL)
_CHARSET = re.compile(rf"""(?:^|;)\s*charset\s*=\s*(?:"({_TOKEN})"|({_TOKEN}))\s*(?=;|$)""", re.IGNORECASE)
_FIXDAY = re.compile(rb"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4})")
_MONTHS = {
    name: number
    for number, name in enumerate(
        (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"), 1
    )
}
_NO_DAY = -(1 << 60)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_NOT_KEPT = frozenset([b"set-cookie", b"set-cookie2"])
_OF_PAGES = frozenset(name.encode("ascii") for name in OF_PAGES)
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


def content_type(value: bytes) -> tuple[str, str]:
    """``(mime type, charset)`` of a Content-Type, lower case; empty where it names none that is valid."""
    # A long one is not remembered: many of them would be a lot of memory.
    return _content_type(value) if len(value) <= TYPE_CHARS_MAX else ("", "")


def check_type(value: bytes, accepted: str) -> None:
    """
    :param value: a Content-Type.
    :param accepted: patterns of mime types, separated by spaces: ``type/subtype``, ``type/*``.
    :raises FetchError: "mimetype-not-accepted".
    """
    mimetype = content_type(value)[0] or UNKNOWN_TYPE
    if mimetype not in accepted.split() and f"{mimetype.partition('/')[0]}/*" not in accepted.split():
        raise FetchError("mimetype-not-accepted", mimetype[:DETAIL_CHARS_MAX])


def content_length(value: bytes) -> int:
    """The bytes that a Content-Length tells.

    :raises FetchError: "bad-response": it is no number, or one of more digits than any length has.
    """
    try:
        return parse_number(value.strip().decode("latin-1"), INT64_MAX)
    except ValueError:
        raise FetchError("bad-response", f"Content-Length {printable(value[:40])}") from None


@lru_cache(maxsize=1024)
def _content_type(value: bytes) -> tuple[str, str]:
    match = _TYPE.fullmatch(value.decode("latin-1"))
    if match is None:
        return "", ""
    found = _CHARSET.search(match[2]) if match[2] else None
    return match[1].lower(), (found[1] or found[2]).lower() if found else ""


def http_time(value: bytes) -> int | None:
    """Seconds since 1970 of an HTTP date; None: it cannot be understood, or lies before 1970."""
    value = value[:TIME_CHARS_MAX]
    # "Wed, 21 Oct 2015 07:28:00 GMT": days come again and again, and are kept.
    clock = value[17:]
    if clock[2:3] == clock[5:6] == b":" and clock[8:] == b" GMT" and value[16:17] == b" ":
        digits = clock[:2] + clock[3:5] + clock[6:8]
        day = _day(value[:16])
        if day is not None and digits.isdigit():
            number = int(digits)
            hour, minute, second = number // 10_000, number // 100 % 100, number % 100
            if hour > 23 or minute > 59 or second > 60:
                return None
            seconds = day + hour * 3600 + minute * 60 + second
            return seconds if seconds >= 0 else None
    return _other_time(value)


@lru_cache(maxsize=1024)
def _day(value: bytes) -> int | None:
    """Seconds from 1970 to the beginning of this day; None: not in the usual form; long before 1970: no such day."""
    match = _FIXDAY.fullmatch(value)
    if match is None:
        return None
    day, month, year = match.groups()
    try:
        return (date(int(year), _MONTHS[month], int(day)).toordinal() - _EPOCH_DAY) * 86400
    except (ValueError, KeyError):
        return _NO_DAY


def _other_time(value: bytes) -> int | None:
    """The same of all other forms that are, or were, in use."""
    try:
        parsed = parsedate_tz(value.decode("latin-1"))
        if parsed is None:
            return None
        seconds = mktime_tz(parsed)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return int(seconds) if 0 <= seconds < 1 << 40 else None


_kept_time = lru_cache(maxsize=64)(http_time)


def server_clock(value: bytes) -> int | None:
    """The same for Date fields, of which many responses have the same."""
    return _kept_time(value[:TIME_CHARS_MAX])


def retry_after(fields: dict[bytes, bytes]) -> int:
    """How many seconds a server asks to be left alone; 0: it does not, or what it says makes no sense.  A date counts
    from the response's own Date: the server's clock may be wrong."""
    value = fields.get(b"retry-after", b"").strip()
    if not value:
        return 0
    try:
        return min(parse_number(value.decode("latin-1"), INT64_MAX), RETRY_SECONDS_MAX)
    except ValueError:
        until, now = http_time(value), server_clock(fields.get(b"date", b""))
        return 0 if until is None or now is None else min(max(0, until - now), RETRY_SECONDS_MAX)


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
    """The fields to be stored (:mod:`lcc.model.headers`), in ASCII: as many as fit, those that say something of the
    page before the others.

    Cookies are left out: they are secrets between that server and the robot.
    """
    raw = head.raw
    if b"set-cookie" in head.fields or b"set-cookie2" in head.fields:
        raw = [pair for pair in raw if pair[0].lower() not in _NOT_KEPT]
    # Quotes apart (each ETag has two) nearly all heads need no escapes: three passes in C instead of an encoder.
    joined = b"\n".join(chain.from_iterable(raw))
    if not raw or joined.translate(None, _PLAIN):
        text = _encoded(raw)
    else:
        if b"\\" in joined:
            joined = joined.replace(b"\\", b"\\\\")
        escaped = joined.replace(b'"', b'\\"').replace(b"\n", b'","')
        text = f'["{escaped.decode("ascii")}"]'
    if len(text) > bytes_max:
        # Rare: too long.  Of those that say something of the page short ones come first.
        raw = sorted(raw, key=lambda pair: (0, len(pair[1])) if pair[0].lower() in _OF_PAGES else (1, 0))
    while len(text) > bytes_max:
        # The last fields go, a quarter of what is left at a time.
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
