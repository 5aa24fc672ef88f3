"""A slice of ``make kill-sources``, and what its oracle finds."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest

from tests.support.databases import need_galera
from tests.support.waiting import wait_for

from .cluster import Kind, Registered
from .evidence import Evidence, Row, Stats
from .journal import ACCEPTED, DELETE, UNKNOWN, UPDATE, Changed, Journal, Op, Push, ToldSet
from .oracle import Case
from .pages import content
from .run import PATIENCE_SECONDS, run
from .sites import FEED, SITEMAP
from .sources import BACKENDS, SourcesRun, plan_of
from .sources_oracle import (
    check_items,
    check_reports,
    check_search,
    check_subscriber,
    judge_sources,
    without_documents,
    word_of,
)

SEED = int(os.environ.get("LCC_KILL_SEED", "0")) or time.time_ns() % 100_000
KILLS, FEW = 8, 3
PORT = 8000
ROOT = f"http://127.0.0.1:{PORT}/p/"
SITE = Registered(1, "secret", "p", Kind())


class Quick(SourcesRun):
    """Its documents are polled at once in the end."""

    def wait_for_polls(self, since: float) -> None:
        for number in (1, 2):
            for each in self.providers:
                root = f"http://127.0.0.1:{self.port}/{each.name}/"
                self.cluster.admin("sitemap", "poll", f"{root}{SITEMAP}")
                self.cluster.admin("feed", "poll", f"{root}{FEED}")
            wait_for("each document is polled", partial(self._is_polled, since, number), PATIENCE_SECONDS)

    def _is_polled(self, since: float, times: int) -> bool:
        return self.polls(since) >= times


def test_sources_survive_a_few_kills() -> None:
    """All roles work, few of them are killed in so short a time, and the oracle is that of the long runs."""
    print(f"LCC_KILL_SEED={SEED}")
    plan = attrs.evolve(plan_of(SEED, "sqlite", kills=FEW, sites=1, plain_share=0.0), pace_seconds=2.0, robots=1)
    report = run(plan, print, Quick)
    print(report)
    assert sum(report["kills"].values()) >= FEW
    for what in ("polls", "pages", "deliveries", "cached"):
        assert report[what], what


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_sources_survive_kills(backend: str) -> None:
    if backend == "galera":
        need_galera()
    print(f"LCC_KILL_SEED={SEED}")
    report = run(plan_of(SEED, backend, kills=KILLS, sites=2), print, SourcesRun)
    print(report)
    assert sum(report["kills"].values()) >= KILLS
    for what in ("accepted", "polls", "pages", "deliveries", "cached"):
        assert report[what], what


# What the oracle finds.


def told(number: int, how: str, *ops: Op, full: bool = False) -> ToldSet:
    when = float(number)
    faults = 0, (), len(ops)
    by_name = {op.name: op for op in ops}
    return ToldSet(number, 1, 9000, full, by_name, when, number, how, *faults, welcomed=when, answered=when + 0.5)


def row(name: str, version: int, file: int) -> Row:
    data = content(f"/p/{name}", version)
    return Row(1, ROOT + name, True, file, hashlib.md5(data).hexdigest(), len(data), 1, file, data)


def gone(name: str, change: int) -> Row:
    return Row(1, ROOT + name, False, change, "", 0, None, None)


def page(*versions: int, listed: bool = False, item: bool = False, gone: float = 0.0) -> list[Changed]:
    """A page that has changed at these times, and has the version of its time."""
    history = [Changed(float(version), version, True, listed, item) for version in versions]
    return [*history, Changed(gone, versions[-1], False, False, False)] if gone else history


def sound() -> Case:
    """All is well: each page is as its sources leave it.

    told: by sets only; pushed: by a push whose answer has come; maybe: by one without; listed, item: in the documents
    both: told no longer, and listed; left: listed no longer, and nobody else names it; deleted: by a set; lost: gone,
    as a push has said; unsaid: gone, and nobody has said so.
    """
    sets = [
        told(10, ACCEPTED, *(Op(f"1-{name}", name, UPDATE, 1) for name in ("told", "both", "deleted", "unsaid"))),
        told(20, ACCEPTED, *(Op(f"2-{name}", name, UPDATE, 2) for name in ("told", "deleted", "unsaid")), full=True),
        told(30, ACCEPTED, Op("3-deleted", "deleted", DELETE, 2)),
        told(40, UNKNOWN, Op("4-unsaid", "unsaid", DELETE, 2)),
    ]
    pages = {
        "told": page(1, 2),
        "both": page(1, listed=True),
        "pushed": page(1, 7),
        "maybe": page(1),
        "listed": page(1, 2, listed=True),
        "item": page(3, item=True),
        "left": page(1),
        "deleted": page(1, 2, gone=25.0),
        "lost": page(1, gone=25.0),
        "unsaid": page(1, 2, gone=35.0),
    }
    pushes = {
        1: Push(1, ("pushed",), 8.0, 200),
        2: Push(1, ("maybe",), 9.0),
        3: Push(1, ("lost",), 9.0, 202),
        4: Push(1, ("lost",), 26.0, 200),
    }
    versions = {"told": 2, "both": 1, "pushed": 7, "listed": 2, "item": 3, "unsaid": 2}
    rows = [row(name, version, number) for number, (name, version) in enumerate(versions.items(), 1)]
    rows += [gone("left", 7), gone("deleted", 8), gone("lost", 9)]
    space = sum(each.length or 0 for each in rows if each.cached)
    heard = {each.curl: (each.change, "cached" if each.cached else "deleted") for each in rows}
    return Case(
        [SITE],
        PORT,
        Journal(
            {each.number: each for each in sets},
            pages={(1, name): history for name, history in pages.items()},
            pushes=pushes,
            heard=heard,
        ),
        Evidence(rows, [], {1: Stats(1, 6, space, 0, 0, 0, "")}, 9, {}),
    )


def judged(case: Case) -> list[str]:
    return [violation.text for violation in judge_sources([SITE], [], case)]


def test_nothing_is_wrong() -> None:
    assert judged(sound()) == []
    assert not list(check_subscriber(sound()))


def without(case: Case, name: str) -> Case:
    """The page is not cached; the books are right."""
    rows = [each for each in case.evidence.rows if each.curl != ROOT + name]
    cached = [each for each in rows if each.cached]
    stats = Stats(1, len(cached), sum(each.length or 0 for each in cached), 0, 0, 0, "")
    return attrs.evolve(case, evidence=attrs.evolve(case.evidence, rows=rows, stats={1: stats}))


def with_row(case: Case, name: str, version: int) -> Case:
    """This version of the page is cached."""
    case = without(case, name)
    rows = [*case.evidence.rows, row(name, version, 90)]
    cached = [each for each in rows if each.cached]
    stats = Stats(1, len(cached), sum(each.length or 0 for each in cached), 0, 0, 0, "")
    return attrs.evolve(case, evidence=attrs.evolve(case.evidence, rows=rows, stats={1: stats}, last_change=90))


@pytest.mark.parametrize("name", ["told", "both", "pushed", "listed", "item"])
def test_a_page_that_is_lost_is_found(name: str) -> None:
    (found,) = judged(without(sound(), name))
    assert f"{ROOT}{name}," in found and "it is not cached, and is" in found


@pytest.mark.parametrize(("name", "version"), [("told", 1), ("pushed", 1), ("listed", 1)])
def test_an_old_version_is_found(name: str, version: int) -> None:
    (found,) = judged(with_row(sound(), name, version))
    assert f"{ROOT}{name}," in found and f"version {version} is cached" in found


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("left", "nobody names it"),
        ("deleted", "the LCC knows that it is gone"),
        ("lost", "the LCC knows that it is gone"),
        ("strange", "has never been"),
    ],
)
def test_a_page_that_must_not_be_there_is_found(name: str, fault: str) -> None:
    (found,) = judged(with_row(sound(), name, 1))
    assert f"{ROOT}{name}" in found and fault in found


@pytest.mark.parametrize("change", [without, lambda case, name: with_row(case, name, 2)])
@pytest.mark.parametrize("name", ["maybe", "unsaid"])
def test_what_nobody_can_know_is_no_fault(change: Callable[[Case, str], Case], name: str) -> None:
    assert judged(change(sound(), name)) == []


def test_documents_that_are_polled_are_no_pages() -> None:
    case = sound()
    rows = [*case.evidence.rows, attrs.evolve(row("told", 1, 20), curl=f"{ROOT}sitemap.xml")]
    assert without_documents(attrs.evolve(case.evidence, rows=rows)).rows == case.evidence.rows


def test_a_change_of_which_the_subscriber_has_not_heard_is_found() -> None:
    case = sound()
    for name, heard in (("told", (0, "cached")), ("left", (7, "cached"))):
        wrong = attrs.evolve(case.journal, heard=case.journal.heard | {ROOT + name: heard})
        (found,) = check_subscriber(attrs.evolve(case, journal=wrong))
        assert f"{ROOT}{name}" in found.text
    denied = attrs.evolve(case.journal, unheard=["/callback?hub.mode=denied"])
    assert [each.promise for each in check_subscriber(attrs.evolve(case, journal=denied))] == ["hub"]


def test_of_two_views_of_a_page_the_later_change_counts() -> None:
    case = sound()
    for rows in ([gone("told", 0), *case.evidence.rows], [*case.evidence.rows, gone("told", 0)]):
        older = [attrs.evolve(each, change=each.change + 10) if each.change else gone("told", 5) for each in rows]
        heard = {curl: (change + 10, state) for curl, (change, state) in case.journal.heard.items()}
        judged = attrs.evolve(case, journal=attrs.evolve(case.journal, heard=heard))
        assert not list(check_subscriber(attrs.evolve(judged, evidence=attrs.evolve(case.evidence, rows=older))))


def items(*titles: str) -> list[dict[str, Any]]:
    return [{"link": f"{ROOT}item", "title": title} for title in titles]


@pytest.mark.parametrize(
    ("there", "faults"),
    [
        (("item version 3",), 0),
        ((), 1),
        (("item version 3", "item version 3"), 1),
        (("item version 2",), 2),
    ],
)
def test_items_that_are_missing_old_or_twice_are_found(there: tuple[str, ...], faults: int) -> None:
    assert len(list(check_items(sound(), items(*there)))) == faults


def test_what_the_search_does_not_find_and_what_it_finds_too_much_is_found() -> None:
    index = {word_of(f"/p/{each.curl.removeprefix(ROOT)}", 0): [] for each in sound().evidence.rows}
    for name, version in {"told": 2, "both": 1, "pushed": 7, "listed": 2, "item": 3, "unsaid": 2}.items():
        index[word_of(f"/p/{name}", version)] = [ROOT + name]

    def search(word: str) -> list[str]:
        return index.get(word, [])

    assert not list(check_search(sound(), search))
    for path, version, urls in (
        ("/p/told", 2, []),
        ("/p/told", 1, [f"{ROOT}told"]),
        ("/p/deleted", 2, [f"{ROOT}deleted"]),
    ):
        before = dict(index)
        index[word_of(path, version)] = urls
        (found,) = check_search(sound(), search)
        assert f"version {version} of {path}" in found.text
        index = before


@pytest.mark.parametrize(
    ("reports", "faults"),
    [
        ([{"state": "proven", "reason": "", "pushes": [{"state": "told"}]}], 0),
        ([{"state": "proven", "reason": "", "pushes": [{"state": "told"}, {"state": "waiting"}]}], 1),
        ([{"state": "refused", "reason": "not found", "pushes": [{"state": "told"}]}], 1),
        ([{"state": "proven", "reason": "", "pushes": []}], 1),
        ([], 1),
    ],
)
def test_pushes_that_were_not_told_are_found(reports: list[dict[str, Any]], faults: int) -> None:
    assert len(list(check_reports(sound(), {1: reports}))) == faults
