"""``kill -9`` of each role in the middle of 1,000 fetches loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.system import ROLES, System
from tests.support.waiting import wait_for

from .databases import MARIADB_ALWAYS, by_turns

LayOut = Callable[[str, int], Path]
SITES = 8
PAGES = 125


def fetched(system: System) -> int:
    """How many requests the origin has seen."""
    return len(system.origin.requests())


@pytest.mark.long
@by_turns("victim", "uns", "qm", "botm", "bot")
def test_a_role_killed_in_the_middle_loses_nothing(system: System, lay_out: LayOut, victim: str) -> None:
    for number in range(SITES):
        lay_out(f"site{number}", PAGES)
    system.start(*ROLES, "bot2")
    sites = [system.add_site(f"site{number}") for number in range(SITES)]
    system.publish_when_up(sites[0])
    publishers = [system.start_publishing(site) for site in sites[1:]]
    wait_for("some pages were fetched", lambda: fetched(system) > 200)
    system.kill(victim)
    at_kill = fetched(system)
    assert at_kill < SITES * PAGES, "the kill came too late to prove anything"
    system.start(victim)
    codes = [publisher.wait(120) for publisher in publishers]
    # Who was cut off by the kill of the UNS publishes again, as cron would.
    assert victim == "uns" or set(codes) == {0}
    for site, code in zip(sites[1:], codes, strict=True):
        if code:
            system.publish_when_up(site)
    for site in sites:
        system.wait_cached(site)
    wait_for("the queue is empty", lambda: system.rows("queue") == [])
    system.assert_serial()
    assert fetched(system) < SITES * PAGES + 400, "what was fetched before the kill was not fetched again"


@MARIADB_ALWAYS
def test_everything_killed_at_once(system: System, lay_out: LayOut) -> None:
    lay_out("site", 200)
    system.start("all")
    site = system.add_site("site")
    system.publish_when_up(site)
    for _ in range(3):
        seen = fetched(system)
        wait_for("some more pages were fetched", lambda seen=seen: fetched(system) > seen + 20)  # type: ignore[misc]
        system.kill("all")
        system.start("all")
    system.wait_cached(site)
    system.assert_serial()
