"""Write transactions of a spider: its fence, the hosts that it changes, counters of crawls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from lcc.errors import Busy
from lcc.interfaces import IFrontierRules
from lcc.model.spider.crawls import Crawl, HostRow
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.rows import DROPPED, HOSTS, STATES, crawls, host_row, host_values

HOUR_SECONDS = 3600
HELD = "held"
"""The counter of URLs that wait and whose hosts are parked or excluded."""
_HOST_STATES = {"waiting", "told", "cached"}


class FrontierWrite:
    """One transaction of a spider; :meth:`save` ends it.

    :param run: of the spider that writes.
    :param number: of this write, above those of all before it in the same run.
    :param now: seconds since 1970.
    :ivar done: this write was committed before, and its end was not heard of.
    :raises Busy: the spider was fenced off.
    """

    def __init__(self, txn: Txn, rules: IFrontierRules, run: int, number: int, now: int) -> None:
        self.txn = txn
        self.rules: Any = rules
        self.run = run
        self.now = now
        if txn.dialect.certifies:
            # Locks are local to a node.  Who fences this one off changes the row, too: only one of the two commits.
            txn.execute("UPDATE spspider SET fence = fence + 1 WHERE run = ?", [run])
        sql = f"SELECT name, writes, sets FROM spspider WHERE run = ?{txn.for_update}"
        row = txn.one(sql, [run])
        if row is None:
            raise Busy(f"another spider has taken over (run {run})")
        self.spider: str = row[0]
        self.done = row[1] >= number
        self.sets: int = row[2]
        self._number = number
        self._hosts: dict[tuple[int, bytes], HostRow] = {}
        self._before: dict[tuple[int, bytes], tuple[tuple[Any, ...], tuple[int, int]]] = {}
        self._counts: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._crawls: dict[int, Crawl] | None = None
        self._clocks: dict[int, int] | None = None

    def buckets(self) -> frozenset[int]:
        """Those that the spider has."""
        rows = self.txn.query("SELECT bucket FROM spclaim WHERE run = ?", [self.run])
        return frozenset(bucket for (bucket,) in rows)

    def new_provider(self) -> None:
        """A host has become a watched provider."""
        hour = self.now // HOUR_SECONDS
        sql = "UPDATE spspider SET hosts = 0, hosts_hour = ? WHERE run = ? AND hosts_hour <> ?"
        self.txn.execute(sql, [hour, self.run, hour])
        self.txn.execute("UPDATE spspider SET hosts = hosts + 1 WHERE run = ?", [self.run])

    # Crawls.

    @property
    def crawls(self) -> Mapping[int, Crawl]:
        """All crawls, by id."""
        if self._crawls is None:
            self._crawls = {crawl.id: crawl for crawl in crawls(self.txn)}
        return self._crawls

    def count(self, crawl: int, name: str, number: int) -> None:
        """Add to a counter of a crawl."""
        self._counts[crawl, name] += number

    def drop(self, crawl: int, name: str, number: int) -> None:
        """Add to the links that a filter or a limit has dropped."""
        self.count(crawl, f"{DROPPED}{name}", number)

    def total(self, crawl: int, name: str) -> int:
        """A counter of a crawl: what all spiders have counted, and this transaction."""
        sql = "SELECT SUM(value) FROM spcount WHERE crawl = ? AND name = ?"
        return int(self.txn.value(sql, [crawl, name], 0)) + self._counts[crawl, name]

    # Hosts.

    def load_hosts(self, wanted: Collection[tuple[int, bytes]]) -> None:
        """Read these hosts (crawl, key), and lock them: nobody else changes them, or URLs of them."""
        by_crawl: defaultdict[int, list[bytes]] = defaultdict(list)
        for crawl, key in sorted(set(wanted) - self._hosts.keys()):
            by_crawl[crawl].append(key)
        for crawl, keys in by_crawl.items():
            sql = f"{HOSTS.select} WHERE crawl = ? AND hostkey IN ({{in}}) ORDER BY hostkey{self.txn.for_update}"
            for row in self.txn.query_in(sql, keys, [crawl]):
                self._add(host_row(row))

    def _add(self, host: HostRow) -> None:
        self._hosts[host.crawl, host.key] = host
        self._before[host.crawl, host.key] = host_values(host), self._parked(host)

    def add_host(self, host: HostRow) -> None:
        """A new host, which is locked, too: somebody else may add it just now."""
        self.txn.upsert(HOSTS.name, HOSTS.columns, [host_values(host)], HOSTS.key, ["crawl"])
        self.load_hosts([(host.crawl, host.key)])

    def host(self, crawl: int, key: bytes) -> HostRow | None:
        """A host that was loaded; None: there is none."""
        return self._hosts.get((crawl, key))

    def moved(self, host: HostRow, before: int | None, after: int, first: bool) -> None:
        """A URL of a host has come from one state to another.

        :param before: None: it is new.
        :param first: it was never read.
        """
        for state, number in ((before, -1), (after, 1)):
            if state is None:
                host.known += 1
                self.count(host.crawl, "known", 1)
                continue
            name = STATES[state]
            if name in _HOST_STATES:
                setattr(host, name, getattr(host, name) + number)
            self.count(host.crawl, name if name != "told" or first else "rechecks", number)

    def _parked(self, host: HostRow) -> tuple[int, int]:
        """What a host adds to the counters ``parked`` and ``held``."""
        parked = int(host.parked_time > 0)
        return parked, host.waiting if parked or host.excluded else 0

    def _since(self, host: HostRow) -> int:
        """From when on a host is ready that is so now, by the clock of the spider that has it: its own clock may be
        behind, and the host must not wait for that."""
        if self._clocks is None:
            sql = "SELECT c.bucket, s.seen_time FROM spclaim c JOIN spspider s ON s.run = c.run WHERE c.run <> ?"
            self._clocks = dict(self.txn.query(sql, [self.run]))
        return min(self.now, self._clocks.get(host.bucket, self.now))

    def _save_hosts(self) -> None:
        rows = []
        for at, host in sorted(self._hosts.items()):
            values, parked = self._before[at]
            for name, before, after in zip(("parked", HELD), parked, self._parked(host), strict=True):
                self.count(host.crawl, name, after - before)
            host.ready_time = self.rules.ready_time(
                *(host.waiting, host.told, host.due_time, host.parked_time, bool(host.excluded), host.ready_time),
                self.now,
            )
            if host.waiting and host.ready_time == self.now:
                host.ready_time = self._since(host)
            if not host.told:
                host.ask_time = None
            elif host.ask_time is None:
                host.ask_time = self.now + self.rules.told_wait_seconds
            if host_values(host) != values:
                rows.append(host_values(host))
        HOSTS.upsert(self.txn, rows, HOSTS.without(("crawl", "hostkey", "root", "domain", "bucket")))

    # The end.

    def save(self) -> None:
        """Write what has changed."""
        self._save_hosts()
        self._save_counts()
        values = [self._number, self.sets, self.run]
        self.txn.execute("UPDATE spspider SET writes = ?, sets = ? WHERE run = ?", values)

    def _save_counts(self) -> None:
        by_crawl: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for (crawl, name), number in self._counts.items():
            if number:
                by_crawl[crawl][name] = number
        rows: list[tuple[Any, ...]] = []
        for crawl, counts in sorted(by_crawl.items()):
            sql = "SELECT name, value FROM spcount WHERE crawl = ? AND spider = ? AND name IN ({in})"
            old = dict(self.txn.query_in(sql, sorted(counts), [crawl, self.spider]))
            rows += [(crawl, name, self.spider, old.get(name, 0) + counts[name]) for name in sorted(counts)]
        columns = ("crawl", "name", "spider", "value")
        self.txn.upsert("spcount", columns, rows, columns[:3])
