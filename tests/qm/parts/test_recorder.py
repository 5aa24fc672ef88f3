"""The recorder alone: what waits, what is written, what is acknowledged."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.model import FetchResult
from lcc.protocols.hello import Hello
from lcc.protocols.work import RecordedUpto
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Entry, Recorder
from tests.qm.fake_hub import NOTHING_RECORDED, NOW, FakeConnection, FakeHub
from tests.qm.model import key_of, row_of, scheduler
from tests.support.logs import LoggedErrors

BATCH = 4


class Rig:
    """A recorder and one BOT-M."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.scheduler = scheduler()
        self.recorder = Recorder(hub, store, self.scheduler, BATCH)
        self.connection = FakeConnection()
        self.machine = Machine(1)
        self.connect("r1")
        self.number = 0

    def connect(self, run: str) -> None:
        self.machine.connected(self.connection, Hello(role="botm", name="b", machine=1, run=run))
        self.machine.ready = True

    def come(self, url: int, code: int = 0) -> None:
        self.number += 1
        result = FetchResult(1, key_of(1, url), 1, code)
        self.recorder.add(Entry(result, self.machine, self.machine.run, self.number))
        self.recorder.start()

    def written(self, outcome: Any = NOTHING_RECORDED) -> list[bytes]:
        """Commit what is being written; gives its keys."""
        results = self.store.answer(outcome, "record")[0]
        return [result.key for result in results]

    @property
    def acknowledged(self) -> list[int]:
        return [message.number for message in self.connection.heard(RecordedUpto)]


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    return Rig(hub, store)


def test_nothing_is_written_before_the_database_is_claimed(rig: Rig) -> None:
    rig.come(1)
    assert not rig.store.open and rig.recorder.waiting_count == 1
    rig.recorder.enable()
    assert rig.written() == [key_of(1, 1)] and rig.acknowledged == [1]


def test_what_comes_while_a_batch_is_written_goes_into_the_next(rig: Rig) -> None:
    rig.recorder.enable()
    for url in range(1, 7):
        rig.come(url)
    assert rig.recorder.waiting_count == 6 and not rig.acknowledged
    assert rig.written() == [key_of(1, 1)] and rig.acknowledged == [1]
    assert rig.written() == [key_of(1, url) for url in (2, 3, 4, 5)] and rig.acknowledged == [1, 5]
    assert rig.written() == [key_of(1, 6)] and rig.recorder.waiting_count == 0
    assert rig.recorder.results_recorded == 6 and len(rig.hub.all_recorded) == 3


def test_two_results_of_one_url_are_never_in_one_batch(rig: Rig) -> None:
    for url in (1, 2, 1):
        rig.come(url)
    rig.recorder.enable()
    assert len(rig.written()) == 2 and rig.acknowledged == [2]
    assert rig.written() == [key_of(1, 1)] and rig.acknowledged == [2, 3]


def test_a_database_that_is_unavailable_pauses_the_botms_and_loses_nothing(rig: Rig) -> None:
    rig.recorder.enable()
    for url in range(1, 8 * BATCH + 3):
        rig.come(url)
    rig.store.unavailable()
    assert rig.recorder.full and not rig.acknowledged
    room = rig.recorder.room()
    assert room is not None and not room.called
    while not rig.store.open:
        rig.hub.clock.advance(0.1)
    keys = []
    while rig.store.open:
        keys += rig.written()
    assert keys == [key_of(1, url) for url in range(1, 8 * BATCH + 3)]
    assert room.called and not rig.recorder.full and rig.acknowledged[-1] == 8 * BATCH + 2


def test_delays_are_written_with_the_results_and_again_if_that_failed(rig: Rig) -> None:
    rig.recorder.enable()
    rig.scheduler.delays.closed(1, NOW + 1000.0, NOW)
    rig.come(1)
    before = rig.store.unavailable()[4]
    assert [delay.pid for delay in before] == [1] and rig.scheduler.delays.changed
    rig.scheduler.delays.closed(1, NOW + 2000.0, NOW)
    rig.hub.clock.advance(1)
    (question,) = rig.store.open
    assert [delay.until_time for delay in question.args[4]] == [NOW + 2000.0], "as they are now"
    rig.written()
    assert not rig.scheduler.delays.changed


