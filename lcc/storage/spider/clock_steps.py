"""The wall clock was set back: what lies ahead of it is pulled in, so that nothing waits for a moment that the wrong
clock has given it.

No host is parked for longer than hosts are, from now on; no page waits for its next visit for longer than those of
its crawl do; what was told is asked for.  All of this may be done at any time, and again: where no clock was set, it
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcc.model.spider.crawls import NEVER, HostRow, UrlState
from lcc.storage.spider.telling import VISITED, first_due
from lcc.storage.spider.write import FrontierWrite

PAGE_HOSTS = 200
_AHEAD = "ask_time > ? OR parked_time > ? OR due_time > ? OR (ready_time > ? AND waiting > 0 AND parked_time = 0)"
_LATER = "crawl = ? AND hostkey = ? AND state = ? AND urlrank > ? AND urlrank <= ?"


def bound_waits(write: FrontierWrite, crawl: int, after: bytes) -> bytes | None:
    """As :meth:`lcc.interfaces.IFrontier.bound_waits`."""
    found = write.crawls.get(crawl)
    if found is None:
        return None
    if write.done:
        return after
    now, rules = write.now, write.rules
    ask = now + rules.told_wait_seconds
    parked = now + rules.parked_max_seconds
    due = now + found.settings.revisit_most_seconds
    sql = (
        f"SELECT hostkey, CASE WHEN {_AHEAD} THEN 1 ELSE 0 END FROM sphost WHERE crawl = ? AND hostkey > ?"
        f" AND (told > 0 OR due_time IS NOT NULL OR {_AHEAD}) ORDER BY hostkey LIMIT ?"
    )
    bounds = [ask, parked, due, now]
    rows = write.txn.query(sql, [*bounds, crawl, after, *bounds, PAGE_HOSTS])
    ahead = {bytes(key) for key, is_ahead in rows if is_ahead} | _hosts_with_later(write, crawl, rows, due)
    write.load_hosts([(crawl, key) for key in sorted(ahead)])
    for key in sorted(ahead):
        host = write.host(crawl, key)
        assert host is not None
        _bound(write, host, ask, parked, due)
    return bytes(rows[-1][0]) if len(rows) == PAGE_HOSTS else None


def _hosts_with_later(write: FrontierWrite, crawl: int, hosts: Sequence[tuple[Any, ...]], due: int) -> set[bytes]:
    """Those of these hosts with a URL that is too late, whenever their first one is."""
    asked = [(crawl, key, UrlState.TOLD.value, write.now, NEVER) for key, _ in hosts]
    asked += [(crawl, key, state.value, due, NEVER - 1) for key, _ in hosts for state in VISITED]
    sql = f"SELECT hostkey FROM spurl {write.txn.by_index('spurl_next')} WHERE {_LATER} LIMIT 1"
    return {bytes(key) for (key,) in write.txn.query_each(sql, asked)}


def _bound(write: FrontierWrite, host: HostRow, ask: int, parked: int, due: int) -> None:
    if host.ask_time is not None:
        host.ask_time = min(host.ask_time, ask)
        _pull_in(write, host, [UrlState.TOLD], write.now, NEVER)
    host.parked_time = min(host.parked_time, parked)
    if host.due_time is not None:
        _pull_in(write, host, VISITED, due, NEVER - 1)
        host.due_time = first_due(write, host)


def _pull_in(write: FrontierWrite, host: HostRow, states: Sequence[UrlState], to: int, upto: int) -> None:
    """No URL of a host in these states is later than that."""
    for state in states:
        values: list[Any] = [to, host.crawl, host.key, state.value, to, upto]
        write.txn.execute(f"UPDATE spurl SET urlrank = ? WHERE {_LATER}", values)
