"""Pages whose mime type nobody has told, documents that are polled, and where content was fetched from in the end."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from lcc.domain.keys import url_key
from lcc.domain.mimetypes import MimePatterns
from lcc.errors import CODES
from lcc.model import ANY_TYPE, Absorbed, CachedUrl, FetchResult, QueueRow, Source, UrlNotice, source_text
from lcc.storage.database.tables.key_ranges import UNTYPED, is_untyped, untyped_key
from lcc.storage.queue.results.headers import renewed_headers
from lcc.storage.views.selected import Selection, page_by_change, page_by_key
from tests.support.databases import DirectDatabase, result_of
from tests.support.queue import Queue

PUSHED, LISTED, FEED, POLLED = Source.PUSHED, Source.LISTED, Source.FEED, Source.POLLED
PAGE = UrlNotice("http://site/page", mimetype=ANY_TYPE, sent="[]")
HTML = PAGE._replace(mimetype="text/html")


@pytest.fixture
def queue(database: DirectDatabase) -> Queue:
    queue = Queue(database)
    queue.rules = attrs.evolve(queue.rules, mimetypes=MimePatterns(["text/*"]))
    queue.store = queue.another_store()
    queue.claim()
    return queue


def send(queue: Queue, source: Source, connseq: int, *notices: UrlNotice) -> Absorbed:
    return queue.send(0 if source & (FEED | POLLED) else connseq, *notices, source=source)


def fetched(queue: Queue, row: QueueRow, mimetype: str = "text/html", **more: Any) -> FetchResult:
    return queue.fetched(row, **{"mimetype": mimetype} | more)


def rows(queue: Queue) -> list[tuple[str, str, str, int]]:
    """What is cached: mime type, sources, whether it has a file, by the order of keys."""
    found = queue.database.query(
        "SELECT mimetype, source, fetched_url, fetched_fileid FROM lccurl WHERE state = 1 ORDER BY mimetype"
    )
    return [(mimetype, source_text(source), url or "", file) for mimetype, source, url, file in found]


def one(queue: Queue) -> QueueRow:
    (row,) = queue.rows()
    return row


def test_its_key() -> None:
    key = url_key(7, "http://site/page", ANY_TYPE)
    assert is_untyped(key) and key[16:] == UNTYPED
    assert untyped_key(url_key(7, "http://site/page", "text/html")) == key
    assert not is_untyped(url_key(7, "http://site/page", "text/html"))


def test_the_row_has_the_type_of_the_response(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    row = one(queue)
    assert row.notice.mimetype == ANY_TYPE
    queue.record(fetched(queue, row, "text/html"))
    assert rows(queue) == [("text/html", "feed", "", 1)]
    send(queue, PUSHED, 5, PAGE)
    queue.record(fetched(queue, one(queue), "text/plain", content="new"))
    assert rows(queue) == [("text/plain", "pushed,feed", "", 2)]
    send(queue, PUSHED, 6, PAGE)
    row = one(queue)
    queue.record(fetched(queue, row, ""))
    assert queue.rows() == [] and rows(queue) == [("text/plain", "pushed,feed", "", 2)]  # octet-stream is not taken
    queue.check_books()


def test_a_type_that_is_not_taken_is_an_error(queue: Queue) -> None:
    send(queue, PUSHED, 1, PAGE)
    queue.record(fetched(queue, one(queue), "video/mp4"))
    assert queue.rows() == [] and rows(queue) == []
    ((code, message),) = queue.database.query("SELECT code, message FROM urlerrs")
    assert code == CODES["mimetype-not-accepted"] and message.endswith(": video/mp4")
    assert queue.files_to_delete() == [1]
    queue.check_books()
    send(queue, PUSHED, 2, PAGE)
    queue.record(fetched(queue, one(queue), "video/" + "x" * 300))
    message = queue.database.query("SELECT message FROM urlerrs ORDER BY number DESC")[0][0]
    assert message.endswith(": video/" + "x" * 249)


def test_a_type_that_was_told_is_not_judged_again(queue: Queue) -> None:
    send(queue, PUSHED, 1, HTML)
    queue.record(queue.fetched(one(queue)))
    assert rows(queue) == [("text/html", "pushed", "", 1)]


def test_a_type_that_is_not_taken_is_an_error_of_those_that_do_not_poll(queue: Queue) -> None:
    send(queue, PUSHED, 1, PAGE)
    queue.record(fetched(queue, one(queue)))
    before = queue.database.query("SELECT change_number FROM lccurl")[0][0]
    send(queue, POLLED, 0, PAGE)
    send(queue, LISTED, 5, PAGE)
    queue.record(fetched(queue, one(queue), "video/mp4", content="new"))
    assert queue.rows() == [] and rows(queue) == [("video/mp4", "polled", "", 2)]
    ((code, message, source),) = queue.database.query("SELECT code, message, source FROM urlerrs")
    assert code == CODES["mimetype-not-accepted"] and message.endswith(": video/mp4")
    assert source == PUSHED | LISTED
    page = queue.database.now(page_by_change, Selection(), before, 1000)
    assert [(row.curl, row.state) for row in page.rows] == [(PAGE.curl, "deleted")]
    queue.check_books()
    send(queue, LISTED, 4, PAGE)
    assert queue.rows() == [], "it has the last words of all"
    send(queue, LISTED, 6, PAGE)
    queue.record(fetched(queue, one(queue), content="newer"))
    assert rows(queue) == [("text/html", "listed,polled", "", 3)]
    queue.check_books()


def test_its_type_changes_without_its_content(queue: Queue) -> None:
    send(queue, PUSHED, 1, PAGE)
    queue.record(fetched(queue, one(queue), "text/plain"))
    html, texts, plain = (Selection(mimetypes=(each,)) for each in ("text/html", "text/*", "text/plain"))

    def followed(selection: Selection, after: int) -> list[tuple[str, str]]:
        page = queue.database.now(page_by_change, selection, after, 1000)
        return [(row.mimetype, row.state) for row in page.rows]

    def listed(selection: Selection) -> list[CachedUrl]:
        return queue.database.now(page_by_key, selection).rows

    (before,) = listed(plain)
    assert listed(html) == [] and len(listed(texts)) == 1
    send(queue, PUSHED, 2, PAGE)
    queue.record(fetched(queue, one(queue), "text/html"))
    assert [row.mimetype for row in listed(html)] == ["text/html"] and listed(plain) == []
    assert followed(html, before.change) == followed(texts, before.change) == [("text/html", "cached")]
    assert followed(plain, before.change) == [("text/html", "deleted")]
    queue.check_books()


def test_typed_views_are_fetched_instead(queue: Queue) -> None:
    plain = PAGE._replace(mimetype="text/plain", md5="1" * 32, length=1, mtime=1)
    queue.send(1, HTML, plain)
    queue.fetch_all()
    before = [row[3] for row in rows(queue)]
    send(queue, PUSHED, 5, PAGE)
    queued = queue.rows()
    assert sorted(row.notice.mimetype for row in queued) == ["text/html", "text/plain"]
    assert len({(row.psetid, row.seq) for row in queued}) == 2
    assert (queued[0].key, queued[0].seq) == (min(row.key for row in queued), 1), "one has the place of the notice"
    queue.record(*[fetched(queue, row, row.notice.mimetype, content="new") for row in queued])
    assert [row[:2] for row in rows(queue)] == [("text/html", "told,pushed"), ("text/plain", "told,pushed")]
    assert all(row[3] not in before for row in rows(queue))
    send(queue, FEED, 0, PAGE)
    assert queue.rows() == []  # the site's own word is behind them
    queue.check_books()


def test_a_typed_view_that_waits_is_what_is_pushed(queue: Queue) -> None:
    queue.send(1, HTML)
    send(queue, PUSHED, 2, PAGE)
    assert one(queue).notice.mimetype == "text/html"
    queue.fetch_all()
    assert [row[:2] for row in rows(queue)] == [("text/html", "told,pushed")]
    queue.check_books()


def test_a_typed_view_takes_the_place_when_it_is_stored(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    queue.record(fetched(queue, one(queue)))
    queue.send(1, HTML)
    row = one(queue)
    assert rows(queue) == [("text/html", "feed", "", 1)]
    queue.record(queue.failed(row, 403))
    assert rows(queue) == [("text/html", "feed", "", 1)]  # a typed fetch that fails does not lose the page
    queue.check_books()
    queue.send(2, HTML)
    queue.record(fetched(queue, one(queue)))
    assert rows(queue) == [("text/html", "told,feed", "", 2)]
    deleted = queue.database.query("SELECT urlkey FROM lccurl WHERE state = 0 AND change_number > 0")
    assert [is_untyped(bytes(key)) for (key,) in deleted] == [True]
    assert queue.files_to_delete() == [1]
    queue.check_books()
    send(queue, FEED, 0, PAGE)
    assert queue.rows() == []


def test_a_fetch_of_the_untyped_row_that_is_out_meanwhile(queue: Queue) -> None:
    send(queue, LISTED, 1, PAGE)
    running = one(queue)
    queue.send(2, HTML)
    typed = next(row for row in queue.rows() if row.key != running.key)
    queue.record(fetched(queue, typed))
    assert queue.rows() == [] and [row[:2] for row in rows(queue)] == [("text/html", "told,listed")]
    queue.record(fetched(queue, running))
    assert [row[:2] for row in rows(queue)] == [("text/html", "told,listed")]
    assert queue.files_to_delete() == [2]
    queue.check_books()


def test_it_comes_back_before_the_typed_view(queue: Queue) -> None:
    send(queue, LISTED, 1, PAGE)
    running = one(queue)
    queue.send(2, HTML)
    typed = next(row for row in queue.rows() if row.key != running.key)
    queue.record(fetched(queue, running), fetched(queue, typed, content="other"))
    assert [row[:2] for row in rows(queue)] == [("text/html", "told,listed")]
    queue.check_books()


def test_lost_content_is_fetched_again_as_what_it_is(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    queue.record(fetched(queue, one(queue)))
    result_of(queue.store.fetch_again(1, [1], 50))
    assert one(queue).notice.mimetype == ANY_TYPE
    queue.record(fetched(queue, one(queue), "text/plain"))
    assert rows(queue) == [("text/plain", "feed", "", 2)]


def test_polled_documents_are_taken_whatever_their_type(queue: Queue) -> None:
    send(queue, POLLED, 0, PAGE)
    queue.record(fetched(queue, one(queue), "application/rss+xml"))
    assert rows(queue) == [("application/rss+xml", "polled", "", 1)]
    assert queue.database.query("SELECT * FROM urlerrs") == []
    queue.check_books()
    send(queue, FEED, 0, PAGE)  # somebody links to the feed
    queue.record(fetched(queue, one(queue), "application/rss+xml", content="new"))
    assert rows(queue) == [("application/rss+xml", "polled", "", 2)]
    assert queue.rows() == []
    queue.check_books()


def test_a_polled_document_of_no_type(queue: Queue) -> None:
    send(queue, POLLED, 0, PAGE)
    queue.record(fetched(queue, one(queue), ""))
    assert rows(queue) == [("application/octet-stream", "polled", "", 1)]


def test_a_typed_view_that_is_only_polled_takes_no_place(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    queue.record(fetched(queue, one(queue)))
    send(queue, POLLED, 0, HTML)
    queue.record(fetched(queue, one(queue)))
    assert sorted(row[:2] for row in rows(queue)) == [("text/html", "feed"), ("text/html", "polled")]
    queue.check_books()


def test_a_poll_during_a_fetch_fetches_again(queue: Queue) -> None:
    send(queue, POLLED, 0, PAGE)
    running = one(queue)
    send(queue, POLLED, 0, PAGE)  # after the server has read what it answers
    queue.record(fetched(queue, running, content="old"))
    queue.record(fetched(queue, one(queue), content="new"))
    assert rows(queue) == [("text/html", "polled", "", 2)] and queue.rows() == []
    queue.check_books()


def test_a_page_that_becomes_a_document_of_another_type(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    queue.record(fetched(queue, one(queue)))
    send(queue, POLLED, 0, PAGE)
    queue.record(fetched(queue, one(queue), "application/rss+xml", content="new"))
    assert rows(queue) == [("application/rss+xml", "polled", "", 2)]
    queue.check_books()


def test_where_it_was_fetched_from(queue: Queue) -> None:
    queue.send(1, HTML)
    queue.record(queue.fetched(one(queue), url="http://site/other", moved="http://site/moved", revalidate=True))
    assert queue.database.query("SELECT revalidate FROM lccurl") == [(1,)], "the next fetch begins at the same URL"
    sql = "SELECT fetched_url, moved_url, change_number FROM lccurl"
    ((url, moved, change),) = queue.database.query(sql)
    assert (url, moved) == ("http://site/other", "http://site/moved")
    queue.send(2, HTML)
    queue.record(queue.fetched(one(queue), url="http://site/third"))
    ((url, moved, later),) = queue.database.query(sql)
    assert (url, moved) == ("http://site/third", None) and later > change  # content users are told
    queue.send(3, HTML)
    queue.record(queue.fetched(one(queue)))
    assert queue.database.query(sql)[0][:2] == (None, None)
    queue.send(4, PAGE._replace(mimetype="text/html", furl="http://site/page#top"))
    queue.record(queue.fetched(one(queue), url="http://site/page"))
    assert queue.database.query(sql)[0][0] is None


def test_where_content_was_fetched_from_that_is_fetched_once_more(queue: Queue) -> None:
    sql = "SELECT fetched_url, change_number FROM lccurl"
    queue.send(1, HTML)
    running = one(queue)
    queue.send(2, HTML)  # told again meanwhile
    queue.record(queue.fetched(running, url="http://site/folder/other"))
    ((url, change),) = queue.database.query(sql)
    assert url == "http://site/folder/other", "links of this content are relative to that"
    queue.record(queue.fetched(one(queue), url="http://site/folder/other"))
    assert queue.database.query(sql) == [(url, change)], "nothing has changed"
    queue.send(3, HTML._replace(md5="1" * 32))
    running = one(queue)
    queue.send(4, HTML._replace(md5="2" * 32, furl="http://site/new"))
    queue.record(queue.fetched(running))
    ((url, change),) = queue.database.query(sql)
    assert url == "http://site/page", "it is that of the former fetch URL"
    queue.record(queue.fetched(one(queue)))
    ((url, later),) = queue.database.query(sql)
    assert url is None and later > change, "content users are told"


def test_the_header_of_an_answer_not_modified(queue: Queue) -> None:
    send(queue, POLLED, 0, PAGE)
    headers = json.dumps(["Cache-Control", "max-age=60", "Content-Type", "application/rss+xml"])
    queue.record(fetched(queue, one(queue), "application/rss+xml", etag='"e"', revalidate=True, headers=headers))
    send(queue, POLLED, 0, PAGE)
    row = one(queue)
    assert row.stored is not None
    told = json.dumps(["cache-control", "max-age=3600", "Content-Type", "text/x"])
    queue.record(
        FetchResult(
            row.pid, row.key, row.generation, 0, 304, url=row.notice.curl, headers=told, unchanged=row.stored.token
        )
    )
    ((kept, mimetype),) = queue.database.query("SELECT headers, mimetype FROM lccurl")
    assert json.loads(kept) == ["Content-Type", "application/rss+xml", "cache-control", "max-age=3600"]
    assert mimetype == "application/rss+xml" and queue.rows() == []


@pytest.mark.parametrize(
    ("stored", "renewed", "result"),
    [
        ("", '["A","1"]', ["A", "1"]),
        ('["A","1","B","2"]', '["a","3"]', ["B", "2", "a", "3"]),
        ('["Content-Length","5"]', '["Content-Length","0","ETag","x"]', ["Content-Length", "5", "ETag", "x"]),
        ('["Content-Encoding","gzip"]', '["Content-Encoding","br","Content-Type","x"]', ["Content-Encoding", "gzip"]),
        ('["A","1"]', "no JSON", None),
        ('["A","1"]', '["A"]', None),
        ('["A","1"]', "{}", None),
    ],
)
def test_renewed_headers(stored: str, renewed: str, result: list[str] | None) -> None:
    assert (
        renewed_headers(stored, renewed) == stored
        if result is None
        else json.loads(renewed_headers(stored, renewed)) == result
    )


def test_a_notice_sees_the_typed_view_that_stands_before_it_in_the_same_set(queue: Queue) -> None:
    send(queue, PUSHED, 1, HTML, PAGE)
    assert [row.notice.mimetype for row in queue.rows()] == ["text/html"]
    queue.check_books()


def test_a_hint_is_about_the_typed_view(queue: Queue) -> None:
    send(queue, FEED, 0, HTML)
    send(queue, Source.LINK, 0, PAGE)
    assert [(row.notice.mimetype, row.source) for row in queue.rows()] == [("text/html", FEED | Source.LINK)]
    queue.check_books()


@pytest.mark.parametrize("is_fetched", [False, True])
def test_what_is_retracted_does_not_come_back_with_the_typed_view(queue: Queue, is_fetched: bool) -> None:
    send(queue, PUSHED, 1, PAGE)
    if is_fetched:
        queue.fetch_all()
    queue.send(2, HTML)
    send(queue, PUSHED, 3, PAGE._replace(retract=True))
    queue.fetch_all()
    assert [row[:2] for row in rows(queue)] == [("text/html", "told")]
    queue.check_books()


@pytest.mark.parametrize("operation", ["delete", "retract"])
def test_an_older_notice_of_a_view_that_was_not_known_then(queue: Queue, operation: str) -> None:
    send(queue, PUSHED, 9, PAGE._replace(**{operation: True}))
    send(queue, PUSHED, 5, HTML)
    send(queue, PUSHED, 6, PAGE)
    assert not [row for row in queue.rows() if not row.delete]
    queue.check_books()


@pytest.mark.parametrize("is_fetched", [False, True])
@pytest.mark.parametrize("source", [Source.TOLD, PUSHED])
def test_the_site_deletes_a_typed_view_of_a_page_that_is_hinted(
    queue: Queue, is_fetched: bool, source: Source
) -> None:
    send(queue, FEED, 0, PAGE)
    if is_fetched:
        queue.fetch_all()
    send(queue, source, 1, HTML._replace(delete=True))
    assert rows(queue) == [] and not [row for row in queue.rows() if not row.delete]
    send(queue, FEED, 0, PAGE)
    assert not [row for row in queue.rows() if not row.delete]
    queue.check_books()


def test_what_is_polled_or_listed_as_well_stays(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    send(queue, POLLED, 0, PAGE)
    queue.record(fetched(queue, one(queue)))
    queue.send(1, HTML._replace(delete=True))
    assert rows(queue) == [("text/html", "polled", "", 1)]
    send(queue, LISTED, 2, PAGE)
    queue.record(fetched(queue, one(queue)))
    queue.send(3, HTML._replace(delete=True))
    assert [row[:2] for row in rows(queue)] == [("text/html", "listed,polled")]
    queue.check_books()


def test_sets_of_several_sources_in_one_transaction(queue: Queue) -> None:
    """What each of them concerns is read, whichever comes first."""
    plain, other = PAGE._replace(mimetype="text/plain"), PAGE._replace(curl="http://site/other")
    queue.send(1, HTML, plain)
    queue.fetch_all()
    hint = queue.pieces(queue.header(0, source=FEED), [other, HTML._replace(curl="http://site/third")])
    taken = queue.pieces(queue.header(3), [PAGE._replace(mimetype="", delete=True)])
    assert [answer.code for answer in queue.absorb([*hint, *taken]).answers] == [0, 0]
    assert rows(queue) == [], "also the views that the set does not name"
    older = queue.pieces(queue.header(2), [HTML, other._replace(mimetype="text/html")])
    queue.absorb([*hint, *older])
    for late in (HTML, PAGE, PAGE._replace(mimetype="text/rtf")):
        send(queue, FEED, 0, late)
    found = sorted((row.notice.curl[12:], row.notice.mimetype) for row in queue.rows() if not row.delete)
    expected = [("other", ANY_TYPE), ("other", "text/html"), ("third", "text/html")]
    assert found == expected, "nothing of what its site has taken away since"
    queue.check_books()


def named(queue: Queue) -> dict[str, int]:
    """Mime type of what is queued to be fetched -> who names it."""
    return {row.notice.mimetype: row.source for row in queue.rows() if not row.delete}


def test_of_typed_and_untyped_views_the_typed_ones_are_meant(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    queue.send(1, HTML)
    send(queue, PUSHED, 2, PAGE)
    assert named(queue) == {"text/html": Source.TOLD | PUSHED, ANY_TYPE: FEED}
    queue.check_books()


def test_hints_stay_while_the_site_names_a_view_by_another_word(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    send(queue, PUSHED, 9, HTML)
    queue.send(5, HTML)
    queue.send(6, HTML._replace(delete=True))
    assert named(queue) == {"text/html": PUSHED, ANY_TYPE: FEED}
    queue.check_books()


def test_hints_go_where_a_view_stays_because_it_is_polled(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    queue.send(1, HTML)
    send(queue, POLLED, 0, HTML)
    queue.send(2, HTML._replace(delete=True))
    assert named(queue) == {"text/html": POLLED}
    queue.check_books()


def test_a_page_that_its_site_names_as_well_is_no_hint(queue: Queue) -> None:
    send(queue, FEED, 0, PAGE)
    send(queue, PUSHED, 1, PAGE)
    queue.send(2, HTML, HTML._replace(curl="http://site/other"))
    tombstones = "SELECT COUNT(*) FROM lccurl"
    queue.send(3, HTML._replace(delete=True), HTML._replace(curl="http://site/other", delete=True))
    assert named(queue) == {ANY_TYPE: PUSHED | FEED}
    assert queue.database.query(tombstones) == [(2,)], "none of pages that had no such view"
    queue.check_books()


def test_hints_stay_where_a_view_is_taken_back(queue: Queue) -> None:
    """That deletes nothing."""
    send(queue, FEED, 0, PAGE)
    send(queue, PUSHED, 1, HTML)
    send(queue, PUSHED, 2, HTML._replace(retract=True))
    assert named(queue) == {ANY_TYPE: FEED}
    queue.check_books()


def test_what_a_notifier_takes_back_of_all_views_is_its_own_word(queue: Queue) -> None:
    """An older set of the provider is not behind it."""
    send(queue, PUSHED, 9, PAGE._replace(retract=True))
    queue.send(5, HTML)
    assert named(queue) == {"text/html": Source.TOLD}
