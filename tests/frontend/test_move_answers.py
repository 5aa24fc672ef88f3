"""Moves during which an answer of a database is lost: a write is committed, and who made it hears that it failed."""

from __future__ import annotations

import pytest

from lcc.model.frontend.moves import MoveState
from tests.frontend.moving import MakeFront, publish
from tests.support.databases import Backend


@pytest.mark.parametrize("who", ["source", "destination"])
def test_the_answer_to_each_write_is_lost(make_front: MakeFront, backend: Backend, who: str) -> None:
    """Nothing is left to be done again; what the write has queued is fetched all the same."""
    at, step = 1, 3 if backend.kind == "sqlite" else 9
    while True:
        front = make_front()
        pid = publish(front)
        front.go(1)
        before = front.rows(1, pid)
        front.order(pid, 2)
        killed = front.sub(1 if who == "source" else 2).killed
        killed.unheard = killed.count + at
        front.go_until(MoveState.DONE)
        if killed.count < killed.unheard:
            assert at > 10
            return
        front.go(5)
        assert front.rows(2, pid) == before, at
        assert not front.rows(1, pid)
        at += step
