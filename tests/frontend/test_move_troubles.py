"""Moves whose source or destination is put back from a backup, does not go on, or cannot be reached."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent

from lcc.model.frontend.moves import Move, MoveState
from lcc.model.frontend.places import AtHome
from lcc.roles.qm.moves import copying, mover, obeying
from lcc.storage.fe import moves
from lcc.storage.queue.moves.leaving import leave_page
from lcc.storage.queue.moves.paged import Place
from lcc.storage.queue.write_transaction import WriteTransaction
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, MakeFront, publish, restore
from tests.support.databases import Tables, dumped
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import page, pages


@pytest.mark.parametrize("when", ["copied", "left"])
def test_a_source_that_is_put_back_obeys_again(make_front: MakeFront, when: str) -> None:
    """It was backed up before the move, and has forgotten it; nothing comes back, nothing is fetched by two."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    backup = front.sub(1).database.now(dumped)
    front.order(pid, 2)
    front.log.clear()
    front.go_until(MoveState.COPYING if when == "copied" else MoveState.DONE)
    restore(front.sub(1), backup)
    front.go_until(MoveState.DONE)
    front.go(5)
    assert front.rows(2, pid) == before
    assert not front.rows(1, pid) and front.sub(1).query("SELECT * FROM pidb WHERE pid = ?", pid) == []
    assert front.log == [] and front.place(pid)[:2] == (2, AtHome.HERE)


