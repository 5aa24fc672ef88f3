"""Providers that move between sub-LCCs, on each database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest

from lcc.config import WatchedConfig
from lcc.model.frontend.moves import MoveState
from lcc.model.frontend.places import AtHome
from lcc.model.sources import Source
from lcc.roles.qm.moves import copying, mover, obeying, verifying
from lcc.storage.fe import moves
from lcc.storage.providers.providers import (
    ProviderMoves,
    change_provider,
    get_provider,
    order_removal,
    provider_status,
)
from lcc.storage.providers.sessions import absorbed_numbers
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.queue.maintenance.consistency import CHECKS
from lcc.storage.queue.moves import departing
from lcc.storage.queue.moves.arrivals import arrive_page
from lcc.storage.queue.moves.leaving import leave_page
from lcc.storage.queue.moves.paged import CACHE_ROWS, PAGED, QUEUE_ROWS, PagedTable
from lcc.storage.queue.moves.staging import make_carrier
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, MakeFront, file_of, move_published, publish
from tests.support.databases import Backend
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import page, pages


def test_a_provider_moves_with_all_that_it_has(make_front: MakeFront) -> None:
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    assert len(before) > 8
    front.order(pid, 2)
    front.log.clear()
    front.go_until(MoveState.DONE)
    assert front.place(pid) == (2, AtHome.HERE, 3)
    assert front.rows(2, pid) == before
    assert not front.rows(1, pid)
    assert front.log == []
    assert front.sub(1).query("SELECT COUNT(*) FROM pidb WHERE pid = ?", pid) == [(0,)]
    front.go(5)
    assert front.sub(2).query("SELECT pid FROM pidb") == [(pid,)]
    assert front.sub(2).query("SELECT COUNT(*) FROM staged") == [(0,)]


def test_what_changes_meanwhile_goes_along(make_front: MakeFront) -> None:
    """Sets come while it is copied, and while it stands still; none is lost, no page fetched twice."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    source, dest = front.sub(1), front.sub(2)
    number = 10
    told: list[int] = []

    def publish_more() -> None:
        nonlocal number
        number += 1
        front.site[f"http://site.example/{number + 1000}.html"] = "new"
        # Whoever had them in its spool passes them on, also to where the provider is no longer.
        source.send(number, pid, page(number + 1000))
        told.append(number + 1000)

    front.log.clear()
    while front.move().state is not MoveState.DONE:
        front.go(0.3)
        if len(told) < 40:
            publish_more()
    for _ in range(3):
        publish_more()
    front.go(15)
    assert [answer.code for answer in source.uns.answers] == [0] * len(source.uns.answers)
    cached = {row.curl for row in dest.world.cached(pid).values()}
    assert {f"http://site.example/{number}.html" for number in told} <= cached
    fetched = [url for _, url in front.log]
    assert len(fetched) == len(set(fetched))
    assert source.query("SELECT COUNT(*) FROM lccurl WHERE pid = ?", pid) == [(0,)]
    held = dest.query("SELECT last_number FROM setspos WHERE uns = ?", f"held/1/{pid}".encode())
    assert held and held[0][0] > 0


