"""How a crawl compares URLs: what is removed of a normal URL's path and query.

``safe`` removes nothing: two URLs that RFC 3986 does not say to be equal are two pages.  ``larm`` compares as LARM
did (seed 004, "URL patterns"): a path in lower case, without index.* and default.* names; spaces are ``%20``, never
``+``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_TO_ESCAPE_IN_PATH = re.compile(r"%[0-9a-f]{2}|[^a-z0-9$._/&;@=-]").sub
_TO_ESCAPE_IN_QUERY = re.compile(r"%[0-9A-F]{2}|[^A-Za-z0-9$._/&;@=?-]").sub
_SLASHES = re.compile("//+").sub
_IS_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789$-_.")


def larm(rest: str) -> str:
    """LARM's form of what is behind the host of a normal URL."""
    path, _, query = rest.partition("?")
    path = _TO_ESCAPE_IN_PATH(_escaped_in_path, path.lower())
    if "//" in path:
        path = _SLASHES("/", path)
    folder, slash, name = path.rpartition("/")
    if name.startswith(("index.", "default.")):
        path = folder + slash
    # LARM drops an empty query, too.
    return f"{path}?{_TO_ESCAPE_IN_QUERY(_escaped, query)}" if query else path


def _escaped(match: re.Match[str]) -> str:
    text = match[0]
    if text == "+":
        return "%20"
    byte = int(text[1:], 16) if len(text) == 3 else ord(text)
    return chr(byte) if byte in _IS_SAFE else f"%{byte:02X}"


def _escaped_in_path(match: re.Match[str]) -> str:
    text = _escaped(match)
    return text if text.startswith("%") else text.lower()


PRESETS: Mapping[str, Callable[[str], str] | None] = {"safe": None, "larm": larm}
"""Name -> what makes path and query of a curl from those of a furl; None: they are equal."""
