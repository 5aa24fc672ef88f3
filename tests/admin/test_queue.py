"""``lcc-admin queue``."""

from __future__ import annotations

import pytest

from lcc.admin.queue import queue
from lcc.storage.database.tables.rows import QUEUE
from lcc.storage.database.transactions import Txn
from tests.support.admin import Lcc

SET = ("psetid", "slot", "pid", "pri", "connseq", "fullset", "firstseq", "lastseq", "nurls", "time")


def fill(txn: Txn) -> None:
    """Three sets of two URLs each, of providers 1, 2, 1."""
    for psetid, pid in ((1, 1), (2, 2), (3, 1)):
        txn.insert("qpsdb", SET, [(psetid, -1, pid, 0, 1, psetid == 3, 1, 2, 2, 1_700_000_000)])
        for seq in (1, 2):
            own = {
                "urlkey": pid.to_bytes(4, "big") + (10 * psetid + seq).to_bytes(16, "big"),
                "curl": f"http://www.example.org/{psetid}/{seq}",
                "mimetype": "text/html",
                "operation": seq % 2,
            }
            place = {"pid": pid, "psetid": psetid, "slot": -1, "seq": seq, "len": None, "mtime": None}
            numbers = dict.fromkeys(("generation", "connseq", "attempts", "unreached", "seen", "ifabsent"), 0)
            numbers["source"] = 1
            row = {**dict.fromkeys(QUEUE.columns, ""), **numbers, **place, **own}
            txn.insert("qdb", list(row), [tuple(row.values())])


def add_providers(lcc: Lcc) -> None:
    for number in (1, 2):
        lcc.admin("provider", "add", "--root", f"http://www.example.org/{number}/")


@pytest.fixture(params=[1000, 1])
def filled(lcc: Lcc, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Lcc:
    monkeypatch.setattr(queue, "PAGE_ROWS", request.param)
    lcc.write(fill)
    add_providers(lcc)
    return lcc


def test_sets(filled: Lcc) -> None:
    rows = filled.rows("queue")
    assert [row["psetid"] for row in rows] == [1, 2, 3]
    assert rows[2] == {
        "psetid": 3, "slot": None, "pid": 1, "priority": 0, "connseq": 1, "full": True, "queued": 2,
        "time": 1_700_000_000, "next_try": None, "waits_for": [],
    }  # fmt: skip
    assert [row["psetid"] for row in filled.rows("queue", "--provider", "1")] == [1, 3]
    assert filled.rows("queue", "--limit", "1") == rows[:1]


@pytest.mark.parametrize("options", [[], ["--urls"], ["--json"]])
def test_an_unknown_provider(lcc: Lcc, options: list[str]) -> None:
    assert "there is no provider 77" in lcc.admin("queue", "--provider", "77", *options, code=1).output


def test_urls(filled: Lcc) -> None:
    rows = filled.rows("queue", "--urls")
    assert sorted((row["psetid"], row["seq"]) for row in rows) == [(s, n) for s in (1, 2, 3) for n in (1, 2)]
    assert {(row["seq"], row["operation"]) for row in rows} == {(1, "fetch"), (2, "nothing")}
    (row,) = filled.rows("queue", "--urls", "--provider", "2", "--limit", "1")
    assert row["furl"] == row["burl"] == row["curl"] == "http://www.example.org/2/1"


def test_the_tables(filled: Lcc) -> None:
    assert len(filled.admin("queue").stdout.splitlines()) == 4
    assert len(filled.admin("queue", "--urls").stdout.splitlines()) == 7


def test_an_empty_queue_is_said_to_be(lcc: Lcc) -> None:
    assert lcc.rows("queue") == lcc.rows("queue", "--urls") == []
    for arguments in (["queue"], ["queue", "--urls"]):
        assert lcc.admin(*arguments).stdout == "the queue is empty\n"


@pytest.mark.parametrize("listing", [["urls"], ["queue"], ["queue", "--urls"]])
@pytest.mark.parametrize("option", ["--provider", "--limit"])
def test_numbers_beyond_what_the_tables_hold(lcc: Lcc, listing: list[str], option: str) -> None:
    output = lcc.admin(*listing, option, "9" * 25, code=2).output
    assert "range" in output or "from 1 to" in output
