"""What a document's references mean: each resolved against its base, and normal.

Most are plain; one regular expression sees that, and puts base and reference together.  The rest goes the way of RFC
3986, with what browsers tolerate: white space around a reference, line ends in it, backslashes for slashes.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes

from lcc.domain.urls import URL_CHARS, is_surely_normal, normalise
from lcc.errors import UrlError

REFERENCE_CHARS_MAX = URL_CHARS
"""Of a reference as it is written."""

_PATH = r"A-Za-z0-9._~!$&'()*+,;=:@/-"
_TAIL = rf"[{_PATH}]*(?:\?[?{_PATH}]*)?"
_PLAIN = re.compile(
    # A path from the root, or a relative one: no scheme, no dot segment, nothing to be encoded.
    rf"(?:/(?!/)|(?=[A-Za-z0-9_~-])(?![^/?#]*:)){_TAIL}"
).fullmatch
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):").match
_WHITE = "".join(map(chr, range(33)))
_NO_LINE_ENDS = {ord(character): None for character in "\t\r\n"}
_NO_DOCUMENT = re.compile(r"(?:javascript|mailto|data|tel):", re.IGNORECASE).match
_AS_HTTP = re.compile(r"(?:https?:|ftp:|file:|[/\\?#]|[^:/?#]*(?:[/?#]|\Z))", re.IGNORECASE).match
_FOREIGN = re.compile("[^\x00-\x7f]+")


class Base:
    """Resolves references.

    :param url: the base, normal.
    :param encoding: of the document: what forms and browsers write the queries of its links in.
    """

    __slots__ = ("_encoding", "_folder", "_root", "_scheme", "url")

    def __init__(self, url: str, encoding: str = "utf-8") -> None:
        self.url = url.partition("#")[0]
        self._scheme, _, rest = self.url.partition("://")
        host, _, path = rest.partition("?")[0].partition("/")
        self._root = f"{self._scheme}://{host}"
        self._folder = f"{self._root}/{path[: path.rfind('/') + 1]}"
        self._encoding = encoding

    def resolve(self, reference: str) -> str:
        """The URL that a reference means, normal, without fragment; empty: it names no document, or this one.

        :raises UrlError: it is none; "too-long": it has too many characters.
        """
        if len(reference) > REFERENCE_CHARS_MAX:
            raise UrlError("too-long", f"{len(reference)} characters")
        plain = reference.partition("#")[0] if "#" in reference else reference
        if not plain:
            return ""
        if _PLAIN(plain) and "/." not in plain:
            return self._bounded((self._root if plain[0] == "/" else self._folder) + plain)
        if is_surely_normal(plain):
            return plain
        return self._slowly(reference)

    def _slowly(self, reference: str) -> str:
        reference = reference.strip(_WHITE).translate(_NO_LINE_ENDS).partition("#")[0]
        if not reference or _NO_DOCUMENT(reference):
            return ""
        if "\\" in reference and _AS_HTTP(reference):
            head, mark, query = reference.partition("?")
            reference = head.replace("\\", "/") + mark + query
        if self._encoding != "utf-8" and not reference.isascii():
            head, mark, query = reference.partition("?")
            reference = head + mark + _FOREIGN.sub(self._in_own_encoding, query)
        try:
            return self._bounded(normalise(self._joined(reference)))
        except UrlError as error:
            if error.entry.name == "bad-scheme":
                return ""  # of a scheme without documents
            raise

    def _joined(self, reference: str) -> str:
        """RFC 3986, section 5.2, but for dot segments, which :func:`normalise` removes."""
        named = _SCHEME(reference)
        if named is not None:
            if named[1].lower() != self._scheme:
                return reference
            reference = reference[named.end() :]  # "http:x" is an old way to write a relative one
        if reference.startswith("//"):
            return f"{self._scheme}:{reference}"
        if reference.startswith("/"):
            return self._root + reference
        if reference.startswith("?"):
            return self.url.partition("?")[0] + reference
        return self._folder + reference

    def _in_own_encoding(self, match: re.Match[str]) -> str:
        return quote_from_bytes(match[0].encode(self._encoding, "xmlcharrefreplace"), safe="")

    def _bounded(self, url: str) -> str:
        if len(url) > URL_CHARS:
            raise UrlError("too-long", f"{len(url)} characters")
        return url
