"""Endings that wait to be recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from lcc.errors import StoreUnavailable
from lcc.model.tasks import Effects, JobResult, JobState
from lcc.protocols.endings import write_ending
from lcc.protocols.jobs import EndingsRecorded
from lcc.roles.scheduler.endings import Ending, EndingQueue
from lcc.roles.scheduler.managers import Manager
from tests.support.logs import LoggedErrors
from tests.support.roles.scheduler import Bench

MANAGER = Manager("m", "r", 0.0)


def ending(number: int, chars: int) -> Ending:
    return Ending(MANAGER, number, JobResult(number, 1, JobState.COMPLETED), chars)


def numbers(queue: EndingQueue, most: int = 99) -> list[int]:
    return [each.number for each in queue.first(most)]


def test_as_many_are_recorded_at_once_as_fit() -> None:
    queue = EndingQueue(10)
    for number, chars in enumerate((4, 6, 1, 20, 3), 1):
        queue.add(ending(number, chars))
    assert numbers(queue) == [1, 2] and numbers(queue, 1) == [1]
    queue.recorded(queue.first(2))
    assert numbers(queue) == [3]
    queue.recorded(queue.first(9))
    assert numbers(queue) == [4], "one that is too large goes alone"
    queue.recorded(queue.first(9))
    assert numbers(queue) == [5] and len(queue) == 1


def test_who_reports_more_than_fits_waits_until_some_are_recorded() -> None:
    queue = EndingQueue(10)
    assert queue.add(ending(1, 10)) is None
    room = queue.add(ending(2, 1))
    assert room is not None and not room.called
    queue.recorded(queue.first(1))
    queue.tell_room()
    assert room.called and queue.add(ending(3, 9)) is None
    queue.tell_room()


def test_whose_endings_have_come() -> None:
    queue = EndingQueue(10)
    queue.add(ending(1, 1))
    queue.add(Ending(Manager("other", "r", 0.0), 1, JobResult(7, 1, JobState.COMPLETED), 1))
    assert (queue.jobs_of("m"), queue.jobs_of("other"), queue.jobs_of("")) == ({1}, {7}, set())


def test_a_manager_is_not_read_while_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, effects_max=1 << 20)
    bench.start()
    for _ in range(4):
        bench.add(every=10**6)
    manager = bench.manager()
    bench.pass_time(2)
    given = manager.given()

    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(bench.database.blocking, "write", away)
        for number, job in enumerate(given, 1):
            effects = Effects(items=("x" * (400 << 10),))
            manager.say(*write_ending(number, JobResult(job.id, 1, JobState.COMPLETED, effects=effects)))
        assert bench.engine.endings_waiting == 3
    bench.pass_time(3)
    assert bench.engine.endings_waiting == 0 and bench.engine.counters.completed == 4
    bench.engine.stop()
    bench.database.blocking.close()


def test_an_ending_of_attempt_nought_that_nobody_was_given(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    """No attempt has this number; what a manager says besides is recorded all the same."""
    bench = Bench(tmp_path)
    bench.start()
    bench.add(every=0)
    bench.pass_time(2)
    manager = bench.manager()
    manager.say(*write_ending(1, JobResult(52, 0, JobState.COMPLETED)))
    manager.say(*write_ending(2, JobResult(1, 0, JobState.COMPLETED)))
    bench.pass_time(5)
    assert manager.peer.of(EndingsRecorded)[-1].number == 2
    assert not logged_errors.flush()
    bench.engine.stop()
    bench.database.blocking.close()
