"""A content user that is killed at random, and goes on from its state file, ends with exactly what the cache holds;
so does one whose LCC is killed under it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.processes.followers import Follower
from tests.support.processes.system import ROLES, Site, System
from tests.support.switches import LONG
from tests.support.waiting import wait_for

LayOut = Callable[[str, int], Path]
ROUNDS = 6 if LONG else 3


@pytest.fixture
def follower(system: System, tmp_path: Path) -> Iterator[Follower]:
    follower = Follower(f"unix:{system.folder / 'home' / 'cu.sock'}", tmp_path / "follower")
    yield follower
    follower.kill()


def change_files(random: Random, folder: Path, number: int) -> None:
    """Some pages are new, some are others now, some are gone."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in random.sample(paths, len(paths) // 3):
        if random.random() < 0.4:
            path.unlink()
        else:
            path.write_bytes(random.randbytes(random.randrange(1, 40_000)))
    for each in range(10):
        (folder / f"new{number}-{each}.html").write_bytes(random.randbytes(5000))


def cached(system: System, sites: list[Site]) -> dict[str, tuple[str, str]]:
    """What a copy must be, once everything is fetched."""
    return {
        site.url + path: (str(row["md5"]), str(row["md5"]))
        for site in sites
        for path, row in system.wait_cached(site).items()
    }


@pytest.mark.long
def test_a_follower_killed_at_random_has_what_the_cache_has(
    system: System, lay_out: LayOut, follower: Follower
) -> None:
    random = Random(5)
    for name in ("one", "two"):
        lay_out(name, 80)
    system.start(*ROLES, "cu")
    sites: list[Site] = [system.add_site(name) for name in ("one", "two")]
    for number in range(ROUNDS):
        publishers = []
        for turn in range(4):
            if turn % 2 == 0:
                site = sites[turn // 2]
                if number:
                    change_files(random, site.folder, number)
                    publishers.append(system.start_publishing(site))
                else:
                    system.publish_when_up(site)
            follower.start()
            if turn % 2 == 0:
                wait_for("it gets somewhere", follower.has_moved)
            time.sleep(random.uniform(0, 0.8))  # without the above it takes some of this to start
            if random.random() < 0.4:
                system.kill("cu")
                system.start("cu")
                time.sleep(random.uniform(0, 0.5))
            follower.kill()
        assert [publisher.wait(120) for publisher in publishers] == [0] * len(publishers)
    expected = cached(system, sites)
    assert len(expected) > 100 and len(follower.places) == 4 * ROUNDS
    assert len(set(follower.places)) >= 2 * ROUNDS, "it got nowhere between the kills"
    follower.start()
    wait_for("the copy is what the cache is", lambda: follower.copy() == expected)
    # And what it follows from now on is right as well.
    change_files(random, sites[0].folder, ROUNDS)
    system.publish(sites[0])
    system.kill("cu")
    system.start("cu")
    expected = cached(system, sites)
    wait_for("the copy is what the cache is now", lambda: follower.copy() == expected)
    system.stop("cu")
