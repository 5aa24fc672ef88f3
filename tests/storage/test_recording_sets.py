"""Sets while their rows are recorded: told of beforehand or read, looked at one by one or together, counted wrong."""

from __future__ import annotations

import pytest

from lcc.storage.queue import set_rows
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

SETS = 6


@pytest.mark.parametrize("few", [0, 4, SETS])
@pytest.mark.parametrize("known", ["none", "some", "all", "others"])
@pytest.mark.parametrize("counted", ["right", "too low"])
def test_sets_lose_their_rows(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, few: int, known: str, counted: str
) -> None:
    monkeypatch.setattr(set_rows, "_FEW", few)
    for number in range(SETS):
        queue.send(number + 1, notice(f"{number}a"), notice(f"{number}b"))
    if counted == "too low":
        queue.database.now(lambda txn: txn.execute("UPDATE qpsdb SET nurls = 1"))
    rows = queue.rows()
    psetids = sorted({row.psetid for row in rows})
    told = {"none": [], "some": psetids[:2], "all": psetids, "others": [*psetids[1:], 999_999]}[known]
    first = [row for row in rows if row.notice.curl.endswith("a")]
    result_of(queue.store.record([queue.fetched(row) for row in first], [], 20, psetids=told))
    assert queue.rows() == [row for row in rows if row not in first]
    if counted == "right":
        queue.check_books()
    result_of(queue.store.record([queue.fetched(row) for row in queue.rows()], [], 20, psetids=told))
    assert queue.rows() == [] and queue.database.query("SELECT psetid FROM qpsdb") == []


def test_a_long_set(queue: Queue) -> None:
    """What was recorded is not looked through again."""
    queue.send(1, *[notice(f"{number:02}") for number in range(80)])
    rows = queue.rows()
    for upto in (40, 79):
        result_of(queue.store.record([queue.fetched(row) for row in rows[upto - 40 : upto]], [], 20, psetids=[1]))
        queue.check_books()
    assert queue.database.query("SELECT firstseq, nurls FROM qpsdb") == [(80, 1)]
