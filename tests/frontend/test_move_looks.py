"""Single looks of queue managers at moves: when the next one is due, and what they refuse and note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent

from lcc.model.frontend.moves import Fence, Move, MoveState
from lcc.model.frontend.places import SubLcc
from lcc.model.frontend.traces import FencedAt
from lcc.roles.qm.moves import copying, mover, obeying, verifying
from lcc.storage.database.transactions import Txn
from lcc.storage.fe import moves
from lcc.storage.providers.providers import order_removal
from lcc.storage.queue.moves.departing import departing_counts
from lcc.storage.queue.moves.fences import Known
from lcc.storage.queue.moves.following import Position
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, file_of, publish, restore
from tests.support.databases import dumped, result_of
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import page, pages

COUNT = 24


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    made = Front(tmp_path)
    yield made
    made.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the source of the moves has looked at its fences, and the destination at its moves."""
    counts: Counter[str] = Counter()
    obey, carry_out = obeying.Obeying.look, mover.Mover.look

    async def obeys(self: obeying.Obeying, subid: int) -> bool:
        counts["source"] += subid == 1
        return await obey(self, subid)

    async def carries_out(self: mover.Mover, me: SubLcc, sublccs: Mapping[int, SubLcc]) -> bool:
        counts["destination"] += me.subid == 2
        return await carry_out(self, me, sublccs)

    monkeypatch.setattr(obeying.Obeying, "look", obeys)
    monkeypatch.setattr(mover.Mover, "look", carries_out)
    return counts


def test_a_provider_that_stands_still_is_looked_at_more_often(front: Front, looks: Counter[str]) -> None:
    source = front.sub(1)
    pid = source.world.provider()
    front.holding.add("a")
    source.send(1, pid, *pages(1))
    front.go(1)
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    looks.clear()
    front.go(4)
    assert front.move().state is MoveState.FREEZING, "a fetch has not ended"
    assert looks["source"] > 10 and looks["destination"] > 10
    front.holding.clear()
    front.go_until(MoveState.DONE)
    looks.clear()
    front.go(4)
    assert 0 < looks["source"] <= 5 and 0 < looks["destination"] <= 5, "nothing is to be done"


def test_a_move_that_only_follows_is_looked_at_once_a_second(
    front: Front, monkeypatch: pytest.MonkeyPatch, looks: Counter[str]
) -> None:
    """But soon once its carrier is another one, because somebody has removed the first."""
    monkeypatch.setattr(mover, "FEW_FILES", -1)  # it is not frozen
    front.order(publish(front), 2)
    front.go_until(MoveState.COPYING)
    front.go(2)
    looks.clear()
    front.go(4)
    assert 3 <= looks["destination"] <= 5
    former = front.move().number("carrier")
    assert former == 101, "of the range of the destination"
    front.sub(2).database.now(order_removal, former)
    for _ in range(50):
        front.go(0.1)
        if front.move().number("carrier") != former:
            break
    looks.clear()
    front.go(0.4)
    assert looks["destination"] >= 1


def test_content_is_copied_again_by_another_carrier(
    front: Front, monkeypatch: pytest.MonkeyPatch, logged: list[LogEvent]
) -> None:
    """Somebody has removed the first.  That is said once, not until it is carried out; no page is fetched again."""
    monkeypatch.setattr(mover, "FEW_FILES", -1)  # it is not frozen
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(2)
    front.log.clear()
    front.sub(2).database.now(order_removal, front.move().number("carrier"))
    front.go(5)
    assert len([event for event in logged if "Copying provider" in formatEvent(event)]) == 1
    monkeypatch.undo()
    front.go_until(MoveState.DONE)
    front.go(2)
    assert front.rows(2, pid) == before and front.log == []
    assert not [event for event in logged if "missing or damaged" in formatEvent(event)]


def test_that_a_move_is_postponed_is_said_once(front: Front, logged: list[LogEvent]) -> None:
    """Though the front end's database is full, so that it is tried with each look."""
    pid = publish(front)
    front.go(1)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.database.full = True
    front.go(30)
    front.database.full = False
    front.go(2)
    assert len([event for event in logged if "postponed" in formatEvent(event)]) == 1


