"""What metrics and console of queue managers show of moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcc.model.frontend.moves import MoveState
from lcc.model.metrics import Buckets
from lcc.roles.qm.console import QmCommands
from lcc.roles.qm.metrics import QmMetrics
from lcc.roles.qm.moves import mover
from lcc.roles.qm.moves.counts import FREEZE_SECONDS
from lcc.storage.fe import moves
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, Sub
from tests.support.roles.qm import pages


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    made = Front(tmp_path)
    yield made
    made.close()


def publish(front: Front, count: int) -> int:
    pid = front.sub(1).world.provider()
    front.site.update({f"http://site.example/{number}.html": f"page {number}" for number in range(count)})
    front.sub(1).send(1, pid, *pages(*range(count)))
    front.go(2)
    return pid


def shown(sub: Sub) -> dict[str, Any]:
    """Names of metrics of moves -> values, or labels -> values."""
    nothing: Any = None
    readings = QmMetrics(sub.world.engine, nothing, nothing, nothing)._moves()
    found: dict[str, Any] = {}
    for reading in readings:
        values = dict(reading.series)
        found[reading.metric.name.removeprefix("lcc_qm_")] = values.get((), values)
    return found


def said(sub: Sub) -> str:
    return "\n".join(f"{name}: {text}" for name, text in QmCommands(sub.world.engine).est())


def test_a_move_from_its_beginning_to_its_end(front: Front) -> None:
    pid = publish(front, 40)
    front.holding.add("b")  # its robots bring no content
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(3)
    here = shown(front.sub(2))
    assert here["moves"]["copying",] == 1
    assert here["move_rows"] == 40 and here["move_files_left"] == 40 and here["moves_behind"] == 0
    standing = here["move_state_seconds"]
    assert 2 < standing["copying",] < 6 and standing["planned",] == standing["active",] == 0
    assert f"moves here: provider {pid}, copying: 40 rows copied, " in said(front.sub(2))
    assert "40 files left" in said(front.sub(2))
    assert shown(front.sub(1))["moves"]["copying",] == 0

    front.holding.discard("b")
    front.go_until(MoveState.FREEZING)
    front.go_until(MoveState.DONE)
    front.go(2)
    here, there = shown(front.sub(2)), shown(front.sub(1))
    assert here["moves_ended"] == {("arrived",): 1, ("left",): 0, ("cancelled",): 0}
    assert there["moves_ended"]["left",] == 1
    assert here["move_content_bytes"] == sum(map(len, front.site.values())) and there["move_content_bytes"] == 0
    assert not any(here["move_state_seconds"].values())
    freezes: Buckets = here["move_freeze_seconds"]
    assert freezes.upto[-1] == 1 and 0 < freezes.total < 20
    assert list(FREEZE_SECONDS) == sorted(set(FREEZE_SECONDS))
    assert (here["move_frozen_seconds"], here["move_freezes_given_up"], sum(here["moves"].values())) == (0, 0, 0)
    assert "moves: 1 arrived, 0 left, 0 cancelled" in said(front.sub(2))
    assert "stands still" not in said(front.sub(2))


def test_one_that_stands_still_and_goes_on_where_it_was(front: Front) -> None:
    pid = publish(front, 8)
    # An order is out that does not end.
    front.holding.add("a")
    front.sub(1).send(2, pid, *pages(20))
    front.go(1)
    front.order(pid, 2)
    front.go_until(MoveState.FREEZING)
    front.go(5)
    assert 3 < shown(front.sub(2))["move_frozen_seconds"] < 8
    assert "freezing" in said(front.sub(2)) and "stands still for" in said(front.sub(2))
    assert ("moves", "it gets no orders: it is leaving, has left, or is arriving (lcc-admin moves)") in QmCommands(
        front.sub(1).world.engine
    ).provider(pid)
    front.go(mover.FREEZE_SECONDS)
    here = shown(front.sub(2))
    assert (here["move_freezes_given_up"], here["move_frozen_seconds"]) == (1, 0)
    assert here["move_freeze_seconds"].upto[-1] == 0
    front.database.now(moves.cancel_move, pid, "enough", int(NOW + front.clock.seconds()))
    front.go(3)
    assert shown(front.sub(2))["moves_ended"]["cancelled",] == 1


def test_rows_that_change_while_they_are_copied(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "FEW_FILES", -1)  # it is not frozen
    pid = publish(front, 8)
    front.order(pid, 2)
    front.go_until(MoveState.COPYING)
    front.go(4)
    assert shown(front.sub(2))["move_rows_behind"] == 0
    front.holding.add("a")  # they stay in the queue
    front.sub(1).send(2, pid, *pages(20, 21, 22))
    behind: list[int] = []
    front.go(4, lambda: behind.append(shown(front.sub(2))["move_rows_behind"]))
    assert set(behind) == {0, 3} and behind[-1] == 0
