"""The growth of an LCC: the made-up web, the model, and a tiny simulation with the real storage."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from growth.__main__ import drained_after, modelled, simulate
from growth.model import Assumptions, Costs, needs
from growth.world import CLASSES, HOURS, ChangeClass, World, by_hour, changes_per_day


def amount(what: str, assumptions: Assumptions, costs: Costs) -> float:
    return next(need.amount for need in needs(assumptions, costs) if need.what == what)


def test_every_page_has_one_owner() -> None:
    world = World(5000, 40)
    owned = [page for pid in range(1, 41) for page in world.pages(pid)]
    assert owned == list(range(5000))
    assert all(page in world.pages(world.owner(page)) for page in range(5000))
    assert len(world.pages(1)) > 3 * len(world.pages(40)) > 0


def test_as_much_changes_as_the_classes_say() -> None:
    world = World(100_000, 100)
    hours = [sum(len(pages) for _, pages in world.hour(hour)) for hour in range(HOURS)]
    assert sum(hours) == pytest.approx(100_000 * changes_per_day(), rel=0.05)
    assert max(hours) > 3 * min(hours)
    assert sum(by_hour(hour) for hour in range(HOURS)) == pytest.approx(HOURS)


def test_pages_of_a_class_change_as_often_as_it_says() -> None:
    world = World(1000, 10, (ChangeClass(10, 0.5), ChangeClass(90, 1000.0)))
    pages = [page for hour in range(10 * HOURS) for _, some in world.hour(hour) for page in some]
    often = sum(page % 100 < 10 for page in pages)
    assert often == pytest.approx(100 / 0.5 * 10, rel=0.15)  # a page twice in an hour counts once
    assert len(pages) - often < 30


def test_what_is_needed_follows_its_formulas() -> None:
    a, c = Assumptions(urls=1e9, changes_per_day=0.1, peak=2, busy=0.5), Costs(bot_us=200)
    pages = 1e9 * 0.1 / 86400 * 2
    assert amount("changed pages, busiest hour", a, c) == pytest.approx(pages)
    assert amount("robots", a, c) == pytest.approx(pages * 200e-6 / 0.5)
    assert amount("content on disk", a, c) == pytest.approx(30)
    assert amount("content on disk", attrs.evolve(a, page_bytes=60e3), c) == pytest.approx(60)
    assert amount("LCCs, each with a QM and a database", a, attrs.evolve(c, row_bytes=5000)) == 5


def test_a_reader_can_put_in_other_figures() -> None:
    assert "| content on disk | 3 TB |" in modelled(["urls=1e9", "page_bytes=3000"])
    with pytest.raises(SystemExit, match="no such figure: pages"):
        modelled(["pages=1"])
    with pytest.raises(SystemExit, match="NAME=NUMBER"):
        modelled(["urls=many"])


def test_the_simulation_fetches_what_it_is_told_of(tmp_path: Path) -> None:
    urls = 4000
    found = simulate(tmp_path / "world", True, World(urls, 10), urls * changes_per_day() / HOURS, 2 * HOURS)
    hours = found["hours"]
    assert sum(hour["told"] for hour in hours) > urls * changes_per_day()
    assert hours[-1]["queued"] < 10
    # A page that is told again while it is queued is fetched once.
    fetched = sum(hour["fetched"] for hour in hours)
    assert 0.9 * sum(hour["told"] for hour in hours) <= fetched <= sum(hour["told"] for hour in hours)
    assert found["costs"]["record"]["items"] == fetched
    assert found["costs"]["delete files"]["items"] == fetched
    middle = found["middle"]
    assert not any(hour["fetched"] for hour in hours[middle : middle + 6])
    assert hours[middle + 5]["queued"] > 0
    seen, reckoned = drained_after(found)
    assert abs(seen - reckoned) <= 3


def test_the_classes_are_all_pages() -> None:
    assert sum(each.hundredths for each in CLASSES) == 100
