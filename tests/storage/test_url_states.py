"""What became of URLs, as a spider asks that has told them."""

from __future__ import annotations

import attrs
import pytest

from lcc.domain.keys import url_key
from lcc.errors import code
from lcc.model import ANY_TYPE, Source, UrlNotice
from lcc.model.notifiers import NoticeId
from lcc.storage.database.tables.key_ranges import views_range
from lcc.storage.providers.providers import change_provider, get_provider
from lcc.storage.views.url_states import Found, applied_sets, url_states
from tests.support.queue import Queue, notice


def hint(path: str, **more: object) -> UrlNotice:
    return notice(path, mimetype=ANY_TYPE, ifabsent=True, **more)


def recheck(path: str) -> UrlNotice:
    return notice(path, mimetype=ANY_TYPE, recheck=True)


def tell(queue: Queue, *notices: UrlNotice, now: int = 10) -> None:
    queue.send(0, *notices, source=Source.LINK, now=now)


def state(queue: Queue, path: str) -> Found:
    page = views_range(queue.key(path, ""))
    return queue.database.now(url_states, [page])[page]


def fetch(queue: Queue, content: str = "x", now: int = 20) -> None:
    rows = queue.rows()
    queue.record(*[queue.fetched(row, content, mimetype="text/html") for row in rows], now=now)


def test_from_hint_to_deletion(queue: Queue) -> None:
    assert state(queue, "a") == Found()
    tell(queue, hint("a"))
    assert state(queue, "a") == Found("queued")
    (row,) = queue.rows()
    queue.record(queue.failed(row, 503, "later"), now=15)
    found = state(queue, "a")
    assert (found.state, found.code, found.error, found.error_time) == ("queued", 503, "later", 15)
    queue.open_retries(10**6)
    fetch(queue)
    first = state(queue, "a")
    assert first[:4] == ("cached", row.key, "text/html", queue.fetched(row).md5) and not first.code
    assert (first.change, first.fetched_time, first.confirmed_time) == (1, 20, 20)
    # A hint of what is there changes nothing; a recheck has it fetched again.
    tell(queue, hint("a"))
    assert state(queue, "a") == first
    tell(queue, recheck("a"))
    assert state(queue, "a") == first._replace(state="queued")
    fetch(queue, now=30)
    assert state(queue, "a") == first._replace(confirmed_time=30)
    tell(queue, recheck("a"))
    fetch(queue, "changed", now=40)
    changed = state(queue, "a")
    assert (changed.state, changed.change, changed.fetched_time) == ("cached", 2, 40) and changed.md5 != first.md5
    # Errors that leave the content, and one that takes it away.
    tell(queue, recheck("a"))
    queue.record(*[queue.failed(row, 403) for row in queue.rows()], now=50)
    refused = state(queue, "a")
    assert refused._replace(code=0, error="", error_time=0) == changed
    assert (refused.code, refused.error, refused.error_time) == (403, "Forbidden", 50)
    tell(queue, recheck("a"))
    fetch(queue, "changed", now=60)
    assert state(queue, "a") == changed._replace(confirmed_time=60), "the error is over"
    tell(queue, recheck("a"))
    queue.record(*[queue.failed(row, 404) for row in queue.rows()], now=70)
    gone = state(queue, "a")
    assert gone == Found("deleted", row.key, change=3, confirmed_time=70, code=404, error="Not Found", error_time=70)


def test_what_was_never_there(queue: Queue) -> None:
    tell(queue, hint("a"), hint("b"))
    queue.record(*[queue.failed(row, 404) for row in queue.rows()], now=20)
    assert state(queue, "a") == Found(code=404, error="Not Found", error_time=20)
    tell(queue, hint("a"), now=30)
    assert (state(queue, "a").state, state(queue, "a").code) == ("queued", 0)


def test_over_quota_and_refused_types(queue: Queue) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, attrs.evolve(provider, files_max=1))
    tell(queue, hint("a"), hint("b"))
    fetch(queue)
    found = {path: state(queue, path) for path in "ab"}
    assert sorted(each.state for each in found.values()) == ["cached", "unknown"]
    assert code("quota-files") in {each.code for each in found.values()}
    queue.database.now(change_provider, provider)
    tell(queue, hint("type"))
    (row,) = queue.rows()
    queue.record(queue.failed(row, code("mimetype-not-accepted")))
    assert (state(queue, "type").state, state(queue, "type").code) == ("unknown", code("mimetype-not-accepted"))


def test_the_sites_own_word(queue: Queue) -> None:
    """What the site has deleted no hint revives, its own pages no recheck fetches; a polled one is nobody's."""
    queue.send(1, notice("a"), notice("b"))
    queue.fetch_all()
    queue.send(2, notice("a", delete=True), notice("never", delete=True))
    tell(queue, hint("a"), recheck("b"), hint("never"))
    assert not queue.rows()
    assert [state(queue, path).state for path in ("a", "b", "never")] == ["deleted", "cached", "deleted"]
    queue.send(0, notice("robots.txt", mimetype=ANY_TYPE), source=Source.POLLED)
    assert state(queue, "robots.txt").state == "unknown"
    queue.fetch_all()
    assert state(queue, "robots.txt").state == "unknown"


def test_of_several_views_the_one_fetched_last(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("a", mimetype="text/plain"))
    html, plain = queue.rows()
    queue.record(queue.fetched(html, "html"), now=20)
    assert state(queue, "a").state == "queued"
    queue.record(queue.fetched(plain, "plain"), now=30)
    assert (state(queue, "a").key, state(queue, "a").state) == (plain.key, "cached")
    exact = (html.key, html.key)
    assert queue.database.now(url_states, [exact])[exact].confirmed_time == 20


def test_sets_on_their_way(queue: Queue) -> None:
    page = views_range(queue.key("a", ""))
    assert queue.database.now(url_states, [page], [page])[page].state == "arriving"
    header = attrs.evolve(queue.header(0), source=Source.LINK, said=NoticeId("spider/main", "e1", 7, 0))
    queue.absorb(queue.pieces(header, [hint("a")]))
    applied = queue.database.now(applied_sets, "spider/main", "e1")
    assert 7 in applied and 8 not in applied
    assert 7 not in queue.database.now(applied_sets, "spider/main", "e2")


@pytest.mark.parametrize("count", [1, 700])
def test_many_at_once(queue: Queue, count: int) -> None:
    tell(queue, *[hint(f"{number}") for number in range(count)])
    pages = [views_range(url_key(queue.pid, f"http://site/{number}", "")) for number in range(count + 1)]
    found = queue.database.now(url_states, [*pages, *pages])
    assert [found[page].state for page in pages] == ["queued"] * count + ["unknown"]
