"""The contract of the queue's store: what results of fetches do, on each backend."""

from __future__ import annotations

import pytest

from lcc.errors import code
from lcc.storage.database.tables import status
from lcc.storage.providers.providers import provider_status
from lcc.storage.views import selected
from tests.support import stored
from tests.support.queue import Queue, notice

HTML = "text/html"
NOON = 12 * 3600


def test_a_notice_during_the_fetch_is_not_forgotten(queue: Queue) -> None:
    queue.send(1, notice("a", "1"))
    (row,) = queue.rows()
    queue.send(2, notice("a", "2"))
    recorded = queue.record(queue.fetched(row))
    (again,) = recorded.again
    assert again == queue.rows()[0] and again.generation > row.generation
    assert queue.cached() == {"http://site/a text/html": "cached"}
    # Nothing counts as told of what was fetched: the same notice again must not pass for unchanged.
    told = queue.database.query("SELECT told_md5, told_len FROM lccurl WHERE pid = ?", [queue.pid])
    assert told == [("", None)]
    queue.record(queue.fetched(again, "y"))
    assert not queue.rows()
    queue.check_books()


def test_a_result_of_an_earlier_life_of_the_row_is_not_taken_for_this_one(queue: Queue) -> None:
    queue.send(1, notice("a", "1"))
    (row,) = queue.rows()
    queue.record(queue.fetched(row))
    queue.send(2, notice("a", "2"))
    recorded = queue.record(queue.fetched(row, "stale"))
    assert len(recorded.again) == 1 and len(queue.rows()) == 1


