"""Which URLs are told next, and what became of those that were told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from lcc.interfaces import IFrontierRules
from lcc.model.spider.crawls import (
    BUCKETS,
    NEVER,
    Crawl,
    CrawlState,
    HostRef,
    HostRow,
    Owners,
    ReadUrl,
    ReadyHost,
    Telling,
    ToldUrl,
    UrlAnswer,
    UrlRow,
    UrlState,
    Verdict,
)
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.rows import URLS, url_row, url_values
from lcc.storage.spider.write import FrontierWrite

V = TypeVar("V")

VISITED = (UrlState.CACHED, UrlState.FAILED, UrlState.GONE, UrlState.REFUSED)
_FIRST = "WHERE crawl = ? AND hostkey = ? AND state = ? AND urlrank <= ? ORDER BY urlrank LIMIT ?"
_OF_PAGES = (Verdict.GONE, Verdict.LOST)


class _Next(NamedTuple):
    """What is read of a URL that may be told: less than a row, since there are many."""

    key: bytes
    path: str
    state: int
    rank: int
    change: int
    told_set: int


# Which hosts.


def ready_hosts(
    txn: Txn, crawl: int, buckets: Collection[int], now: int, limit: int, after: ReadyHost | None = None
) -> list[ReadyHost]:
    """As :meth:`lcc.interfaces.IFrontier.ready_hosts`."""
    return _first(txn, "ready_time", "sphost_ready", crawl, buckets, now, limit, after)


def told_hosts(txn: Txn, crawl: int, buckets: Collection[int], now: int, limit: int) -> list[ReadyHost]:
    """As :meth:`lcc.interfaces.IFrontier.told_hosts`."""
    return _first(txn, "ask_time", "sphost_ask", crawl, buckets, now, limit)


def _first(
    txn: Txn,
    column: str,
    index: str,
    crawl: int,
    buckets: Collection[int],
    now: int,
    limit: int,
    after: ReadyHost | None = None,
) -> list[ReadyHost]:
    """The first hosts by this time.  Those of other spiders are passed over in the index: one walk, not one for each
    bucket, so that it costs little where there is nothing to do."""
    own = sorted(set(buckets))
    if not own:
        return []
    some = f" AND bucket IN ({', '.join('?' * len(own))})" if len(own) < BUCKETS else ""
    ranges: list[tuple[str, tuple[Any, ...]]] = [(f"{column} <= ?", (now,))]
    if after is not None:
        # One range of the index each; a comparison of rows would be none for MariaDB.
        ranges = [
            (f"{column} = ? AND bucket = ? AND hostkey > ?", (after.time, after.bucket, after.key)),
            (f"{column} = ? AND bucket > ?", (after.time, after.bucket)),
            (f"{column} > ? AND {column} <= ?", (after.time, now)),
        ]
    found: list[ReadyHost] = []
    for where, values in ranges:
        sql = (
            f"SELECT crawl, root, pid, {column}, bucket, hostkey FROM sphost {txn.by_index(index)}"
            f" WHERE crawl = ? AND {where}{some} ORDER BY {column}, bucket, hostkey LIMIT ?"
        )
        rows = txn.query(sql, [crawl, *values, *(own if some else ()), limit - len(found)])
        found += [ReadyHost._make((*row[:-1], bytes(row[-1]))) for row in rows]
        if len(found) == limit:
            break
    return found


def told_urls(txn: Txn, rules: IFrontierRules, host: HostRef, before: int, limit: int) -> list[ToldUrl]:
    """As :meth:`lcc.interfaces.IFrontier.told_urls`."""
    values = [host.crawl, rules.host_key(host.root), UrlState.TOLD.value, before - 1, limit]
    found = [_Next._make(row) for row in txn.query(_next_sql(txn), values)]
    return [ToldUrl(url.key, url.path, False, url.told_set, url.rank) for url in found]


def _next_sql(txn: Txn) -> str:
    columns = "urlkey, path, state, urlrank, change_number, told_set"
    return f"SELECT {columns} FROM spurl {txn.by_index('spurl_next')} {_FIRST}"


def read_urls(txn: Txn, crawl: int, after: bytes, limit: int) -> list[ReadUrl]:
    """As :meth:`lcc.interfaces.IFrontier.read_urls`."""
    sql = (
        "SELECT u.urlkey, h.bucket, h.pid, h.root, u.path, u.state, u.change_number, u.md5 FROM spurl u"
        " JOIN sphost h ON h.crawl = u.crawl AND h.hostkey = u.hostkey"
        " WHERE u.crawl = ? AND u.urlkey > ? AND u.change_number > 0 ORDER BY u.urlkey LIMIT ?"
    )
    return [
        ReadUrl(bytes(key), bucket, pid, root + path, UrlState(state), change, md5.hex())
        for key, bucket, pid, root, path, state, change, md5 in txn.query(sql, [crawl, after, limit])
    ]


# Telling.


def watched(write: FrontierWrite, providers: Sequence[tuple[HostRef, int]]) -> None:
    """As :meth:`lcc.interfaces.IFrontier.watched`."""
    if write.done:
        return
    for host, pid in _hosts(write, providers):
        if not host.pid and pid:
            write.new_provider()
        host.pid = pid


def forget_providers(write: FrontierWrite, crawl: int, buckets: Collection[int]) -> int:
    """As :meth:`lcc.interfaces.IFrontier.forget_providers`."""
    found = write.crawls.get(crawl)
    if found is not None and not found.settings.pid:
        write.txn.execute_in(
            "UPDATE sphost SET pid = 0 WHERE crawl = ? AND bucket IN ({in})", sorted(buckets), [crawl]
        )
    return write.sets


def _hosts(write: FrontierWrite, given: Sequence[tuple[HostRef, V]]) -> list[tuple[HostRow, V]]:
    """Those hosts that are known, locked."""
    keyed = [((ref.crawl, write.rules.host_key(ref.root)), value) for ref, value in given]
    write.load_hosts([at for at, _ in keyed])
    return [(host, value) for at, value in keyed if (host := write.host(*at)) is not None]


def fail_host(write: FrontierWrite, ref: HostRef, code: int) -> None:
    """As :meth:`lcc.interfaces.IFrontier.fail_host`."""
    if write.done:
        return
    for host, _ in _hosts(write, [(ref, None)]):
        host.failures, host.parkings, host.parked_time = write.rules.park_host(host.parkings, write.now)
        host.code = code


def tell(write: FrontierWrite, refs: Mapping[HostRef, Owners]) -> list[Telling]:
    """As :meth:`lcc.interfaces.IFrontier.tell`."""
    if write.done:
        return []
    own = write.buckets()
    told = []
    for host, owners in _hosts(write, list(refs.items())):
        crawl = write.crawls.get(host.crawl)
        ready = crawl is not None and crawl.state is CrawlState.ACTIVE and not host.excluded
        # A provider that was forgotten meanwhile is to be asked for again.
        if ready and host.pid and host.bucket in own and host.parked_time <= write.now:
            told += _tell(write, host, owners)
    return told


def _tell(write: FrontierWrite, host: HostRow, owners: Owners) -> list[Telling]:
    now, room = write.now, max(0, write.rules.window - host.told)
    waiting = _next(write, host, [UrlState.WAITING], NEVER, room)
    if len(waiting) < min(host.waiting, room):
        _recount(write, host)
    due = []
    if host.due_time is not None and host.due_time <= now:
        due = sorted(_next(write, host, VISITED, now, room), key=lambda url: url.rank)
    first, again = write.rules.turn(host.told, len(waiting), len(due))
    urls = [*waiting[:first], *due[:again]]
    # It is tried again: what failed so far counts no longer as one that is parked.
    host.parked_time = 0
    by_provider: defaultdict[int, list[_Next]] = defaultdict(list)
    for url in urls:
        write.moved(host, url.state, UrlState.TOLD, url.change == 0)
        by_provider[write.rules.owner_of(host.root + url.path, owners) or host.pid].append(url)
    told = [_set_of(write, host, pid, some) for pid, some in by_provider.items()]
    if due:
        host.due_time = first_due(write, host)
    return told


def _set_of(write: FrontierWrite, host: HostRow, pid: int, urls: Sequence[_Next]) -> Telling:
    """These URLs are told."""
    write.sets += 1
    sql = "UPDATE spurl SET state = ?, urlrank = ?, told_set = ? WHERE crawl = ? AND urlkey IN ({in})"
    values = [UrlState.TOLD.value, write.now, write.sets, host.crawl]
    write.txn.execute_in(sql, sorted(url.key for url in urls), values)
    # Nothing is looked at again that the cache has no longer: that is fetched as what is new.
    there = (UrlState.CACHED, UrlState.FAILED)
    told = [ToldUrl(url.key, url.path, url.change > 0 and url.state in there, write.sets, write.now) for url in urls]
    return Telling(write.sets, host.crawl, host.root, pid, tuple(told))


def _next(write: FrontierWrite, host: HostRow, states: Iterable[UrlState], upto: int, limit: int) -> list[_Next]:
    """The first URLs of a host in these states."""
    each = [(host.crawl, host.key, state.value, upto, limit) for state in states]
    return [_Next._make(row) for row in write.txn.query_each(_next_sql(write.txn), each)]


def first_due(write: FrontierWrite, host: HostRow) -> int | None:
    """When the first of a host's URLs is looked at again."""
    first = _next(write, host, VISITED, NEVER - 1, 1)
    return min([url.rank for url in first], default=None)


