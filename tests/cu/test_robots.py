"""What robots.txt of sites say, asked over HTTP; what nobody polls yet is ordered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from lcc.client.cache import CacheClient
from lcc.model import Provider
from lcc.model.states import SiteRobots
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import place_of
from lcc.storage.providers.providers import add_provider
from tests.cu.test_states import states
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend, DirectDatabase
from tests.support.roles.content_users import Api
from tests.support.tasks import NOW, Tasks, robots_known_as

HERE, THERE = "http://here.example/", "https://there.example:8443/"
TEXT = "User-agent: *\nDisallow: /x\nCrawl-delay: 2\n"


@pytest.fixture
def tasks(api: Api) -> Iterator[Tasks]:
    place = place_of(api.config, TASKS)
    database = DirectDatabase(place.url, place.home, place.series)
    yield Tasks(database)
    database.blocking.close()


def provide(cache: Cache, root: str) -> int:
    return cache.database.now(add_provider, Provider(0, (root,), root))  # the hash tells them apart


async def asked(api: Api, *origins: str, **headers: str) -> list[dict[str, Any]]:
    return await states(api, *[{"origin": origin} for origin in origins], path="/robots", **headers)


@pytest_twisted.ensureDeferred
async def test_of_providers_it_is_polled_from_then_on(api: Api, cache: Cache, tasks: Tasks) -> None:
    provide(cache, f"{HERE}docs/")
    provide(cache, "http://there.example:8443/")
    nothing = {"allow": None, "rules": None, "checked_time": None, "delay_seconds": 0}
    (found,) = await asked(api, "HTTP://HERE.example:80")
    roots = [{"root": f"{HERE}docs/", "provider": 1}]
    assert found == {"origin": "HTTP://HERE.example:80", **nothing, "providers": roots}
    assert await asked(api, HERE, THERE, "http://nobody.example/")
    assert tasks.carry_out().count == 1, "while an order is open no other is given"
    robots_known_as(tasks, TEXT, "rules", 200)
    here, there, nobody = await asked(api, HERE, THERE, "http://nobody.example/")
    known = {"allow": "rules", "rules": TEXT, "checked_time": NOW, "delay_seconds": 2.0}
    assert here == {"origin": HERE, **known, "providers": roots}
    assert there["allow"] is None and nobody == {"origin": "http://nobody.example/", **nothing, "providers": []}
    assert tasks.carry_out().count == 1
    assert tasks.database.query("SELECT origin FROM robots ORDER BY origin") == [(HERE,), (THERE,)]
    await asked(api, HERE, THERE)
    assert tasks.carry_out().count == 0, "it is polled already"


@pytest_twisted.ensureDeferred
async def test_the_client_and_a_long_one(api: Api, cache: Cache, tasks: Tasks) -> None:
    provide(cache, HERE)
    users = CacheClient(reactor, f"http://127.0.0.1:{api.port}")
    try:
        assert await users.robots([HERE]) == [SiteRobots(HERE, providers=((HERE, 1),))]
        tasks.carry_out()
        text = "\n" * (512 << 10)
        robots_known_as(tasks, text, "rules", 200)
        assert await users.robots([HERE] * 30) == [SiteRobots(HERE, "rules", text, NOW, providers=((HERE, 1),))] * 30
    finally:
        await users.close()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_who_sees_what(backend: Backend, api: Api, cache: Cache, tasks: Tasks) -> None:
    """Who may see some providers sees what is said to robots at their sites."""
    provide(cache, HERE)
    there = provide(cache, THERE)
    await asked(api, HERE, THERE)
    tasks.carry_out()
    robots_known_as(tasks, "", "all", 404)
    _, token = add_user(cache, {there})
    found = await asked(api, HERE, THERE, authorization=f"Bearer {token}")
    assert [row["allow"] for row in found] == [None, None]
    _, token = add_user(cache)
    found = await asked(api, HERE, THERE, authorization=f"Bearer {token}")
    assert [row["allow"] for row in found] == ["all", None]
