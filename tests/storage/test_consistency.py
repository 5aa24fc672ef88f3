"""Rebuilding ``qpsdb`` and the counters, and the check in the background, on each database."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.model.frontend.moves import Fence
from lcc.storage.database.tables.order_rows import REBUILD, add_order
from lcc.storage.queue.maintenance import consistency
from lcc.storage.queue.maintenance.consistency import believed
from tests.storage.test_following import fence
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

SETS = "SELECT psetid, slot, pid, pri, connseq, fullset, firstseq, lastseq, nurls FROM qpsdb ORDER BY psetid, slot"
COUNTERS = "SELECT pid, files_used, space_used, nurlproc, files_pending, space_pending FROM pstats ORDER BY pid"
NOON = 12 * 3600


@pytest.fixture
def full(queue: Queue, logged_errors: Any) -> Queue:
    """Several providers with sets of all kinds, some of it fetched."""
    for _ in range(4):
        queue.send(1, *[notice(f"{number}") for number in range(7)], now=NOON)
        queue.record(*[queue.fetched(row) for row in queue.rows()[:3]])
        queue.send(2, *[notice(f"{number}", "1", length=number) for number in range(9)], full=True, now=NOON)
        queue.send(3, notice("h1", hours="3"), notice("h2", hours="4", length=5), notice("h3"), now=NOON)
        queue.send(4, notice("1", delete=True), notice("8", delete=True), now=NOON)
        queue.record(*[queue.failed(row, 503) for row in queue.rows()[3:5]])
        queue.check_books()
        queue.pid = queue.add_provider()
    return queue


def rebuild(queue: Queue) -> dict[int, tuple[int, int]]:
    queue.database.now(add_order, REBUILD)
    done = queue.carry_out(NOON)
    assert (REBUILD, 0, 0) in done.finished
    return done.work.queued


def loose(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Without the bounds of places, which need not be tight, and the connection, which the rows need not know."""
    return [(*row[:4], row[5], row[8]) for row in rows]


@pytest.mark.parametrize("page", [1, 2, 3, 5, 1000])
def test_rebuilt_from_nothing_it_is_as_before(
    full: Queue, logged_errors: Any, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consistency, "PAGE_ROWS", page)
    monkeypatch.setattr(consistency, "PAGE_SETS", page)
    query = full.database.query
    sets, counters = query(SETS), query(COUNTERS)
    assert {-1, 3, 4} < {row[1] for row in sets}, "and some wait to be tried again"
    full.database.now(lambda txn: txn.execute("DELETE FROM qpsdb"))
    full.database.now(
        lambda txn: txn.execute(
            "UPDATE pstats SET files_used = 99, space_used = 0, nurlproc = 0, files_pending = 7, space_pending = 1"
        )
    )
    queued = rebuild(full)
    assert loose(query(SETS)) == loose(sets) and query(COUNTERS) == counters
    assert queued == {row[2]: min((r[0], r[6]) for r in query(SETS) if r[2] == row[2] and r[1] == -1) for row in sets}
    for pid in {row[2] for row in sets}:
        full.pid = pid
        full.check_books()
    assert logged_errors.flush()


def test_where_all_is_right_nothing_is_done(full: Queue) -> None:
    query = full.database.query
    before = query("SELECT * FROM qpsdb ORDER BY psetid, slot"), query("SELECT * FROM pstats ORDER BY pid")
    assert rebuild(full) == {}
    full.keep_house(NOON)
    assert (query("SELECT * FROM qpsdb ORDER BY psetid, slot"), query("SELECT * FROM pstats ORDER BY pid")) == before


