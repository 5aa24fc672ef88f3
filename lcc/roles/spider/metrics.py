"""Metrics of a spider, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.roles.metrics import DatabaseRoleMetrics
from lcc.roles.spider.engine import Spider

RUN = gauge("lcc_spider_run", "Run number of the spider; 0: it has not claimed the frontier yet")
CRAWLS = gauge("lcc_spider_crawls", "Crawls: followed, paused", "state")
BUCKETS = gauge("lcc_spider_buckets", "Shares of the hosts, of 64, that belong to this spider")
SPIDERS = gauge("lcc_spider_spiders", "Spiders that share the hosts, as seen by this one")
CONNECTED = gauge("lcc_spider_uns_connected", "1: connected to the UNS")
CAUGHT_UP = gauge("lcc_spider_caught_up", "1: all changes of the cache are read")
SETS_WAITING = gauge("lcc_spider_sets_waiting", "Sets that the UNS has not answered")
PAGES = counter("lcc_spider_pages", "Pages read from the cache, whether in a crawl or not")
READ = counter("lcc_spider_pages_followed", "Pages whose links were followed, for each crawl")
UNREAD = counter("lcc_spider_pages_failed", "Pages whose links could not be extracted")
MISSING = counter("lcc_spider_pages_missing", "Pages whose content the cache could not deliver")
LINKS = counter("lcc_spider_links", "Links of pages of crawls")
FOLLOWED = counter("lcc_spider_links_followed", "Links that passed the filters")
DROPPED = counter("lcc_spider_links_dropped", "Links that a filter has dropped", "filter")
TOLD = counter("lcc_spider_urls_told", "URLs told to the UNS")
REFUSED = counter("lcc_spider_urls_refused", "URLs that the UNS has refused")
ASKED = counter("lcc_spider_urls_asked", "URLs whose state was requested from the cache")
ANSWERED = counter("lcc_spider_urls_answered", "Of these, with an answer: unchanged, failed, gone …", "verdict")
SITES = counter("lcc_spider_sites", "Hosts that became watched providers")
ORDERS = counter("lcc_spider_orders", "Orders of commands and the HTTP interface carried out")
STORES_FAILING = gauge("lcc_spider_stores_failing", "Stores that cannot write")
PAUSED = gauge("lcc_spider_paused", "1: paused by an operator, tells nothing")


class SpiderMetrics(DatabaseRoleMetrics[Spider]):
    """Metrics and conditions of a spider."""

    role = "spider"

    def role_readings(self) -> Iterator[Reading]:
        """What its own metrics show now."""
        engine, counts, link = self._engine, self._engine.counters, self._engine.teller.link
        followed = sum(1 for _ in engine.crawls.telling())
        yield RUN(engine.run_number)
        yield CRAWLS.by({"followed": followed, "paused": sum(1 for _ in engine.crawls.reading()) - followed})
        yield BUCKETS(len(engine.shares.tokens))
        yield SPIDERS(engine.shares.spiders)
        yield CONNECTED(link is not None and link.connected)
        yield CAUGHT_UP(engine.follower.is_caught_up)
        yield SETS_WAITING(0 if link is None else link.waiting_count)
        yield PAGES(counts.pages)
        yield READ(counts.read)
        yield UNREAD(counts.unread)
        yield MISSING(counts.missing)
        yield LINKS(counts.links)
        yield FOLLOWED(counts.followed)
        yield DROPPED.by(dict(counts.dropped))
        yield TOLD(counts.told)
        yield REFUSED(counts.refused)
        yield ASKED(counts.asked)
        yield ANSWERED.by(dict(counts.answered))
        yield SITES(counts.sites)
        yield ORDERS(counts.orders)
        yield STORES_FAILING(len(engine.store_faults))
        yield PAUSED(engine.paused_since is not None)

    def role_conditions(self) -> Iterator[Condition]:
        """What it needs beside its database."""
        engine = self._engine
        yield Condition(
            "notifying",
            engine.teller.trouble if engine.settings.connect else "",
            "start the UNS (twistd lcc-uns), and see [spider] connect and [uns] listen_notifiers",
        )
        yield Condition("reading", engine.troubles.get("read pages", ""), "see [spider] cache, and the log of lcc-cu")
        yield Condition(
            "storing",
            "; ".join(f"the store {name} cannot write: {fault}" for name, fault in engine.store_faults.items()),
            "make room in [spider] folder; the store then gets what it lacks",
        )
        yield not_paused("spider", engine.paused_since is not None, "it tells nothing")
