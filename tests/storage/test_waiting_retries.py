"""Rows that wait to be tried again, on each database."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.config import QmConfig
from lcc.errors import Busy, StoreUnavailable
from lcc.model import FETCH_NOW, RetryPage
from lcc.storage.database.tables.order_rows import RETRY, add_order
from lcc.storage.providers.providers import change_provider, get_provider, order_removal
from lcc.storage.queue import store as store_module
from lcc.storage.queue.admin import retry as queue_retry
from lcc.storage.queue.schedule import waiting_retries
from tests.support.databases import result_of
from tests.support.queue import Queue, notice


def fail(queue: Queue, names: str, code: int = 503, now: int = 20) -> None:
    rows = [row for row in queue.rows() if row.notice.curl[12:] in names]
    queue.record(*[queue.failed(row, code, "why") for row in rows], now=now)


def names(queue: Queue) -> str:
    return "".join(row.notice.curl[12:] for row in queue.rows())


def page(queue: Queue, now: int, limit: int = 100) -> RetryPage:
    return result_of(queue.store.open_retries(now, limit))


def test_they_come_back_behind_their_set_and_before_the_next(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abcd"])
    queue.send(2, notice("x"))
    fail(queue, "bc")
    assert names(queue) == "adx" and set(queue.waiting()) == {"b", "c"}
    queue.check_books()
    assert queue.open_retries(5000) == {queue.pid: (1, queue.rows()[2].seq)}
    assert names(queue) == "adbcx"
    queue.check_books()
    assert result_of(queue.store.providers_with_work()) == [(1, queue.pid, 1)]


def test_the_mark_is_kept_and_grows(queue: Queue) -> None:
    queue.send(1, notice("a"))
    before = 0
    for attempt in range(1, queue.settings.attempts_max):
        fail(queue, "a", now=100)
        (due,) = queue.waiting().values()
        longest = 60 * 2 ** (attempt - 1)
        assert max(before - 100, longest * 0.75) <= due - 100 <= longest + 4
        marks = queue.database.query("SELECT attempts, unreached, bad_code, bad_text, bad_time FROM qdb")
        assert marks == [(attempt, 0, 503, "why", 100)]
        queue.open_retries(due)
        before = due
    fail(queue, "a")
    assert queue.database.query("SELECT * FROM qdb") == []


def test_what_does_not_reach_the_site_is_no_attempt(queue: Queue) -> None:
    queue.send(1, notice("a"))
    for _ in range(queue.settings.hold_attempts_max - 1):
        fail(queue, "a", 1302)
    assert queue.rows()[0].unreached == queue.settings.hold_attempts_max - 1
    fail(queue, "a", 503)
    queue.open_retries(1000)
    (row,) = queue.rows()
    assert (row.attempts, row.unreached) == (1, queue.settings.hold_attempts_max - 1)
    fail(queue, "a", 1302)
    assert queue.database.query("SELECT code FROM urlerrs") == [(1302,)]


def test_an_error_of_the_site_of_what_was_told_anew_meanwhile(queue: Queue) -> None:
    """It says nothing of the new notice."""
    queue.send(1, notice("a"), notice("b"))
    out = queue.rows()[0]
    queue.send(2, notice("a", "1"))
    before = queue.rows()
    recorded = queue.record(queue.failed(out, 1302))
    assert recorded.held == {queue.pid: 1302} and queue.rows() == before
    queue.check_books()


def test_a_long_text_is_cut(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.record(queue.failed(queue.rows()[0], 503, "\U0001f600" * 1000))
    ((text,),) = queue.database.query("SELECT bad_text FROM qdb")
    assert text == "\U0001f600" * 255


@pytest.mark.parametrize("hours", ["", "3"])
def test_told_anew_it_begins_anew(queue: Queue, hours: str) -> None:
    queue.send(1, notice("a"), notice("b"))
    fail(queue, "a")
    absorbed = queue.send(2, notice("a", "1", hours=hours), now=12 * 3600)
    slot = 3 if hours else FETCH_NOW
    rows = queue.database.query("SELECT slot, attempts, unreached FROM qdb WHERE md5 <> ''")
    assert rows == [(slot, 0, 0)] and queue.waiting() == {}
    assert (queue.pid in absorbed.queued) == (not hours)
    queue.check_books()
    assert queue.open_retries(5000) == {}


def test_deleted_while_it_waits(queue: Queue) -> None:
    queue.send(1, notice("a"))
    fail(queue, "a")
    queue.send(2, notice("a", delete=True))
    queue.check_books()
    queue.open_retries(5000)
    (row,) = queue.rows()
    assert row.delete
    queue.record(removed=[(row.key, row.generation)])
    assert queue.database.query("SELECT * FROM qpsdb") == []


def test_not_in_a_newer_full_set(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    fail(queue, "ab")
    queue.send(2, notice("b"), full=True)
    queue.check_books()
    queue.open_retries(5000)
    assert [(row.notice.curl[-1], row.delete) for row in queue.rows()] == [("a", True), ("b", False)]


def test_places_never_meet(queue: Queue) -> None:
    """Two rows of a set that fail, come back, and fail at different times, while nothing else of the set is left."""
    queue.send(1, notice("a"), notice("b"))
    fail(queue, "a", now=20)
    fail(queue, "b", now=1000)
    queue.open_retries(100)
    fail(queue, "a", now=1000)
    queue.open_retries(5000)
    one, other = queue.rows()
    assert one.seq != other.seq
    queue.check_books()


def test_many_slots_and_sets_page_by_page(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "SETS_AT_ONCE", 3)
    pids = [queue.pid, queue.add_provider(), queue.add_provider()]
    for queue.pid in pids:
        for connseq in (1, 2):
            queue.send(connseq, *[notice(f"{connseq}{name}") for name in "abcde"])
        for now, row in zip((20, 20, 24, 90, 200), queue.rows(), strict=False):
            queue.record(queue.failed(row, 503), now=now)
    first = min(min(queue.waiting().values()) for queue.pid in pids)
    assert page(queue, first - 1).earliest == [] and page(queue, first - 1).next_time == first
    opened = set()
    while (found := page(queue, 150, 2)).earliest:
        opened |= {entry[0] for entry in found.earliest}
        for queue.pid in pids:
            queue.check_books()
    assert opened == set(pids) and found.next_time is not None and found.next_time > 150
    for queue.pid in pids:
        assert len(queue.waiting()) == 1 and len(queue.rows()) == 9
    queue.open_retries(1000)
    assert page(queue, 1000) == RetryPage([], None)
    for queue.pid in pids:
        queue.check_books()
        assert len(queue.rows()) == 10
        queue.fetch_all()


def test_a_page_opens_as_many_as_it_may_and_what_was_due_first(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abcde"])
    queue.send(2, *[notice(name) for name in "xyz"])
    for now, some in ((20, "dy"), (1000, "ax"), (2000, "bcez")):
        fail(queue, some, now=now)
    opened = []
    for _ in range(5):
        before = set(names(queue))
        places = {pid: (psetid, seq) for pid, psetid, seq, _ in page(queue, 5000, 2).earliest}
        rows = [row for row in queue.rows() if row.notice.curl[12:] not in before]
        assert places == ({queue.pid: (rows[0].psetid, rows[0].seq)} if rows else {})
        opened.append("".join(sorted(row.notice.curl[12:] for row in rows)))
        queue.check_books()
    assert opened[:2] == ["dy", "ax"] and [len(each) for each in opened] == [2, 2, 2, 2, 0]


def test_a_commit_that_was_not_heard_of_is_told_with_the_next(queue: Queue) -> None:
    queue.send(1, notice("a"))
    fail(queue, "a")
    queue.database.fail_after = 1
    with pytest.raises(StoreUnavailable):
        page(queue, 100)
    assert [entry[0] for entry in page(queue, 100).earliest] == [queue.pid]
    assert page(queue, 100).earliest == []
    queue.check_books()


def test_the_priority_is_that_of_now(queue: Queue) -> None:
    import attrs

    queue.send(1, notice("a"))
    fail(queue, "a")
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, attrs.evolve(provider, priority=2))
    assert page(queue, 100).earliest[0][3] == 2


def test_a_clock_that_was_set_back_or_a_shorter_longest_delay(database: Any) -> None:
    queue = Queue(database, QmConfig(retry_initial=1000, retry_maximum=1000))
    queue.send(1, notice("a"), notice("b"))
    fail(queue, "a", now=1_000_000)
    fail(queue, "b", now=2_000_000)
    queue.open_retries(1_000_100)
    assert set(queue.waiting()) == {"a"} and names(queue) == "b"
    queue.check_books()


def test_only_the_newest_queue_manager_may(queue: Queue) -> None:
    old = queue.store
    queue.store = queue.another_store()
    queue.claim()
    with pytest.raises(Busy):
        result_of(old.open_retries(1, 10))


def test_a_provider_is_removed_with_what_waits(queue: Queue) -> None:
    queue.send(1, notice("a"))
    fail(queue, "a")
    queue.database.now(order_removal, queue.pid)
    queue.carry_out()
    for table in ("qdb", "qpsdb"):
        assert queue.database.query(f"SELECT * FROM {table}") == []
    assert page(queue, 1000) == RetryPage([], None)


# Ordered by lcc-admin.


def retry(queue: Queue, pid: int = 0, code: int = 0, now: int = 50) -> dict[int, tuple[int, int]]:
    queue.database.now(add_order, RETRY, pid, code)
    return queue.carry_out(now).work.queued


def test_only_what_failed_with_that_code_is_tried_now(queue: Queue) -> None:
    first = queue.pid
    queue.send(1, *[notice(name) for name in "abcde"])
    fail(queue, "ab", 503)
    fail(queue, "cd", 1401)
    other = queue.pid = queue.add_provider()
    queue.send(1, notice("x"), notice("y"))
    fail(queue, "x", 1401)
    assert retry(queue, pid=other, code=503) == {} and retry(queue, code=429) == {}
    assert set(retry(queue, pid=first, code=1401)) == {first}
    queue.pid = first
    assert names(queue) == "ecd" and set(queue.waiting()) == {"a", "b"}
    assert [(row.attempts, row.unreached) for row in queue.rows()] == [(0, 0)] * 3
    queue.check_books()
    assert set(retry(queue)) == {first, other}
    assert names(queue) == "eabcd" and queue.waiting() == {}
    queue.pid = other
    assert names(queue) == "yx"
    queue.check_books()


@pytest.mark.parametrize(("rows", "sets"), [(1, 1), (2, 3), (500, 200)])
@pytest.mark.parametrize("alone", [False, True])
def test_page_by_page_with_others_in_between(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, rows: int, sets: int, alone: bool
) -> None:
    monkeypatch.setattr(queue_retry, "PAGE_ROWS", rows)
    monkeypatch.setattr(waiting_retries, "SETS_AT_ONCE", sets)
    pids = [queue.pid, queue.add_provider()]
    for queue.pid in pids:
        for connseq in (1, 2):
            queue.send(connseq, *[notice(f"{connseq}{name}") for name in "abcdef"])
        for number, row in enumerate(queue.rows()):
            queue.record(queue.failed(row, 503 if number % 2 else 1401), now=20 + number % 3 * 30)
    retry(queue, pid=pids[0] if alone else 0, code=1401, now=100)
    for queue.pid in pids:
        left = 6 if queue.pid == pids[0] or not alone else 12
        assert len(queue.waiting()) == left
        assert sorted(names(queue)) == sorted("1a1c1e2a2c2e" if left == 6 else "")
        queue.check_books()


def test_what_fails_again_while_it_is_carried_out_waits(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_retry, "PAGE_ROWS", 2)
    monkeypatch.setattr(store_module, "_ORDERS_AT_ONCE", 1)
    queue.send(1, *[notice(name) for name in "abcde"])
    fail(queue, "abcde", now=20)
    queue.database.now(add_order, RETRY)
    fetches, now = 0, 50
    while result_of(queue.store.carry_out_orders(now)).more:
        now += 1
        rows = queue.rows()
        fetches += len(rows)
        queue.record(*[queue.failed(row, 503) for row in rows], now=now)
    assert fetches == 5
