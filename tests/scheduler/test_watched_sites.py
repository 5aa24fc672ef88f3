"""robots.txt of watched sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcc.config import WatchedConfig
from lcc.roles.scheduler.watched_sites import WatchedSites
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.tasks.robots import robots_rules
from tests.scheduler.test_polls import Polling


def test_each_watched_site_is_polled(tmp_path: Path) -> None:
    bench = Polling(tmp_path)
    bench.start()
    main: Any = bench.queue.database
    sites = WatchedSites(bench.tasks.store, main, bench.now)
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
    bench.engine.stop()
    bench.database.blocking.close()
    main.blocking.close()
