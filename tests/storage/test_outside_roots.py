"""Roots that are taken away from a provider: what lies outside of the others is neither queued nor taken in."""

from __future__ import annotations

import attrs
import pytest

from lcc.errors import StoreUnavailable, code
from lcc.model import Source, UrlNotice
from lcc.storage.database.tables.order_rows import DELETE_OUTSIDE, ROOTS_TAKEN
from lcc.storage.providers.providers import change_provider, get_provider, order_deletion_outside, provider_status
from lcc.storage.queue.admin import orders as admin_orders
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

OUTSIDE = code("outside-roots")


@pytest.fixture(params=[2, 2000], autouse=True)
def page_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_orders, "PAGE_ROWS", request.param)


def set_roots(queue: Queue, *roots: str, delete_outside: bool = False) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert provider
    provider = attrs.evolve(provider, roots=roots)
    queue.database.now(lambda txn: change_provider(txn, provider, delete_outside=delete_outside))


def errors(queue: Queue) -> list[tuple[int, str]]:
    found = queue.database.now(provider_status, queue.pid, 100).errors
    return sorted((error.code, error.url.removeprefix("http://site/")) for error in found)


def waiting(queue: Queue) -> list[str]:
    return sorted(row.notice.curl[12:] for row in queue.rows() if not row.delete)


def test_what_is_queued_outside_is_dropped(queue: Queue) -> None:
    hours = notice("later", hours="3-4")
    secure = notice("x")._replace(curl="https://site/in/s")
    elsewhere = notice("in/elsewhere", furl="http://site/out")
    queue.send(1, notice("in/a"), notice("b"), notice("c"), hours, secure, elsewhere)
    running = next(row for row in queue.rows() if row.notice.curl.endswith("/b"))
    set_roots(queue, "http://site/in/")
    done = queue.carry_out()
    assert [kind for kind, *_ in done.finished] == ["provider-changed", ROOTS_TAKEN]
    assert queue.pid in done.work.queued, "what was read ahead has to be read again"
    assert waiting(queue) == ["/in/s", "in/a"], "over https it is inside as well"
    assert errors(queue) == [(OUTSIDE, "b"), (OUTSIDE, "c"), (OUTSIDE, "later"), (OUTSIDE, "out")]
    assert queue.stats("nurlproc") == 2
    queue.check_books()
    queue.record(queue.fetched(running))
    assert queue.cached() == {} and queue.files_to_delete(), "what was under way is not kept"
    queue.fetch_all()
    queue.check_books()


def test_what_was_read_ahead_is_read_again_from_the_first_set(queue: Queue) -> None:
    for number, names in enumerate(["xa", "yb", "z"], 1):
        queue.send(number, *[notice(f"in/{name}" if name < "k" else name) for name in names])
    set_roots(queue, "http://site/in/")
    first = queue.database.query("SELECT MIN(psetid) FROM qdb")[0][0]
    assert queue.carry_out().work.queued == {queue.pid: (first, 0)}
    assert waiting(queue) == ["in/a", "in/b"]


def test_what_is_cached_outside_stays_until_somebody_says_so(queue: Queue) -> None:
    queue.send(1, notice("in/a"), notice("b"), notice("c"))
    queue.fetch_all()
    queue.send(2, notice("b", "2"))
    set_roots(queue, "http://site/in/")
    queue.carry_out()
    assert set(queue.cached().values()) == {"cached"}
    assert errors(queue) == [(OUTSIDE, "b")], "that was to be fetched again"
    queue.database.now(order_deletion_outside, queue.pid)
    done = queue.carry_out()
    assert done.work.deletes and [kind for kind, *_ in done.finished] == [DELETE_OUTSIDE]
    assert [url for url, state in queue.cached().items() if state == "cached"] == ["http://site/in/a text/html"]
    assert len(queue.files_to_delete()) == 2
    assert errors(queue) == [(OUTSIDE, "b"), (OUTSIDE, "b"), (OUTSIDE, "c")]
    queue.check_books()


def test_it_goes_at_once_if_that_is_said(queue: Queue) -> None:
    queue.send(1, notice("in/a"), notice("b"))
    queue.fetch_all()
    set_roots(queue, "http://site/in/", delete_outside=True)
    queue.carry_out()
    assert queue.cached()["http://site/b text/html"] == "deleted"
    queue.check_books()


def test_roots_that_are_added_drop_nothing(queue: Queue) -> None:
    queue.send(1, notice("a"))
    set_roots(queue, "http://site/", "http://other/", delete_outside=True)
    assert [kind for kind, *_ in queue.carry_out().finished] == ["provider-changed"]
    assert waiting(queue) == ["a"]


def test_roots_are_looked_at_again_when_a_set_is_absorbed(queue: Queue) -> None:
    """It was spooled, or its session begun, when there were others."""
    queue.send(1, notice("b", "1"), notice("c", "1"), notice("d", "1"), notice("in/a", "1"))
    queue.fetch_all()
    queue.send(2, notice("d", "2"))
    set_roots(queue, "http://site/in/")
    queue.carry_out()
    told = [notice("b", "1"), notice("c", "2"), notice("new"), notice("d", ifabsent=True), notice("in/a", "2")]
    queue.send(3, *told, notice("in/x", furl="http://site/x"))
    assert waiting(queue) == ["in/a"]
    said = [url for number, url in errors(queue)]
    assert said == ["b", "c", "d", "d", "new", "x"] and {number for number, _ in errors(queue)} == {OUTSIDE}
    queue.check_books()
    # Deletions are taken, and what a full set names is named, refused or not.
    queue.send(4, notice("b", delete=True), UrlNotice("http://site/c", delete=True))
    queue.send(5, notice("d", "2"), notice("in/a", "2"), full=True)
    states = {url[12:13]: state for url, state in queue.cached().items()}
    assert states == {"b": "deleted", "c": "deleted", "d": "cached", "i": "cached"}
    queue.check_books()


