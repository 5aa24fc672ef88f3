"""The keys of a frontier: of URLs and of hosts."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from lcc.model.spider.crawls import FoundUrl

URL_KEY_BYTES = 16
HOST_KEY_BYTES = 8
_HOST_PART_BYTES = 5
_URL = blake2b(digest_size=URL_KEY_BYTES - _HOST_PART_BYTES)  # a copy is made in half the time of a new one


@lru_cache(maxsize=4096)
def host_key(root: str) -> bytes:
    """The key of a host.

    :param root: of all that its host and port have, normal (:func:`lcc.domain.urls.site_of`).
    """
    return blake2b(root.encode(), digest_size=HOST_KEY_BYTES).digest()


def url_key(curl: str) -> bytes:
    """The key of a URL, by the name that compares.  Those of one host lie together: a page links to its neighbours.

    :param curl: normal.
    """
    root_end = curl.find("/", curl.find("://") + 3) + 1
    whole = _URL.copy()
    whole.update(curl.encode())
    return host_key(curl[:root_end])[:_HOST_PART_BYTES] + whole.digest()


def found_url(curl: str, furl: str) -> FoundUrl:
    """A URL as the frontier has it.

    :param curl: that compares.
    :param furl: that is fetched; both normal.
    """
    root_end = furl.find("/", furl.find("://") + 3) + 1
    return FoundUrl(url_key(curl), furl[:root_end], furl[root_end:])


def host_of_root(root: str) -> str:
    """The host of a root, with its port if that is not the default."""
    return root[root.find("://") + 3 : -1]