@pytest.mark.parametrize("when", ["before", "frozen"])
def test_a_destination_that_is_put_back_after_the_flip_copies_again(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its backup is of before the move, or of a freeze that was given up: the source still has all rows."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(2).database.now(dumped)
    front.order(pid, 2)
    if when == "frozen":
        front.holding.add("b")
        front.go_until(MoveState.FREEZING)
        while not front.sub(2).query("SELECT 1 FROM staged WHERE kind = 'pidb'"):
            front.go(0.1)
        assert front.move().state is MoveState.FREEZING
        backup = front.sub(2).database.now(dumped)
        front.holding.clear()
        front.database.now(moves.thaw, front.move(), "", NOW)
        front.go(1)
        front.sub(1).send(8, pid, *pages(800, 801, 802))
        front.site["http://site.example/800.html"] = "published"
        front.go(2)
    front.holding.add("a")
    front.log.clear()
    with monkeypatch.context() as patched:
        patched.setattr(mover, "is_whole", lambda txn, move: False)
        patched.setattr(mover.Mover, "_copy_again", _nothing)  # it has flipped, and does not go on
        front.go_until(MoveState.FLIPPED)
        restore(front.sub(2), backup)
    before = front.rows(1, pid)
    front.holding.clear()
    front.go_until(MoveState.ACTIVE)
    assert front.rows(2, pid) == before
    front.go_until(MoveState.DONE)
    assert not front.sub(2).query("SELECT 1 FROM staged")
    front.go(5)
    assert front.sub(2).query("SELECT pid FROM pidb") == [(pid,)]
    assert not [url for sub, url in front.log if sub == "a"]


async def _nothing(*_: Any) -> bool:
    return False


def test_a_source_that_is_put_back_after_the_flip_is_not_copied_again(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was copied; what it has now is older."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(1).database.now(dumped)
    front.sub(1).send(9, pid, page(3, delete=True))
    front.go(2)
    before = front.rows(1, pid)
    front.order(pid, 2)
    with monkeypatch.context() as patched:
        patched.setattr(mover.Mover, "_arrive", _nothing)
        front.go_until(MoveState.FLIPPED)
        restore(front.sub(1), backup)
    assert front.rows(1, pid) != before
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid) == before


def test_a_source_that_is_put_back_leaves_although_it_is_not_still_at_once(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the fence before it has removed what it has again, and may be killed in between."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(1).database.now(dumped)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    with monkeypatch.context() as patched:
        patched.setattr(obeying.Obeying, "_is_still", lambda self, pid: False)
        restore(front.sub(1), backup)
        front.go(2)
        assert front.sub(1).query("SELECT state FROM fenced WHERE pid = ?", pid) == [("left",)]
        assert front.sub(1).query("SELECT pid FROM pidb WHERE pid = ?", pid) == [(pid,)]
    front.sub(1).start()
    front.go(3)
    assert front.sub(1).query("SELECT pid FROM pidb WHERE pid = ?", pid) == [] and not front.rows(1, pid)


def test_a_source_that_is_put_back_to_a_freeze_that_was_cancelled_goes_on(make_front: MakeFront) -> None:
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(1)
    backup = front.sub(1).database.now(dumped)
    assert front.sub(1).query("SELECT state FROM fenced") == [("frozen",)]
    front.holding.clear()
    front.database.now(moves.cancel_move, pid, "no", NOW)
    front.go(3)
    restore(front.sub(1), backup)
    front.go(3)
    assert front.sub(1).query("SELECT state FROM fenced") == [("open",)]
    front.site["http://site.example/801.html"] = "published"
    front.sub(1).send(8, pid, page(801))
    front.go(1)
    assert front.log[-1] == ("a", "http://site.example/801.html")


def test_a_source_that_was_put_back_and_has_not_frozen_again_is_not_left(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has obeyed the freeze, says the front end's database; but it does not stand still."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    source = front.sub(1)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(1)
    fence = front.database.now(moves.get_fence, pid, 1)
    assert fence.obeyed_epoch == fence.epoch
    assert source.moving is not None
    source.moving.stop()
    source.database.now(lambda txn: txn.execute("UPDATE fenced SET state = 'followed', epoch = epoch - 1"))
    front.holding.clear()
    front.go(5)
    assert front.move().flip == 0 and front.move().why == "its source was restored from a backup"
    front.sub(1).start()
    front.go_until(MoveState.DONE)


def test_a_source_that_is_put_back_while_it_stands_still_is_copied_again(make_front: MakeFront) -> None:
    """It obeys the freeze again; but some of what was copied it never had (world 13063m)."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    source = front.sub(1)
    backup, before = source.database.now(dumped), front.rows(1, pid)
    source.send(9, pid, page(3, delete=True))
    front.go(2)
    assert front.rows(1, pid) != before
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(1)
    restore(source, backup)
    front.go(2)
    assert source.query("SELECT state FROM fenced WHERE pid = ?", pid) == [("frozen",)], "it obeys again"
    front.holding.clear()
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid) == before


@pytest.mark.parametrize(
    ("state", "returns"), [(MoveState.ACTIVE, False), (MoveState.DONE, False), (MoveState.DONE, True)]
)
def test_a_destination_that_is_put_back_among_its_arriving_rows_goes_on(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, state: MoveState, returns: bool
) -> None:
    """The backup is of when the provider was admitted; meanwhile all has arrived, and another move was cancelled
    (860209m)."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.log.clear()
    with monkeypatch.context() as patched:
        patched.setattr(mover.Mover, "_arrive_rows", _never)
        front.go_until(MoveState.FLIPPED)
        front.go(2)
        backup = front.sub(2).database.now(dumped)
    assert front.sub(2).query("SELECT state FROM fenced") == [("arriving",)]
    front.sub(2).start()
    if state is MoveState.ACTIVE:
        monkeypatch.setattr(obeying.Obeying, "_is_still", lambda self, pid: False)
    front.go_until(state)
    assert front.move().state is state
    if returns:
        front.order(pid, 1)
        front.database.now(moves.cancel_move, pid, "no", NOW)
        front.go(1)
    restore(front.sub(2), backup)
    monkeypatch.undo()
    front.go_until(MoveState.DONE)
    front.go(3)
    assert front.rows(2, pid) == before and not front.rows(1, pid)
    assert front.sub(2).query("SELECT pid FROM pidb") == [(pid,)]
    assert front.sub(2).query("SELECT state FROM fenced") == [("open",)]
    assert not front.sub(2).query("SELECT 1 FROM staged")


async def _never(*_: Any) -> None:
    await Deferred()


@pytest.mark.parametrize("has_another", [False, True])
@pytest.mark.long("mariadb")
def test_a_destination_that_is_put_back_while_it_copies_copies_content_again(
    make_front: MakeFront, has_another: bool
) -> None:
    """It has no carrier any longer; another provider may have got its number.  No page is fetched again."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    backup = front.sub(2).database.now(dumped)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(2)
    former, others = front.move().number("carrier"), list[int]()
    restore(front.sub(2), backup, lambda: has_another and others.append(front.sub(2).world.provider()))
    assert others == ([former] if has_another else [])
    front.holding.clear()
    front.log.clear()
    front.go_until(MoveState.DONE)
    front.go(3)
    assert front.rows(2, pid) == before and front.log == []
    assert sorted(front.sub(2).query("SELECT pid FROM pidb")) == sorted([(pid,), *[(other,) for other in others]])
    assert not front.rows(2, former)


@pytest.mark.parametrize("when", ["before the move", "staged", "killed"])
def test_a_destination_that_is_put_back_to_before_it_admitted_a_provider_asks_for_all(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Sets that came since are lost.  Until the provider is there again, it is told to try again later."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(2).database.now(dumped)
    front.order(pid, 2)
    if when == "staged":
        with monkeypatch.context() as patched:
            patched.setattr(mover.Mover, "_arrive", _nothing)
            front.go_until(MoveState.FLIPPED)
            backup = front.sub(2).database.now(dumped)
    with monkeypatch.context() as patched:
        patched.setattr(mover.Mover, "_arrive_rows", _never)
        front.go_until(MoveState.FLIPPED)
        front.go(2)
    assert front.place(pid)[:2] == (2, AtHome.HERE)
    front.holding.add("b")
    with monkeypatch.context() as patched:
        if when == "killed":  # as soon as it is held again
            patched.setattr(mover.Mover, "_note", _never)
        restore(front.sub(2), backup)
        front.go(2)
    if when == "killed":
        front.sub(2).start()
    if when != "staged":
        assert front.place(pid)[:2] == (2, AtHome.FROZEN)
    front.holding.clear()
    front.go_until(MoveState.DONE)
    assert front.place(pid)[:2] == (2, AtHome.HERE)
    assert front.sub(2).query("SELECT wantfullset FROM pstats WHERE pid = ?", pid) == [("cache-crash",)]


def test_a_destination_with_former_rows_of_the_provider_removes_them_first(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was put back to when the provider was there; that has left since, and comes back just now."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    backup = front.sub(1).database.now(dumped)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    front.sub(2).send(9, pid, page(3, delete=True))
    front.go(2)
    before = front.rows(2, pid)
    front.order(pid, 1)
    with monkeypatch.context() as patched:
        patched.setattr(mover.Mover, "_arrive", _nothing)
        front.go_until(MoveState.FLIPPED, 2)
    with monkeypatch.context() as patched:
        patched.setattr(obeying.Obeying, "look", _nothing)
        restore(front.sub(1), backup)
        front.go(2)
    assert front.place(pid)[:2] == (1, AtHome.FROZEN)
    front.go_until(MoveState.DONE, 2)
    front.go(3)
    assert front.rows(1, pid) == before


def backed_up_while_leaving(front: Front, monkeypatch: pytest.MonkeyPatch, pid: int) -> Tables:
    """A backup of sub-LCC 1 of when the provider has just lost the first rows there; it leaves wholly then."""
    backups: list[Tables] = []

    def page(write: WriteTransaction, move: Move, place: Place) -> Place | None:
        if len(backups) == 1:
            backups.append(dumped(write.txn))
        found = leave_page(write, move, place, 2)
        backups[:] = backups or [{}]
        return found

    with monkeypatch.context() as patched:
        patched.setattr(obeying, "leave_page", page)
        front.order(pid, 2)
        front.go_until(MoveState.DONE)
    assert front.sub(1).query("SELECT * FROM pidb WHERE pid = ?", pid) == []
    return backups[1]


@pytest.mark.parametrize("comes_back, obeys_late", [(False, False), (True, False), (True, True)])
def test_a_source_that_is_put_back_to_when_it_was_just_leaving(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, comes_back: bool, obeys_late: bool
) -> None:
    """What is left of the provider goes, also if it is just about to come back; nothing comes before."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    backup = backed_up_while_leaving(front, monkeypatch, pid)
    if comes_back:
        front.order(pid, 1)
        with monkeypatch.context() as patched:
            patched.setattr(mover.Mover, "_arrive", _nothing)
            front.go_until(MoveState.FLIPPED, 2)
    left: list[object] = []
    with monkeypatch.context() as patched:
        if obeys_late:
            patched.setattr(obeying.Obeying, "look", _nothing)
        restore(front.sub(1), backup, lambda: left.extend(front.rows(1, pid)))
        assert left
        front.go(2)
        assert not obeys_late or front.place(pid)[:2] == (1, AtHome.FROZEN)
    front.go(5)
    home = 2 - comes_back
    assert front.rows(home, pid) == before and not front.rows(3 - home, pid)
    (queued,) = front.sub(home).query("SELECT nurlproc FROM pstats WHERE pid = ?", pid)
    assert queued == front.sub(home).query("SELECT COUNT(*) FROM qdb WHERE pid = ?", pid)[0]
    assert front.place(pid)[:2] == (home, AtHome.HERE)


def test_a_move_that_was_cancelled_while_it_copied_is_ordered_again(make_front: MakeFront) -> None:
    """Its fence has a newer epoch than its place; that does not say that the front end's database is an older one."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.database.now(moves.cancel_move, pid, "no", NOW)
    front.go(3)
    front.holding.clear()
    front.order(pid, 2)
    assert front.go_until(MoveState.DONE, 2).why == ""


def test_a_destination_that_does_not_go_on_ends_no_service(make_front: MakeFront) -> None:
    """Its queue manager is down while the provider stands still: it goes on where it was."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    dest = front.sub(2)
    assert dest.moving is not None
    dest.moving.stop()
    front.go(70)
    assert front.move().state is MoveState.COPYING and front.move().why == "its destination does not go on"
    assert front.place(pid)[:2] == (1, AtHome.HERE)
    front.site["http://site.example/800.html"] = "published"
    front.sub(1).send(8, pid, page(800))
    front.go(1)
    assert front.log[-1] == ("a", "http://site.example/800.html")
    front.holding.clear()
    dest.moving.start()
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid)


def test_a_source_that_is_unreachable_stops_no_other_moves(make_front: MakeFront) -> None:
    """Whatever the moves from there wait for: to be ended, and to be copied."""
    front = make_front(subs=3)
    pid = publish(front)
    front.go(1)
    for _ in range(2):
        front.order(front.sub(3).world.provider(), 2)
    front.order(pid, 2)
    front.go_until(MoveState.ACTIVE)
    front.sub(3).database.unavailable = True
    front.go(40)
    assert front.move(3).state is MoveState.DONE
    assert MoveState.DONE not in (front.move(1).state, front.move(2).state)
    front.sub(3).database.unavailable = False
    front.go_until(MoveState.DONE, 1)
    front.go_until(MoveState.DONE, 2)


def test_a_source_that_is_put_back_from_a_backup_is_read_again(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, logged: list[LogEvent]
) -> None:
    monkeypatch.setattr(mover, "FEW_FILES", -1)  # it is copied, and goes on
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(2)
    told = [formatEvent(event) for event in logged if "was restored" in formatEvent(event)]
    assert told == []
    write = front.sub(1).database.now
    write(lambda txn: txn.execute("UPDATE lccurl SET confirmed_time = 5 WHERE pid = ? AND state = 1", [pid]))
    write(lambda txn: txn.execute("DELETE FROM fenced"))
    write(lambda txn: txn.execute("DELETE FROM touched"))
    write(lambda txn: txn.execute("UPDATE counters SET value = 0 WHERE name IN ('followed', 'touched', 'change')"))
    front.go(2)
    assert front.sub(1).query("SELECT state FROM fenced") == [("followed",)]
    told = [formatEvent(event) for event in logged if "was restored" in formatEvent(event)]
    assert told == [f"The source of provider {pid} was restored from a backup: comparing its rows again"]
    monkeypatch.undo()
    front.go_until(MoveState.DONE)
    after = front.rows(2, pid)
    assert after != before and len(after) == len(before)
    assert front.sub(2).query("SELECT DISTINCT confirmed_time FROM lccurl WHERE pid = ? AND state = 1", pid) == [(5,)]


@pytest.mark.parametrize("state", [MoveState.COPYING, MoveState.FREEZING, MoveState.FLIPPED, MoveState.ACTIVE])
@pytest.mark.parametrize("where", ["source", "destination"])
@pytest.mark.long("mariadb")
def test_a_database_that_is_full(make_front: MakeFront, where: str, state: MoveState) -> None:
    """The move goes on once there is room; nothing is lost, or fetched again."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    number = 1 if where == "source" else 2
    front.log.clear()
    front.order(pid, 2)
    if state is not MoveState.ACTIVE:
        front.holding.add("b")  # its content is not copied yet
    if state is MoveState.FLIPPED:
        front.go_until(MoveState.COPYING)
        front.holding.clear()
    while front.move().state is not state:
        front.go(0.1)
    full = front.sub(number).database
    full.full = True
    places: list[AtHome] = []
    front.go(60, (lambda: places.append(front.place(pid)[1])) if state is MoveState.FREEZING else lambda: None)
    assert not places or AtHome.HERE in places, "it does not stand still for ever"
    full.full = False
    front.holding.clear()
    front.go_until(MoveState.DONE)
    front.go(5)
    assert front.rows(2, pid) == before and not front.rows(1, pid) and front.log == []
    front.site["http://site.example/800.html"] = "published"
    front.sub(2).send(8, pid, page(800))
    front.go(1)
    assert front.log == [("b", "http://site.example/800.html")]


@pytest.mark.long("mariadb")
def test_a_freeze_in_vain_is_tried_again_less_and_less_often(make_front: MakeFront) -> None:
    """The destination has no room for content, for hours."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    places: list[AtHome] = []
    front.go(400, lambda: places.append(front.place(pid)[1]))
    assert 0.1 < places.count(AtHome.FROZEN) / len(places) < 0.3
    front.holding.clear()
    front.go_until(MoveState.DONE, seconds=600)


def test_databases_that_fail_now_and_then(make_front: MakeFront) -> None:
    """Commits that nobody hears of, and databases that are away for a while."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.log.clear()
    databases = [front.sub(1).database, front.sub(2).database, front.database]
    step = 0
    while front.move().state is not MoveState.DONE and step < 1000:
        step += 1
        some = databases[step % 3]
        some.lose_results = step % 2
        databases[(step + 1) % 3].unavailable = step % 5 == 0
        front.go(0.3)
        for database in databases:
            database.unavailable, database.lose_results = False, 0
        front.go(0.2)
    front.go(15)
    assert front.rows(2, pid) == before and front.log == []
    assert front.place(pid)[0] == 2
    assert not front.rows(1, pid)


def test_rows_that_are_missing_are_noticed_and_copied(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    """Whatever the reason: before its provider is frozen, as many rows are here as at the source."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    follow = copying.Copying.follow
    lost: list[bytes] = []

    async def losing(self: copying.Copying, pause: bool) -> int | None:
        found = await follow(self, pause)
        if not lost:
            lost.extend(key for (key,) in front.sub(2).query("SELECT MIN(urlkey) FROM stagedcache"))
            sql = "DELETE FROM stagedcache WHERE urlkey = ?"
            front.sub(2).database.now(lambda txn: txn.execute(sql, lost))
        return found

    monkeypatch.setattr(copying.Copying, "follow", losing)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid) == before
    assert len(logged_errors.flush(f"its source has {{'lccurl': {len(front.site)}")) == 1


def test_no_more_rows_are_read_while_much_content_waits(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAGE_ROWS", 2)
    monkeypatch.setattr(copying, "FILES_AHEAD", 3)
    front = make_front()
    pid = publish(front, 12)
    front.go(1)
    before = front.rows(1, pid)
    front.holding.add("b")  # its robots bring no content
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(10)
    [(rows,)] = front.sub(2).query("SELECT COUNT(*) FROM stagedcache")
    assert 4 <= rows <= 6
    front.holding.clear()
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid) == before
