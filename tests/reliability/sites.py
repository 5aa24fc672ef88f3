"""Sites of a kill test that are noticed in several ways at once: they tell sets, push by IndexNow, and have a sitemap
and a feed.

Each page has some of these ways, at random.  A site forgets to tell and to push now and then; its documents are
always as its pages are.  What the oracle must know of that stands in the journal (:mod:`journal`: ``changed``,
``push``).
"""

from __future__ import annotations

import hashlib
import http.client
import json
import time
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from .journal import DELETE, UPDATE
from .pages import MTIME
from .providers import SLIP_SHARE, Publisher

if TYPE_CHECKING:
    from .world import World

TOLD, PUSHED, LISTED, ITEM = "t", "p", "l", "f"
"""Ways in which a page is noticed: by sets, by IndexNow, by the sitemap, by the feed."""
WAYS = (
    TOLD,
    PUSHED,
    LISTED,
    ITEM,
    TOLD + PUSHED,
    TOLD + LISTED,
    PUSHED + LISTED,
    TOLD + PUSHED + LISTED,
    TOLD + ITEM,
)
SITEMAP, FEED = "sitemap.xml", "feed.xml"
DOCUMENTS = {SITEMAP: "application/xml", FEED: "application/rss+xml"}
FIRST_PAGES, PAGES_MAX = 10, 60
ANSWER_SECONDS = 20.0


class Site(Publisher):
    """
    :param push_port: of the push server.
    :ivar key: of its pushes; ``key_path``: of the file that proves it.
    """

    def __init__(self, world: World, pid: int, password: str, name: str, push_port: int) -> None:
        self.key = self.key_of(name)
        self.key_path = f"/{name}/{self.key}.txt"
        self._push_port = push_port
        self._ways: dict[str, str] = {}
        self._unlisted: set[str] = set()
        self._unpushed: set[str] = set()
        super().__init__(world, pid, password, name, FIRST_PAGES)

    @staticmethod
    def key_of(name: str) -> str:
        """Of a site."""
        return hashlib.md5(name.encode()).hexdigest()

    # The pages.

    def _new_page(self) -> None:
        super()._new_page()
        name = list(self.pages)[-1]
        # No document is without entries.
        self._ways[name] = (LISTED, ITEM)[self._made - 1] if self._made <= 2 else self._random.choice(WAYS)
        self._changed(name)

    def _changed(self, name: str) -> None:
        page, ways = self.pages[name], self._ways[name]
        self._pending.discard(name)
        if TOLD in ways:
            self._pending.add(name)
        if PUSHED in ways:
            self._unpushed.add(name)
        self._world.note(
            "changed",
            pid=self.pid,
            name=name,
            version=page.version,
            exists=page.exists,
            listed=self._lists(name),
            item=ITEM in ways,
        )

    def _lists(self, name: str) -> bool:
        return LISTED in self._ways[name] and self.pages[name].exists and name not in self._unlisted

    def change(self) -> None:
        random = self._random
        for _ in range(random.randint(1, 3)):
            luck = random.random()
            if luck < 0.2 and len(self.pages) < PAGES_MAX:
                self._new_page()
                continue
            # The first two stay; so do pages of items, which are never taken back.
            name = random.choice([name for name, page in self.pages.items() if page.exists])
            page = self.pages[name]
            if luck < 0.3 and ITEM not in self._ways[name] and name != next(iter(self.pages)):
                page.exists = False
            elif luck < 0.4 and LISTED in self._ways[name] and name != next(iter(self.pages)):
                self._unlisted ^= {name}
                page.version += 1
            else:
                page.version += 1
            self._changed(name)

    # What it says.

    def compose(self, full: bool) -> list[tuple[str, str]]:
        random = self._random
        told = [name for name, ways in self._ways.items() if TOLD in ways]
        existing = [name for name in told if self.pages[name].exists]
        if full:
            return [(name, UPDATE) for name in existing if random.random() > SLIP_SHARE]
        pending = sorted(self._pending)
        named = set(random.sample(pending, min(len(pending), random.randint(1, 8))))
        named.update(random.sample(existing, min(len(existing), random.randrange(2))))
        return [(name, UPDATE if self.pages[name].exists else DELETE) for name in sorted(named)]

    def document(self, name: str) -> bytes | None:
        """Its sitemap, or its feed."""
        root = f"http://127.0.0.1:{self._world.port}/{self.name}/"
        if name == SITEMAP:
            entries = "".join(
                f"<url><loc>{root}{each}</loc><lastmod>{_iso(page.version)}</lastmod></url>"
                for each, page in self.pages.items()
                if self._lists(each)
            )
            return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()
        if name == FEED:
            items = "".join(
                f"<item><guid>{each}</guid><title>{title(each, page.version)}</title><link>{root}{each}</link></item>"
                for each, page in self.pages.items()
                if ITEM in self._ways[each]
            )
            return f"<rss version='2.0'><channel><title>{self.name}</title>{items}</channel></rss>".encode()
        return None

    def lives(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield from super().lives()
        yield self._push_for_ever()

    async def _push_for_ever(self) -> None:
        while True:
            await deferLater(reactor, self._random.expovariate(1 / self._world.pace))  # type: ignore[arg-type]
            await self._world.may_begin()
            await self._push()
            self._world.ended()

    async def _push(self) -> None:
        unpushed = sorted(self._unpushed)
        names = self._random.sample(unpushed, min(len(unpushed), self._random.randint(1, 5)))
        if not names:
            return
        number = self._world.next_number()
        self._world.note("push", n=number, pid=self.pid, names=names)
        self._unpushed -= set(names)
        host = f"127.0.0.1:{self._world.port}"
        urls = [f"http://{host}/{self.name}/{name}" for name in names]
        body = {"host": host, "key": self.key, "keyLocation": f"http://{host}{self.key_path}", "urlList": urls}
        status = await deferToThread(ping, self._push_port, body)
        self._world.note("pushed", n=number, status=status)
        if status not in (200, 202) and self._random.random() < 0.9:
            self._unpushed |= set(names)


def title(name: str, version: int) -> str:
    """Of the item of a page."""
    return f"{name} version {version}"


def ping(port: int, body: dict[str, Any]) -> int:
    """Push; gives the status of the answer, 0: there was none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/indexnow", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        reply.read()
    except (OSError, http.client.HTTPException):
        return 0
    else:
        return reply.status
    finally:
        connection.close()


def _iso(version: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(MTIME + version))