def test_rows_are_counted_before_a_provider_is_frozen(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if there are none: who stands still is not counted again."""
    counts: list[MoveState] = []

    def count(txn: Txn, pid: int) -> tuple[Position, dict[str, int]]:
        counts.append(front.move().state)
        return departing_counts(txn, pid)

    monkeypatch.setattr(copying, "departing_counts", count)
    front.order(front.sub(1).world.provider(), 2)
    seen = set()
    front.go(10, lambda: seen.add((front.move().state, front.move().number("counted"))))
    assert [counted for state, counted in seen if state is MoveState.FREEZING] == [1]
    assert counts == [MoveState.COPYING]


def test_rows_that_change_while_they_are_counted_are_not_missing(
    front: Front, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    """They are copied, and counted, with the next look; all others are not compared again."""
    pid = publish(front)
    front.go(1)
    follow = copying.Copying.follow
    followed: list[int | None] = []

    async def follows(self: copying.Copying, pause: bool) -> int | None:
        followed.append(await follow(self, pause))
        if len(followed) == 1:
            front.sub(1).send(9, pid, page(600))
        return followed[-1]

    monkeypatch.setattr(copying.Copying, "follow", follows)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    assert logged_errors.flush() == [] and None not in followed
    front.go(2)
    assert any("/600.html" in str(row) for row in front.rows(2, pid))


def test_errors_that_were_seen_while_they_were_copied_do_not_arrive(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source has forgotten them; and there are no new ones."""
    monkeypatch.setattr(mover, "FEW_FILES", -1)  # it is not frozen
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(2)
    source, dest = front.subs
    assert dest.query("SELECT 1 FROM staged WHERE kind = 'urlerrs'")
    source.send(9, pid, errors_upto=1000)
    front.go(2)
    assert not source.query("SELECT 1 FROM urlerrs WHERE pid = ?", pid)
    before = front.rows(1, pid)
    monkeypatch.undo()
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid) == before and not dest.query("SELECT 1 FROM urlerrs WHERE pid = ?", pid)


