"""Content files that are missing or damaged are fetched again, on each database."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.model import Absorbed, Provider
from lcc.storage.database.tables.content_rows import note_damaged
from lcc.storage.database.tables.order_rows import FETCH_AGAIN, add_order
from lcc.storage.providers.providers import change_provider, get_provider, order_removal
from lcc.storage.queue.maintenance import lost_content
from tests.support.databases import result_of
from tests.support.queue import Queue, notice


def queued(absorbed: Absorbed) -> dict[int, tuple[int, int]]:
    """What the scheduler is told, with the priorities of those that it may not know."""
    assert absorbed.priorities.keys() >= absorbed.queued.keys()
    return dict(absorbed.queued)


@pytest.fixture(params=["direct", "order"])
def lose(request: Any, queue: Queue) -> Any:
    """``lose(file, …)``: these files of machine 1 are found damaged; gives what was queued."""

    def direct(*files: int) -> dict[int, tuple[int, int]]:
        return queued(result_of(queue.store.fetch_again(1, files, 50)))

    def order(*files: int) -> dict[int, tuple[int, int]]:
        queue.database.now(note_damaged, 1, files)
        queue.database.now(add_order, FETCH_AGAIN)
        done = queue.carry_out(50)
        assert done.finished[-1] == (FETCH_AGAIN, 0, 0)
        assert queue.database.query("SELECT * FROM damaged") == []
        return queued(done.work)

    return direct if request.param == "direct" else order


def test_lost_content_is_fetched_again_even_if_it_is_the_same(queue: Queue, lose: Any) -> None:
    queue.send(1, notice("a", "1", subtype="x: y", burl="-", hours="", furl="http://site/f"), notice("b"))
    a, b = queue.rows()
    queue.record(queue.fetched(a, "content", etag='"e"', modified=5), queue.fetched(b))
    before = queue.database.query("SELECT change_number FROM lccurl WHERE urlkey = ?", [a.key])[0][0]
    assert lose(1) == {queue.pid: (2, 1)}
    (again,) = queue.rows()
    assert again.key == a.key and again.generation > a.generation
    told = a.notice._replace(sent="[]")
    assert again.notice == told
    sql = "SELECT state, fetched_machineid, fetched_fileid, md5, etag, mtime, told_md5 FROM lccurl WHERE urlkey = ?"
    assert queue.database.query(sql, [a.key]) == [(1, None, None, "", "", None, "")]
    assert queue.files_to_delete() == [1]
    queue.check_books()
    # The same content as before is taken in: there is no other file of it.
    queue.record(queue.fetched(again, "content"))
    assert queue.database.query(sql, [a.key])[0][:3] == (1, 1, 3)
    assert queue.files_to_delete() == [1]
    after = queue.database.query("SELECT change_number FROM lccurl WHERE urlkey = ?", [a.key])[0][0]
    assert after > before
    queue.check_books()
    # What was told is known again.
    queue.send(2, notice("a", "1", furl="http://site/f"))
    assert queue.rows() == []


def test_hours_hold_for_it_too(queue: Queue, lose: Any) -> None:
    queue.send(1, notice("a", hours="3"), now=3 * 3600)
    queue.record(queue.fetched(queue.rows()[0]))
    assert lose(1) == {}
    ((slot, hours),) = queue.database.query("SELECT slot, hours FROM qdb")
    assert (slot, hours) == (3, "3")
    queue.check_books()


def test_what_has_moved_on_is_left_alone(queue: Queue, lose: Any) -> None:
    queue.send(1, notice("a", "1"), notice("b", "1"), notice("c", "1"))
    queue.fetch_all()
    queue.send(2, notice("a", "2"), notice("b", delete=True))
    a = queue.rows()[0]
    queue.record(queue.fetched(a, "new"))
    queue.database.now(lambda txn: txn.execute("DELETE FROM fsmdb"))
    lose(99)
    lose(1, 2, 99)
    assert [row for row in queue.rows() if not row.delete] == []
    assert queue.files_to_delete() == []
    queue.check_books()


def test_a_fetch_that_is_under_way_does_not_end_it(queue: Queue, lose: Any) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    queue.send(2, notice("a", "2"))
    (row,) = queue.rows()
    lose(1)
    (moved,) = queue.rows()
    assert moved.generation > row.generation and moved.notice == row.notice
    # Content that comes all the same is kept, and fetched once more.
    queue.record(queue.fetched(row, "x"))
    assert [again.key for again in queue.rows()] == [row.key]
    queue.fetch_all()
    assert queue.cached() == {"http://site/a text/html": "cached"}
    queue.check_books()


@pytest.mark.parametrize("code", [403, 404, 410])
def test_nothing_is_left_when_it_cannot_be_fetched_again(queue: Queue, lose: Any, code: int) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    lose(1)
    queue.record(queue.failed(queue.rows()[0], code))
    assert queue.cached() == {"http://site/a text/html": "deleted"}
    assert queue.rows() == [] and queue.stats("files_used") == 0
    queue.check_books()


def test_nothing_is_left_when_there_is_no_room_for_it(queue: Queue, lose: Any) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    lose(1)
    limit(queue, 3)
    queue.record(queue.fetched(queue.rows()[0], "too much"))
    assert queue.cached() == {"http://site/a text/html": "deleted"}
    assert queue.files_to_delete() == [1, 2]
    queue.check_books()


def test_nothing_is_left_when_what_is_told_meanwhile_has_no_room(queue: Queue, lose: Any) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    lose(1)
    limit(queue, 3)
    queue.send(2, notice("a", "2", length=4))
    assert queue.cached() == {"http://site/a text/html": "deleted"}
    queue.check_books()


def limit(queue: Queue, space: int) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert isinstance(provider, Provider)
    queue.database.now(change_provider, attrs.evolve(provider, space_max_bytes=space))


def test_of_a_provider_that_is_being_removed_nothing_is_fetched(queue: Queue, lose: Any) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    queue.database.now(order_removal, queue.pid)
    result_of(queue.store.fetch_again(1, [1], 50))
    assert queue.rows() == []
    queue.carry_out()
    assert queue.files_to_delete() == [1]


def test_many_in_pages_each_of_which_may_be_done_twice(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_content, "PAGE_FILES", 7)
    queue.send(1, *[notice(f"{number}", "1") for number in range(40)])
    queue.fetch_all()
    queue.database.now(note_damaged, 1, range(1, 31))
    queue.database.now(note_damaged, 1, range(20, 36))
    queue.database.now(note_damaged, 2, range(1, 9))
    queue.database.now(add_order, FETCH_AGAIN)
    queue.database.lose = 9
    done = queue.carry_out()
    assert set(done.work.queued) == {queue.pid}
    assert len(queue.rows()) == 35
    assert sorted(queue.files_to_delete()) == list(range(1, 36))
    queue.check_books()
    queue.fetch_all()
    queue.check_books()
    assert queue.stats("files_used") == 40


def test_rows_are_read_by_file(queue: Queue) -> None:
    queue.send(1, *[notice(f"{number}", "1") for number in range(5)])
    queue.record(*[queue.fetched(row, str(row.seq)) for row in queue.rows()])
    first = result_of(queue.store.content_rows(1, 1, 5, 2))
    assert [row.file for row in first] == [2, 3] and all(row.size_bytes == 1 and len(row.md5) == 32 for row in first)
    assert [row.file for row in result_of(queue.store.content_rows(1, 3, 5, 2))] == [4]
    assert result_of(queue.store.content_rows(2, 0, 99, 2)) == []


def test_lost_while_a_full_set_arrives_that_has_named_it(queue: Queue, lose: Any) -> None:
    """What is queued again must not be taken for something that the set does not name."""
    queue.send(1, notice("a", "1"), notice("b"), notice("c"))
    queue.fetch_all()
    first, last = queue.pieces(queue.header(2, full=True), [notice("a", "1"), notice("b")], 1)
    queue.absorb([first])
    lose(1, 3)
    queue.absorb([last])
    left = {row.notice.curl[-1] for row in queue.rows() if not row.delete}
    assert left == {"a", "b"}
    queue.fetch_all()
    sql = "SELECT curl FROM lccurl WHERE state = 1 AND fetched_fileid IS NOT NULL ORDER BY curl"
    assert [curl[-1] for (curl,) in queue.database.query(sql)] == ["a", "b"]
    queue.check_books()
