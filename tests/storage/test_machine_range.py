"""The range of machine ids of a sub-LCC, on each database."""

from __future__ import annotations

import pytest

from lcc.storage.providers.pid_range import RangeTaken
from lcc.storage.queue.machine_range import limit_machines, machine_fault, machine_range
from tests.support.databases import DirectDatabase


def add_machines(database: DirectDatabase, *machines: int) -> None:
    columns = ("machine", "last_seen", "lease_until", "names_upto")
    database.now(lambda txn: txn.insert("machines", columns, [(each, 0, 0, 0) for each in machines]))


def test_without_a_range_all_are_let_in(database: DirectDatabase) -> None:
    assert database.now(machine_range) == (0, 0)
    assert database.now(machine_fault, 1) == database.now(machine_fault, 1 << 20) == ""


def test_both_ends_are_of_the_range(database: DirectDatabase) -> None:
    database.now(limit_machines, 11, 20)
    assert database.now(machine_range) == (11, 20)
    assert [database.now(machine_fault, machine) for machine in (11, 20)] == ["", ""]
    for machine in (10, 21):
        assert f"machine {machine} is not of the range 11 to 20" in database.now(machine_fault, machine)


def test_a_range_may_be_another_one_as_long_as_all_machines_are_of_it(database: DirectDatabase) -> None:
    add_machines(database, 11, 20)
    database.now(limit_machines, 11, 20)
    for first, last, other in ((12, 20, 11), (11, 19, 20), (30, 40, 11)):
        with pytest.raises(RangeTaken, match=f"it has machine {other}, its range is {first} to {last}"):
            database.now(limit_machines, first, last)
    assert database.now(machine_range) == (11, 20)
    database.now(limit_machines, 1, 30)
    assert database.now(machine_range) == (1, 30)


def test_where_it_is_stored(database: DirectDatabase) -> None:
    """Later versions, and backups, find it there."""
    database.now(limit_machines, 11, 20)
    sql = "SELECT name, value FROM meta WHERE name LIKE 'machine%' ORDER BY name"
    assert database.now(lambda txn: txn.query(sql)) == [("machine_first", "11"), ("machine_last", "20")]
