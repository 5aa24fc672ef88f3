"""A sub-LCC is put back from a backup of when a provider was just arriving there, whatever has become of it since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent

from lcc.errors import CODES
from lcc.model.frontend.moves import Move, MoveState
from lcc.roles.qm.moves import copying, mover
from lcc.storage.database.transactions import Txn
from lcc.storage.fe import moves
from lcc.storage.queue.moves.arrivals import arrive_page
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, MakeFront, publish, restore
from tests.support.databases import Tables, dumped, put_back
from tests.support.roles.qm import FakeBotm

WAITS_FOR_CONTENT = "its destination was restored from a backup: content is copied again"
WAITS_FOR_ROWS = "its destination was restored from a backup: rows are copied again"


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    made = Front(tmp_path)
    yield made
    made.close()


def backed_up_while_arriving(front: Front, pid: int) -> Tables:
    """A backup of sub-LCC 2 of when the provider was just admitted there; then all of it arrives."""
    front.order(pid, 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mover.Mover, "_arrive_rows", _never)
        front.go_until(MoveState.FLIPPED)
        front.go(2)
        backup = front.sub(2).database.now(dumped)
    assert front.sub(2).query("SELECT state FROM fenced") == [("arriving",)]
    front.sub(2).start()
    front.go_until(MoveState.DONE)
    front.go(2)
    return backup


def restored_after_the_flip(front: Front, pid: int, *, rows: bool = True) -> list[str]:
    """The provider moves to sub-LCC 2, which is put back to when content was on its way, and has no robots.

    :param rows: all rows were there.
    :returns: the pages that have content.
    """
    front.order(pid, 2)
    front.holding.add("b")
    if rows:
        front.go_until(MoveState.FREEZING)
        while not front.sub(2).query("SELECT 1 FROM staged WHERE kind = 'pidb'"):
            front.go(0.1)
    else:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(copying, "FILES_AHEAD", 3)
            front.go_until(MoveState.COPYING)
            front.go(3)
    backup = front.sub(2).database.now(dumped)
    front.holding.clear()
    front.log.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mover.Mover, "_arrive", _nothing)
        front.go_until(MoveState.FLIPPED)
        front.holding.add("b")
        restore(front.sub(2), backup)
    found = front.sub(1).query("SELECT curl FROM lccurl WHERE state = 1 AND pid = ? ORDER BY curl", pid)
    return [url for (url,) in found]


def told(logged: list[LogEvent]) -> list[str]:
    """What was said of the move."""
    return [text for event in logged if (text := str(formatEvent(event))).startswith("Move 1 of provider")]


async def _never(*_: Any) -> None:
    await Deferred()


async def _nothing(*_: Any) -> None:
    pass


@pytest.mark.parametrize("state", ["copying", "freezing", "cancelled"])
def test_it_arrives_before_a_later_move_goes_on(front: Front, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """Nothing of a fence is obeyed, or lifted, while rows are staged: they would be forgotten."""
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    backup = backed_up_while_arriving(front, pid)
    front.log.clear()
    front.holding.add("a")  # its robots bring no content
    if state != "freezing":
        monkeypatch.setattr(mover, "FEW_FILES", -1)
    front.order(pid, 1)
    front.go_until(MoveState.FREEZING if state == "freezing" else MoveState.COPYING, 2)
    front.go(2)

    def cancel() -> None:
        if state == "cancelled":
            front.database.now(moves.cancel_move, pid, "no", NOW)

    restore(front.sub(2), backup, cancel)
    front.go(3)
    assert front.rows(2, pid) == before
    monkeypatch.undo()
    front.holding.clear()
    if state != "cancelled":
        front.go_until(MoveState.DONE, 2)
    front.go(3)
    assert front.rows(2 if state == "cancelled" else 1, pid) == before and front.log == []
    assert front.sub(2).query("SELECT state FROM fenced") == [("open" if state == "cancelled" else "left",)]
    assert not front.sub(2).query("SELECT 1 FROM staged")


@pytest.mark.long("mariadb")
def test_it_arrives_although_it_has_left_and_come_back_since(make_front: MakeFront) -> None:
    """Its rows are those that came first, from there, also for whoever reads the caches."""
    front = make_front(subs=3)
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    backup = backed_up_while_arriving(front, pid)
    for number, dest in ((2, 3), (3, 2)):
        front.order(pid, dest)
        front.go_until(MoveState.DONE, number)
    front.log.clear()
    restore(front.sub(2), backup)
    front.go(5)
    assert front.rows(2, pid) == before and front.log == []
    assert front.sub(2).query("SELECT state FROM fenced") == [("open",)]
    assert front.sub(2).query("SELECT DISTINCT subid FROM origins") == [(1,)]
    assert front.sub(2).query("SELECT flip, subid FROM flips") == [(front.move(1).flip, 1)]
    front.order(pid, 1)
    front.go_until(MoveState.DONE, 4)
    assert front.rows(1, pid) == before and front.log == []


def test_its_content_is_there_until_all_has_arrived(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """The carrier has the files; it is removed then."""
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    backup = backed_up_while_arriving(front, pid)
    front.log.clear()
    monkeypatch.setattr(mover, "PAUSE_SECONDS", 1.0)
    monkeypatch.setattr(mover, "arrive_page", lambda *args: arrive_page(*args, page_rows=2))
    restore(front.sub(2), backup)
    front.go(15)
    assert front.rows(2, pid) == before and front.log == []
    assert front.sub(2).query("SELECT pid FROM pidb") == [(pid,)]


def test_what_arrives_is_kept_while_the_front_ends_database_is_an_older_one(front: Front) -> None:
    """As far as that knows, the provider came earlier, and has left: its repair is to find all rows."""
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    before = front.rows(2, pid)
    older = front.database.now(dumped)
    front.order(pid, 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mover.Mover, "_arrive_rows", _never)
        front.go_until(MoveState.FLIPPED, 2)
        front.go(2)
    newer = front.database.now(dumped)
    assert front.sub(1).query("SELECT state FROM fenced") == [("arriving",)]
    front.database.now(put_back, older)
    front.sub(1).start()
    front.go(3)
    front.log.clear()
    front.database.now(put_back, newer)
    front.go_until(MoveState.DONE, 2)
    assert front.rows(1, pid) == before and front.log == []


def test_it_arrives_once_content_that_was_on_its_way_is_there(make_front: MakeFront) -> None:
    """All rows were there already; the source still has the content."""
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    restored_after_the_flip(front, pid)
    front.go(2)
    assert front.move().why == WAITS_FOR_CONTENT and front.move().number("content_left") == len(front.site) - 1
    front.holding.clear()
    front.go_until(MoveState.DONE)
    front.go(5)
    assert front.rows(2, pid) == before and front.log == []
    assert front.move().why == ""


def test_it_waits_as_long_as_content_comes(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, logged: list[LogEvent]
) -> None:
    """However slowly."""
    monkeypatch.setattr(mover, "CONTENT_SECONDS", 20.0)
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.older.add("port")  # one by one
    restored_after_the_flip(front, pid)
    front.holding.clear()
    front.go(2)
    front.holding.add("b")
    while front.move().state is MoveState.FLIPPED:
        assert front.move().why == WAITS_FOR_CONTENT
        front.go(15)
        b = front.sub(2)
        for order in list(b.botm.out.values())[:1]:
            b.botm.done(order, **front.answer(b, order))
    front.holding.clear()
    front.go_until(MoveState.DONE)
    front.go(5)
    assert front.rows(2, pid) == before and front.log == []
    assert told(logged) == [f"Move 1 of provider {pid}: {WAITS_FOR_CONTENT}"]


def test_what_is_left_is_noted_once_it_is_less(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with each look."""
    pid = publish(front)
    front.go(1)
    front.older.add("port")  # one by one
    restored_after_the_flip(front, pid)
    b = front.sub(2)

    def bring_one() -> None:
        front.go(3)
        order = next(iter(b.botm.out.values()))
        b.botm.done(order, **front.answer(b, order))

    bring_one()  # no batch
    front.go(3)
    left = front.move().number("content_left")
    noted: list[int] = []
    note = moves.note_progress

    def notes(txn: Txn, move: Move, progress: Mapping[str, Any], *more: Any) -> Move:
        noted.append(progress["content_left"])
        return note(txn, move, progress, *more)

    monkeypatch.setattr(moves, "note_progress", notes)
    for _ in range(2):
        bring_one()
    front.go(3)
    assert left > 2 and noted == [left - 1, left - 2]


