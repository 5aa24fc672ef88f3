"""The key of a URL: one everywhere, 20 bytes (:data:`lcc.model.KEY_BYTES`).

Provider id, hash of the conceptual URL, hash of the mime type: one provider's rows lie together, and so do the views
(mime types) of one page.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

VIEW_BYTES = 16
"""The part of a key that all views of one page share."""

ALL_VIEWS = b"\0\0\0\0"
"""Stands for the mime type where a deletion names none."""


@lru_cache(maxsize=1024)
def _mimetype_part(mimetype: str) -> bytes:
    if not mimetype:
        return ALL_VIEWS
    part = blake2b(mimetype.encode(), digest_size=4).digest()
    return part if part != ALL_VIEWS else b"\0\0\0\1"  # all zeros has a meaning of its own


def url_key(pid: int, curl: str, mimetype: str) -> bytes:
    """The key of a provider's URL.

    :param curl: the conceptual URL, normalised.
    :param mimetype: normalised; empty: all views.
    """
    page = blake2b(curl.encode("utf-8", "surrogatepass"), digest_size=12).digest()
    return pid.to_bytes(4, "big") + page + _mimetype_part(mimetype)


def pid_of(key: bytes) -> int:
    """The provider that the key belongs to."""
    return int.from_bytes(key[:4], "big")


def all_views_key(key: bytes) -> bytes:
    """The key that stands for all views of this key's page."""
    return key[:VIEW_BYTES] + ALL_VIEWS


def is_all_views(key: bytes) -> bool:
    """Whether the key names no view."""
    return key[VIEW_BYTES:] == ALL_VIEWS


def views_range(key: bytes) -> tuple[bytes, bytes]:
    """The first and the last key that a view of this key's page can have."""
    page = key[:VIEW_BYTES]
    return page + ALL_VIEWS, page + b"\xff\xff\xff\xff"


def provider_range(pid: int) -> tuple[bytes, bytes]:
    """The first and the last key that a URL of this provider can have."""
    prefix = pid.to_bytes(4, "big")
    return prefix + bytes(VIEW_BYTES), prefix + b"\xff" * VIEW_BYTES
