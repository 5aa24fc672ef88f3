"""The fields of an index, and how texts become words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tantivy
from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

WORD_BYTES_MAX = 64
"""Longer words are not indexed."""
TEXTS = (("title", 3.0), ("headings", 1.5), ("text", 1.0))
"""Fields that a word is looked for in, and what it counts there."""


def word_analyzer() -> Any:
    """Takes a text that was folded (:mod:`lcc.search.folding`) apart into words as they are indexed: lower case,
    Latin letters without accents."""
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(WORD_BYTES_MAX))
        .filter(Filter.ascii_fold())  # first: the lower case of "İ" are two characters
        .filter(Filter.lowercase())
        .build()
    )


def index_schema() -> Any:
    builder = tantivy.SchemaBuilder()
    for name in ("key", "version", "kind", "within", "language"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in ("site", "type"):
        builder.add_text_field(name, fast=True, tokenizer_name="raw", index_option="basic")
    for name, _ in TEXTS:
        builder.add_text_field(name, tokenizer_name="words")
    builder.add_unsigned_field("provider", indexed=True)
    builder.add_unsigned_field("date", fast=True)
    builder.add_unsigned_field("generation", fast=True)
    builder.add_bytes_field("record", stored=True)
    builder.add_bytes_field("original", stored=True)  # the text, as people see it
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
