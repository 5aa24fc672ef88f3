"""``lcc-admin retry``: only what failed for good is queued again, on each database."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.config import QmConfig
from lcc.model import Source, UrlNotice
from lcc.storage.database.tables.order_rows import RETRY, WANT_FULL_SET, add_order
from lcc.storage.providers.providers import change_provider, get_provider, order_removal, provider_status
from lcc.storage.queue import store as store_module
from lcc.storage.queue.admin import orders as admin_orders
from lcc.storage.queue.admin import retry as queue_retry
from lcc.storage.views.failures import failures
from lcc.storage.views.inspect import count_errors, kept_errors
from lcc.storage.views.overview import overview
from tests.support.databases import result_of
from tests.support.queue import Queue, notice


def fail(queue: Queue, code: int, *names: str, connseq: int = 1, now: int = 20, **more: Any) -> None:
    """These URLs are told, and fail for good."""
    queue.send(connseq, *[notice(name, **more) for name in names], now=now)
    queue.record(*[queue.failed(row, code) for row in queue.rows() if row.notice.curl[12:] in names], now=now)


def retry(queue: Queue, pid: int = 0, code: int = 0, now: int = 50) -> dict[int, tuple[int, int]]:
    queue.database.now(add_order, RETRY, pid, code)
    done = queue.carry_out(now)
    assert done.finished[-1] == (RETRY, pid, code)
    assert queue.database.query("SELECT * FROM orders") == []
    return done.work.queued


def queued(queue: Queue) -> str:
    return "".join(row.notice.curl[-1] for row in queue.rows())


def test_what_failed_is_queued_as_it_was_told(queue: Queue) -> None:
    nasty = "'\"\\%s ?\n; -- \U0001f600"
    told = notice("a", "1", furl="http://site/f", burl="-", subtype=nasty, sent=nasty, ifabsent=True)
    queue.send(3, told, notice("b"))
    a, b = queue.rows()
    queue.record(queue.failed(a, 403), queue.fetched(b))
    assert retry(queue) == {queue.pid: (2, 1)}
    (row,) = queue.rows()
    assert row.notice == told and (row.connseq, row.attempts, row.key) == (3, 0, a.key)
    assert row.generation > a.generation
    queue.check_books()
    queue.fetch_all()
    assert set(queue.cached().values()) == {"cached"} and len(queue.cached()) == 2
    # It has come by now.
    assert retry(queue) == {}
    # The provider is told all the same that it had failed.
    assert queue.database.now(provider_status, queue.pid, 10).error_count == 1


def operators_errors(queue: Queue) -> list[str]:
    """Of which URLs an operator still sees errors: the same, however they are asked for."""
    database = queue.database
    page = database.now(kept_errors, queue.pid, 0, (0, 0), 100)
    assert database.now(kept_errors, 0, 0, (0, 0), 100) == page
    for pid in (0, queue.pid):
        assert database.now(count_errors, pid, 0, 100).number == len(page)
    groups = database.now(failures, 60, 100).groups
    assert sum(group.kept for group in groups) == len(page)
    assert sum(database.now(overview, 10, 100, 0).codes.values()) == len(page)
    return [error.url[12:] for _pid, error in page]


def test_what_was_fetched_at_last_is_no_error_for_an_operator(queue: Queue) -> None:
    fail(queue, 403, *"abc")
    fail(queue, 404, "d")
    assert operators_errors(queue) == ["a", "b", "c", "d"]
    retry(queue)
    a, b, c, d = queue.rows()
    queue.record(queue.fetched(a), queue.failed(c, 503), queue.fetched(d), now=60)
    assert operators_errors(queue) == ["b", "c"]
    assert queue.database.now(kept_errors, queue.pid, 404, (0, 0), 100) == []
    queue.record(queue.failed(b, 404), now=61)
    assert operators_errors(queue) == ["b", "c", "b"]
    queue.send(2, notice("b", delete=True), now=70)
    assert operators_errors(queue) == ["c"]
    # Its provider is told of all that has failed, and of no other number.
    status = queue.database.now(provider_status, queue.pid, 10)
    assert status.error_count == len(status.errors) == 5


def test_only_of_a_provider_or_of_a_code(queue: Queue) -> None:
    first = queue.pid
    fail(queue, 403, "a", "b")
    fail(queue, 404, "c", connseq=2)
    other = queue.pid = queue.add_provider()
    fail(queue, 403, "d")
    assert retry(queue, pid=other, code=404) == {} and retry(queue, pid=999) == {}
    assert set(retry(queue, pid=first, code=404)) == {first}
    queue.pid = first
    assert queued(queue) == "c"
    assert set(retry(queue, code=403)) == {first, other}
    assert queued(queue) == "cab"
    queue.check_books()
    assert retry(queue) == {}


def test_not_what_has_come_to_something_since(queue: Queue) -> None:
    fail(queue, 403, *"abcdefg")
    queue.send(2, notice("a", "2"), notice("b", delete=True), now=30)
    queue.send(3, notice("c"), now=30)
    queue.record(*[queue.fetched(row) for row in queue.rows() if row.notice.curl.endswith("c")], now=30)
    fail(queue, 403, "d", connseq=4, now=31)
    queue.send(1, notice("e", delete=True), now=32)
    assert set(retry(queue)) == {queue.pid}
    assert queued(queue) == "adfg"
    assert {row.notice.curl[-1]: row.connseq for row in queue.rows()} == {"a": 2, "f": 1, "g": 1, "d": 4}
    queue.check_books()
    # What a newer full set has not named is gone.
    queue.send(9, notice("a", "2"), full=True, now=33)
    queue.fetch_all()
    assert retry(queue) == {} and not queue.rows()


def test_what_was_deleted_by_its_error_can_come_back(queue: Queue) -> None:
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    fail(queue, 404, "a", connseq=2, now=30)
    assert list(queue.cached().values()) == ["deleted"]
    retry(queue)
    queue.fetch_all()
    assert list(queue.cached().values()) == ["cached"]
    queue.check_books()


def test_what_expired_or_was_over_quota(queue: Queue) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, attrs.evolve(provider, files_max=1))
    queue.send(1, notice("a", "1"), notice("b"), now=20)
    queue.fetch_all(now=20)
    retry(queue, now=30)
    assert queued(queue) == ""
    queue.database.now(change_provider, attrs.evolve(provider, files_max=2))
    queue.carry_out()
    retry(queue, now=40)
    assert queued(queue) == "b"
    queue.fetch_all()
    queue.keep_house(200 * 86400)
    assert set(queue.cached().values()) == {"deleted"}
    retry(queue, code=1503, now=200 * 86400)
    assert sorted(queued(queue)) == ["a", "b"]
    queue.check_books()


def test_page_by_page_across_providers_and_restarts(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_retry, "PAGE_ROWS", 3)
    pids = []
    for count in (1, 4, 3, 7):
        pids.append(queue.pid)
        fail(queue, 403, *"abcdefg"[:count])
        queue.pid = queue.add_provider()
    queue.database.now(add_order, RETRY)
    queue.database.lose = 2
    monkeypatch.setattr(store_module, "_ORDERS_AT_ONCE", 2)
    found: dict[int, int] = {}
    while result_of(queue.store.carry_out_orders(50)).more:
        queue.store = queue.another_store()
        queue.claim()
    for pid in pids:
        queue.pid = pid
        found[pid] = len(queue.rows())
        queue.check_books()
    assert list(found.values()) == [1, 4, 3, 7]


def test_what_fails_again_while_it_is_carried_out_is_not_tried_for_ever(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_retry, "PAGE_ROWS", 2)
    monkeypatch.setattr(store_module, "_ORDERS_AT_ONCE", 1)
    fail(queue, 403, *"abcde", now=20)
    queue.database.now(add_order, RETRY)
    fetches, now = 0, 50
    while result_of(queue.store.carry_out_orders(now)).more:
        now += 1
        rows = queue.rows()
        fetches += len(rows)
        queue.record(*[queue.failed(row, 403) for row in rows], now=now)
    assert fetches == 5


def test_errors_that_get_lower_numbers_meanwhile_are_tried(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restored database has the order as it was, and then gives its errors other numbers."""
    monkeypatch.setattr(queue_retry, "PAGE_ROWS", 2)
    monkeypatch.setattr(store_module, "_ORDERS_AT_ONCE", 1)
    result_of(queue.store.want_full_sets("cache-crash", error_epoch=1000))
    fail(queue, 403, *"abcde")
    queue.database.now(add_order, RETRY)
    while not queue.rows():
        assert result_of(queue.store.carry_out_orders(50)).more
    assert len(queue.rows()) == 2
    result_of(queue.store.want_full_sets("cache-crash", error_epoch=7))
    while result_of(queue.store.carry_out_orders(50)).more:
        pass
    assert "".join(sorted(queued(queue))) == "abcde"
    queue.check_books()


