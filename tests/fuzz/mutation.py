"""Streams that nobody honest sends, made of those that somebody does: the same number makes the same stream.

:func:`mutate` changes the bytes of a recorded conversation, :func:`segment` cuts them into the pieces in which they
arrive.  Both take all that they do from the random numbers that they are given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

BYTES_MAX = 400_000
"""The longest stream."""

TOKENS: tuple[bytes, ...] = (
    b"",
    b"<",
    b">",
    b"/>",
    b"</",
    b"<!",
    b"<?",
    b"&",
    b"'",
    b'"',
    b"=",
    b"\0",
    b"\r\n",
    b"]]>",
    b"<!DOCTYPE a>",
    b'<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;">]>',
    b'<!DOCTYPE a SYSTEM "file:///etc/passwd">',
    b'<!ENTITY % p SYSTEM "http://192.0.2.1/">',
    b"<!ELEMENT a ANY>",
    b"&b;",
    b"&amp;",
    b"&lt;",
    b"&#0;",
    b"&#x0;",
    b"&#xD800;",
    b"&#x10FFFF;",
    b"&#x110000;",
    b"&#99999999999999999999;",
    b"&#38;#38;",
    b"<![CDATA[",
    b"<![CDATA[ </a> ]]>",
    b"<!-- -->",
    b"<!-- > -- > -->",
    b"<!--",
    b"<?xml version='1.0'?>",
    b'<?xml version="1.0" encoding="UTF-16"?>',
    b'<?xml version="1.0" encoding="ISO-8859-1"?>',
    b'<?xml version="1.1" standalone="no"?>',
    b"<?php echo 1 ?>",
    b"<?",
    b' xmlns="http://www.lococa.org/1.0"',
    b' xmlns=""',
    b' xmlns:lococa="urn:other"',
    b' xmlns:x="http://www.lococa.org/1.0"',
    b' xmlns:xml="urn:x"',
    b' xmlns:xmlns="urn:x"',
    b' xmlns:="urn:x"',
    b" xml:lang='de'",
    b"<x:y/>",
    b"<:a/>",
    b"<a:b:c/>",
    b"<a a='1' a='2'/>",
    b"<a xmlns:p='u' xmlns:q='u' p:a='1' q:a='2'/>",
    b"<a/>",
    b"<a>",
    b"</a>",
    b"</lococa:set>",
    b"</lococa:init>",
    b"</lcc:stream>",
    b"<lococa:set>",
    b"<lococa:init>",
    b"<ping/>",
    b"<ready/>",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xff\xfe<\0a\0",
    b"\0<\0a",
    b"\xc0\x80",
    b"\xc0\xaf",
    b"\xe0\x80\xbc",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\x80",
    b"\xc3",
    "\u202e\u0000\ufffe".encode(),
    "\U0001f600".encode(),
    "é".encode("latin-1"),
    b"../../../../etc/passwd",
    b"%00",
    b"%2e%2e%2f",
    b"http://[::1",
    b"http://a@b:99999999/",
    b"javascript:alert(1)",
    b"' OR 1=1 --",
    b"\x1b[2J",
    b"{0}{1!r}%s%n{peer}",
)
"""Pieces that parsers stumble over."""

NUMBERS: tuple[bytes, ...] = (
    b"0",
    b"-0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"2147483647",
    b"2147483648",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"99999999999999999999999999",
    b"1e309",
    b"NaN",
    b"0x10",
    b"1_0",
    b" 7",
    b"+7",
    "٣".encode(),
    "\uff11\uff12".encode(),
    "²".encode(),
    b"-",
    b"--1",
    b"1,000",
    b"1_000_000",
    b"007",
    b"7\0",
    b"7.5",
    b".5",
    b"inf",
    b"-inf",
    b"Infinity",
    b"nan",
    b"1e999",
    b"-1e999",
    b"1e-999",
    b"0" * 20 + b"5",
    b"0" * 4300 + b"5",
    b"7" * 4299,
    b"7" * 5000,
    b"1_" * 2000 + b"0",
)

_VALUE = re.compile(rb"""=("[^"]*"|'[^']*')""")
_NUMBER = re.compile(rb"\d+")
_TAG = re.compile(rb"<[^<>]*>")
_NAME = re.compile(rb"(?<=[<\s/])[A-Za-z_][\w:.-]*")


