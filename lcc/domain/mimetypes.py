"""Mime types: one spelling for each, and patterns such as ``text/*``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from lcc.errors import UrlError
from lcc.model import ANY_TYPE

# The names of RFC 6838, section 4.2.
_NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_TYPE = re.compile(rf"{_NAME}/{_NAME}").fullmatch
_PATTERN = re.compile(rf"(?:\*|{_NAME})/\*|{_NAME}/{_NAME}").fullmatch


ANY = ANY_TYPE


@lru_cache(maxsize=1024)
def normalise_mimetype(text: str) -> str:
    """The type in lower case, without parameters and white space.

    :raises UrlError: "bad-mimetype".
    """
    mimetype = text.partition(";")[0].strip().lower()
    if not _TYPE(mimetype):
        raise UrlError("bad-mimetype", repr(text[:80]))
    return mimetype


class MimePatterns:
    """A choice of mime types.

    :param patterns: ``type/subtype``, ``type/*`` or ``*/*``.
    :raises ValueError: naming the pattern that is none of these.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(pattern.strip().lower() for pattern in patterns)
        for pattern in self.patterns:
            if not _PATTERN(pattern):
                raise ValueError(f"{pattern[:80]!r} is no pattern of mime types, such as text/html or text/*")
        self._any = ANY in self.patterns
        self._exact = frozenset(self.patterns)
        self._majors = frozenset(pattern[:-1] for pattern in self.patterns if pattern.endswith("/*"))

    def accepts(self, mimetype: str) -> bool:
        """Whether this normalised type is among them."""
        return mimetype in self._exact or self._any or mimetype[: mimetype.find("/") + 1] in self._majors


UNKNOWN = "application/octet-stream"
"""What servers say of content whose type they do not know (RFC 9110, section 8.3)."""

_ONE = (
    ("application/xml", "text/xml"),
    ("text/javascript", "application/javascript", "application/x-javascript", "text/x-javascript"),
    ("image/jpeg", "image/jpg", "image/pjpeg"),
    ("image/x-icon", "image/vnd.microsoft.icon"),
    ("application/pdf", "application/x-pdf"),
    ("application/msword", "application/ms-word", "application/vnd.ms-word"),
    ("application/rtf", "text/rtf"),
    ("application/gzip", "application/x-gzip"),
    ("application/zip", "application/x-zip-compressed"),
    ("text/markdown", "text/x-markdown"),
)
_SPELLINGS = {name: names[0] for names in _ONE for name in names}
"""Several names of one type, as they are in use, to one of them."""


@lru_cache(maxsize=1024)
def is_expected(told: str, got: str) -> bool:
    """Whether a server's content type is what the provider has told.

    A server that names no type, or :data:`UNKNOWN`, contradicts nothing.  Old and new names of one type are the same.

    :param told: lower case: a type, a pattern (``text/*``, ``*/*``), or empty: anything.
    :param got: lower case, without parameters; empty: the server said nothing.
    """
    if told in ("", got, ANY, "*") or got in ("", UNKNOWN):
        return True
    if told.endswith("/*"):
        return got.startswith(told[:-1])
    return _SPELLINGS.get(told, told) == _SPELLINGS.get(got, got)
