"""Addresses and tokens of the content user API."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

UNIX = "unix:"
_TOKEN = re.compile(r"[!-~]{1,1000}", re.ASCII)


class AddressError(ValueError):
    """An invalid address or token."""


def check_address(text: str) -> None:
    """Check that this is ``http://host:port``, ``https://host:port`` or ``unix:/path``.

    :raises AddressError: it is not.
    """
    try:
        if text.startswith(UNIX):
            good = len(text) > len(UNIX)
        else:
            url = urlsplit(text)
            rest = url.path.rstrip("/") + url.query + url.fragment
            good = url.scheme in ("http", "https") and bool(url.hostname) and not rest and url.port != 0
            good = good and url.username is None
    except ValueError:
        good = False
    if not good:
        raise AddressError(f"{text[:200]!r} is not an address: use http://host:port, https://host:port or unix:/path")


def authorization(token: str | None) -> dict[str, str]:
    """The headers that carry a content user's token; None: it has none.

    :raises AddressError: an invalid token, which could break the request.
    """
    if token is None:
        return {}
    if not _TOKEN.fullmatch(token):
        raise AddressError("invalid token: empty, or with characters that tokens do not have")
    return {"Authorization": f"Bearer {token}"}