def test_nothing_is_noted_of_a_move_that_has_flipped(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though content has come since it was noted how much was left: the provider stands still, for no longer than it
    must."""
    noted: list[MoveState] = []
    note = moves.note_progress

    def notes(txn: Txn, move: Move, *more: Any) -> Move:
        noted.append(move.state)
        return note(txn, move, *more)

    monkeypatch.setattr(moves, "note_progress", notes)
    front.holding.add("b")
    front.order(publish(front), 2)
    assert front.go_until(MoveState.FREEZING).number("content_left") > 0
    front.holding.clear()
    front.go_until(MoveState.DONE)
    assert set(noted) == {MoveState.PLANNED, MoveState.COPYING}


@pytest.fixture
def just_frozen(front: Front, monkeypatch: pytest.MonkeyPatch) -> int:
    """A provider that is to stand still; its source does not look."""
    with monkeypatch.context() as patched:
        patched.setattr(mover, "FEW_FILES", -1)
        pid = publish(front)
        front.order(pid, 2)
        front.go_until(MoveState.COPYING)
        front.go(2)
    source: Any = front.sub(1).moving
    source.stop()
    while front.move().state is not MoveState.FREEZING:
        front.go(0.1)
    return pid


def test_a_provider_that_is_removed_before_it_stands_still_is_not_moved(front: Front, just_frozen: int) -> None:
    source: Any = front.sub(1)
    source.database.now(order_removal, just_frozen)
    source.moving.start()
    seen: set[MoveState] = set()
    front.go(5, lambda: seen.add(front.move().state))
    assert seen == {MoveState.FREEZING, MoveState.CANCELLED}
    assert not front.sub(2).query("SELECT pid FROM pidb")


def test_a_freeze_is_ended_by_the_source_when_its_time_is_over(
    front: Front, monkeypatch: pytest.MonkeyPatch, just_frozen: int
) -> None:
    monkeypatch.setattr(obeying, "FROZEN_SECONDS", 4.0)
    source, dest = (cast(Any, sub.moving) for sub in front.subs)
    dest.stop()
    front.clock.advance(1 - front.clock.seconds() % 1)  # so that times are whole seconds
    states = []
    for seconds in (3, 1, 0):
        result_of(Deferred.fromCoroutine(source._obeying.look(1)))
        states.append(front.move().state)
        front.clock.advance(seconds)
    assert states == [MoveState.FREEZING, MoveState.FREEZING, MoveState.COPYING]


@pytest.fixture
def slices(front: Front, monkeypatch: pytest.MonkeyPatch) -> Front:
    """It reads few rows ahead of their content."""
    monkeypatch.setattr(copying, "PAGE_ROWS", 8)
    monkeypatch.setattr(copying, "FILES_AHEAD", 2)
    return front


def test_what_is_not_read_again_yet_is_not_counted(slices: Front) -> None:
    front = slices
    pid = publish(front, COUNT)
    front.holding.add("b")
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(2)
    front.database.now(moves.note_progress, front.move(), {"counted": 1}, "", NOW)  # of before
    front.go(2)
    assert front.move().number("counted") == 0 and 0 < front.move().number("rows") < COUNT


def test_content_that_cannot_be_copied_ends_a_move_before_all_rows_are_read(slices: Front) -> None:
    front = slices
    pid = publish(front, COUNT)
    front.content_code = 403
    front.damaged.update(file_of(front, f"/{number}.html") for number in range(2, COUNT))
    front.order(pid, 2)
    assert "cannot be copied" in front.go_until(MoveState.CANCELLED).why
    assert 0 < front.move().number("rows") < COUNT


def test_a_few_files_that_are_lost_end_no_move(slices: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """In proportion to the rows that were read."""
    monkeypatch.setattr(verifying, "DAMAGED_MAX", 0)
    monkeypatch.setattr(verifying, "DAMAGED_SHARE", 0.1)
    monkeypatch.setattr(mover, "SLICE_SECONDS", 0.01)  # a page in each look
    front = slices
    pid = publish(front, COUNT)
    first = "SELECT curl FROM lccurl WHERE pid = ? AND state = 1 ORDER BY urlkey LIMIT 1"
    front.damaged.add(file_of(front, front.sub(1).query(first, pid)[0][0]))
    front.order(pid, 2)
    assert front.go_until(MoveState.DONE).why == ""


def test_all_rows_that_have_changed_are_verified_in_one_look(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    few = mover.FEW_FILES
    monkeypatch.setattr(mover, "FEW_FILES", -1)  # it is not frozen
    monkeypatch.setattr(verifying, "PAGE_ROWS", 2)
    pid = publish(front, COUNT)
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(3)
    moving = front.sub(2).moving
    assert moving is not None
    moving.stop()
    front.site.update({f"http://site.example/{number}.html": "new" for number in range(COUNT)})
    front.sub(1).send(9, pid, *[page(number, md5="9" * 32) for number in range(COUNT)])
    front.go(3)
    assert len(front.sub(1).query("SELECT 1 FROM touched")) >= COUNT
    monkeypatch.setattr(mover, "FEW_FILES", few)
    moving.start()
    front.go(5)
    assert front.move().state is not MoveState.COPYING


def test_who_is_not_verified_yet_is_not_frozen(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "PAGE_ROWS", 2)
    monkeypatch.setattr(mover, "SLICE_SECONDS", 0.01)  # a page in each look
    front.order(publish(front, COUNT), 2)
    front.go_until(MoveState.COPYING)
    front.go(4)
    assert front.move().state is MoveState.COPYING
    front.go_until(MoveState.DONE)


def test_a_provider_whose_number_is_taken_at_its_destination_stays(front: Front) -> None:
    """Such as: the ranges of two sub-LCCs were the same once."""
    pid, taken = (front.sub(number).world.provider() for number in (1, 2))
    front.sub(2).database.now(lambda txn: txn.execute("UPDATE pidb SET pid = ? WHERE pid = ?", [pid, taken]))
    front.order(pid, 2)
    assert front.go_until(MoveState.CANCELLED).why == f"there is a provider {pid} at its destination"
    assert front.place_of(pid) == 1
    assert front.sub(2).query("SELECT pid FROM pidb") == [(pid,)]


def test_a_move_that_has_waited_for_a_repair_waits_no_longer(
    front: Front, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    """Its source knows a later flip than the front end's database, until that is repaired."""
    monkeypatch.setattr(mover, "FEW_FILES", -1)  # it is not frozen
    pid = publish(front)
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    row = "INSERT INTO flips (flip, pid, subid, arrived, epoch, time) VALUES (9, 3, 2, 0, 5, 7)"
    front.sub(1).database.now(lambda txn: txn.execute(row))
    front.go(2)
    assert (front.move().why, front.move().number("behind")) == (mover.BEHIND, 1)
    assert len(logged_errors.flush("Run lcc-admin fe repair")) == 1
    front.database.now(lambda txn: txn.upsert("meta", ["name", "value"], [("flip", "9")], ["name"]))
    front.go(2)
    assert (front.move().state, front.move().why, front.move().number("behind")) == (MoveState.COPYING, "", 0)
    monkeypatch.undo()
    front.go_until(MoveState.DONE)


def test_a_backup_of_a_move_that_was_cancelled_leaves_nothing(front: Front) -> None:
    """The destination is restored to when it copied: that is cleaned up once more."""
    dest = front.sub(2)
    front.holding.add("b")
    pid = publish(front)
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(2)
    backup = dest.database.now(dumped)
    front.database.now(moves.cancel_move, pid, "no", NOW)
    while not front.move().progress.get("cleaned"):
        front.go(0.1)
    restore(dest, backup, lambda: dest.query("SELECT 1 FROM stagedcache") or pytest.fail("nothing was copied"))
    front.go(3)
    assert not dest.query("SELECT 1 FROM stagedcache") and not dest.query("SELECT 1 FROM pidb")


def test_a_sub_lcc_that_was_removed_is_not_asked(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its database may be gone."""
    asked: list[int] = []
    of = front.of
    monkeypatch.setattr(front, "of", lambda sub: asked.append(sub.subid) or of(sub))
    front.sub(2).start()
    front.go(mover.LATE_LOOK_SECONDS + 2)
    assert asked and set(asked) == {1}
    front.database.now(lambda txn: txn.execute("UPDATE fedb SET state = 'removed' WHERE subid = 1"))
    asked.clear()
    front.go(mover.LATE_LOOK_SECONDS + 2)
    assert asked == []


@pytest.mark.parametrize(
    ("freezes", "seconds"), [(1, 30), (2, 60), (3, 120), (5, 480), (6, 600), (7, 600), (2000, 600)]
)
def test_each_freeze_comes_later_than_the_one_before(front: Front, freezes: int, seconds: int) -> None:
    front.order(front.sub(1).world.provider(), 2)
    now = front.sub(2).world.engine.now()

    def may_freeze(waited: int) -> bool:
        progress = {"freezes": freezes, "frozen_time": now - waited}
        moving: Any = front.sub(2).moving
        return bool(moving._mover._may_freeze(attrs.evolve(front.move(), progress=progress)))

    assert not may_freeze(0) and not may_freeze(seconds - 1) and may_freeze(seconds)
    assert may_freeze(-1), "the clock was set back"


def test_whoever_knows_more_of_a_move_than_the_front_end_has_it_wait(front: Front) -> None:
    front.order(front.sub(1).world.provider(), 2)
    planned = attrs.evolve(front.move(), epoch=5)
    flipped = attrs.evolve(planned, state=MoveState.FLIPPED)

    def is_behind(move: Move, here: Known, there: Known) -> bool:
        return mover._is_behind(move, 3, here, there)

    nothing = Known(None, 3)
    for move in (planned, flipped):
        assert not is_behind(move, nothing, nothing)
        for state in Fence:
            later = Known(FencedAt(6, state), 3)
            assert is_behind(move, nothing, later) and is_behind(move, later, nothing)
        for state in Fence:
            now = Known(FencedAt(5, state), 3)
            assert not is_behind(move, nothing, now)
            # Where it is planned to go it is already, or was on its way to leave.
            assert is_behind(move, now, nothing) == (move is planned and state is not Fence.LEFT)
        # A flip that the front end has not given out.
        assert (
            is_behind(move, Known(None, 4), nothing) == is_behind(move, nothing, Known(None, 4)) == (move is planned)
        )


def test_a_position_within_a_change_is_before_its_end() -> None:
    """The key of the last row of a change that was read; empty: all of them were."""
    behind = [Position("t", 1, number, key) for number in (4, 5) for key in (b"a", b"b", b"")]
    assert sorted(behind, key=verifying._order) == behind