def test_a_watched_site_moves_with_what_everybody_has_noticed(make_front: MakeFront) -> None:
    """Pages that were listed, polled, linked or in feeds; the site's interval; deletions that are held."""
    front = make_front()
    source = front.sub(1)
    root = "http://site.example/"
    pid = source.database.now(find_or_make_watched, root, WatchedConfig(interval=7.0))
    front.site.update({f"{root}{number}.html": f"page {number}" for number in range(9)})
    kinds = (Source.FEED, Source.POLLED, Source.LISTED, Source.LINK, Source.PUSHED)
    for number, kind in enumerate(kinds, 1):
        order = number if kind in (Source.LISTED, Source.PUSHED) else 0
        source.send(number, pid, *pages(number, 6), source=kind, connseq=order)
    front.go(60)
    source.send(9, pid, page(7, hours="3"), source=Source.LISTED)
    front.go(1)
    named = {row[0] for row in source.query("SELECT source FROM lccurl WHERE pid = ?", pid)}
    assert {int(kind) for kind in kinds} < named
    source.database.now(lambda txn: txn.execute("INSERT INTO heldsweeps VALUES (?, 3, 4, 5, 6, 7)", [pid]))
    before = front.rows(1, pid)
    assert len(before) >= 7
    providers = "SELECT * FROM pidb WHERE pid = ?"
    provider = source.query(providers, pid)
    front.order(pid, 2)
    front.log.clear()
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid) == before and not front.rows(1, pid)
    assert front.sub(2).query(providers, pid) == provider and not source.query(providers, pid)
    held = front.sub(2).query("SELECT connseq, deletions, told, time FROM heldsweeps WHERE pid = ?", pid)
    assert held == [(4, 5, 6, 7)]
    assert front.log == []


@pytest.mark.parametrize("table", ["lccurl", "qdb", "urlerrs", *departing.WHOLE])
def test_all_columns_go_along(make_front: MakeFront, table: str) -> None:
    front = make_front()
    moved = {
        "lccurl": CACHE_ROWS.table.columns,
        "qdb": QUEUE_ROWS.table.columns,
        "urlerrs": departing.ERRORS.columns,
    } | {name: columns for name, (columns, _) in departing.WHOLE.items()}
    assert set(moved[table]) == set(columns_of(front, table))


@pytest.mark.parametrize("table", PAGED.values(), ids=PAGED)
def test_all_columns_are_staged(make_front: MakeFront, table: PagedTable) -> None:
    front = make_front()
    columns = columns_of(front, table.staged.name)
    assert columns == list(table.staged.columns)
    assert set(columns) > set(columns_of(front, table.name))


def columns_of(front: Front, table: str) -> list[str]:
    if front.database.dialect.name == "sqlite":
        return [row[1] for row in front.sub(1).query(f"PRAGMA table_info({table})")]
    return [row[0] for row in front.sub(1).query(f"SHOW COLUMNS FROM {table}")]


