"""Sets of providers that move, which UNSes of their former homes had taken before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lcc.model.frontend.moves import MoveState
from lcc.protocols.uns_qm import Damage
from lcc.roles.qm.intake.absorber import Absorber
from lcc.roles.qm.moves import mover, obeying
from lcc.storage.database.transactions import Txn
from lcc.storage.fe import moves
from lcc.storage.providers.sessions import ORDER_JUMP
from lcc.storage.queue.moves import fences
from lcc.storage.queue.moves.fences import give_up_old_held, held_pieces, lose_sets
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, MakeFront, Sub, move_published, publish, restore
from tests.support.databases import dumped, result_of
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import FakeUns, page, pages

MONTH = 30 * 86400
WANTED = "SELECT wantfullset FROM pstats WHERE pid = ?"


def test_a_set_that_a_spool_of_the_source_has_is_older_than_all_of_the_destination(make_front: MakeFront) -> None:
    """Its UNS drew its number when the provider had just arrived there, so that the counter had jumped (seed 40m)."""
    front = make_front()
    pid = publish(front)
    source, dest = front.sub(1), front.sub(2)
    ((absorbed,),) = source.query("SELECT maxconnseq FROM pstats WHERE pid = ?", pid)
    spooled = absorbed + ORDER_JUMP + 7
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    ((known,),) = dest.query("SELECT maxconnseq FROM pstats WHERE pid = ?", pid)
    dest.send(1, pid, page(5, delete=True), connseq=known + 1)
    front.go(2)
    source.send(4, pid, page(5, md5="2" * 32), page(6, md5="2" * 32), connseq=spooled)
    front.go(15)
    assert dest.query("SELECT last_number FROM setspos WHERE uns = ?", f"held/1/{pid}".encode())
    cached = {row.curl for row in dest.world.cached(pid).values()}
    assert "http://site.example/5.html" not in cached
    assert front.log[-1] == ("b", "http://site.example/6.html")


def test_sets_that_were_held_are_applied_once_where_it_comes_back(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    # A set that was in a spool here; its page fails for good.
    front.sub(1).send(9, pid, page(800))
    front.go(15)
    assert ("b", "http://site.example/800.html") in front.log
    assert front.sub(1).query("SELECT COUNT(*) FROM heldsets") == [(1,)]
    before = front.rows(2, pid)
    front.log.clear()
    for number, dest in ((2, 1), (3, 2), (4, 1)):
        front.order(pid, dest)
        front.go_until(MoveState.DONE, number)
        front.go(15)
        assert front.log == []
        assert front.rows(dest, pid) == before
    assert front.sub(1).query("SELECT COUNT(*) FROM heldsets") == [(0,)]


def test_what_is_left_of_a_set_that_came_anew_is_forgotten(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front)
    row = (99, pid, b"uns", b"epoch", 1, 0, 0, "{}", "[]", 5)
    columns = ("id", "pid", "uns", "epoch", "number", "firstindex", "whole", "header", "notices", "time")
    front.sub(2).database.now(lambda txn: txn.insert("heldsets", columns, [row]))
    front.sub(2).start()
    front.go(1)
    assert front.sub(2).query("SELECT 1 FROM heldsets") == []


@pytest.mark.long("mariadb")
def test_a_late_set_goes_along_to_the_last_home_and_in_no_circle(make_front: MakeFront) -> None:
    """The provider went there, came back, and went on; a UNS of the first destination had a set in its spool."""
    front = make_front(subs=3)
    pid = publish(front)
    front.go(1)
    for number, dest in enumerate((2, 1, 3), 1):
        front.order(pid, dest)
        front.go_until(MoveState.DONE, number)
    front.log.clear()
    for number in (1, 2):
        front.sub(number).send(9, pid, page(800 + number))
    front.go(100)
    assert sorted(front.log) == [("c", f"http://site.example/{number}.html") for number in (801, 802)]
    counted = [front.sub(number).query("SELECT COUNT(*) FROM heldsets")[0][0] for number in (1, 2, 3)]
    assert counted == [2, 1, 0], "the first one holds what comes from the second"


def test_a_set_that_comes_late_by_months_is_applied(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    front.database.now(lambda txn: txn.execute("UPDATE moves SET changed_time = changed_time - ?", [5 * MONTH]))
    front.sub(1).send(9, pid, page(800))
    front.go(15)
    assert ("b", "http://site.example/800.html") in front.log


def test_large_sets_are_applied_in_their_pieces(make_front: MakeFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """No matter where a read of pieces ends."""
    monkeypatch.setattr(Absorber, "_cut_if_full", lambda self, opened: self._cut(opened, False))
    monkeypatch.setattr(fences, "PIECES_AT_ONCE", 2)
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    front.log.clear()
    for number in (9, 10):
        front.sub(1).send(number, pid, *pages(*range(100 * number, 100 * number + 3)))
    ((rows,),) = front.sub(1).query("SELECT COUNT(*) FROM heldsets")
    assert rows > 6
    front.go(15)
    urls = [f"http://site.example/{100 * number + each}.html" for number in (9, 10) for each in range(3)]
    assert sorted(front.log) == [("b", url) for url in sorted(urls)]


@pytest.mark.parametrize("part", [False, True])
def test_sets_that_nobody_has_taken_for_long_are_asked_for_again(
    make_front: MakeFront, logged: list[dict[str, Any]], part: bool
) -> None:
    """The new home was away for two months; what it has taken before is no matter."""
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    source, dest = front.sub(1), front.sub(2)
    source.send(8, pid, page(800))
    front.go(15)
    assert dest.moving is not None
    wanted = "SELECT wantfullset FROM pstats WHERE pid = ?"
    before = dest.query(wanted, pid)

    def time_passes() -> None:
        source.database.now(
            lambda txn: txn.execute("UPDATE heldsets SET time = time - ? WHERE time < 2000000000", [3 * MONTH])
        )
        source.start()
        front.go(2)

    time_passes()
    front.go(15)
    assert dest.query(wanted, pid) == before
    dest.moving.stop()
    source.send(9, pid, page(801), page(802))
    if part:
        source.send(10, pid, page(803))
        source.database.now(lambda txn: txn.execute("UPDATE heldsets SET whole = 0 WHERE number = 10"))
    front.go(2)
    for _ in range(2):  # the second time nothing is left to be removed
        time_passes()
        ((number, whole, notices),) = source.query("SELECT id, whole, notices FROM heldsets")
        assert number == whole and notices == "[]"
    dest.start()
    front.go(15)
    asked = dest.query(wanted, pid)
    assert asked != before
    told = [event for event in logged if "is incomplete at its former" in str(event.get("log_format"))]
    assert len(told) == 1
    # It goes along, and what is left of the sets is forgotten.
    front.order(pid, 1)
    front.go_until(MoveState.DONE, 2)
    front.go(15)
    assert source.query(wanted, pid) == asked and source.query("SELECT COUNT(*) FROM heldsets") == [(0,)]
    assert len([event for event in logged if "is incomplete at its former" in str(event.get("log_format"))]) == 1


def test_sets_are_held_for_two_months(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    source, dest = front.sub(1), front.sub(2)
    assert dest.moving is not None
    dest.moving.stop()
    source.send(9, pid, page(800), answered=True)

    def is_held_after(days: float) -> bool:
        time = int(source.world.engine.now() - days * 86400)
        source.database.now(lambda txn: txn.execute("UPDATE heldsets SET time = ?", [time]))
        source.start()
        front.go(1)
        return source.query("SELECT notices FROM heldsets") != [("[]",)]

    assert is_held_after(59.9) and not is_held_after(60.1)


# The former home is restored from a backup before its sets were taken.


def lose(front: Front, backup: Any, noticed: bool) -> None:
    """
    :param noticed: a UNS knows of more sets than the database; else only the fences tell.
    """
    source = front.sub(1)
    restore(source, backup)
    if noticed:
        source.uns.close()
        source.database.now(lambda txn: txn.execute("DELETE FROM setspos WHERE uns = 'other'"))
        store = source.world.engine.store
        before = source.query("SELECT value FROM meta WHERE name = 'epoch'")[0][0]
        result_of(store.want_full_sets("cache-crash"))  # as lcc.roles.qm.maintenance.repair does
        result_of(store.begin_epoch(before, "another", 0))


def hold_late(front: Front, pid: int) -> None:
    """A set that nobody takes any more."""
    source = front.sub(1)
    source.send(9, pid, page(800), answered=True)
    assert source.query("SELECT 1 FROM heldsets WHERE pid = ? AND number = 9", pid)


def is_asked(sub: Sub, pid: int) -> bool:
    return sub.query(WANTED, pid) == [("cache-crash",)]


@pytest.mark.parametrize("noticed", [True, False])
def test_a_backup_of_before_the_move(make_front: MakeFront, noticed: bool) -> None:
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(1).database.now(dumped)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    # Sets of before have the numbers that the next ones would have.
    front.sub(1).send(8, pid, page(700))
    front.go(15)
    assert not is_asked(front.sub(2), pid)
    hold_late(front, pid)
    lose(front, backup, noticed)
    front.go(15)
    assert is_asked(front.sub(2), pid)
    assert front.place_of(pid) == 2 and not front.sub(1).query("SELECT 1 FROM pidb WHERE pid = ?", pid)


def test_a_backup_of_after_the_move(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front)
    front.go(15)
    backup = front.sub(1).database.now(dumped)
    hold_late(front, pid)
    lose(front, backup, noticed=True)
    front.go(15)
    assert is_asked(front.sub(2), pid)
    # Once: not after each start.
    front.sub(2).database.now(lambda txn: txn.execute("UPDATE pstats SET wantfullset = ''"))
    front.sub(1).start()
    front.sub(2).start()
    front.go(15)
    assert not is_asked(front.sub(2), pid)


def test_a_backup_of_before_sets_were_taken(make_front: MakeFront) -> None:
    """What is lost gets a number of a set that was taken."""
    front = make_front()
    pid = move_published(front)
    front.go(15)
    backup = front.sub(1).database.now(dumped)
    for number in (9, 10, 11):
        front.sub(1).send(number, pid, page(800 + number))
    front.go(15)
    assert not is_asked(front.sub(2), pid)
    lose(front, backup, noticed=True)
    front.go(15)
    assert is_asked(front.sub(2), pid)


def test_the_same_backup_twice(make_front: MakeFront) -> None:
    """And both times only the fences tell: the second loss has not the number of the first one."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(1).database.now(dumped)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    for _ in range(3):
        hold_late(front, pid)
        lose(front, backup, noticed=False)
        front.go(15)
        assert is_asked(front.sub(2), pid)
        front.sub(2).database.now(lambda txn: txn.execute("UPDATE pstats SET wantfullset = ''"))


