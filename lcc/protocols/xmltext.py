"""Writing XML: escaping that costs nothing where there is nothing to escape."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r'[&<>"\t\n\r]')
_SPECIAL_IN_APOSTROPHES = re.compile("[&<>']")
_REPLACEMENTS = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}
# What XML 1.0 cannot carry at all, not even as a character reference (section 2.2).
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_needs_care = re.compile('[\x00-\x1f&<>"\ufffe\uffff\ud800-\udfff]').search


_PLAIN = bytes(code for code in range(0x20, 0x7F) if code not in b"&<>")


def needs_no_escape(text: str) -> bool:
    """Nothing in it has to be escaped but quotes.  (Says no to some texts of which that is true, too.)"""
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def _replace(match: re.Match[str]) -> str:
    return _REPLACEMENTS[match.group()]


def escape(text: str) -> str:
    """The text as it stands in an attribute value in double quotes, or as character data.

    Tab and line ends become references, so that a reader's attribute normalisation gives them back.  Characters
    that XML 1.0 cannot carry become U+FFFD.
    """
    if not _needs_care(text):
        return text
    if _ILLEGAL.search(text):
        text = _ILLEGAL.sub("\ufffd", text)
    return _SPECIAL.sub(_replace, text)


def unspeakable(text: str) -> str:
    """The first character that XML 1.0 cannot carry, such as ``U+0001``; empty: there is none."""
    found = _ILLEGAL.search(text) if _needs_care(text) else None
    return "" if found is None else f"U+{ord(found.group()):04X}"


def quoted(text: str) -> str:
    """The text as an attribute value with its quotes: those that leave less to escape."""
    if not _needs_care(text):
        return f'"{text}"'
    if '"' in text and "'" not in text and not _needs_care(text.replace('"', "")):
        return f"'{text}'"
    return f'"{escape(text)}"'


def quoted_unescaped(text: str) -> str:
    """:func:`quoted` of a text that :func:`needs_no_escape`."""
    return f"'{text}'" if "'" not in text else quoted(text)


def escape_json(text: str) -> str:
    """JSON text as it stands in an attribute value in *single* quotes: its many double quotes can stay as they are.

    There are no line ends or tabs in it: JSON writes control characters as escapes.
    """
    if _SPECIAL_IN_APOSTROPHES.search(text):
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("'", "&apos;")
    return _ILLEGAL.sub("\ufffd", text) if _ILLEGAL.search(text) else text


def attributes(pairs: dict[str, str]) -> str:
    """The pairs as they stand in a start tag, each with a space before it."""
    return "".join([f' {name}="{escape(value)}"' for name, value in pairs.items()])
