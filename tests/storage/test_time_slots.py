"""Rows in time slots, partial sets, and delays, on each backend."""

from __future__ import annotations

import attrs
import pytest

from lcc.errors import Busy, StoreUnavailable
from lcc.model import FETCH_NOW, Cursor, Delay, QueueRow, SlotPage
from lcc.storage.providers.providers import change_provider, get_provider
from lcc.storage.queue.admin import orders as admin_orders
from lcc.storage.queue.schedule import time_slots
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

HOUR = 3600


def counts(queue: Queue) -> list[tuple[int, int, int]]:
    """(psetid, slot, rows) of each set."""
    rows = queue.database.query("SELECT psetid, slot, nurls FROM qpsdb ORDER BY psetid, slot")
    return [(row[0], row[1], row[2]) for row in rows]


def names(rows: list[QueueRow]) -> str:
    return "".join(row.notice.curl[-1] for row in rows)


def close(queue: Queue, slot: int, *rows: QueueRow, generation: int | None = None) -> list[str]:
    closed = [(row.key, row.generation if generation is None else generation, slot) for row in rows]
    return [row.notice.curl[-1] for row in result_of(queue.store.record([], [], 20, closed)).again]


def open_page(queue: Queue, slot: int, limit: int = 100, after: tuple[int, int] = (0, 0)) -> SlotPage:
    return result_of(queue.store.open_slot(slot, limit, after))