def _recount(write: FrontierWrite, host: HostRow) -> None:
    """Fewer URLs wait than are counted (two spiders have added the same one): count them."""
    sql = "SELECT COUNT(*) FROM spurl WHERE crawl = ? AND hostkey = ? AND state = ?"
    counted = write.txn.value(sql, [host.crawl, host.key, UrlState.WAITING.value], 0)
    for name in ("waiting", "known"):
        write.count(host.crawl, name, counted - host.waiting)
    host.known += counted - host.waiting
    host.waiting = counted


# Answers.


def answer(write: FrontierWrite, answers: Sequence[UrlAnswer], asked: Sequence[HostRef]) -> None:
    """As :meth:`lcc.interfaces.IFrontier.answer`."""
    if write.done:
        return
    urls = _told_rows(write, answers)
    changed: dict[tuple[int, bytes], UrlRow] = {}
    for each in answers:
        url = urls.get((each.crawl, each.key))
        if url is None or (each.told_set and each.told_set != url.told_set):
            continue
        # A page may go, or be lost, without anybody having asked for it.
        unasked = each.verdict in _OF_PAGES and not each.told_set and url.state == UrlState.CACHED
        if url.state != UrlState.TOLD and not unasked:
            continue
        if each.verdict is Verdict.UNCHANGED and not url.change:
            continue  # it is to be read
        crawl = write.crawls.get(each.crawl)
        host = write.host(url.crawl, url.host)
        if crawl is not None and host is not None:
            _answer(write, crawl, host, url, each)
            changed[each.crawl, each.key] = url
    rows = [url_values(url) for _, url in sorted(changed.items())]
    URLS.upsert(write.txn, rows)
    for host, _ in _hosts(write, [(ref, None) for ref in asked]):
        host.ask_time = write.now + write.rules.told_wait_seconds


