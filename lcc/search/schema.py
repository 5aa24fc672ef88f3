"""The fields of an index, and how texts become words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import tantivy
from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

WORD_BYTES_MAX = 64
"""Longer words are not indexed."""
TEXTS = (("title", 3.0), ("headings", 1.5), ("text", 1.0))
"""Fields that a word is looked for in, and what it counts there."""
_SEPARATOR = "\u200b"
"""A space of no width: what it is between are two words."""
_ONE_BY_ONE = re.compile(
    "["
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff"  # Han
    "\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # Hiragana, Katakana
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "]+"
)
"""Scripts without spaces between words: each character is one, and several together are a phrase."""

_UNSEEN = re.compile(r"(?<=\w)[\u00ad\u061c\u200c-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+(?=\w)")
"""Within a word no reader sees them: soft hyphens, joiners, and what turns the text around."""


def word_analyzer() -> Any:
    """Takes a text that went through :func:`set_apart` apart into words as they are indexed: lower case, without
    accents."""
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(WORD_BYTES_MAX))
        .filter(Filter.ascii_fold())  # first: the lower case of "İ" are two characters
        .filter(Filter.lowercase())
        .build()
    )


def set_apart(text: str) -> str:
    """The text with characters that are words of their own set apart from others, as no reader sees, and without
    what no reader sees within a word."""
    return text if text.isascii() else _ONE_BY_ONE.sub(_each_apart, _UNSEEN.sub("", text))


def _each_apart(match: re.Match[str]) -> str:
    return f"{_SEPARATOR}{_SEPARATOR.join(match[0])}{_SEPARATOR}"


def put_together(text: str, marks: Iterable[tuple[int, int]]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A part of a text as it was before it was :func:`set_apart`, and places in it; those that touch become one."""
    found: list[tuple[int, int]] = []
    for mark in marks:
        begin, end = (at - text.count(_SEPARATOR, 0, at) for at in mark)
        if found and found[-1][1] == begin:
            begin = found.pop()[0]
        found.append((begin, end))
    return text.replace(_SEPARATOR, ""), tuple(found)


def index_schema() -> Any:
    builder = tantivy.SchemaBuilder()
    for name in ("key", "version", "kind", "within", "language"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in ("site", "type"):
        builder.add_text_field(name, fast=True, tokenizer_name="raw", index_option="basic")
    for name, _ in TEXTS:
        builder.add_text_field(name, stored=name == "text", tokenizer_name="words")
    builder.add_unsigned_field("provider", indexed=True)
    builder.add_unsigned_field("date", fast=True)
    builder.add_unsigned_field("generation", fast=True)
    builder.add_bytes_field("record", stored=True)
    return builder.build()


def hosts_above(site: str) -> Iterator[str]:
    """The names under which a site is found: with its port, without it, and the domains above it."""
    yield site
    host, _, port = site.rpartition(":")
    if not (host and port.isdigit()):
        host = site
    elif not host.endswith(":"):
        yield host
    if not host.startswith("[") and not host.replace(".", "").isdigit():
        while "." in host:
            host = host.partition(".")[2]
            yield host
