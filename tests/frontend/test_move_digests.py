"""A move is cancelled if content has other digests than its rows: whichever rows these are, and whenever it comes."""

from __future__ import annotations

import gc

import pytest

from lcc.model.frontend.moves import Move, MoveState
from lcc.roles.qm.moves import copying, mover, verifying
from lcc.roles.qm.moves.verifying import Verifying
from tests.frontend.moving import Front, MakeFront, Sub, restore
from tests.frontend.test_move_content import COUNT, publish
from tests.support.databases import dumped
from tests.support.roles.qm import page, pages

FREEZES = mover.FEW_ROWS


@pytest.fixture(autouse=True)
def few_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 3 files and 5 % of the rows may be damaged."""
    monkeypatch.setattr(verifying, "DAMAGED_MAX", 3)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Providers are not frozen, until :func:`go_on` lets them."""
    monkeypatch.setattr(mover, "FEW_ROWS", -1)


def go_on(front: Front, monkeypatch: pytest.MonkeyPatch) -> Move:
    """Let the provider freeze, and its move end."""
    monkeypatch.setattr(mover, "FEW_ROWS", FREEZES)
    return front.go_until(MoveState.DONE)


def is_cancelled(move: Move) -> bool:
    return move.state is MoveState.CANCELLED and "do not have the digests in the source's database" in move.why


def alter(front: Front, pid: int, first: int = 0) -> None:
    """All content files of the source but for the first ones hold something else."""
    sql = "SELECT fetched_machineid, fetched_fileid FROM lccurl WHERE pid = ? ORDER BY urlkey"
    rows = front.sub(1).query(sql, pid)
    front.altered |= {f"{machine}/{file}" for machine, file in rows[first:]}


def change(front: Front, pid: int, number: int, count: int) -> None:
    """Pages change, and are fetched at the source."""
    front.site.update({f"http://site.example/{each}.html": f"{number}. {each}" for each in range(count)})
    front.sub(1).send(number, pid, *[page(each, md5=f"{number:x}" * 32) for each in range(count)])
    front.go(15)


def touched(source: Sub) -> int:
    """The number of the last transaction with changes that were noted."""
    ((number,),) = source.query("SELECT value FROM counters WHERE name = 'touched'")
    return int(number)


