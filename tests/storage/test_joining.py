"""Statements of a transaction on MariaDB travel together, and do what they do one by one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import pytest
import pytest_twisted

from lcc.config import DatabaseConfig
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Question, Txn
from lcc.testing.mariadb import PrivateMariaDb

_VALUE = "SELECT value FROM counters WHERE name = ?"
_ADD = "UPDATE counters SET value = value + 1 WHERE name = ?"


@pytest.fixture
def database(mariadb: PrivateMariaDb, tmp_path: Path) -> Iterator[Database]:
    from twisted.internet import reactor

    database = Database(mariadb.new_database(), tmp_path, reactor, DatabaseConfig(), random=Random(1))
    database.start()
    yield database
    pytest_twisted.blockon(database.stop())


def _values(txn: Txn) -> dict[str, int]:
    return dict(txn.query("SELECT name, value FROM counters WHERE name IN ('change', 'psetid')"))


@pytest_twisted.ensureDeferred
async def test_what_is_written_is_seen_by_the_next_question_and_later(database: Database) -> None:
    def work(txn: Txn) -> list[int]:
        seen = []
        for _ in range(2):
            txn.execute(_ADD, ["change"])
            txn.execute(_ADD, ["change"])
            seen.append(txn.value(_VALUE, ["change"]))
        txn.execute(_ADD, ["psetid"])
        return seen

    assert await database.write(work) == [2, 4]
    assert await database.interact(_values) == {"change": 4, "psetid": 1}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest_twisted.ensureDeferred
async def test_one_that_fails_undoes_all(database: Database, place: int) -> None:
    def work(txn: Txn) -> None:
        statements: list[tuple[str, list[Any]]] = [(_ADD, ["change"]), (_ADD, ["psetid"])]
        statements.insert(place, ("INSERT INTO counters (name, value) VALUES (?, ?)", ["change", 7]))
        for sql, parameters in statements:
            txn.execute(sql, parameters)

    with pytest.raises(pymysql.err.IntegrityError):
        await database.write(work)
    assert await database.interact(_values) == {"change": 0, "psetid": 0}
    # The connection is as good as before.
    await database.write(Txn.execute, _ADD, ["change"])
    assert await database.interact(_values) == {"change": 1, "psetid": 0}


@pytest_twisted.ensureDeferred
async def test_several_questions_are_answered_in_their_order(database: Database) -> None:
    names = ["change", "psetid"]

    def work(txn: Txn) -> list[list[tuple[Any, ...]]]:
        txn.execute(_ADD, ["psetid"])
        return txn.query_several(
            [
                Question("SELECT value FROM counters WHERE name = 'psetid'"),
                Question("SELECT name FROM counters WHERE name IN ({in})", []),
                Question("SELECT name FROM counters WHERE name IN ({in}) ORDER BY name", names * 1000),
            ]
        )

    one, none, many = await database.write(work)
    assert (one, none) == ([(1,)], [])
    assert set(many) == {(name,) for name in names} and len(many) > 2  # a long list is cut: once for each piece


@pytest_twisted.ensureDeferred
async def test_more_than_fits_into_a_packet(database: Database) -> None:
    """Some 40 MB, where the server takes 16 at once."""
    text = "it's \\ ; " * 30_000

    def work(txn: Txn) -> None:
        for number in range(150):
            row = [number, "kind", 0, 0, "", b""]
            txn.execute("INSERT INTO orders (id, kind, pid, code, text, progress) VALUES (?, ?, ?, ?, ?, ?)", row)
            txn.execute("UPDATE qmstate SET state = ? WHERE id = 1", [text])

    await database.write(work)
    assert await database.interact(Txn.value, "SELECT COUNT(*) FROM orders") == 150


@pytest_twisted.ensureDeferred
async def test_who_asks_one_question_ends_no_transaction(database: Database) -> None:
    counted = "information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'COM_COMMIT'"
    sql = f"SELECT CONNECTION_ID(), VARIABLE_VALUE FROM {counted}"
    seen = [await database.select(lambda txn: txn.query(sql)[0]) for _ in range(8)]
    assert len(seen) > len(set(seen)) == len({connection for connection, _ in seen})


@pytest_twisted.ensureDeferred
async def test_a_reader_can_begin_a_transaction(database: Database) -> None:
    """The first connection, whichever it is, makes the tables."""
    dialect = database.dialect
    connections = [import_module(dialect.driver).connect(**dialect.reader_arguments) for _ in range(2)]
    for connection in connections:
        dialect.opened(connection)
    writer, other = connections
    await database.interact(_values)
    dialect.begin(writer, True)
    txn = Txn(dialect, writer)
    txn.execute(_ADD, ["change"])
    assert _values(Txn(dialect, other))["change"] == 0
    txn.close()
    dialect.commit(writer)
    assert _values(Txn(dialect, other))["change"] == 1
    for connection in connections:
        connection.close()


@pytest_twisted.ensureDeferred
async def test_questions_with_parameters_before_their_list(database: Database) -> None:
    sql = "SELECT value + ? FROM counters WHERE name IN ({in})"
    questions = [Question(sql, ["change"], [5]), Question("SELECT ?", None, ["it's"])]
    for ask in (database.write, database.interact):
        assert await ask(Txn.query_several, questions) == [[(5,)], [("it's",)]]


@pytest_twisted.ensureDeferred
async def test_no_question_at_all(database: Database) -> None:
    for ask in (database.write, database.interact):
        assert await ask(Txn.query_several, []) == []
        assert await ask(Txn.query_several, [Question("SELECT name FROM counters WHERE name IN ({in})", [])]) == [[]]


@pytest_twisted.ensureDeferred
async def test_questions_longer_than_a_packet(database: Database) -> None:
    """Some 30 MB, where the server takes 16 at once."""
    names = ["change", "x" * 3000]
    question = Question("SELECT name FROM counters WHERE name IN ({in})", names * 1000)

    def work(txn: Txn) -> list[list[tuple[Any, ...]]]:
        txn.execute(_ADD, ["psetid"])
        return txn.query_several([question] * 10)

    assert {name for rows in await database.write(work) for (name,) in rows} == {"change"}
    assert (await database.interact(_values))["psetid"] == 1
