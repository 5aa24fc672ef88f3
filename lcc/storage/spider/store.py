"""The frontier of all crawls: URLs that are known, and what became of them.  Spiders share it.

Owns ``spcrawl``, ``spurl``, ``sphost``, ``spdomain``, ``sptrap``, ``spexcluded``, ``spcount``, ``spspider``,
``spclaim``, ``spplace`` and ``spbacklog``; carries out ``sporders``.

Strategy: every write is a bounded transaction in the writer thread, in the order of the calls.  It locks the row of
its spider, then the hosts that it changes, by their keys: so each URL is changed by one spider at a time.  Whoever
fences a spider off deletes its row.  Writes have numbers: one whose commit was not heard of is not done again.

Failures: an unreachable database is retried for some seconds, then the caller's Deferred fails with StoreUnavailable,
and the caller repeats the call; once another spider has taken over, it fails with Busy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from zope.interface import implementer

from lcc.interfaces import IFrontier, IFrontierRules
from lcc.model.spider.crawls import (
    Crawl,
    FoundUrl,
    FrontierBatch,
    HostRef,
    KnownUrl,
    Owners,
    ReadUrl,
    ReadyHost,
    SpiderClaim,
    SpiderOrder,
    SpiderStatus,
    Telling,
    ToldUrl,
    Trap,
    UrlAnswer,
)
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.spider import claims
from lcc.storage.spider.clock_steps import bound_waits
from lcc.storage.spider.commit import commit_batch, trap_rows
from lcc.storage.spider.orders import carry_out, open_orders, refuse_order
from lcc.storage.spider.removal import remove_page
from lcc.storage.spider.rows import URLS, crawls, known_url
from lcc.storage.spider.stores import backlog
from lcc.storage.spider.telling import (
    answer,
    fail_host,
    forget_providers,
    read_urls,
    ready_hosts,
    tell,
    told_hosts,
    told_urls,
    watched,
)
from lcc.storage.spider.write import HOUR_SECONDS, FrontierWrite

T = TypeVar("T")


@implementer(IFrontier)
class FrontierStore:
    """See :mod:`lcc.storage.spider.store`."""

    def __init__(self, database: Database, rules: IFrontierRules) -> None:
        self._database = database
        self._rules: Any = rules
        self._run = -1  # claim() makes it valid
        self._name = ""
        self._writes = 0

    # Spiders.

    def claim(self, name: str) -> Deferred[SpiderClaim]:
        """As :meth:`lcc.interfaces.IFrontier.claim`."""

        def claimed(claim: SpiderClaim) -> SpiderClaim:
            self._run, self._name, self._writes = claim.run, name, 0
            return claim

        return self._database.write(claims.claim_run, name).addCallback(claimed)

    def spiders(self) -> Deferred[list[SpiderStatus]]:
        """As :meth:`lcc.interfaces.IFrontier.spiders`."""
        return self._database.select(claims.spiders)

    def beat(self, trouble: str, now: int) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.beat`."""
        return self._database.write(claims.beat, self._run, trouble, now)

    def retire(self, run: int, beats: int) -> Deferred[bool]:
        """As :meth:`lcc.interfaces.IFrontier.retire`."""
        return self._database.write(claims.retire, self._run, run, beats)

    def take_buckets(self, wanted: int) -> Deferred[dict[int, str]]:
        """As :meth:`lcc.interfaces.IFrontier.take_buckets`."""
        return self._database.write(claims.take_buckets, self._run, wanted)

    def give_buckets(self, buckets: Collection[int]) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.give_buckets`."""
        return self._database.write(claims.give_buckets, self._run, list(buckets))

    def end(self) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.end`."""
        return self._database.write(claims.end, self._run)

    def _write(self, now: int, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(write, *args)`` in one :class:`FrontierWrite`."""
        self._writes += 1
        run, number = self._run, self._writes

        def work(txn: Txn) -> T:
            write = FrontierWrite(txn, self._rules, run, number, now)
            result = function(write, *args)
            if not write.done:
                write.save()
            return result

        return self._database.write(work)

    # Crawls.

    def crawls(self) -> Deferred[list[Crawl]]:
        """As :meth:`lcc.interfaces.IFrontier.crawls`."""
        return self._database.interact(crawls)

    def open_orders(self, limit: int) -> Deferred[list[SpiderOrder]]:
        """As :meth:`lcc.interfaces.IFrontier.open_orders`."""
        return self._database.select(open_orders, limit)

    def carry_out(self, order: SpiderOrder, starts: Sequence[FoundUrl], now: int) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.carry_out`."""
        return self._write(now, carry_out, order, list(starts))

    def refuse_order(self, order: SpiderOrder, why: str, now: int) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.refuse_order`."""
        return self._write(now, refuse_order, order, why)

    def remove_page(self) -> Deferred[bool]:
        """As :meth:`lcc.interfaces.IFrontier.remove_page`."""
        return self._write(0, remove_page)

    # Reading.

    def places(self) -> Deferred[dict[str, str]]:
        """As :meth:`lcc.interfaces.IFrontier.places`."""
        sql = "SELECT store, place FROM spplace WHERE spider = ?"
        return self._database.select(lambda txn: dict(txn.query(sql, [self._name])))

    def backlog(self, store: str, after: bytes, limit: int) -> Deferred[dict[bytes, int]]:
        """As :meth:`lcc.interfaces.IFrontier.backlog`."""
        return self._database.select(backlog, self._name, store, after, limit)

    def known(self, crawl: int, keys: Collection[bytes]) -> Deferred[dict[bytes, KnownUrl]]:
        """As :meth:`lcc.interfaces.IFrontier.known`."""
        return self._database.interact(_known, crawl, list(keys))

    def read_urls(self, crawl: int, after: bytes, limit: int) -> Deferred[list[ReadUrl]]:
        """As :meth:`lcc.interfaces.IFrontier.read_urls`."""
        return self._database.interact(read_urls, crawl, after, limit)

    def trap_counts(self, traps: Collection[Trap]) -> Deferred[dict[Trap, int]]:
        """As :meth:`lcc.interfaces.IFrontier.trap_counts`."""
        places: dict[tuple[int, bytes, bytes], Trap] = {}
        for trap in traps:
            places[trap.crawl, self._rules.host_key(trap.root), trap.key] = trap

        def counts(txn: Txn) -> dict[Trap, int]:
            return {places[at]: count for at, count in trap_rows(txn, places)}

        return self._database.interact(counts)

    def commit(self, batch: FrontierBatch, now: int) -> Deferred[Mapping[int, Mapping[bytes, int]]]:
        """As :meth:`lcc.interfaces.IFrontier.commit`."""
        return self._write(now, commit_batch, batch)

    def bound_waits(self, crawl: int, after: bytes, now: int) -> Deferred[bytes | None]:
        """As :meth:`lcc.interfaces.IFrontier.bound_waits`."""
        return self._write(now, bound_waits, crawl, after)

    # Telling.

    def ready_hosts(
        self, crawl: int, buckets: Collection[int], now: int, limit: int, after: ReadyHost | None = None
    ) -> Deferred[list[ReadyHost]]:
        """As :meth:`lcc.interfaces.IFrontier.ready_hosts`."""
        read = self._database.select if after is None else self._database.interact
        return read(ready_hosts, crawl, list(buckets), now, limit, after)

    def hosts_this_hour(self, now: int) -> Deferred[int]:
        """As :meth:`lcc.interfaces.IFrontier.hosts_this_hour`."""
        sql = "SELECT SUM(hosts) FROM spspider WHERE hosts_hour = ?"
        return self._database.select(lambda txn: int(txn.value(sql, [now // HOUR_SECONDS], 0)))

    def watched(self, watched_hosts: Sequence[tuple[HostRef, int]], now: int) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.watched`."""
        return self._write(now, watched, list(watched_hosts))

    def forget_providers(self, crawl: int, buckets: Collection[int], now: int) -> Deferred[int]:
        """As :meth:`lcc.interfaces.IFrontier.forget_providers`."""
        return self._write(now, forget_providers, crawl, list(buckets))

    def fail_host(self, host: HostRef, code: int, now: int) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.fail_host`."""
        return self._write(now, fail_host, host, code)

    def tell(self, hosts: Mapping[HostRef, Owners], now: int) -> Deferred[list[Telling]]:
        """As :meth:`lcc.interfaces.IFrontier.tell`."""
        return self._write(now, tell, dict(hosts))

    def told_hosts(self, crawl: int, buckets: Collection[int], now: int, limit: int) -> Deferred[list[ReadyHost]]:
        """As :meth:`lcc.interfaces.IFrontier.told_hosts`."""
        return self._database.select(told_hosts, crawl, list(buckets), now, limit)

    def told_urls(self, host: HostRef, before: int, limit: int) -> Deferred[list[ToldUrl]]:
        """As :meth:`lcc.interfaces.IFrontier.told_urls`."""
        return self._database.select(told_urls, self._rules, host, before, limit)

    def answer(self, answers: Sequence[UrlAnswer], asked: Sequence[HostRef], now: int) -> Deferred[None]:
        """As :meth:`lcc.interfaces.IFrontier.answer`."""
        return self._write(now, answer, list(answers), list(asked))


def _known(txn: Txn, crawl: int, keys: Sequence[bytes]) -> dict[bytes, KnownUrl]:
    rows = txn.query_in(f"{URLS.select} WHERE crawl = ? AND urlkey IN ({{in}})", sorted(set(keys)), [crawl])
    by_host: defaultdict[bytes, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        by_host[row[2]].append(row)
    sql = "SELECT hostkey, root FROM sphost WHERE crawl = ? AND hostkey IN ({in})"
    roots = dict(txn.query_in(sql, sorted(by_host), [crawl]))
    return {row[1]: known_url(roots.get(host, ""), row) for host, each in by_host.items() for row in each}
