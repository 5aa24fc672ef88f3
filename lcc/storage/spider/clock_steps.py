"""The wall clock was set back: what lies ahead of it is pulled in, so that nothing waits for a moment that the wrong
clock has given it.

No host is parked for longer than hosts are, from now on; no page waits for its next visit for longer than those of
its crawl do; what was told is asked for.  All of this may be done at any time, and again: where no clock was set, it
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcc.model.crawls import NEVER, HostRow, UrlState
from lcc.storage.spider.telling import VISITED, first_due
from lcc.storage.spider.write import FrontierWrite

PAGE_HOSTS = 200
_AHEAD = (
    "crawl = ? AND hostkey > ? AND (ask_time > ? OR parked_time > ? OR due_time > ?"
    " OR (ready_time > ? AND waiting > 0 AND parked_time = 0))"
)


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
    sql = f"SELECT hostkey FROM sphost WHERE {_AHEAD} ORDER BY hostkey LIMIT ?"
    keys = [bytes(key) for (key,) in write.txn.query(sql, [crawl, after, ask, parked, due, now, PAGE_HOSTS])]
    write.load_hosts([(crawl, key) for key in keys])
    for key in keys:
        host = write.host(crawl, key)
        assert host is not None
        _bound(write, host, ask, parked, due)
    return keys[-1] if len(keys) == PAGE_HOSTS else None


def _bound(write: FrontierWrite, host: HostRow, ask: int, parked: int, due: int) -> None:
    if host.ask_time is not None and host.ask_time > ask:
        host.ask_time = ask
        _pull_in(write, host, [UrlState.TOLD], write.now, NEVER)
    host.parked_time = min(host.parked_time, parked)
    if host.due_time is not None and host.due_time > due:
        _pull_in(write, host, VISITED, due, NEVER - 1)
        host.due_time = first_due(write, host)


def _pull_in(write: FrontierWrite, host: HostRow, states: Sequence[UrlState], to: int, upto: int) -> None:
    """No URL of a host in these states is later than that."""
    those = "crawl = ? AND hostkey = ? AND state = ? AND urlrank > ? AND urlrank <= ?"
    for state in states:
        values: list[Any] = [to, host.crawl, host.key, state.value, to, upto]
        write.txn.execute(f"UPDATE spurl SET urlrank = ? WHERE {those}", values)
