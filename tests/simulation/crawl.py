"""Spiders in a simulated world: a crawl of a web (:mod:`tests.simulation.web`), and an operator who orders it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lcc.model.spider.crawls import CrawlSettings, CrawlState, UrlOrder
from lcc.model.spider.links import ExtractionLimits
from lcc.roles.extraction import Spawn
from lcc.storage.database.migrations import SPIDER
from lcc.storage.spider import orders
from lcc.testing.inline_extraction import InlineWorker
from lcc.testing.simulated.database import DatabaseServer
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline

from .web import DOOMED, Web

SPIDERS = ("10.0.0.14", "10.0.0.15")
SPIDER_NAMES = ("spider1", "spider2")
LEASE_SECONDS = 10
"""The least that ``[spider] lease`` may be."""
INTERVAL_SECONDS = 0.5
SLOW_SHARE, SLOW_SECONDS = 0.3, 3.0
"""Of what is extracted, how much takes how long at most."""
CRAWL = "web"

CONFIGURATION = """
[watched]
interval = 0.5
bandwidth_bytes = 0
[spider]
name = "{name}"
connect = "{wire}:{uns}:9005"
cache = "http://10.0.0.8:8080"
stores = ["links"]
segment_bytes = 65536
window = {window}
pages_at_once = {pages_at_once}
batch_bytes = 1048576
workers = 2
told_wait = 3
failures_max = 3
parked = 3
parked_max = 12
lease = 10
"""


class CrawlWorld:
    """A crawl and its operator.

    :ivar web: what is crawled.
    :ivar settings: of the crawl.
    :ivar is_quiet: nothing goes wrong, and no page changes (as far as the seed decides it).
    :ivar paused: the operator has paused the crawl, so that it comes to an end.
    """

    def __init__(self, timeline: Timeline, database: DatabaseServer, web: Web) -> None:
        self.timeline = timeline
        self.database = database
        self.web = web
        chance = timeline.random("crawl")
        self.has_troubles = chance.random() < 0.7
        self.is_quiet = not (self.has_troubles or web.is_changing)
        revisits = web.is_changing or (self.has_troubles and chance.random() < 0.5)
        self.depth_max = 2 if not web.is_changing and chance.random() < 0.15 else None
        self.settings = CrawlSettings(
            restrict_to=r"http://(10\.1\.0\.\d+|w\d\.example)/",
            order=chance.choice(list(UrlOrder)),
            depth_max=self.depth_max,
            revisit_seconds=8 if revisits else 0,
            revisit_least_seconds=4,
            revisit_most_seconds=16,
            allow_private=True,
        )
        self.paused = False
        body = orders.add_body(self.settings, [web.start])
        self.timeline.call_later(chance.uniform(0, 10), None, self.order, orders.CRAWL_ADD, body)
        self._operates = chance.random() < 0.3
        self.chance = timeline.random("operator of the crawl")

    def order(self, kind: str, body: dict[str, Any] | None = None) -> None:
        """The operator gives an order."""
        self.database.now(orders.ORDERS.give, kind, CRAWL, body or {}, int(self.timeline.now), series=SPIDER)

    def begin(self) -> None:
        """The operator is there: at times he pauses the crawl."""
        if self._operates:
            self.timeline.call_later(self.chance.expovariate(1 / 15.0), None, self._operate)

    def _operate(self) -> None:
        if self.web.sites[0].changing:
            self.order(orders.CRAWL_PAUSE)
            self.timeline.call_later(self.chance.uniform(0, 8), None, self._resume)

    def _resume(self) -> None:
        if not self.paused:
            self.order(orders.CRAWL_RESUME)
            self.begin()

    def end(self) -> None:
        """Nothing is visited again, so that it comes to an end."""
        self.paused = True
        self.order(orders.CRAWL_PAUSE)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """From the spiders' tables as they are now."""
        return self.database.connection(SPIDER).execute(sql).fetchall()

    @property
    def is_paused(self) -> bool:
        """The last order was carried out."""
        found = self.rows(f"SELECT state FROM spcrawl WHERE name = '{CRAWL}'")
        return found == [(CrawlState.PAUSED.value,)]


def extraction(process: Process) -> Callable[[ExtractionLimits, Sequence[str]], Spawn]:
    """Workers in the process of their spider: at times slow ones, so that it is frozen, and loses its hosts, between
    the pages and what becomes of them."""
    chance = process.timeline.random(f"extraction {process.name} {process.timeline.now}")

    def takes() -> float:
        return chance.uniform(0.0, SLOW_SECONDS) if chance.random() < SLOW_SHARE else 0.0

    def workers(limits: ExtractionLimits, extractors: Sequence[str]) -> Spawn:
        reactor = process.reactor
        return lambda protocol: InlineWorker(
            reactor, protocol, limits, extractors, lambda data: DOOMED in data, takes
        )

    return workers
