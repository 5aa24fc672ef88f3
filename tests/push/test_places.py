"""What is done at servers of strangers: so much at once, nothing twice, and no server keeps others waiting."""

from __future__ import annotations

import attrs
import pytest
from twisted.internet.defer import Deferred

from lcc.errors import Busy, StoreUnavailable
from lcc.roles.places import Places
from tests.support.logs import LoggedErrors


@attrs.frozen
class Job:
    id: str
    failures: int = 0
    share: str = ""


class World:
    """Eight places, two of them for what has failed; two for one share.

    :ivar reads: of each reading whether it is of what has failed, what is left out, and what it gives.
    """

    def __init__(self) -> None:
        self.reads: list[tuple[bool, list[str], Deferred[list[Job]]]] = []
        self.limits: list[int] = []
        self.done: dict[str, list[Deferred[None]]] = {}
        self.lost: list[str] = []
        lost = lambda failure: self.lost.append(str(failure.value))  # noqa: E731
        self.places = Places("try", 8, self.due, self.work, lambda job: job.share, 2, lost)

    def due(self, failing: bool, without: list[str], limit: int) -> Deferred[list[Job]]:
        self.limits.append(limit)
        self.reads.append((failing, without, Deferred()))
        return self.reads[-1][2]

    async def work(self, job: Job) -> None:
        self.done.setdefault(job.id, []).append(Deferred())
        await self.done[job.id][-1]

    def read(self, *jobs: Job, failing: bool = False, without: str = "") -> None:
        """The oldest reading ends so; it is such a one."""
        asked, left_out, reading = self.reads.pop(0)
        assert (asked, left_out) == (failing, without.split())
        reading.callback(list(jobs))


@pytest.fixture
def world() -> World:
    return World()


def test_what_ends_while_it_is_read_is_not_done_again(world: World) -> None:
    job = Job("a")
    world.places.tick()
    world.read(job)
    world.done["a"][0].callback(None)  # while what else is due is being read
    world.read(job)
    world.read(failing=True)
    assert len(world.done["a"]) == 1
    # It is read again, for it may be due again.
    world.read(job)
    assert len(world.done["a"]) == 2


def test_what_has_failed_has_places_of_its_own(world: World) -> None:
    world.places.tick()
    world.read(*(Job(str(number)) for number in range(9)))
    world.read(*(Job(f"f{number}", 1) for number in range(9)), failing=True)
    assert sorted(world.done) == ["0", "1", "2", "3", "4", "5", "f0", "f1"]
    assert world.reads == []
    # What is under way is still due, and comes first: as much more is asked for.
    world.done["0"][0].callback(None)
    assert world.limits == [6, 2 + 6, 6 + 7]


def test_a_share_is_not_exceeded_and_keeps_nobody_waiting(world: World) -> None:
    world.places.tick()
    world.read(*(Job(f"a{number}", share="a") for number in range(5)))
    world.read(Job("b", share="b"), without="a")
    world.read(without="a")
    world.read(Job("a2", 1, share="a"), failing=True, without="a")
    assert sorted(world.done) == ["a0", "a1", "b"]
    world.done["a0"][0].callback(None)
    world.read(Job("a2", share="a"))
    assert "a2" in world.done


def test_failures(world: World, logged_errors: LoggedErrors) -> None:
    world.places.tick()
    world.read(*(Job(str(number), share=f"s{number}") for number in range(3)))
    for number, error in enumerate((StoreUnavailable("away"), ValueError("no"), Busy("taken"))):
        world.done[str(number)][0].errback(error)
    assert logged_errors.flush("Cannot try (s1)") and world.lost == ["taken"]
    # Not until the next tick.
    world.read(Job("0"))
    assert len(world.done["0"]) == 1
    world.places.stop()
    world.places.tick()
    assert len(world.reads) == 1
