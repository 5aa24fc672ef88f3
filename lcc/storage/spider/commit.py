"""What spiders have read: pages with their links become rows of the frontier, in one transaction.

Links to what is known cost a look at its row; it is written only where its place in the order changes.  Where whoever
commits remembers that it does not, they cost nothing.  The version of a page that was committed last is not committed
again: so a batch may overlap with what was committed before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from lcc.model.spider.crawls import (
    URLS_MAX,
    Crawl,
    CrawlState,
    FoundUrl,
    FrontierBatch,
    HostRow,
    ReadPage,
    Redirect,
    UrlOrder,
    UrlRow,
    UrlState,
)
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.rows import URLS, url_row, url_values
from lcc.storage.spider.stores import save_places
from lcc.storage.spider.write import FrontierWrite

_TRAP_COLUMNS = ("crawl", "hostkey", "trapkey", "urls")
_LINKED = ("urlrank", "depth", "inlinks", "cash")
"""What a link changes of a row that is known."""
_ROWS = f"SELECT {', '.join(URLS.columns)} FROM spurl WHERE crawl = ? AND urlkey IN ({{in}})"


def commit_batch(write: FrontierWrite, batch: FrontierBatch) -> Mapping[int, Mapping[bytes, int]]:
    """As :meth:`lcc.interfaces.IFrontier.commit`."""
    settled: dict[int, dict[bytes, int]] = {}
    if write.done:
        return settled
    by_crawl: defaultdict[int, list[ReadPage]] = defaultdict(list)
    for page in batch.pages:
        by_crawl[page.crawl].append(page)
    for number, pages in sorted(by_crawl.items()):
        crawl = write.crawls.get(number)
        if crawl is not None and crawl.state is not CrawlState.REMOVING:
            settled[number] = _Pages(write, crawl).commit(pages)
    for redirect in batch.redirects:
        crawl = write.crawls.get(redirect.crawl)
        if crawl is not None and crawl.state is not CrawlState.REMOVING:
            _Pages(write, crawl).redirect(redirect)
    for number in batch.caught_up:
        if number in write.crawls:
            write.count(number, "caught_up", 1)
    for (number, name), count in batch.dropped.items():
        if number in write.crawls:
            write.drop(number, name, count)
    _count_traps(write, batch)
    for bucket, token in sorted(batch.tokens.items()):
        sql = "UPDATE spclaim SET token = ? WHERE bucket = ? AND run = ?"
        write.txn.execute(sql, [token, bucket, write.run])
    save_places(write, batch.places, batch.stores)
    return settled


def add_starts(write: FrontierWrite, crawl: Crawl, starts: Sequence[FoundUrl]) -> None:
    """URLs that a crawl begins with; those that are known stay as they are."""
    _Pages(write, crawl).start(starts)


def _count_traps(write: FrontierWrite, batch: FrontierBatch) -> None:
    added: defaultdict[tuple[int, bytes, bytes], int] = defaultdict(int)
    for trap, count in batch.traps.items():
        if trap.crawl in write.crawls:
            added[trap.crawl, write.rules.host_key(trap.root), trap.key] += count
    known = dict(trap_rows(write.txn, added))
    rows = [(*at, known.get(at, 0) + count) for at, count in sorted(added.items())]
    write.txn.upsert("sptrap", _TRAP_COLUMNS, rows, _TRAP_COLUMNS[:3])


def trap_rows(txn: Txn, wanted: Iterable[tuple[int, bytes, bytes]]) -> list[tuple[tuple[int, bytes, bytes], int]]:
    """The counts of these patterns that are known."""
    by_host: defaultdict[tuple[int, bytes], list[bytes]] = defaultdict(list)
    for crawl, host, trap in wanted:
        by_host[crawl, host].append(trap)
    found = []
    for (crawl, host), traps in sorted(by_host.items()):
        sql = "SELECT trapkey, urls FROM sptrap WHERE crawl = ? AND hostkey = ? AND trapkey IN ({in})"
        rows = txn.query_in(sql, sorted(traps), [crawl, host])
        found += [((crawl, host, bytes(key)), count) for key, count in rows]
    return found


class _Pages:
    """Pages of one crawl, within one transaction."""

    def __init__(self, write: FrontierWrite, crawl: Crawl) -> None:
        self._write = write
        self._crawl = crawl
        self._order = crawl.settings.order
        self._rows: dict[bytes, UrlRow | None] = {}
        """By key; None: there is none, and none was made (a limit)."""
        self._new: list[UrlRow] = []
        self._visited: list[UrlRow] = []
        self._linked: dict[bytes, UrlRow] = {}
        self._hosts: dict[str, HostRow | None] = {}
        """By root; None: no more hosts are taken."""
        self._room = crawl.settings.urls_max
        if self._room:
            self._room = max(0, self._room - write.total(crawl.id, "known"))
        self._domains: dict[str, int] = {}

    # The two ways in.

    def commit(self, pages: Sequence[ReadPage]) -> dict[bytes, int]:
        """Pages that were read.

        :returns: by key, :meth:`~lcc.model.spider.crawls.UrlRow.settled_depth` of rows that were looked at.
        """
        self._load([*(page.url for page in pages), *(link for page in pages for link in page.links)])
        for page in pages:
            self._page(page)
        self._save()
        # Another spider may have made a row just now, where hosts are synonyms: then that one stays.
        unsure = {row.key for row in self._new} if self._crawl.settings.host_resolver else ()
        rows = [row for key, row in self._rows.items() if row is not None and key not in unsure]
        return {row.key: depth for row in rows if (depth := row.settled_depth(self._order)) is not None}

    def start(self, starts: Sequence[FoundUrl]) -> None:
        """URLs that nothing links to."""
        self._load(starts)
        cash = self._write.rules.start_cash(self._order)
        for url in starts:
            if self._rows.get(url.key) is None:
                self._add(url, 0, b"", cash)
        self._save()

    def redirect(self, redirect: Redirect) -> None:
        """Where a URL redirects to, as if it had stood there.  What a start redirects to is as near as a start; else
        it is one link further, so that no chain of redirects is endless where there is a depth."""
        self._load([redirect.url, redirect.target])
        source, target = self._rows.get(redirect.url.key), self._rows.get(redirect.target.key)
        if source is None or source is target:
            return
        depth = source.depth + bool(source.parent)
        if target is None:
            target = self._add(redirect.target, depth, source.key, 0)
        if target is None:
            return
        if not target.change:
            target.cash, source.cash = target.cash + source.cash, 0
            self._linked[source.key] = source
        self._closer(target, min(depth, target.depth))
        self._save()

    def _load(self, urls: Sequence[FoundUrl]) -> None:
        roots = {url.root for url in urls}
        keys = {root: self._write.rules.host_key(root) for root in roots}
        # Hosts first: who has them locked is the only one that adds URLs to them.
        self._write.load_hosts([(self._crawl.id, key) for key in keys.values()])
        for root, key in keys.items():
            host = self._write.host(self._crawl.id, key)
            if host is not None:
                self._hosts[root] = host
        self._read({url.key for url in urls})
        # Where hosts are synonyms, some of these are fetched from another host than this spelling would be.
        self._lock_hosts([row for row in self._rows.values() if row and row.host not in keys.values()])

    def _load_settled(self, keys: Iterable[bytes]) -> None:
        """Look at rows after all."""
        new = {key for key in keys if key not in self._rows}
        self._read(new)
        self._lock_hosts([row for key in new if (row := self._rows.get(key)) is not None])

    def _lock_hosts(self, rows: Sequence[UrlRow]) -> None:
        """Lock the hosts of rows that were read before, and read them again."""
        if rows:
            self._write.load_hosts({(row.crawl, row.host) for row in rows})
            self._read({row.key for row in rows})

    def _read(self, keys: Collection[bytes]) -> None:
        for row in self._write.txn.query_in(_ROWS, sorted(keys), [self._crawl.id]):
            self._rows[row[1]] = url_row(row)

    # Pages.

    def _page(self, page: ReadPage) -> None:
        write, rules, now = self._write, self._write.rules, self._write.now
        row = self._rows.get(page.url.key)
        if row is None:
            # A provider's own page that nobody has linked to; or one that a limit had dropped.
            row = self._add(page.url, 0, b"", rules.start_cash(self._order))
            if row is None:
                return
        if row.is_version(page.change, page.md5):
            return  # it was committed before
        host = self._host_of(row)
        first = row.change == 0
        md5 = bytes.fromhex(page.md5)
        changed = None if first else md5 != row.md5
        write.moved(host, row.state, UrlState.CACHED, first)
        row.state = UrlState.CACHED
        row.interval_seconds = rules.interval(self._crawl.settings, row.interval_seconds, changed)
        row.rank = rules.due(now, row.interval_seconds)
        if row.interval_seconds:
            host.will_be_due(row.rank)
        host.failures = host.parkings = host.parked_time = 0
        seconds = now - row.checked_time if row.checked_time else 0
        row.change, row.md5, row.checked_time, row.code, row.failures = page.change, md5, now, 0, 0
        self._visited.append(row)
        write.count(self._crawl.id, "pages", 1)
        self._links(row, page, first, seconds)

    def _links(self, page: UrlRow, read: ReadPage, first: bool, seconds: int) -> None:
        """
        :param first: the page was never read before.
        :param seconds: since it was known last.
        """
        rows, depth, opic = self._rows, page.depth + 1, self._order is UrlOrder.OPIC
        heirs: list[UrlRow] = []
        seen = {page.key, *read.settled}
        if depth < read.depth and read.settled:
            self._load_settled(read.settled)
            for key in read.settled:
                known = rows.get(key)
                if known is not None and depth < known.depth:
                    self._closer(known, depth)
        for link in read.links:
            key = link.key
            if key in seen:
                continue
            seen.add(key)
            row = rows.get(key)
            if row is None:
                row = self._add(link, depth, page.key, 0)
                if row is None:
                    continue
            elif row.change or row.state != UrlState.WAITING:
                if depth < row.depth:
                    self._closer(row, depth)
                if row.change or not opic:
                    continue
            elif depth < row.depth or (first and self._order is UrlOrder.INLINKS):
                row.inlinks += first and self._order is UrlOrder.INLINKS
                self._closer(row, min(depth, row.depth))
            if opic:
                heirs.append(row)
        self._write.count(self._crawl.id, "links", len(seen) - 1)
        if heirs:
            self._hand_on(page, heirs, seconds)

    def _hand_on(self, page: UrlRow, heirs: Sequence[UrlRow], seconds: int) -> None:
        rules = self._write.rules
        page.history = rules.history(page.history, page.cash, seconds)
        for row, share in zip(heirs, rules.shares(page.cash, len(heirs)), strict=True):
            if share:
                row.cash += share
                self._closer(row, row.depth)
        page.cash = 0

    def _closer(self, row: UrlRow, depth: int) -> None:
        """A row is linked to from so near, or counts for more."""
        row.depth = depth
        if row.state == UrlState.WAITING:
            row.rank = self._write.rules.rank(self._order, row.depth, row.inlinks, row.cash)
        self._linked[row.key] = row

    # New rows.

    def _add(self, url: FoundUrl, depth: int, parent: bytes, cash: int) -> UrlRow | None:
        """A new row, that waits; None: a limit is reached."""
        if self._crawl.settings.urls_max and not self._room:
            self._write.drop(self._crawl.id, URLS_MAX, 1)
            return None
        host = self._hosts[url.root] if url.root in self._hosts else self._add_host(url.root)
        if host is None:
            return None
        self._room -= 1
        inlinks = int(bool(parent))
        rank = self._write.rules.rank(self._order, depth, inlinks, cash)
        row = UrlRow(
            *(self._crawl.id, url.key, host.key, url.path, UrlState.WAITING, rank, depth, inlinks, parent, cash),
            *(0, 0, b"", 0, 0, 0, 0, 0),
        )
        self._write.moved(host, None, UrlState.WAITING, True)
        self._rows[url.key] = row
        self._new.append(row)
        return row

    def _add_host(self, root: str) -> HostRow | None:
        write, crawl = self._write, self._crawl
        name, domain, bucket = write.rules.host_place(root)
        if domain not in self._domains:
            sql = "SELECT hosts FROM spdomain WHERE crawl = ? AND domain = ?"
            self._domains[domain] = write.txn.value(sql, [crawl.id, domain], 0)
        hosts = write.total(crawl.id, "hosts") if crawl.settings.hosts_max else 0
        full = write.rules.is_full(hosts, crawl.settings, self._domains[domain])
        if full:
            write.drop(crawl.id, full, 1)
            self._hosts[root] = None
            return None
        key = write.rules.host_key(root)
        pid = crawl.settings.pid
        write.add_host(HostRow(crawl.id, key, root, domain, bucket, pid, name in crawl.excluded))
        self._domains[domain] += 1
        write.count(crawl.id, "hosts", 1)
        columns = ("crawl", "domain", "hosts")
        write.txn.upsert("spdomain", columns, [(crawl.id, domain, self._domains[domain])], columns[:2])
        found = self._hosts[root] = write.host(crawl.id, key)
        return found

    def _host_of(self, row: UrlRow) -> HostRow:
        host = self._write.host(row.crawl, row.host)
        assert host is not None, f"a URL without host: {row.crawl} {row.key.hex()}"
        return host

    def _save(self) -> None:
        txn = self._write.txn
        new = {row.key for row in self._new}
        # Two hosts that are synonyms are not locked by one spider: then the first row stays.
        URLS.upsert(txn, [url_values(row) for row in sorted(self._new, key=lambda row: row.key)], ["crawl"])
        visited = {row.key: row for row in self._visited if row.key not in new}
        URLS.upsert(txn, [url_values(row) for _, row in sorted(visited.items())])
        linked = [
            url_values(row) for key, row in sorted(self._linked.items()) if key not in new and key not in visited
        ]
        URLS.upsert(txn, linked, _LINKED)
