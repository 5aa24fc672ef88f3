"""Content that is unchanged, told with another browse URL, subtype, fetch URL or other hours: it is not fetched, and
what is told is recorded."""

from __future__ import annotations

from typing import Any

from lcc.storage.database.tables.content_rows import note_damaged
from lcc.storage.database.tables.order_rows import FETCH_AGAIN, add_order
from lcc.storage.database.tables.status import last_change
from lcc.storage.views.selected import Selection, page_by_change
from tests.support.queue import Queue, notice

SAID = {"etag": '"e"', "modified": 100, "revalidate": True}


def cached(queue: Queue, *columns: str, path: str = "page") -> tuple[Any, ...]:
    key = queue.key(path)
    return queue.database.query(f"SELECT {', '.join(columns)} FROM lccurl WHERE urlkey = ?", [key])[0]


def change_now(queue: Queue) -> int:
    return queue.database.now(last_change)


def stored(queue: Queue, **told: Any) -> None:
    """A page that is told and fetched."""
    queue.send(1, notice("page", "a", **told))
    queue.record(queue.fetched(queue.rows()[0], "x", **SAID))


def test_what_content_users_see_is_a_change(queue: Queue) -> None:
    stored(queue, subtype="a: b")
    kept = ("generation", "md5", "len", "etag", "fetched_time", "fetched_fileid", "told_md5", "furl", "status")
    before = cached(queue, *kept)
    for connseq, names in enumerate(({"burl": "http://b/"}, {"subtype": "c: d"}, {"burl": "-", "hours": "3"}), 2):
        change = change_now(queue)
        queue.send(connseq, notice("page", "a", **names), now=10 * connseq)
        expected = (names.get("burl", ""), names.get("subtype", ""), names.get("hours", ""))
        assert cached(queue, "burl", "subtype", "hours") == expected
        assert cached(queue, "change_number", "connseq", "confirmed_time") == (change + 1, connseq, 10 * connseq)
        assert change_now(queue) == change + 1
    assert cached(queue, *kept) == before
    assert queue.rows() == [] and queue.files_to_delete() == [] and queue.stats("nurlproc") == 0
    queue.check_books()


def test_hours_alone_are_recorded_and_no_change(queue: Queue) -> None:
    stored(queue)
    change = change_now(queue)
    queue.send(2, notice("page", "a", hours="3"), now=30)
    assert cached(queue, "hours", "change_number", "connseq", "confirmed_time") == ("3", change, 2, 30)
    assert change_now(queue) == change and queue.rows() == []
    # What is lost is fetched again within them.
    queue.database.now(note_damaged, 1, [1])
    queue.database.now(add_order, FETCH_AGAIN)
    queue.carry_out()
    assert queue.database.query("SELECT slot, hours FROM qdb") == [(3, "3")]


def test_another_fetch_url_is_fetched(queue: Queue) -> None:
    stored(queue)
    change = change_now(queue)
    queue.send(2, notice("page", "a", furl="http://site/other", subtype="a: b"))
    (row,) = queue.rows()
    assert row.notice.furl == "http://site/other" and row.stored is None
    assert cached(queue, "furl", "subtype", "change_number") == ("", "", change)
    queue.record(queue.fetched(row, "x"))
    assert cached(queue, "furl", "subtype", "change_number") == ("http://site/other", "a: b", change + 1)
    queue.send(3, notice("page", "a", furl="http://site/other", subtype="a: b"))
    assert queue.rows() == []
    queue.send(4, notice("page", "a", subtype="a: b"))
    assert [row.notice.furl for row in queue.rows()] == [""]