def test_content_that_was_lost_and_lies_outside_goes(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    queue.fetch_all()
    lost = [file for (file,) in queue.database.query("SELECT fetched_fileid FROM lccurl")]
    result_of(queue.store.fetch_again(1, lost, 30))
    assert waiting(queue) == ["a", "b"]
    set_roots(queue, "http://site/in/")
    queue.carry_out()
    assert waiting(queue) == [] and set(queue.cached().values()) == {"deleted"}
    queue.check_books()


@pytest.mark.parametrize("fails", range(8))
def test_interrupted_it_goes_on_where_it_was(queue: Queue, fails: int) -> None:
    queue.send(1, *[notice(name) for name in "abcdef"], notice("in/x"))
    queue.fetch_all()
    queue.send(2, *[notice(name, "2") for name in "abcdef"], notice("in/x", "2"))
    set_roots(queue, "http://site/in/", delete_outside=True)
    for _ in range(fails):
        if not queue.database.query("SELECT 1 FROM orders"):
            break
        queue.database.fail_after = queue.database.lose = 1
        with pytest.raises(StoreUnavailable):
            result_of(queue.store.carry_out_orders(50))
        queue.database.fail_after = queue.database.lose = 0
        queue.store = queue.another_store()
        queue.claim()
    queue.carry_out()
    assert waiting(queue) == ["in/x"] and list(queue.cached().values()).count("deleted") == 6
    assert len(errors(queue)) == 12, "each once: six that were queued, six that were cached"
    queue.check_books()


def test_former_roots_are_remembered(queue: Queue) -> None:
    def former() -> tuple[str, ...]:
        provider = queue.database.now(get_provider, queue.pid)
        assert provider
        return provider.former_roots

    assert former() == ()
    set_roots(queue, "http://site/in/", "http://b/")
    assert former() == ("http://site/",)
    set_roots(queue, "http://b/")
    set_roots(queue, "http://c/")
    assert former() == ("http://site/", "http://site/in/", "http://b/")
    set_roots(queue, "http://site/")
    assert former() == ("http://site/in/", "http://b/", "http://c/")


def sources(queue: Queue, table: str) -> dict[str, int]:
    live = {"qdb": "operation", "lccurl": "state"}[table]
    rows = queue.database.query(f"SELECT curl, source FROM {table} WHERE {live} = 1")
    return {url.removeprefix("http://site/"): source for url, source in rows}


def test_what_is_polled_may_lie_above_the_roots(queue: Queue) -> None:
    told, polled = int(Source.TOLD), int(Source.POLLED)
    queue.send(1, notice("cached"), notice("again", "1"), notice("lost"))
    queue.send(0, notice("cached"), source=Source.POLLED)
    queue.send(0, notice("lost"), source=Source.POLLED)
    queue.fetch_all()
    (file,) = queue.database.query("SELECT fetched_fileid FROM lccurl WHERE curl = 'http://site/lost'")[0]
    result_of(queue.store.fetch_again(1, [file], 30))
    queue.send(2, notice("new"), notice("again", "2"), notice("told"))
    queue.send(0, notice("new"), notice("again"), notice("robots.txt"), source=Source.POLLED)
    set_roots(queue, "http://site/in/")
    queue.carry_out()
    both = told | polled
    assert sources(queue, "qdb") == {"new": polled, "again": both, "lost": both, "robots.txt": polled}
    assert sources(queue, "lccurl") == {"cached": both, "again": both, "lost": both}, "content stays"
    assert errors(queue) == [(OUTSIDE, "new"), (OUTSIDE, "told")]
    assert queue.database.query("SELECT COUNT(*) FROM urlerrs") == [(2,)], "none of what is only polled"
    assert queue.stats("nurlproc") == 4
    queue.check_books()
    queue.database.now(order_deletion_outside, queue.pid)
    queue.carry_out()
    assert set(sources(queue, "qdb").values()) == {polled}
    assert sources(queue, "lccurl") == dict.fromkeys(("cached", "again", "lost"), polled | 64)
    assert errors(queue) == [(OUTSIDE, path) for path in ("again", "cached", "lost", "new", "told")]
    queue.check_books()
    queue.fetch_all()
    assert len(sources(queue, "lccurl")) == 5 and queue.stats("files_used") == 0
    queue.check_books()


def test_what_is_told_outside_while_it_is_polled_stays_polled(queue: Queue) -> None:
    """Its UNS has checked it against roots of before; there is no content of it yet."""
    polled = int(Source.POLLED)
    queue.send(0, notice("robots.txt"), source=Source.POLLED)
    set_roots(queue, "http://site/in/")
    queue.carry_out()
    queue.send(1, notice("robots.txt"))
    assert sources(queue, "qdb") == {"robots.txt": polled}
    assert errors(queue) == [(OUTSIDE, "robots.txt")]
    queue.check_books()
