"""Questions to a database that does not answer now: bounded, and not for those who have gone."""

from __future__ import annotations

import threading
from random import Random

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, gatherResults

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.roles.cu.questions import Questions
from lcc.storage.database.database import READERS_MAX, Database
from lcc.storage.database.transactions import Txn
from tests.support.databases import Backend
from tests.support.waiting import until


@pytest_twisted.ensureDeferred
async def test_they_are_bounded_and_forgotten(backend: Backend) -> None:
    database = Database(backend.url, backend.home, reactor, DatabaseConfig(), random=Random(1))
    database.start()
    questions = Questions(database, 10)
    let, asked = threading.Event(), []

    def answer(_txn: Txn, number: int) -> int:
        asked.append(number)
        assert let.wait(30)
        return number

    waiting: list[Deferred[int]] = [questions.interact(answer, number) for number in range(10)]
    with pytest.raises(StoreUnavailable):
        await questions.interact(answer, 10)
    await until(lambda: len(asked) == READERS_MAX)
    given_up = [waiting.pop(0), waiting.pop()]  # one is being answered, the other is not
    for each in given_up:
        each.cancel()
        with pytest.raises(CancelledError):
            await each
    assert questions.waiting == 10
    let.set()
    assert await gatherResults(waiting) == list(range(1, 9))
    await until(lambda: questions.waiting == 0)
    assert sorted(asked) == list(range(9))
    assert await questions.interact(answer, 11) == 11
    await database.stop()
    with pytest.raises(StoreUnavailable):
        await questions.interact(answer, 12)
    assert questions.waiting == 0