@pytest.mark.parametrize("absent", ["botm", "orders"])
def test_content_that_nobody_has_asked_for_is_waited_for(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    """The BOT-M of the restored sub-LCC comes later than its queue manager; or an operator has paused that."""
    monkeypatch.setattr(mover, "CONTENT_SECONDS", 60.0)
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    front.older.add("port")
    restored_after_the_flip(front, pid)
    b = front.sub(2)
    if absent == "botm":
        b.botm.close()
    else:
        b.world.engine.dispatcher.paused_since = 1
    front.holding.clear()
    front.go(120)
    assert front.move().state is MoveState.FLIPPED
    if absent == "botm":
        b.botm = FakeBotm(b.world, machine=b.botm.machine, run=b.botm.run, earlier=b.botm, orders_max=4)
    else:
        b.world.engine.dispatcher.paused_since = None
    front.go_until(MoveState.DONE)
    front.go(20)
    assert front.rows(2, pid) == before and front.log == []


@pytest.mark.parametrize("lacks", ["content", "rows"])
def test_content_that_never_comes_is_fetched_from_its_site(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, logged: list[LogEvent], lacks: str
) -> None:
    """By now nobody answers at the source's content port, while its database is there; rows do not wait for it."""
    monkeypatch.setattr(mover, "CONTENT_SECONDS", 60.0)
    monkeypatch.setattr(copying, "PAGE_ROWS", 2)
    front = make_front()
    pid = publish(front)
    front.go(1)
    before = front.rows(1, pid)
    content = restored_after_the_flip(front, pid, rows=lacks == "content")
    monkeypatch.setattr(copying, "FILES_AHEAD", 3)
    front.content_code = CODES["connect-timeout"]
    front.damaged = {
        f"{m}/{f}" for m, f in front.sub(1).query("SELECT fetched_machineid, fetched_fileid FROM lccurl")
    }
    front.older.add("port")
    front.holding.clear()
    front.go(55)
    waits = WAITS_FOR_CONTENT if lacks == "content" else WAITS_FOR_ROWS
    assert front.move().state is MoveState.FLIPPED and front.move().why == waits
    front.go_until(MoveState.DONE, seconds=20)
    front.go(20)
    assert len(front.rows(2, pid)) == len(before) and not front.rows(1, pid)
    assert sorted(front.log) == [("b", url) for url in content]
    gone = f"no content has come for 60 seconds: {len(content)} files will be fetched again"
    assert told(logged) == [f"Move 1 of provider {pid}: {why}" for why in (waits, gone)]
