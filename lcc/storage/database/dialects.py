"""What differs between SQLite and MySQL (MariaDB): connections, transactions, bulk writes, transient errors.

All other SQL is written once, for both, with ``?`` for a parameter.
"""

from __future__ import annotations

import errno
import math
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from lcc.config import DatabaseConfig, is_local_host
from lcc.config.mysql_url import FORM, parse_mysql_url
from lcc.errors import ConfigError
from lcc.storage.database.mysql.joining_cursor import JoiningCursor
from lcc.storage.database.mysql.literals import literals, row_literals
from lcc.storage.database.mysql.tls import database_tls


class DatabaseFault(Enum):
    """What an exception of the driver means for the transaction."""

    AGAIN = "again"
    """Rolled back (deadlock, lock timeout): retry on the same connection."""
    LOST = "lost"
    """The connection was lost or refused: retry on a new one."""
    FULL = "full"
    """The database's disk is full or read-only: rolled back, an immediate retry is useless."""
    SLOW = "slow"
    """A query exceeded :attr:`Dialect.read_seconds`."""


class Dialect(ABC):
    """One kind of database.

    :ivar name: also the name of its SQL files.
    :ivar driver: the DB-API module.
    :ivar connect_arguments: for its ``connect``; they may hold a password.
    :ivar values_max: values in one IN list.
    :ivar for_update: appended to a SELECT that locks its rows until the end of the transaction.
    :ivar pads: of two texts that are compared the shorter one is filled up with spaces.
    :ivar read_seconds: readers are read-only, with this query timeout; 0: no timeout.
    :ivar cache_kib: of pages that a connection keeps, where the database is in this process.
    :ivar random_bits: returns an unguessable number of so many bits; a simulation brings its own.
    """

    name: str
    driver: str
    values_max: int
    for_update: str
    pads: bool

    def __init__(self, connect_arguments: dict[str, Any], shown: str) -> None:
        self.connect_arguments = connect_arguments
        self._shown = shown
        self.random_bits: Callable[[int], int] = secrets.randbits
        self.read_seconds = 0.0
        self.cache_kib = 16384

    def __repr__(self) -> str:
        return f"<{self.name} {self._shown}>"

    @property
    def certifies(self) -> bool:
        """Whether locks are local to a node of the cluster: a conflict with another node is detected at COMMIT, and
        only if both transactions changed the same row."""
        return False

    @abstractmethod
    def opened(self, connection: Any) -> None:
        """Set a new connection up."""

    @property
    def writer_arguments(self) -> dict[str, Any]:
        """As :attr:`connect_arguments`, for the writer of a role."""
        return self.connect_arguments

    @property
    def reader_arguments(self) -> dict[str, Any]:
        """As :attr:`connect_arguments`, for readers."""
        return self.connect_arguments

    @abstractmethod
    def begin(self, connection: Any, write: bool) -> None:
        """Begin a transaction."""

    @abstractmethod
    def begin_snapshot(self, cursor: Any) -> None:
        """In a read transaction: all queries from now on see one snapshot.

        :param cursor: not used yet.
        """

    def cursor(self, connection: Any, whole: bool) -> Any:
        """A cursor for the statements of a transaction.

        :param whole: the transaction ends with :meth:`finish`, so writes may be sent as late as then.
        """
        return connection.cursor()

    def finish(self, connection: Any, cursor: Any) -> None:
        """Send pending statements and commit."""
        cursor.close()
        self.commit(connection)

    @abstractmethod
    def commit(self, connection: Any) -> None:
        """Commit."""

    @abstractmethod
    def rollback(self, connection: Any) -> None:
        """Roll back."""

    @abstractmethod
    def trouble(self, error: BaseException) -> DatabaseFault | None:
        """What this exception means; None: it is not transient."""

    def is_there_already(self, error: BaseException) -> bool:
        """Whether a schema change failed because it was made before."""
        return False

    def reason(self, error: BaseException) -> str:
        """The message of this exception."""
        return str(error) or type(error).__name__

    def remedy(self) -> str:
        """What to do if the disk is full."""
        return "make room on the disk of the database"

    @abstractmethod
    def query(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        """Run one SELECT."""

    @abstractmethod
    def execute(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement without result; a cursor may defer it, but keeps the order of statements."""

    @abstractmethod
    def query_each(self, cursor: Any, sql: str, each: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """The rows of this SELECT for each of these lists of parameters, concatenated, in any order."""

    @abstractmethod
    def query_ranges(
        self, cursor: Any, select: str, condition: str, each: Sequence[Sequence[Any]], order: str, limit: int
    ) -> list[tuple[Any, ...]]:
        """See :meth:`lcc.storage.database.transactions.Txn.query_ranges`."""

    @abstractmethod
    def query_several(
        self, cursor: Any, questions: Sequence[tuple[str, Sequence[Any]]]
    ) -> list[Sequence[tuple[Any, ...]]]:
        """The rows of each of these SELECTs, run in this order."""

    @abstractmethod
    def write_rows(self, cursor: Any, head: str, tail: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run ``head VALUES (…), (…) tail`` for these rows."""

    @abstractmethod
    def by_index(self, name: str) -> str:
        """Index hint, put behind a table's name (and alias) in a SELECT.

        Given ORDER BY with LIMIT, databases tend to scan the primary key until they have found enough rows, which may
        be far.
        """

    @abstractmethod
    def on_duplicate(self, key: Sequence[str], update: Iterable[str]) -> str:
        """The tail of an upsert: these columns take the new row's values if the key exists."""


class SqliteDialect(Dialect):
    """A file in WAL mode, every commit synced.  The path may not be ``:memory:`` (one for each connection)."""

    name = "sqlite"
    driver = "sqlite3"
    values_max = 900
    for_update = ""
    pads = False

    _STEPS = 20_000
    """Of SQLite's machine, between looks at the clock: some milliseconds."""
    # Numbers, which SQLite keeps for ever: naming them would load a driver that who has MariaDB does not need.
    _AGAIN = frozenset({5, 6, 15})  # busy, locked, protocol
    _LOST = frozenset({8, 10, 14})  # read-only, I/O error, cannot be opened
    _INTERRUPTED = 9
    # Full; no room to write, to open, size or map the file of its shared memory, to sync, or to cut a file.
    _FULL = frozenset({13, 778, 4618, 4874, 5386, 1034, 1546})

    def __init__(self, path: Path) -> None:
        self.path = path
        arguments = {"database": str(path), "timeout": 10.0, "isolation_level": None, "check_same_thread": False}
        super().__init__(arguments, str(path))

    def opened(self, connection: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{self.cache_kib}")

    def begin(self, connection: Any, write: bool) -> None:
        if self.read_seconds and not write:
            # Only now: the first connection, whichever it is, makes the tables.
            connection.execute("PRAGMA query_only=ON")
            until = time.monotonic() + self.read_seconds
            connection.set_progress_handler(lambda: time.monotonic() > until, self._STEPS)
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def begin_snapshot(self, cursor: Any) -> None:
        """With the first SELECT of a transaction it has one in any case."""

    def commit(self, connection: Any) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: Any) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def trouble(self, error: BaseException) -> DatabaseFault | None:
        import sqlite3

        if not isinstance(error, sqlite3.Error):
            return None
        number = getattr(error, "sqlite_errorcode", None) or 0
        primary = number & 0xFF
        if primary in self._AGAIN:
            return DatabaseFault.AGAIN
        if primary == self._INTERRUPTED:
            return DatabaseFault.SLOW
        if number in self._FULL:
            return DatabaseFault.FULL
        return DatabaseFault.LOST if primary in self._LOST else None

    def remedy(self) -> str:
        return f"make room on the disk of {self.path.parent}"

    def query(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        cursor.execute(sql, parameters)

    def execute(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        cursor.execute(sql, parameters)

    def query_each(self, cursor: Any, sql: str, each: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for parameters in each:
            rows += cursor.execute(sql, parameters).fetchall()
        return rows

    def query_ranges(
        self, cursor: Any, select: str, condition: str, each: Sequence[Sequence[Any]], order: str, limit: int
    ) -> list[tuple[Any, ...]]:
        sql = f"{select} WHERE {condition} ORDER BY {order} LIMIT ?"
        rows: list[tuple[Any, ...]] = []
        for parameters in each:
            rows += cursor.execute(sql, [*parameters, limit - len(rows)]).fetchall()
            if len(rows) >= limit:
                break
        return rows

    def query_several(
        self, cursor: Any, questions: Sequence[tuple[str, Sequence[Any]]]
    ) -> list[Sequence[tuple[Any, ...]]]:
        return [cursor.execute(sql, parameters).fetchall() for sql, parameters in questions]

    def write_rows(self, cursor: Any, head: str, tail: str, rows: Sequence[Sequence[Any]]) -> None:
        # In one transaction a prepared statement, bound again for each row, beats a long VALUES list.
        marks = ", ".join("?" * len(rows[0]))
        cursor.executemany(f"{head} VALUES ({marks}) {tail}", rows)

    def by_index(self, name: str) -> str:
        return f"INDEXED BY {name}"

    def on_duplicate(self, key: Sequence[str], update: Iterable[str]) -> str:
        changes = ", ".join(f"{column} = excluded.{column}" for column in update)
        return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


@lru_cache(maxsize=128)  # of statements with a list there is one for each length of it
def _percent_style(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


def _with_literals(sql: str, parameters: Sequence[Any]) -> str:
    return _percent_style(sql) % tuple(literals(parameters)) if parameters else sql


_MYSQL_LIMIT = ("max_execution_time", 1000)


class MysqlDialect(Dialect):
    """MySQL, MariaDB, Galera, TiDB through PyMySQL.

    Statements are sent as text with literals in it; the session's ``sql_mode`` is ours, so that a backslash escapes.
    """

    name = "mysql"
    driver = "lcc.storage.database.mysql.servers"
    values_max = 900  # MariaDB puts lists of 1000 and more into a temporary table
    for_update = " FOR UPDATE"
    pads = True

    ROWS_MAX = 1000
    SELECTS_MAX = 64
    STATEMENT_CHARS_MAX = 1 << 20
    """A statement is cut at this size (``max_allowed_packet`` is 16 MB or more)."""

    # 1180: commit failed; 8002, 8022, 9007: TiDB's write conflicts; 1020: MariaDB 11's snapshot isolation.
    _AGAIN = frozenset({1205, 1213, 1020, 1180, 3572, 8002, 8022, 8028, 9007})
    # Too many connections, shutting down, read-only for now, killed, gone, lost, out of order, not in a cluster.
    _LOST = frozenset(
        {0, 1040, 1047, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1290, 1317, 1792, 1836, 1927}
        | {2002, 2003, 2005, 2006, 2012, 2013, 2014, 2026, 2055, 4031, 8027, 9001, 9002, 9003, 9005}
        # A wrong password or name: once it is mended at the server, nothing needs to be started again.
        | {1044, 1045, 1049, 1698}
    )
    # max_statement_time of MariaDB, max_execution_time of MySQL.
    _SLOW = frozenset({1969, 3024})
    # A file cannot be made or written; the disk, a table, or a temporary file is full.
    _FULL = frozenset({1, 3, 20, 1004, 1021, 1026, 1114, 1878})
    # Of these only where the text has the number of such an error of the system (122 is no EDQUOT, but an engine's).
    _FULL_MAYBE = frozenset({1005, 1016, 1030})
    _ERROR_NUMBER = re.compile(r"(?:error|errno:|Errcode:) (\d+)\b")
    _DISK_ERRORS = frozenset({errno.EIO, errno.ENOSPC, errno.EROFS})
    _THERE_ALREADY = frozenset({1060, 1061})  # a column, an index
    _SESSION = (
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )
    _CAUSAL = "SET SESSION wsrep_sync_wait = 7"
    """A transaction, or a statement that is none's, begins when its node has all that was committed at any other
    before: who reads (1), changes or deletes (2) or inserts (4)."""

    def __init__(self, url: str, home: Path, settings: DatabaseConfig) -> None:
        # Only who has such a database needs its driver.
        from lcc.storage.database.mysql.servers import Servers

        try:
            parsed = parse_mysql_url(url)
        except ValueError:
            raise ConfigError([f"database.url: must be {FORM}"]) from None
        self._servers = Servers(parsed.servers)
        arguments: dict[str, Any] = {
            "servers": self._servers,
            "user": parsed.user,
            "password": parsed.password,
            "database": parsed.name,
            "charset": "utf8mb4",
            "autocommit": False,
            "connect_timeout": settings.connect_timeout,
            "read_timeout": settings.query_timeout,
            "write_timeout": settings.query_timeout,
        }
        shown = f"{','.join(f'{host}:{port}' for host, port in parsed.servers)}/{parsed.name}"
        if parsed.unix_socket:
            arguments["unix_socket"] = parsed.unix_socket
            shown = f"{parsed.unix_socket}/{parsed.name}"
            arguments["ssl_disabled"] = True
        elif settings.tls_authority:
            arguments["ssl"] = database_tls(home, settings)
            shown = f"tls:{shown}"
        else:
            arguments["ssl_disabled"] = all(is_local_host(host) for host, _ in parsed.servers)
        super().__init__(arguments, shown)

    @property
    def certifies(self) -> bool:
        return self._servers.galera

    def opened(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            for statement in self._SESSION:
                cursor.execute(statement)
            if self._servers.galera:
                cursor.execute(self._CAUSAL)
            if self.read_seconds:
                kind, unit = ("max_statement_time", 1) if "MariaDB" in connection.get_server_info() else _MYSQL_LIMIT
                cursor.execute(f"SET SESSION {kind} = {math.ceil(self.read_seconds * unit)}")

    @property
    def writer_arguments(self) -> dict[str, Any]:
        from pymysql.constants import CLIENT

        return {**self.connect_arguments, "client_flag": CLIENT.MULTI_STATEMENTS}

    @property
    def reader_arguments(self) -> dict[str, Any]:
        # A single SELECT is consistent by itself: there is no transaction to end, a round trip less.
        return {**self.writer_arguments, "autocommit": True}

    def cursor(self, connection: Any, whole: bool) -> Any:
        return JoiningCursor(connection, whole)

    def finish(self, connection: Any, cursor: Any) -> None:
        cursor.commit()
        cursor.close()

    def begin(self, connection: Any, write: bool) -> None:
        """The first statement begins it, but where each is a transaction of its own."""
        if write and connection.get_autocommit():
            connection.begin()

    def begin_snapshot(self, cursor: Any) -> None:
        # They travel with the first question.
        cursor.write("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.write(f"START TRANSACTION WITH CONSISTENT SNAPSHOT{', READ ONLY' if self.read_seconds else ''}")

    def commit(self, connection: Any) -> None:
        connection.commit()

    def rollback(self, connection: Any) -> None:
        connection.rollback()

    def trouble(self, error: BaseException) -> DatabaseFault | None:
        import pymysql

        if isinstance(error, OSError):
            return DatabaseFault.LOST
        if not isinstance(error, pymysql.err.Error):
            return None
        number = error.args[0] if error.args and isinstance(error.args[0], int) else None
        if number in self._AGAIN:
            return DatabaseFault.AGAIN
        if number in self._SLOW:
            return DatabaseFault.SLOW
        if number in self._FULL or (number in self._FULL_MAYBE and self._is_of_the_disk(str(error.args[-1]))):
            return DatabaseFault.FULL
        return DatabaseFault.LOST if number in self._LOST else None

    def is_there_already(self, error: BaseException) -> bool:
        import pymysql

        return isinstance(error, pymysql.err.Error) and error.args[0] in self._THERE_ALREADY

    def _is_of_the_disk(self, text: str) -> bool:
        match = self._ERROR_NUMBER.search(text)
        return match is not None and int(match[1]) in self._DISK_ERRORS

    def remedy(self) -> str:
        return "make room on the disk of the database server (its datadir)"

    def reason(self, error: BaseException) -> str:
        if len(error.args) == 2 and isinstance(error.args[0], int):
            return f"{error.args[1]} ({error.args[0]})"  # without the parentheses and quotes of a tuple
        return super().reason(error)

    def query(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        cursor.query(_with_literals(sql, parameters))

    def execute(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        cursor.write(_with_literals(sql, parameters))

    def query_each(self, cursor: Any, sql: str, each: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        # A round trip costs more than a walk along an index.
        select = f"({_percent_style(sql)})"
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(each), self.SELECTS_MAX):
            some = each[start : start + self.SELECTS_MAX]
            selects = [select % tuple(literals(values)) for values in some]
            cursor.query(" UNION ALL ".join(selects))
            rows += cursor.fetchall()
        return rows

    def query_ranges(
        self, cursor: Any, select: str, condition: str, each: Sequence[Sequence[Any]], order: str, limit: int
    ) -> list[tuple[Any, ...]]:
        # A SELECT of its own costs the server three times as much as one range of many.
        rows: list[tuple[Any, ...]] = []
        pattern = _percent_style(f"({condition})")
        for start in range(0, len(each), self.SELECTS_MAX):
            if len(rows) >= limit:
                break
            ranges = " OR ".join(
                [pattern % tuple(literals(values)) for values in each[start : start + self.SELECTS_MAX]]
            )
            cursor.query(f"{select} WHERE {ranges} ORDER BY {order} LIMIT {limit - len(rows)}")
            rows += cursor.fetchall()
        return rows

    def query_several(
        self, cursor: Any, questions: Sequence[tuple[str, Sequence[Any]]]
    ) -> list[Sequence[tuple[Any, ...]]]:
        found: list[Sequence[tuple[Any, ...]]] = cursor.query_several(
            [_with_literals(sql, parameters) for sql, parameters in questions]
        )
        return found

    def write_rows(self, cursor: Any, head: str, tail: str, rows: Sequence[Sequence[Any]]) -> None:
        for start in range(0, len(rows), self.ROWS_MAX):
            parts: list[str] = []
            size = 0
            for part in row_literals(rows[start : start + self.ROWS_MAX]):
                parts.append(part)
                size += len(part)
                if size > self.STATEMENT_CHARS_MAX:
                    cursor.write(f"{head} VALUES {','.join(parts)} {tail}")
                    parts, size = [], 0
            if parts:
                cursor.write(f"{head} VALUES {','.join(parts)} {tail}")

    def by_index(self, name: str) -> str:
        return f"FORCE INDEX ({name})"

    def on_duplicate(self, key: Sequence[str], update: Iterable[str]) -> str:
        changes = ", ".join(f"{column} = VALUES({column})" for column in update)
        return f"ON DUPLICATE KEY UPDATE {changes}"


def dialect_for(url: str, home: Path, settings: DatabaseConfig) -> Dialect:
    """The dialect of a database URL.

    :param home: a SQLite file, and the files for TLS, are relative to it.
    :raises ConfigError: the URL cannot be understood, or what TLS needs cannot be read.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest:
        return SqliteDialect(home / rest)
    if scheme == "mysql":
        return MysqlDialect(url, home, settings)
    raise ConfigError(["database.url: must be sqlite:FILE or mysql://user:password@host:port/name"])
