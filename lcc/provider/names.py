"""Names of URLs: whatever their spelling, one key each, the same that the LCC gives them.

The LCC compares normal forms (:func:`lcc.domain.urls.normalise`, mime types without parameters), so two spellings of
one URL are one row there; to take them for two here would tell its update and its deletion.  A relative name is a URL
only behind the ``--urlprefix`` of ``lcccp``.
"""

from __future__ import annotations

from collections.abc import Mapping

from lcc.domain.keys import ALL_VIEWS, url_key
from lcc.domain.mimetypes import normalise_mimetype
from lcc.domain.urls import is_surely_normal, names_scheme, normalise, recoded, resolve
from lcc.errors import UrlError
from lcc.provider.stream_format import named

LINKS = ("f", "furl", "b", "burl")
"""The attributes that are URLs, too."""


class Names:
    """The names of one site.

    :param urlprefix: what is put before relative names; '' where it is not known.  They are told from each other by
        their spelling then, but for percent-encoding.
    """

    def __init__(self, urlprefix: str) -> None:
        self.urlprefix = urlprefix

    def url(self, name: str) -> str:
        """The normal URL, or the nearest to it: what is no URL is refused by the LCC, and has any spelling."""
        whole = resolve(self.urlprefix, name)
        if is_surely_normal(whole):
            return whole
        try:
            return normalise(whole)
        except UrlError:
            return recoded(whole)

    def are_those_of(self, other: Names) -> bool:
        """Whether relative names stand for the same URLs, however the two prefixes are spelled."""
        return self.urlprefix == other.urlprefix or self.url("x") == other.url("x")

    def key(self, name: str, mimetype: str) -> bytes:
        """16 bytes, so that a site of millions fits into memory: 12 of the page, 4 of its mime type."""
        return url_key(0, self.url(name), normal_mimetype(mimetype))[4:]

    def key_of(self, attributes: Mapping[str, str]) -> bytes:
        """The key of an element."""
        return self.key(named(attributes, "c"), named(attributes, "m"))


def page_of(key: bytes) -> bytes:
    """What all views of a page have in common: the key of a deletion that names no mime type."""
    return key[:-4] + ALL_VIEWS


def normal_mimetype(text: str) -> str:
    """The mime type as the LCC compares it; '' and what is none stay what they are."""
    if not text:
        return ""
    try:
        return normalise_mimetype(text)
    except UrlError:
        return text


def is_relative(name: str) -> bool:
    """Whether the urlprefix is put before this name."""
    return not names_scheme(name)


def has_relative_links(attributes: Mapping[str, str]) -> bool:
    """Whether the fetch or the browse URL depends on the urlprefix."""
    return any(attributes.get(name) and is_relative(attributes[name]) for name in LINKS)
