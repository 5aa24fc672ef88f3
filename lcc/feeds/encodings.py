"""Bytes to UTF-8, whatever they say of themselves: encodings lie.

Tried in this order, as feedparser does (RFC 3023, which web servers still follow): what the server said, what the
document says, its byte order mark, UTF-8, Windows-1252, ISO 8859-2 (which decodes anything).  The first that decodes
the whole document is it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_MARKS = (
    (codecs.BOM_UTF32_BE, "utf-32be", True),
    (codecs.BOM_UTF32_LE, "utf-32le", True),
    (codecs.BOM_UTF16_BE, "utf-16be", True),
    (codecs.BOM_UTF16_LE, "utf-16le", True),
    (codecs.BOM_UTF8, "utf-8", True),
    # "<?xm" without a mark.
    (b"\x4c\x6f\xa7\x94", "cp037", False),
    (b"\x00\x3c\x00\x3f", "utf-16be", False),
    (b"\x3c\x00\x3f\x00", "utf-16le", False),
    (b"\x00\x00\x00\x3c", "utf-32be", False),
    (b"\x3c\x00\x00\x00", "utf-32le", False),
)
"""What a document begins with, its encoding, and whether that is no part of the text."""
_HEAD_BYTES = 4096
_DECLARED = re.compile(rb"""<\?xml[^>]{0,400}?encoding\s*=\s*['"]([^'"]{0,80})['"][^>]{0,400}?\?>""")
_DECLARATION = re.compile(r"<\?xml[^>]*?>")
_META = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,80})""", re.IGNORECASE)
_WIDE = re.compile("(?:iso-10646-)?(?:u|utf|utf-|utf_|ucs-|csucs|csunicode)(?:16|32|2|4)?").fullmatch
_XML_TYPE = re.compile(r"(?:application|text)/(?:xml|xml-dtd|xml-external-parsed-entity|[^;]*\+xml)").fullmatch
_NO_CHARSETS = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"})
"""Codecs of Python that are none, or whose time grows with the square of the length."""
_FALLBACKS = ("utf-8", "windows-1252", "iso-8859-2")
_REFERENCES = re.compile(rb"(?:&#(?:x[0-9a-f]{4,}|[0-9]{5,});)+", re.IGNORECASE)
"""References to characters, of those that may be illegal."""
_REFERENCE_CHARS_MAX = 12
_UNICODE_MAX = 0x10FFFF
_REPLACEMENT = 0xFFFD


def media_type(content_type: str) -> tuple[str, str]:
    """Type and charset of a ``Content-Type`` header, lower case; each may be empty."""
    kind, *parameters = content_type.split(";")
    charset = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'").strip().lower()
    return kind.strip().lower(), charset


def to_utf8(data: bytes, content_type: str) -> tuple[bytes, str]:
    """The document in UTF-8, and the encoding it had.

    An XML declaration is rewritten; what has none gets none.

    :param content_type: the server's header; may be empty.
    """
    mark, length = "", 0
    for start, name, is_mark in _MARKS:
        if data.startswith(start):
            mark, length = name, len(start) if is_mark else 0
            break
    data = data[length:]
    for name in _candidates(data, mark, content_type):
        try:
            text = data.decode(name)
        except (UnicodeDecodeError, LookupError, ValueError):
            continue
        if text.startswith("<?xml"):
            text = _DECLARATION.sub("<?xml version='1.0' encoding='utf-8'?>", text, count=1)
        return text.encode("utf-8", "replace"), name
    raise AssertionError("ISO 8859-2 decodes anything")


def legal_references(data: bytes) -> bytes:
    """An XML document (UTF-8) without references to what is no character.

    Two that are the halves of one character in UTF-16, as many a program writes emoji, become one; others U+FFFD.
    """
    return _REFERENCES.sub(_legal, data)


def _legal(match: re.Match[bytes]) -> bytes:
    points = [_code_point(word) for word in match[0].decode("ascii").strip("&#;").split(";&#")]
    text = "".join(map(chr, points))
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return "".join(f"&#{ord(character)};" for character in text).encode()


def _code_point(word: str) -> int:
    if len(word) > _REFERENCE_CHARS_MAX:
        return _REPLACEMENT
    point = int(word[1:], 16) if word[0] in "xX" else int(word)
    return point if point <= _UNICODE_MAX else _REPLACEMENT


def _candidates(data: bytes, mark: str, content_type: str) -> Iterator[str]:
    kind, told = media_type(content_type)
    head = data[:_HEAD_BYTES]
    if mark and mark != "utf-8":
        head = head[: len(head) // 4 * 4].decode(mark, "ignore").encode()
    found = _DECLARED.match(head) or (None if mark or _XML_TYPE(kind) else _META.search(head))
    declared = found[1].decode("ascii", "ignore").strip().lower() if found else ""
    if mark.startswith(("utf-16", "utf-32")) or (mark and _WIDE(declared)):
        declared = mark  # it was read that way: whatever else it says is a lie
    if not told and kind.startswith("text/"):
        told = "us-ascii"
    seen = set()
    for name in (told, declared, mark, *_FALLBACKS):
        # A superset that is meant by the name of the subset.
        name = "gb18030" if name == "gb2312" else name
        if name and name not in seen:
            seen.add(name)
            if not _is_none(name):
                yield name


def _is_none(name: str) -> bool:
    try:
        return codecs.lookup(name).name.replace("-", "_") in _NO_CHARSETS
    except (LookupError, ValueError):
        return True
