"""The numbered changes of the schema."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from lcc.config import DatabaseConfig
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.dialects import Dialect, dialect_for
from lcc.storage.database.migrations import (
    CONNECTIONS,
    FE,
    HUB,
    MAIN,
    PUSH,
    SPIDER,
    TASKS,
    Migration,
    SchemaError,
    migrate,
    migrations,
    split_statements,
)
from lcc.testing.mariadb import PrivateMariaDb

SETTINGS = DatabaseConfig()


def _connect(dialect: Dialect) -> Any:
    connection = import_module(dialect.driver).connect(**dialect.connect_arguments)
    dialect.opened(connection)
    return connection


def _migrate(dialect: Dialect, changes: list[Migration] | None = None, series: str = MAIN) -> int:
    connection = _connect(dialect)
    try:
        return migrate(dialect, connection, lambda: _connect(dialect), "epoch", series, changes)
    finally:
        connection.close()


def _shape(dialect: Dialect) -> dict[str, Any]:
    """Table -> its columns and indexes, as the database itself describes them."""
    connection = _connect(dialect)
    cursor = connection.cursor()

    def rows(sql: str) -> list[Any]:
        cursor.execute(sql)
        return list(cursor.fetchall())

    if dialect.name == "sqlite":
        names = [name for (name,) in rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        shape = {
            name: (rows(f"PRAGMA table_info({name})"), sorted(rows(f"PRAGMA index_list({name})"), key=repr))
            for name in names
        }
    else:
        names = [name for (name,) in rows("SHOW TABLES")]
        shape = {
            name: (rows(f"SHOW FULL COLUMNS FROM {name}"), [row[1:5] for row in rows(f"SHOW INDEX FROM {name}")])
            for name in names
        }
    connection.close()
    return shape


def _columns(dialect: Dialect) -> dict[str, list[tuple[str, bool, bool]]]:
    """Table -> (column, may be NULL, in the primary key)."""
    found = {}
    for table, (columns, _) in _shape(dialect).items():
        if dialect.name == "sqlite":
            found[table] = [(name, not strict, bool(key)) for _, name, _, strict, _, key in columns]
        else:
            found[table] = [(row[0], row[3] == "YES", row[4] == "PRI") for row in columns]
    return found


def test_both_backends_have_the_same_tables(tmp_path: Path, mariadb: PrivateMariaDb) -> None:
    sqlite = dialect_for("sqlite:main.db", tmp_path, SETTINGS)
    _migrate(sqlite)
    others: dict[str, list[tuple[str, bool, bool]]] = {}
    for series in (CONNECTIONS, HUB, PUSH, SPIDER, TASKS):
        other = dialect_for(f"sqlite:{series}.db", tmp_path, SETTINGS)
        _migrate(other, series=series)
        others |= _columns(other)
    mysql = dialect_for(mariadb.new_database(), tmp_path, SETTINGS)
    _migrate(mysql)
    assert _columns(sqlite) | others == _columns(mysql)
    for columns in _columns(mysql).values():
        assert any(key for _, _, key in columns)


def test_both_backends_have_the_same_tables_of_a_front_end(tmp_path: Path, mariadb: PrivateMariaDb) -> None:
    sqlite = dialect_for("sqlite:fe.db", tmp_path, SETTINGS)
    mysql = dialect_for(mariadb.new_database(), tmp_path, SETTINGS)
    for dialect in (sqlite, mysql):
        _migrate(dialect, series=FE)
    assert _columns(sqlite) == _columns(mysql)
    for name, columns in _columns(sqlite).items():
        assert any(key for _, _, key in columns), name


def test_tables_are_innodb_and_compare_bytes(tmp_path: Path, mariadb: PrivateMariaDb) -> None:
    url = mariadb.new_database()
    _migrate(dialect_for(url, tmp_path, SETTINGS))
    name = url.partition("?")[0].rpartition("/")[2]
    kinds = mariadb.execute(
        f"SELECT DISTINCT engine, table_collation FROM information_schema.tables WHERE table_schema = '{name}'"
    )
    assert kinds == [("InnoDB", "utf8mb4_bin")]


def test_upgraded_equals_fresh(backend: Any, mariadb: PrivateMariaDb, tmp_path: Path) -> None:
    """From each version that ever was, step by step, to the newest."""
    fresh = dialect_for(backend.url, backend.home, SETTINGS)
    _migrate(fresh)
    changes = migrations(fresh.name)
    for start in range(1, len(changes) + 1):
        url = f"sqlite:from{start}.db" if backend.kind == "sqlite" else mariadb.new_database()
        old = dialect_for(url, tmp_path, SETTINGS)
        for upto in range(start, len(changes) + 1):
            _migrate(old, changes[:upto])
        assert _shape(old) == _shape(fresh)


@pytest.mark.parametrize("series", [CONNECTIONS, HUB, PUSH, SPIDER, TASKS])
def test_upgraded_files_equal_fresh_ones(tmp_path: Path, series: str) -> None:
    changes = migrations("sqlite", series)
    shapes = []
    for start in range(1, len(changes) + 1):
        dialect = dialect_for(f"sqlite:from{start}.db", tmp_path, SETTINGS)
        connection = _connect(dialect)
        for upto in range(start, len(changes) + 1):
            migrate(dialect, connection, lambda: None, "epoch", series, changes[:upto])
        connection.close()
        shapes.append(_shape(dialect))
    assert all(shape == shapes[0] for shape in shapes)


def test_a_later_change_is_applied_once(backend: Any) -> None:
    dialect = dialect_for(backend.url, backend.home, SETTINGS)
    assert _migrate(dialect) == len(migrations(dialect.name))
    assert _migrate(dialect) == 0
    later = [
        *migrations(dialect.name),
        Migration(len(migrations(dialect.name)) + 1, "x", ("CREATE TABLE extra (a INTEGER NOT NULL PRIMARY KEY)",)),
    ]
    assert _migrate(dialect, later) == 1
    assert _migrate(dialect, later) == 0
    with pytest.raises(SchemaError, match="upgrade this program"):
        _migrate(dialect)


def test_a_change_that_was_interrupted_is_made_again(backend: Any) -> None:
    """On MySQL each statement is durable by itself, and the number of the change is written behind all of them."""
    dialect = dialect_for(backend.url, backend.home, SETTINGS)
    changes = migrations(dialect.name)
    add = "ALTER TABLE webusers ADD COLUMN extra INT NOT NULL DEFAULT 0"
    half = Migration(len(changes) + 1, "x", (add, "CREATE TABLE extra (a INTEGER NOT NULL PRIMARY KEY)"))
    with pytest.raises(Exception, match="nonsense"):
        _migrate(dialect, [*changes, attrs.evolve(half, statements=(add, "nonsense"))])
    assert _migrate(dialect, [*changes, half]) >= 1
    assert _migrate(dialect, [*changes, half]) == 0


def test_rows_that_a_change_ends_with_stay(backend: Any) -> None:
    """On MySQL nothing that ends a transaction comes behind them."""
    dialect = dialect_for(backend.url, backend.home, SETTINGS)
    changes = migrations(dialect.name)
    insert = "INSERT INTO counters (name, value) VALUES ('extra', 1)"
    _migrate(dialect, [*changes, Migration(len(changes) + 1, "x", (insert,))])
    connection = _connect(dialect)
    cursor = connection.cursor()
    cursor.execute("SELECT value FROM counters WHERE name = 'extra'")
    assert list(cursor.fetchall()) == [(1,)]
    connection.close()


def test_many_may_start_at_once(backend: Any) -> None:
    epochs: list[Any] = []

    def start(seed: int) -> None:
        database = BlockingDatabase(backend.url, backend.home, SETTINGS, random=Random(seed))
        epochs.append(database.interact(lambda txn: txn.query("SELECT value FROM meta WHERE name = 'epoch'")))
        epochs.append(database.interact(lambda txn: txn.query("SELECT COUNT(*) FROM counters")))
        database.close()

    threads = [threading.Thread(target=start, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(epochs) == 8 and len({repr(epoch) for epoch in epochs}) == 2


def test_statements_are_split() -> None:
    assert split_statements("-- a; b\nONE (a); -- c\n\nTWO\n  (b);\n") == ("ONE (a)", "TWO\n  (b)")