def mutate(random: Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = TOKENS) -> bytes:
    """A hostile stream.

    :param seeds: honest ones.
    :param tokens: what is put in.
    """
    data = random.choice(seeds)
    if random.random() < 0.02:
        return data
    rounds = min(1 + int(random.expovariate(0.6)), 12)
    for _ in range(rounds):
        data = random.choice(_CHANGES)(random, data, seeds, tokens)
        if len(data) > BYTES_MAX:
            return data[:BYTES_MAX]
    if random.random() < 0.02:
        data = random.choice(_RARE)(random, data, seeds, tokens)
    return data[:BYTES_MAX]


def segment(random: Random, data: bytes) -> list[bytes]:
    """The pieces in which it arrives."""
    how = random.random()
    if how < 0.35 or len(data) < 2:
        step = 65536
    elif how < 0.55 and (len(data) <= 400 or random.random() < 0.1):
        step = 1
    elif how < 0.65:
        step = random.randint(2, 40) if len(data) < 2000 else random.randint(100, 5000)
    else:
        cuts = sorted({random.randrange(1, len(data)) for _ in range(random.randint(1, 8))})
        pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        return [part for piece in pieces for part in _chop(piece, 65536)]
    return _chop(data, step)


def _chop(data: bytes, step: int) -> list[bytes]:
    return [data[begin : begin + step] for begin in range(0, len(data), step)]


# Changes.  Each takes the random numbers, the stream so far, the honest ones and the tokens.

_Change = Callable[[Random, bytes, Sequence[bytes], Sequence[bytes]], bytes]


def _place(random: Random, data: bytes) -> int:
    """A place in it; often one where something begins."""
    if data and random.random() < 0.5:
        place = data.find(random.choice((b"<", b">", b'"', b" ", b"\n")), random.randrange(len(data)))
        if place >= 0:
            return place + random.randint(0, 1)
    return random.randint(0, len(data))


def _range(random: Random, data: bytes) -> tuple[int, int]:
    begin = _place(random, data)
    return begin, min(len(data), begin + min(1 + int(random.expovariate(0.05)), 2000))


def _flip(random: Random, data: bytes, *_: object) -> bytes:
    changed = bytearray(data)
    for _count in range(random.randint(1, 4)):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _overwrite(random: Random, data: bytes, *_: object) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _delete(random: Random, data: bytes, *_: object) -> bytes:
    begin, end = _range(random, data)
    return data[:begin] + data[end:]


def _insert(random: Random, data: bytes, _seeds: object, tokens: Sequence[bytes]) -> bytes:
    place = _place(random, data)
    return data[:place] + random.choice(tokens) + data[place:]


def _repeat(random: Random, data: bytes, *_: object) -> bytes:
    begin, end = _range(random, data)
    return data[:begin] + data[begin:end] * random.randint(2, 12) + data[end:]


def _splice(random: Random, data: bytes, seeds: Sequence[bytes], _tokens: object) -> bytes:
    other = random.choice(seeds)
    begin, end = _range(random, other)
    place = _place(random, data)
    return data[:place] + (other[begin:end] if random.random() < 0.5 else other[begin:]) + data[place:]


def _cut(random: Random, data: bytes, *_: object) -> bytes:
    return data[: random.randint(0, len(data))]


def _substitute(random: Random, data: bytes, pattern: re.Pattern[bytes], by: Callable[[bytes], bytes]) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + by(match.group()) + data[match.end() :]


