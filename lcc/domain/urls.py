"""URLs: one spelling for each, and which of them lie inside a provider's roots.

A *normal* URL has a lower-case scheme and host (IDNA for others than ASCII), no default port, no user info, a path of
at least "/", no dot segments, and percent-encoding exactly where it is needed, in upper-case hexadecimal.  So a
string prefix is enough to tell whether it lies inside a root: nothing in it can lead out again.

Most URLs that are told are normal already; one regular expression sees that.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urljoin

import idna

from lcc.errors import FetchError, UrlError, code, entry_for
from lcc.numbers import parse_number

URL_CHARS = 4096
"""The longest URL, before and after it was made normal."""

SCHEMES: dict[str, int | None] = {"http": 80, "https": 443, "ftp": 21, "file": None}
"""Schemes that are known, with default ports.  Others with an authority (``gopher://host/``) have one spelling, too:
a provider may name them where one of its roots does."""

_PATH = r"A-Za-z0-9._~!$&'()*+,;=:@/-"
_QUERY = "?" + _PATH  # not behind it: its last character would become a range

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_PORT = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

# Already normal, for sure.  (A dot that begins a segment, and anything encoded, is left to the slow way.)
_NORMAL = re.compile(
    rf"(?:https?|ftp)://(?:(?:[a-z0-9_-]{{1,40}}\.){{0,5}}[a-z][a-z0-9_-]{{0,39}}|{_OCTET}(?:\.{_OCTET}){{3}})"
    rf"(?::(?!(?:80|443|21)/){_PORT})?/[{_PATH}]*(?:\?[{_QUERY}]*)?(?:#[{_QUERY}]*)?"
).fullmatch
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL).fullmatch
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]").search
_NAMES_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://").match
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}").fullmatch
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*").fullmatch
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TO_RECODE_IN_PATH = re.compile(rf"%[0-9A-Fa-f]{{2}}|[^{_PATH}]")
_TO_RECODE_IN_QUERY = re.compile(rf"%[0-9A-Fa-f]{{2}}|[^{_QUERY}]")


def normalise(url: str) -> str:
    """The one spelling of this URL.  The fragment is kept.

    :raises UrlError: "bad-url", "bad-scheme" or "user-info".
    """
    if is_surely_normal(url):
        return url
    return _normalise_slowly(url)


def is_surely_normal(url: str) -> bool:
    """The URL is normal, which one look says."""
    return _NORMAL(url) is not None and "/." not in url


def _normalise_slowly(url: str) -> str:
    if _CONTROL(url):
        raise UrlError("bad-url", "a control character")
    parts = _PARTS(url)
    if parts is None:
        raise UrlError("bad-url", "no scheme")
    scheme = parts[1].lower()
    if parts[2] is None:
        raise UrlError("bad-url" if scheme in SCHEMES else "bad-scheme", f"{scheme[:40]}: without //")
    host = _authority(scheme, parts[3])
    path, query, fragment = parts[4] or "/", parts[5] or "", parts[6] or ""
    try:
        path = _TO_RECODE_IN_PATH.sub(_recode, path)
        if query:
            query = "?" + _TO_RECODE_IN_QUERY.sub(_recode, query[1:])
        if fragment:
            fragment = "#" + _TO_RECODE_IN_QUERY.sub(_recode, fragment[1:])
    except UnicodeEncodeError:
        raise UrlError("bad-url", "characters that are none") from None
    if "/." in path:
        path = _remove_dot_segments(path)
    return f"{scheme}://{host}{path}{query}{fragment}"


def recoded(text: str) -> str:
    """A part of a URL, from behind its host, with the percent-encoding that :func:`normalise` would give it.

    What cannot be encoded stays as it is.
    """
    head, mark, fragment = text.partition("#")
    try:
        return _TO_RECODE_IN_QUERY.sub(_recode, head) + mark + _TO_RECODE_IN_QUERY.sub(_recode, fragment)
    except UnicodeEncodeError:
        return text


def _recode(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) == 3:
        byte = int(text[1:], 16)
        return chr(byte) if byte in _UNRESERVED else text.upper()
    return "".join([f"%{byte:02X}" for byte in text.encode()])


def _remove_dot_segments(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


@lru_cache(maxsize=4096)
def _authority(scheme: str, authority: str) -> str:
    """Host and port, normal.

    :raises UrlError: they are not valid.
    """
    if "@" in authority:
        raise UrlError("user-info")
    if scheme == "file":
        if authority.lower() not in ("", "localhost"):
            raise UrlError("bad-url", "a file URL with a host")
        return ""
    if not authority and scheme not in SCHEMES:
        return ""
    if authority.startswith("["):
        literal, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UrlError("bad-url", "the host")
        return f"[{_ipv6(literal)}]{_port(scheme, rest[1:])}"
    host, _, port = authority.partition(":")
    return _host_name(host) + _port(scheme, port)


def _ipv6(literal: str) -> str:
    try:
        address = ipaddress.IPv6Address(literal)
    except ValueError:
        raise UrlError("bad-url", "the host is no IPv6 address") from None
    if address.scope_id is not None:
        raise UrlError("bad-url", "an IPv6 address with a zone")
    if address.ipv4_mapped:
        # Python spells these in different ways from version to version.
        low = int(address.ipv4_mapped)
        return f"::ffff:{low >> 16:x}:{low & 0xFFFF:x}"
    return address.compressed


def _port(scheme: str, text: str) -> str:
    if not text:
        return ""
    try:
        port = parse_number(text, 65535, 1)
    except ValueError:
        raise UrlError("bad-url", "the port") from None
    return "" if port == SCHEMES.get(scheme) else f":{port}"


def _host_name(host: str) -> str:
    if len(host) > 254:
        raise UrlError("bad-url", "the host is too long")
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            raise UrlError("bad-url", "the host is no international name") from None
    host = host.lower().removesuffix(".")
    if not _HOST(host) or len(host) > 253:
        raise UrlError("bad-url", "the host")
    if _NUMERIC_LABEL(host.rpartition(".")[2]):
        # Also 127.1, 0x7f.1 and 2130706433 are addresses to many a resolver; one spelling only.
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise UrlError("bad-url", "the host is no IPv4 address") from None
    return host


def normalise_root(url: str) -> str:
    """The normal form of a root, under which a provider may name URLs.

    :raises UrlError: as :func:`normalise`, and for a fragment; "too-long": no URL could begin with it.
    """
    root = normalise(url) if len(url) <= URL_CHARS else url
    if len(root) > URL_CHARS:
        raise UrlError("too-long", f"{root[:60]}…: a root has at most {URL_CHARS} characters")
    if "#" in root:
        raise UrlError("bad-url", "a root cannot have a fragment")
    return root


def scheme_of(normalised_url: str) -> str:
    """The URL's scheme."""
    return normalised_url.partition(":")[0]


def site_of(normalised_url: str) -> str:
    """The root of all that its host and port have."""
    scheme, _, rest = normalised_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


class Roots:
    """The roots of a provider.

    :param roots: normalised ones (:func:`normalise_root`).
    """

    def __init__(self, roots: Iterable[str]) -> None:
        prefixes: list[str] = []
        for root in roots:
            prefixes.append(root)
            if root.startswith("http://"):
                prefixes.append("https" + root[4:])
        self._prefixes = tuple(dict.fromkeys(prefixes))
        self._schemes = tuple(f"{name}://" for name in dict.fromkeys([*SCHEMES, *map(scheme_of, self._prefixes)]))

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What a URL inside begins with: one of these."""
        return self._prefixes

    def admits_scheme(self, normalised_url: str) -> bool:
        """The URL's scheme is a known one, or that of a root."""
        return normalised_url.startswith(self._schemes)

    def contains(self, normalised_url: str) -> bool:
        """The URL begins with a root; the same host, port and path over https counts as inside an http root."""
        return normalised_url.startswith(self._prefixes)


def owner_of(normalised_url: str, owners: Iterable[tuple[str, int]]) -> int:
    """Whose a URL is: the provider of the first root that it lies in, as :class:`Roots` says; 0: nobody's.

    :param owners: root and provider, in the order in which they count.
    """
    over_http = "http" + normalised_url[5:] if normalised_url.startswith("https://") else normalised_url
    return next((pid for root, pid in owners if normalised_url.startswith(root) or over_http.startswith(root)), 0)


def names_scheme(text: str) -> bool:
    """The text says its own ``scheme://``."""
    return _NAMES_SCHEME(text) is not None


def normalise_prefix(prefix: str) -> str:
    """The normal form of a set's urlprefix, the start of an absolute URL; ``http://`` alone is one, too: the names
    begin with their host then.

    :raises UrlError: as :func:`normalise`.
    """
    match = _NAMES_SCHEME(prefix)
    return prefix.lower() if match is not None and match.end() == len(prefix) else normalise(prefix)


def resolve(prefix: str, text: str) -> str:
    """The text with the set's urlprefix before it, unless it names a scheme (begins with ``scheme://``).

    A name such as ``Foo::Bar.html`` is no scheme.  Nothing else is resolved: this is a plain string prefix.
    """
    if ":" in text and _NAMES_SCHEME(text):
        return text
    return prefix + text


REDIRECT_CHARS = 500
"""Of a URL outside of the roots, as an error tells where a redirect leads."""
_REDIRECT_OUTSIDE = f"{entry_for(code('redirect-outside')).text}: "


def redirect_outside(target: str) -> FetchError:
    """The error of a redirect outside of the roots, which tells where it leads."""
    return FetchError("redirect-outside", target[:REDIRECT_CHARS])


def redirected_to(text: str) -> str | None:
    """Where a redirect leads, normalised and without fragment; None: that was not told.

    :param text: of its error (:func:`redirect_outside`), as content users see it.
    """
    target = text.removeprefix(_REDIRECT_OUTSIDE)
    if target == text or len(target) >= REDIRECT_CHARS:
        return None
    try:
        return normalise(target).partition("#")[0]
    except UrlError:
        return None


def redirect_target(base: str, location: str) -> str:
    """Where a redirect leads, normalised, without a fragment.

    :param base: the URL that answered, normalised.
    :param location: the answer's Location.
    :raises UrlError: as :func:`normalise`.
    """
    location = location.strip(" \t")
    if _CONTROL(location):
        raise UrlError("bad-url", "a control character in a redirect")
    try:
        target = urljoin(base, location)
    except ValueError:
        raise UrlError("bad-url", "a redirect") from None
    return normalise(target).partition("#")[0]


def followed_redirect(base: str, location: str) -> str:
    """The same while fetching, before anybody judges whether it may lead there.

    :raises FetchError: "bad-response": no redirect can lead there.
    """
    try:
        target = redirect_target(base, location)
    except UrlError as error:
        raise FetchError("bad-response", f"a redirect to {location[:200]!r}: {error.text}") from None
    if len(target) > URL_CHARS:
        raise FetchError("bad-response", f"a redirect to a URL of more than {URL_CHARS} characters")
    return target
