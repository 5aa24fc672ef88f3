"""An answer that is made of several SELECTs sees one state, whatever is committed in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeVar

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, execute

from lcc.config import DatabaseConfig
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import begin, read_page
from lcc.storage.database.database import BlockingDatabase, Database
from lcc.storage.database.tables.status import last_change
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import provider_status
from lcc.storage.views.overview import overview
from lcc.storage.views.selected import Selection
from tests.support.queue import Queue, notice
from tests.support.waiting import until

T = TypeVar("T")
Reading = Callable[..., Deferred[Any]]

_VALUE = "SELECT value FROM counters WHERE name = 'change'"
_ADD = "UPDATE counters SET value = value + 1 WHERE name = 'change'"


@pytest.fixture(params=["pool", "one connection"])
def reading(request: pytest.FixtureRequest, queue: Queue, backend: Any) -> Iterator[Reading]:
    """What runs an interaction for reading, by other connections than those of ``queue``."""
    from twisted.internet import reactor

    settings = DatabaseConfig(retries=0)
    if request.param == "pool":
        pool = Database(backend.url, backend.home, reactor, settings, random=Random(1))
        pool.start()
        yield pool.interact
        pytest_twisted.blockon(pool.stop())
    else:
        single = BlockingDatabase(backend.url, backend.home, settings, random=Random(1))
        yield lambda function, *args: execute(single.interact, function, *args)
        single.close()


class Interleaved:
    """A transaction after each of whose statements somebody else commits something."""

    def __init__(self, txn: Txn, commit: Callable[[], Any]) -> None:
        self._txn = txn
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._txn, name)
        if name not in ("query", "one", "value", "query_in", "query_each", "query_ranges", "query_several"):
            return found

        def asked(*args: Any, **more: Any) -> Any:
            answer = found(*args, **more)
            self._commit()
            return answer

        return asked


def interleaved(function: Callable[..., T], commit: Callable[[], Any]) -> Callable[..., T]:
    """The function, where somebody commits after each of its statements."""
    return lambda txn, *args: function(Interleaved(txn, commit), *args)


@pytest_twisted.ensureDeferred
async def test_the_second_question_sees_what_the_first_one_saw(queue: Queue, reading: Reading) -> None:
    def twice(txn: Txn) -> tuple[int, int]:
        first = txn.value(_VALUE)
        queue.database.now(Txn.execute, _ADD)
        return first, txn.value(_VALUE)

    for _ in range(3):
        before = queue.database.now(last_change)
        assert await reading(twice) == (before, before)
        # And the next one sees what was committed meanwhile.
        assert await reading(last_change) == before + 1


@pytest_twisted.ensureDeferred
async def test_errors_that_are_counted_are_those_that_are_listed(queue: Queue, reading: Reading) -> None:
    queue.send(1, *[notice(f"p{number}") for number in range(9)])
    rows = iter(queue.rows())

    def fail_one() -> None:
        queue.record(queue.failed(next(rows), 404))

    fail_one()
    for _ in range(3):
        status = await reading(interleaved(provider_status, fail_one), queue.pid, 10)
        assert status.error_count == len(status.errors)
        assert status.errors_upto == status.errors[-1].number
    # A login asks no more than that.
    with pytest.raises(RuntimeError, match="several statements"):
        queue.database.blocking.select(lambda txn: [provider_status(txn, queue.pid, 10) for _ in range(2)])
    assert queue.database.blocking.select(provider_status, queue.pid, 10).error_count == 4


@pytest_twisted.ensureDeferred
async def test_deletions_that_are_forgotten_meanwhile_are_not_left_out(queue: Queue, reading: Reading) -> None:
    queue.send(1, notice("page"), notice("other"))
    queue.fetch_all()
    place = await reading(begin, Query(Selection(), since="0"))
    token = await read_to_end(reading, place)
    queue.send(2, notice("page", delete=True), now=10)
    place = await reading(begin, Query(Selection(), since=token))
    page = await reading(interleaved(read_page, lambda: queue.keep_house(10**9)), place)
    assert [(row.curl, row.state) for row in page.rows] == [("http://site/page", "deleted")]


async def read_to_end(reading: Reading, place: Any) -> str:
    token = ""
    while place is not None:
        page = await reading(read_page, place)
        place, token = page.after, str(page.token)
    return token


@pytest_twisted.ensureDeferred
async def test_what_is_summed_up_is_of_one_moment(queue: Queue, reading: Reading) -> None:
    queue.send(1, *[notice(f"p{number}") for number in range(60)])
    rows = iter(queue.rows())
    figures = await reading(interleaved(overview, lambda: queue.record(queue.fetched(next(rows)))), 10, 10, 0)
    assert figures.files + sum(waiting.urls for waiting in figures.queue) == 60
    assert figures.change == figures.files


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_no_snapshot_is_left_open(queue: Queue, reading: Reading) -> None:
    """One that stays open keeps the server from purging what is gone."""
    await reading(last_change)
    await reading(lambda txn: None)
    with pytest.raises(KeyError):
        await reading(_raise)
    open_ones = (
        "SELECT COUNT(*) FROM information_schema.innodb_trx JOIN information_schema.processlist"
        " ON id = trx_mysql_thread_id WHERE id <> CONNECTION_ID() AND db = DATABASE()"
    )

    # The server shows what it noted of its transactions up to 0.1 s ago.
    await until(lambda: queue.database.query(open_ones) == [(0,)])


def _raise(txn: Txn) -> None:
    txn.value(_VALUE)
    raise KeyError


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_who_writes_after_it_sees_what_others_have_written(queue: Queue, backend: Any) -> None:
    """One connection reads and writes: a snapshot's isolation is not the next transaction's."""
    single = BlockingDatabase(backend.url, backend.home, DatabaseConfig(retries=0), random=Random(1))

    def twice(txn: Txn) -> tuple[int, int]:
        first = txn.value(_VALUE)
        queue.database.now(Txn.execute, _ADD)
        return first, txn.value(_VALUE)

    single.interact(last_change)
    first, second = single.write(twice)
    assert second == first + 1
    single.close()


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_a_snapshot_costs_one_round_trip_more(queue: Queue, backend: Any) -> None:
    from twisted.internet import reactor

    pool = Database(backend.url, backend.home, reactor, DatabaseConfig(retries=0), random=Random(1))
    pool.start()
    sent: list[str] = []

    def watched(txn: Txn) -> int:
        connection: Any = txn._connection
        trip = type(connection)._execute_command

        def count(command: int, sql: Any) -> None:
            sent.append(sql if isinstance(sql, str) else sql.decode())
            trip(connection, command, sql)

        connection._execute_command = count
        return last_change(txn)

    try:
        await pool.select(watched)
        assert len(sent) == 1 and sent[0].startswith("SELECT")
        sent.clear()
        await pool.interact(watched)
        assert len(sent) == 2 and sent[0].startswith("SET TRANSACTION") and sent[1] == "COMMIT"
    finally:
        await pool.stop()
