"""What the queue manager keeps about its peers, on each database."""

from __future__ import annotations

import pytest

from lcc.errors import Busy
from lcc.model import MachineState, UnsStanding
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.providers.providers import provider_status
from lcc.storage.providers.sessions import absorbed_numbers
from lcc.storage.queue.maintenance.repair import JUMP, PAGE_PROVIDERS
from lcc.storage.queue.moves.arrivals import ORDER_MARGIN
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

FINE, DATABASE, SPOOL = UnsStanding.FINE, UnsStanding.DATABASE_BEHIND, UnsStanding.SPOOL_BEHIND


def standing(queue: Queue, acked: int, upto: int = 0, uns: str = "uns", epoch: str = "e") -> UnsStanding:
    return result_of(queue.store.check_uns(uns, epoch, acked, upto))


def test_the_size_of_the_queue_is_what_is_to_be_fetched(queue: Queue) -> None:
    assert result_of(queue.store.queue_size()) == 0
    queue.send(1, *[notice(f"{number}") for number in range(5)])
    assert result_of(queue.store.queue_size()) == 5
    queue.send(2, notice("0", delete=True))
    assert result_of(queue.store.queue_size()) == 4
    queue.fetch_all()
    assert result_of(queue.store.queue_size()) == 0 and result_of(queue.store.progress())[1] == 4


def test_how_a_uns_and_the_database_go_together(queue: Queue) -> None:
    assert standing(queue, 0, 1) is FINE and standing(queue, 1, 2) is DATABASE
    queue.database.now(
        lambda txn: txn.insert(
            "setspos", ("uns", "epoch", "last_number", "part_number"), [(b"uns", b"e", 5, 6), (b"other", b"f", 9, 0)]
        )
    )
    assert standing(queue, 5, 7) is FINE and standing(queue, 4, 1000) is FINE
    assert standing(queue, 6, 7) is DATABASE
    assert standing(queue, 5, 6) is SPOOL and standing(queue, 0, 1) is SPOOL
    assert standing(queue, 5, 0) is FINE, "it does not say"
    assert standing(queue, 5, 6, uns="renamed") is FINE
    assert standing(queue, 9, 10, epoch="f") is FINE
    assert standing(queue, 1, 2, epoch="g") is DATABASE
    for _ in range(2):
        result_of(queue.store.note_answered("uns", "e", 8))
        result_of(queue.store.note_answered("new", "g", 3))
    result_of(queue.store.note_answered("uns", "e", 7))
    assert standing(queue, 8, 9) is FINE and standing(queue, 9, 10) is DATABASE
    assert standing(queue, 3, 4, "new", "g") is FINE
    assert standing(queue, 8, 8) is SPOOL and standing(queue, 9, 9, "other", "f") is SPOOL
    assert standing(queue, 10, 9, "other", "f") is SPOOL, "numbers that are given twice are the worse of the two"
    result_of(queue.store.note_answered("uns", "g", 2))
    assert standing(queue, 3, 3, "uns", "g") is FINE and standing(queue, 8, 9) is FINE
    rows = queue.database.query(
        "SELECT last_number, answered_number, part_number FROM setspos WHERE uns = ? ORDER BY epoch", [b"uns"]
    )
    assert rows == [(5, 8, 6), (0, 2, 0)]


def test_a_new_epoch(queue: Queue) -> None:
    queue.send(3, notice("a"))
    queue.fetch_all()
    database = queue.database
    before = database.now(database_epoch)
    counters = dict(database.query("SELECT name, value FROM counters"))
    timeline, change = result_of(queue.store.progress())
    assert timeline.startswith(f"{before}-") and change == 1
    assert result_of(queue.store.check_witness(timeline, 1))
    assert not result_of(queue.store.check_witness(timeline, 2))
    assert not result_of(queue.store.check_witness("elsewhere", 0))
    database.lose = 1  # done twice
    assert result_of(queue.store.begin_epoch(before, "new", 7)) == "new"
    assert result_of(queue.store.begin_epoch(before, "newer", 7)) == "new"
    assert database.now(database_epoch) == "new"
    after = dict(database.query("SELECT name, value FROM counters"))
    assert after["change"] == 7 + JUMP
    for name in ("psetid", "file_order", "batch", "behind"):
        assert after[name] == counters[name] + JUMP
    for name in ("qm_run", "queued", "held", "touched"):
        assert after[name] == counters[name]
    assert result_of(queue.store.check_witness(timeline, 10**12)), "it belongs to the loss that was noticed"
    assert result_of(queue.store.check_witness(before, 10**12))
    assert result_of(queue.store.check_witness(*result_of(queue.store.progress())))
    assert database.query("SELECT name FROM meta WHERE name LIKE 'timeline_upto.%'") == []
    queue.send(4, notice("a", delete=True), notice("b"))
    queue.fetch_all()
    assert min(queue.database.query("SELECT change_number FROM lccurl"))[0] > JUMP
    queue.check_books()
    change = result_of(queue.store.progress())[1]
    assert result_of(queue.store.begin_epoch("new", "third", 7)) == "third"
    assert result_of(queue.store.progress())[1] == change + JUMP, "it has more changes than anybody knows"
    assert result_of(queue.store.check_witness("new", change)) and result_of(queue.store.check_witness(timeline, 1))


def test_everybody_is_asked_for_a_full_set(queue: Queue) -> None:
    columns = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")
    rows = [(pid, "x", "", "", 0, 0, 0, int(pid == 5000)) for pid in range(3000, 3000 + 2 * PAGE_PROVIDERS + 7)]
    queue.database.now(lambda txn: txn.insert("pidb", columns, rows))
    queue.send(5, notice("a"))
    result_of(queue.store.want_full_sets("cache-crash"))
    # One of these is being removed; and there is the provider of this queue.
    wanted = queue.database.query("SELECT COUNT(*) FROM pstats WHERE wantfullset = 'cache-crash'")
    assert wanted == [(len(rows),)]
    assert queue.database.query("SELECT pid FROM pstats WHERE pid = 5000") == []
    assert queue.stats("nurlproc") == 1


