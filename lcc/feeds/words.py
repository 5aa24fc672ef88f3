"""Texts of strangers, made fit to be stored: no control characters, nothing that is no character, not too long."""

from __future__ import annotations

import re

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def tidy(text: object, chars_max: int) -> str:
    """The text; empty: it is none."""
    if not isinstance(text, str):
        return ""
    text = text[:chars_max]
    if not text.isprintable():
        text = _SURROGATES.sub("\ufffd", _UNFIT.sub("", text))
    return text


def tidy_line(text: object, chars_max: int) -> str:
    """The same in one line, white space squeezed."""
    return " ".join(tidy(text, chars_max).split())
