"""The spider as a service: real sockets, real tables, and nobody else there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater

from lcc.config import Config, parse_config
from lcc.errors import Busy, ConfigError
from lcc.model.spider.crawls import CrawlSettings
from lcc.services import all_roles, spider
from lcc.services.process.environment import real_environment
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.place import place_of
from lcc.storage.spider.orders import CRAWL_ADD, ORDERS, add_body
from tests.support.databases import Backend, DirectDatabase
from tests.support.logs import LoggedErrors


def config_of(home: Path, url: str = "sqlite:lcc.db", more: str = "") -> Config:
    return parse_config(f'home = "."\n[database]\nurl = "{url}"\n[spider]\n{more}', home)


async def until(condition: Any) -> None:
    while not condition():
        await deferLater(reactor, 0.02)  # type: ignore[arg-type]  # untyped in Twisted


def test_it_is_one_of_all_roles(tmp_path: Path) -> None:
    roles = all_roles.build(config_of(tmp_path), real_environment(reactor))
    assert "spider" in {each.name for each in roles}


def test_a_store_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        spider.build(config_of(tmp_path, more='stores = ["nowhere"]'), real_environment(reactor))


@pytest_twisted.ensureDeferred
async def test_from_the_order_to_a_host_that_waits(backend: Backend, logged_errors: LoggedErrors) -> None:
    config = config_of(backend.home, backend.url)
    place = place_of(config, SPIDER)
    tables = DirectDatabase(place.url, place.home, place.series)
    role = spider.build(config, real_environment(reactor))
    role.startService()
    second = spider.build(config, real_environment(reactor))
    with pytest.raises(Busy):
        second.startService()
    await second.stopService()
    settings = CrawlSettings(restrict_to="http://example\\.org/")
    for name, starts in (("docs", ["http://example.org/"]), ("none", ["http://elsewhere.example/"])):
        tables.now(lambda txn, *body: ORDERS.give(txn, CRAWL_ADD, *body, 1), name, add_body(settings, starts))
    await until(lambda: len(tables.query("SELECT * FROM sporders WHERE done_time IS NULL")) == 0)
    answers = [answer for (answer,) in tables.query("SELECT answer FROM sporders ORDER BY id")]
    assert answers[0] == '{"crawl":1}'
    assert "http://elsewhere.example/: the filter 'scope' drops it" in answers[1]
    await until(lambda: dict(role.commands.est()).get("crawl") == "docs: active")
    await until(lambda: "unreachable" in dict(role.commands.est())["trouble"])
    shown = dict(role.commands.est())
    assert (shown["hosts"], shown["UNS"]) == ("64 of 64 parts; 1 spider", "unreachable")
    names = [reading.metric.name for reading in role.metrics.readings()]
    assert len(names) == len(set(names)) and "lcc_spider_urls_told" in names
    faults = {each.name: each.fault for each in role.metrics.conditions() if each.name != "database"}
    assert faults["notifying"] == "cannot reach the UNS's port of notifiers"
    assert "unreachable" in faults["reading"] and faults["not-paused"] == ""
    role.commands.pause()
    assert "PAUSED" in dict(role.commands.est())["spider"]
    role.commands.resume()
    await role.stopService()
    assert tables.query("SELECT * FROM spspider") == [], "others may take its hosts at once"
    tables.blocking.close()
