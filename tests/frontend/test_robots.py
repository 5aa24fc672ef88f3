"""What robots.txt of sites say, over several sub-LCCs: whose roots, whose rules, whose scheduler polls them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import pymysql
import pytest
from twisted.logger import LogEvent, formatEvent

from lcc.errors import StoreUnavailable
from lcc.model import Provider
from lcc.roles.cu.front.cache import FrontCache
from lcc.roles.cu.front.robots import FrontRobots
from lcc.roles.cu.front.subs import AWAY_SECONDS
from lcc.roles.cu.site_robots import AskedSite
from lcc.storage.database.migrations import MAIN
from lcc.storage.providers.providers import add_provider
from lcc.storage.tasks.orders import order_robots
from tests.support.databases import Backend, DirectDatabase, result_of
from tests.support.roles.front_worlds import Worlds
from tests.support.tasks import NOW, Tasks, robots_known_as

HERE, THERE, NOBODY = "http://here.example/", "https://there.example:8443/", "http://nobody.example/"
RULES = "User-agent: *\nDisallow: /x\nCrawl-delay: 2\n"


@pytest.fixture
def worlds(backend: Backend, request: pytest.FixtureRequest) -> Iterator[Worlds]:
    def url(name: str) -> Any:
        if backend.kind == "sqlite":
            return f"sqlite:{backend.home}/{name}.db"
        return request.getfixturevalue(backend.kind).new_database()

    worlds = Worlds(backend.home, url)
    yield worlds
    worlds.close()


def provide(worlds: Worlds, pid: int, root: str) -> None:
    for cache in (worlds.alone, worlds.cache_of(pid)):
        cache.database.now(add_provider, Provider(pid, (root,), f"h{pid}"))


def asked(cache: Any, *sites: str, pids: Collection[int] | None = None) -> list[dict[str, Any]]:
    lines = result_of(cache.robots([AskedSite(site, site) for site in sites], pids))
    return [json.loads(line) for line in lines]


def test_one_lcc_and_three_say_the_same(worlds: Worlds) -> None:
    provide(worlds, 1, HERE)
    provide(worlds, 105, f"{HERE}docs/")
    provide(worlds, 201, THERE)
    for pids in (None, {1}, {105, 201}, set()):
        sites = (HERE, THERE, NOBODY, HERE)
        assert asked(worlds.one, *sites, pids=pids) == asked(worlds.several, *sites, pids=pids)
    here, there, nobody, _ = asked(worlds.several, HERE, THERE, NOBODY, HERE)
    assert here["providers"] == [{"root": f"{HERE}docs/", "provider": 105}, {"root": HERE, "provider": 1}]
    assert there["providers"] == [{"root": THERE, "provider": 201}] and not nobody["providers"]
    assert not [each for each in (here, there, nobody) if each["allow"]]


def test_it_is_polled_where_the_first_provider_is(worlds: Worlds) -> None:
    tasks = {number: Tasks(worlds.tasks_database(number)) for number in (1, 2, 3)}
    provide(worlds, 1, HERE)
    provide(worlds, 105, f"{HERE}docs/")
    provide(worlds, 201, THERE)
    asked(worlds.several, HERE, THERE, NOBODY)
    assert [tasks[number].carry_out().count for number in (1, 2, 3)] == [0, 1, 1]
    asked(worlds.several, HERE, THERE, NOBODY)
    assert [tasks[number].carry_out().count for number in (1, 2, 3)] == [0, 0, 0], "they are polled already"
    robots_known_as(tasks[2], RULES, "rules", 200)
    here, there = asked(worlds.several, HERE, THERE)
    assert (here["allow"], here["rules"], here["checked_time"], here["delay_seconds"]) == ("rules", RULES, NOW, 2.0)
    assert there["allow"] is None
    (here,) = asked(worlds.several, HERE, pids={201})
    assert here["allow"] is None, "who may not see the site's providers is told nothing of it"


def test_the_scheduler_of_the_first_provider_is_believed_once_it_knows(worlds: Worlds) -> None:
    tasks = {number: Tasks(worlds.tasks_database(number)) for number in (1, 2)}
    provide(worlds, 1, HERE)
    asked(worlds.several, HERE)
    tasks[1].carry_out()
    robots_known_as(tasks[1], RULES, "rules", 200)
    provide(worlds, 105, f"{HERE}docs/")
    assert asked(worlds.several, HERE)[0]["allow"] == "rules"
    assert tasks[2].carry_out().count == 0, "somebody polls it already"
    tasks[2].database.now(order_robots, [HERE], NOW)
    tasks[2].carry_out()
    assert asked(worlds.several, HERE)[0]["allow"] == "rules", "it has not read it yet"
    robots_known_as(tasks[2], "", "all", 404, NOW - 5)
    assert asked(worlds.several, HERE)[0]["allow"] == "all"


def test_a_sub_lcc_that_is_away(worlds: Worlds) -> None:
    provide(worlds, 1, HERE)
    worlds.database(3).away = True
    with pytest.raises(StoreUnavailable, match="away"):
        asked(worlds.several, HERE)
    worlds.database(3).away = False
    worlds.clock.advance(AWAY_SECONDS)
    assert asked(worlds.several, HERE)[0]["providers"] == [{"root": HERE, "provider": 1}]


def test_an_account_that_may_only_read(worlds: Worlds, logged: list[LogEvent]) -> None:
    Tasks(worlds.tasks_database(1))
    provide(worlds, 1, HERE)

    def refuse(sub: Any, sites: Any) -> Any:
        raise RuntimeError("INSERT command denied")

    cache = FrontCache(worlds.front, worlds.subs, FrontRobots(worlds.subs, refuse, worlds.clock))
    assert asked(cache, HERE)[0]["providers"] == [{"root": HERE, "provider": 1}]
    assert [formatEvent(event) for event in logged if "Cannot order" in formatEvent(event)] == [
        f"Cannot order sub-LCC a to poll robots.txt of {HERE}: INSERT command denied"
    ]


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_what_such_an_account_may_do(backend: Backend, request: pytest.FixtureRequest) -> None:
    """What doc/front-end.md says that it needs."""
    server = request.getfixturevalue("mariadb")
    url = server.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    Tasks(DirectDatabase(url, backend.home, MAIN))
    server.execute("CREATE USER reader@localhost")
    try:
        server.execute(f"GRANT SELECT ON {name}.* TO reader@localhost")
        account = DirectDatabase(url.replace("//root", "//reader"), backend.home, MAIN)
        with pytest.raises(pymysql.err.OperationalError, match="command denied"):
            account.now(order_robots, [HERE], NOW)
        for right in ("INSERT ON {}.taskorders", "INSERT, UPDATE ON {}.meta"):
            server.execute(f"GRANT {right.format(name)} TO reader@localhost")
        account.now(order_robots, [HERE], NOW)
        account.blocking.close()
    finally:
        server.execute("DROP USER reader@localhost")
