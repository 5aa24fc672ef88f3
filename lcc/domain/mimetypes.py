"""Mime types: one spelling for each, and patterns such as ``text/*``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from lcc.errors import UrlError

# The names of RFC 6838, section 4.2.
_NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_TYPE = re.compile(rf"{_NAME}/{_NAME}").fullmatch
_PATTERN = re.compile(rf"(?:\*|{_NAME})/\*|{_NAME}/{_NAME}").fullmatch


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
        self._any = "*/*" in self.patterns
        self._exact = frozenset(self.patterns)
        self._majors = frozenset(pattern[:-1] for pattern in self.patterns if pattern.endswith("/*"))

    def accepts(self, mimetype: str) -> bool:
        """Whether this normalised type is among them."""
        return mimetype in self._exact or self._any or mimetype[: mimetype.find("/") + 1] in self._majors
