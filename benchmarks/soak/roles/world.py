"""All that is not the LCC: the sites, and who tells, pushes, follows and searches.  Not for use alone.

``python -m soak.roles.world ORDERS.json COUNTS``: lives until its standard input ends.  Each :data:`COUNT_SECONDS` it
adds a line to COUNTS, a JSON object: ``time``, and how often each thing was done so far; what begins with ``failed``
should not be there.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import attrs
from lcc_site import PASSWORD
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import LoopingCall, deferLater, react
from twisted.internet.threads import deferToThread
from twisted.web.server import Site

from lcc.provider.client import Unreachable, submit, uns_endpoint
from lcc.transport.http.client import HttpClient, HttpFailed
from soak.roles.sites import (
    KEY,
    PROVIDER_PAGES,
    PUSHED_PAGES,
    VERSION_SECONDS,
    VOCABULARY,
    Sites,
    feed,
    version,
)
from soak.roles.web import Hub, Web

COUNT_SECONDS = 5.0
SET_PAGES = 8
SET_SECONDS, PUSH_SECONDS, SEARCH_SECONDS, PACKAGE_SECONDS, PAUSE_SECONDS = 0.5, 2.0, 0.5, 30.0, 1.0
"""Between two sets of all providers together, two pushes, searches, packages, and requests of who follows."""
SUBSCRIBE_SECONDS = 30.0
FRESH_SECONDS = 3 * VERSION_SECONDS
BODY_BYTES_MAX = 64 << 20
TRY_LATER = (429, 503)


@attrs.frozen
class Orders:
    """What the world is to do.

    :ivar port: of its web server, at each of ``addresses``.
    :ivar pids: of the providers.
    :ivar uns: port of the front end's proxy of UNSes.
    :ivar push, search: URLs of these servers.
    :ivar caches: URLs of the content user APIs that are followed: the front end's first.
    :ivar hubs: of these, those that are subscribed to.
    :ivar speed: how many times as often sets, pushes, searches, packages and requests come.
    """

    port: int
    addresses: list[str]
    pids: list[int]
    uns: int
    push: str
    search: str
    caches: list[str]
    hubs: list[str]
    speed: float = 1.0

    def sites(self) -> Sites:
        """Where they are."""
        urls = [f"http://{address}:{self.port}" for address in self.addresses]
        return Sites(*urls[:4], tuple(urls[4:]))


class World:
    """All of it.

    :ivar counts: what was done.
    """

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.sites = orders.sites()
        self.counts: Counter[str] = Counter()
        self._client = HttpClient(reactor, 60, 60.0)
        self._hub = Hub(self._client, self.counts, lambda: feed(self.sites, f"{self.sites.feed}/hub", time.time()))
        self._uns = uns_endpoint(reactor, f"127.0.0.1:{orders.uns}")
        self._ending = False
        self._lives: list[Deferred[None]] = []
        self._sets = itertools.count()
        self._pushes = itertools.count()
        self._queries = itertools.count()

    def start(self) -> None:
        """Open the web server; all begin."""
        web = Site(Web(self.sites, self._hub, self.counts, self._heard))
        for address in self.orders.addresses:
            reactor.listenTCP(self.orders.port, web, interface=address, backlog=200)  # type: ignore[attr-defined]
        speed = self.orders.speed
        self._live(self.tell, SET_SECONDS / speed)
        self._live(self.push, PUSH_SECONDS / speed)
        self._live(self.search, SEARCH_SECONDS / speed)
        self._live(self._hub.push, VERSION_SECONDS)
        self._live(self.package, PACKAGE_SECONDS / speed)
        for cache in self.orders.caches:
            self._lives += [Deferred.fromCoroutine(self._follow(cache, what)) for what in ("changes", "items")]
        for hub in self.orders.hubs:
            self._live(lambda hub=hub: self.subscribe(hub), SUBSCRIBE_SECONDS / speed)  # type: ignore[misc]

    def end(self) -> Deferred[Any]:
        """Begin nothing more; fires when all that was begun has ended."""
        self._ending = True
        return DeferredList(self._lives)

    def _live(self, do: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
        self._lives.append(Deferred.fromCoroutine(self._again(do, seconds)))

    async def _again(self, do: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
        while not self._ending:
            due = time.monotonic() + seconds
            await self._tried(do)
            while not self._ending and time.monotonic() < due:
                await deferLater(reactor, min(0.5, max(0.0, due - time.monotonic())))  # type: ignore[arg-type]

    async def _tried(self, do: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await do()
        except (HttpFailed, Unreachable) as error:
            self.counts[f"failed: {type(error).__name__}: {error}"[:200]] += 1

    # What providers do.

    async def tell(self) -> None:
        """A set of the next provider, by the front end: some pages have changed, one goes, the one before is back."""
        number = next(self._sets)
        pids = self.orders.pids
        pid, turn = pids[number % len(pids)], number // len(pids)
        names = [(turn * SET_PAGES + each) % PROVIDER_PAGES for each in range(SET_PAGES)]
        urls = [{"c": f"{name}.html", "m": "text/html"} for name in names]
        urls[-1]["op"] = "delete"
        root = f"{self.sites.providers}/p{pid}/"
        result = await submit(reactor, self._uns, pid, PASSWORD, urls, urlprefix=root)
        if result.accepted and result.received == SET_PAGES:
            self.counts["sets"] += 1
        else:
            self.counts[f"failed: set: {result.code} {result.text}"] += 1

    async def push(self) -> None:
        """IndexNow: a list, then a single URL, then the report."""
        number = next(self._pushes)
        host = self.sites.pushed.removeprefix("http://")
        pages = [f"{self.sites.pushed}/{(number * 3 + each) % PUSHED_PAGES}.html" for each in range(3)]
        if number % 3 == 0:
            body = json.dumps({"host": host, "key": KEY, "urlList": pages}).encode()
            answer = await self._client.post(
                self.orders.push, "/indexnow", body, {"Content-Type": "application/json", "Host": "127.0.0.1"}
            )
        elif number % 3 == 1:
            answer = await self._client.get(self.orders.push, f"/indexnow?{urlencode({'url': pages[0], 'key': KEY})}")
        else:
            query = urlencode({"host": host, "key": KEY})
            answer = await self._client.get(self.orders.push, f"/indexnow/report?{query}")
        text = await answer.read(BODY_BYTES_MAX)
        if answer.status in (200, 202):
            self.counts["pushes" if number % 3 < 2 else "reports"] += 1
        else:
            self.counts[f"failed: push: {answer.status} {text[:100]!r}"] += 1

    # What users do.

    async def search(self) -> None:
        """A search as programs do it, as people do it, by turns, for what is in many pages and in few."""
        number = next(self._queries)
        words = VOCABULARY[number * 7 % len(VOCABULARY)]
        fresh = f"v{version(time.time() - FRESH_SECONDS)}v"
        query = [words, f"{words} {VOCABULARY[number % len(VOCABULARY)]}", f"soak {fresh}", "since:1d soak"][
            number % 4
        ]
        form = "&format=json" if number % 2 == 0 else ""
        answer = await self._client.get(self.orders.search, f"/search?q={quote(query)}{form}")
        text = await answer.read(BODY_BYTES_MAX)
        if answer.status != 200:
            self.counts[f"failed: search: {answer.status} {text[:100]!r}"] += 1
            return
        self.counts["searches"] += 1
        if form and query.startswith("soak v"):
            self.counts["searches for what is new"] += 1
            self.counts["found what is new"] += json.loads(text)["total"] > 0

    async def _follow(self, cache: str, what: str) -> None:
        """A content user: each page, or item, that is new."""
        since, wait = "0", "&wait=5" if what == "changes" else ""
        while not self._ending:
            try:
                answer = await self._client.get(cache, f"/{what}?since={quote(since)}{wait}")
                text = await answer.read(BODY_BYTES_MAX)
                if answer.status != 200:
                    self.counts[f"failed: {what}: {answer.status} {text[:100]!r}"] += 1
                    await deferLater(reactor, PAUSE_SECONDS / self.orders.speed)  # type: ignore[arg-type]
                    continue
                rows = [json.loads(line) for line in text.splitlines()]
                since = rows[-1]["next"]
                self.counts[f"{what} read"] += len(rows) - 1
                for row in rows[:-1:50]:
                    if what == "changes" and row.get("state") == "cached":
                        content = await self._client.get(cache, f"/content/{row['key']}")
                        await content.read(BODY_BYTES_MAX)
                        self.counts["contents read" if content.status == 200 else "contents gone"] += 1
            except HttpFailed as error:
                self.counts[f"failed: {what}: {error}"[:200]] += 1
            await deferLater(reactor, PAUSE_SECONDS / self.orders.speed)  # type: ignore[arg-type]

    async def package(self) -> None:
        """A WARC of one provider, and what became of some URLs."""
        cache = self.orders.caches[0]
        pid = self.orders.pids[next(self._sets) % len(self.orders.pids)]
        answer = await self._client.get(cache, f"/package?kind=warc.gz&provider={pid}")
        await answer.read(BODY_BYTES_MAX)
        self.counts["packages" if answer.status == 200 else f"failed: package: {answer.status}"] += 1

    async def subscribe(self, hub: str) -> None:
        """Subscribe to all changes of a provider, or renew that."""
        topic = f"{hub}/atom?prefix={quote(f'{self.sites.providers}/p{self.orders.pids[0]}/', safe='')}"
        fields = {"mode": "subscribe", "topic": topic, "callback": f"{self.sites.providers}/callback"}
        fields |= {"secret": "mine", "lease_seconds": "600"}
        body = urlencode({f"hub.{name}": value for name, value in fields.items()}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Host": hub.removeprefix("http://")}
        answer = await self._client.post(hub, "/hub", body, headers)
        text = await answer.read(BODY_BYTES_MAX)
        good = answer.status == 202
        self.counts["subscribed" if good else f"failed: subscribe: {answer.status} {text[:100]!r}"] += 1

    def _heard(self, _body: bytes) -> None:
        self.counts["deliveries"] += 1


async def main(_reactor: Any, orders: str, counts: str) -> None:
    """Live."""
    world = World(Orders(**json.loads(Path(orders).read_text())))
    world.start()
    with Path(counts).open("a", buffering=1) as file:

        def count() -> None:
            file.write(json.dumps({"time": time.time(), **world.counts}) + "\n")

        counting = LoopingCall(count)
        counting.start(COUNT_SECONDS, now=False).addErrback(lambda failure: failure.printTraceback())
        await deferToThread(sys.stdin.read)
        await world.end()
        counting.stop()
        count()


if __name__ == "__main__":
    react(lambda *arguments: Deferred.fromCoroutine(main(*arguments)), sys.argv[1:])
