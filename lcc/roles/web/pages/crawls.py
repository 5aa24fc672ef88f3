"""Crawls of the spider: the list, and a page for each with its hosts, and what filters dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from lcc.insight.crawl_words import store_words
from lcc.model.spider.crawls import CrawlStatus, HostRow
from lcc.roles.web.pages.base import Front
from lcc.roles.web.pages.orders import OrderingPage, Told, told
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.orders import CRAWL_PAUSE, CRAWL_RESUME, ORDERS
from lcc.storage.spider.stores import store_troubles
from lcc.storage.spider.views import crawl_hosts, crawl_statuses
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

ROWS_SHOWN = 30
RATE_SECONDS = 5.0
"""Between two readings of a rate, at least."""
CRAWL_ORDERS = {"pause": CRAWL_PAUSE, "resume": CRAWL_RESUME}
"""What a form says in its field ``do``, and the order that it is."""


class AboutCrawls(OrderingPage):
    """A page about the frontier."""

    async def asked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Ask the tables of the frontier."""
        return await self.monitor.frontier.interact(function, *arguments)

    async def order(self, request: BodyRequest, what: str, kind: str, target: Any, body: Mapping[str, Any]) -> int:
        """Give an order to the spiders; returns its number."""
        given: int = await self.monitor.frontier.write(ORDERS.give, kind, target, body, int(self.monitor.now()))
        self.ordered(request, what, target)
        return given


class CrawlsPage(AboutCrawls):
    """``/crawls``: all of them."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self._rates = Rates()

    async def get(self, request: BodyRequest) -> None:
        crawls: list[CrawlStatus] = await self.asked(crawl_statuses)
        rates = self._rates.of(crawls, self.monitor.now())
        stores = [store_words(trouble) for trouble in await self.asked(store_troubles)]
        self.front.page(request, "crawls", "Crawls", crawls=crawls, rates=rates, stores=stores)


@attrs.frozen
class _Seen:
    """What the page of a crawl shows.

    :ivar hosts: those with the most known URLs; ``parked``: those that are left alone.
    """

    status: CrawlStatus
    hosts: tuple[HostRow, ...]
    parked: tuple[HostRow, ...]
    told: Told | None

    @property
    def dropped(self) -> list[tuple[str, int]]:
        """Links that were not followed, by what dropped them."""
        found = [(name, count) for name, count in self.status.dropped.items() if count]
        return sorted(found, key=lambda pair: -pair[1])


def see_crawl(txn: Txn, number: int, order: int) -> _Seen | None:
    """All that the page of a crawl shows; None: there is no such crawl."""
    for status in crawl_statuses(txn):
        if status.crawl.id == number:
            return _Seen(*crawl_hosts(txn, status, ROWS_SHOWN), told(txn, order, ORDERS))
    return None


class CrawlPage(AboutCrawls):
    """``/crawl/N``: a crawl; it can be paused, and resumed."""

    methods = (b"GET", b"HEAD", b"POST")

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self._rates = Rates()

    def takes(self, request: Any) -> bool:
        return len(request.postpath) == 1

    async def get(self, request: BodyRequest) -> None:
        found = await self._seen(request, self.asked_order(request))
        status = found.status
        rate = self._rates.of([status], self.monitor.now()).get(status.crawl.id)
        title = f"Crawl {status.crawl.name}"
        self.front.page(
            request, "crawl", title, found=found, crawl=status.crawl, counts=Counter(status.counts), rate=rate
        )

    async def post(self, request: BodyRequest) -> None:
        do = self.sent(request).get("do", "")
        if do not in CRAWL_ORDERS:
            raise HttpError(400, "This form is not known here.")
        name = (await self._seen(request, 0)).status.crawl.name
        self.same_page(request, await self.order(request, f"{do} crawl", CRAWL_ORDERS[do], name, {}))

    async def _seen(self, request: BodyRequest, order: int) -> _Seen:
        """
        :raises HttpError: there is no such crawl.
        """
        number = self.number_below(request)
        found: _Seen | None = await self.asked(see_crawl, number, order)
        if found is None:
            raise HttpError(404, f"There is no crawl {number}.")
        return found


class Rates:
    """How many pages crawls read in a minute, from two looks at their counts."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[float, int]] = {}
        self._rates: dict[int, float] = {}

    def of(self, crawls: list[CrawlStatus], now: float) -> Mapping[int, float]:
        """Pages in a minute by crawl; those of which too little is known are left out."""
        for status in crawls:
            number, pages = status.crawl.id, status.counts.get("pages", 0)
            since, before = self._first.setdefault(number, (now, pages))
            if abs(now - since) >= RATE_SECONDS:
                self._rates[number] = max(0.0, 60 * (pages - before) / (now - since)) if now > since else 0.0
                self._first[number] = now, pages
        return self._rates
