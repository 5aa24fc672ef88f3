"""What content users see of what others than its provider name: they select by source; what is only polled is shown
to nobody who does not ask for it, and what was more than that is deleted."""

from __future__ import annotations

from lcc.model import Source
from lcc.storage.views.selected import EVERYTHING, Selection, page_by_change, page_by_key
from tests.support.queue import Queue, notice

TOLD, PUSHED, LISTED, FEED, LINK, POLLED = Source


def there(queue: Queue, sources: int = 0) -> set[str]:
    page = queue.database.now(page_by_key, Selection(sources=sources))
    return {row.curl[12:] for row in page.rows if row.pid == queue.pid}


def changes(queue: Queue, after: int = 0, sources: int = 0) -> dict[str, str]:
    page = queue.database.now(page_by_change, Selection(sources=sources), after, 1 << 40)
    return {row.curl[12:]: row.state for row in page.rows if row.pid == queue.pid}


def last_change(queue: Queue) -> int:
    return int(queue.database.query("SELECT value FROM counters WHERE name = 'change'")[0][0])


def test_selections_by_source(queue: Queue) -> None:
    queue.send(1, notice("told"), notice("both"))
    queue.send(2, notice("listed"), notice("both"), source=LISTED)
    queue.send(0, notice("hinted", ifabsent=True), source=FEED)
    queue.send(0, notice("polled"), notice("told"), source=POLLED)
    queue.fetch_all()
    assert there(queue) == {"told", "both", "listed", "hinted"}
    assert there(queue, TOLD) == {"told", "both"}
    assert there(queue, LISTED | FEED) == {"listed", "both", "hinted"}
    assert there(queue, POLLED) == {"polled", "told"}
    assert set(changes(queue)) == {"told", "both", "listed", "hinted"}
    assert queue.stats("files_used") == 4 and queue.stats("files_pending") == 0
    queue.check_books()


def test_selections_have_the_digests_of_earlier_versions() -> None:
    assert Selection().digest == EVERYTHING
    assert Selection(frozenset({1})).digest == "ebe8e40d1cea41e7"
    assert Selection(frozenset({1}), sources=TOLD).digest != Selection(frozenset({1})).digest


