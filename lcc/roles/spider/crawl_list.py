"""The crawls as the frontier has them, with their rules, and orders to change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.logger import Logger

from lcc.config import SpiderConfig
from lcc.domain.urls import normalise
from lcc.errors import ConfigError
from lcc.interfaces import IFrontier
from lcc.model.spider.crawls import Crawl, CrawlState, FoundUrl, SpiderOrder
from lcc.roles.spider.counters import Counters
from lcc.roles.spider.crawl_rules import CrawlRules
from lcc.spider.crawl_inputs import filters_of, names_of
from lcc.storage.spider.orders import CRAWL_ADD, CRAWL_START, settings_of, starts_of

_log = Logger()

_ORDERS_AT_ONCE = 20


class CrawlList:
    """See :mod:`lcc.roles.spider.crawl_list`.

    :param now: seconds since 1970.
    :param changed: called when a crawl is new, or not as it was.
    """

    def __init__(
        self,
        settings: SpiderConfig,
        frontier: IFrontier,
        now: Callable[[], float],
        counters: Counters,
        changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._frontier = frontier
        self._now = now
        self._counters = counters
        self._changed = changed
        self._rules: dict[int, CrawlRules] = {}
        self._faulty: dict[int, int] = {}
        """Crawls whose rules make no sense here, with their versions."""

    @property
    def removing(self) -> bool:
        """Rows of a crawl are to be deleted."""
        return any(not rules.reads for rules in self._rules.values())

    @property
    def any(self) -> bool:
        """There is a crawl whose pages are read."""
        return any(True for _ in self.reading())

    def reading(self) -> Iterator[CrawlRules]:
        """Those whose pages are read."""
        return (rules for rules in list(self._rules.values()) if rules.reads)

    def telling(self) -> Iterator[CrawlRules]:
        """Those whose URLs are told."""
        return (rules for rules in list(self._rules.values()) if rules.follows)

    async def update(self) -> None:
        """Carry out orders, and look at what has become of the crawls."""
        await self._carry_out()
        crawls = await self._frontier.crawls()
        gone = self._rules.keys() - {crawl.id for crawl in crawls}
        for number in gone:
            del self._rules[number]
        new = [crawl for crawl in crawls if not self._has(crawl)]
        for crawl in new:
            self._load(crawl)
        if new or gone:
            self._changed()

    def _has(self, crawl: Crawl) -> bool:
        rules = self._rules.get(crawl.id)
        version = self._faulty.get(crawl.id) if rules is None else rules.crawl.version
        return version == crawl.version

    def _load(self, crawl: Crawl) -> None:
        self._rules.pop(crawl.id, None)
        self._faulty.pop(crawl.id, None)
        try:
            self._rules[crawl.id] = self._built(crawl)
        except ConfigError as error:
            # It was checked when it was given, perhaps where other plugins are.
            self._faulty[crawl.id] = crawl.version
            _log.error("Crawl {name} is not followed here: {error}", name=crawl.name, error=str(error))

    def _built(self, crawl: Crawl) -> CrawlRules:
        filters = filters_of(crawl.settings, self._settings, self._now())
        return CrawlRules(crawl, names_of(crawl.settings), filters)

    async def _carry_out(self) -> None:
        while orders := await self._frontier.open_orders(_ORDERS_AT_ONCE):
            crawls = {crawl.name: crawl for crawl in await self._frontier.crawls()}
            for order in orders:
                now = int(self._now())
                try:
                    starts = self._starts(order, crawls.get(order.crawl))
                except (ConfigError, TypeError, ValueError) as error:
                    await self._frontier.refuse_order(order, str(error), now)
                else:
                    await self._frontier.carry_out(order, starts, now)
                self._counters.orders += 1
            if len(orders) < _ORDERS_AT_ONCE:
                break

    def _starts(self, order: SpiderOrder, crawl: Crawl | None) -> list[FoundUrl]:
        """The start URLs of an order, as its crawl names them.

        :param crawl: of the order's name, if there is one.
        :raises ConfigError, TypeError, ValueError: none of them passes the filters, or it makes no sense here.
        """
        urls = starts_of(order)
        if order.kind == CRAWL_ADD:
            # Its rules are tried, even if it has no starts.
            crawl = Crawl(0, order.crawl, settings_of(order), CrawlState.ACTIVE, 0, frozenset(), 0)
        if crawl is None or order.kind not in (CRAWL_ADD, CRAWL_START):
            return []
        starts, dropped = [], ""
        for url, found in self._built(crawl).starts([normalise(url).partition("#")[0] for url in urls]):
            if isinstance(found, str):
                dropped = dropped or f"{url}: the filter {found!r} drops it"
            else:
                starts.append(found)
        if urls and not starts:
            raise ConfigError([dropped])
        return starts