def test_rows_go_to_their_slot_and_come_back_to_their_place(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abcd"])
    queue.send(2, *[notice(name) for name in "ef"])
    _a, b, _c, d, e, _f = queue.rows()
    assert close(queue, 5, b, d, e) == []
    assert names(queue.rows()) == "acf"
    assert counts(queue) == [(1, FETCH_NOW, 2), (1, 5, 2), (2, FETCH_NOW, 1), (2, 5, 1)]
    queue.check_books()
    assert open_page(queue, 4) == SlotPage([], None)
    assert open_page(queue, 5) == SlotPage([(queue.pid, 1, b.seq, 1)], None)
    assert names(queue.rows()) == "abcdef"
    assert counts(queue) == [(1, FETCH_NOW, 4), (2, FETCH_NOW, 2)]
    queue.check_books()
    queue.fetch_all()
    assert counts(queue) == []


def test_closing_the_same_rows_again_changes_nothing(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    a, _b = queue.rows()
    close(queue, 5, a)
    before = counts(queue)
    assert close(queue, 5, a) == []
    assert counts(queue) == before
    queue.check_books()


def test_a_row_that_has_changed_meanwhile_stays(queue: Queue) -> None:
    queue.send(1, notice("a"))
    (row,) = queue.rows()
    queue.send(2, notice("a", "1"))
    assert close(queue, 5, row) == ["a"]
    assert names(queue.rows()) == "a"
    queue.check_books()


def test_a_row_whose_hours_are_open_again_is_given_back(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b", hours="3"), now=12 * HOUR)
    assert close(queue, FETCH_NOW, *queue.rows()) == ["a"]
    assert counts(queue) == [(1, FETCH_NOW, 1), (1, 3, 1)]
    queue.check_books()


def test_a_slot_is_opened_in_pages_and_never_twice(queue: Queue) -> None:
    queue.send(1, *[notice(f"x{name}") for name in "abcde"])
    queue.send(2, *[notice(f"x{name}") for name in "fg"])
    close(queue, 7, *queue.rows())
    assert queue.rows() == []
    opened = []
    after: tuple[int, int] | None = (0, 0)
    while after is not None:
        page = open_page(queue, 7, 2, after)
        rows = queue.rows()
        opened.append(names(rows))
        close(queue, 7, *rows)  # their hours are closed: back they go
        after = page.upto
    assert "".join(opened) == "abcdefg"
    queue.check_books()


def test_a_slot_with_many_sets_is_opened_in_pages(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slots, "_SETS_AT_ONCE", 2)
    for connseq in range(1, 6):
        queue.send(connseq, notice(f"x{connseq}"))
    close(queue, 7, *queue.rows())
    after: tuple[int, int] | None = (0, 0)
    pages = 0
    while after is not None:
        after = open_page(queue, 7, 100, after).upto
        pages += 1
    assert names(queue.rows()) == "12345" and pages > 2
    queue.check_books()


def test_a_commit_that_was_not_heard_of_is_told_with_the_next(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "ab"])
    close(queue, 7, *queue.rows())
    queue.database.fail_after = 1
    with pytest.raises(StoreUnavailable):
        open_page(queue, 7)
    assert [entry[:2] for entry in open_page(queue, 7).earliest] == [(queue.pid, 1)]
    assert open_page(queue, 7).earliest == []


def test_partial_sets_are_read_by_themselves(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abc"], full=True)
    queue.send(2, *[notice(name) for name in "de"])
    queue.send(3, *[notice(name) for name in "abcdefg"], full=True)
    queue.send(4, notice("h"))

    def read(psetid: int, seq: int, limit: int, partial: bool) -> tuple[str, int]:
        cursor = Cursor(queue.pid, psetid, seq, limit, partial)
        (ahead,), _ = result_of(queue.store.read_ahead([cursor]))
        return names(ahead.rows), ahead.full_left

    assert read(2, 0, 10, True) == ("deh", 0)
    assert read(2, 0, 1, True) == ("d", 0)
    assert read(2, 1, 10, True) == ("eh", 0)
    assert read(0, 0, 2, False) == ("ab", 3)
    assert read(0, 0, 4, False) == ("abcd", 0)
    assert read(0, 0, 6, False) == ("abcdef", 2)


def test_delays_are_saved(queue: Queue) -> None:
    store = queue.store
    rows = [
        Delay(0, 1_700_000_000.25, "bandwidth"),
        Delay(3, 1_700_000_100.5, "site-error", 1301, 4, since_time=1_699_990_000.5),
        Delay(4, 0.0, "", 1302, 2),
        Delay(5, 1_700_000_200.0, "hours"),
    ]
    result_of(store.save_delays(rows))
    assert result_of(store.delays()) == rows
    result_of(store.save_delays([Delay(0, 0.0, ""), Delay(5, 1_700_000_300.0, "hours")]))
    left = [rows[1], rows[2], Delay(5, 1_700_000_300.0, "hours")]
    assert result_of(store.delays()) == left
    result_of(store.record([], [], 20, (), [Delay(3, 0.0, ""), rows[0]]))
    assert result_of(store.delays()) == [rows[0], *left[1:]], "with results, too"


def test_slots_opened(queue: Queue) -> None:
    store = queue.store
    assert result_of(store.slots_opened()) == (0.0, "")
    result_of(store.save_slots_opened(1_700_000_000.5, "24/3600/Europe/Amsterdam"))
    result_of(store.save_slots_opened(1_700_000_001.5, "24/3600/Europe/Amsterdam"))
    assert result_of(store.slots_opened()) == (1_700_000_001.5, "24/3600/Europe/Amsterdam")


def test_only_the_newest_queue_manager_may(queue: Queue) -> None:
    old = queue.store
    queue.store = queue.another_store()
    queue.claim()
    for write in (
        lambda: old.open_slot(1, 10, (0, 0)),
        lambda: old.save_delays([Delay(1, 1.0, "hours")]),
        lambda: old.save_slots_opened(1.0, ""),
    ):
        with pytest.raises(Busy):
            result_of(write())


def change(queue: Queue, **changes: object) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, attrs.evolve(provider, **changes))  # type: ignore[arg-type]


def slots_of(queue: Queue) -> dict[str, int]:
    return {curl[-1]: slot for curl, slot in queue.database.query("SELECT curl, slot FROM qdb ORDER BY psetid, seq")}


def test_new_hours_of_a_provider_move_its_rows(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 3h.  Rows wait in slots that the provider's old hours gave them."""
    monkeypatch.setattr(admin_orders, "PAGE_ROWS", 2)
    change(queue, hours="10-12")
    queue.carry_out(3 * HOUR)
    some = [notice(name, hours="0-12") for name in "abc"]
    queue.send(1, *some, notice("d"), notice("e", hours="11"), now=3 * HOUR)
    queue.send(2, notice("f", hours="2-8,10"), notice("g", hours="3"), now=3 * HOUR)
    assert slots_of(queue) == {"a": 10, "b": 10, "c": 10, "d": FETCH_NOW, "e": 11, "f": 10, "g": FETCH_NOW}
    change(queue, hours="2-6")
    done = queue.carry_out(3 * HOUR)
    assert slots_of(queue) == dict.fromkeys("abcdefg", FETCH_NOW)  # "e" never meets it: it is to be reported
    assert done.work.queued == {queue.pid: (1, 1)}
    queue.check_books()
    change(queue, hours="5-12")
    for row in queue.rows():
        close(queue, 5, row)
    queue.carry_out(3 * HOUR)
    # What has no hours of its own waits in no slot: its provider does.
    assert slots_of(queue) == {**dict.fromkeys("abcf", 5), "d": FETCH_NOW, "e": 11, "g": FETCH_NOW}
    queue.check_books()
    change(queue, hours="", priority=2)
    queue.carry_out(3 * HOUR)
    assert slots_of(queue) == {**dict.fromkeys("abcdfg", FETCH_NOW), "e": 11}
    assert {row[0] for row in queue.database.query("SELECT pri FROM qpsdb")} == {2}
    queue.check_books()
