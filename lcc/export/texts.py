"""Text of pages in the character set that a search engine reads.

HTML and XML become ASCII with character references, which every engine reads alike, whatever a page says of its own
character set.
"""

from __future__ import annotations

import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from typing import IO

PIECE_BYTES = 1 << 16
HEAD_BYTES = 1 << 16
"""A title further down is not looked for."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_.:-]{1,40})""")
_TITLE = re.compile(r"<title(?:\s[^>]{0,400})?>(.*?)</title", re.IGNORECASE | re.DOTALL)
_TITLE_CHARS = 500
_UNWANTED = {code: " " for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: " "}


def charset_of(file: IO[bytes], told: str, markup: bool) -> str:
    """The character set of a text: by its byte order mark, as the server told, as the page tells, UTF-8 if it is
    that, else Windows-1252.

    :param told: by the server; may be empty.
    :param markup: it is HTML or XML, which may tell itself.
    """
    file.seek(0)
    head = file.read(4096)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    named = [told]
    if markup:
        found = _XML.match(head) or _META.search(head)
        if found:
            named.append(found[1].decode("ascii"))
    for name in named:
        known = _known(name)
        # A page that says in ASCII that it is UTF-16 is wrong.
        if known and not (known.startswith(("utf-16", "utf-32")) and name != told):
            return known
    return "utf-8" if _is_utf8(file) else "cp1252"


def _known(name: str) -> str:
    try:
        info = codecs.lookup(name)
        "".encode(info.name)  # only those of text do that
    except (LookupError, ValueError, UnicodeError):
        return ""
    # As browsers do.
    return "cp1252" if info.name in ("iso8859-1", "ascii") else info.name


def _is_utf8(file: IO[bytes]) -> bool:
    try:
        for _ in _decoded(file, "utf-8", "strict"):
            pass
    except UnicodeDecodeError:
        return False
    return True


def decoded(file: IO[bytes], charset: str) -> Iterator[str]:
    """The text, piece by piece; control characters have become spaces."""
    for piece in _decoded(file, charset, "replace"):
        yield piece.translate(_UNWANTED)


def _decoded(file: IO[bytes], charset: str, errors: str) -> Iterator[str]:
    file.seek(0)
    decoder = codecs.getincrementaldecoder(charset)(errors)
    while piece := file.read(PIECE_BYTES):
        yield decoder.decode(piece)
    yield decoder.decode(b"", True)


def title_of(file: IO[bytes], charset: str) -> str:
    """What the title of an HTML page says; empty: nothing."""
    file.seek(0)
    head = file.read(HEAD_BYTES).decode(charset, "replace").translate(_UNWANTED)
    found = _TITLE.search(head)
    return " ".join(html.unescape(found[1]).split())[:_TITLE_CHARS] if found else ""


def islice_chars(pieces: Iterator[str], chars_max: int) -> Iterator[str]:
    """The first characters of a text."""
    left = chars_max
    for piece in pieces:
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return


def as_references(piece: str) -> bytes:
    """ASCII, with references for all else."""
    return piece.encode("ascii", "xmlcharrefreplace")


def as_latin1(piece: str) -> bytes:
    """Latin-1; what it does not have becomes the letter without its marks, or a space."""
    try:
        return piece.encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(map(_latin1_char, piece))


def _latin1_char(char: str) -> bytes:
    if char <= "\xff":
        return char.encode("latin-1")
    plain = "".join(each for each in unicodedata.normalize("NFKD", char) if each <= "\xff")
    return plain.encode("latin-1") or b" "
