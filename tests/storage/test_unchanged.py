"""What is stored is asked about, and confirmed; on both databases."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lcc.errors import code
from lcc.model import FetchResult, QueueRow, Source, Stored
from lcc.storage.queue.maintenance.lost_content import fetch_again
from lcc.storage.queue.write_transaction import WriteTransaction
from tests.support.queue import Queue, notice

SAID: dict[str, Any] = {"etag": '"e"', "modified": 100, "revalidate": True, "headers": "[]"}


def row_of(queue: Queue) -> QueueRow:
    """The only row that is queued."""
    (row,) = queue.rows()
    return row


def stored(queue: Queue, content: str = "x", **more: Any) -> None:
    """A page that is cached, with all that a server said of it."""
    queue.send(1, notice("page", **more))
    queue.record(queue.fetched(row_of(queue), content, **SAID))


def unchanged(row: QueueRow, token: str | None = None) -> FetchResult:
    """The server says that it is."""
    if token is None:
        assert row.stored is not None
        token = row.stored.token
    return FetchResult(row.pid, row.key, row.generation, 0, 304, unchanged=token)


def cache(queue: Queue, *columns: str) -> tuple[Any, ...]:
    (row,) = queue.database.query(f"SELECT {', '.join(columns)} FROM lccurl WHERE pid = ?", [queue.pid])
    return row


def test_what_is_stored_goes_with_the_row(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"), notice("other"))
    page, other = queue.rows()
    assert page.stored == Stored("1.1", '"e"', 100, 1)
    assert other.stored is None


def test_it_is_confirmed_and_nothing_else_changes(queue: Queue) -> None:
    stored(queue, "x")
    queue.send(2, notice("page", mtime=77), now=40)
    before = cache(
        queue, "change_number", "md5", "len", "etag", "modified", "mtime", "headers", "fetched_time", "status"
    )
    used = queue.stats("files_used"), queue.stats("space_used")
    outcome = queue.record(unchanged(row_of(queue)), now=50)
    assert (outcome.again, outcome.held, outcome.requeued, outcome.deletes) == ((), {}, {}, False)
    assert queue.rows() == []
    after = cache(
        queue, "change_number", "md5", "len", "etag", "modified", "mtime", "headers", "fetched_time", "status"
    )
    assert after == before
    assert cache(queue, "confirmed_time", "connseq", "told_mtime", "fetched_fileid") == (50, 2, 77, 1)
    assert (queue.stats("files_used"), queue.stats("space_used")) == used
    assert queue.files_to_delete() == []
    queue.check_books()


def test_told_again_the_same_it_is_known(queue: Queue) -> None:
    """What was told with the confirmed notice is what the next one is compared with."""
    stored(queue)
    queue.send(2, notice("page", length=1, mtime=77))
    queue.record(unchanged(row_of(queue)))
    queue.send(3, notice("page", "a", length=1, mtime=77))
    assert row_of(queue).stored is None  # a md5 that neither was told nor is the content's
    queue.record(queue.fetched(row_of(queue), "x", **SAID))
    queue.send(4, notice("page", "a", length=1, mtime=77))
    assert queue.rows() == []
    queue.send(5, notice("page", "a", length=1, mtime=78))
    assert row_of(queue).stored == Stored("1.1", '"e"', 100, 1)


def test_other_names_are_a_change(queue: Queue) -> None:
    stored(queue)
    (change,) = cache(queue, "change_number")
    queue.send(2, notice("page", burl="http://site/browse", subtype="a: b"))
    queue.record(unchanged(row_of(queue)))
    assert cache(queue, "change_number", "burl", "subtype") == (change + 1, "http://site/browse", "a: b")
    # Also if the server renews its header meanwhile, which nobody is told of.
    queue.send(3, notice("page", subtype="c: d"))
    answer = unchanged(row_of(queue))._replace(headers='["Date","now"]')
    queue.record(answer)
    assert cache(queue, "change_number", "subtype") == (change + 2, "c: d")
    queue.check_books()


@pytest.mark.parametrize(
    "said",
    [{"revalidate": False}, {"revalidate": False, "etag": "", "modified": None}],
)
def test_what_the_server_said_may_not_be_enough(queue: Queue, said: dict[str, Any]) -> None:
    queue.send(1, notice("page"))
    queue.record(queue.fetched(row_of(queue), **(SAID | said)))
    queue.send(2, notice("page"))
    assert row_of(queue).stored is None


def test_it_belongs_to_one_fetch_url(queue: Queue) -> None:
    stored(queue, furl="http://site/old")
    queue.send(2, notice("page", furl="http://site/new"))
    assert row_of(queue).stored is None
    queue.send(2, notice("page", furl="http://site/old"))
    assert row_of(queue).stored is not None
    queue.send(2, notice("page"))
    assert row_of(queue).stored is None


def test_what_was_only_polled_is_fetched_for_those_that_name_it(queue: Queue) -> None:
    """Its type and its place need not be what is taken of them."""
    queue.send(0, notice("page"), source=Source.POLLED)
    queue.record(queue.fetched(row_of(queue), **SAID))
    queue.send(1, notice("page"))
    assert row_of(queue).stored is None
    queue.record(queue.fetched(row_of(queue), "new", **SAID))
    queue.send(0, notice("page"), source=Source.POLLED)
    assert row_of(queue).stored is not None, "a poll may confirm what its provider names"


def test_a_fetch_that_fails_leaves_what_the_server_said(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"))
    queue.record(queue.failed(row_of(queue), 403))
    assert cache(queue, "state", "etag", "revalidate") == (1, '"e"', 1)


def test_a_provider_that_tells_of_other_content_is_believed(queue: Queue) -> None:
    stored(queue, "x", md5="a")
    queue.send(2, notice("page", "b"))
    assert row_of(queue).stored is None
    queue.send(3, notice("page", "a", mtime=5))
    assert row_of(queue).stored is not None
    queue.send(4, notice("page", "a", length=999, mtime=5))
    assert row_of(queue).stored is None


def test_deleted_content_is_fetched(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page", delete=True))
    queue.send(3, notice("page"))
    assert row_of(queue).stored is None
    assert cache(queue, "etag", "modified", "revalidate") == ("", None, 0)


def test_content_that_was_replaced_meanwhile_is_not_confirmed(queue: Queue) -> None:
    """An order of an earlier queue manager brings its content after the next one's has asked."""
    stored(queue, "x")
    queue.send(2, notice("page"))
    first = row_of(queue)
    queue.send(3, notice("page"))
    second = row_of(queue)
    assert first.stored == second.stored
    queue.record(queue.fetched(first, "newer", **SAID))  # the row has moved on: it stays
    assert row_of(queue).stored == Stored("1.2", '"e"', 100, 5)
    outcome = queue.record(unchanged(second))
    third = row_of(queue)
    assert outcome.requeued and third.stored == Stored("1.2", '"e"', 100, 5)
    assert queue.database.query("SELECT bad_code, bad_text FROM qdb") == [(0, "")], "it has not failed"
    queue.record(unchanged(third))
    assert queue.rows() == [] and cache(queue, "fetched_fileid") == (2,)
    queue.check_books()