def test_a_result_that_comes_twice_is_recorded_once(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    row, other = queue.rows()
    results = [queue.fetched(row), queue.failed(other, 404)]
    queue.record(*results)
    change = queue.database.now(status.last_change)
    recorded = queue.record(*results)
    assert not recorded.deletes and not recorded.again
    assert queue.database.now(status.last_change) == change
    assert queue.stats("errseq") == 1
    queue.check_books()


@pytest.mark.parametrize("private", [False, True])
def test_an_order_from_before_private_addresses_were_allowed(queue: Queue, private: bool) -> None:
    """A queue manager hears of that a second later: what it sent until then is tried again, once."""
    queue.database.now(lambda txn: txn.execute("UPDATE pidb SET allow_private = ?", [int(private)]))
    queue.send(1, notice("a"))
    for attempts in range(2 if private else 1):
        (row,) = queue.rows()
        assert row.attempts == attempts and queue.stats("errseq") == 0
        queue.record(queue.failed(row, code("address-forbidden")), now=NOON)
        queue.open_retries(2 * NOON)
    assert not queue.rows() and queue.stats("errseq") == 1
    queue.check_books()


def test_an_order_from_before_private_addresses_were_allowed_of_a_row_that_was_tried_before(queue: Queue) -> None:
    """However often, and why: it is tried again, once."""
    queue.send(1, notice("a"))
    for error in (503, 503, code("dns-failed"), 503):
        (row,) = queue.rows()
        queue.record(queue.failed(row, error), now=NOON)
        queue.open_retries(2 * NOON)
    queue.database.now(lambda txn: txn.execute("UPDATE pidb SET allow_private = 1"))
    for _ in range(2):
        (row,) = queue.rows()
        assert queue.stats("errseq") == 0
        queue.record(queue.failed(row, code("address-forbidden")), now=2 * NOON)
        queue.open_retries(3 * NOON)
    assert not queue.rows() and queue.stats("errseq") == 1
    queue.check_books()


def test_an_address_that_is_never_allowed_is_not_tried_for_ever(queue: Queue) -> None:
    """Its name resolves to that now and then only."""
    queue.database.now(lambda txn: txn.execute("UPDATE pidb SET allow_private = 1"))
    queue.send(1, notice("a"))
    tried = 0
    while rows := queue.rows():
        error = (503, code("address-forbidden"))[tried % 2]
        tried += 1
        queue.record(queue.failed(rows[0], error), now=tried * NOON)
        queue.open_retries((tried + 1) * NOON)
    assert 7 <= tried <= 8 and queue.stats("errseq") == 1
    queue.check_books()


def test_a_file_that_another_row_has_taken_over_is_not_removed(queue: Queue) -> None:
    """Content of a provider that arrives is its carrier's first; the result that brought it comes once more."""
    queue.send(1, notice("a"))
    (row,) = queue.rows()
    result = queue.fetched(row)
    queue.record(result)
    key = queue.key("b")
    queue.database.now(lambda txn: txn.execute("UPDATE lccurl SET urlkey = ?, curl = 'http://site/b'", [key]))
    queue.record(result)
    assert queue.database.query("SELECT file FROM fsmdb") == []
    assert queue.cached() == {"http://site/b text/html": "cached"}


def test_what_the_header_says_of_the_page_is_seen(queue: Queue) -> None:
    """Content users see some fields: other values of these are a change, though the content is the same."""

    def fetch(headers: str) -> int:
        queue.send(queue.number + 1, notice("a"))
        queue.record(*[queue.fetched(row, headers=headers) for row in queue.rows()])
        return int(queue.database.query("SELECT change_number FROM lccurl")[0][0])

    plain, asked = '["Date","1"]', '["Date","2","X-Robots-Tag","nofollow"]'
    assert [fetch(headers) for headers in (plain, '["Date","2"]', asked, asked, plain)] == [1, 1, 2, 2, 3]


def test_the_same_content_keeps_the_old_file(queue: Queue) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all(now=20)
    queue.send(2, notice("a", "2"))
    queue.fetch_all(now=30)
    found = queue.database.now(selected.url, queue.key("a"))
    assert found is not None
    assert (found.fetched_fileid, found.change, found.confirmed_time, found.fetched_time) == (1, 1, 30, 20)
    assert queue.files_to_delete() == [2]
    queue.send(3, notice("a", "2"))
    assert not queue.rows()
    # Another browse URL is a change that content users want to know, with the same file.
    queue.send(4, notice("a", "3", burl="http://site/frame"))
    queue.fetch_all(now=40)
    found = queue.database.now(selected.url, queue.key("a"))
    assert found is not None
    assert (found.fetched_fileid, found.change, found.burl) == (1, 2, "http://site/frame")
    queue.check_books()


def test_new_content_gets_a_change_number_and_the_old_file_goes(queue: Queue) -> None:
    queue.send(1, notice("a", "1"))
    queue.record(queue.fetched(queue.rows()[0], "old"))
    queue.send(2, notice("a", "2"))
    queue.record(queue.fetched(queue.rows()[0], "newer"))
    (found,) = queue.database.now(stored.urls, queue.pid, None, 10)
    assert (found.change, found.length, found.fetched_fileid) == (2, 5, 2)
    assert queue.files_to_delete() == [1]
    assert queue.stats("space_used") == 5
    queue.check_books()


def test_retryable_errors_go_to_the_end_of_the_set_and_become_final(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    row, other = queue.rows()
    for attempt in range(1, queue.settings.attempts_max):
        recorded = queue.record(queue.failed(row, 503))
        assert queue.rows() == [other] and recorded.requeued == {}
        (due,) = queue.waiting().values()
        assert recorded.retry_time == due
        queue.check_books()
        assert queue.open_retries(due - 1) == {} and queue.rows() == [other]
        (place,) = queue.open_retries(due).values()
        last = queue.rows()[-1]
        assert (last.key, last.attempts, place) == (row.key, attempt, (last.psetid, last.seq))
        assert last.generation > row.generation
        row = last
        queue.check_books()
    recorded = queue.record(queue.failed(queue.rows()[-1], 503))
    assert [row.notice.curl[-1] for row in queue.rows()] == ["b"]
    status = queue.database.now(provider_status, queue.pid, 10)
    assert [(error.code, error.url) for error in status.errors] == [(503, "http://site/a")]
    queue.check_books()


def test_errors_of_the_site_hold_the_provider(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    row, other = queue.rows()
    recorded = queue.record(queue.failed(row, code("dns-failed")))
    assert recorded.held == {queue.pid: code("dns-failed")}
    # To the end of its set: one dead host does not stand before the live ones.
    rows = queue.rows()
    assert [(r.key, r.attempts, r.unreached) for r in rows] == [(other.key, 0, 0), (row.key, 0, 1)]
    assert recorded.requeued == {queue.pid: (rows[1].psetid, rows[1].seq)}
    queue.check_books()


def test_errors_of_the_site_become_final_in_the_end(queue: Queue) -> None:
    queue.send(1, notice("a"))
    for _ in range(19):
        (row,) = queue.rows()
        assert queue.record(queue.failed(row, code("connect-refused"))).held
    (row,) = queue.rows()
    assert not queue.record(queue.failed(row, code("connect-refused"))).held
    assert queue.rows() == []
    assert queue.stats("errseq") == 1
    queue.check_books()


@pytest.mark.parametrize(("error", "state"), [(403, "cached"), (404, "deleted"), (410, "deleted"), (1408, "cached")])
def test_final_errors_keep_or_delete_the_content(queue: Queue, error: int, state: str) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    queue.send(2, notice("a", "2", furl="http://site/fetch", sent='["c", "a"]'))
    recorded = queue.record(queue.failed(queue.rows()[0], error, "really"))
    assert recorded.deletes == (state == "deleted")
    assert queue.cached() == {"http://site/a text/html": state}
    status = queue.database.now(provider_status, queue.pid, 10)
    (stored,) = status.errors
    assert (stored.number, stored.url, stored.sent) == (1, "http://site/fetch", '["c", "a"]')
    assert "really" in stored.text
    queue.check_books()


def test_errors_are_cleared_by_an_accepted_set_that_was_shown_them(queue: Queue) -> None:
    queue.settings.__class__(errors_kept=3)
    queue.send(1, *[notice(name) for name in "abcde"])
    for row in queue.rows():
        queue.record(queue.failed(row, 404))
    status = queue.database.now(provider_status, queue.pid, 3)
    assert (status.error_count, status.errors_upto) == (5, 5)
    assert [error.number for error in status.errors] == [3, 4, 5]
    queue.send(2, notice("x"), errors_upto=4)
    status = queue.database.now(provider_status, queue.pid, 3)
    assert (status.error_count, [error.number for error in status.errors]) == (1, [5])
    queue.send(3, notice("y"), errors_upto=99)
    assert queue.database.now(provider_status, queue.pid, 3).error_count == 0


def test_only_so_many_errors_are_kept(database: object) -> None:
    from lcc.config import QmConfig

    queue = Queue(database, QmConfig(errors_kept=2))  # type: ignore[arg-type]
    queue.send(1, *[notice(name) for name in "abcde"])
    queue.record(*[queue.failed(row, 404) for row in queue.rows()])
    status = queue.database.now(provider_status, queue.pid, 10)
    assert (status.error_count, [error.number for error in status.errors]) == (5, [4, 5])


def test_a_long_name_of_a_charset_is_cut(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.record(queue.fetched(queue.rows()[0], charset="\U0001f600" * 300))
    assert queue.database.query("SELECT charset FROM lccurl") == [("\U0001f600" * 255,)]


def test_what_is_gone_leaves_nothing_but_its_names(queue: Queue) -> None:
    queue.send(1, notice("a", "1"))
    queue.record(queue.fetched(queue.rows()[0], etag='"e"', charset="utf-8", revalidate=True))
    queue.send(2, notice("a", "2"))
    queue.record(queue.failed(queue.rows()[0], 404), now=70)
    sql = "SELECT state, curl, md5, len, etag, charset, told_md5, fetched_fileid, confirmed_time FROM lccurl"
    assert queue.database.query(sql) == [(0, "http://site/a", "", None, "", "", "", None, 70)]
    queue.check_books()


def test_an_older_set_does_not_bring_back_what_has_failed_since(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.fetch_all()
    queue.send(2, notice("a", delete=True))
    queue.send(5, notice("a"))
    queue.record(queue.failed(queue.rows()[0], 404))
    queue.send(4, notice("a"))
    assert not queue.rows()
    queue.send(6, notice("a"))
    assert len(queue.rows()) == 1
