"""Rows are read ahead for many providers at once, each from its own place, whatever the others have."""

from __future__ import annotations

from random import Random

import pytest

from lcc.model import FETCH_NOW, Cursor
from lcc.storage.database.transactions import Txn
from tests.support.databases import result_of
from tests.support.queue import Queue, notice


def filled(queue: Queue, random: Random, providers: int) -> list[int]:
    """Providers with few sets and with many, short ones and long ones, some rows of which are gone."""
    pids = []
    for _ in range(providers):
        queue.pid = queue.add_provider()
        pids.append(queue.pid)
        for connseq in range(1, 1 + random.choice([0, 1, 1, 1, 2, 3, 15])):
            names = [f"{connseq}/{number}" for number in range(random.choice([1, 1, 2, 3, 12]))]
            queue.send(connseq, *map(notice, names), full=random.random() < 0.2)
        rows = queue.rows()
        queue.record(*[queue.fetched(row) for row in rows[: random.randrange(len(rows) + 1) // 2]])
    return pids


def places(queue: Queue) -> dict[int, list[tuple[int, int]]]:
    """The places of all rows of each provider."""
    found: dict[int, list[tuple[int, int]]] = {}
    for pid, psetid, seq in queue.database.query("SELECT pid, psetid, seq FROM qdb WHERE slot = ?", [FETCH_NOW]):
        found.setdefault(pid, []).append((psetid, seq))
    return {pid: sorted(each) for pid, each in found.items()}


def check(queue: Queue, random: Random, pids: list[int]) -> None:
    """Each cursor gives the rows behind it, and how many its full set has left."""
    there = places(queue)
    sql = "SELECT psetid, nurls FROM qpsdb WHERE slot = ? AND fullset = 1"
    full = dict(queue.database.query(sql, [FETCH_NOW]))
    cursors = []
    for pid in random.sample(pids, len(pids)):
        psetid, seq = random.choice([(0, 0), *there.get(pid, [])])
        cursors.append(Cursor(pid, psetid, random.choice([0, seq]), random.choice([2, 3, 16])))
    aheads, _ = result_of(queue.store.read_ahead(cursors))
    for cursor, ahead in zip(cursors, aheads, strict=True):
        behind = [place for place in there.get(cursor.pid, []) if place > (cursor.psetid, cursor.seq)]
        read = [(row.psetid, row.seq) for row in ahead.rows]
        assert (ahead.pid, read) == (cursor.pid, behind[: cursor.limit])
        assert ahead.full_left == (full.get(read[-1][0], 0) if read else 0)


@pytest.mark.parametrize("seed", range(3))
def test_many_providers(queue: Queue, seed: int) -> None:
    random = Random(seed)
    pids = filled(queue, random, 12)
    for _ in range(30):
        check(queue, random, [*random.sample(pids, random.randrange(1, len(pids))), 9999])


def test_more_providers_than_one_statement_takes(queue: Queue) -> None:
    pids = []
    for _ in range(70):
        queue.pid = queue.add_provider()
        pids.append(queue.pid)
        queue.send(1, notice("a"), notice("b"))
    check(queue, Random(1), pids)


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_wrong_counts(queue: Queue, count: int) -> None:
    """What a set is said to have is not what is read."""
    random = Random(count)
    pids = filled(queue, random, 8)
    queue.database.now(Txn.execute, "UPDATE qpsdb SET nurls = ?", [count])
    for _ in range(20):
        check(queue, random, pids)


def test_partial_sets_only(queue: Queue) -> None:
    queue.send(1, notice("a"), full=True)
    queue.send(2, notice("b"))
    (ahead,), _ = result_of(queue.store.read_ahead([Cursor(queue.pid, 0, 0, 2, partial=True)]))
    assert [row.notice.curl[-1] for row in ahead.rows] == ["b"]
    queue.send(3, notice("c"), notice("d"))
    queue.send(4, notice("e"), full=True)
    queue.send(5, notice("f"))
    for limit in range(1, 6):
        (ahead,), _ = result_of(queue.store.read_ahead([Cursor(queue.pid, 0, 0, limit, partial=True)]))
        assert "".join(row.notice.curl[-1] for row in ahead.rows) == "bcdf"[:limit]


@pytest.mark.parametrize("many", [11, 12, 30])
def test_those_behind_one_with_many_sets(queue: Queue, many: int) -> None:
    """Sets of several providers are looked at together, up to a limit."""
    pids, cursors, expected = [], [], {}
    for sets in (many, 5, 2):
        queue.pid = queue.add_provider()
        pids.append(queue.pid)
        for connseq in range(1, sets + 1):
            queue.send(connseq, notice(f"{connseq}"))
        cursors.append(Cursor(queue.pid, 0, 0, 3))
        expected[queue.pid] = [f"{number}" for number in range(1, min(sets, 3) + 1)]
    aheads, providers = result_of(queue.store.read_ahead(cursors, pids))
    assert {ahead.pid: [row.notice.curl[12:] for row in ahead.rows] for ahead in aheads} == expected
    assert providers.keys() == set(pids)
