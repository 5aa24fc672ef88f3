"""Single looks of queue managers at moves: when the next one is due, and what they refuse and note."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.model.frontend.moves import MoveState
from lcc.roles.qm.moves import mover, obeying
from tests.frontend.moving import Front, publish
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import pages


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    made = Front(tmp_path)
    yield made
    made.close()


def test_a_fence_that_is_not_obeyed_yet_is_soon_looked_at_again(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a provider stands still, everybody waits."""
    source = front.sub(1)
    pid = source.world.provider()
    front.holding.add("a")
    source.send(1, pid, *pages(1))
    front.go(1)
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    look, looks = obeying.Obeying.look, 0

    async def counted(self: obeying.Obeying, subid: int) -> bool:
        nonlocal looks
        looks += subid == 1
        return await look(self, subid)

    monkeypatch.setattr(obeying.Obeying, "look", counted)
    front.go(4)
    assert front.move().state is MoveState.FREEZING, "a fetch has not ended"
    assert looks > 10
    front.holding.clear()
    front.go_until(MoveState.DONE)
    looks = 0
    front.go(4)
    assert 0 < looks <= 5, "nothing is to be obeyed"


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