def _value(random: Random, data: bytes, _seeds: object, tokens: Sequence[bytes]) -> bytes:
    new = random.choice(tokens) if random.random() < 0.6 else random.choice(NUMBERS)
    return _substitute(random, data, _VALUE, lambda old: b"=" + old[1:2] + new + old[-1:])


def _number(random: Random, data: bytes, *_: object) -> bytes:
    return _substitute(random, data, _NUMBER, lambda _old: random.choice(NUMBERS))


def _grow(random: Random, data: bytes, *_: object) -> bytes:
    """A number of more digits than Python's int() takes, or nearly; the same number, if zeros stand in front."""
    count = random.choice((1, 5, 19, 20, 300, 4299, 4300, 4301, 6000))
    filling = random.choice((b"0", b"0", b"9", b"1_", b" ", b"+", "\u0660".encode())) * count
    behind = random.random() < 0.3
    return _substitute(random, data, _NUMBER, lambda old: old + filling if behind else filling + old)


def _name(random: Random, data: bytes, *_: object) -> bytes:
    names = _NAME.findall(data) or [b"a"]
    return _substitute(random, data, _NAME, lambda _old: random.choice(names))


def _drop_tag(random: Random, data: bytes, *_: object) -> bytes:
    return _substitute(random, data, _TAG, lambda _old: b"")


def _double_tag(random: Random, data: bytes, *_: object) -> bytes:
    return _substitute(random, data, _TAG, lambda old: old * random.choice((2, 3, 20)))


def _move_tag(random: Random, data: bytes, *_: object) -> bytes:
    found = list(_TAG.finditer(data))
    if len(found) < 2:
        return data
    one, other = sorted(random.sample(found, 2), key=lambda match: match.start())
    between = data[one.end() : other.start()]
    return data[: one.start()] + other.group() + between + one.group() + data[other.end() :]


def _attributes(random: Random, data: bytes, *_: object) -> bytes:
    count = random.choice((2, 20, 100))
    more = b"".join(b' a%d="%d"' % (number, number) for number in range(count))
    return _substitute(random, data, _TAG, lambda old: old[:-1].rstrip(b"/") + more + old[-1:])


def _nest(random: Random, data: bytes, *_: object) -> bytes:
    place, depth = _place(random, data), random.choice((2, 5, 9, 300))
    return data[:place] + b"<n>" * depth + b"</n>" * random.choice((0, depth)) + data[place:]


def _names(random: Random, data: bytes, *_: object) -> bytes:
    place, count = _place(random, data), random.choice((10, 100, 600))
    return data[:place] + b"".join(b"<n%d/>" % number for number in range(count)) + data[place:]


_CHANGES: tuple[_Change, ...] = (
    _flip,
    _overwrite,
    _delete,
    _insert,
    _insert,
    _repeat,
    _splice,
    _cut,
    _value,
    _value,
    _number,
    _number,
    _grow,
    _name,
    _drop_tag,
    _double_tag,
    _move_tag,
    _attributes,
    _nest,
    _names,
)


def _huge(random: Random, data: bytes, *_: object) -> bytes:
    """A token that does not end."""
    place, size = _place(random, data), random.choice((5000, 17_000, 70_000, 300_000))
    filling = random.choice((b"x", b" ", b">", b'"', b"<", b"&amp;", b"\n", "é".encode(), "\U0001f600".encode()))
    return data[:place] + filling * (size // len(filling)) + data[place:]


def _many(random: Random, data: bytes, *_: object) -> bytes:
    """The same again and again."""
    return data * min(random.choice((3, 30, 300)), max(1, 100_000 // max(1, len(data))))


def _wide(_random: Random, data: bytes, *_: object) -> bytes:
    return data.decode("latin-1").encode("utf-16")


def _noise(random: Random, data: bytes, *_: object) -> bytes:
    place = _place(random, data)
    return data[:place] + random.randbytes(random.choice((10, 1000))) + data[place:]


_RARE: tuple[_Change, ...] = (_huge, _huge, _many, _wide, _noise)
