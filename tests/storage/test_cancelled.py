"""Rows that do nothing, because a deletion came after them, are counted by nobody, neither in status nor in queue."""

from __future__ import annotations

from lcc.model import FETCH_NOW
from lcc.storage.views.overview import Waiting, overview
from lcc.storage.views.queue_rows import queue_sets
from lcc.storage.views.survey import survey
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

NOON = 12 * 3600


def status(queue: Queue) -> tuple[Waiting, ...]:
    """What ``lcc-admin status`` says of the queue; what is told of it elsewhere agrees."""
    found = queue.database.now(overview, 10, 100, NOON)
    sets = queue.database.now(queue_sets)
    left = queue.stats("nurlproc")
    assert (
        sum(waiting.urls for waiting in found.queue) == sum(each.queued for each in sets) == queue.stats("nurlproc")
    )
    assert sum(waiting.sets for waiting in found.queue) == len({each.psetid for each in sets})
    assert min([each.psetid for each in sets], default=None) == (found.oldest and found.oldest.psetid)
    figures = queue.database.now(survey, NOON, 10, (60.0,)).queued
    assert sum(each.now + each.later + each.retrying for each in figures) == left
    queue.check_books()
    return found.queue


def test_rows_that_are_deleted_while_they_wait(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"), notice("c", hours="3"), notice("d", hours="3"), now=NOON)
    queue.send(2, notice("e", hours="3"), now=NOON)
    assert status(queue) == (Waiting(1, 1, 2, 5, 3, 0),)
    queue.send(3, notice("a", delete=True), notice("c", delete=True), notice("e", delete=True), now=NOON)
    assert status(queue) == (Waiting(1, 1, 1, 2, 1, 0),)
    assert [(each.psetid, each.slot, each.queued) for each in queue.database.now(queue_sets)] == [
        (1, FETCH_NOW, 1),
        (1, 3, 1),
    ]
    # One is told again, another is cancelled in the very batch that tells it again.
    queue.send(4, notice("e", hours="3"), notice("c", hours="3"), notice("c", delete=True), now=NOON)
    assert status(queue) == (Waiting(1, 1, 2, 3, 2, 0),)
    # They are taken away at their turn.
    queue.fetch_all()
    result_of(queue.store.open_slot(3, 100, (0, 0)))
    assert status(queue) == (Waiting(1, 1, 2, 2, 0, 0),)
    queue.fetch_all()
    assert status(queue) == ()
    assert queue.database.query("SELECT * FROM cancelled") == []


def test_rows_that_a_full_set_does_not_name(queue: Queue) -> None:
    queue.send(1, *[notice(name, hours="3") for name in "abcd"], now=NOON)
    queue.send(2, notice("a", hours="3"), full=True, now=NOON)
    assert status(queue) == (Waiting(1, 1, 1, 1, 1, 0),)


def test_a_row_that_waits_after_an_error(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    a, b = queue.rows()
    queue.record(queue.failed(a, 503), queue.failed(b, 503))
    assert status(queue) == (Waiting(1, 1, 1, 2, 0, 2),)
    queue.send(2, notice("a", delete=True))
    assert status(queue) == (Waiting(1, 1, 1, 1, 0, 1),)
    queue.open_retries(10**6)
    queue.fetch_all()
    assert status(queue) == ()
