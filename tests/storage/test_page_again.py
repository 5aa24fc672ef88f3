"""One page is fetched again on an operator's order, on each database."""

from __future__ import annotations

from lcc.domain.keys import url_key
from lcc.model import FETCH_NOW
from lcc.storage.database.tables.order_rows import FETCH_PAGE, add_order
from tests.support.queue import Queue, notice


def again(queue: Queue, name: str = "a", pid: int = 0, now: int = 50) -> dict[int, tuple[int, int]]:
    """Returns what the scheduler is told."""
    pid = pid or queue.pid
    key = url_key(pid, f"http://site/{name}", "")
    queue.database.now(add_order, FETCH_PAGE, pid, 0, key.hex())
    done = queue.carry_out(now)
    assert done.finished[-1] == (FETCH_PAGE, pid, 0)
    assert queue.database.query("SELECT * FROM orders") == []
    queue.check_books()
    return done.work.queued


def queued(queue: Queue) -> list[tuple[str, str, int]]:
    rows = queue.database.query("SELECT curl, mimetype, slot FROM qdb ORDER BY curl, mimetype")
    return [(curl.removeprefix("http://site/"), mimetype, slot) for curl, mimetype, slot in rows]


def test_what_is_cached_is_asked_for_again(queue: Queue) -> None:
    queue.send(3, notice("a", "1"), notice("a", "2", mimetype="text/plain"), notice("b"))
    queue.fetch_all()
    assert set(again(queue)) == {queue.pid}
    assert queued(queue) == [("a", "text/html", FETCH_NOW), ("a", "text/plain", FETCH_NOW)]
    assert len(queue.cached()) == 3  # it stays until it comes
    # Again while it waits: once is enough.
    again(queue)
    assert len(queue.rows()) == 2
    queue.fetch_all()
    assert queue.rows() == [] and len(queue.cached()) == 3


def test_what_waits_for_a_retry_waits_no_longer(queue: Queue) -> None:
    queue.send(3, notice("a"), notice("b"))
    queue.record(*[queue.failed(row, 503) for row in queue.rows()])
    assert all(slot < FETCH_NOW for _, _, slot in queued(queue))
    (told,) = again(queue).items()
    assert told[0] == queue.pid
    now = {name: slot for name, _, slot in queued(queue)}
    assert now["a"] == FETCH_NOW and now["b"] < FETCH_NOW
    assert [row.attempts for row in queue.rows() if row.slot == FETCH_NOW] == [0]


def test_what_failed_for_good_is_queued_again(queue: Queue) -> None:
    queue.send(3, notice("a"), notice("b"))
    queue.record(*[queue.failed(row, 404) for row in queue.rows()])
    assert queued(queue) == []
    again(queue)
    assert queued(queue) == [("a", "text/html", FETCH_NOW)]


def test_what_is_not_known_is_nothing(queue: Queue) -> None:
    queue.send(3, notice("b"))
    queue.fetch_all()
    assert again(queue) == {} and again(queue, "b", pid=99) == {}
    assert queued(queue) == []


def test_hours_are_kept(queue: Queue) -> None:
    queue.send(3, notice("a", hours="3-4"))
    before = queued(queue)
    assert before[0][2] > FETCH_NOW
    again(queue)
    assert queued(queue) == before