def test_it_may_log_in_while_its_rows_arrive(make_front: MakeFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sets are taken, and applied once all rows are there; whoever is killed meanwhile goes on."""
    monkeypatch.setattr(mover, "arrive_page", partial(arrive_page, page_rows=1))
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.log.clear()
    front.go_until(MoveState.FREEZING)
    dest = front.sub(2)
    while front.place(pid)[:2] != (2, AtHome.HERE):
        assert dest.query("SELECT COUNT(*) FROM lccurl WHERE pid = ?", pid) == [(0,)]
        front.go(0.1)
    assert front.move().state is MoveState.FLIPPED
    assert dest.database.now(absorbed_numbers, [pid])[pid] > 0, "a UNS lets it log in"
    assert dest.database.now(provider_status, pid, 0).files_used == 7
    front.site["http://site.example/3.html"] = "newer"
    dest.send(1, pid, page(3, md5="3" * 32), connseq=1 << 40)
    front.go(0.1)
    dest.killed.at = dest.killed.count + 1
    front.go(0.2)
    assert front.kills and front.move().state is MoveState.FLIPPED and dest.uns.answers[-1:] == []
    dest.send(1, pid, page(3, md5="3" * 32), connseq=1 << 40)
    front.go(0.1)
    assert [answer.code for answer in dest.uns.answers] == [0]
    assert front.log == []
    front.go_until(MoveState.DONE)
    front.go(2)
    assert front.log == [("b", "http://site.example/3.html")]
    assert len(front.rows(2, pid)) == len(before)
    assert dest.database.now(provider_status, pid, 0).files_used == 7


def test_what_is_derived_is_checked_while_it_moves(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    """As after each start of a queue manager: counters and sets are ahead of the rows that arrive, or leave."""
    checked = []

    def checking(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(write: Any, *arguments: Any) -> Any:
            done = step(write, *arguments, page_rows=1)
            for check in CHECKS:
                check(write, b"")
            checked.append(write.txn.query("SELECT state FROM fenced"))
            return done

        return stepped

    monkeypatch.setattr(mover, "arrive_page", checking(arrive_page))
    monkeypatch.setattr(obeying, "leave_page", checking(leave_page))
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.sub(1).send(9, pid, *(page(number, hours="0") for number in range(600, 605)))
    front.go(1)
    queued = front.sub(1).query("SELECT COUNT(*) FROM qdb WHERE pid = ?", pid)
    assert queued[0][0] >= 5, "they wait for their hour"
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    assert logged_errors.flush() == []
    assert checked.count([("arriving",)]) > 10 and checked.count([("left",)]) > 10
    assert front.sub(2).database.now(provider_status, pid, 0).files_used == 7
    assert front.sub(2).query("SELECT COUNT(*) FROM qdb WHERE pid = ?", pid) == queued


def test_what_is_changed_of_a_provider_goes_along_or_is_refused(make_front: MakeFront) -> None:
    """It is changed until it stands still, and then where it is; nothing is lost, whichever comes first."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    interval, refused = 0.0, 0
    while front.move().state is not MoveState.DONE:
        for number in (1, 2):
            database = front.sub(number).database
            provider = database.now(get_provider, pid)
            if provider is None:
                continue
            try:
                database.now(change_provider, attrs.evolve(provider, interval_seconds=interval + 1))
            except ProviderMoves as error:
                refused += 1
                assert error.detail == f"provider {pid} is moving to another sub-LCC"
                with pytest.raises(ProviderMoves):
                    database.now(order_removal, pid)
            else:
                interval += 1
        front.go(0.1)
        if front.move().state is MoveState.FREEZING:
            front.holding.add("b")  # for a while its content does not come
        if refused > 5:
            front.holding.clear()
    front.go(3)
    provider = front.sub(2).database.now(get_provider, pid)
    assert provider is not None and provider.interval_seconds == interval > 0
    assert refused > 5
    front.sub(2).database.now(order_removal, pid)


@pytest.mark.long("mariadb")
def test_a_set_that_does_not_end_ends_the_freeze_and_goes_on(make_front: MakeFront) -> None:
    """As one of ten million would, that arrives across the freeze."""
    front = make_front()
    pid = move_published(front, MoveState.COPYING)
    front.log.clear()
    front.site.update({f"http://site.example/{number}.html": "big" for number in range(2000, 2300)})
    text = front.sub(1).uns.set_text(9, pid, pages(*range(2000, 2300))[:300], full=False)
    elements = text.split("/>")
    front.sub(1).uns.write("/>".join(elements[:200]) + "/>")
    front.go_until(MoveState.FREEZING)
    sent = 200
    while front.move().state is MoveState.FREEZING:
        front.sub(1).uns.write("/>".join(elements[sent : sent + 1]) + "/>")  # it goes on arriving
        sent += 1
        front.go(0.5)
    assert front.move().state is MoveState.COPYING and "come to rest" in front.move().why
    assert front.place(pid)[:2] == (1, AtHome.HERE)
    front.sub(1).uns.write("/>".join(elements[sent:]))
    front.go(3)
    assert front.sub(1).uns.answers[-1].number == 9
    front.go_until(MoveState.DONE)
    front.go(20)
    there = {row.curl for row in front.sub(2).world.cached(pid).values()}
    assert {f"http://site.example/{number}.html" for number in range(2000, 2300)} <= there
    assert len(front.log) == len(set(front.log))


def test_a_destination_whose_disk_is_full_ends_the_freeze(make_front: MakeFront) -> None:
    """Its robots bring nothing.  The provider goes on where it was, and moves once there is room."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(25)
    assert front.move().state is MoveState.COPYING
    assert front.move().why == "its content does not come from the source in time"
    front.site["http://site.example/800.html"] = "published"
    front.sub(1).send(8, pid, page(800))
    front.go(1)
    assert front.log[-1] == ("a", "http://site.example/800.html")
    front.holding.clear()
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid)


def test_who_stands_still_does_not_wait_until_others_are_copied(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider is copied for a moment, then others are looked at; and not at all while one is frozen."""
    monkeypatch.setattr(copying, "PAGE_ROWS", 1)
    monkeypatch.setattr(mover, "SLICE_SECONDS", 0.3)
    front = make_front()
    pid = publish(front, 30)
    other = front.sub(1).world.provider()
    front.go(1)
    before = front.rows(1, pid)
    front.holding.add("b")
    front.order(other, 2)
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    while front.move(1).state is MoveState.FREEZING:
        assert front.move(2).state is MoveState.PLANNED
        front.go(0.1)
    front.holding.clear()
    front.go_until(MoveState.DONE)
    copied = set()
    while front.move(2).state is not MoveState.DONE:
        copied.add(front.move(2).number("rows"))
        front.go(0.1)
    assert len(copied) > 5, "in many slices"
    assert front.rows(2, pid) == before


def test_of_two_movers_the_later_one_goes_on(make_front: MakeFront, logged_errors: LoggedErrors) -> None:
    """The queue manager of the destination was started once more, and the former one still runs."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.log.clear()
    front.go_until(MoveState.COPYING)
    dest = front.sub(2)
    former = dest.moving
    assert former is not None
    dest.moving = None
    engine = dest.world.engine
    dest.start()
    front.go_until(MoveState.DONE)
    former.stop()
    assert front.rows(2, pid) == before and not front.rows(1, pid) and front.log == []
    assert not engine.started, "it has ended itself"
    logged_errors.flush("This queue manager stops")


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_a_delay_by_a_clock_that_was_wrong_at_the_source(make_front: MakeFront, ahead: float) -> None:
    """Neither this provider waits for that hour, or too short, nor are the delays of others taken for ones of a wrong
    clock."""
    front = make_front()
    pid = publish(front)
    source, dest = front.sub(1), front.sub(2)
    front.go(1)
    wrong = NOW + ahead
    values = (pid, wrong + 9, "interval", 0, 0, 0.0, 0, 0.0, wrong)
    columns = "pid, until_time, reason, code, failures, owed_time, rate, since_time, saved_time"
    source.query(f"INSERT INTO pdelays ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    now = NOW + front.clock.seconds()
    ((until, saved),) = dest.query("SELECT until_time, saved_time FROM pdelays WHERE pid = ?", pid)
    assert now < until <= now + 10 and saved <= now
    dest.send(1, pid, page(700), connseq=1 << 50)
    front.site["http://site.example/700.html"] = "new"
    front.go(1)
    assert ("b", "http://site.example/700.html") not in front.log
    front.go(12)
    assert ("b", "http://site.example/700.html") in front.log


def test_a_fetch_that_ends_while_its_provider_stands_still_counts(make_front: MakeFront) -> None:
    """Also if the source has just been restarted, and does not know the limits of who is frozen (world 600412m)."""
    front = make_front()
    pid = publish(front)
    source = front.sub(1)
    front.go(1)
    for column, value in (("interval_seconds", 30.0), ("bandwidth", 10)):
        source.query(f"UPDATE pidb SET {column} = ? WHERE pid = ?", value, pid)
    front.holding.add("a")
    source.start()
    source.send(8, pid, *pages(700, 701))
    front.go(3)
    (order,) = source.botm.out.values()
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    source.start()
    front.go(1)
    assert front.move().state is MoveState.FREEZING and order.id in source.botm.out
    front.site |= {f"http://site.example/{number}.html": "new" for number in (700, 701)}
    front.holding.clear()
    begun = front.clock.seconds()
    front.go_until(MoveState.DONE)
    ((until, owed),) = front.sub(2).query("SELECT until_time, owed_time FROM pdelays WHERE pid = ?", pid)
    assert until >= NOW + begun + 30 and owed >= NOW + begun + 10
    while not any(name == "b" for name, _ in front.log):
        front.go(0.1)
    assert front.clock.seconds() - begun >= 30


def test_content_that_is_damaged_at_the_source_is_fetched_again_and_named(
    make_front: MakeFront, logged: list[dict[str, Any]]
) -> None:
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.damaged.add(file_of(front, "/5.html"))
    front.altered.add(file_of(front, "/6.html"))
    front.log.clear()
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    front.go(3)
    damaged = ["http://site.example/5.html", "http://site.example/6.html"]
    assert sorted(front.log) == [("b", url) for url in damaged]
    named = [event["url"] for event in logged if "missing or damaged" in str(event.get("log_format"))]
    assert sorted(named) == damaged
    assert front.sub(2).query("SELECT COUNT(*) FROM lccurl WHERE state = 1 AND fetched_fileid IS NULL") == [(0,)]
    assert front.sub(2).query("SELECT COUNT(*) FROM fsmdb WHERE machine <> 20") == [(0,)]


@pytest.mark.parametrize("what", ["unreadable", "elsewhere", "others"])
def test_content_that_cannot_be_copied_ends_the_move(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Nothing would be left of it but what its web server has by now."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    files = {file_of(front, f"/{number}.html") for number in (3, 4, 5)}
    if what == "others":  # each of them alone is fetched again
        front.altered |= files
    else:
        front.damaged |= files
    if what == "unreadable":
        front.content_code = 403
    else:
        monkeypatch.setattr(verifying, "DAMAGED_MAX", 1)
    front.order(pid, 2)
    move = front.go_until(MoveState.CANCELLED)
    said = "do not have the digests" if what == "others" else "cannot be copied"
    assert " content files " in move.why and said in move.why and "http://content-1.example:80/" in move.why
    front.go(5)
    assert front.rows(1, pid) == before and front.place_of(pid) == 1
    assert front.sub(2).query("SELECT pid FROM pidb") == []


def test_what_cannot_move_says_why(make_front: MakeFront) -> None:
    front = make_front()
    held, removed = (front.sub(1).world.provider() for _ in range(2))
    write = front.sub(1).database.now
    write(lambda txn: txn.execute("UPDATE pidb SET removed = 1 WHERE pid = ?", [removed]))
    for number, (pid, why) in enumerate([(removed, "being removed"), (77, "no provider")], 1):
        front.order(pid, 2)
        assert why in front.go_until(MoveState.CANCELLED, number).why
    carrier = front.sub(1).world.provider()
    write(lambda txn: txn.execute("UPDATE pidb SET password = 'none: move 9 of 1' WHERE pid = ?", [carrier]))
    front.order(carrier, 2)
    assert "carries the content of a move" in front.go_until(MoveState.CANCELLED, 3).why
    with pytest.raises(moves.CannotMove, match="no sub-LCC"):
        front.order(5000, 2)
    with pytest.raises(moves.CannotMove, match="is in sub-LCC a already"):
        front.order(held, 1)
    pid = front.sub(1).world.provider()
    front.order(pid, 2)
    front.go(2)
    with pytest.raises(moves.CannotMove, match="moving already"):
        front.order(pid, 2)
    front.go_until(MoveState.DONE, 4)
    with pytest.raises(moves.CannotMove, match="not moving"):
        front.database.now(moves.cancel_move, pid, "no", NOW)


def test_back_and_forth(make_front: MakeFront) -> None:
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    first = front.sub(1).query("SELECT urlkey, change_number FROM lccurl WHERE pid = ? AND change_number > 0", pid)
    front.log.clear()
    for number, dest in ((1, 2), (2, 1), (3, 2)):
        front.order(pid, dest)
        front.go_until(MoveState.DONE, number)
        front.go(3)
        assert front.rows(dest, pid) == before
    # The origin is the first one, because nothing has changed since.
    origins = front.sub(2).query("SELECT urlkey, subid, number FROM origins")
    assert sorted(origins) == sorted((key, 1, number) for key, number in first)
    assert front.log == []
    front.sub(2).send(1, pid, page(700), connseq=1 << 40)
    front.site["http://site.example/700.html"] = "x"
    front.go(2)
    assert front.log == [("b", "http://site.example/700.html")]


def test_nothing_of_what_a_cancelled_move_has_copied_stays(make_front: MakeFront) -> None:
    """Nobody was told of it: there are no tombstones, nor changes."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    dest = front.sub(2)
    front.order(pid, 2)
    while not dest.query("SELECT 1 FROM lccurl WHERE fetched_fileid IS NOT NULL"):
        front.go(0.1)
    files = dest.query("SELECT fetched_machineid, fetched_fileid FROM lccurl WHERE fetched_fileid IS NOT NULL")
    front.database.now(moves.cancel_move, pid, "no", NOW)
    front.go(15)
    assert dest.query("SELECT pid FROM pidb") == [] and dest.query("SELECT COUNT(*) FROM lccurl") == [(0,)]
    assert set(files) <= {(order.machine, order.file) for order in dest.botm.deletes}


def test_a_move_is_cancelled(make_front: MakeFront) -> None:
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    while front.sub(1).query("SELECT state FROM fenced") != [("followed",)]:
        front.go(0.1)
    front.sub(1).send(4, pid, page(3))
    front.go(0.1)
    front.database.now(moves.cancel_move, pid, "no", NOW)
    front.go(1)
    before = front.rows(1, pid)
    front.go(10)
    for table in ("touched", "heldsets"):
        assert front.sub(1).query(f"SELECT COUNT(*) FROM {table}") == [(0,)]
    assert front.sub(1).query("SELECT value FROM counters WHERE name = 'followed'") == [(0,)]
    assert front.rows(1, pid) == before
    assert front.sub(2).query("SELECT COUNT(*) FROM staged") == [(0,)]
    assert front.sub(2).query("SELECT pid FROM pidb") == []
    assert front.move().progress["cleaned"]


def test_a_move_that_is_cancelled_while_it_is_planned_leaves_nothing(make_front: MakeFront) -> None:
    """Its carrier is made, but its id not noted yet."""
    front = make_front()
    pid = publish(front)
    move = front.order(pid, 2)
    dest = front.sub(2).database
    carriers = {dest.now(make_carrier, move, "a", "http://content-1.example:80/", NOW) for _ in range(2)}
    assert len(carriers) == 1
    front.database.now(moves.cancel_move, pid, "no", NOW)
    front.go(10)
    assert front.sub(2).query("SELECT pid FROM pidb") == []
    assert front.move().progress["cleaned"]


def test_a_fetch_that_does_not_end_ends_the_freeze(make_front: MakeFront) -> None:
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.holding.add("a")
    front.sub(1).send(20, pid, page(600))
    front.site["http://site.example/600.html"] = "y"
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(25)
    move = front.move()
    assert move.state is MoveState.COPYING and "come to rest" in move.why
    assert front.place(pid)[:2] == (1, AtHome.HERE)
    front.holding.discard("a")
    front.go(1)
    assert front.log[-1] == ("a", "http://site.example/600.html")
    front.go_until(MoveState.DONE)
    assert front.log[-1] == ("a", "http://site.example/600.html")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("who", ["source", "destination"])
def test_killed_at_each_write(make_front: MakeFront, backend: Backend, who: str, after: bool) -> None:
    """Whoever is killed goes on; the provider is at one place, with all that it has."""
    at, step = 1 + after, 2 if backend.kind == "sqlite" else 9
    while True:
        front = make_front()
        pid = publish(front)
        front.go(1)
        before = front.rows(1, pid)
        front.order(pid, 2)
        front.log.clear()
        killed = front.sub(1 if who == "source" else 2).killed
        killed.at = (killed.count + at) * (-1 if after else 1)
        front.go_until(MoveState.DONE)
        front.go(5)
        assert front.rows(2, pid) == before, at
        assert not front.rows(1, pid)
        assert front.log == []
        assert front.sub(2).query("SELECT pid FROM pidb") == [(pid,)]
        if not front.kills:
            assert at > 10
            return
        at += step
