"""How the content of a provider that moves is copied: in batches, and one by one where that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.model.content_batches import FILE_BYTES_MAX
from lcc.model.frontend.moves import MoveState
from lcc.storage.fe import moves
from lcc.storage.queue.moves.carried import MISSED
from lcc.storage.queue.moves.staging import content_left as carried_left
from lcc.storage.queue.moves.staging import missed as carried_missed
from lcc.testing.inline_database import InlineDatabase
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, MakeFront, file_of
from tests.support.roles.qm import pages

COUNT = 130


def publish(front: Front, count: int = COUNT) -> int:
    source = front.sub(1)
    pid = source.world.provider()
    front.site.update({f"http://site.example/{number}.html": f"page {number}" for number in range(count)})
    source.send(1, pid, *pages(*range(count)))
    front.go(20)
    assert len(front.log) == count
    front.log.clear()
    return pid


def test_small_files_come_in_batches(make_front: MakeFront) -> None:
    front = make_front()
    pid = publish(front)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    assert [len(names) for names in front.content_log] == [100, 30]
    assert front.rows(2, pid) == before and front.log == []
    missing = "SELECT COUNT(*) FROM lccurl WHERE state = 1 AND fetched_machineid <> 20"
    assert front.sub(2).query(missing) == [(0,)]
    files = front.sub(2).query("SELECT COUNT(DISTINCT fetched_fileid) FROM lccurl WHERE state = 1")
    assert files == [(COUNT,)]
    assert front.sub(2).query("SELECT COUNT(*) FROM staged") == [(0,)]


@pytest.mark.parametrize("what", ["port", "robots"])
def test_with_an_older_version_they_come_one_by_one(make_front: MakeFront, what: str) -> None:
    """A source whose content port knows no batches, or robots of the destination that do not."""
    front = make_front()
    front.older.add(what)
    pid = publish(front)
    before = front.rows(1, pid)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    assert sorted(map(len, front.content_log)) == [1] * COUNT + [30, 100]
    assert front.rows(2, pid) == before and front.log == []
    front.go(5)
    assert front.sub(2).query("SELECT pid FROM pidb") == [(pid,)]
    assert front.sub(2).query("SELECT COUNT(*) FROM staged WHERE kind = ?", MISSED) == [(0,)]


def test_a_batch_that_fails_at_the_last_moment_is_not_forgotten(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in the freeze, while the mover asks what is left, and what was missed (world 13051m)."""
    front = make_front()
    front.older.add("port")
    pid = publish(front, 15)
    before = front.rows(1, pid)
    ask = InlineDatabase.interact

    def interact(database: InlineDatabase, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        found = ask(database, function, *args)
        if function in (carried_left, carried_missed) and front.move().state is MoveState.FREEZING:
            front.sub(2).fetch()
            front.sub(2).world.settle()
        return found

    monkeypatch.setattr(InlineDatabase, "interact", interact)
    front.holding.add("b")  # its robots work just then, and only then
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    assert front.rows(2, pid) == before and front.log == []


def test_what_a_batch_does_not_bring_is_asked_for_by_itself(make_front: MakeFront) -> None:
    """It is large, or lost: then its page is fetched again."""
    front = make_front()
    pid = publish(front)
    front.damaged.add(file_of(front, "/5.html"))
    front.altered.add(file_of(front, "/6.html"))
    front.large.add(file_of(front, "/7.html"))
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    front.go(3)
    alone = [names[0] for names in front.content_log if len(names) == 1]
    assert sorted(alone) == sorted([*front.damaged, *front.large])
    assert sorted(front.log) == [("b", "http://site.example/5.html"), ("b", "http://site.example/6.html")]
    assert front.sub(2).query("SELECT COUNT(*) FROM lccurl WHERE state = 1 AND fetched_fileid IS NULL") == [(0,)]


@pytest.mark.parametrize(("files", "sizes"), [(40, [40, 40, 40, 10]), (1, [1] * COUNT), (0, [1] * COUNT)])
def test_a_batch_is_no_more_than_what_may_be_fetched_in_a_second(
    make_front: MakeFront, files: int, sizes: list[int]
) -> None:
    front = make_front()
    pid = publish(front)
    bandwidth = files * FILE_BYTES_MAX + 1000
    front.database.now(moves.order_move, pid, front.sublcc(2), bandwidth, int(NOW + front.clock.seconds()))
    front.go_until(MoveState.DONE)
    assert sorted(map(len, front.content_log)) == sorted(sizes)