def test_a_row_that_was_told_again_meanwhile_stays(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"))
    row = row_of(queue)
    queue.send(3, notice("page", mtime=9))
    before = cache(queue, "confirmed_time", "told_mtime", "connseq")
    outcome = queue.record(unchanged(row), now=90)
    assert [left.key for left in outcome.again] == [row.key]
    assert row_of(queue).generation > row.generation
    assert cache(queue, "confirmed_time", "told_mtime", "connseq") == before
    queue.record(unchanged(row_of(queue)), now=91)
    assert cache(queue, "confirmed_time", "told_mtime", "connseq") == (91, 9, 3)


def test_a_row_that_was_deleted_meanwhile_goes(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"))
    row = row_of(queue)
    queue.send(3, notice("page", delete=True))
    queue.record(unchanged(row))
    assert queue.rows() == [] and cache(queue, "state") == (0,)
    assert queue.files_to_delete() == [1]
    queue.check_books()


def test_it_comes_twice(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"))
    row = row_of(queue)
    queue.database.lose = 1
    queue.record(unchanged(row), now=50)
    queue.record(unchanged(row), now=60)
    assert queue.rows() == [] and queue.files_to_delete() == []
    assert cache(queue, "confirmed_time") == (50,)
    queue.check_books()


def test_it_comes_twice_after_it_was_sent_to_the_end(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"), notice("other"))
    row = queue.rows()[0]
    queue.record(unchanged(row, "1.99"))
    assert [left.key for left in queue.rows()] == [queue.key("other"), row.key]
    generation = queue.rows()[1].generation
    queue.record(unchanged(row, "1.99"))
    assert queue.rows()[1].generation == generation
    queue.check_books()


def test_lost_content_is_not_asked_about(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"))
    asked = row_of(queue)

    def lose(txn: Any, run: int) -> None:
        write = WriteTransaction(txn, run, 30, queue.settings)
        fetch_again(write, queue.rules, 1, [1])
        write.flush()

    queue.database.now(lose, queue.store._run)
    assert row_of(queue).stored is None
    queue.record(unchanged(asked))
    row = row_of(queue)
    assert row.stored is None
    queue.record(queue.fetched(row, "x", **SAID))
    assert queue.rows() == [] and cache(queue, "fetched_fileid", "revalidate") == (2, 1)
    queue.check_books()


def test_what_may_not_be_asked_about_any_longer_is_not_confirmed(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"))
    asked = row_of(queue)
    queue.database.now(lambda txn: txn.execute("UPDATE lccurl SET revalidate = 0"))
    queue.record(unchanged(asked))
    row = row_of(queue)
    assert (row.stored, row.attempts, row.generation) == (None, 0, asked.generation + 1)
    queue.check_books()


def test_after_a_wrong_type_the_content_is_looked_at(queue: Queue) -> None:
    stored(queue)
    queue.send(2, notice("page"))
    queue.record(queue.failed(row_of(queue), code("mimetype-mismatch"), "told text/html, got image/png"))
    assert cache(queue, "state", "revalidate", "etag") == (1, 0, '"e"')
    queue.send(3, notice("page"))
    assert row_of(queue).stored is None


def test_the_same_content_again_brings_what_the_server_says_now(queue: Queue) -> None:
    """A touched file: the same bytes, another entity tag; else it would be fetched in full for ever."""
    stored(queue)
    (change,) = cache(queue, "change_number")
    queue.send(2, notice("page", mtime=7))
    queue.record(queue.fetched(row_of(queue), "x", **(SAID | {"etag": '"f"', "modified": 500})))
    assert cache(queue, "change_number", "etag", "modified", "mtime", "fetched_fileid") == (
        change,
        '"f"',
        500,
        500,
        1,
    )
    assert queue.files_to_delete() == [2]
    queue.send(3, notice("page", mtime=8))
    assert row_of(queue).stored == Stored("1.1", '"f"', 500, 1)
    queue.record(queue.fetched(row_of(queue), "x", **SAID, charset="utf-8"))
    assert cache(queue, "change_number", "charset") == (change + 1, "utf-8")
    queue.check_books()


def test_two_views_of_a_page_are_asked_about_apart(queue: Queue) -> None:
    queue.send(1, notice("page"), notice("page", mimetype="text/plain"))
    html, plain = queue.rows()
    queue.record(queue.fetched(html, "html", **SAID), queue.fetched(plain, "plain", **(SAID | {"etag": '"p"'})))
    queue.send(2, notice("page"), notice("page", mimetype="text/plain"))
    assert [row.stored.etag for row in queue.rows() if row.stored] == ['"e"', '"p"']
    html, plain = queue.rows()
    queue.record(unchanged(html), queue.failed(plain, code("mimetype-mismatch")))
    assert queue.cached() == {"http://site/page text/html": "cached", "http://site/page text/plain": "cached"}
    assert queue.stats("files_used") == 2
    queue.check_books()


class Truth:
    """A page on a web server that tells the truth, and what a queue manager makes of it, with results that come late
    and twice."""

    def __init__(self, queue: Queue, random: Random) -> None:
        self.random = random
        self.queue = queue
        queue.pid = queue.add_provider()
        self.served = 0
        self.connseq = 0
        self.confirmed = 0
        self.versions: dict[int, int] = {}

    def notify(self, **more: Any) -> None:
        self.connseq += 1
        self.queue.send(self.connseq, notice("page", **more))

    def answer(self, row: QueueRow) -> FetchResult:
        if row.stored is not None and row.stored.etag == f'"{self.served}"':
            self.confirmed += 1
            return unchanged(row)
        result = self.queue.fetched(row, "x" * self.served, **(SAID | {"etag": f'"{self.served}"'}))
        assert result.file is not None
        self.versions[result.file] = self.served
        return result

    def walk(self, steps: int) -> None:
        queue, random = self.queue, self.random
        out: list[QueueRow] = []
        results: list[FetchResult] = []
        for _ in range(steps):
            step = random.random()
            if step < 0.3:
                self.served += random.random() < 0.3
                self.notify(delete=random.random() < 0.1)
            elif step < 0.5:
                out += [row for row in queue.rows() if not row.delete]
            elif step < 0.7 and out:
                results.append(self.answer(out.pop(random.randrange(len(out)))))
                queue.record(results[-1])
            elif step < 0.8 and results:
                queue.record(random.choice(results))
            elif step < 0.85:
                queue.keep_house(queue.settings.age_expired + random.randrange(50))
            elif removed := [(row.key, row.generation) for row in queue.rows() if row.delete]:
                queue.record(removed=removed)
            queue.check_books()


def test_whatever_happens_meanwhile_the_right_content_is_kept(queue: Queue) -> None:
    confirmed = 0
    for seed in range(5):
        truth = Truth(queue, Random(seed))
        truth.walk(60)
        truth.notify(subtype="last: one")
        while rows := truth.queue.rows():
            assert not rows[0].delete
            truth.queue.record(truth.answer(rows[0]))
        state, file, etag = cache(truth.queue, "state", "fetched_fileid", "etag")
        assert (state, truth.versions[file], etag) == (1, truth.served, f'"{truth.served}"')
        assert file not in truth.queue.files_to_delete()
        truth.queue.check_books()
        confirmed += truth.confirmed
    assert confirmed > 5