def test_of_many_pages_the_last_ones_count(make_front: MakeFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """Robots are fast: all content has come before the next rows are copied."""
    monkeypatch.setattr(copying, "PAGE_ROWS", 10)
    monkeypatch.setattr(mover, "SLICE_SECONDS", 0.15)
    front = make_front()
    pid = publish(front)
    alter(front, pid, 40)
    front.order(pid, 2)
    assert is_cancelled(front.go_until(MoveState.DONE))


@pytest.mark.usefixtures("waiting")
def test_pages_count_that_change_while_their_provider_is_copied(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "PAGE_ROWS", 30)
    front = make_front()
    pid = publish(front)
    front.order(pid, 2)
    front.go(10)
    front.holding.add("b")
    change(front, pid, 7, 100)
    alter(front, pid)
    front.holding.clear()
    assert is_cancelled(go_on(front, monkeypatch))


@pytest.mark.usefixtures("waiting")
def test_pages_count_that_are_compared_again(make_front: MakeFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source was restored from a backup; then pages changed, before anybody saw that."""
    front = make_front()
    pid = publish(front)
    source, dest = front.sub(1), front.sub(2)
    front.order(pid, 2)
    front.go(5)
    backup = source.database.now(dumped)
    for number in range(7, 107):
        source.send(number, pid, page(0))
    front.go(5)
    seen = touched(source)
    assert dest.moving is not None
    dest.moving.stop()
    restore(source, backup)
    change(front, pid, 8, 12)
    assert touched(source) < seen, "they have numbers of what is compared already"
    alter(front, pid)
    dest.moving.start()
    assert is_cancelled(go_on(front, monkeypatch))


@pytest.mark.usefixtures("waiting")
def test_files_count_that_were_not_waited_for(make_front: MakeFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider may freeze while a few files are still to come."""
    monkeypatch.setattr(mover, "FEW_FILES", COUNT)
    front = make_front()
    pid = publish(front)
    alter(front, pid)
    front.holding.add("b")
    front.order(pid, 2)
    front.go(5)
    front.holding.clear()
    front.go(5)
    assert is_cancelled(go_on(front, monkeypatch))


@pytest.mark.usefixtures("waiting")
def test_a_few_files_of_pages_that_have_changed_are_not_waited_for(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others are compared; the provider may freeze."""
    front = make_front()
    pid = publish(front, 30)
    front.order(pid, 2)
    front.go(5)
    front.holding.add("b")
    change(front, pid, 7, 5)
    monkeypatch.setattr(mover, "FEW_ROWS", FREEZES)
    assert front.go_until(MoveState.FREEZING, seconds=10).number("content_left") == 5
    front.holding.clear()
    front.go_until(MoveState.DONE)


@pytest.mark.usefixtures("waiting")
def test_what_has_changed_is_compared_as_soon_as_all_was(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same look."""
    front = make_front()
    pid = publish(front, 30)
    front.holding.add("b")
    front.order(pid, 2)
    front.go(5)
    front.holding.add("a")
    front.sub(1).send(7, pid, *pages(500, 501))
    front.go(3)
    moving = front.sub(2).moving
    assert moving is not None
    moving.stop()
    front.holding.discard("b")
    front.go(5)  # all content comes
    monkeypatch.setattr(mover, "FEW_ROWS", FREEZES)
    passes = front.move().number("passes")
    moving.start()
    move = front.go_until(MoveState.FREEZING)
    assert move.state is MoveState.FREEZING and move.number("passes") == passes + 1


def test_content_is_compared_while_the_queue_is_copied(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes late; that it is something else is found long before all rows are there."""
    monkeypatch.setattr(copying, "PAGE_ROWS", 1)
    monkeypatch.setattr(mover, "SLICE_SECONDS", 0.05)
    front = make_front()
    pid = publish(front, 12)
    alter(front, pid)
    front.holding |= {"a", "b"}
    front.sub(1).send(7, pid, *pages(*range(500, 540)))
    front.order(pid, 2)
    while not front.sub(2).query("SELECT 1 FROM stagedqueue"):
        front.go(0.1)
    front.holding.discard("b")
    move = front.go_until(MoveState.CANCELLED)
    assert is_cancelled(move) and 12 < move.number("rows") < 40


@pytest.mark.usefixtures("waiting")
@pytest.mark.long("mariadb")
def test_a_file_counts_once_and_no_longer_than_its_page_has_it(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often its row is touched; and others may be damaged when it has been replaced."""
    front = make_front()
    pid = publish(front)
    alter(front, pid, COUNT - 8)
    front.order(pid, 2)
    front.go(5)
    for number in (7, 8):
        front.sub(1).send(number, pid, *pages(*range(COUNT)))
        front.go(5)
    change(front, pid, 9, COUNT)
    front.altered.clear()
    front.holding.add("b")
    change(front, pid, 10, COUNT)
    alter(front, pid, COUNT - 8)
    front.holding.clear()
    assert go_on(front, monkeypatch).state is MoveState.DONE
    front.go(2)
    assert len([who for who, _ in front.log if who == "b"]) == 8


@pytest.mark.parametrize("cancel", [True, False])
@pytest.mark.long("mariadb")
def test_what_is_known_of_a_move_is_forgotten_with_it(make_front: MakeFront, cancel: bool) -> None:
    def known() -> int:
        gc.collect()
        return sum(type(each) is Verifying for each in gc.get_objects())

    before = known()
    front = make_front()
    pid = publish(front, 30)
    if cancel:
        alter(front, pid)
    front.holding.add("b")
    front.order(pid, 2)
    front.go(5)
    assert known() == before + 1
    front.holding.clear()
    front.go_until(MoveState.CANCELLED if cancel else MoveState.DONE)
    front.go(5)
    assert known() == before
