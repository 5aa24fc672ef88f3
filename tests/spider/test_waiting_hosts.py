"""Hosts of which nothing is told for now: how soon they are looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lcc.model.states import SiteRobots
from lcc.storage.spider.orders import CRAWL_SET, ORDERS
from tests.support.roles.spider import NOW, SpiderWorld

SITE = "http://one.example/"


def test_a_crawl_that_is_changed_is_looked_at_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator has allowed private addresses, and the robots.txt that was refused is asked for again."""
    world = SpiderWorld(tmp_path, {SITE: b"<p>"})
    read, asked = world.lcc.robots, []

    async def robots(origins: Sequence[str]) -> list[SiteRobots]:
        asked.append(world.clock.seconds())
        private = [private for root, private in world.lcc.watches if root in origins]
        return [each if private[-1] else each._replace(allow="none") for each in await read(origins)]

    monkeypatch.setattr(world.lcc, "robots", robots)
    world.start()
    world.add("all", SITE, restrict_to=SITE)
    world.advance(30)
    assert len(asked) == 1 and not world.lcc.fetched
    private = {"settings": {"allow_private": True}}
    world.database.write(lambda txn: ORDERS.give(txn, CRAWL_SET, "all", private, NOW))
    world.advance(5)
    assert world.lcc.fetched == [SITE]
    world.close()


@pytest.mark.parametrize("private", [False, True])
def test_a_provider_that_was_made_again_without_private_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    """The queue was restored from a backup before anything was read, and its scheduler has asked for the robots.txt
    (world 811123r)."""
    world = SpiderWorld(tmp_path, {SITE: b"<p>"})
    read = world.lcc.robots

    async def robots(origins: Sequence[str]) -> list[SiteRobots]:
        again = world.lcc.watches.count((SITE, True)) > 1
        return [each if again else each._replace(allow="none") for each in await read(origins)]

    monkeypatch.setattr(world.lcc, "robots", robots)
    world.start()
    world.add("all", SITE, restrict_to=SITE, allow_private=private)
    world.advance(200)
    assert world.lcc.fetched == [SITE] * private and len(world.lcc.watches) == 1 + private
    world.close()


def test_a_host_that_is_down_is_not_asked_for_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = SpiderWorld(tmp_path, {SITE: b"<p>"})
    read = world.lcc.robots

    async def robots(origins: Sequence[str]) -> list[SiteRobots]:
        return [each._replace(allow="none") for each in await read(origins)]

    monkeypatch.setattr(world.lcc, "robots", robots)
    world.start()
    world.add("all", SITE, restrict_to=SITE, allow_private=True)
    world.advance(3 * 3600, step=10)
    assert 5 <= len(world.lcc.watches) <= 9
    world.close()
