"""Writes that fail, or are cancelled, though the database commits them."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError

from lcc.errors import StoreUnavailable
from lcc.storage.database.tables.order_rows import REMOVED, RETRY, add_order
from lcc.storage.providers.providers import order_removal
from lcc.storage.queue.notifications import PendingNotifications, Unconfirmed
from tests.support.databases import result_of
from tests.support.queue import Queue, notice


def fails(queue: Queue, ask: Any) -> None:
    queue.database.fail_after = 1
    with pytest.raises(StoreUnavailable):
        ask()


def told(queue: Queue) -> dict[int, tuple[int, int]]:
    return result_of(queue.store.tell_unconfirmed(60)).queued


def test_what_a_set_has_queued_is_told(queue: Queue) -> None:
    assert not queue.store.has_unconfirmed
    fails(queue, lambda: queue.send(1, notice("a")))
    assert queue.store.has_unconfirmed
    fails(queue, lambda: told(queue))
    assert queue.store.has_unconfirmed
    assert told(queue) == {queue.pid: (1, 1)}
    assert not queue.store.has_unconfirmed
    assert told(queue) == {}


def test_a_write_of_another_kind_tells_it(queue: Queue) -> None:
    fails(queue, lambda: queue.send(1, notice("a")))
    other = queue.add_provider()
    absorbed = queue.absorb(queue.pieces(queue.header(1, pid=other), []))
    assert absorbed.queued == {queue.pid: (1, 1)} and not queue.store.has_unconfirmed


def test_one_that_has_not_written_does_not_tell_it(queue: Queue) -> None:
    """The commit could still be under way."""
    fails(queue, lambda: queue.send(1, notice("a")))
    assert queue.carry_out().work.queued == {} and queue.store.has_unconfirmed


def test_an_order_that_was_carried_out_unheard_is_told(queue: Queue) -> None:
    """The scheduler has to know of it; the order is gone."""
    queue.database.now(add_order, RETRY, queue.pid, 50)
    queue.database.now(order_removal, queue.pid)
    fails(queue, queue.carry_out)
    finished = queue.carry_out().finished
    assert [order[:2] for order in finished] == [(RETRY, queue.pid), (REMOVED, queue.pid)]
    assert queue.carry_out().finished == ()


def test_a_cancelled_write_is_told_by_one_that_began_later() -> None:
    """Until then it may be carried out still, behind one that had begun before."""
    unconfirmed = Unconfirmed()
    before = unconfirmed.collecting()
    begun: PendingNotifications = before.__enter__()
    with pytest.raises(CancelledError), unconfirmed.collecting() as cancelled:
        raise CancelledError
    before.__exit__(None, None, None)
    assert unconfirmed and not begun
    cancelled.add_queued(7, 3, 1)  # by the thread of the database
    with unconfirmed.collecting() as later:
        pass
    assert later.queued == {7: (3, 1)} and not unconfirmed


def test_the_earliest_place_and_the_priority_are_told() -> None:
    unconfirmed = Unconfirmed()
    for place in (5, 3, 4):
        with pytest.raises(ValueError), unconfirmed.collecting() as pending:
            pending.add_queued(7, place, 1)
            pending.add_priorities({7: place})
            pending.touched.add(bytes([place]))
            raise ValueError
    with unconfirmed.collecting() as later:
        later.deletes = True
    assert later.as_absorbed().queued == {7: (3, 1)} and later.priorities == {7: 4}
    assert later.touched == {b"\3", b"\4", b"\5"} and later.deletes


def test_anything_that_was_collected_is_to_be_told() -> None:
    for collect in (
        lambda pending: pending.add_queued(7, 3, 1),
        lambda pending: pending.touched.add(b"key"),
        lambda pending: setattr(pending, "deletes", True),
    ):
        unconfirmed = Unconfirmed()
        assert not unconfirmed
        with pytest.raises(ValueError), unconfirmed.collecting() as pending:
            collect(pending)
            raise ValueError
        assert unconfirmed
        with unconfirmed.collecting() as later:
            pass
        assert later == pending and not unconfirmed


def test_a_priority_of_nothing_is_not_told() -> None:
    pending = PendingNotifications()
    pending.add_priorities({7: 0, 8: 2})
    assert pending.priorities == {8: 2} and not pending
