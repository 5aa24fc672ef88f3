"""The key of a URL: one everywhere, 20 bytes (:data:`lcc.model.KEY_BYTES`).

Provider id, hash of the conceptual URL, hash of the mime type: one provider's rows lie together, and so do the views
(mime types) of one page.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

ALL_VIEWS = b"\0\0\0\0"
"""Stands for the mime type where a deletion names none."""
_PAGE = blake2b(digest_size=12)  # a copy is made in half the time of a new one


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
    page = _PAGE.copy()
    page.update(curl.encode("utf-8", "surrogatepass"))
    return pid.to_bytes(4, "big") + page.digest() + _mimetype_part(mimetype)


def url_keys(pid: int, urls: Iterable[tuple[str, str]]) -> list[bytes]:
    """:func:`url_key` of many: (curl, mime type) each."""
    provider, begun, mimetype_part = pid.to_bytes(4, "big"), _PAGE.copy, _mimetype_part
    keys = []
    for curl, mimetype in urls:
        page = begun()
        page.update(curl.encode("utf-8", "surrogatepass"))
        keys.append(provider + page.digest() + mimetype_part(mimetype))
    return keys


def pid_of(key: bytes) -> int:
    """The provider that the key belongs to."""
    return int.from_bytes(key[:4], "big")
