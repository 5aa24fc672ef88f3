"""Ranges of keys (:data:`lcc.model.KEY_BYTES`): all of a provider, all views of a page."""

from __future__ import annotations

from hashlib import blake2b

PAGE_BYTES = 16
"""The prefix of a key that all views of a page share."""

_ALL_VIEWS = b"\0\0\0\0"
UNTYPED = blake2b(b"*/*", digest_size=4).digest()
"""The end of the key of a row without a mime type of its own."""


def all_views_key(key: bytes) -> bytes:
    """The key for all views of this key's page."""
    return key[:PAGE_BYTES] + _ALL_VIEWS


def is_all_views(key: bytes) -> bool:
    """Whether the key stands for all views of its page."""
    return key[PAGE_BYTES:] == _ALL_VIEWS


def untyped_key(key: bytes) -> bytes:
    """The key of the row of this key's page that has no mime type of its own."""
    return key[:PAGE_BYTES] + UNTYPED


def is_untyped(key: bytes) -> bool:
    """Whether the row has no mime type of its own: it has that of the last response."""
    return key[PAGE_BYTES:] == UNTYPED


def views_range(key: bytes) -> tuple[bytes, bytes]:
    """The first and the last key that a view of this key's page can have."""
    page = key[:PAGE_BYTES]
    return page + _ALL_VIEWS, page + b"\xff\xff\xff\xff"


def provider_of(key: bytes) -> int:
    """The provider that the key belongs to."""
    return int.from_bytes(key[:4], "big")


def provider_range(pid: int) -> tuple[bytes, bytes]:
    """The first and the last key that a URL of this provider can have."""
    prefix = pid.to_bytes(4, "big")
    return prefix + bytes(PAGE_BYTES), prefix + b"\xff" * PAGE_BYTES
