"""Several machines behind a central BOT-M, as real processes, of which random ones are killed every second; now and
then one stands still for a while instead.

``make test`` fetches a hundred pages so, ``make test-long`` some more; ``make proof-tree`` fetches 20,000.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.processes.system import OriginServer, Site
from tests.support.processes.tree import Tree
from tests.support.switches import LONG
from tests.support.waiting import wait_for

PAGES = int(os.environ.get("LCC_TREE_PAGES", "240" if LONG else "120"))
SITES = max(12, PAGES // 500)
SEED = int(os.environ.get("LCC_TREE_SEED", "0")) or time.time_ns() % 100_000
KILL_SECONDS = 1.0
KILLS_MAX = 10**9 if PAGES >= 1000 else 25 if LONG else 10
"""Where the whole machine is busy, a process may need longer to start than another one lives."""
PATIENCE_SECONDS = 120 + PAGES / 4
STILL_SHARE = 0.15
STILL_SECONDS_MAX = 25.0 if LONG or PAGES >= 1000 else 4.0
"""At the most longer than silence is endured."""
PAGE_BYTES_MAX = 30_000
ANSWER_MS = 500 if PAGES < 1000 else 150
"""The origin takes its time, so that two fetches at once would be seen."""


@pytest.fixture
def answer_ms() -> float:
    return ANSWER_MS


@pytest.fixture
def tree(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[Tree]:
    """A central BOT-M, three machines with a BOT-M and three robots each; nothing runs yet."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    tree = Tree(folder, origin, database_url)
    yield tree
    tree.stop_all()


@pytest.fixture
def pages(documentation: list[Path], tmp_path: Path) -> Callable[[str, int], None]:
    """``pages(name, count)``: a provider's folder with so many pages of the documentation, all of them different."""
    texts = [path for path in documentation if path.stat().st_size <= PAGE_BYTES_MAX]

    def make(name: str, count: int) -> None:
        folder = tmp_path / "www" / name
        folder.mkdir(parents=True)
        for number in range(count):
            source = texts[number % len(texts)]
            (folder / f"{number:05d}-{source.name}").write_bytes(source.read_bytes() + f"{name} {number}".encode())

    return make


def publish_all(tree: Tree, pages: Callable[[str, int], None]) -> list[Site]:
    """All sites, registered, their pages told."""
    for number in range(SITES):
        pages(f"site{number}", PAGES // SITES)
    sites = [tree.add_site(f"site{number}") for number in range(SITES)]
    for site in sites:
        tree.publish_when_up(site)
    return sites


@pytest.mark.long
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_random_processes_are_killed_every_second(tree: Tree, pages: Callable[[str, int], None]) -> None:
    random = Random(SEED)
    print(f"LCC_TREE_SEED={SEED}")
    tree.start("uns", "qm")
    sites = publish_all(tree, pages)
    tree.start(*[name for name in tree.names if name not in ("uns", "qm")])
    victims = [name for name in tree.names if name != "uns"]
    killed: list[str] = []
    stilled: list[tuple[float, str]] = []

    def fetched() -> int:
        return tree.origin.log.read_bytes().count(b"\n") if tree.origin.log.exists() else 0

    def all_cached() -> bool:
        return int(tree.status()["cache"]["files"]) == expected

    expected = SITES * (PAGES // SITES)
    end = time.monotonic() + PATIENCE_SECONDS
    wait_for("the first pages are fetched", fetched)
    due = time.monotonic()
    while fetched() < expected or not all_cached():
        assert time.monotonic() < end, f"{tree.status()}"
        if len(killed) < KILLS_MAX:
            victim = random.choice([name for name in victims if name not in tree.still])
            if random.random() < STILL_SHARE:
                tree.stand_still(victim)
                stilled.append((time.monotonic() + random.uniform(1, STILL_SECONDS_MAX), victim))
            else:
                tree.kill(victim)
                tree.start(victim)
            killed.append(victim)
        for when, name in list(stilled):
            if time.monotonic() >= when:
                tree.go_on(name)
                stilled.remove((when, name))
        due = max(due + KILL_SECONDS, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    for _, name in stilled:
        tree.go_on(name)
    wait_for("the queue is empty", lambda: tree.rows("queue") == [])
    print(f"{len(killed)} were killed or stood still: {' '.join(killed)}; {fetched()} requests for {expected} pages")
    connections = {(request["provider"], request["port"]) for request in tree.origin.requests()}
    print(f"{len(connections)} connections")
    wait_for("all machines are back", lambda: all(machine["ready"] for machine in tree.machine_states()))
    tree.assert_serial()
    assert len(killed) >= 5, "too quick to prove anything"
    used = [machine for machine in tree.machines if (tree.content(machine) / "counter").exists()]
    assert len(used) > 1 and (PAGES < 1000 or len(used) == len(tree.machines)), "each has done its part"
    for machine in used:
        wait_for("orphans can be told", lambda machine=machine: "undecided" not in tree.fsck(machine))  # type: ignore[misc]
        found = tree.fsck(machine, "--repair")
        print(f"fsck of machine {machine}: {found}")
        assert not found.keys() - {"orphan", "leftover"}, "content was lost"
        assert tree.fsck(machine) == {}
    wait_for("what was fetched twice is removed", lambda: tree.status()["deletes"] == [])
    files = tree.check_content(sites)
    assert tree.content_files().keys() == files
    for name in tree.names:
        assert "Traceback" not in tree.log(name), f"{name}: {tree.log(name)[-4000:]}"