def _told_rows(write: FrontierWrite, answers: Sequence[UrlAnswer]) -> dict[tuple[int, bytes], UrlRow]:
    """The rows that are answered, their hosts locked."""
    urls: dict[tuple[int, bytes], UrlRow] = {}
    hosts: set[tuple[int, bytes]] = set()
    for only_hosts in (True, False):
        for crawl in sorted({each.crawl for each in answers}):
            keys = sorted({each.key for each in answers if each.crawl == crawl})
            for row in write.txn.query_in(f"{URLS.select} WHERE crawl = ? AND urlkey IN ({{in}})", keys, [crawl]):
                url = url_row(row)
                hosts.add((url.crawl, url.host))
                urls[crawl, url.key] = url
        if only_hosts:
            write.load_hosts(hosts)
    return urls


def _answer(write: FrontierWrite, crawl: Crawl, host: HostRow, url: UrlRow, said: UrlAnswer) -> None:
    rules, settings, now, first = write.rules, crawl.settings, write.now, url.change == 0
    state = UrlState.WAITING
    if said.verdict is Verdict.UNCHANGED:
        state = UrlState.CACHED
        url.interval_seconds = rules.interval(settings, url.interval_seconds, False)
        url.code = url.failures = 0
    elif said.verdict is Verdict.FULL:
        url.code = host.code = said.code
        if host.parked_time <= now:
            host.failures, host.parkings, host.parked_time = rules.park_host(host.parkings, now)
    elif said.verdict is not Verdict.LOST:
        of_host = said.verdict is Verdict.FAILED and rules.is_fault_of_host(said.code)
        if of_host:
            host.failures, host.parkings, parked_time = rules.fail_host(host.failures, host.parkings, now)
            host.parked_time = max(host.parked_time, parked_time)
            host.code = said.code
        url.code, url.failures = said.code, url.failures + 1
        if said.respelled is not None and first and said.respelled != url.path:
            url.path = said.respelled
        elif not (of_host and first and url.failures < rules.url_failures_max):
            state = UrlState[said.verdict.name]
            url.interval_seconds = rules.interval_after_error(settings, url.interval_seconds)
    write.moved(host, url.state, state, first)
    url.state = state
    if state is UrlState.WAITING:
        url.rank = rules.rank(settings.order, url.depth, url.inlinks, url.cash)
        return
    url.rank = rules.due(now, url.interval_seconds)
    url.checked_time = now
    if said.verdict in (Verdict.UNCHANGED, Verdict.GONE):
        host.failures = host.parkings = host.parked_time = 0
    if url.rank < NEVER:
        host.will_be_due(url.rank)