def test_rows_that_must_not_be_fetched_are_recorded_as_what_they_are(rig: Rig) -> None:
    hours = rig.scheduler.hours
    hours.removed.append((key_of(1, 8), 1))
    hours.never.append(row_of(1, 1, 1, 9, hours="99"))
    hours.outside.append(row_of(1, 1, 2, 10))
    rig.recorder.enable()
    results, removed = rig.store.answer(NOTHING_RECORDED)[:2]
    assert removed == [(key_of(1, 8), 1)]
    assert [(result.key, result.detail) for result in results] == [
        (key_of(1, 9), "its hours are 99"),
        (key_of(1, 10), ""),
    ]
    assert hours.reached_count == 0 and not rig.acknowledged


def test_one_result_that_the_store_cannot_take_does_not_stop_the_others(
    rig: Rig, logged_errors: LoggedErrors
) -> None:
    for url in (1, 2, 3):
        rig.come(url)
    rig.recorder.enable()
    rig.store.fail(ValueError("the batch"))
    assert rig.written() == [key_of(1, 1)]
    rig.store.fail(ValueError("the second"))
    (error,) = rig.store.answer(NOTHING_RECORDED)[0]
    assert error.key == key_of(1, 2) and error.code and error.detail == "its result could not be recorded"
    assert rig.written() == [key_of(1, 3)]
    assert rig.acknowledged == [1, 2, 3] and len(logged_errors.flush("Cannot record")) == 2


def test_a_newer_queue_manager_ends_it_without_an_acknowledgement(rig: Rig) -> None:
    rig.recorder.enable()
    rig.come(1)
    rig.come(2)
    rig.store.busy()
    assert rig.hub.ended and not rig.acknowledged


def test_busy_ends_it_also_while_results_are_tried_one_by_one(rig: Rig, logged_errors: LoggedErrors) -> None:
    for url in (1, 2):
        rig.come(url)
    rig.recorder.enable()
    rig.store.fail(ValueError("the batch"))
    rig.store.fail(ValueError("the first"))
    rig.store.busy()
    assert rig.hub.ended and not rig.acknowledged
    logged_errors.flush("Cannot record")


def test_a_botm_that_is_lost_meanwhile_hears_nothing_and_its_results_stay_recorded(rig: Rig) -> None:
    rig.recorder.enable()
    rig.come(1)
    rig.machine.disconnected(rig.connection)
    rig.written()
    assert not rig.acknowledged and rig.recorder.results_recorded == 1
    rig.connect("r1")
    rig.machine.acknowledge()
    assert rig.acknowledged == [1]


def test_results_of_an_earlier_run_are_not_acknowledged_to_the_next(rig: Rig) -> None:
    rig.recorder.enable()
    rig.come(1)
    rig.come(2)
    rig.machine.disconnected(rig.connection)
    rig.connect("r2")
    assert rig.recorder.holds_earlier(rig.machine, "r2")
    rig.written()
    assert rig.recorder.holds_earlier(rig.machine, "r2"), "one still waits"
    rig.written()
    assert not rig.recorder.holds_earlier(rig.machine, "r2") and not rig.acknowledged


def test_stopping_makes_room_and_writes_nothing_more(rig: Rig) -> None:
    for url in range(1, 8 * BATCH + 4):
        rig.come(url)
    room = rig.recorder.room()
    rig.recorder.enable()
    assert rig.store.names == ["record"]
    rig.recorder.stop()
    assert room is not None and room.called and not rig.store.open and rig.recorder.room() is None
    rig.come(99)
    assert not rig.store.open


def test_the_hub_hears_of_retries_and_changes(rig: Rig) -> None:
    rig.recorder.enable()
    rig.come(1)
    outcome = attrs.evolve(NOTHING_RECORDED, retry_time=NOW + 60, change=9)
    rig.written(outcome)
    assert rig.hub.all_recorded == [outcome]


def test_the_store_is_told_of_sets(rig: Rig) -> None:
    """What is known of where the rows stand saves a query."""
    rig.recorder.enable()
    rig.come(1)
    for url, psetid in ((2, 7), (3, 0), (4, 8), (5, 7)):
        rig.number += 1
        result = FetchResult(1, key_of(1, url), 1, 0)
        rig.recorder.add(Entry(result, rig.machine, rig.machine.run, rig.number, psetid))
    assert rig.store.answer(NOTHING_RECORDED, "record")[-1] == set()
    assert rig.store.answer(NOTHING_RECORDED, "record")[-1] == {7, 8}