def test_who_follows_a_source_sees_that_it_names_a_page_no_longer(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.send(2, notice("a"), source=LISTED)
    queue.fetch_all()
    before = last_change(queue)
    queue.send(3, notice("a", retract=True), source=LISTED)
    assert changes(queue, before) == {"a": "cached"}
    assert changes(queue, before, LISTED) == {"a": "deleted"}
    queue.send(4, notice("a"), source=LISTED)
    queue.fetch_all()
    before = last_change(queue)
    queue.send(5, full=True)
    assert changes(queue, before) == {"a": "cached"} and changes(queue, before, TOLD) == {"a": "deleted"}


def test_what_is_only_polled_from_then_on_is_deleted(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    queue.send(0, notice("a"), notice("b"), notice("c"), source=POLLED)
    queue.fetch_all()
    before = last_change(queue)
    queue.send(2, notice("a", delete=True))
    queue.send(3, full=True)
    queue.fetch_all()
    assert there(queue) == set() and there(queue, POLLED) == {"a", "b", "c"}
    assert changes(queue, before) == {"a": "deleted", "b": "deleted"}
    assert queue.stats("files_used") == 0 and queue.stats("space_used") == 0
    # Told again, it appears: once it is fetched as a page.
    before = last_change(queue)
    queue.send(4, notice("c"), notice("a"))
    assert there(queue) == set() and queue.stats("files_pending") == 2
    assert all(row.stored is None for row in queue.rows()), "what was polled proves nothing"
    queue.fetch_all()
    assert there(queue) == {"a", "c"} and changes(queue, before) == {"a": "cached", "c": "cached"}
    queue.check_books()


def test_a_poll_of_what_was_deleted_hides_nothing(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.fetch_all()
    before = last_change(queue)
    queue.send(2, notice("a", delete=True))
    queue.send(0, notice("a"), notice("b"), source=POLLED)
    queue.fetch_all()
    assert changes(queue, before) == {"a": "deleted"} and there(queue, POLLED) == {"a", "b"}
    queue.send(0, notice("a", retract=True), notice("b", retract=True), source=POLLED)
    assert changes(queue, before) == {"a": "deleted"} and there(queue, POLLED) == set()
    queue.check_books()


def test_errors_of_others_are_not_for_the_provider(queue: Queue) -> None:
    queue.send(1, notice("told"))
    queue.send(0, notice("polled"), source=POLLED)
    queue.send(0, notice("hinted", ifabsent=True), source=LINK)
    queue.record(*[queue.failed(row, 404) for row in queue.rows()])
    errors = queue.database.query(
        "SELECT number, url, source FROM urlerrs WHERE pid = ? ORDER BY number", [queue.pid]
    )
    assert errors == [
        (-2, "http://site/hinted", LINK),
        (-1, "http://site/polled", POLLED),
        (1, "http://site/told", TOLD),
    ]
    assert queue.stats("errseq") == 1
    queue.send(2, errors_upto=1)
    assert len(queue.database.query("SELECT 1 FROM urlerrs WHERE pid = ?", [queue.pid])) == 2


def test_polls_have_no_quota_and_no_roots(queue: Queue) -> None:
    queue.database.query("UPDATE pidb SET filesmax = 0 WHERE pid = ?", [queue.pid])
    robots = notice("x")._replace(curl="http://other/robots.txt", mimetype="*/*")
    queue.send(0, robots, source=POLLED)
    queue.fetch_all()
    assert queue.database.query("SELECT curl, source FROM lccurl WHERE state = 1 AND pid = ?", [queue.pid]) == [
        ("http://other/robots.txt", POLLED)
    ]
    assert queue.stats("errseq") == 0
    queue.check_books()


def test_a_hint_does_not_bring_back_what_a_full_set_took_away_before_it_was_fetched(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    queue.send(2, notice("a"), source=LISTED)
    queue.send(3, notice("a", retract=True), source=LISTED)
    queue.send(4, full=True)
    queue.fetch_all()
    queue.send(0, notice("a", ifabsent=True), notice("b", ifabsent=True), source=LINK)
    assert queue.rows() == [] and there(queue) == set() and changes(queue) == {}
    # To the site's own words the full set took away what was told, and nothing else.
    queue.send(2, notice("a"), source=LISTED)
    queue.send(2, notice("b"), source=LISTED)
    queue.fetch_all()
    assert there(queue) == {"b"}, "of a, the retraction is newer"
    queue.check_books()


def test_a_late_deletion_is_remembered(queue: Queue) -> None:
    queue.send(10, notice("a"), notice("b"))
    queue.fetch_all()
    queue.send(8, notice("a", delete=True))
    queue.send(8, notice("b", delete=True), source=PUSHED)
    for source in (PUSHED, LISTED):
        queue.send(7, notice("a"), notice("b"), source=source)
    assert queue.rows() == [] and there(queue, LISTED | PUSHED) == set()
    queue.send(9, notice("a"), notice("b"), source=LISTED)
    queue.fetch_all()
    assert there(queue, TOLD) == there(queue, LISTED) == {"a", "b"}
    queue.check_books()


def test_what_a_full_set_takes_away_before_it_was_fetched_keeps_the_numbers_of_others(queue: Queue) -> None:
    queue.send(10, notice("a", delete=True), source=PUSHED)
    queue.send(12, notice("a"))
    queue.send(13, full=True)
    queue.fetch_all()
    queue.send(9, notice("a"), source=LISTED)
    assert queue.rows() == [], "it was deleted since"
    queue.send(11, notice("a"), source=LISTED)
    assert len(queue.rows()) == 1
    queue.check_books()


def test_a_late_deletion_in_a_full_set_does_not_unname_what_a_newer_one_has_named(queue: Queue) -> None:
    first, second = queue.pieces(queue.header(3, full=True), [notice("a"), notice("b")], 1)
    queue.absorb([first])
    queue.send(1, notice("a", delete=True), full=True, uns="another")
    queue.absorb([second])
    queue.fetch_all()
    assert there(queue) == {"a", "b"}
    queue.check_books()


def test_what_was_withdrawn_is_told_as_deleted_whatever_takes_it_away_again(queue: Queue) -> None:
    """Deleted twice, as is usual: whoever asks only after the second time has to hear of it, too."""
    queue.send(1, notice("a"), notice("b"))
    queue.send(0, notice("a"), notice("b"), source=POLLED)
    queue.fetch_all()
    before = last_change(queue)
    queue.send(2, notice("a", delete=True), notice("b", delete=True))
    queue.send(3, notice("a", delete=True), source=PUSHED)
    queue.send(3, notice("b", retract=True), source=LISTED)
    assert changes(queue, before) == {"a": "deleted", "b": "deleted"}
    assert there(queue, POLLED) == {"a", "b"}
    queue.check_books()


def test_a_notice_over_quota_does_not_name_what_is_polled(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.send(2, notice("a", delete=True))
    queue.fetch_all()
    queue.send(0, notice("a"), source=POLLED)
    queue.database.query("UPDATE pidb SET filesmax = 0 WHERE pid = ?", [queue.pid])
    queue.send(3, notice("a"), source=PUSHED)
    assert [row.source for row in queue.rows()] == [POLLED]
    queue.check_books()
    queue.fetch_all()
    assert there(queue) == set() and there(queue, POLLED) == {"a"}


def test_a_full_set_takes_back_its_own_word_only(queue: Queue) -> None:
    for number, source in ((2, TOLD), (9, PUSHED)):
        queue.send(number, notice("waits"), notice("there"), source=source)
    queue.send(4, notice("both"))
    queue.record(*[queue.fetched(row) for row in queue.rows() if row.notice.curl.endswith("there")])
    queue.send(0, notice("polled"), notice("both"), source=POLLED)
    queue.send(3, notice("pushed"), source=PUSHED)
    queue.send(5, notice("same"), notice("fetched"))  # of the same session, in a set before
    queue.record(*[queue.fetched(row) for row in queue.rows() if row.notice.curl.endswith("fetched")])
    before = {row.notice.curl[12:]: row for row in queue.rows()}
    absorbed = queue.send(5, full=True, deletions=True, now=70)
    after = {row.notice.curl[12:]: row for row in queue.rows()}
    assert after["polled"] == before["polled"] and after["pushed"] == before["pushed"]
    assert after["waits"].source == PUSHED and not after["waits"].delete
    assert after["waits"].generation == before["waits"].generation
    assert after["both"].source == POLLED and not after["both"].delete
    assert after["both"].generation > before["both"].generation, "what is out was fetched for its provider"
    assert absorbed.touched == {after["both"].key}
    assert after["same"].delete
    sql = (
        "SELECT curl, state, confirmed_time FROM lccurl WHERE curl LIKE '%same' OR curl LIKE '%fetched' ORDER BY curl"
    )
    assert queue.database.query(sql) == [("http://site/fetched", 0, 70), ("http://site/same", 0, 70)]
    assert queue.database.query("SELECT curl, source FROM lccurl WHERE state = 1") == [("http://site/there", PUSHED)]
    queue.check_books()


def test_a_full_set_takes_away_what_is_left_of_a_poll_that_was_taken_back(queue: Queue) -> None:
    queue.send(0, notice("page"), source=POLLED)
    queue.fetch_all()
    queue.send(1, notice("page", "1"))
    queue.send(0, notice("page", retract=True), source=POLLED)
    before = last_change(queue)
    queue.send(2, full=True, deletions=True, now=70)
    assert queue.database.query("SELECT state, confirmed_time FROM lccurl") == [(0, 70)]
    assert last_change(queue) == before and changes(queue, before) == {}, "nobody was shown it"
    assert queue.files_to_delete() == [1] and all(row.delete for row in queue.rows())
    queue.check_books()
