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
from lcc.roles.qm.schedule.hours_filter import Closed
from lcc.roles.qm.schedule.work import Limits
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
    assert [(result.key, result.generation, result.detail) for result in results] == [
        (key_of(1, 9), 1, "its hours are 99"),
        (key_of(1, 10), 1, ""),
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


def closed_row(url: int) -> Closed:
    """A row whose hours are over; it goes to the slot that begins at one o'clock."""
    return Closed(key_of(1, url), 1, "1-2", Limits(), NOW)


def test_what_waits_is_counted_and_much_of_it_is_enough(rig: Rig) -> None:
    hours = rig.scheduler.hours
    for url in range(1, 4 * BATCH + 1):
        rig.come(url)
    assert not rig.recorder.full and rig.recorder.waiting_count == 4 * BATCH
    hours.removed.append((key_of(1, 80), 1))
    hours.closed.append(closed_row(81))
    rig.recorder.enable()
    assert rig.recorder.waiting_count == 4 * BATCH + 2, "what is being written waits, too"
    assert not rig.recorder.full
    rig.come(90)
    rig.come(91)
    rig.come(92)
    rig.come(93)
    assert not rig.recorder.full
    rig.come(94)
    assert rig.recorder.full and rig.recorder.room() is None
    rig.written()
    assert rig.recorder.waiting_count == 4 * BATCH + 1


def test_rows_that_are_over_are_counted_as_results_are(rig: Rig) -> None:
    hours = rig.scheduler.hours
    hours.removed += [(key_of(1, url), 1) for url in range(20, 40)]
    hours.closed += [closed_row(60), closed_row(61)]
    rig.come(1)  # (nothing is taken before the database is claimed)
    assert rig.recorder.waiting_count == 1 and hours.reached_count == 22
    rig.recorder.enable()
    results, removed, _, slots, *_ = rig.store.open[0].args
    assert (len(results), len(removed)) == (1, BATCH) and [slot for *_, slot in slots] == [1, 1]
    assert rig.recorder.waiting_count == 23 and not rig.recorder.full
    hours.closed += [closed_row(url) for url in range(70, 79)]
    rig.recorder.start()
    rig.written()
    assert rig.recorder.waiting_count == 16 + 9 and rig.recorder.full, "12 and 5 wait behind what is being written"
    while rig.store.open:
        rig.written()
    assert rig.recorder.waiting_count == 0 and rig.recorder.results_recorded == 1 + 20 + 2 + 9


def test_rows_that_are_removed_are_enough_to_write(rig: Rig) -> None:
    rig.recorder.enable()
    rig.scheduler.hours.removed.append((key_of(1, 1), 3))
    rig.recorder.start()
    assert rig.store.open[0].args[1] == [(key_of(1, 1), 3)]


def test_who_has_results_of_an_earlier_run_waiting(rig: Rig) -> None:
    other = Machine(2)
    assert not rig.recorder.holds_earlier(rig.machine, "r1")
    for _ in range(2):  # waiting, and being recorded
        rig.come(1)
        assert not rig.recorder.holds_earlier(rig.machine, "r1") and rig.recorder.holds_earlier(rig.machine, "r2")
        assert not rig.recorder.holds_earlier(other, "r2")
        rig.recorder.enable()


def test_a_full_batch_waits_for_no_more(rig: Rig) -> None:
    rig.recorder.enable()
    for url in range(1, BATCH + 2):
        rig.come(url)
    rig.hub.clock.advance(1)
    assert rig.written() == [key_of(1, 1)]
    assert rig.written() == [key_of(1, url) for url in range(2, BATCH + 2)]


def test_what_could_not_be_read_is_acknowledged_whatever_its_timeline(rig: Rig) -> None:
    rig.recorder.add(Entry(None, rig.machine, "r1", 5, timeline="lost"))
    rig.recorder.enable("t")
    assert rig.acknowledged == [5] and not rig.store.open


def test_rows_that_go_to_their_slots_are_enough_to_write(rig: Rig) -> None:
    rig.recorder.enable()
    rig.scheduler.hours.closed.append(closed_row(1))
    rig.recorder.start()
    assert rig.store.open[0].args[3] == [(key_of(1, 1), 1, 1)]
    rig.scheduler.hours.closed.append(closed_row(2))
    rig.written()
    assert rig.store.open[0].args[3] == [(key_of(1, 2), 1, 1)], "what has come meanwhile follows"
    rig.written()
    assert not rig.store.open


def test_a_result_that_comes_when_a_batch_is_over_is_written(rig: Rig) -> None:
    """Between the end of one job and the beginning of the next."""
    rig.recorder.enable()
    rig.come(1)
    recorded = rig.hub.recorded

    def comes(outcome: Any) -> None:
        recorded(outcome)
        rig.hub.recorded = recorded  # type: ignore[method-assign]
        rig.come(2)

    rig.hub.recorded = comes  # type: ignore[method-assign]
    rig.written()
    assert rig.written() == [key_of(1, 2)]


def test_nobody_waits_for_room_while_there_is_some(rig: Rig) -> None:
    for url in range(1, 8 * BATCH + 1):
        rig.come(url)
    assert rig.recorder.room() is None
    rig.come(99)
    room = rig.recorder.room()
    assert room is not None and not room.called
    rig.recorder.enable()
    batches = 0
    while not room.called:
        rig.written()
        batches += 1
    assert batches == 5, "once half of it is written"


@pytest.mark.parametrize(
    ("timeline", "generation", "recorded"),
    [("", 7, 7), ("t", 7, 7), ("f", 7, 7), ("f", 8, 0), ("lost", 1, 0), ("lost", 0, 0), ("~", 3, 0)],
)
def test_a_result_of_a_lost_timeline_is_older_than_any(
    rig: Rig, timeline: str, generation: int, recorded: int
) -> None:
    rig.recorder.add(Entry(FetchResult(1, key_of(1, 1), generation, 0), timeline=timeline))
    rig.recorder.enable("t", {"f": 7})
    assert [result.generation for result in rig.store.answer(NOTHING_RECORDED)[0]] == [recorded]


def test_what_the_store_cannot_take_is_told_with_its_number_and_its_key(
    rig: Rig, logged_errors: LoggedErrors
) -> None:
    rig.scheduler.hours.removed.append((key_of(1, 80), 1))
    rig.scheduler.hours.closed.append(closed_row(81))
    rig.come(1)
    rig.recorder.enable()
    rig.store.fail(ValueError("all of it"))
    assert [event["count"] for event in logged_errors.events] == [3]
    rig.store.fail(ValueError("the removed row"))
    rig.store.fail(ValueError("the closed row"))
    rig.store.fail(ValueError("the result"))
    rig.store.fail(ValueError("the error in its place"))
    said = [event["key"] for event in logged_errors.events if "key" in event]
    assert said == [key_of(1, url).hex() for url in (80, 81, 1)]
    assert rig.recorder.results_recorded == 3 and rig.acknowledged == [1] and not rig.store.open
    assert rig.hub.all_recorded == [NOTHING_RECORDED] * 3
    logged_errors.flush("Cannot re")


def test_without_a_timeline_of_its_own_all_others_are_lost(rig: Rig) -> None:
    rig.recorder.add(Entry(FetchResult(1, key_of(1, 1), 3, 0), timeline="~"))
    rig.recorder.enable()
    assert [result.generation for result in rig.store.answer(NOTHING_RECORDED)[0]] == [0]


def test_the_scheduler_hears_of_what_is_recorded(rig: Rig) -> None:
    rig.scheduler.known(key_of(1, 1), 1)
    rig.recorder.enable()
    rig.come(1)
    rig.store.unavailable()
    assert rig.hub.retry.trouble == "recording results: connection refused" and rig.scheduler.taken_count == 1
    rig.hub.clock.advance(1)
    rig.written()
    assert rig.scheduler.taken_count == 0


def test_results_gather_for_a_moment_while_the_database_is_slow(rig: Rig) -> None:
    rig.recorder.enable()
    for seconds, pause in ((1.0, 0.025), (0.004, 0.016), (0.0002, 0.0)):
        rig.come(1)
        rig.come(2)
        rig.hub.clock.advance(seconds)
        rig.written()
        if pause:
            rig.hub.clock.advance(pause * 0.95)
            assert not rig.store.open
            rig.hub.clock.advance(pause * 0.1)
        assert rig.written() == [key_of(1, 2)]


def test_an_error_within_the_queue_manager_does_not_end_the_recording(rig: Rig, logged_errors: LoggedErrors) -> None:
    recorded = rig.hub.recorded

    def fails(outcome: Any) -> None:
        rig.hub.recorded = recorded  # type: ignore[method-assign]
        raise KeyError("a fault")

    rig.hub.recorded = fails  # type: ignore[method-assign]
    rig.recorder.enable()
    rig.come(1)
    rig.come(2)
    rig.written()
    assert logged_errors.flush("Cannot record results") and rig.written() == [key_of(1, 2)]
