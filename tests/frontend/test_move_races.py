"""Operators and movers that change a move in the same moment, on a server: one waits for the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lcc.model.frontend.moves import Move, MoveState
from lcc.model.frontend.places import SubLcc
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import FE
from lcc.storage.fe import moves
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import add_sublcc, get_sublcc
from tests.frontend.kit import NOW, sublcc
from tests.support.databases import SETTINGS, at_once

PID = 7
SINCE = ("timeline", 1)


@pytest.fixture
def both(mariadb: Any, tmp_path: Path) -> Iterator[tuple[BlockingDatabase, BlockingDatabase]]:
    """A front end's database with sub-LCCs a, b and c, as two processes have it open."""
    url = mariadb.new_database()
    one, other = (BlockingDatabase(url, tmp_path, SETTINGS, random=Random(number), series=FE) for number in (1, 2))
    for number in (1, 2, 3):
        one.write(add_sublcc, sublcc(number, subid=0))
    yield one, other
    one.close()
    other.close()
    mariadb.drop_database(url)


def sub(database: BlockingDatabase, name: str) -> SubLcc:
    return database.interact(get_sublcc, name)


def frozen(database: BlockingDatabase) -> Move:
    move = database.write(moves.order_move, PID, sub(database, "b"), None, NOW)
    move = database.write(moves.begin_copying, move, NOW)
    move = database.write(moves.freeze, move, NOW)
    fence = database.interact(moves.get_fence, PID, move.source)
    assert fence is not None
    database.write(moves.obeyed, fence)
    return move


def test_a_move_that_is_cancelled_while_it_flips_has_flipped(both: tuple[BlockingDatabase, BlockingDatabase]) -> None:
    database, _ = both
    move = frozen(database)
    late = at_once(
        both, lambda txn: moves.flip(txn, move, SINCE, NOW), lambda txn: moves.cancel_move(txn, PID, "no", NOW)
    )
    assert isinstance(late, moves.CannotMove) and "new home" in str(late)
    found = database.interact(moves.get_move, move.id)
    assert found is not None and found.state is MoveState.FLIPPED
    (place,) = database.interact(placements, [PID])
    assert place is not None and place.subid == move.dest


def test_a_flip_while_the_move_is_cancelled_does_not_happen(
    both: tuple[BlockingDatabase, BlockingDatabase],
) -> None:
    database, _ = both
    move = frozen(database)
    late = at_once(
        both, lambda txn: moves.cancel_move(txn, PID, "no", NOW), lambda txn: moves.flip(txn, move, SINCE, NOW)
    )
    assert isinstance(late, moves.Overtaken)
    (place,) = database.interact(placements, [PID])
    assert place is not None and place.subid == move.source


def test_of_two_moves_that_are_ordered_at_once_there_is_one(both: tuple[BlockingDatabase, BlockingDatabase]) -> None:
    database, _ = both
    to_b, to_c = sub(database, "b"), sub(database, "c")
    late = at_once(
        both,
        lambda txn: moves.order_move(txn, PID, to_b, None, NOW),
        lambda txn: moves.order_move(txn, PID, to_c, None, NOW),
    )
    assert isinstance(late, moves.CannotMove) and "is moving already" in str(late)
    assert [move.dest for move in database.interact(moves.list_moves)] == [to_b.subid]
