"""The transaction that an interaction works with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from lcc.storage.database.dialects import Dialect


class Access(Enum):
    """The kind of a transaction that is run as a whole."""

    WRITE = "write"
    """Reads what is committed, and writes."""
    SNAPSHOT = "snapshot"
    """Read-only, on one snapshot."""
    SELECT = "select"
    """A single SELECT, without BEGIN and COMMIT."""


class Question(NamedTuple):
    """A SELECT.

    :ivar values: replace its ``{in}``, however many; None: it has no ``{in}``.
    :ivar before: parameters before these.
    """

    sql: str
    values: Sequence[Any] | None = None
    before: Sequence[Any] = ()


class RowJournal(Protocol):
    """Notes which rows a transaction writes."""

    def written(self, txn: Txn, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """These rows are inserted, or updated."""

    def changed(self, txn: Txn, sql: str, keys: Sequence[Any]) -> None:
        """A statement was run whose ``{in}`` stands for these values."""


class Txn:
    """The transaction of an interaction; parameters are ``?`` on every database.

    Interactions must be idempotent: they may be run again from the start, even after a commit whose result was lost.
    """

    _left: int | None = None
    """Statements left; None: any number."""
    journal: RowJournal | None = None
    """Is told which rows are written; None: nobody wants to know."""

    def __init__(self, dialect: Dialect, connection: Any, access: Access | None = None) -> None:
        """
        :param access: its kind, if it ends with :meth:`finish`; then writes may be sent as late as that.  None: it
            ends in another way.
        """
        self.dialect = dialect
        self._connection = connection
        self._cursor = dialect.cursor(connection, access is not None)
        if access is Access.SELECT:
            self._left = 1
        # Who may not write says so where a transaction begins.
        if access is Access.SNAPSHOT or (access is Access.SELECT and dialect.read_seconds):
            dialect.begin_snapshot(self._cursor)

    def _count(self, statements: int = 1) -> None:
        """Count statements.

        :raises RuntimeError: more than one in :attr:`Access.SELECT`: they would see different snapshots.
        """
        if self._left is not None:
            self._left -= statements
            if self._left < 0:
                raise RuntimeError("several statements where one SELECT is allowed: use interact()")

    @property
    def for_update(self) -> str:
        """Append it to a SELECT whose rows this transaction will change."""
        return self.dialect.for_update

    def random_bits(self, count: int) -> int:
        """An unguessable number of so many bits."""
        return self.dialect.random_bits(count)

    def by_index(self, name: str) -> str:
        """Put it behind a table's name in a SELECT to force this index."""
        return self.dialect.by_index(name)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement without result."""
        self._count()
        self.dialect.execute(self._cursor, sql, parameters)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT."""
        self._count()
        self.dialect.query(self._cursor, sql, parameters)
        return list(self._cursor.fetchall())

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a SELECT; None: it has none."""
        self._count()
        self.dialect.query(self._cursor, sql, parameters)
        rows = self._cursor.fetchall()
        return rows[0] if rows else None

    def value(self, sql: str, parameters: Sequence[Any] = (), default: Any = None) -> Any:
        """The first value of the first row; ``default``: there is no row, or it is NULL."""
        row = self.one(sql, parameters)
        return default if row is None or row[0] is None else row[0]

    def query_each(self, sql: str, each: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """The rows of a SELECT for each of many lists of parameters, concatenated, in any order; in as few statements
        as possible.  The SELECT may have an ORDER BY with a LIMIT."""
        self._count(len(each))
        return self.dialect.query_each(self._cursor, sql, each) if each else []

    def query_ranges(
        self, select: str, condition: str, each: Sequence[Sequence[Any]], order: str, limit: int
    ) -> list[tuple[Any, ...]]:
        """The first rows of many ranges of an index, in as few statements as possible.  For ranges that hold few rows
        that is much cheaper than :meth:`query_each`.

        :param condition: says which rows are in a range.
        :param each: its parameters for each range; in this order.
        :param order: the columns of the index.
        :param limit: rows at most, of all ranges together.
        """
        self._count(len(each))
        return self.dialect.query_ranges(self._cursor, select, condition, each, order, limit) if each else []

    def query_several(self, questions: Sequence[Question]) -> list[list[tuple[Any, ...]]]:
        """The rows of each of these questions, which are run in this order."""
        parts: list[tuple[str, Sequence[Any]]] = []
        counts: list[int] = []
        for sql, values, before in questions:
            if values is None:
                parts.append((sql, before))
                counts.append(1)
                continue
            chunks = [(sql.replace("{in}", marks), [*before, *chunk]) for chunk, marks in self._chunks(values)]
            parts += chunks
            counts.append(len(chunks))
        self._count(len(parts))
        found = iter(self.dialect.query_several(self._cursor, parts))
        return [[row for _ in range(count) for row in next(found)] for count in counts]

    def query_in(
        self, sql: str, values: Iterable[Any], before: Sequence[Any] = (), after: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT whose ``{in}`` stands for a list of values, however long it is.

        :param before, after: parameters of the SELECT before and after the list.
        """
        rows: list[tuple[Any, ...]] = []
        for chunk, marks in self._chunks(values):
            rows += self.query(sql.replace("{in}", marks), [*before, *chunk, *after])
        return rows

    def execute_in(
        self, sql: str, values: Iterable[Any], before: Sequence[Any] = (), after: Sequence[Any] = ()
    ) -> None:
        """As :meth:`query_in`, for a statement without result."""
        for chunk, marks in self._chunks(values):
            self.execute(sql.replace("{in}", marks), [*before, *chunk, *after])
            if self.journal is not None:
                self.journal.changed(self, sql, chunk)

    def _chunks(self, values: Iterable[Any]) -> Iterator[tuple[list[Any], str]]:
        every = list(values)
        step = self.dialect.values_max
        for start in range(0, len(every), step):
            chunk = every[start : start + step]
            yield chunk, ",".join("?" * len(chunk))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert many rows, in as few statements as possible."""
        if self.journal is not None:
            self.journal.written(self, table, columns, rows)
        if rows:
            self.dialect.write_rows(self._cursor, f"INSERT INTO {table} ({', '.join(columns)})", "", rows)

    def upsert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        key: Sequence[str],
        update: Sequence[str] | None = None,
    ) -> None:
        """Insert rows; if the key exists, update its row.

        :param update: only these columns of an existing row; None: all but the key.
        """
        if self.journal is not None:
            self.journal.written(self, table, columns, rows)
        if rows:
            changing = [column for column in columns if column not in key] if update is None else update
            head = f"INSERT INTO {table} ({', '.join(columns)})"
            self.dialect.write_rows(self._cursor, head, self.dialect.on_duplicate(key, changing), rows)

    def finish(self) -> None:
        """Commit.  For the code that began the transaction."""
        self.dialect.finish(self._connection, self._cursor)

    def close(self) -> None:
        """Release the cursor.  For the code that began a transaction without :class:`Access`."""
        self._cursor.close()
