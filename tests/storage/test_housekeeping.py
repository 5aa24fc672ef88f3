"""What is done in the background, page by page, on each database."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.config import QmConfig
from lcc.errors import code
from lcc.model import SITE, CachedUrl, Source
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import begin, read_page
from lcc.roles.cu.tokens import BEGINNING, StartAgain, Token
from lcc.storage.database.tables import status
from lcc.storage.database.tables.stored_notices import read_notice
from lcc.storage.providers.providers import provider_status
from lcc.storage.queue.maintenance import housekeeping
from lcc.storage.views import selected
from tests.support.databases import DirectDatabase, result_of
from tests.support.queue import Queue, notice

DAY = 86400
MONTH = 30 * DAY
NOW = 1000 * DAY


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "PAGE_ROWS", 3)
    monkeypatch.setattr(housekeeping, "PAGE_PROVIDERS", 2)


def fetched_at(queue: Queue, now: int, *names: str, connseq: int = 1) -> None:
    queue.send(connseq, *[notice(name, "1") for name in names], now=now)
    queue.fetch_all(now=now)


def asked(queue: Queue, since: str, limit: int | None = None) -> list[CachedUrl]:
    """The first page of what changed since."""
    return queue.database.now(read_page, queue.database.now(begin, Query(since=since, limit=limit))).rows  # type: ignore[no-any-return]


def token_at(queue: Queue, number: int) -> str:
    """The token of a user who has seen the change of this number."""
    token = queue.database.now(begin, Query(since="")).token
    assert isinstance(token, Token)
    return str(token.advanced(number))


def wanted(queue: Queue) -> str:
    return queue.database.now(provider_status, queue.pid, 0).full_set_wanted


def state_of(queue: Queue, name: str) -> CachedUrl | None:
    return queue.database.now(selected.url, queue.key(name))


@pytest.mark.usefixtures("small_pages")
def test_old_content_is_asked_for_and_then_expires(queue: Queue) -> None:
    fetched_at(queue, NOW, *[f"{number}" for number in range(10)])
    queue.keep_house(NOW + 89 * DAY)
    assert wanted(queue) == ""
    # One of them is confirmed: it has not changed.
    queue.send(2, notice("4", "1"), now=NOW + 89 * DAY)
    queue.keep_house(NOW + 91 * DAY)
    assert wanted(queue) == "old-files" and len(queue.cached()) == 10
    queue.keep_house(NOW + 181 * DAY)
    assert wanted(queue) == "expired-files"
    assert {name[12] for name, state in queue.cached().items() if state == "cached"} == {"4"}
    assert len(queue.files_to_delete()) == 9
    status = queue.database.now(provider_status, queue.pid, 100)
    assert status.error_count == 9 and {error.code for error in status.errors} == {code("expired")}
    assert {error.url for error in status.errors} == {f"http://site/{number}" for number in range(10) if number != 4}
    queue.check_books()
    # Expired once, told of once.
    queue.keep_house(NOW + 183 * DAY)
    assert queue.database.now(provider_status, queue.pid, 100).error_count == 9


def test_a_wanted_full_set_stays_wanted_until_one_is_accepted(queue: Queue) -> None:
    fetched_at(queue, NOW, "a", "b")
    queue.keep_house(NOW + 91 * DAY)
    queue.send(2, notice("c"), now=NOW + 92 * DAY)
    queue.keep_house(NOW + 93 * DAY)
    assert wanted(queue) == "old-files"
    pieces = queue.pieces(queue.header(3, full=True), [notice("a", "1"), notice("b", "1")], size=1)
    queue.absorb(pieces[:1], NOW + 94 * DAY)
    assert wanted(queue) == "old-files"
    queue.absorb(pieces[1:], NOW + 94 * DAY)
    assert wanted(queue) == "" and queue.stats("fullsets_used") == 0


def test_the_worst_reason_is_told(queue: Queue) -> None:
    fetched_at(queue, NOW, "a")
    result_of(queue.store.want_full_set(queue.pid, "cache-crash"))
    queue.keep_house(NOW + 200 * DAY)
    assert wanted(queue) == "cache-crash"
    result_of(queue.store.want_full_set(queue.pid, "old-files"))
    assert wanted(queue) == "cache-crash"


def test_what_cannot_be_fetched_is_not_asked_for_again_and_again(queue: Queue) -> None:
    fetched_at(queue, NOW, "a", "b")
    queue.send(2, notice("a", "2"), notice("b", "1"), full=True, now=NOW + 100 * DAY)
    queue.record(queue.failed(queue.rows()[0], 403), now=NOW + 100 * DAY)
    queue.keep_house(NOW + 120 * DAY)
    assert wanted(queue) == ""
    queue.keep_house(NOW + 181 * DAY)
    assert [name[12] for name, state in queue.cached().items() if state == "deleted"] == ["a"]
    assert wanted(queue) == ""
    queue.keep_house(NOW + 191 * DAY)
    assert wanted(queue) == "old-files"


def test_what_waits_to_be_fetched_does_not_expire(queue: Queue) -> None:
    fetched_at(queue, NOW, "a", "b")
    queue.send(2, notice("a", "2"), now=NOW + DAY)
    queue.keep_house(NOW + 181 * DAY)
    assert {name[12]: state for name, state in queue.cached().items()} == {"a": "cached", "b": "deleted"}
    queue.check_books()


def test_ages_can_be_switched_off(database: Any) -> None:
    queue = Queue(database, QmConfig(age_wanted=0, age_expired=0))
    fetched_at(queue, NOW, "a")
    queue.keep_house(NOW + 5000 * DAY)
    assert wanted(queue) == "" and list(queue.cached().values()) == ["cached"]


@pytest.mark.usefixtures("small_pages")
def test_old_tombstones_are_forgotten_and_old_tokens_start_again(queue: Queue) -> None:
    now = queue.database.now
    fetched_at(queue, NOW, *"abcdefgh")
    early = token_at(queue, now(status.last_change))
    queue.send(2, *[notice(name, delete=True) for name in "abcde"], now=NOW + DAY)
    late = token_at(queue, now(status.last_change))
    queue.send(3, *[notice(name, "1") for name in "fgh"], now=NOW + 100 * DAY)
    queue.keep_house(NOW + 180 * DAY)
    assert now(status.forgotten_upto) == 0 and len(asked(queue, early)) == 5
    queue.keep_house(NOW + 182 * DAY)
    assert {name[12] for name in queue.cached()} == set("fgh")
    assert now(status.forgotten_upto) == 13
    with pytest.raises(StartAgain):
        asked(queue, early)
    assert asked(queue, late) == []
    for beginning in BEGINNING:
        assert len(asked(queue, beginning)) == 3
    queue.check_books()


def test_a_long_listing_is_told_when_deletions_are_forgotten_meanwhile(queue: Queue) -> None:
    now = queue.database.now
    fetched_at(queue, NOW, "a", "b", "c")
    place = now(begin, Query(since=token_at(queue, 1), limit=1))
    queue.send(2, notice("a", delete=True), now=NOW)
    assert len(now(read_page, place).rows) == 1
    queue.keep_house(NOW + 181 * DAY)
    with pytest.raises(StartAgain):
        now(read_page, place)


def test_rows_that_only_guard_against_late_results_go_as_well(queue: Queue) -> None:
    queue.send(1, notice("a"))
    (row,) = queue.rows()
    queue.send(2, notice("a", delete=True), notice("never", delete=True))
    queue.record(queue.fetched(row), now=NOW)
    assert len(queue.database.query("SELECT 1 FROM lccurl")) == 2
    queue.keep_house(NOW + 181 * DAY)
    assert queue.database.query("SELECT 1 FROM lccurl") == []


@pytest.mark.usefixtures("small_pages")
def test_full_sets_are_allowed_again_after_a_period(queue: Queue) -> None:
    first = queue.pid
    pids = [first, *[queue.add_provider() for _ in range(6)]]
    for pid in pids:
        queue.pid = pid
        queue.send(1, notice("a"), full=True, now=NOW + pid)
    queue.pid = first
    assert {used for (used,) in queue.database.query("SELECT fullsets_used FROM pstats")} == {1}
    period = queue.settings.full_set_period
    queue.keep_house(NOW + first + 3 + period)
    used = dict(queue.database.query("SELECT pid, fullsets_used FROM pstats"))
    assert [used[pid] for pid in pids] == [0, 0, 0, 0, 1, 1, 1]
    queue.keep_house(NOW + first + 3 + period + 3600)
    assert {used for (used,) in queue.database.query("SELECT fullsets_used FROM pstats")} == {0}


def test_nothing_is_done_before_its_time(queue: Queue) -> None:
    fetched_at(queue, NOW, "a")
    assert queue.keep_house(NOW)[-1].more is False
    before = queue.database.query("SELECT * FROM chores ORDER BY name")
    assert len(queue.keep_house(NOW + 3599)) == 1
    assert queue.database.query("SELECT * FROM chores ORDER BY name") == before
    assert len(queue.keep_house(NOW + 3600)) == 1
    assert queue.database.query("SELECT * FROM chores ORDER BY name") != before
    # A clock that was wrong by years holds nothing up.
    queue.keep_house(NOW + 5000 * DAY)
    queue.keep_house(NOW + 7200)
    assert max(due for (due,) in queue.database.query("SELECT due FROM chores")) <= NOW + 7200 + DAY


@pytest.mark.usefixtures("small_pages")
def test_a_restart_goes_on_where_it_was(queue: Queue) -> None:
    fetched_at(queue, NOW, *[f"{number:02}" for number in range(20)])
    result_of(queue.store.housekeeping(NOW + 200 * DAY))
    steps = 0
    while True:
        queue.store = queue.another_store()
        queue.claim()
        steps += 1
        if not result_of(queue.store.housekeeping(NOW + 200 * DAY)).more:
            break
    assert 7 <= steps < 20
    assert set(queue.cached().values()) == {"deleted"}
    queue.check_books()


@pytest.mark.parametrize("lose", [1, 3])
@pytest.mark.usefixtures("small_pages")
def test_lost_commits_do_nothing_twice(queue: Queue, lose: int) -> None:
    fetched_at(queue, NOW, *"abcdefgh")
    queue.database.lose = 10 * lose
    queue.keep_house(NOW + 200 * DAY)
    queue.database.lose = 0
    assert queue.database.now(provider_status, queue.pid, 100).error_count == 8
    assert sorted(queue.files_to_delete()) == list(range(1, 9))
    queue.check_books()


def test_a_deleted_file_stays_for_a_while(database: Any) -> None:
    queue = Queue(database, QmConfig(delete_grace=100))
    fetched_at(queue, NOW, "a", "b")
    queue.send(2, notice("a", delete=True), now=NOW + 10)
    queue.send(3, notice("b", delete=True), now=NOW + 20)

    def due(now: int) -> list[int]:
        return [order.file for order in result_of(queue.store.deletes(1, 0, 10, now))]

    assert (due(NOW + 109), due(NOW + 110), due(NOW + 119), due(NOW + 120)) == ([], [1], [1], [1, 2])
    # The clock was far ahead when they were deleted: they wait no longer than they would have to by now.
    assert due(NOW - 10**6) == [1, 2]


def test_a_period_of_full_sets_is_no_longer_when_the_clock_was_set_back(queue: Queue) -> None:
    queue.send(1, notice("a"), full=True, now=NOW)
    queue.keep_house(NOW - DAY)
    assert queue.stats("fullsets_used") == 0 and queue.stats("fullsets_since") == NOW - DAY
    queue.send(2, notice("a"), full=True, now=NOW)
    queue.send(3, notice("a"), full=True, now=NOW - 2 * DAY)
    assert queue.stats("fullsets_used") == 1 and queue.stats("fullsets_since") == NOW - 2 * DAY


def test_what_has_expired_keeps_its_hours(queue: Queue) -> None:
    """So that ``lcc-admin retry`` fetches it within them."""
    queue.send(1, notice("page", hours="0-3"), now=NOW)
    queue.database.now(lambda txn: txn.execute("UPDATE qdb SET slot = -1"))
    queue.database.now(lambda txn: txn.execute("UPDATE qpsdb SET slot = -1"))
    (row,) = queue.rows()
    queue.record(queue.fetched(row), now=NOW)
    queue.keep_house(NOW + 300 * DAY)
    ((stored,),) = queue.database.query("SELECT notice FROM urlerrs")
    assert read_notice(stored, "").hours == "0-3"


def test_what_not_only_its_provider_told_of_is_asked_for_again(queue: Queue) -> None:
    for source, name in ((Source.PUSHED, "pushed"), (Source.LISTED, "listed"), (Source.FEED, "feed")):
        queue.send(1 if source & SITE else 0, notice(name, "1"), source=source, now=NOW)
    queue.send(1, notice("told", "1"), notice("both", "1"), now=NOW)
    queue.send(2, notice("both", "1"), source=Source.LISTED, now=NOW)
    queue.send(0, notice("polled"), source=Source.POLLED, now=NOW)
    queue.fetch_all(now=NOW)
    before = {key: state for key, state in queue.cached().items() if "told" not in key and "polled" not in key}
    queue.keep_house(NOW + 3 * MONTH - 1)
    assert queue.rows() == []
    queue.keep_house(NOW + 4 * MONTH)
    rows = {row.notice.curl[12:]: row for row in queue.rows()}
    assert set(rows) == {"pushed", "listed", "feed", "both"}
    assert rows["both"].source == Source.TOLD | Source.LISTED and rows["feed"].source == Source.FEED
    queue.check_books()
    queue.keep_house(NOW + 5 * MONTH)
    assert len(queue.rows()) == 4, "what is queued is queued"
    # What its provider alone told of expires.
    queue.keep_house(NOW + 7 * MONTH)
    assert queue.cached()["http://site/told text/html"] == "deleted"
    assert before.items() <= queue.cached().items()
    queue.fetch_all(now=NOW + 7 * MONTH)
    queue.keep_house(NOW + 9 * MONTH)
    assert queue.rows() == []
    queue.check_books()


@pytest.mark.parametrize("settings", [QmConfig(reverify=0), QmConfig(queue_rows_max=1)])
def test_nothing_is_asked_for_again_where_the_setting_or_the_room_is_0(
    database: DirectDatabase, settings: QmConfig
) -> None:
    queue = Queue(database, settings)
    queue.send(1, notice("a", "1"), source=Source.LISTED, now=NOW)
    queue.fetch_all(now=NOW)
    queue.keep_house(NOW + 9 * MONTH)
    assert queue.rows() == [] and len(queue.cached()) == 1


@pytest.mark.usefixtures("small_pages")
def test_what_nobody_polls_any_longer_is_deleted(queue: Queue) -> None:
    queue.send(0, notice("feed"), notice("left"), notice("waits"), source=Source.POLLED, now=NOW)
    queue.send(2, notice("was"), now=NOW)
    queue.send(0, notice("was"), source=Source.POLLED, now=NOW)
    queue.fetch_all(now=NOW)
    queue.send(3, notice("was", delete=True), now=NOW)
    assert state_of(queue, "was") is not None
    queue.send(0, notice("feed"), source=Source.POLLED, now=NOW + 5 * MONTH)
    queue.fetch_all(now=NOW + 5 * MONTH)
    queue.send(0, notice("waits"), source=Source.POLLED, now=NOW + 5 * MONTH)
    files = queue.database.query("SELECT fetched_fileid FROM lccurl WHERE curl LIKE '%/left'")
    queue.keep_house(NOW + 6 * MONTH - 1)
    names = ("feed", "left", "waits", "was")
    assert {name: queue.cached()[f"http://site/{name} text/html"] for name in names} == dict.fromkeys(names, "cached")
    queue.keep_house(NOW + 6 * MONTH + DAY)
    states = {name: queue.cached()[f"http://site/{name} text/html"] for name in names}
    assert states == {"feed": "cached", "waits": "cached", "left": "deleted", "was": "deleted"}
    assert files[0] in queue.database.query("SELECT file FROM fsmdb")
    queue.check_books()
    # What was said of it is remembered: an older set tells nothing new.
    queue.send(2, notice("was"), now=NOW + 6 * MONTH)
    assert [row.notice.curl[12:] for row in queue.rows()] == ["waits"]
    # Polled again, it is there again.
    queue.send(0, notice("left"), source=Source.POLLED, now=NOW + 6 * MONTH)
    queue.fetch_all(now=NOW + 6 * MONTH)
    assert queue.cached()["http://site/left text/html"] == "cached"
    queue.check_books()