def test_errors_that_are_no_longer_kept_are_not_tried(database: Any) -> None:
    queue = Queue(database, QmConfig(errors_kept=2))
    fail(queue, 403, *"abcde")
    retry(queue)
    assert queued(queue) == "de"
    queue.check_books()


def test_errors_kept_without_a_notice_and_of_a_removed_provider(queue: Queue) -> None:
    fail(queue, 403, "a")
    queue.database.now(lambda txn: txn.execute("UPDATE urlerrs SET notice = NULL"))
    assert retry(queue) == {}
    fail(queue, 403, "b", connseq=2)
    queue.database.now(add_order, RETRY)
    queue.database.now(order_removal, queue.pid)
    queue.carry_out()
    assert queue.rows() == []


def test_hours_hold_for_what_is_tried_again(queue: Queue) -> None:
    fail(queue, 403, "a", hours="3", now=3 * 3600)
    assert retry(queue, now=12 * 3600) == {}
    assert queue.database.query("SELECT slot FROM qdb") == [(3,)]
    queue.check_books()


def test_a_full_set_is_wanted_by_order(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_orders, "PAGE_PROVIDERS", 3)
    pids = [queue.pid, *[queue.add_provider() for _ in range(4)]]

    def wanted(pid: int) -> str:
        return queue.database.now(provider_status, pid, 0).full_set_wanted

    queue.database.now(add_order, WANT_FULL_SET, pids[1], 0, "moved house")
    queue.carry_out()
    assert [wanted(pid) for pid in pids] == ["", "moved house", "", "", ""]
    queue.database.now(add_order, WANT_FULL_SET, 0, 0, "cache-crash")
    queue.carry_out()
    assert {wanted(pid) for pid in pids} == {"cache-crash"}
    queue.database.now(add_order, WANT_FULL_SET, 999, 0, "x")
    assert queue.carry_out().finished == ((WANT_FULL_SET, 999, 0),)


