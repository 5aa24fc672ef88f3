"""The contract of the queue's store, on each backend."""

from __future__ import annotations

import itertools

import pytest

from lcc.errors import Busy, code
from lcc.model import Cursor, SetAnswer, SetPiece, Source, UnsStanding
from lcc.model.notifiers import NoticeId
from lcc.storage.database.tables import status
from lcc.storage.providers.providers import change_provider, get_provider, order_removal, provider_status
from lcc.storage.views import queue_rows, selected
from tests.support import stored
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

HTML = "text/html"
NOON = 12 * 3600


def test_a_set_is_queued_in_its_order_and_fetched(queue: Queue) -> None:
    absorbed = queue.send(1, notice("b"), notice("a"), notice("c"))
    assert absorbed.answers == (SetAnswer("e", 1, 0),)
    assert absorbed.queued == {queue.pid: (1, 1)}
    assert [row.notice.curl[-1] for row in queue.rows()] == ["b", "a", "c"]
    assert result_of(queue.store.providers_with_work()) == [(1, queue.pid, 1)]
    queue.check_books()
    queue.fetch_all()
    assert queue.cached() == {f"http://site/{name} {HTML}": "cached" for name in "abc"}
    assert result_of(queue.store.providers_with_work()) == []
    queue.check_books()


def test_everything_told_comes_back_equal(queue: Queue) -> None:
    nasty = "'\"\\%s ?\0\x1a\r\n; -- \U0001f600 ünïcode {in}"
    told = notice(
        "x" * 4096 + nasty,
        "a",
        furl="http://site/" + nasty,
        burl="-",
        subtype=nasty,
        hours="0-8",
        ifabsent=True,
        sent=nasty * 100,
    )
    queue.send(1, told, notice("\U0001f600" * 4096))
    row, other = queue.rows()
    assert row.notice == told
    assert other.notice.curl == "http://site/" + "\U0001f600" * 4096
    queue.record(
        queue.fetched(row, charset=nasty, etag=nasty, headers=nasty * 100, modified=77),
        queue.failed(other, 403, nasty),
    )
    found = queue.database.now(selected.url, row.key)
    assert found is not None
    assert (found.curl, found.furl, found.burl, found.subtype) == (told.curl, told.furl, "-", nasty)
    assert (found.charset, found.etag, found.headers, found.mtime) == (nasty, nasty, nasty * 100, 77)
    error = queue.database.now(provider_status, queue.pid, 10).errors[0]
    assert error.text.endswith(nasty) and error.code == 403


def test_the_last_operation_wins_and_keeps_the_first_place(queue: Queue) -> None:
    queue.send(1, notice("a", "1"), notice("b", "1"))
    first = queue.rows()[0]
    absorbed = queue.send(2, notice("a", "2"))
    assert absorbed.touched == {first.key}
    assert absorbed.queued == {}
    row = queue.rows()[0]
    assert row.notice.md5 == "2" * 32
    assert (row.psetid, row.seq) == (first.psetid, first.seq)
    assert row.generation > first.generation


def test_the_same_url_twice_in_a_set(queue: Queue) -> None:
    queue.send(1, notice("a", "1"), notice("a", "2"), notice("b"), notice("b", delete=True), notice("c", delete=True))
    assert [(row.notice.curl[-1], row.notice.md5[:1]) for row in queue.rows()] == [("a", "2")]
    queue.send(2, notice("d"), notice("d", delete=True), notice("d", "3"))
    assert [(row.notice.curl[-1], row.seq) for row in queue.rows()][1:] == [("d", 3)]
    queue.check_books()


def test_an_unchanged_url_is_only_confirmed(queue: Queue) -> None:
    queue.send(1, notice("a", "1"), notice("b"))
    queue.fetch_all(now=20)
    change = queue.database.now(status.last_change)
    absorbed = queue.send(2, notice("a", "1"), now=30)
    assert absorbed.queued == {} and not queue.rows()
    found = queue.database.now(selected.url, queue.key("a"))
    assert found is not None and (found.confirmed_time, found.fetched_time) == (30, 20)
    assert queue.database.now(status.last_change) == change
    # One that is missing counts as changed.
    queue.send(3, notice("a", "1", mtime=None))
    assert len(queue.rows()) == 1