def forget_noted(front: Front) -> None:
    """As if an earlier version had made the database."""
    front.sub(1).database.now(lambda txn: txn.execute("DELETE FROM meta WHERE name = 'held_epoch'"))


def test_an_upgrade_loses_nothing(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front)
    front.go(15)
    forget_noted(front)
    front.sub(1).start()
    front.go(15)
    assert not is_asked(front.sub(2), pid)


def test_a_backup_of_before_the_upgrade(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front)
    front.go(15)
    forget_noted(front)
    backup = front.sub(1).database.now(dumped)
    front.sub(1).start()
    hold_late(front, pid)
    lose(front, backup, noticed=True)
    front.go(15)
    assert is_asked(front.sub(2), pid)


def test_a_provider_that_has_gone_on_is_asked_where_it_is(make_front: MakeFront) -> None:
    front = make_front(subs=3)
    pid = move_published(front)
    backup = front.sub(1).database.now(dumped)
    front.order(pid, 3)
    front.go_until(MoveState.DONE, 2)
    hold_late(front, pid)
    lose(front, backup, noticed=True)
    front.go(30)
    assert is_asked(front.sub(3), pid)


def test_who_left_long_ago_is_not_asked(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front)
    front.go(15)
    sql = "UPDATE flips SET time = time - ?"
    front.sub(1).database.now(lambda txn: txn.execute(sql, [obeying.HELD_SECONDS + 100]))
    lose(front, front.sub(1).database.now(dumped), noticed=True)
    front.go(15)
    assert not is_asked(front.sub(2), pid)


