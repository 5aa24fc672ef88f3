"""A move is cancelled if content has other digests than its rows: whichever rows these are, and whenever it comes."""

from __future__ import annotations

import gc

import pytest

from lcc.model.frontend.moves import Move, MoveState
from lcc.roles.qm.moves import copying, mover, verifying
from lcc.roles.qm.moves.verifying import Verifying
from tests.frontend.moving import Front, MakeFront, restore
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
    change(front, pid, 7, 1)
    assert dest.moving is not None
    dest.moving.stop()
    restore(source, backup)
    change(front, pid, 8, 100)
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
