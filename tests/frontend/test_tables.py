"""FEDB and PMDB on both databases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from random import Random
from typing import Any

import attrs
import pytest

from lcc.config import DatabaseConfig
from lcc.model import Provider
from lcc.model.frontend.places import AtHome, Placement, SubState, Vitals
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import FE, MAIN, SchemaError, migrations
from lcc.storage.fe.placements import being_made, count_placed, made, placements, put_making, unmade
from lcc.storage.fe.sublccs import (
    NoSuchSubLcc,
    SubLccExists,
    add_sublcc,
    change_sublcc,
    get_sublcc,
    list_sublccs,
    list_vitals,
    report_vitals,
)
from lcc.storage.providers.pid_range import RangeTaken, highest_pid, limit_pids, reserve_pid
from lcc.storage.providers.providers import ProviderExists, add_provider
from lcc.storage.views.vitals import vitals as vital_signs
from tests.frontend.kit import NOW, sublcc, vitals
from tests.support.databases import DirectDatabase


@pytest.fixture
def front(backend: Any) -> Iterator[DirectDatabase]:
    direct = DirectDatabase(backend.url, backend.home, FE)
    yield direct
    direct.blocking.close()


@pytest.fixture
def own(backend: Any) -> Iterator[DirectDatabase]:
    """The database of a sub-LCC."""
    direct = DirectDatabase(backend.url, backend.home)
    yield direct
    direct.blocking.close()


def _new(number: int, **more: Any) -> Any:
    ranges = dict.fromkeys(("first_pid", "last_pid", "first_machine", "last_machine"), 0)
    return sublcc(number, **{**ranges, "subid": 0, "made_time": NOW, **more})


def test_who_adds_sub_lccs_at_the_same_time_gets_other_ranges(backend: Any, front: DirectDatabase) -> None:
    def add(number: int) -> list[tuple[int, int]]:
        database = BlockingDatabase(backend.url, backend.home, DatabaseConfig(), random=Random(number), series=FE)
        try:
            subs = [database.write(add_sublcc, _new(1, name=f"s{number}-{each}")) for each in range(10)]
        finally:
            database.close()
        return [(sub.first_pid, sub.first_machine) for sub in subs]

    with ThreadPoolExecutor(4) as threads:
        found = [first for firsts in threads.map(add, range(4)) for first in firsts]
    pids, machines = zip(*found, strict=True)
    assert len(set(pids)) == len(set(machines)) == 40


def test_sub_lccs(front: DirectDatabase) -> None:
    a = front.now(add_sublcc, _new(1, files_max=5, space_max_bytes=6, uns=("tcp:h:1", "tls:h:2")))
    assert (a.subid, a.first_pid, a.last_pid, a.first_machine, a.last_machine) == (1, 1, 10_000_000, 1, 10_000)
    b = front.now(add_sublcc, _new(2, first_pid=15_000_000, last_pid=15_000_010))
    c = front.now(add_sublcc, _new(3))
    assert (c.first_pid, c.last_pid, c.first_machine) == (20_000_001, 30_000_000, 20_001)
    assert front.now(list_sublccs) == [a, b, c]
    assert front.now(get_sublcc, "a") == a

    changed = front.now(lambda txn: change_sublcc(txn, "a", state=SubState.DRAINING, files_max=None))
    assert changed == attrs.evolve(a, state=SubState.DRAINING, files_max=None) == front.now(get_sublcc, "a")
    front.now(lambda txn: change_sublcc(txn, "c", state=SubState.REMOVED))
    with pytest.raises(NoSuchSubLcc):
        front.now(get_sublcc, "c")
    # Its ids and its name are not given out again.
    with pytest.raises(SubLccExists, match="exists, or existed"):
        front.now(add_sublcc, _new(3, made_time=NOW + 1))
    assert front.now(add_sublcc, _new(4)).first_pid == 30_000_001


def test_a_repeated_addition_is_one(front: DirectDatabase) -> None:
    front.lose = 1
    found = [front.write(add_sublcc, _new(1)).result, *front.now(list_sublccs)]  # type: ignore[attr-defined]
    assert found[0] == found[1] and len(found) == 2


@pytest.mark.parametrize("more", [{"first_pid": 5, "last_pid": 5}, {"first_machine": 1, "last_machine": 99_999}])
def test_ranges_do_not_meet(front: DirectDatabase, more: dict[str, int]) -> None:
    front.now(add_sublcc, _new(1))
    with pytest.raises(SubLccExists, match="those of sub-LCC a"):
        front.now(add_sublcc, _new(2, **more))


def test_reports(front: DirectDatabase) -> None:
    front.now(add_sublcc, _new(1))
    assert not front.now(report_vitals, "b", vitals(0))
    assert front.now(report_vitals, "a", vitals(0))
    later = attrs.evolve(vitals(0), time=NOW + 5, files=7)
    assert front.now(report_vitals, "a", later)
    assert front.now(list_vitals) == {1: attrs.evolve(later, subid=1)}


def test_placements(front: DirectDatabase) -> None:
    assert front.now(placements, []) == [] and front.now(placements, [7]) == [None]
    making = Placement(7, 2, 0, AtHome.MAKING)
    assert front.now(put_making, 7, 2, NOW) == making
    assert front.now(put_making, 7, 1, NOW) == making  # the first one holds
    front.now(put_making, 8, 2, NOW)
    assert front.now(placements, [9, 8, 7]) == [None, Placement(8, 2, 0, AtHome.MAKING), making]
    assert [len(front.now(being_made, NOW + step, 60, 10)) for step in (-61, -60, 0, 60, 61)] == [2, 0, 0, 0, 2]
    front.now(made, 7, NOW)
    front.now(unmade, 7)  # it is there
    front.now(unmade, 8)
    assert front.now(placements, [7, 8]) == [Placement(7, 2), None]
    assert front.now(count_placed, 2) == 1


def test_the_range_of_an_lcc(own: DirectDatabase) -> None:
    assert own.now(add_provider, Provider(0, ("http://a/",), "hash1")) == 1
    with pytest.raises(RangeTaken, match="ids from 1 to 1, its range is 101 to 102"):
        own.now(limit_pids, 101, 102)
    own.now(limit_pids, 1, 3)
    assert own.now(reserve_pid) == 2 and own.now(highest_pid) == 2
    assert own.now(add_provider, Provider(0, ("http://b/",), "hash2")) == 3
    with pytest.raises(ProviderExists, match="no provider id is free up to 3"):
        own.now(add_provider, Provider(0, ("http://c/",), "hash3"))
    with pytest.raises(RangeTaken):
        own.now(reserve_pid)
    # A reserved id is whose it was reserved for; one from elsewhere does not move the counter.
    assert own.now(add_provider, Provider(2, ("http://c/",), "hash3")) == 2
    assert own.now(add_provider, Provider(1_000, ("http://d/",), "hash4")) == 1_000
    assert own.now(highest_pid) == 3


def test_a_new_lcc_begins_with_its_range(own: DirectDatabase) -> None:
    own.now(limit_pids, 101, 200)
    own.now(limit_pids, 101, 200)
    assert own.now(add_provider, Provider(0, ("http://a/",), "hash")) == 101


def test_vital_signs(own: DirectDatabase) -> None:
    own.now(add_provider, Provider(0, ("http://a/",), "hash"))
    found: Vitals = own.now(vital_signs, NOW)
    assert (found.time, found.providers, found.files, found.queued) == (NOW, 1, 0, 0) and found.epoch


@pytest.mark.parametrize(("first", "second"), [(FE, MAIN), (MAIN, FE)])
def test_a_front_end_and_an_lcc_do_not_share_a_database(backend: Any, first: str, second: str) -> None:
    DirectDatabase(backend.url, backend.home, first).blocking.close()
    with pytest.raises(SchemaError, match="a front end needs one of its own"):
        DirectDatabase(backend.url, backend.home, second)


def test_registrations_and_content_users_are_in_tables_like_those_of_an_lcc() -> None:
    for dialect in ("sqlite", "mysql"):
        for table in ("registrations", "cudb"):
            of_lcc, of_front = (
                [each for each in migrations(dialect, series)[0].statements if table in each] for series in (MAIN, FE)
            )
            assert of_lcc and of_lcc == of_front


def test_each_column_has_a_comment() -> None:
    for dialect in ("sqlite", "mysql"):
        text = resources.files("lcc.storage.sql").joinpath(f"fe_001_first.{dialect}.sql").read_text("utf-8")
        columns = re.findall(r"^    ([a-z_]+) [A-Z].*$", text, re.MULTILINE)
        assert len(columns) > 40
        assert not re.findall(r"^    [a-z_]+ [A-Z][^-\n]*$", text, re.MULTILINE)
