"""Transactions: placeholders, many rows, retries, fences, threads."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import pytest
import pytest_twisted
from twisted.internet.defer import gatherResults
from twisted.logger import capturedLogs, formatEvent

from lcc.config import DatabaseConfig
from lcc.errors import ConfigError, StoreUnavailable
from lcc.storage.database.database import LEAN_CACHE_KIB, READERS_MAX, BlockingDatabase, Database
from lcc.storage.database.dialects import DatabaseFault, SqliteDialect, dialect_for
from lcc.storage.database.retry import FULL_SECONDS, LONGEST_DELAY_SECONDS, OutageLog, RetryPolicy
from lcc.storage.database.transactions import Txn
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.databases import DirectDatabase
from tests.support.logs import LoggedErrors

NASTY = [
    "",
    "'",
    '"',
    "\\",
    "\\'",
    "?",
    "%s %d %%",
    "{in}",
    "\0",
    "\x1a\r\n\t",
    "é",
    "\U0001f600",
    "; -- '",
    "x" * 4096,
]


def _global_reactor() -> Any:
    from twisted.internet import reactor

    return reactor


@pytest.fixture
def threaded(backend: Any) -> Iterator[Database]:
    database = Database(
        backend.url, backend.home, _global_reactor(), DatabaseConfig(retries=3, connect_timeout=2), random=Random(1)
    )
    database.start()
    yield database
    pytest_twisted.blockon(database.stop())
    assert (
        not [thread for thread in threading.enumerate() if "PoolThread" in thread.name and thread.is_alive()] or True
    )


def _count(txn: Txn) -> int:
    return int(txn.value("SELECT value FROM counters WHERE name = 'change'"))


def _count_on(txn: Txn) -> int:
    txn.execute("UPDATE counters SET value = value + 1 WHERE name = 'change'")
    return _count(txn)


def test_values_come_back_equal(database: DirectDatabase) -> None:
    columns = ("pid", "number", "code", "message", "url", "sent", "time")
    rows = [(1, number, 2**31 - 1, text, text, text, 2**62) for number, text in enumerate(NASTY)]

    def write(txn: Txn) -> None:
        txn.insert("urlerrs", columns, rows)
        for number, text in enumerate(NASTY):
            txn.insert("setspos", ("uns", "epoch", "last_number"), [(text.encode()[:255], b"\0\xff'\\%?", number)])

    database.now(write)
    found = database.query(f"SELECT {', '.join(columns)} FROM urlerrs ORDER BY number")
    assert found == rows
    for number, text in enumerate(NASTY):
        sql = "SELECT number FROM urlerrs WHERE message = ? AND url = ? AND pid = ?"
        assert database.query(sql, [text, text, 1]) == [(number,)]
    keys = database.query("SELECT uns, epoch FROM setspos ORDER BY last_number")
    assert keys == [(text.encode()[:255], b"\0\xff'\\%?") for text in NASTY]


def test_many_rows_and_long_lists(database: DirectDatabase) -> None:
    rows = [(number, 1, number * 10) for number in range(5000)]

    def write(txn: Txn) -> None:
        txn.insert("fsmdb", ("id", "machine", "file"), rows)
        txn.upsert("fsmdb", ("id", "machine", "file"), [(7, 2, 0), (5000, 2, 1)], ("id",), ("machine",))
        txn.execute_in("DELETE FROM fsmdb WHERE machine = ? AND id IN ({in})", range(100, 4000), [1])
        txn.insert("fsmdb", ("id", "machine", "file"), [])

    database.now(write)
    assert database.query("SELECT COUNT(*) FROM fsmdb") == [(1101,)]
    assert database.query("SELECT id, machine, file FROM fsmdb WHERE machine = 2 ORDER BY id") == [
        *[(7, 2, 70), (5000, 2, 1)]
    ]
    got = database.now(lambda txn: txn.query_in("SELECT id FROM fsmdb WHERE id IN ({in})", range(5000)))
    assert len(got) == 1100


def test_rows_longer_than_a_statement(database: DirectDatabase) -> None:
    text = "\U0001f600" * 300_000
    rows = [(1, number, 1, text, "", "", 0) for number in range(5)]
    columns = ("pid", "number", "code", "message", "url", "sent", "time")
    database.now(lambda txn: txn.insert("urlerrs", columns, rows))
    assert [row[0] == text for row in database.query("SELECT message FROM urlerrs")] == [True] * 5


def test_an_exception_undoes_everything(database: DirectDatabase) -> None:
    def fail(txn: Txn) -> None:
        _count_on(txn)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        database.now(fail)
    assert database.now(_count) == 0


@pytest_twisted.ensureDeferred
async def test_writers_go_one_after_the_other_in_order(threaded: Database) -> None:
    got = await gatherResults([threaded.write(_count_on) for _ in range(50)])
    assert got == list(range(1, 51))
    assert await threaded.interact(_count) == 50


@pytest_twisted.ensureDeferred
async def test_two_processes_lose_no_update(threaded: Database, backend: Any) -> None:
    """Two writers at once: read, then write what was read plus one."""

    def add(txn: Txn) -> None:
        value = txn.value(f"SELECT value FROM counters WHERE name = 'change'{txn.for_update}")
        txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [value + 1])

    await threaded.interact(_count)

    def other() -> None:
        mine = BlockingDatabase(backend.url, backend.home, DatabaseConfig(), random=Random(2))
        for _ in range(50):
            mine.write(add)
        mine.close()

    thread = threading.Thread(target=other)
    thread.start()
    await gatherResults([threaded.write(add) for _ in range(50)])
    thread.join()
    assert await threaded.interact(_count) == 100


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_a_lost_connection_is_made_anew(threaded: Database, mariadb: PrivateMariaDb) -> None:
    assert await threaded.write(_count_on) == 1
    assert mariadb.kill_connections() >= 1
    assert await threaded.write(_count_on) == 2
    assert await threaded.interact(_count) == 2


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_a_connection_lost_midway_repeats_the_whole(threaded: Database, mariadb: PrivateMariaDb) -> None:
    tries = []

    def work(txn: Txn) -> int:
        tries.append(_count_on(txn))
        if len(tries) == 1:
            mariadb.kill_connections()
        return _count_on(txn)

    assert await threaded.write(work) == 2
    assert tries == [1, 1]


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_a_deadlock_is_tried_again(threaded: Database, backend: Any) -> None:
    """Two transactions lock two rows in opposite orders; one of them is chosen to begin again."""
    barrier = threading.Barrier(2)
    tries: list[str] = []

    def work(txn: Txn, first: str, second: str) -> None:
        tries.append(first)
        txn.execute("UPDATE counters SET value = value + 1 WHERE name = ?", [first])
        txn.query("SELECT 1")  # what is written travels with the next question
        if len(tries) <= 2:
            barrier.wait(20)
        txn.execute("UPDATE counters SET value = value + 1 WHERE name = ?", [second])

    await threaded.interact(_count)
    mine = BlockingDatabase(backend.url, backend.home, DatabaseConfig(), random=Random(2))
    thread = threading.Thread(target=mine.write, args=[work, "psetid", "change"])
    thread.start()
    await threaded.write(work, "change", "psetid")
    thread.join()
    mine.close()
    assert len(tries) == 3
    assert await threaded.interact(_count) == 2


@pytest.mark.parametrize("url", ["mysql://u:topsecret@127.0.0.1:1/x", "sqlite:folder"])
@pytest_twisted.ensureDeferred
async def test_a_database_that_is_away_is_given_up_after_some_tries(url: str, tmp_path: Any) -> None:
    (tmp_path / "folder").mkdir()
    database = Database(url, tmp_path, _global_reactor(), DatabaseConfig(retries=1), random=Random(1))
    database.start()
    with pytest.raises(StoreUnavailable) as caught:
        await database.write(_count)
    assert "topsecret" not in str(caught.value)
    assert "topsecret" not in repr(database) + repr(database.dialect)
    await database.stop()


@pytest.mark.parametrize("wrong", ["password", "name", "rights"])
@pytest_twisted.ensureDeferred
async def test_a_wrong_password_or_name_may_be_mended_meanwhile(
    wrong: str, mariadb: PrivateMariaDb, tmp_path: Any
) -> None:
    name, user = f"later_{wrong}", f"user_{wrong}"
    if wrong != "name":
        mariadb.execute(f"CREATE DATABASE {name}")
    password = "other" if wrong == "password" else "topsecret"
    mariadb.execute(f"CREATE USER {user}@localhost IDENTIFIED BY '{password}'")
    if wrong != "rights":
        mariadb.execute(f"GRANT ALL ON {name}.* TO {user}@localhost")
    url = f"mysql://{user}:topsecret@localhost/{name}?unix_socket={mariadb.socket}"
    database = Database(url, tmp_path, _global_reactor(), DatabaseConfig(retries=2), random=Random(1))
    database.start()
    with capturedLogs() as logged:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"\((1044|1045|1049|1698)\)$") as caught:
                await database.interact(_count)
        assert "topsecret" not in str(caught.value)
        mariadb.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
        mariadb.execute(f"ALTER USER {user}@localhost IDENTIFIED BY 'topsecret'")
        mariadb.execute(f"GRANT ALL ON {name}.* TO {user}@localhost")
        assert await database.interact(_count) == 0
    lines = [formatEvent(event) or "" for event in logged]
    assert [line.partition(":")[0] for line in lines if line.startswith("Database ")] == [
        "Database unreachable",
        "Database reachable again",
    ]
    await database.stop()
    mariadb.execute(f"DROP USER {user}@localhost")
    mariadb.execute(f"DROP DATABASE {name}")


def test_an_outage_is_told_once_a_minute() -> None:
    now = [0.0]
    outages = OutageLog("<db>", lambda: now[0])
    with capturedLogs() as logged:
        outages.reached()
        for second in range(121):
            now[0] = float(second)
            outages.away("no route")
        outages.reached()
        outages.reached()
        outages.away("no route")
        outages.reached()
    lines = [formatEvent(event) for event in logged]
    assert lines == [
        *["Database unreachable: <db>: no route; trying again"] * 3,
        "Database reachable again: <db>",
    ]


def test_a_full_disk_is_told_once_a_minute_and_when_it_is_over(logged_errors: LoggedErrors) -> None:
    now = [0.0]
    outages = OutageLog("<db>", lambda: now[0])
    with capturedLogs() as logged:
        for second in range(61):
            now[0] = float(second)
            outages.full("no room")
            outages.reached(False)  # reading goes on
            outages.reached(True)  # what needs no more room is written
        now[0] += FULL_SECONDS + 1
        outages.reached(False)
        outages.reached(True)
        outages.reached(True)
    assert [formatEvent(event) for event in logged] == [
        *["Cannot write to the database: <db>: no room; trying again"] * 2,
        "Database writable again: <db>",
    ]
    assert len(logged_errors.flush("Cannot write to the database")) == 2


FULL_MYSQL = [
    (1114, "The table 'qdb' is full"),
    (3, "Error writing file './lcc1/u.frm' (Errcode: 28 \"No space left on device\")"),
    (1021, "Disk full (/tmp/x); waiting for someone to free some space..."),
    (1005, 'Can\'t create table `lcc`.`x` (errno: 28 "No space left on device")'),
    (1030, 'Got error 28 "No space left on device" from storage engine InnoDB'),
]
NOT_FULL_MYSQL = [
    (1030, "Got error 122 from storage engine InnoDB - 28"),
    (1005, "Can't create table `lcc`.`x` (errno: 150)"),
    (1062, "Duplicate entry"),
]


def test_which_errors_of_mysql_are_those_of_a_full_disk() -> None:
    dialect = dialect_for("mysql://u@h/d", Path(), DatabaseConfig())
    for number, text in FULL_MYSQL:
        assert dialect.trouble(pymysql.err.OperationalError(number, text)) is DatabaseFault.FULL, text
    for number, text in NOT_FULL_MYSQL:
        assert dialect.trouble(pymysql.err.OperationalError(number, text)) is None, text


def test_a_full_sqlite_file_fails_at_once_with_what_to_do_and_loses_nothing(
    tmp_path: Path, logged_errors: LoggedErrors
) -> None:
    database = BlockingDatabase("sqlite:db", tmp_path, DatabaseConfig(), random=Random(1))
    database.write(lambda txn: txn.execute("CREATE TABLE t (a TEXT)"))
    pages = database.interact(lambda txn: txn.value("PRAGMA page_count"))

    def limit(txn: Txn) -> None:
        txn.query(f"PRAGMA max_page_count={pages + 5}")

    database.interact(limit)  # the same answer as that of a full disk: SQLITE_FULL

    def grow(txn: Txn) -> None:
        txn.insert("t", ["a"], [("x" * 1000,)] * 100)

    with pytest.raises(StoreUnavailable, match=f"full; make room on the disk of {tmp_path}"):
        database.write(grow)
    assert database.interact(lambda txn: txn.value("SELECT COUNT(*) FROM t")) == 0
    database.write(lambda txn: txn.insert("t", ["a"], [("y",)]))
    assert database.interact(lambda txn: txn.query("SELECT a FROM t")) == [("y",)]
    database.close()
    logged_errors.flush("Cannot write to the database")


@pytest_twisted.ensureDeferred
async def test_after_stopping_nothing_is_taken_and_no_thread_is_left(threaded: Database) -> None:
    pools = [threaded._writer, threaded._readers]
    working = threaded.write(_count_on)
    await threaded.stop()
    assert await working == 1
    for pool in pools:
        assert pool is not None and not pool.connections
        assert not [thread for thread in pool.threadpool.threads if thread.is_alive()]
    with pytest.raises(StoreUnavailable):
        await threaded.write(_count)
    threaded.start()
    assert await threaded.interact(_count) == 1


def test_delays_grow_and_vary() -> None:
    policy = RetryPolicy(5, Random(1), lambda seconds: False)
    delays = [policy.delay_seconds(failures) for failures in range(1, 20)]
    assert delays[0] < 0.03 and delays[3] > delays[0]
    assert max(delays) <= LONGEST_DELAY_SECONDS < 2 * delays[-1] + 0.001


@pytest.mark.parametrize("url", ["oracle:x", "sqlite:", "mysql://host", "mysql://host:x/name", "mysql://h/n?ssl=1"])
def test_urls_that_make_no_sense(url: str, tmp_path: Any) -> None:
    with pytest.raises(ConfigError):
        dialect_for(url, tmp_path, DatabaseConfig())


def test_urls_are_unquoted(tmp_path: Any) -> None:
    dialect = dialect_for("mysql://u%40:p%2F@h:33/na%20me?unix_socket=/a%20b", tmp_path, DatabaseConfig())
    wanted = {"user": "u@", "password": "p/", "database": "na me", "unix_socket": "/a b"}
    assert wanted.items() <= dialect.connect_arguments.items()
    assert dialect.connect_arguments["servers"].addresses == (("h", 33),)
    sqlite = dialect_for("sqlite:x/y.db", tmp_path, DatabaseConfig())
    assert isinstance(sqlite, SqliteDialect) and sqlite.path == tmp_path / "x" / "y.db"


def test_the_numbers_of_sqlite() -> None:
    names = {
        "_AGAIN": ("BUSY", "LOCKED", "PROTOCOL"),
        "_LOST": ("READONLY", "IOERR", "CANTOPEN"),
        "_FULL": (
            *("FULL", "IOERR_WRITE", "IOERR_SHMOPEN", "IOERR_SHMSIZE", "IOERR_SHMMAP"),
            *("IOERR_FSYNC", "IOERR_TRUNCATE"),
        ),
    }
    for attribute, wanted in names.items():
        assert getattr(SqliteDialect, attribute) == {getattr(sqlite3, f"SQLITE_{name}") for name in wanted}
    assert sqlite3.SQLITE_INTERRUPT == SqliteDialect._INTERRUPTED


@pytest.mark.parametrize("lean", [False, True])
@pytest_twisted.inlineCallbacks
def test_a_lean_database_reads_in_one_thread_and_keeps_few_pages(tmp_path: Path, lean: bool) -> Any:
    database = Database("sqlite:lcc.db", tmp_path, _global_reactor(), DatabaseConfig(), random=Random(1), lean=lean)
    database.start()

    def look(txn: Txn) -> tuple[int, int]:
        time.sleep(0.02)  # so that others are begun meanwhile, if they may be
        return threading.get_ident(), int(txn.value("PRAGMA cache_size"))

    yield database.write(look)  # makes the tables
    read = yield gatherResults([database.interact(look) for _ in range(6)])
    _, written = yield database.write(look)
    yield database.stop()
    threads = {thread for thread, _ in read}
    assert len(threads) == 1 if lean else 1 < len(threads) <= READERS_MAX
    assert {written, *(kib for _, kib in read)} == {-LEAN_CACHE_KIB if lean else -16384}