def test_the_notice_survives_as_it_was(queue: Queue) -> None:
    urls = "http://site/\U0001f600\0", "http://site/f", "b"
    told = UrlNotice(*urls, "text/html", "s", "a" * 32, 2**40, -5, "0-8", sent="[]")
    queue.send(1, told._replace(hours=""))
    queue.record(*[queue.failed(row, 403) for row in queue.rows()])
    retry(queue)
    assert [row.notice for row in queue.rows()] == [told._replace(hours="")]


def test_a_hint_does_not_come_back_where_the_site_has_deleted_its_page(queue: Queue) -> None:
    """Another view of it, or all of them."""
    for name in ("one", "all", "left"):
        queue.send(0, notice(name, mimetype="*/*"), source=Source.FEED)
    queue.record(*[queue.failed(row, 404) for row in queue.rows()], now=20)
    queue.send(2, *[notice(name, "1") for name in ("one", "all")], now=30)
    queue.fetch_all(now=30)
    queue.send(3, notice("one", delete=True), notice("all", mimetype="", delete=True), now=31)
    retry(queue)
    assert [row.notice.curl[12:] for row in queue.rows()] == ["left"]
    queue.check_books()


def test_a_listed_page_without_a_type_is_retried_as_the_views_that_are_known_by_now(queue: Queue) -> None:
    queue.send(1, notice("page", mimetype="*/*"), source=Source.LISTED)
    queue.record(*[queue.failed(row, 404) for row in queue.rows()], now=20)
    queue.send(2, notice("page", "1"), now=30)
    queue.fetch_all(now=30)
    retry(queue)
    assert [row.notice.mimetype for row in queue.rows()] in ([], ["text/html"])
    queue.check_books()