def test_where_nothing_was_told_the_fetched_content_is_compared(queue: Queue) -> None:
    queue.send(1, notice("a"))
    (row,) = queue.rows()
    result = queue.fetched(row, "12345", modified=99)
    queue.record(result)
    queue.send(2, notice("a", md5="", length=5, mtime=99)._replace(md5=result.md5))
    assert not queue.rows()
    queue.send(3, notice("a", length=5, mtime=98)._replace(md5=result.md5))
    assert len(queue.rows()) == 1


def test_ifabsent_is_fetched_only_if_it_is_absent(queue: Queue) -> None:
    queue.send(1, notice("a", ifabsent=True))
    (row,) = queue.rows()
    queue.send(2, notice("a", ifabsent=True))
    assert queue.rows()[0].generation == row.generation
    queue.fetch_all()
    queue.send(3, notice("a", ifabsent=True))
    assert not queue.rows()
    queue.send(4, notice("a", delete=True))
    queue.send(5, notice("a", ifabsent=True))
    assert len(queue.rows()) == 1


def test_a_deletion_leaves_a_tombstone_and_orders_the_file_away(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.fetch_all()
    absorbed = queue.send(2, notice("a", delete=True))
    assert absorbed.deletes
    (change,) = queue.database.now(stored.changes, 1)
    assert (change.state, change.change, change.curl) == ("deleted", 2, "http://site/a")
    assert queue.files_to_delete() == [1]
    orders = result_of(queue.store.deletes(1, 0, 10, 20))
    assert [(order.machine, order.file) for order in orders] == [(1, 1)]
    assert result_of(queue.store.deletes(2, 0, 10, 20)) == []
    result_of(queue.store.deletes_done([order.id for order in orders]))
    assert queue.files_to_delete() == []
    queue.check_books()


def test_deleting_the_unknown_is_remembered_but_no_change(queue: Queue) -> None:
    queue.send(5, notice("a", delete=True))
    assert queue.database.now(stored.changes, 0) == []
    queue.send(4, notice("a"))
    assert queue.rows() == []
    queue.send(6, notice("a"))
    assert len(queue.rows()) == 1


def test_deleting_what_is_being_fetched(queue: Queue) -> None:
    queue.send(1, notice("a"))
    (row,) = queue.rows()
    absorbed = queue.send(2, notice("a", delete=True))
    assert absorbed.touched == {row.key}
    (doomed,) = queue.rows()
    assert doomed.delete
    recorded = queue.record(queue.fetched(row))
    assert recorded.deletes and not recorded.again
    assert not queue.rows() and queue.cached() == {}
    assert queue.files_to_delete() == [1]
    queue.check_books()


def test_a_row_that_does_nothing_is_taken_away(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"), notice("c"))
    queue.send(2, *[notice(name, delete=True) for name in "abc"])
    rows = queue.rows()
    queue.send(3, notice("b"), notice("c"))
    queue.send(4, notice("c", delete=True))
    recorded = queue.record(removed=[(row.key, row.generation) for row in rows])
    assert [row.key for row in recorded.again] == [row.key for row in queue.rows()] == [row.key for row in rows[1:]]
    queue.check_books()


def test_deleting_all_views(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("a", mimetype="text/xml"), notice("b"))
    queue.fetch_all()
    queue.send(2, notice("a", mimetype="text/plain"))
    queue.send(3, notice("a", mimetype="", delete=True))
    assert queue.cached() == {
        "http://site/a text/html": "deleted",
        "http://site/a text/xml": "deleted",
        "http://site/b text/html": "cached",
    }
    assert [row.delete for row in queue.rows()] == [True]
    # An older notice of a view that was not even known.
    queue.send(2, notice("a", mimetype="text/rtf"))
    assert [row.delete for row in queue.rows()] == [True]
    queue.send(4, notice("a", mimetype="text/rtf"))
    assert [row.delete for row in queue.rows()] == [True, False]
    queue.check_books()


def test_all_views_within_one_set(queue: Queue) -> None:
    queue.send(
        1, notice("a"), notice("a", mimetype="text/xml"), notice("a", mimetype="", delete=True), notice("a", "1")
    )
    assert [(row.notice.mimetype, row.delete) for row in queue.rows()] == [(HTML, False)]
    queue.check_books()


@pytest.mark.parametrize("older", [notice("a", "9"), notice("a", delete=True), notice("a", mimetype="", delete=True)])
def test_an_older_operation_does_nothing(queue: Queue, older: object) -> None:
    queue.send(5, notice("a", "1"))
    before = queue.rows()
    queue.send(4, older)  # type: ignore[arg-type]
    assert [row._replace(words="") for row in queue.rows()] == before
    queue.fetch_all()
    queue.send(4, older)  # type: ignore[arg-type]
    assert not queue.rows()
    assert queue.cached() == {"http://site/a text/html": "cached"}


def test_a_full_set_deletes_what_it_does_not_name(queue: Queue) -> None:
    queue.send(1, *[notice(name, "1") for name in "abcde"])
    queue.fetch_all()
    queue.send(2, notice("f"), notice("g"))
    absorbed = queue.send(
        *[3, notice("a", "1"), notice("b", "2"), notice("c", named_only=True), notice("d", delete=True), notice("f")],
        full=True,
    )
    assert absorbed.answers == (SetAnswer("e", 3, 0),)
    states = {name: queue.cached()[f"http://site/{name} text/html"] for name in "abcde"}
    assert states == {"a": "cached", "b": "cached", "c": "cached", "d": "deleted", "e": "deleted"}
    assert {row.notice.curl[-1]: row.delete for row in queue.rows()} == {"f": False, "g": True, "b": False}
    assert absorbed.deletes
    queue.check_books()
    # What an older set says now is behind the full set, also of URLs that nobody knows.
    queue.send(2, notice("e"), notice("z"))
    assert len(queue.rows()) == 3


def test_a_full_set_spares_what_need_not_be_fetched(queue: Queue) -> None:
    queue.send(1, notice("a", "1"), notice("b"), notice("c"), notice("d"))
    queue.fetch_all()
    queue.send(2, notice("a", "1"), notice("b", ifabsent=True), notice("c", named_only=True), full=True)
    gone = [name[12:13] for name, state in queue.cached().items() if state == "deleted"]
    assert gone == ["d"] and not queue.rows()
    assert result_of(queue.store.check_uns("uns", "e", queue.number, 0)) is UnsStanding.FINE
    queue.check_books()


def test_a_full_set_spares_all_views_of_what_it_named_without_a_usable_mime_type(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("a", mimetype="text/xml"), notice("b"))
    queue.fetch_all()
    queue.send(2, notice("a", mimetype="", named_only=True), full=True)
    assert queue.cached() == {
        "http://site/a text/html": "cached",
        "http://site/a text/xml": "cached",
        "http://site/b text/html": "deleted",
    }
    queue.check_books()


def test_a_full_set_that_is_cut_off_deletes_nothing(queue: Queue) -> None:
    queue.send(1, *[notice(name, "1") for name in "abc"])
    queue.fetch_all()
    header = queue.header(2, full=True)
    pieces = queue.pieces(header, [notice("a", "1"), notice("b", "1")], size=1)
    queue.absorb(pieces[:1])
    assert set(queue.cached().values()) == {"cached"}
    queue.absorb(pieces[1:])
    assert queue.cached()["http://site/c text/html"] == "deleted"


def test_a_full_set_spares_what_a_newer_set_told(queue: Queue) -> None:
    queue.send(1, notice("a", "1"), notice("b", "1"))
    queue.fetch_all()
    header = queue.header(2, full=True)
    pieces = queue.pieces(header, [notice("x"), notice("y")], size=1)
    queue.absorb(pieces[:1])
    queue.send(3, notice("a", "2"), notice("c"), uns="other", number=1)
    queue.absorb(pieces[1:])
    assert queue.cached() == {"http://site/a text/html": "cached", "http://site/b text/html": "deleted"}
    assert sorted(row.notice.curl[-1] for row in queue.rows() if not row.delete) == ["a", "c", "x", "y"]


def test_full_sets_are_counted_and_wanted_ones_are_free(queue: Queue) -> None:
    def left() -> tuple[int | None, str]:
        status = queue.database.now(provider_status, queue.pid, 0)
        return status.full_sets_left, status.full_set_wanted

    assert left() == (10, "")
    queue.send(1, full=True)
    assert left() == (9, "")
    result_of(queue.store.want_full_set(queue.pid, "cache-crash"))
    queue.send(2, notice("a"))
    assert left() == (9, "cache-crash")
    queue.send(3, full=True)
    assert left() == (9, "")
    later = 10 + queue.settings.full_set_period
    queue.keep_house(later)
    assert left() == (10, "")


def test_only_a_full_set_that_was_asked_for_ends_the_request(queue: Queue) -> None:
    """What was on its way before may lack what is lost."""
    on_its_way = queue.header(1, full=True)
    result_of(queue.store.want_full_set(queue.pid, "old-files"))
    asked_for = queue.header(2, full=True)
    result_of(queue.store.want_full_set(queue.pid, "expired-files"))
    assert queue.wantid() == asked_for.wantid != 0
    queue.absorb(queue.pieces(on_its_way, [notice("a")]))
    assert queue.stats("wantfullset") == "expired-files" and queue.stats("fullsets_used") == 1
    result_of(queue.store.want_full_set(queue.pid, "cache-crash"))
    queue.absorb(queue.pieces(asked_for, [notice("a")]))
    assert queue.stats("wantfullset") == "cache-crash" and queue.stats("fullsets_used") == 1
    asked_for = queue.header(3, full=True)
    result_of(queue.store.want_full_set(queue.pid, "cache-crash"))
    queue.absorb(queue.pieces(asked_for, [notice("a")]))
    assert queue.stats("wantfullset") == "cache-crash", "another loss has been noticed"
    result_of(queue.store.want_full_set(queue.pid, "old-files"))
    queue.send(5, notice("a"), full=True)
    assert queue.wantid() == 0 and queue.stats("wantfullset") == "" and queue.stats("fullsets_used") == 1


def test_millions_of_queued_urls_that_a_full_set_does_not_name_are_not_told_one_by_one(queue: Queue) -> None:
    queue.send(1, notice("earlier"))
    queue.pid = queue.add_provider()
    queue.send(1, *[notice(f"{number}") for number in range(50)])
    first = queue.rows()[0]
    queue.send(1, notice("later"))
    absorbed = queue.send(2, notice("7"), full=True)
    assert absorbed.queued == {queue.pid: (first.psetid, 0)} and absorbed.touched == {queue.key("7")}
    assert [row.notice.curl[-1] for row in queue.rows() if not row.delete] == ["7"]
    queue.check_books()


def test_replay_at_every_prefix_changes_nothing(queue: Queue) -> None:
    def state() -> object:
        tables = ("qdb", "qpsdb", "lccurl", "fsmdb", "setspos", "counters", "pstats", "urlerrs")
        found = [sorted(queue.database.query(f"SELECT * FROM {table}"), key=repr) for table in tables]
        # On a cluster each transaction says that it was there.
        return [[row for row in rows if row[0] != "fence"] for rows in found]

    queue.send(1, *[notice(name, "1") for name in "abcdef"])
    queue.fetch_all()
    told = [notice("a", "1"), notice("b", "2"), notice("b", "3"), notice("c", delete=True), notice("g"), notice("g")]
    pieces = queue.pieces(queue.header(2, full=True), told, size=1)
    for length in range(1, len(pieces) + 1):
        queue.absorb(pieces[:length])
        before = state()
        for again in range(1, length + 1):
            absorbed = queue.absorb(pieces[:again])
            assert state() == before
            assert [answer.code for answer in absorbed.answers] == ([0] if again == len(pieces) else [])
        bigger = queue.pieces(pieces[0].header, told[:length], size=4)[0]
        queue.absorb([bigger.__class__(bigger.header, 0, bigger.notices, False)])
        assert state() == before
    queue.check_books()


@pytest.mark.parametrize(("first", "upto"), [(0, 4), (1, 4), (2, 4), (3, 4), (0, 3), (1, 2)])
def test_what_comes_again_cut_in_another_way_is_applied_once(queue: Queue, first: int, upto: int) -> None:
    """What was applied of it may have been fetched meanwhile, and keeps its place."""
    header = queue.header(1)
    keyed = [queue.keyed(notice(name)) for name in "abcd"]
    queue.absorb([SetPiece(header, 0, tuple(keyed[:3]), False)])
    queue.record(queue.fetched(queue.rows()[0]))
    again = SetPiece(header, first, tuple(keyed[first:upto]), False)
    queue.absorb([again, SetPiece(header, 3, tuple(keyed[3:]), True)])
    assert [(row.notice.curl[-1], row.seq) for row in queue.rows()] == [("b", 2), ("c", 3), ("d", 4)]
    queue.check_books()


def test_what_is_not_applied_stops_nothing_behind_it(queue: Queue) -> None:
    """In one transaction: of a provider that is gone, what comes again, and what its notifier tells again."""
    told = queue.header(0, uns="a", number=1, source=Source.POLLED, said=NoticeId("push/p", "x", 1, 0))
    done = queue.header(1, uns="b", number=1)
    for header, name in ((told, "t"), (done, "d")):
        queue.absorb(queue.pieces(header, [notice(name)]))
    queue.fetch_all()
    gone = queue.header(1, uns="c", number=5, pid=999, answered=True)
    again = queue.header(0, uns="d", number=7, source=Source.POLLED, said=told.said)
    absorbed = queue.absorb(
        [
            *queue.pieces(gone, [notice("x"), notice("y")], 1),
            *queue.pieces(done, [notice("d"), notice("d2")], 1),
            *queue.pieces(again, [notice("t"), notice("t2")], 1),
            *queue.pieces(queue.header(2, uns="z", number=9), [notice("new")]),
        ]
    )
    found = [(answer.number, answer.code) for answer in absorbed.answers]
    assert found == [(5, code("provider-gone")), (1, 0), (7, 0), (9, 0)]
    assert [row.notice.curl[12:] for row in queue.rows()] == ["new"]
    for uns, number in (("c", 5), ("d", 7), ("z", 9)):
        assert result_of(queue.store.check_uns(uns, "e", number, 0)) is UnsStanding.FINE, "it was answered"


def test_missing_elements_are_refused(queue: Queue) -> None:
    pieces = queue.pieces(queue.header(1), [notice("a"), notice("b")], size=1)
    with pytest.raises(ValueError, match="missing"):
        queue.absorb(pieces[1:])
    assert not queue.rows()


def test_a_lost_commit_is_not_counted_twice(queue: Queue) -> None:
    queue.database.lose = 1
    absorbed = queue.send(1, notice("a"), notice("b"))
    assert absorbed.queued == {queue.pid: (1, 1)}
    row, other = queue.rows()
    queue.database.lose = 1
    recorded = queue.record(queue.failed(row, 503), queue.failed(other, 404))
    assert recorded.retry_time == queue.waiting()["a"] and not recorded.again
    queue.open_retries(1000)
    (retried,) = queue.rows()
    assert retried.attempts == 1
    assert queue.stats("errseq") == 1
    queue.database.lose = 1
    queue.record(queue.fetched(retried))
    assert queue.files_to_delete() == []
    queue.check_books()


def test_what_was_done_unheard_is_told_with_the_next(queue: Queue) -> None:
    from lcc.errors import StoreUnavailable

    pieces = queue.pieces(queue.header(1), [notice("a")])
    queue.database.fail_after = 1
    with pytest.raises(StoreUnavailable):
        queue.absorb(pieces)
    absorbed = queue.absorb(pieces)
    assert absorbed.queued == {queue.pid: (1, 1)}
    assert [answer.code for answer in absorbed.answers] == [0]


def test_reading_ahead_goes_on_where_it_was(queue: Queue) -> None:
    for connseq in range(1, 4):
        queue.send(connseq, *[notice(f"{connseq}{name}") for name in "abc"])
    names, psetid, seq = [], 0, 0
    while True:
        (ahead,), _ = result_of(queue.store.read_ahead([Cursor(queue.pid, psetid, seq, 2)]))
        names += [row.notice.curl[-2:] for row in ahead.rows]
        if len(ahead.rows) < 2:
            break
        psetid, seq = ahead.rows[-1].psetid, ahead.rows[-1].seq
    assert names == ["1a", "1b", "1c", "2a", "2b", "2c", "3a", "3b", "3c"]
    both, _ = result_of(queue.store.read_ahead([Cursor(999, 0, 0, 2), Cursor(queue.pid, 2, 2, 2)]))
    assert [[row.notice.curl[-2:] for row in ahead.rows] for ahead in both] == [[], ["2c", "3a"]]


def test_the_first_place_of_a_set_moves_behind_what_is_gone(queue: Queue) -> None:
    queue.send(1, *[notice(f"{number}") for number in range(100)])
    for row in queue.rows()[:90]:
        queue.record(queue.fetched(row))
    (first,) = queue.database.query("SELECT firstseq FROM qpsdb")[0]
    assert 50 < first <= 91
    assert len(queue.rows()) == 10
    queue.check_books()


def test_a_provider_that_is_gone_is_refused(queue: Queue) -> None:
    absorbed = queue.send(1, notice("a"), pid=999, answered=True)
    assert [answer.code for answer in absorbed.answers] == [code("provider-gone")]
    assert queue.database.query("SELECT * FROM qdb") == []


def test_what_a_fetch_brings_after_its_provider_was_removed(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    first, second = queue.rows()
    queue.record(queue.fetched(first))
    queue.database.now(order_removal, queue.pid)
    queue.carry_out()
    for _ in range(2):
        queue.record(queue.fetched(second, file=7))
    assert set(queue.files_to_delete()) == {1, 7}
    assert [curl for (curl,) in queue.database.query("SELECT curl FROM lccurl")] == ["http://site/a"]


def test_a_provider_is_removed_with_all_it_has(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abc"])
    queue.fetch_all()
    queue.send(2, notice("d"))
    queue.database.now(order_removal, queue.pid)
    assert queue.send(3, notice("e")).answers[0].code == code("provider-gone")
    finished = []
    while (step := result_of(queue.store.carry_out_orders(50))).finished or step.more:
        finished += step.finished
    assert ("provider-removed", queue.pid, 0) in finished
    assert queue.database.now(get_provider, queue.pid) is None
    assert not queue.rows() and set(queue.cached().values()) == {"deleted"}
    assert len(queue.files_to_delete()) == 3
    queue.check_books()
    assert queue.add_provider() > queue.pid


def test_a_changed_provider_is_reported(queue: Queue) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, provider)
    assert result_of(queue.store.carry_out_orders(5)).finished == (("provider-changed", queue.pid, 0),)
    assert result_of(queue.store.carry_out_orders(5)).finished == ()


def test_a_newer_queue_manager_fences_the_older(queue: Queue) -> None:
    newer = queue.another_store()
    claim = result_of(newer.claim(1))
    assert claim.run == 2 and claim.database_epoch
    writes = [
        lambda: queue.send(1, notice("a")),
        lambda: queue.record(),
        lambda: result_of(queue.store.deletes_done([1])),
        lambda: result_of(queue.store.want_full_set(queue.pid, "old-files")),
    ]
    for write in writes:
        with pytest.raises(Busy):
            write()
    assert not queue.rows()
    queue.store = newer
    queue.send(1, notice("a"))
    assert len(queue.rows()) == 1


def test_nothing_is_written_before_the_claim(queue: Queue) -> None:
    queue.store = queue.another_store()
    with pytest.raises(Busy):
        queue.send(1, notice("a"))


def test_the_queue_for_listings(queue: Queue) -> None:
    queue.send(1, notice("a"), notice("b"))
    queue.send(2, notice("c"), full=False)
    rows = queue.database.now(queue_rows.queue_rows, queue.pid, None, 2)
    rows += queue.database.now(queue_rows.queue_rows, queue.pid, rows[-1].key, 2)
    assert sorted(row.notice.curl[-1] for row in rows) == ["a", "b", "c"]
    sets = queue.database.now(queue_rows.queue_sets)
    assert [(found.pid, found.queued, found.priority) for found in sets] == [(queue.pid, 2, 1), (queue.pid, 1, 1)]


def test_sets_with_several_time_slots_are_listed_once_each(queue: Queue) -> None:
    for connseq in (1, 2):
        told = [notice(f"{connseq}{hour}", hours=f"{hour}") for hour in range(3)]
        queue.send(connseq, *told, notice(f"{connseq}"), now=NOON)
    whole = queue.database.now(queue_rows.queue_sets)
    assert len(whole) == 8
    for limit, pid in itertools.product((1, 2, 3, 8), (None, queue.pid)):
        found: list[queue_rows.QueueSet] = []
        after = (0, -1)
        while page := queue.database.now(queue_rows.queue_sets, pid, after, limit):
            found += page
            after = (page[-1].psetid, page[-1].slot)
        assert found == whole


def test_changes_are_complete_and_in_order(queue: Queue) -> None:
    queue.send(1, *[notice(name) for name in "abcd"])
    queue.fetch_all()
    queue.send(2, notice("b", delete=True), notice("c", "9"))
    queue.record(queue.fetched(queue.rows()[0], "other"))
    pages = list(itertools.takewhile(bool, (queue.database.now(stored.changes, after, 2) for after in (0, 4, 6))))
    assert [(row.curl[-1], row.state) for page in pages for row in page] == [
        *[("a", "cached"), ("d", "cached"), ("b", "deleted"), ("c", "cached")]
    ]


def test_an_empty_full_set_tells_the_priority_of_what_it_leaves(queue: Queue) -> None:
    """What it deletes is read again, at the provider's priority, though it has no row itself."""
    queue.send(1, notice("page"))
    absorbed = queue.send(2, full=True, deletions=True)
    assert list(absorbed.queued) == [queue.pid] and absorbed.priorities == {queue.pid: 1}
    assert queue.stats("maxconnseq") == queue.stats("fullconnseq") == 2
