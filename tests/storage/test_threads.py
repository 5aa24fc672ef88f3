"""Threads that ask the database: in order, no more than there may be, each with its own connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults

from lcc.storage.database.threads import Threads


class Connection:
    """Knows in which thread it was made and closed."""

    def __init__(self) -> None:
        self.made_in = threading.get_ident()
        self.closed_in = 0

    def close(self) -> None:
        self.closed_in = threading.get_ident()


class Rig:
    """So many threads."""

    def __init__(self, count: int) -> None:
        self.connections: list[Connection] = []
        self.threads = Threads(reactor, f"rig{count}", count, self._open)  # type: ignore[arg-type]  # a module, to mypy

    def _open(self) -> Connection:
        self.connections.append(Connection())
        return self.connections[-1]

    @property
    def names(self) -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith("rig")}


@pytest.fixture(params=[1, 3])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(request.param)
    yield made
    made.threads.close()
    assert not made.names


@pytest_twisted.ensureDeferred
async def test_answers_come_in_the_reactors_thread(rig: Rig) -> None:
    here = threading.get_ident()
    told = rig.threads.run(threading.get_ident).addCallback(lambda there: (there, threading.get_ident()))
    assert not told.called
    there, heard_in = await told
    assert there != here == heard_in
    with pytest.raises(ZeroDivisionError):
        await rig.threads.run(lambda: 1 // 0)


@pytest_twisted.ensureDeferred
async def test_one_thread_keeps_the_order() -> None:
    rig = Rig(1)
    done: list[int] = []
    await gatherResults([rig.threads.run(done.append, number) for number in range(100)])
    assert done == list(range(100)) and rig.names == {"rig1-0"}
    rig.threads.close()


@pytest_twisted.ensureDeferred
async def test_as_many_as_are_needed() -> None:
    rig = Rig(3)
    meet = threading.Barrier(3, timeout=20)
    assert not rig.names
    for _ in range(3):
        await rig.threads.run(lambda: None)
    assert rig.names == {"rig3-0"}  # one after the other: one is enough
    both: list[Deferred[int]] = [rig.threads.run(meet.wait) for _ in range(3)]
    more = rig.threads.run(lambda: "later")
    assert sorted(await gatherResults(both)) == [0, 1, 2] and await more == "later"
    assert len(rig.names) == 3
    rig.threads.close()


@pytest_twisted.ensureDeferred
async def test_each_has_its_own_connection(rig: Rig) -> None:
    threads = rig.threads
    first = await threads.run(threads.connect)
    assert await threads.run(threads.connect) in rig.connections and first.made_in != threading.get_ident()

    def lost() -> None:
        threads.disconnect(threads.connect())

    await threads.run(lost)
    assert rig.connections[0].closed_in == rig.connections[0].made_in
    assert await threads.run(threads.connect) is not first
    threads.close()
    assert all(each.closed_in == each.made_in for each in rig.connections)
    assert await threads.run(threads.connect) is rig.connections[-1]  # it can be used again