def test_a_freeze_that_is_given_up_asks_where_it_stays(make_front: MakeFront) -> None:
    """Its sets were held while it stood still, and the backup is of before."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(1).database.now(dumped)
    front.order(pid, 2)
    front.holding.add("b")
    front.go_until(MoveState.FREEZING)
    hold_late(front, pid)
    lose(front, backup, noticed=False)
    front.go(mover.FREEZE_SECONDS + 5)
    assert is_asked(front.sub(1), pid)
    front.holding.clear()
    front.go_until(MoveState.DONE)


# Old ones are given up in pages.


def test_old_sets_are_given_up_page_by_page(make_front: MakeFront) -> None:
    """Whoever reads between two pages is not given a part of a set."""
    front = make_front()
    pid = move_published(front)
    source = front.sub(1)
    assert front.sub(2).moving is not None
    front.sub(2).moving.stop()
    for number in range(9, 14):
        source.send(number, pid, *pages(800, 801, 802), answered=True)
    source.database.now(lambda txn: txn.execute("UPDATE heldsets SET time = 1000"))
    source.send(14, pid, page(900), answered=True)
    ((rows,),) = source.query("SELECT COUNT(*) FROM heldsets")
    assert rows == 6
    seen = []
    store: Any = source.world.engine.store
    provider = pid
    while provider is not None:
        provider, _ = result_of(store.move_step(5000, give_up_old_held, 2000, provider, 2))
        _, held = source.database.now(held_pieces, pid)
        assert [piece.lost for piece in held] == [True, False]
        ((now,),) = source.query("SELECT COUNT(*) FROM heldsets")
        seen.append(rows - now)
        rows = now
    assert seen == [0, 2, 2, 0] and rows == 2
    headers = [json.loads(text) for (text,) in source.query("SELECT header FROM heldsets ORDER BY whole")]
    assert ["lost" in each for each in headers] == [True, False]


@pytest.mark.parametrize("named", [True, False])
def test_a_set_that_a_spool_of_the_former_home_loses_is_asked_for_by_the_new_one(
    make_front: MakeFront, named: bool, logged_errors: LoggedErrors
) -> None:
    """Nobody would: the former home does not speak with the provider any longer (seed 1042789m)."""
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    source, dest = front.sub(1), front.sub(2)
    front.go(5)
    assert dest.query(WANTED, pid) == [("",)]
    source.uns.say(Damage(pid if named else 0, 70))
    front.go(15)
    assert dest.query(WANTED, pid) == [("cache-crash",)]
    assert not source.query("SELECT 1 FROM pstats WHERE pid = ? AND wantfullset <> ''", pid)
    assert logged_errors.flush("has lost an accepted set")


def test_what_a_restored_spool_of_the_former_home_has_lost_is_asked_for_by_the_new_one(
    make_front: MakeFront, logged_errors: LoggedErrors
) -> None:
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    source, dest = front.sub(1), front.sub(2)
    other = source.world.provider("http://other.example/")
    front.go(5)
    assert dest.query(WANTED, pid) == [("",)]
    source.uns.close()
    FakeUns(source.world, "uns1", acked=1, numbers_upto=2)
    front.go(15)
    assert dest.query(WANTED, pid) == source.query(WANTED, other) == [("cache-crash",)]
    assert logged_errors.flush("would reuse set numbers")


def test_whoever_comes_back_while_all_are_asked_is_asked(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    source = front.sub(1)
    store: Any = source.world.engine.store
    write = store._write
    columns = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")

    def come_back(txn: Txn) -> None:
        txn.upsert("pidb", columns, [(pid, "x", "", "", 0, 0, 0, 0)], ("pid",))
        txn.execute("UPDATE fenced SET state = 'open' WHERE pid = ?", [pid])

    def write_and_come_back(*args: Any) -> Any:
        written = write(*args)
        source.database.now(come_back)
        return written

    monkeypatch.setattr(store, "_write", write_and_come_back)
    result_of(store.lose_sets(int(NOW)))
    monkeypatch.undo()
    front.go(2)
    assert source.query(WANTED, pid) == [("cache-crash",)]


def test_all_are_asked_page_by_page(make_front: MakeFront) -> None:
    front = make_front()
    pid = move_published(front, MoveState.DONE)
    source, dest = front.sub(1), front.sub(2)
    others = [source.world.provider(f"http://other{number}.example/") for number in range(4)]
    store: Any = source.world.engine.store
    pages_seen, after = [], 0
    while after is not None:
        after, _ = result_of(store.move_step(int(NOW), lose_sets, 0, after, 2))
        pages_seen.append(after)
    assert pages_seen == [others[0], others[2], None]
    front.go(15)
    assert [source.query(WANTED, each) for each in others] == [[("cache-crash",)]] * 4
    assert dest.query(WANTED, pid) == [("cache-crash",)]


def test_a_set_that_is_lost_while_its_provider_stands_still_is_asked_for_if_it_stays(
    make_front: MakeFront, logged_errors: LoggedErrors
) -> None:
    front = make_front()
    pid = move_published(front, MoveState.FREEZING)
    source, dest = front.sub(1), front.sub(2)
    assert dest.moving is not None
    dest.moving.stop()
    while source.query("SELECT state FROM fenced WHERE pid = ?", pid) != [("frozen",)]:
        front.go(0.1)
    source.uns.say(Damage(pid, 70))
    front.go(0.1)
    assert source.query(WANTED, pid) == [("",)]
    front.database.now(moves.cancel_move, pid, "no", NOW)
    dest.start()
    front.go(15)
    assert source.query(WANTED, pid) == [("cache-crash",)]
    assert logged_errors.flush("has lost an accepted set")
