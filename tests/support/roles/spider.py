"""A spider in this process: its real engine, frontier, filters and extraction, on one fake clock.  The LCC around it
is played: what it is told it fetches from generated sites, page after page, and serves as ``lcc-cu`` does."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.task import Clock

from lcc.client.blocking import CacheError, StartAgain, TokenRefused
from lcc.config import SpiderConfig
from lcc.domain.keys import url_key
from lcc.domain.spider.keys import host_of_root
from lcc.domain.spider.rules import FrontierRules
from lcc.domain.urls import normalise_root, redirect_outside, site_of
from lcc.errors import code
from lcc.model.cache import CachedUrl
from lcc.model.notifiers import NoticeOutcome, RefusedElement, SourcedSet
from lcc.model.spider.crawls import BUCKETS, Crawl, CrawlSettings, CrawlStatus, ReadUrl, StoreWork, bucket_of
from lcc.model.spider.links import ExtractionLimits, Page, PageLinks, StoreSettings
from lcc.model.states import AnsweredUrl, AskedUrl, SiteRobots
from lcc.roles.extraction import ExtractionPool
from lcc.roles.notifier import NotifierRefused
from lcc.roles.spider.engine import Spider
from lcc.roles.spider.keeping import Keeping
from lcc.spider.stores.registry import stores_named
from lcc.storage.database.migrations import SPIDER
from lcc.storage.disk.file_system import DISK
from lcc.storage.spider.orders import CRAWL_ADD, ORDERS, add_body
from lcc.storage.spider.store import FrontierStore
from lcc.storage.spider.views import crawl_status
from lcc.testing.inline_database import InlineDatabase
from lcc.testing.inline_extraction import InlineWorker
from tests.support.databases import result_of

NOW = 1_700_000_000


class _Stream:
    """A package, as :class:`lcc.client.packages.PageStream`."""

    def __init__(self, pages: Sequence[Page], token: str | None) -> None:
        self.token: str | None = None
        self._pages = pages
        self._after = token

    def __aiter__(self) -> AsyncIterator[Page]:
        return self._all()

    async def _all(self) -> AsyncIterator[Page]:
        for page in self._pages:
            yield page
        self.token = self._after

    def close(self) -> None:
        pass


def _fire(waiting: Deferred[None]) -> None:
    if not waiting.called:  # it may have been cancelled meanwhile
        waiting.callback(None)


@attrs.define
class _Row:
    page: Page
    change: int


class Lcc:
    """The LCC, as its spiders see it: client of ``lcc-cu`` and link to the UNS in one.

    :param sites: URL -> content of the pages on the web; what is missing is 404.
    :ivar fetched: URLs, in the order in which they were fetched.
    :ivar robots_of: root -> robots.txt; unknown ones are found empty.
    :ivar errors: URL -> code of the error of its fetch.
    :ivar redirects: URL -> where it redirects to, on another host.
    :ivar watches: roots that were asked for, and whether they may be private.
    :ivar mimetypes: URL -> the type of its content, unless that is HTML.
    :ivar set_numbers: of the sets of the spider that was started last: its epoch is a new one.
    :ivar silent: ``lcc-cu`` cannot be asked; ``unknown_robots``: no robots.txt was read yet.
    :ivar unreadable: URLs whose content cannot be read now.
    :ivar readable: providers whose pages its token may read; None: all.
    """

    def __init__(self, sites: Mapping[str, bytes], clock: Clock) -> None:
        self.sites = dict(sites)
        self.clock = clock
        self.fetched: list[str] = []
        self.robots_of: dict[str, str] = {}
        self.errors: dict[str, int] = {}
        self.redirects: dict[str, str] = {}
        self.mimetypes: dict[str, str] = {}
        self.silent = self.unknown_robots = False
        self.unreadable: set[str] = set()
        self.readable: set[int] | None = None
        self.told: list[SourcedSet] = []
        self.set_numbers: set[int] = set()
        self.asked: list[AskedUrl] = []
        self.providers: dict[str, int] = {}
        self.watches: list[tuple[str, bool]] = []
        self.timeline = "t"
        self.connected = self.has_room = True
        self.held = ""
        self.waiting_count = 0
        self._queue: deque[tuple[int, str, bool]] = deque()
        self._rows: dict[bytes, _Row] = {}
        self._found: dict[str, int] = {}
        self._change = 0
        self._waiting: list[Deferred[None]] = []

    # The web and the queue.

    def put(
        self, pid: int, url: str, content: bytes, mimetype: str = "text/html", confirmed_time: int | None = None
    ) -> None:
        """A page is cached."""
        key, md5 = url_key(pid, url, ""), hashlib.md5(content).hexdigest()
        self._change += 1
        now = int(self.clock.seconds())
        row = CachedUrl(
            *(key, pid, url, "", "", mimetype, "", md5, len(content), None, now, 1, self._change, self._change),
            "cached",
            charset="utf-8",
            confirmed_time=confirmed_time,
        )
        self._rows[key] = _Row(Page(row, content), self._change)
        self._wake()

    def delete(self, pid: int, url: str) -> None:
        """A page is gone."""
        key = url_key(pid, url, "")
        self._change += 1
        page = self._rows[key].page
        self._rows[key] = _Row(Page(attrs.evolve(page.row, state="deleted", change=self._change), b""), self._change)
        self._wake()

    def forget(self) -> None:
        """Sets on their way are lost."""
        self._queue.clear()

    def fetch(self, count: int = 1 << 30) -> int:
        """Fetch so many of the queued URLs; gives how many there were."""
        done = 0
        while self._queue and done < count:
            pid, url, recheck = self._queue.popleft()
            done += 1
            key = url_key(pid, url, "")
            content = self.sites.get(url)
            row = self._rows.get(key)
            cached = row is not None and row.page.row.state == "cached"
            if cached != recheck:
                continue  # a hint changes nothing of what is there, and only that is fetched again
            self.fetched.append(url)
            fault = self.errors.get(url, 0 if content is not None else 404)
            if url in self.redirects:
                fault = code("redirect-outside")
            if fault:
                self._found[url] = fault
                if cached and fault == 404:
                    self.delete(pid, url)
            elif content is not None and not (cached and row is not None and row.page.content == content):
                self._found.pop(url, None)
                self.put(pid, url, content, self.mimetypes.get(url, "text/html"))
        return done

    def put_back(self, urls: Collection[str], last_change: int | None = None) -> None:
        """The cache is put back from a backup: it has these pages, and no others; sets on their way are lost.

        :param last_change: the number behind which those of changes begin again; None: they go on.
        """
        self._change = self._change if last_change is None else last_change
        self.timeline += "again"
        self._rows = {key: row for key, row in self._rows.items() if row.page.row.curl in urls}
        self._queue.clear()
        self.set_numbers.clear()
        self._wake()

    @property
    def cached(self) -> set[str]:
        """URLs."""
        return {row.page.row.curl for row in self._rows.values() if row.page.row.state == "cached"}

    @property
    def changes(self) -> list[int]:
        """Of the pages that are cached."""
        return sorted(row.change for row in self._rows.values() if row.page.row.state == "cached")

    def page(self, pid: int, url: str) -> Page:
        """That is cached."""
        return self._rows[url_key(pid, url, "")].page

    # The client of lcc-cu.

    async def packages(
        self,
        since: str | None = "0",
        *,
        wait: int = 0,
        content_bytes_max: int = 1 << 30,
        limit: int = 1 << 30,
        **fields: Any,
    ) -> _Stream:
        self._answer()
        if since is None:
            rows = [self._rows[key] for text in fields["key"] if (key := bytes.fromhex(text)) in self._rows]
            given = [self._given(row) for row in rows if row.page.row.state == "cached" and self._reads(row)]
            return _Stream(given, None)
        if since == "now":
            return _Stream([], f"{self.timeline}.{self._change}")
        place, _, number = since.rpartition(".")
        timeline, _, selection = place.partition("/")
        after = int(number)
        own = "" if self.readable is None else ",".join(map(str, sorted(self.readable)))
        if since != "0" and selection != own:
            raise TokenRefused(400, "since: this token is for another selection")
        if wait and after == self._change:
            changed: Deferred[None] = Deferred(lambda _: None)
            self._waiting.append(changed)
            timer = self.clock.callLater(wait, self._wake)
            await changed
            if timer.active():
                timer.cancel()
        if since != "0" and timeline != self.timeline:
            raise StartAgain(410, "another timeline")
        buckets = {int(bucket) for bucket in fields.get("buckets", range(BUCKETS))}
        rows = sorted((row for row in self._rows.values() if row.change > after), key=lambda row: row.change)
        chosen = [
            row
            for row in rows
            if bucket_of(host_of_root(site_of(row.page.row.curl))) in buckets
            and fields.get("provider", row.page.row.pid) == row.page.row.pid
            and self._reads(row)
        ]
        upto = chosen[limit - 1].change if len(chosen) > limit else self._change
        timeline = f"{self.timeline}/{own}" if own else self.timeline
        return _Stream([self._given(row) for row in chosen[:limit]], f"{timeline}.{upto}")

    def _reads(self, row: _Row) -> bool:
        return self.readable is None or row.page.row.pid in self.readable

    def _given(self, row: _Row) -> Page:
        page = row.page
        return Page(page.row, b"", missing="it is lost") if page.row.curl in self.unreadable else page

    async def states(self, urls: Sequence[AskedUrl], notifier: str = "", epoch: str = "") -> list[AnsweredUrl]:
        self._answer()
        if not urls or not all(each.pid for each in urls):
            raise CacheError("400: provider must be a whole number from 1 on")
        self.asked += urls
        return [self._state(url) for url in urls]

    async def robots(self, origins: Sequence[str]) -> list[SiteRobots]:
        self._answer()
        if self.unknown_robots:
            return [SiteRobots(each, providers=self._providers(each)) for each in origins]
        return [
            SiteRobots(
                *(each, "rules" if each in self.robots_of else "all", self.robots_of.get(each, ""), NOW),
                providers=self._providers(each),
            )
            for each in origins
        ]

    def _providers(self, site: str) -> tuple[tuple[str, int], ...]:
        roots = sorted(self.providers, key=len, reverse=True)
        return tuple((root, self.providers[root]) for root in roots if root.startswith(site))

    def _state(self, asked: AskedUrl) -> AnsweredUrl:
        key = url_key(asked.pid, asked.curl, "")
        if asked.set_number and asked.set_number not in self.set_numbers:
            return AnsweredUrl(asked.pid, asked.curl, "arriving")
        row = self._rows.get(key)
        queued = any(url == asked.curl for _, url, _ in self._queue)
        fault = self._found.get(asked.curl, 0)
        text = redirect_outside(self.redirects[asked.curl]).text if asked.curl in self.redirects else ""
        if row is None:
            return AnsweredUrl(asked.pid, asked.curl, "queued" if queued else "unknown", code=fault, error=text)
        state = "queued" if queued else row.page.row.state
        return AnsweredUrl(
            *(asked.pid, asked.curl, state, key.hex(), row.page.row.mimetype, row.page.row.md5, row.change),
            code=fault,
            error=text,
        )

    def _answer(self) -> None:
        if self.silent:
            raise CacheError("lcc-cu is unreachable")

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self.clock.callLater(0, _fire, each)

    # The link to the UNS.

    def watch(self, root: str, *_: Any, private: bool = False, **__: Any) -> Deferred[int]:
        self.watches.append((root, private))
        if "refused" in root:
            return fail(NotifierRefused(code("limit"), "no more"))
        return succeed(self.providers.setdefault(normalise_root(root), 1 + max(self.providers.values(), default=0)))

    def tell(self, told: SourcedSet) -> Deferred[NoticeOutcome]:
        self.told.append(told)
        self.set_numbers.add(told.number)
        root = next((root for root, pid in self.providers.items() if pid == told.pid), None)
        if root is None:
            return succeed(NoticeOutcome(told.number, code("provider-gone")))
        refused = tuple(
            RefusedElement(index, code("outside-roots"), "", url["c"])
            for index, url in enumerate(told.urls, 1)
            if not url["c"].startswith(root)
        )
        self._queue.extend(
            (told.pid, url["c"], url.get("op") == "recheck") for url in told.urls if url["c"].startswith(root)
        )
        return succeed(NoticeOutcome(told.number, refused=refused))

    def close(self) -> None:
        pass


class Kept:
    """Keeps pages in memory (:class:`lcc.roles.spider.follower.Keeper`)."""

    def __init__(self) -> None:
        self.pages: list[tuple[Page, PageLinks]] = []

    faults: Mapping[str, str] = {}
    behind: Sequence[str] = ()

    def keep_in(self, store: str, pages: Sequence[tuple[Page, PageLinks]]) -> Deferred[Mapping[str, StoreWork]]:
        raise AssertionError(store)

    def rest(self, store: str) -> None:
        raise AssertionError(store)

    caught_up = rest

    def keep(self, pages: Sequence[tuple[Page, PageLinks]]) -> Deferred[Mapping[str, StoreWork]]:
        self.pages += pages
        return succeed({"memory": StoreWork(str(len(self.pages)))})

    def begin_again(self) -> None:
        pass


class SpiderWorld:
    """Spiders and an LCC; ``settle`` until nothing happens any more."""

    def __init__(self, home: Path, sites: Mapping[str, bytes], seed: int = 1, **settings: Any) -> None:
        self.home = home
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.ahead_seconds = 0
        """So much the wall clock is ahead."""
        self.lcc = Lcc(sites, self.clock)
        self.kept = Kept()
        self.database = InlineDatabase(home, Random(seed), series=SPIDER)
        self.settings = attrs.evolve(SpiderConfig(), **settings)
        self.spiders: list[Spider] = []
        self.pools: list[ExtractionPool] = []
        self.keepers: list[Keeping] = []

    def now(self) -> float:
        return NOW + self.ahead_seconds + self.clock.seconds()

    def start(self, name: str = "spider") -> Spider:
        """A spider starts."""
        self.lcc.set_numbers.clear()
        settings = attrs.evolve(self.settings, name=name)
        frontier = FrontierStore(
            self.database, FrontierRules(window=settings.window, told_wait_seconds=round(settings.told_wait))
        )  # type: ignore[arg-type]
        limits = ExtractionLimits(page_chars=1000 if "text" in settings.stores else 0)
        pool = ExtractionPool(self.clock, lambda protocol: InlineWorker(self.clock, protocol, limits), limits, 1)
        client: Any = self.lcc
        keeper: Any = self.kept
        if settings.stores:
            stores = stores_named(settings.stores)
            folder = self.home / settings.folder
            keeper = Keeping(
                stores,
                frontier,
                folder,
                DISK,
                StoreSettings(settings.segment_bytes),
                maybeDeferred,
                self.clock.seconds,
            )
            self.keepers.append(keeper)
        spider = Spider(settings, frontier, client, pool, keeper, self.clock, self.now)
        spider.teller.link = client
        pool.start()
        spider.start()
        self.spiders.append(spider)
        self.pools.append(pool)
        return spider

    def kill(self, spider: Spider) -> None:
        """It ends without a word."""
        spider.frontier.end = lambda: succeed(None)  # type: ignore[method-assign]
        spider.stop()
        self.spiders.remove(spider)

    def add(self, name: str, *starts: str, **settings: Any) -> None:
        """Order a crawl."""
        body = add_body(CrawlSettings(**settings), starts)
        self.database.write(lambda txn: ORDERS.give(txn, CRAWL_ADD, name, body, NOW))

    def status(self, name: str) -> CrawlStatus:
        found: list[Any] = []
        self.database.interact(crawl_status, name).addCallback(found.append)
        assert found and found[0] is not None
        return found[0]

    def crawl(self, name: str) -> Crawl:
        return self.status(name).crawl

    def advance(self, seconds: float, step: float = 0.5) -> None:
        """Time goes by; the LCC fetches what it was told."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            self.clock.pump([0] * 10)
            self.lcc.fetch()

    @property
    def read(self) -> list[ReadUrl]:
        """What was read of all crawls, in the order of its changes."""
        rows = result_of(self.spiders[-1].frontier.read_urls(1, b"", 1000))
        return sorted(rows, key=lambda row: row.change)

    def settle(self, name: str, seconds: float = 600) -> None:
        """Until the crawl is done."""
        for _ in range(round(seconds)):
            self.advance(1)
            if self.status(name).is_done:
                return
        raise AssertionError(f"not done: {dict(self.status(name).counts)}")

    def close(self) -> None:
        for spider in list(self.spiders):
            self.kill(spider)
        for pool in self.pools:
            pool.stop()
        for keeper in self.keepers:
            keeper.close()
        self.clock.pump([0] * 5)
        self.database.close()
