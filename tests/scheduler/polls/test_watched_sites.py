"""robots.txt of watched sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.config import WatchedConfig
from lcc.errors import StoreUnavailable, code
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler.watched_sites import WatchedSites
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.tasks.polling.robots import robots_rules
from tests.scheduler.polls.polling import Polling
from tests.support.logs import LoggedErrors
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
    for asks in ("Crawl-delay: 7", "Crawl-delay: 9999999", "Crawl-delay: 8.5\nVisit-time: 0600-0845"):
        known(bench.tasks, f"User-agent: *\n{asks}", "rules", 200, int(bench.now()))
        bench.pass_time(25)
    bench.pass_time(25)
    asked = [("http://a/", 7000, ""), ("http://a/", 10**9, ""), ("http://a/", 8500, "6-8")]
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


@pytest.fixture
def sites(bench: Polling) -> WatchedSites:
    """Two sites, one of them by FTP."""
    main: Any = bench.queue.database
    main.now(find_or_make_watched, "http://a/", WatchedConfig())
    main.now(find_or_make_watched, "http://b/", WatchedConfig())
    main.now(lambda txn: txn.execute("UPDATE proots SET root = 'ftp://b/' WHERE root = 'http://b/'"))

    def watch(*_: object) -> Deferred[int]:
        asked.append(Deferred(lambda _: None))
        return asked[-1]

    asked: list[Deferred[int]] = []
    return WatchedSites(bench.engine.store, main, bench.now, watch)


def test_only_web_sites_have_a_robots_txt(bench: Polling, sites: WatchedSites) -> None:
    sites.tick()
    assert bench.database.query("SELECT origin FROM robots") == [("http://a/",)]


def test_while_the_queues_database_is_away_nothing_is_logged_twice(
    bench: Polling, sites: WatchedSites, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    error: Exception = StoreUnavailable("away")

    def explode(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(sites._main, "select", explode)
        sites.tick()
        assert logged_errors.flush("Cannot look") == []
        error = RuntimeError("it explodes")
        for _ in range(9):
            sites.tick()
        assert logged_errors.flush("Cannot look") == [], "it looks once in ten seconds"
        sites.tick()
        assert len(logged_errors.flush("Cannot look for watched sites")) == 1
    for _ in range(10):
        sites.tick()
    assert bench.database.query("SELECT COUNT(*) FROM robots") == [(1,)]


def test_a_scheduler_that_stops_tells_the_uns_nothing_more(bench: Polling, sites: WatchedSites) -> None:
    sites.tick()
    known(bench.tasks, "User-agent: *\nCrawl-delay: 7", "rules", 200, int(bench.now()))
    for _ in range(10):
        sites.tick()
    assert sites._work.busy
    sites.stop()
    assert not sites._work.busy


def _put_back(txn: Any) -> None:
    """From a backup without the newest provider, the id of which another one gets."""
    ((pid,),) = txn.query("SELECT pid FROM proots WHERE root = 'http://c/'")
    txn.execute("UPDATE proots SET root = 'http://d/' WHERE pid = ?", [pid])
    txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'")
