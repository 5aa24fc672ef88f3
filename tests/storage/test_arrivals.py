"""What arrives with a provider besides its rows, and what the queue manager is told of it."""

from __future__ import annotations

import attrs
import pytest

from lcc.model import FETCH_NOW, Delay
from lcc.storage.queue.moves import arrivals, staging
from lcc.storage.queue.moves.arrivals import _by_this_clock
from lcc.storage.queue.moves.departing import departing_whole
from lcc.storage.queue.moves.paged import PAGED, _unless
from tests.storage.test_carried import BATCH, NAMES, ask, brought, here, left
from tests.storage.test_moving_rows import a_move, arrive, leave, publish, stage, step
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

SAID = "SELECT notifier, epoch, numbers, time FROM notifierpos"
TAKEN = "SELECT uns, epoch, last_number, answered_number FROM setspos"


def stage_all(queue: Queue) -> None:
    for kind in PAGED:
        stage(queue, kind)
    step(queue, staging.stage_whole, queue.pid, queue.database.now(departing_whole, queue.pid, 3))


def test_what_is_applied_of_notifiers_and_of_held_sets_goes_along(queue: Queue) -> None:
    said = (b"push/p", b"e", b"1-4", 9)
    taken = (f"held/5/{queue.pid}".encode(), b"e", 7, 7)
    others = (f"held/5/{queue.pid}9".encode(), b"e", 3, 3)
    queue.database.now(lambda txn: txn.insert("notifierpos", ("notifier", "epoch", "numbers", "time"), [said]))
    columns = ("uns", "epoch", "last_number", "answered_number")
    queue.database.now(lambda txn: txn.insert("setspos", columns, [taken, others]))
    stage_all(queue)
    leave(queue, 1000)
    for table in ("notifierpos", "setspos"):
        queue.database.now(lambda txn, table=table: txn.execute(f"DELETE FROM {table}"))
    # Of another stream more is known here than there.
    more = (taken[0], b"e2", 9, 9)
    queue.database.now(lambda txn: txn.insert("setspos", columns, [more]))
    arrive(queue, 1000)
    assert [(bytes(row[0]), bytes(row[1]), bytes(row[2]), row[3]) for row in queue.database.query(SAID)] == [said]
    found = [(bytes(row[0]), bytes(row[1]), *row[2:]) for row in queue.database.query(TAKEN)]
    assert sorted(found) == sorted([taken, more])


def test_the_scheduler_is_told_of_what_has_arrived_once_it_is_opened(queue: Queue) -> None:
    publish(queue)
    queue.database.now(lambda txn: txn.execute("UPDATE pidb SET priority = 4 WHERE pid = ?", [queue.pid]))
    stage_all(queue)
    leave(queue, 1000)
    arrive(queue, 1000)
    sql = "SELECT psetid, firstseq FROM qpsdb WHERE slot = ? ORDER BY psetid LIMIT 1"
    (first,) = queue.database.query(sql, [FETCH_NOW])
    _, told = result_of(queue.store.move_step(50, arrivals.open_arrived, a_move(queue)))
    assert told.queued == {queue.pid: tuple(first)} and told.priorities == {queue.pid: 4}
    # An older move does not open it again.
    older = attrs.evolve(a_move(queue), epoch=3)
    assert not result_of(queue.store.move_step(50, arrivals.open_arrived, older))[1].queued


def test_damaged_pages_are_named_by_the_url_that_they_are_fetched_by(queue: Queue) -> None:
    queue.send(1, notice("a", furl="http://site/files/a"), notice("b"))
    queue.fetch_all()
    stage_all(queue)
    leave(queue, 1000)
    assert sorted(arrive(queue, 1000)) == [notice("b").curl, "http://site/files/a"]


NOW = 1000
TIMES = ("until_time", "owed_time", "since_time", "saved_time")


