"""The web server of all sites of the soak, with the hub of their feed, and the callbacks of subscribers."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from twisted.internet.defer import Deferred
from twisted.web.http import CACHED
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.transport.http.client import HttpClient
from soak.roles.sites import CRAWL_PAGES, KEY, Sites, feed, links_of, page, sitemap, version

LEASE_SECONDS = 90
"""Of the hub: its subscriber renews several times in a soak."""
BODY_BYTES_MAX = 1 << 20


class Hub:
    """The hub of the feed (WebSub): verifies, and pushes what is new, signed."""

    def __init__(self, client: HttpClient, counts: Counter[str], document: Callable[[], bytes]) -> None:
        self._client = client
        self._counts = counts
        self._document = document
        self._subscribers: dict[str, str] = {}

    def asked(self, fields: dict[str, str]) -> None:
        """Somebody subscribes, or renews."""
        Deferred.fromCoroutine(self._verify(fields)).addErrback(self._failed)

    async def _verify(self, fields: dict[str, str]) -> None:
        mode, topic, callback = (fields[f"hub.{name}"] for name in ("mode", "topic", "callback"))
        challenge = f"{time.time():.6f}"
        query = {"mode": mode, "topic": topic, "challenge": challenge, "lease_seconds": LEASE_SECONDS}
        address, path = _split(callback)
        more = urlencode({f"hub.{name}": value for name, value in query.items()})
        answer = await self._client.get(address, f"{path}{'&' if '?' in path else '?'}{more}")
        said = await answer.read(BODY_BYTES_MAX)
        if answer.status // 100 == 2 and said.decode() == challenge:
            self._counts[f"hub {mode}"] += 1
            if mode == "subscribe":
                self._subscribers[callback] = fields.get("hub.secret", "")
            else:
                self._subscribers.pop(callback, None)

    async def push(self) -> None:
        """Tell all subscribers."""
        body = self._document()
        for callback, secret in list(self._subscribers.items()):
            signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            headers = {"Content-Type": "application/atom+xml", "X-Hub-Signature": f"sha256={signature}"}
            address, path = _split(callback)
            answer = await self._client.post(address, path, body, headers)
            await answer.read(BODY_BYTES_MAX)
            if answer.status == 410:
                del self._subscribers[callback]  # its subscriber has a newer one
            elif answer.status // 100 == 2:
                self._counts["hub pushes"] += 1
            else:
                self._counts[f"failed: the push server answers a hub {answer.status}"] += 1

    def _failed(self, failure: Any) -> None:
        self._counts["failed: hub"] += 1
        failure.printTraceback()


class Web(Resource):
    """All hosts.

    :param counts: kind of site -> requests.
    """

    isLeaf = True

    def __init__(self, sites: Sites, hub: Hub, counts: Counter[str], heard: Callable[[bytes], None]) -> None:
        super().__init__()
        self._sites = sites
        self._hub = hub
        self._counts = counts
        self._heard = heard
        self._kinds = {
            sites.providers: "provider",
            sites.feed: "feed",
            sites.sitemap: "sitemap",
            sites.pushed: "pushed",
            **dict.fromkeys(sites.crawled, "crawled"),
        }

    def render_GET(self, request: Request) -> Any:
        host = f"http://{request.getHeader('host')}"
        path = request.path.decode()
        kind = self._kinds.get(host, "strange")
        now = time.time()
        if path == "/callback":
            return request.args.get(b"hub.challenge", [b""])[0]  # type: ignore[union-attr]
        self._counts[f"asked {kind}{path if path in ('/feed.xml', '/sitemap.xml') else ''}"] += 1
        request.setHeader("content-type", "text/html")
        if path == "/robots.txt":
            request.setHeader("content-type", "text/plain")
            return b"User-agent: *\nAllow: /\n"
        if path == f"/{KEY}.txt":
            request.setHeader("content-type", "text/plain")
            return KEY.encode()
        tag = f'"{version(now)}"'.encode()
        if path != "/feed.xml" and request.setETag(tag) is CACHED:
            return b""
        if path == "/feed.xml":
            request.setHeader("content-type", "application/atom+xml")
            return feed(self._sites, f"{self._sites.feed}/hub", now)
        if path == "/sitemap.xml":
            request.setHeader("content-type", "application/xml")
            return sitemap(self._sites, now)
        links: tuple[str, ...] = ()
        if kind == "crawled":
            name = path.strip("/").removesuffix(".html") or "0"
            if not name.isdigit() or int(name) >= CRAWL_PAGES:
                request.setResponseCode(404)
                return b"no such page"
            links = links_of(self._sites, self._sites.crawled.index(host), int(name))
        return page(host, path, version(now), links)

    def render_POST(self, request: Request) -> Any:
        body = request.content.read()
        if request.path == b"/hub":
            fields = {name.decode(): values[0].decode() for name, values in (request.args or {}).items()}
            request.setResponseCode(202)
            self._hub.asked(fields)
            return b""
        self._heard(body)
        request.setResponseCode(204)
        request.finish()
        return NOT_DONE_YET


def _split(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path + (f"?{parts.query}" if parts.query else "")