@pytest.mark.parametrize("spooled_order", [900, 900 + 20 * ORDER_MARGIN])
def test_connections_after_a_loss_are_newer_than_those_that_are_spooled(queue: Queue, spooled_order: int) -> None:
    """A UNS may have sets of connections that the database, restored from a backup, has not counted: also of after
    the provider moved away and came back, some times."""
    queue.send(3, notice("a"))
    result_of(queue.store.want_full_sets("cache-crash"))
    assert queue.stats("maxconnseq") == 3
    result_of(queue.store.want_full_sets("cache-crash", error_epoch=1000))
    newest = queue.database.now(absorbed_numbers, [queue.pid])[queue.pid]
    spooled, new = queue.header(spooled_order, full=True, uns="spool"), queue.header(newest + 1, full=True)
    queue.absorb(queue.pieces(spooled, [notice("a", "1"), notice("b", "1")]))
    queue.absorb(queue.pieces(new, [notice("a", "2"), notice("c", "2")]))
    queue.fetch_all()
    assert {name[12:13]: state for name, state in queue.cached().items()} == {"a": "cached", "c": "cached"}
    assert queue.stats("wantfullset") == ""


def test_a_session_from_before_a_restore_clears_no_errors_that_came_after_it(queue: Queue) -> None:
    """It was shown others, which had their numbers: 1 and 2."""
    queue.send(1, notice("a"), notice("b"), notice("c"))
    a, b, c = queue.rows()
    queue.record(queue.failed(a, 404))
    assert queue.stats("errseq") == 1
    result_of(queue.store.want_full_sets("cache-crash", error_epoch=1000))
    queue.record(queue.failed(b, 404), queue.failed(c, 404))
    queue.send(2, errors_upto=2)

    def shown() -> tuple[int, int, list[str]]:
        status = queue.database.now(provider_status, queue.pid, 10)
        return status.error_count, status.errors_upto, sorted(error.url[-1] for error in status.errors)

    count, upto, urls = shown()
    assert count == 3 and urls == ["a", "b", "c"]
    queue.send(3, errors_upto=upto)
    assert shown() == (0, upto, [])
    # As after another restore, of the same backup; in whatever order the epochs are.
    queue.send(4, notice("d"))
    queue.record(*[queue.failed(row, 404) for row in queue.rows()])
    shown_before, before = shown()[2], shown()[1]
    result_of(queue.store.want_full_sets("cache-crash", error_epoch=7))
    assert shown_before == shown()[2] == ["d"] and shown()[1] < before
    queue.send(5, errors_upto=before)
    assert shown()[2] == ["d"]
    queue.send(6, errors_upto=shown()[1])
    assert shown()[0] == 0
    queue.check_books()


def test_errors_that_were_left_when_they_were_cleared_do_not_come_back(queue: Queue) -> None:
    result_of(queue.store.want_full_sets("cache-crash", error_epoch=1000))
    queue.send(1, notice("a"))
    queue.record(*[queue.failed(row, 404) for row in queue.rows()])
    queue.database.now(lambda txn: txn.execute("UPDATE pstats SET errcleared = errseq"))
    result_of(queue.store.want_full_sets("cache-crash", error_epoch=7))
    queue.send(2, notice("b"))
    queue.record(*[queue.failed(row, 404) for row in queue.rows()])
    status = queue.database.now(provider_status, queue.pid, 10)
    assert (status.error_count, [error.url[-1] for error in status.errors]) == (1, ["b"])


def test_machines(queue: Queue) -> None:
    store = queue.store
    assert result_of(store.machines()) == []
    states = [MachineState(1, 10, 300, 10_001), MachineState(2, 11, 0, 1)]
    result_of(store.save_machines(states))
    result_of(store.save_machines([MachineState(2, 12, 400, 20_001)]))
    assert result_of(store.machines()) == [states[0], MachineState(2, 12, 400, 20_001)]


def test_names_of_files_that_are_used(queue: Queue) -> None:
    """In the cache, in delete orders, or given to the machine: whichever is the highest."""
    store, insert = queue.store, queue.database.now
    queue.send(1, notice("a"), notice("b"))
    queue.record(*[queue.fetched(row, file=number) for row, number in zip(queue.rows(), (30, 7), strict=True)])
    assert result_of(store.names_used(1)) == 30 and result_of(store.names_used(2)) == 0
    files = [(1000, 1, 40, 0), (1001, 1, 20, 0), (1002, 2, 90, 0)]
    insert(lambda txn: txn.insert("fsmdb", ("id", "machine", "file", "not_before"), files))
    assert result_of(store.names_used(1)) == 40 and result_of(store.names_used(2)) == 90
    result_of(store.save_machines([MachineState(1, 10, 300, 100)]))
    assert result_of(store.names_used(1)) == 99 and result_of(store.names_used(3)) == 0


def test_an_older_queue_manager_writes_nothing(queue: Queue) -> None:
    older = Queue(queue.database).store
    result_of(older.claim(1))
    result_of(queue.store.claim(2))
    assert result_of(queue.store.queue_size()) == 0
    for write in (
        lambda: older.note_answered("uns", "e", 1),
        lambda: older.want_full_sets("cache-crash"),
        lambda: older.begin_epoch("x", "y", 0),
        lambda: older.save_machines([MachineState(1)]),
    ):
        with pytest.raises(Busy):
            result_of(write())