@pytest.mark.parametrize(
    ("reason", "saved", "times"),
    [
        ("retry-after", 0, (1300, 400, 900, 0)),
        ("retry-after", NOW, (1300, 400, 900, NOW)),
        ("retry-after", NOW + 1, (1300, 400, 900, NOW + 1)),
        # The clock there is ahead: all is counted by this one, but nothing before 1970.  It may be a second later.
        ("retry-after", NOW + 2, (1299, 399, 898, NOW)),
        ("interval", NOW + 600, (701, 0, 300, NOW)),
        # It was saved a while ago, or that clock is behind: what is short counts from now.
        ("retry-after", NOW - 10, (1300, 411, 900, NOW - 10)),
        ("interval", NOW - 10, (1311, 411, 900, NOW)),
        ("bandwidth", NOW - 10, (1311, 411, 900, NOW)),
    ],
)
def test_times_of_another_clock(reason: str, saved: int, times: tuple[int, ...]) -> None:
    delay = Delay(7, 1300.0, reason, owed_time=400.0, since_time=900.0, saved_time=float(saved))
    changed = _by_this_clock(delay, NOW)
    assert tuple(getattr(changed, name) for name in TIMES) == times
    nothing = _by_this_clock(delay._replace(owed_time=0.0, since_time=0.0), NOW)
    assert (nothing.owed_time, nothing.since_time) == (0.0, 0.0)


def test_an_interval_is_not_shortened_by_the_fraction_of_a_second() -> None:
    there, here = 5000.9, 1000.9
    delay = Delay(7, there + 8, "interval", saved_time=there)
    assert _by_this_clock(delay, int(here)).until_time >= here + 8


def test_whose_counters_are_staged(queue: Queue) -> None:
    move = a_move(queue)
    whole = queue.database.now(departing_whole, queue.pid, move.epoch - 1)
    step(queue, staging.stage_whole, queue.add_provider(), whole)
    assert not queue.database.now(staging.is_whole, move)
    step(queue, staging.stage_whole, queue.pid, whole)
    assert queue.database.now(staging.is_whole, move)
    assert not queue.database.now(staging.is_whole, attrs.evolve(move, epoch=move.epoch + 1))


def test_only_files_of_the_carrier_are_left_to_be_copied(queue: Queue) -> None:
    other = queue.add_provider()
    ask(queue, BATCH)
    assert left(queue) == len(NAMES)
    assert queue.database.now(staging.content_left, other) == 0


def test_a_file_that_was_lost_here_is_stored_again(queue: Queue) -> None:
    """Of a row that has no content any longer."""
    (row,) = ask(queue, BATCH)
    queue.record(brought(queue, row))
    before = here(queue)
    lost = "UPDATE lccurl SET fetched_machineid = NULL, fetched_fileid = NULL WHERE curl LIKE '%1/150%'"
    queue.database.now(lambda txn: txn.execute(lost))
    (row,) = ask(queue, BATCH)
    queue.record(brought(queue, row))
    after = here(queue)
    assert after.pop("1/150")[1] > before.pop("1/150")[1] and after == before


@pytest.mark.parametrize(
    ("usual", "pads", "expression"),
    [
        (None, True, "r.x"),
        ("0", True, "NULLIF(r.x, 0)"),
        ("''", False, "NULLIF(r.x, '')"),
        ("''", True, "CASE WHEN LENGTH(r.x) = 0 THEN NULL ELSE r.x END"),
    ],
)
def test_where_a_text_of_spaces_equals_an_empty_one_its_length_is_asked(
    usual: str | None, pads: bool, expression: str
) -> None:
    assert _unless("r.x", usual, pads) == expression


@pytest.mark.parametrize("kind", PAGED)
def test_the_size_of_a_page_is_that_of_its_long_texts(kind: str) -> None:
    table = PAGED[kind]
    longest = {"curl", "furl", "burl", "fetched_url", "moved_url", "headers", "hours", "sent"}
    sizes = {
        name: table.size([tuple(["x" * 9 if name == each else None for each in table.columns])])
        for name in table.columns
    }
    assert sizes == {name: 9 if name in longest else 0 for name in table.columns}
