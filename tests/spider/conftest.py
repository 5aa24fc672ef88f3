"""Spiders with the LCC around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spider.kit import Worlds
from tests.support.roles.spider import SpiderWorld
from tests.support.servers.linked_sites import LinkedSites


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Worlds]:
    made: list[SpiderWorld] = []

    def make(sites: LinkedSites | dict[str, bytes], **settings: Any) -> SpiderWorld:
        web = sites if isinstance(sites, dict) else {page: sites.html(page).encode() for page in sites.links}
        world = SpiderWorld(tmp_path, web, **settings)
        if isinstance(sites, LinkedSites):
            world.lcc.robots_of = {root: sites.robots(root) for root in sites.roots}
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()
