"""IndexNow: what a request of it says, and whether a key file has the key (https://www.indexnow.org/documentation).

All that is wrong is said with the status that the protocol has for it, and why in words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lcc.domain.registration.sites import SCHEMES, host_of, port_of
from lcc.domain.urls import URL_CHARS, Roots, normalise, scheme_of, site_of
from lcc.errors import UrlError
from lcc.model.push.pushes import Submission

URLS_MAX = 10_000
SHOWN_CHARS = 120
_KEY = re.compile(r"[A-Za-z0-9-]{8,128}").fullmatch
_QUERY = frozenset({"url", "key", "keyLocation"})


class PushRefused(Exception):
    """A push that is not accepted.

    :ivar status: of the answer: 400, 403, 422, 429 or 503.
    :ivar retry_seconds: after which it may be sent again; 0: as it is, never.
    """

    def __init__(self, status: int, text: str, retry_seconds: float = 0) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_seconds = retry_seconds


def read_query(fields: Mapping[str, Sequence[str]], any_port: bool = False) -> Submission:
    """``GET /indexnow?url=…&key=…&keyLocation=…``.

    :param fields: decoded.
    :raises PushRefused: it is no submission.
    """
    for name, values in fields.items():
        if name in _QUERY and len(values) > 1:
            raise PushRefused(400, f"{name} is there {len(values)} times; a list of URLs is sent by POST")
    url = (fields.get("url") or [""])[0]
    if not url:
        raise PushRefused(400, "url is missing: /indexnow?url=URL&key=KEY")
    key, location = (fields.get("key") or [""])[0], (fields.get("keyLocation") or [""])[0]
    return _submission("", key, location, [url], any_port)


def read_body(document: Any, any_port: bool = False) -> Submission:
    """The JSON object of a POST: ``host``, ``key``, ``keyLocation``, ``urlList``.

    :raises PushRefused: it is no submission.
    """
    if not isinstance(document, dict):
        raise PushRefused(400, "the body is no JSON object")
    for name in ("host", "key", "keyLocation"):
        if not isinstance(document.get(name) or "", str):
            raise PushRefused(400, f"{name} is no string")
    urls = document.get("urlList")
    if not isinstance(urls, list) or not urls:
        raise PushRefused(400, "urlList is missing, or no list of URLs")
    if not document.get("host"):
        raise PushRefused(400, "host is missing")
    return _submission(document["host"], document.get("key") or "", document.get("keyLocation") or "", urls, any_port)


def _submission(host: str, key: str, location: str, urls: Sequence[Any], any_port: bool) -> Submission:
    if not key:
        raise PushRefused(400, "key is missing")
    if not _KEY(key):
        raise PushRefused(422, f"key: {_shown(key)} is not 8 to 128 of a-z, A-Z, 0-9 and -")
    if len(urls) > URLS_MAX:
        raise PushRefused(422, f"urlList has {len(urls):,} URLs, and may have {URLS_MAX:,}")
    found = dict.fromkeys(_read_url(url, f"urlList[{index}]" if host else "url") for index, url in enumerate(urls))
    normal = tuple(found)
    own = _read_host(host) if host else host_of(normal[0])
    others = [url for url in normal if host_of(url) != own]
    if others:
        raise PushRefused(422, f"{len(others)} of {len(normal)} URLs are not of the host {own}: {_shown(others[0])}")
    # An http location proves the https URLs, too.
    scheme = "http" if any(scheme_of(url) == "http" for url in normal) else "https"
    at = _read_url(location or f"{scheme}://{own}/{key}.txt", "keyLocation")
    if host_of(at) != own:
        raise PushRefused(422, f"keyLocation: {_shown(at)} is not of the host {own}")
    if "?" in at or at.endswith("/"):
        raise PushRefused(422, f"keyLocation: {_shown(at)} is no file")
    if not any_port and port_of(at) != SCHEMES[scheme_of(at)]:
        raise PushRefused(422, f"{own}: only the usual ports, 80 and 443, are allowed here")
    folder = f"{at.rpartition('/')[0]}/"
    within = Roots([folder])
    outside = [url for url in normal if not within.contains(url)]
    if outside:
        text = f"{len(outside)} of {len(normal)} URLs are not below {folder}, for which the key file speaks"
        raise PushRefused(422, f"{text}: {_shown(outside[0])}")
    return Submission(site_of(at), key, at, folder, normal)


def _read_host(host: str) -> str:
    text = host.strip()
    if re.search(r"[/?#@\\\s]", text):
        raise PushRefused(400, f"host: {_shown(host)} is no host name")
    try:
        return host_of(normalise(f"https://{text}/"))
    except UrlError as error:
        raise PushRefused(400, f"host: {_shown(host)}: {error.text}") from None


def _read_url(url: Any, where: str) -> str:
    if not isinstance(url, str):
        raise PushRefused(400, f"{where} is no string")
    try:
        if len(url) > URL_CHARS:
            raise UrlError("too-long", f"more than {URL_CHARS} characters")
        normal = normalise(url.strip()).partition("#")[0]
        if len(normal) > URL_CHARS:
            raise UrlError("too-long", f"more than {URL_CHARS} characters")
    except UrlError as error:
        raise PushRefused(400, f"{where}: {_shown(url)}: {error.text}") from None
    if scheme_of(normal) not in SCHEMES:
        raise PushRefused(400, f"{where}: {_shown(url)} is no http or https URL")
    return normal


def _shown(text: str) -> str:
    """As it may stand in an answer and a log."""
    shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
    return shown if shown.isprintable() else ascii(shown)


def key_fault(content: bytes, key: str) -> str:
    """Why this is not the key file; empty: it is.

    The key and nothing else: a page that says "KEY.txt was not found" has the key in it, too.
    """
    text = content.removeprefix(b"\xef\xbb\xbf").strip().decode("utf-8", "replace")
    if text == key:
        return ""
    if not text:
        return "it is empty, and not the key"
    return f"it contains {_shown(text[:SHOWN_CHARS])!a}, and not just the key"
