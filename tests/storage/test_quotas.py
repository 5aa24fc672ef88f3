"""Quotas of files and of space, at absorb and when a fetch ends, on each database."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.errors import code, entry_for
from lcc.model import Source
from lcc.storage.providers.providers import change_provider, get_provider, provider_status
from tests.support.queue import Queue, notice

FILES, SPACE = code("quota-files"), code("quota-space")


def limit(queue: Queue, **limits: Any) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, attrs.evolve(provider, **limits))


def errors(queue: Queue) -> list[tuple[int, str]]:
    status = queue.database.now(provider_status, queue.pid, 100)
    assert status.error_count >= len(status.errors)
    assert all(error.text == entry_for(error.code).text for error in status.errors)
    return [(error.code, error.url.rpartition("/")[2]) for error in status.errors]


def queued(queue: Queue) -> str:
    return "".join(row.notice.curl[-1] for row in queue.rows())


def test_what_is_new_beyond_the_quota_of_files_is_an_error(queue: Queue) -> None:
    limit(queue, files_max=3)
    queue.send(1, *[notice(name) for name in "abcde"])
    assert queued(queue) == "abc"
    assert errors(queue) == [(FILES, "d"), (FILES, "e")]
    queue.check_books()
    queue.fetch_all()
    assert len(queue.cached()) == 3
    queue.send(2, notice("a", "1"), notice("f"))
    assert queued(queue) == "a" and errors(queue)[2:] == [(FILES, "f")]
    queue.check_books()


def test_what_is_queued_counts_and_what_goes_is_free_at_once(queue: Queue) -> None:
    limit(queue, files_max=2)
    queue.send(1, notice("a"), notice("b"))
    queue.send(2, notice("b", delete=True), notice("c"), notice("d"))
    assert queued(queue) == "abc" and errors(queue) == [(FILES, "d")]
    queue.fetch_all()
    queue.send(3, notice("a", delete=True), notice("d"), notice("e"))
    assert queued(queue) == "d"
    row = queue.rows()[0]
    queue.record(queue.failed(row, 404))
    queue.send(4, notice("e"), notice("f"))
    assert queued(queue) == "e"
    queue.check_books()


def test_a_length_told_beyond_the_quota_of_space(queue: Queue) -> None:
    limit(queue, space_max_bytes=100)
    queue.send(1, notice("a", length=60), notice("b", length=50), notice("c", length=40), notice("d"))
    # The length of what is told without one is not known; but here nothing is left.
    assert queued(queue) == "ac" and errors(queue) == [(SPACE, "b"), (SPACE, "d")]
    queue.check_books()
    queue.fetch_all()
    queue.send(2, notice("a", "1", length=101), notice("c", "1", length=99), notice("d"))
    # They came with a byte each.
    assert queued(queue) == "cd" and errors(queue)[2:] == [(SPACE, "a")]
    assert queue.cached()["http://site/a text/html"] == "cached"


def test_told_longer_while_it_is_queued_it_is_not_fetched(queue: Queue) -> None:
    limit(queue, space_max_bytes=100)
    queue.send(1, notice("a", length=60))
    (row,) = queue.rows()
    absorbed = queue.send(2, notice("a", length=101))
    assert absorbed.touched == {row.key}
    assert [row.delete for row in queue.rows()] == [True] and errors(queue) == [(SPACE, "a")]
    queue.check_books()
    queue.record(queue.fetched(row))
    assert not queue.rows() and queue.cached() == {} and queue.files_to_delete() == [1]
    # In one set, too.
    queue.send(3, notice("b", length=1), notice("b", length=101), notice("c", length=101), notice("c", length=1))
    assert queued(queue) == "c" and len(errors(queue)) == 3
    queue.check_books()


def test_content_that_overflows_is_discarded(queue: Queue) -> None:
    limit(queue, space_max_bytes=10)
    queue.send(1, notice("a"), notice("b"), notice("c"))
    a, b, c = queue.rows()
    queue.record(queue.fetched(a, "123456"), queue.fetched(b, "12345"), queue.fetched(c, "1234"))
    assert errors(queue) == [(SPACE, "b")] and queue.stats("space_used") == 10
    assert set(queue.cached()) == {"http://site/a text/html", "http://site/c text/html"}
    assert queue.files_to_delete() == [2]
    queue.check_books()
    # Content that grows too much leaves the older one where it is.
    queue.send(2, notice("a", "1"))
    queue.record(queue.fetched(queue.rows()[0], "1234567"))
    assert errors(queue)[1:] == [(SPACE, "a")] and queue.stats("space_used") == 10
    queue.send(3, notice("a", "2"))
    queue.record(queue.fetched(queue.rows()[0], "12345"))
    assert len(errors(queue)) == 2 and queue.stats("space_used") == 9
    queue.check_books()


def test_content_of_something_told_again_meanwhile_is_no_error(queue: Queue) -> None:
    limit(queue, space_max_bytes=3)
    queue.send(1, notice("a"))
    (row,) = queue.rows()
    queue.send(2, notice("a", "1"))
    recorded = queue.record(queue.fetched(row, "1234"))
    assert [again.key for again in recorded.again] == [row.key] and errors(queue) == []
    queue.record(queue.fetched(queue.rows()[0], "123"))
    assert queue.stats("space_used") == 3
    queue.check_books()


def test_a_file_that_was_refused_does_not_come_back(queue: Queue) -> None:
    """Its result comes twice, the second time when there is room: it has been removed by then."""
    queue.send(1, notice("a"))
    queue.fetch_all()
    limit(queue, space_max_bytes=5)
    queue.send(2, notice("a", "1"))
    result = queue.fetched(queue.rows()[0], "too long")
    queue.record(result)
    assert errors(queue) == [(SPACE, "a")] and queue.files_to_delete() == [2]
    limit(queue, space_max_bytes=None)
    queue.send(3, notice("a", "2"))
    queue.record(result)
    assert queue.database.query("SELECT fetched_fileid FROM lccurl") == [(1,)]
    queue.record(queue.fetched(queue.rows()[0], "new"))
    assert queue.database.query("SELECT fetched_fileid FROM lccurl") == [(3,)]
    queue.check_books()


def test_what_is_fetched_of_a_row_that_does_nothing_leaves_a_tombstone(queue: Queue) -> None:
    limit(queue, space_max_bytes=5)
    queue.send(1, notice("a", "1"))
    (out,) = queue.rows()
    queue.send(2, notice("a", "2", length=9))
    (row,) = queue.rows()
    assert row.delete
    queue.record(queue.fetched(out))
    sql = "SELECT state, curl, mimetype, connseq, source, generation, change_number FROM lccurl"
    told = (out.notice.curl, out.notice.mimetype, row.connseq, row.source)
    assert queue.database.query(sql) == [(0, *told, out.generation, 0)]
    assert queue.rows() == [] and queue.files_to_delete() == [1]
    queue.check_books()


def test_polled_content_counts_once_its_provider_names_it(queue: Queue) -> None:
    """Though it is the same content."""
    queue.send(0, notice("a"), source=Source.POLLED)
    queue.fetch_all()
    queue.send(1, notice("a", "1"))
    limit(queue, files_max=0)
    queue.fetch_all()
    assert errors(queue) == [(FILES, "a")] and queue.stats("files_used") == 0
    queue.check_books()


def test_a_quota_that_was_made_smaller_takes_nothing_away(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abc"])
    waiting = queue.rows()[2]
    queue.record(*[queue.fetched(row, "12345") for row in queue.rows()[:2]])
    limit(queue, files_max=2, space_max_bytes=8)
    queue.record(queue.fetched(waiting, "1"))
    assert errors(queue) == [(FILES, "c")] and queue.stats("files_used") == 2
    queue.send(2, notice("a", "1", length=3), notice("b", "1", length=4))
    assert queued(queue) == "a"
    queue.check_books()


def test_a_full_set_is_judged_by_itself(queue: Queue) -> None:
    """What it does not name goes only at its end; that must not refuse what comes in its place."""
    limit(queue, files_max=3, space_max_bytes=30)
    queue.send(1, *[notice(name, length=10) for name in "abc"])
    queue.fetch_all()
    rows = queue.rows
    queue.send(2, *[notice(name, length=10) for name in "defg"], full=True)
    assert errors(queue) == [(FILES, "g")]
    assert [row.notice.curl[-1] for row in rows()] == ["d", "e", "f"]
    queue.check_books()
    queue.fetch_all()
    assert sorted(name[-11] for name, state in queue.cached().items() if state == "cached") == ["d", "e", "f"]


def test_what_is_fetched_before_a_full_set_is_complete_waits_for_its_end(queue: Queue) -> None:
    limit(queue, files_max=1)
    queue.send(1, notice("a"))
    queue.fetch_all()
    first, last = queue.pieces(queue.header(2, full=True), [notice("b"), notice("b")], size=1)
    queue.absorb([first])
    (row,) = queue.rows()
    now, delays = 20, []
    for _ in range(12):
        recorded = queue.record(queue.fetched(row), now=now)
        assert recorded.retry_time == queue.waiting()["b"] > now and errors(queue) == []
        delays.append(recorded.retry_time - now)
        now = recorded.retry_time
        queue.open_retries(now)
        (row,) = queue.rows()
    assert delays[0] < 100 and min(delays[-3:]) > 1000, "should the rest never come, it is fetched now and then only"
    queue.absorb([last])
    queue.fetch_all()
    assert queue.cached() == {"http://site/a text/html": "deleted", "http://site/b text/html": "cached"}
    assert errors(queue) == []
    queue.check_books()


def test_every_error_is_counted_and_the_newest_are_kept(database: object) -> None:
    from lcc.config import QmConfig

    queue = Queue(database, QmConfig(errors_kept=4, delete_grace=0))  # type: ignore[arg-type]
    limit(queue, files_max=0)
    queue.send(1, *[notice(f"{number}") for number in range(10)])
    status = queue.database.now(provider_status, queue.pid, 100)
    assert (status.error_count, [error.number for error in status.errors]) == (10, [7, 8, 9, 10])
    # The same set again changes nothing.
    queue.send(1, *[notice(f"{number}") for number in range(10)], number=1)
    assert queue.database.now(provider_status, queue.pid, 100).error_count == 10


@pytest.mark.parametrize("lose", [0, 1, 2])
def test_a_lost_commit_counts_no_error_twice(queue: Queue, lose: int) -> None:
    limit(queue, files_max=1)
    queue.database.lose = lose
    queue.send(1, notice("a"), notice("b"))
    queue.database.lose = lose
    queue.record(queue.fetched(queue.rows()[0]))
    assert errors(queue) == [(FILES, "b")]
    queue.check_books()
