"""Numbered schema changes: ``sql/NNN_name.DIALECT.sql``, applied in order, each once.

Several processes may start at the same time; a schema newer than this program is refused.  The table ``meta`` keeps
the number of the last change applied, under the name of the series (``schema``; SQLite's order numbers, in a file of
their own, are the series ``connections``, its tasks the series ``tasks``, its crawls the series ``spider``,
what sites push the series ``push``, subscribers of the hub the series ``hub``; a front end's database, which is no
LCC's, is the series ``fe``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import attrs

from lcc.storage.database.conversions import CONVERSIONS, Conversion
from lcc.storage.database.dialects import Dialect
from lcc.storage.database.transactions import Txn

MAIN = "schema"
CONNECTIONS = "connections"
TASKS = "tasks"
SPIDER = "spider"
PUSH = "push"
HUB = "hub"
FE = "fe"

_APART = {FE: MAIN, MAIN: FE}
"""Series whose tables must not be in one database: both have tables of the same names."""

_FILE = re.compile(r"(?:(?P<series>[a-z]+)_)?(?P<number>\d{3})_(?P<name>[a-z_]+)\.(?P<dialect>[a-z]+)\.sql")
_is_from = re.compile(r"^-- from (?P<file>\w+): (?P<tables>[a-z_, ]+)$", re.MULTILINE)
"""A line of a file: the statements about these tables in another file of the same dialect."""
_about = re.compile(r"CREATE (?:TABLE|INDEX \w+ ON) (?:IF NOT EXISTS )?(\w+)")
_CREATE_META = {
    "sqlite": "CREATE TABLE IF NOT EXISTS meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "mysql": (
        "CREATE TABLE IF NOT EXISTS meta (name VARCHAR(64) NOT NULL PRIMARY KEY, value VARCHAR(255) NOT NULL)"
        " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    ),
}


class SchemaError(Exception):
    """This version of the program cannot use the database."""


@attrs.frozen
class Migration:
    """One file of schema changes.

    :ivar convert: to be done behind the statements; None: that is all.
    """

    number: int
    name: str
    statements: tuple[str, ...]
    convert: Conversion | None = None


def split_statements(text: str) -> tuple[str, ...]:
    """The statements of a file: separated by ``;``, comments (``--`` to the end of the line) taken out."""
    bare = re.sub(r"--[^\n]*", "", text)
    return tuple(statement.strip() for statement in bare.split(";") if statement.strip())


def _statements(text: str, dialect_name: str) -> tuple[str, ...]:
    """The statements of a file, and those that it has from others."""
    found = list(split_statements(text))
    for line in _is_from.finditer(text):
        tables = set(line["tables"].split(", "))
        other = resources.files("lcc.storage.sql").joinpath(f"{line['file']}.{dialect_name}.sql")
        abouts = [(statement, _about.match(statement)) for statement in split_statements(other.read_text("utf-8"))]
        found += [statement for statement, about in abouts if about is not None and about[1] in tables]
    return tuple(found)


def migrations(dialect_name: str, series: str = MAIN) -> list[Migration]:
    """All changes of a series, in order.

    :raises SchemaError: a number is missing or there twice.
    """
    found = []
    for entry in resources.files("lcc.storage.sql").iterdir():
        match = _FILE.fullmatch(entry.name)
        if match and match["dialect"] == dialect_name and (match["series"] or MAIN) == series:
            statements = _statements(entry.read_text("utf-8"), dialect_name)
            found.append(Migration(int(match["number"]), entry.name, statements, CONVERSIONS.get(match["name"])))
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise SchemaError(f"migrations of {series} for {dialect_name} are not numbered 1, 2, 3 …")
    return found


def migrate(
    dialect: Dialect,
    connection: Any,
    open_another: Callable[[], Any],
    new_epoch: str,
    series: str = MAIN,
    changes: list[Migration] | None = None,
) -> int:
    """Migrate a database; does nothing, and takes no lock, if it is up to date.

    :param connection: not within a transaction.
    :param open_another: opens a second connection (MySQL: changes of the schema end a transaction, so that the lock
        has to be held by another one).
    :param new_epoch: names the database if it is created now.
    :returns: the number of changes applied.
    :raises SchemaError: the database is newer than this program.
    """
    if changes is None:
        changes = migrations(dialect.name, series)
    if _current(dialect, connection, series, len(changes)) == len(changes):
        return 0
    if dialect.name == "sqlite":
        return _locked_migrate(dialect, connection, connection, new_epoch, series, changes)
    worker = open_another()
    try:
        return _locked_migrate(dialect, connection, worker, new_epoch, series, changes)
    finally:
        worker.close()


def _current(dialect: Dialect, connection: Any, series: str, newest: int) -> int:
    """The number of the last change applied; the table ``meta`` exists afterwards."""
    txn = Txn(dialect, connection)
    if not _has_meta(txn):
        txn.execute(_CREATE_META[dialect.name])
    number = _number(txn, series, newest)
    txn.close()
    dialect.rollback(connection)
    return number


def _has_meta(txn: Txn) -> bool:
    if txn.dialect.name == "sqlite":
        return txn.one("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'") is not None
    sql = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'meta'"
    return txn.one(sql) is not None


def _number(txn: Txn, series: str, newest: int, lock: str = "") -> int:
    if series in _APART and txn.one("SELECT 1 FROM meta WHERE name = ? AND value > '0'", [_APART[series]]):
        words = "an LCC's" if series == FE else "a front end's"
        raise SchemaError(f"{txn.dialect!r}: this is {words} database; a front end needs one of its own")
    number = int(txn.value(f"SELECT value FROM meta WHERE name = ?{lock}", [series], "0"))
    if number > newest:
        raise SchemaError(
            f"{txn.dialect!r}: the schema has version {number}, this program supports only {newest}: upgrade this "
            "program"
        )
    return number


def _locked_migrate(
    dialect: Dialect, lock: Any, worker: Any, new_epoch: str, series: str, changes: list[Migration]
) -> int:
    dialect.begin(lock, True)
    holder = Txn(dialect, lock)
    # Locks the row until the end, also if there was none before.
    holder.upsert("meta", ["name", "value"], [(series, "0")], ["name"], ["name"])
    number = _number(holder, series, len(changes), holder.for_update)
    doer = holder if worker is lock else Txn(dialect, worker)
    for change in changes[number:]:
        # On SQLite all changes are one transaction, that of the lock.
        _apply(change, doer, lambda: None if worker is lock else dialect.commit(worker))
    holder.execute("UPDATE meta SET value = ? WHERE name = ?", [str(len(changes)), series])
    if series != CONNECTIONS and holder.one("SELECT value FROM meta WHERE name = 'epoch'") is None:
        holder.insert("meta", ["name", "value"], [("epoch", new_epoch)])
    holder.close()
    dialect.commit(lock)
    return len(changes) - number


def _apply(change: Migration, doer: Txn, commit: Callable[[], None]) -> None:
    for statement in change.statements:
        try:
            doer.execute(statement)
        except Exception as error:
            # Not within a transaction on MySQL: an earlier attempt may have been ended behind it.
            if not doer.dialect.is_there_already(error):
                raise
    commit()
    if change.convert is not None:
        after = change.convert(doer, None)
        commit()
        while after is not None:
            after = change.convert(doer, after)
            commit()
