"""The delete manager alone: windows, answers, a BOT-M that goes in the middle."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from twisted.logger import LogEvent, formatEvent

from lcc.model import DeleteOrder
from lcc.protocols.work import Delete
from lcc.roles.qm.orders.deleter import FAILED_SECONDS, LOOK_SECONDS, STUCK_SECONDS, WOKEN_SECONDS, Deleter
from tests.qm.fake_hub import NOW, FakeConnection, FakeHub
from tests.support.logs import LoggedErrors

WINDOW = 4


class Rig:
    """A delete manager and the BOT-M of machine 1."""

    def __init__(self, hub: FakeHub, store: Any) -> None:
        self.hub, self.store = hub, store
        self.deleter = Deleter(hub, store, WINDOW, 300)
        self.connection = FakeConnection()

    def rows(self, *ids: int) -> tuple[Any, ...]:
        """The table has these."""
        args: tuple[Any, ...] = self.store.answer([DeleteOrder(row, 1, 1000 + row) for row in ids], "deletes")
        return args

    def wake(self) -> None:
        """There are new rows, and it is time to read them."""
        self.hub.clock.advance(WOKEN_SECONDS)
        self.deleter.wake()

    @property
    def sent(self) -> list[int]:
        return [message.id for message in self.connection.heard(Delete)]


@pytest.fixture
def rig(hub: FakeHub, store: Any) -> Rig:
    rig = Rig(hub, store)
    rig.deleter.enable()
    rig.deleter.connected(1, rig.connection)
    return rig


def test_nothing_is_read_before_the_database_is_claimed(hub: FakeHub, store: Any) -> None:
    deleter = Deleter(hub, store, WINDOW, 300)
    deleter.connected(1, FakeConnection())
    assert not store.open
    deleter.enable()
    assert store.names == ["deletes"]


def test_the_window_is_refilled_when_half_of_it_is_answered(rig: Rig) -> None:
    assert rig.rows(1, 2, 3, 4) == (1, 0, WINDOW, NOW)
    assert rig.sent == [1, 2, 3, 4] and not rig.store.open
    rig.deleter.deleted(rig.connection, 1)
    assert not rig.store.open
    rig.deleter.deleted(rig.connection, 2)
    assert rig.store.answer() == ([1, 2],)
    rig.deleter.deleted(rig.connection, 3)
    assert rig.rows(5) == (1, 4, 2, NOW)
    assert rig.sent == [1, 2, 3, 4, 5] and rig.deleter.files_deleted == 2


def test_few_answers_are_taken_out_after_a_second(rig: Rig) -> None:
    rig.rows(1, 2, 3)
    rig.deleter.deleted(rig.connection, 1)
    assert not rig.store.open
    rig.deleter.check_stuck(1)
    assert rig.store.answer(None, "deletes_done") == ([1],)
    rig.deleter.check_stuck(2)
    assert not rig.store.open
    rig.deleter.deleted(rig.connection, 2)
    rig.deleter.deleted(rig.connection, 3)
    assert rig.store.answer(None, "deletes_done") == ([2, 3],)


def test_new_rows_are_read_once_a_second(rig: Rig) -> None:
    rig.rows()
    rig.deleter.wake()
    assert not rig.store.open
    rig.hub.clock.advance(WOKEN_SECONDS)
    rig.deleter.check_stuck(rig.hub.clock.seconds())
    assert rig.rows(1, 2, 3, 4)[1] == 0
    rig.deleter.wake()
    for row in rig.sent:
        rig.deleter.deleted(rig.connection, row)
        if rig.store.names == ["deletes_done"]:
            rig.store.answer()
    assert rig.store.names == ["deletes"], "there was a whole window of them"


def test_answers_are_taken_out_once_the_database_is_there_again(rig: Rig) -> None:
    rig.rows(1, 2, 3)
    rig.deleter.deleted(rig.connection, 1)
    rig.deleter.deleted(rig.connection, 2)
    rig.store.unavailable("deletes_done")
    rig.deleter.deleted(rig.connection, 3)
    assert rig.deleter.files_deleted == 0
    rig.hub.clock.advance(1)
    assert rig.store.answer(None, "deletes_done") == ([1, 2],) and rig.store.answer(None, "deletes_done") == ([3],)
    assert rig.deleter.files_deleted == 3


def test_a_botm_that_goes_in_the_middle_of_a_read_is_sent_nothing(rig: Rig) -> None:
    rig.deleter.disconnected(rig.connection)
    assert not rig.store.open and not rig.sent
    rig.deleter.deleted(rig.connection, 1)
    rig.deleter.wake()
    assert not rig.store.open
    again = FakeConnection()
    rig.deleter.connected(1, again)
    rig.rows(1)
    assert [message.id for message in again.heard(Delete)] == [1]


def test_one_botm_does_not_wait_for_another(rig: Rig) -> None:
    other = FakeConnection()
    rig.deleter.connected(2, other)
    rig.store.unavailable()
    assert rig.store.open[0].args[0] == 2
    rig.store.answer([DeleteOrder(9, 2, 1)])
    assert [message.id for message in other.heard(Delete)] == [9] and not rig.sent


def test_orders_that_are_not_answered_leave_the_window_and_are_sent_again(rig: Rig) -> None:
    rig.rows(1, 2, 3, 4)
    rig.hub.clock.advance(STUCK_SECONDS)
    rig.deleter.check_stuck(rig.hub.clock.seconds())
    assert rig.rows(5) == (1, 4, WINDOW, NOW + STUCK_SECONDS)
    rig.wake()
    assert rig.rows()[1] == 5
    rig.deleter.deleted(rig.connection, 5)
    rig.store.answer(None, "deletes_done")
    rig.wake()
    assert rig.rows(1, 2)[1] == 0, "from the start"
    assert rig.sent == [1, 2, 3, 4, 5, 1, 2]


def test_orders_that_are_not_answered_are_sent_again_without_new_ones(rig: Rig) -> None:
    """Or the last file of all would stay (world 770594)."""
    rig.rows(1, 2)
    rig.deleter.deleted(rig.connection, 2)
    assert tick(rig) == ["deletes_done"]
    rig.store.answer()
    assert tick(rig, STUCK_SECONDS) == ["deletes"]
    assert rig.rows(3)[1] > 0, "first those that were not sent yet"
    rig.deleter.deleted(rig.connection, 3)
    rig.store.answer(None, "deletes_done")
    assert tick(rig, LOOK_SECONDS - 1) == []
    assert tick(rig) == ["deletes"]
    assert rig.rows(1)[1] == 0, "from the start"
    assert rig.sent == [1, 2, 3, 1]


def serve(rig: Rig, table: set[int]) -> None:
    """Answer what is asked, from the rows of this table."""
    while rig.store.open:
        if rig.store.names[0] == "deletes":
            _, after, limit, _ = rig.store.open[0].args
            rig.rows(*sorted(row for row in table if row > after)[:limit])
        else:
            (done,) = rig.store.answer(None, "deletes_done")
            table.difference_update(done)


def test_an_order_that_is_not_answered_is_sent_again_while_others_are_answered(rig: Rig) -> None:
    table = {1}
    serve(rig, table)
    for second in range(300):
        if second % 30 == 0:
            table.add(2 + second)
            rig.deleter.wake()
        tick(rig)
        serve(rig, table)
        for row in table - {1}:
            rig.deleter.deleted(rig.connection, row)
        serve(rig, table)
    assert table == {1} and rig.sent.count(1) == 3
    assert len(rig.sent) == 10 + rig.sent.count(1)


def test_an_order_that_is_never_answered_is_sent_less_and_less_often(rig: Rig, logged: list[LogEvent]) -> None:
    """A file that cannot be removed is no warning a minute for ever."""
    table = {1}
    serve(rig, table)
    sent = [rig.hub.clock.seconds()]
    for second in range(0, 24 * 3600, 10):
        if second % 600 == 0:
            table.add(10 + second)
            rig.deleter.wake()
        tick(rig, 10.0)
        serve(rig, table)
        for row in table - {1}:
            rig.deleter.deleted(rig.connection, row)
        serve(rig, table)
        sent += [rig.hub.clock.seconds()] * (rig.sent.count(1) - len(sent))
    assert table == {1}
    pauses = [later - earlier for earlier, later in pairwise(sent)]
    assert 60 <= pauses[0] <= 80 and pauses[:7] == sorted(pauses[:7])
    assert len(pauses) > 20 and all(3600 <= pause <= 3700 for pause in pauses[7:])
    told = [formatEvent(event) for event in logged if "not answer" in formatEvent(event)]
    assert len(sent) - 1 <= len(told) <= len(sent)
    assert set(told) == {"Machine 1 does not answer 1 delete orders; they are sent again later"}


def test_many_orders_that_are_not_answered_are_one_warning_a_minute(rig: Rig, logged: list[LogEvent]) -> None:
    """New ones come every second; of no more than a window it is remembered that they were sent in vain."""
    table: set[int] = set()
    serve(rig, table)
    for second in range(1000):
        table.add(1 + second)
        rig.deleter.wake()
        tick(rig)
        serve(rig, table)
    assert len(table) == 1000
    assert 10 <= len([event for event in logged if "not answer" in formatEvent(event)]) <= 1000 / STUCK_SECONDS
    (machine,) = rig.deleter._machines.values()
    assert len(machine._resting) == WINDOW
    # All is well again.
    for _ in range(1000):
        tick(rig)
        serve(rig, table)
        for row in list(machine._outstanding):
            rig.deleter.deleted(rig.connection, row)
        serve(rig, table)
    assert not table and not machine._resting


def test_an_answer_that_comes_late_counts(rig: Rig) -> None:
    rig.rows(1, 2)
    assert tick(rig, STUCK_SECONDS) == ["deletes"]
    rig.rows()
    rig.deleter.deleted(rig.connection, 2)
    assert rig.store.answer(None, "deletes_done") == ([2],)
    rig.deleter.deleted(rig.connection, 2)
    rig.deleter.deleted(rig.connection, 3)
    assert not rig.store.open, "nobody has asked for these"
    assert rig.deleter.files_deleted == 1


def test_an_order_that_is_answered_late_while_the_table_is_read_is_not_sent_again(rig: Rig) -> None:
    """The answer was not taken out yet when the rows were read."""
    rig.rows(1, 2)
    assert tick(rig, STUCK_SECONDS) == ["deletes"]
    rig.deleter.deleted(rig.connection, 2)
    rig.rows(1, 2)
    assert rig.sent == [1, 2, 1]
    tick(rig)
    assert rig.store.answer(None, "deletes_done") == ([2],)
    assert rig.deleter.files_deleted == 1


def test_an_error_of_the_store_is_logged_and_it_goes_on(rig: Rig, logged_errors: LoggedErrors) -> None:
    rig.rows(1)
    rig.wake()
    rig.deleter.deleted(rig.connection, 1)
    rig.store.fail(ValueError("no such table"))
    assert logged_errors.flush("Cannot work off the delete orders") and not rig.store.open
    rig.hub.clock.advance(FAILED_SECONDS)
    assert rig.store.names == ["deletes_done"]


def test_a_newer_queue_manager_ends_it(rig: Rig) -> None:
    rig.store.busy()
    assert len(rig.hub.ended) == 1


def test_after_the_wall_clock_was_set_no_file_is_removed_for_the_grace_period(rig: Rig) -> None:
    rig.rows(1)
    rig.deleter.stepped()
    rig.deleter.wake()
    rig.deleter.deleted(rig.connection, 1)
    assert rig.store.names == ["deletes_done"]
    rig.store.answer()
    rig.hub.clock.advance(299)
    rig.deleter.check_stuck(rig.hub.clock.seconds())
    assert not rig.store.open
    rig.hub.clock.advance(1)
    rig.deleter.check_stuck(rig.hub.clock.seconds() + 10)
    assert rig.store.names == ["deletes"]


def tick(rig: Rig, seconds: float = 1.0) -> list[str]:
    """What is asked once this time has passed."""
    rig.hub.clock.advance(seconds)
    rig.deleter.check_stuck(rig.hub.clock.seconds())
    names: list[str] = rig.store.names
    return names


def test_how_often_something_is_done() -> None:
    assert (STUCK_SECONDS, LOOK_SECONDS, WOKEN_SECONDS, FAILED_SECONDS) == (60.0, 10.0, 1.0, 5.0)


def test_the_table_is_read_again_every_ten_seconds(rig: Rig) -> None:
    rig.rows()
    assert tick(rig, LOOK_SECONDS - 0.5) == [] and tick(rig, 0.5) == ["deletes"]
    rig.rows()
    assert tick(rig) == []


def test_rows_that_came_before_the_last_one_are_read_once_all_is_answered(rig: Rig) -> None:
    rig.rows(7, 8)
    rig.wake()
    assert rig.rows()[1] == 8, "those behind it at once"
    assert tick(rig) == []
    for row in (7, 8):
        rig.deleter.deleted(rig.connection, row)
    rig.store.answer(None, "deletes_done")
    assert tick(rig, 0.5) == ["deletes"] and rig.rows(3)[1] == 0
    rig.deleter.deleted(rig.connection, 3)
    rig.store.answer(None, "deletes_done")
    assert tick(rig) == [] and tick(rig) == [], "nothing new has come"


def test_a_botm_has_a_minute_for_an_answer_each_time(rig: Rig) -> None:
    rig.rows()
    for _ in range(7):
        tick(rig, LOOK_SECONDS)
        rig.rows()
    tick(rig, LOOK_SECONDS)
    rig.rows(1, 2)
    assert tick(rig) == []
    rig.deleter.deleted(rig.connection, 1)
    assert tick(rig) == ["deletes_done"], "it is not taken for stuck after 81 seconds"
    rig.store.answer()
    # The other one is not answered for a minute: it is sent again, and has a minute again.
    for _ in range(5):
        tick(rig, LOOK_SECONDS)
        rig.rows()
    assert tick(rig, 7.5) == [] and tick(rig, 1.0) == ["deletes"]
    rig.rows(2)
    assert tick(rig) == []
    rig.deleter.deleted(rig.connection, 2)
    assert rig.store.names == ["deletes_done"]