DAMAGE: dict[str, str] = {
    "a set is missing": "DELETE FROM qpsdb WHERE psetid = 2",
    "a set has no rows": "INSERT INTO qpsdb"
    " (psetid, slot, pid, pri, connseq, fullset, firstseq, lastseq, nurls, time)"
    " VALUES (999, -1, 1, 0, 1, 0, 1, 5, 5, 0)",
    "a count is too high": "UPDATE qpsdb SET nurls = nurls + 3",
    "a count is too low": "UPDATE qpsdb SET nurls = 1",
    "places are outside": "UPDATE qpsdb SET firstseq = firstseq + 3, lastseq = lastseq - 1",
    "rows are lost": "DELETE FROM qdb WHERE seq = 3",
    "the queue is counted wrong": "UPDATE counters SET value = value + 3 WHERE name = 'queued'",
    "content is lost": "DELETE FROM lccurl WHERE len IS NOT NULL",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("mend", [rebuild, lambda queue: queue.keep_house(NOON)], ids=["rebuild", "background"])
def test_damage_is_mended(full: Queue, logged_errors: Any, damage: str, mend: Callable[[Queue], Any]) -> None:
    full.database.now(lambda txn: txn.execute(DAMAGE[damage]))
    mend(full)
    assert logged_errors.flush()
    for (pid,) in full.database.query("SELECT pid FROM pidb"):
        full.pid = pid
        full.check_books()
        full.fetch_all()
        full.check_books()


def test_providers_some_of_whose_rows_are_elsewhere_are_left_alone(
    full: Queue, logged_errors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consistency, "PAGE_ROWS", 3)
    monkeypatch.setattr(consistency, "PAGE_SETS", 2)
    query, write = full.database.query, full.database.now
    before = query(COUNTERS)
    first, second, third, fourth, *_ = (pid for (pid,) in query("SELECT pid FROM pidb ORDER BY pid"))
    fence(full, second, Fence.LEFT)
    fence(full, third, Fence.ARRIVING)
    fence(full, fourth, Fence.FROZEN)
    write(lambda txn: txn.execute("DELETE FROM qpsdb"))
    write(lambda txn: txn.execute("UPDATE pstats SET files_used = 99"))
    lonely = "INSERT INTO qpsdb (psetid, slot, pid, pri, connseq, fullset, firstseq, lastseq, nurls, time)"
    for pid in (first, second):
        write(lambda txn, pid: txn.execute(f"{lonely} VALUES (99{pid}, -1, {pid}, 0, 1, 0, 1, 5, 5, 0)"), pid)
    queued = rebuild(full)
    assert queued.keys() == {first, fourth}
    assert {row[2] for row in query(SETS)} == {first, second, fourth}
    assert [row[0] for row in query(SETS) if row[2] == second] == [990 + second]
    expected = [(pid, 99, *rest) if pid in (second, third) else (pid, used, *rest) for pid, used, *rest in before]
    assert query(COUNTERS) == expected
    assert logged_errors.flush()


@pytest.mark.parametrize("sql", ["DELETE FROM qpsdb", "UPDATE qpsdb SET nurls = 1"])
def test_until_then_it_goes_on(full: Queue, logged_errors: Any, sql: str) -> None:
    """Nothing is forgotten because of a set that is missing or counted wrong."""
    full.pid = 1
    rows = full.rows()
    full.database.now(lambda txn: txn.execute(sql))
    full.record(*[full.fetched(row) for row in rows if not row.delete][:2])
    full.record(*[full.failed(row, 503) for row in rows if not row.delete][2:4])
    full.keep_house(NOON)
    full.check_books()
    full.open_retries(200)
    assert len(full.rows()) == len(rows)
    full.check_books()
    logged_errors.flush()


def test_a_set_that_is_counted_while_it_is_fetched(full: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right counts stay right (nothing is logged), whatever happens between two pages."""
    monkeypatch.setattr(consistency, "PAGE_ROWS", 2)
    monkeypatch.setattr(consistency, "PAGE_SETS", 1)
    random = Random(1)
    full.pid = 1
    full.send(5, *[notice(f"more{number}") for number in range(40)], now=NOON)
    while result_of(full.store.housekeeping(NOON)).more:
        rows = [row for row in full.rows() if not row.delete]
        if rows and random.random() < 0.5:
            full.record(full.fetched(random.choice(rows)))
        full.check_books()


@given(counted=st.integers(0, 20), stored=st.integers(0, 20), before=st.integers(0, 20))
def test_what_is_believed(counted: int, stored: int, before: int) -> None:
    right = believed(counted, stored, before)
    assert right in (counted, stored)
    if stored == before:
        assert right == counted
    assert abs(right - counted) <= abs(stored - before)
    if abs(stored - counted) == abs(stored - before):
        assert right == stored, "all that has changed may have been counted before"
