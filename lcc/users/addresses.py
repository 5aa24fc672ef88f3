"""Addresses of the content users' interface, as programs name it."""

from __future__ import annotations

from urllib.parse import urlsplit

UNIX = "unix:"


class AddressError(ValueError):
    """This is no address."""


def check_address(text: str) -> None:
    """Make sure that this is ``http://host:port``, ``https://host:port`` or ``unix:/path``.

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
        raise AddressError(f"{text[:200]!r} is none of http://host:port, https://host:port and unix:/path")
