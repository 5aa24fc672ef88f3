"""robots.txt of watched sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcc.config import WatchedConfig
from lcc.errors import code
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler.watched_sites import WatchedSites
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.tasks.polling.robots import robots_rules
from tests.scheduler.polls.polling import Polling
from tests.support.tasks import robots_known_as as known


def test_each_watched_site_is_polled(tmp_path: Path) -> None:
    bench = Polling(tmp_path)
    bench.start()
    main: Any = bench.queue.database
    said: list[tuple[str, int, str]] = []
    faults = [NotifierRefused(code("try-later"), "not now")]

    async def watch(origin: str, delay_ms: int, hours: str) -> int:
        if faults:
            raise faults.pop()
        said.append((origin, delay_ms, hours))
        return 1

    sites = WatchedSites(bench.tasks.store, main, bench.now, watch)
    sites._store = bench.engine.store
    main.now(find_or_make_watched, "http://a/", WatchedConfig())
    bench.engine.background.append(sites.tick)
    bench.pass_time(12)
    main.now(find_or_make_watched, "https://b:8443/", WatchedConfig())
    bench.pass_time(30)
    found = bench.database.query("SELECT origin, checked_time FROM robots ORDER BY origin")
    # The registered provider of the bench is asked about only where hints lead to it.
    assert found == [("http://a/", 0), ("https://b:8443/", 0)]
    assert bench.database.blocking.select(robots_rules, "http://a/") is None
    assert {"http://a/robots.txt", "https://b:8443/robots.txt"} <= set(bench.outbox())
    assert said == []
    for text in ("User-agent: *\nCrawl-delay: 7", "User-agent: *\nCrawl-delay: 8.5\nVisit-time: 0600-0845"):
        known(bench.tasks, text, "rules", 200, int(bench.now()))
        bench.pass_time(25)
    bench.pass_time(25)
    asked = [("http://a/", 7000, ""), ("http://a/", 8500, "6-8")]
    assert said == asked, "until it is noted, and once for each that was read"
    main.now(find_or_make_watched, "http://c/", WatchedConfig())
    bench.pass_time(12)
    main.now(_put_back)
    bench.pass_time(12)
    assert said == [*asked, asked[-1]], "what its provider had got is lost"
    assert bench.database.query("SELECT COUNT(*) FROM robots WHERE origin = 'http://d/'") == [(1,)]
    bench.engine.stop()
    bench.database.blocking.close()
    main.blocking.close()


def _put_back(txn: Any) -> None:
    """From a backup without the newest provider, the id of which another one gets."""
    ((pid,),) = txn.query("SELECT pid FROM proots WHERE root = 'http://c/'")
    txn.execute("UPDATE proots SET root = 'http://d/' WHERE pid = ?", [pid])
    txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'")