def test_a_full_set_describes_anew(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page", "a", subtype="a: b"), notice("page", "a", burl="http://b/"), full=True)
    assert cached(queue, "state", "burl", "subtype") == (1, "http://b/", "")
    assert queue.rows() == []


def test_a_set_that_comes_twice_changes_once(queue: Queue) -> None:
    stored(queue)
    pieces = queue.pieces(queue.header(2), [notice("page", "a", subtype="a: b"), notice("other")], size=1)
    queue.database.lose = 1
    queue.absorb(pieces)
    change = change_now(queue)
    queue.absorb(pieces[:1])
    queue.absorb(pieces)
    assert change_now(queue) == change
    assert cached(queue, "subtype", "change_number") == ("a: b", change)
    queue.send(3, notice("page", "a", subtype="a: b"))
    assert change_now(queue) == change


def test_what_is_taken_back_at_once_is_no_change(queue: Queue) -> None:
    stored(queue, subtype="a: b")
    change = change_now(queue)
    queue.send(2, notice("page", "a", subtype="c: d", hours="3"), notice("page", "a", subtype="a: b", hours="3"))
    assert change_now(queue) == change
    assert cached(queue, "subtype", "hours") == ("a: b", "3")


def test_only_the_last_operation_describes(queue: Queue) -> None:
    stored(queue)
    queue.send(4, notice("page", "a", subtype="new: one"))
    change = change_now(queue)
    queue.send(3, notice("page", "a", subtype="old: one"))
    queue.send(5, notice("page", "a", subtype="absent: one", ifabsent=True))
    assert cached(queue, "subtype", "connseq", "change_number") == ("new: one", 5, change)


def test_described_and_deleted_at_once(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page", "a", subtype="a: b"), notice("page", delete=True))
    change = change_now(queue)
    assert cached(queue, "state", "change_number") == (0, change)
    queue.send(3, notice("page", delete=True))
    assert change_now(queue) == change
    queue.check_books()


def test_a_running_fetch_records_what_was_told_last(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page", "b", subtype="a: b"))
    (running,) = queue.rows()
    queue.send(3, notice("page", "b", subtype="c: d", hours="0-23"))
    assert cached(queue, "subtype", "hours") == ("", "")
    queue.record(queue.fetched(running, "y"))
    (row,) = queue.rows()
    queue.record(queue.fetched(row, "y"))
    assert cached(queue, "subtype", "hours", "connseq") == ("c: d", "0-23", 3)


def test_what_the_old_fetch_url_said_is_not_asked_of_the_new_one(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page", furl="http://site/first"))
    (running,) = queue.rows()
    queue.send(3, notice("page", furl="http://site/second"))
    queue.record(queue.fetched(running, "y", **SAID))
    (row,) = queue.rows()
    assert row.notice.furl == "http://site/second"
    assert row.stored is None


def test_lost_content_is_fetched_whatever_is_told(queue: Queue) -> None:
    stored(queue)
    queue.database.now(note_damaged, 1, [1])
    queue.database.now(add_order, FETCH_AGAIN)
    queue.carry_out()
    queue.send(2, notice("page", "a", subtype="a: b"))
    (row,) = queue.rows()
    queue.record(queue.fetched(row, "x"))
    assert cached(queue, "subtype", "fetched_fileid") == ("a: b", 2)


def test_it_leaves_one_selection_and_enters_another(queue: Queue) -> None:
    stored(queue, subtype="a: b")
    before = change_now(queue)
    queue.send(2, notice("page", "a", subtype="c: d"))

    def seen(subtype: str) -> list[tuple[str, str]]:
        chosen = Selection(subtype=subtype)
        page = queue.database.now(page_by_change, chosen, before, change_now(queue))
        return [(row.state, row.subtype) for row in page.rows]

    assert seen("a: b") == [("deleted", "c: d")]
    assert seen("c: d") == [("cached", "c: d")]


def test_many_pages_are_described_at_once(queue: Queue) -> None:
    names = [f"p{number}" for number in range(50)]
    queue.send(1, *[notice(name, "a") for name in names])
    queue.fetch_all()
    change = change_now(queue)
    queue.send(2, *[notice(name, "a", burl="-" if at % 2 else "", hours="3") for at, name in enumerate(names)])
    rows = queue.database.query("SELECT burl, hours, change_number FROM lccurl WHERE pid = ?", [queue.pid])
    assert sorted(number for burl, _, number in rows if burl) == list(range(change + 1, change + 26))
    assert {hours for _, hours, _ in rows} == {"3"}
    assert change_now(queue) == change + 25
    queue.check_books()
