"""The reader alone: providers with their rows, what changes while a read is under way, what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.model import Ahead, Provider, QueueRow, ReadAhead
from lcc.roles.qm.maintenance.reader import Reader
from tests.qm.fake_hub import NOW, FakeHub
from tests.qm.model import load, row_of, scheduler
from tests.support.logs import LoggedErrors


class Rig:
    """A reader and a scheduler with work of two providers."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.scheduler = scheduler()
        load(self.scheduler, (1, 1), (2, 2))
        self.reader = Reader(hub, store, self.scheduler)

    def start(self, active: int) -> None:
        self.scheduler.fill(active)
        self.reader.start()

    def rows(self, *rows: QueueRow, gone: bool = False) -> tuple[Any, ...]:
        """The database has these; gives what was asked."""
        cursors, unknown = self.store.open[0].args
        aheads = [Ahead(cursor.pid, [row for row in rows if row.pid == cursor.pid]) for cursor in cursors]
        providers = {pid: Provider(pid=pid, roots=("http://h/",), password_hash="") for pid in unknown}
        self.store.answer(ReadAhead(aheads, {} if gone else providers), "read_ahead")
        return [cursor.pid for cursor in cursors], list(unknown)

    def taken(self) -> list[int]:
        """Providers of the rows that can be handed out."""
        pids = []
        while (work := self.scheduler.take(NOW)) is not None:
            pids.append(work.pid)
        return pids


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    return Rig(hub, store)


def test_what_is_wanted_meanwhile_goes_into_the_next_read(rig: Rig) -> None:
    rig.start(1)
    rig.start(2)
    assert rig.store.names == ["read_ahead"] and rig.taken() == []
    assert rig.rows(row_of(1, 1, 1)) == ([1], [1]) and rig.hub.pumps == 1
    rig.reader.start()
    assert rig.rows(row_of(2, 2, 1)) == ([2], [2])
    assert rig.taken() == [1, 2]


def test_a_late_answer_is_for_the_queue_as_it_is_then(rig: Rig) -> None:
    rig.start(1)
    rig.store.unavailable()
    rig.scheduler.provider_removed(1)
    rig.hub.clock.advance(1)
    rig.rows(row_of(1, 1, 1))
    assert rig.taken() == [] and rig.scheduler.active_count == 0


def test_a_provider_that_is_gone_is_forgotten(rig: Rig) -> None:
    rig.start(1)
    rig.rows(row_of(1, 1, 1), gone=True)
    assert rig.taken() == [] and rig.scheduler.active(1) is None


def test_a_provider_that_changes_meanwhile_is_read_again(rig: Rig) -> None:
    rig.start(1)
    rig.reader.provider_changed(1)
    rig.rows(row_of(1, 1, 1))
    rig.reader.start()
    assert rig.rows(row_of(1, 1, 1)) == ([1], [1]), "what came before may be out of date"


def test_damage_of_one_provider_does_not_stop_the_other(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.start(2)
    rig.store.fail(ValueError("damage somewhere"))
    rig.store.fail(ValueError("in provider 1"))
    rig.rows(row_of(2, 2, 1))
    assert rig.taken() == [2] and 1 in rig.scheduler.delays and rig.hub.pumps == 1
    assert len(logged_errors.flush("Cannot read the queue")) == 2


def test_a_newer_queue_manager_ends_it_also_in_the_middle_of_damage(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.start(2)
    rig.store.fail(ValueError("damage somewhere"))
    rig.store.busy()
    assert rig.hub.ended and not rig.store.open and 1 not in rig.scheduler.delays
    logged_errors.flush("Cannot read the queue")


def test_once_stopped_it_reads_no_more(rig: Rig) -> None:
    rig.start(1)
    rig.reader.stop()
    rig.start(2)
    assert not rig.store.open
