"""Timelines of the database, on each database."""

from __future__ import annotations

from lcc.storage.database.tables.status import database_epoch
from lcc.storage.database.tables.timeline import current_timeline, known_upto
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

_GENERATIONS = "SELECT generation FROM qdb"


def upto(queue: Queue, timeline: str) -> int | None:
    return queue.database.now(known_upto, timeline)


def fetched(queue: Queue, connseq: int, *names: str) -> None:
    queue.send(connseq, *[notice(name) for name in names])
    queue.fetch_all()


def test_each_queue_manager_goes_on_with_a_timeline_of_its_own(queue: Queue) -> None:
    first = queue.database.now(current_timeline)
    fetched(queue, 1, "a", "b")
    assert upto(queue, first) == 2
    queue.database.lose = 1  # claimed twice
    result_of(queue.store.claim(1))
    second = queue.database.now(current_timeline)
    fetched(queue, 2, "c")
    assert (upto(queue, first), upto(queue, second)) == (2, 3)
    result_of(queue.store.claim(2))
    third = queue.database.now(current_timeline)
    assert len({first, second, third}) == 3
    assert (upto(queue, first), upto(queue, second), upto(queue, third)) == (2, 3, 3)
    epoch = queue.database.now(database_epoch)
    assert [upto(queue, f"{epoch}-0"), upto(queue, f"0{first}"), upto(queue, "")] == [None, None, None]


def test_a_claim_names_its_timeline_and_those_that_are_not_lost(queue: Queue) -> None:
    claims = [result_of(queue.store.claim(when)) for when in (1, 2, 3)]
    names = [claim.timeline for claim in claims]
    assert len(set(names)) == 3
    assert claims[2].timelines.keys() - claims[0].timelines.keys() == set(names[:2])
    epoch = claims[2].database_epoch
    assert queue.database.now(current_timeline) == f"{epoch}-{names[2]}"
    result_of(queue.store.begin_epoch(epoch, "other", 0))
    after = result_of(queue.store.claim(4))
    assert after.timelines.keys() == {names[2]}, "before that, a loss was noticed"


def test_a_claim_says_up_to_which_generation_orders_of_a_timeline_are_not_lost(queue: Queue) -> None:
    """A timeline that was current when the backup was made is known when it is put back; what it did since is not."""
    first = result_of(queue.store.claim(1))
    queue.send(1, notice("a"))
    second = result_of(queue.store.claim(2))
    queue.send(2, notice("b"))
    third = result_of(queue.store.claim(3))
    queue.send(3, notice("c"))
    (a, b, c) = sorted(generation for (generation,) in queue.database.now(lambda txn: txn.query(_GENERATIONS)))
    assert a <= third.timelines[first.timeline] < b <= third.timelines[second.timeline] < c
    assert second.timelines[first.timeline] == third.timelines[first.timeline]


def test_what_was_seen_before_there_were_timelines_is_known(queue: Queue) -> None:
    """The database of an older program, which has changes: the next queue manager's timeline follows them."""
    fetched(queue, 1, "a", "b")
    queue.database.now(lambda txn: txn.execute("DELETE FROM meta WHERE name LIKE 'timeline%'"))
    epoch = queue.database.now(database_epoch)
    assert queue.database.now(current_timeline) == epoch and upto(queue, epoch) == 2
    result_of(queue.store.claim(1))
    fetched(queue, 2, "c")
    assert upto(queue, epoch) == 2 and upto(queue, queue.database.now(current_timeline)) == 3
