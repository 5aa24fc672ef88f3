"""A slice of ``make kill-moves``, and what its oracle finds."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import need_galera
from tests.support.processes.followers import Telling

from .cluster import Kind, Registered
from .evidence import Evidence, Row
from .journal import Asked, Gave, Journal, Newcomer
from .listings import Listing
from .moves import BACKENDS, CELLS, NODE, Plan, next_cells, random_kills, run, table
from .moves_oracle import (
    check_copies,
    check_homes,
    check_listings,
    check_newcomers,
    check_quiet,
    check_ranges,
    check_repeats,
    judge_all,
    registered,
    whole_case,
)
from .results import Results
from .sub_lccs import Found

SEED = int(os.environ.get("LCC_KILL_SEED", "0")) or time.time_ns() % 100_000


def test_moves_survive_a_few_kills() -> None:
    print(f"LCC_KILL_SEED={SEED}")
    plan = Plan(
        SEED,
        "sqlite",
        ("copying, destination all", "active, source all"),
        kills=0,
        quiet=0,
        subs=2,
        providers=3,
        noticed=1,
        newcomer_seconds=3.0,
        followers=1,
        pace_seconds=1.0,
        move_seconds=1.0,
        special=(),
        whole=True,
    )
    report = run(plan, print)
    print(report)
    assert report["cells"] and report["moves"].get("done"), "it has done nothing"
    # Newcomers come at random; there may be none in so short a time.
    for what in ("accepted", "cached", "noticed_sets", "listings", "resource_lists", "told"):
        assert report[what], what


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_moves_survive_kills(backend: str, tmp_path: Path) -> None:
    if backend == "galera":
        need_galera()
    print(f"LCC_KILL_SEED={SEED}")
    cells = next_cells(Results(tmp_path / "none"), backend, 6, random.Random(SEED))
    report = run(Plan(SEED, backend, cells, 12, 4, providers=12), print)
    print(report)
    assert report["cells"] and report["moves"].get("done")


def test_what_is_killed_next(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    assert next_cells(results, "galera", 3, random.Random(1)) != next_cells(results, "galera", 3, random.Random(2))
    assert not [cell for cell in next_cells(results, "sqlite", 1000, random.Random(1)) if cell.endswith(NODE)]
    others = {cell: 1 for cell in CELLS if cell != "flipped, node"}
    results.add({"backend": "sqlite", "kills": {"qm": 2}, "cells": others, "moves": {"done": 3}, "violations": 0})
    assert next_cells(results, "galera", 1, random.Random(1)) == ("flipped, node",)
    assert f"{len(CELLS) - 1} of {len(CELLS)} cells" in table(results)
    results.add(
        {"backend": "sqlite", "kills": {"qm": 40, "uns": 30}, "cells": {CELLS[0]: 1}, "moves": {}, "violations": 0}
    )
    assert random_kills(results) == 72 - len(CELLS)


# What the oracle finds.

PROVIDER = Registered(1, "", "p00", Kind())


def found(homes: set[str], placed: str = "one", **rows: list[Row]) -> Found:
    evidence = {name: Evidence(rows.get(name, []), [], {}, 9, {}) for name in ("one", "two")}
    return Found(evidence, {1: homes}, {1: placed})


def row(change: int = 1, **more: Any) -> Row:
    fields = {"machine": 1, "file": 1, "data": b"", "length": 0, "md5": "d41d8cd98f00b204e9800998ecf8427e"} | more
    return Row(1, "http://127.0.0.1:80/p00/a.html", True, change, **fields)


def test_one_home_is_no_fault() -> None:
    assert not list(check_homes(found({"one"})))


@pytest.mark.parametrize(
    ("seen", "fault"),
    [
        (found({"one", "two"}), "in ['one', 'two']; the front end has it in one"),
        (found(set()), "is in []"),
        (found({"two"}), "the front end has it in one"),
        (found({"one"}, "frozen in 1"), "the front end has it in frozen in 1"),
        (Found({}, {1: {"one"}, 7: {"one"}}, {1: "one"}), "nobody has registered it"),
    ],
)
def test_a_provider_in_two_places_or_none_is_found(seen: Found, fault: str) -> None:
    (violation,) = check_homes(seen)
    assert fault in violation.text


def test_what_two_sub_lccs_number_alike_is_no_fault_but_within_one() -> None:
    judged = lambda seen: {  # noqa: E731
        violation.promise for violation in judge_all([PROVIDER], 80, Journal(), seen) if violation.promise == "feed"
    }
    assert not judged(found({"one"}, one=[row()], two=[row(machine=2)]))
    assert judged(found({"one"}, one=[row(), row(file=2)]))


def test_a_user_with_another_copy_is_found() -> None:
    case = whole_case([PROVIDER], 80, Journal(), found({"one"}, one=[row()]))
    same = {row().curl: (row().md5, row().md5)}
    assert not list(check_copies(case, [same, same]))
    assert [violation.text[:6] for violation in check_copies(case, [same, {}])] == ["user 2"]


def told(page: str, md5: str = "m", state: str = "cached", time: float = 1.0, kept: bool = True) -> Telling:
    return Telling(page, f"http://127.0.0.1:80/p00/{page}", state, md5, time, kept)


@pytest.mark.parametrize(
    ("tellings", "flips", "faults"),
    [
        ([told("a"), told("b"), told("a", "n")], 0, 0),
        ([told("a"), told("a", state="deleted"), told("a")], 0, 0),
        ([told("a", kept=False), told("a")], 0, 0),
        ([told("a"), told("a")], 0, 1),
        ([told("a"), told("a")], 1, 0),
        ([told("a"), told("a", kept=False), told("a")], 1, 0),
        ([told("a"), told("a"), told("a")], 1, 1),
        ([told("a"), told("a", time=11.0)], 1, 1),
        ([told("gone"), told("gone")], 0, 0),
        ([told("gone"), told("gone"), told("gone")], 0, 1),
        ([told("gone"), told("gone", time=11.0)], 0, 1),
    ],
)
def test_what_is_told_again_is_found(tellings: list[Telling], flips: int, faults: int) -> None:
    """One page was not found for a moment."""
    journal = Journal(gave=[Gave(1, "/p00/gone", 1.0, 404, 0)])
    case = whole_case([PROVIDER], 80, journal, found({"one"}))
    assert len(list(check_repeats(case, [tellings], {1: flips}, 10.0))) == faults


def test_a_wrong_listing_is_found() -> None:
    case = whole_case([PROVIDER], 80, Journal(), found({"one"}, one=[row()]))
    page = (row().curl, row().md5)

    def faults(pid: int, began: float, *pages: tuple[str, str]) -> int:
        return len(list(check_listings(case, [Listing(pid, began, began + 1, list(pages))], 10.0)))

    assert faults(0, 11.0, page) == faults(1, 11.0, page) == 0
    assert faults(0, 1.0) == faults(2, 11.0) == 0
    assert faults(0, 11.0) == faults(1, 11.0) == faults(0, 11.0, (page[0], "another")) == faults(2, 11.0, page) == 1
    assert faults(0, 1.0, page, page) == 1


@pytest.mark.parametrize(
    ("pids", "there", "making", "faults"),
    [
        ((7,), {7: "n001"}, set(), 0),
        ((), {}, set(), 0),
        ((), {7: "n001"}, {7}, 0),
        ((7,), {}, set(), 1),
        ((7,), {8: "n001"}, set(), 1),
        ((7,), {7: "n001", 8: "n001"}, set(), 1),
        ((), {7: "n001", 8: "n001"}, set(), 1),
        ((7, 8), {7: "n001"}, set(), 1),
        ((7,), {7: "n001"}, {7}, 1),
    ],
)
def test_a_newcomer_who_is_two_or_none_is_found(
    pids: tuple[int, ...], there: dict[int, str], making: set[int], faults: int
) -> None:
    roots = {pid: {f"http://127.0.0.1:80/{name}/"} for pid, name in there.items()}
    seen = Found({}, {}, {}, roots, {}, making)
    journal = Journal(newcomers={"n001": Newcomer("n001", pids)})
    assert len(list(check_newcomers(80, journal, seen))) == faults
    assert [each.pid for each in registered(80, journal, roots)] == sorted(there)


def test_an_id_of_another_sub_lcc_is_found() -> None:
    there, moved = Found({}, {}, {1: "two"}), Found({}, {}, {1: "two"}, {}, {1: "one"})
    assert not list(check_ranges([PROVIDER], there, {1: "two"})) and not list(
        check_ranges([PROVIDER], moved, {1: "one"})
    )
    assert list(check_ranges([PROVIDER], there, {1: "one"})) and list(check_ranges([PROVIDER], moved, {1: "two"}))


def test_a_fetch_that_nobody_has_told_is_found() -> None:
    assert not list(check_quiet([]))
    assert "fetched for a move" in next(check_quiet([Asked(1, "/p00/a.html", 1.0, "bot", 1, 0.0)])).text
