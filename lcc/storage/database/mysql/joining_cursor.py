"""Statements of a MySQL transaction that travel together.

What is written waits until something is asked, or until the commit, and goes in one packet with it: each round trip
costs both sides more than most statements do.  The server carries a packet out statement by statement and ends at the
first one that fails; so all is as if they had been sent one by one, but that a failure is told later.

Only a connection that was made for it (:attr:`lcc.storage.database.dialects.Dialect.writer_arguments`) takes such
packets; on any other each statement goes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_PACKET_CHARS_MAX = 1 << 20
"""What waits is sent once it is so long (``max_allowed_packet`` is 16 MB or more)."""


def _packets(statements: Sequence[str]) -> Iterator[list[str]]:
    """These statements, as many at once as a packet takes."""
    some: list[str] = []
    chars = 0
    for statement in statements:
        if some and chars + len(statement) > _PACKET_CHARS_MAX:
            yield some
            some, chars = [], 0
        some.append(statement)
        chars += len(statement)
    if some:
        yield some


class JoiningCursor:
    """A cursor of PyMySQL for one transaction.

    :param whole: :meth:`commit` ends the transaction.
    """

    def __init__(self, connection: Any, whole: bool) -> None:
        from pymysql.constants import CLIENT

        self._connection = connection
        self._cursor = connection.cursor()
        self._joins = whole and bool(connection.client_flag & CLIENT.MULTI_STATEMENTS)
        self._waiting: list[str] = []
        self._chars = 0
        self._rows: Sequence[tuple[Any, ...]] = ()

    def write(self, statement: str) -> None:
        """Run a statement that gives no rows, before the next one that does."""
        if not self._joins:
            self._cursor.execute(statement)
            return
        self._waiting.append(statement)
        self._chars += len(statement)
        if self._chars > _PACKET_CHARS_MAX:
            self._send()

    def query(self, statement: str) -> None:
        """Run a SELECT; its rows are to be fetched."""
        if self._waiting:
            self._rows = self._send(statement)[-1]
        else:
            self._cursor.execute(statement)
            self._rows = self._cursor.fetchall()

    def query_several(self, statements: Sequence[str]) -> list[Sequence[tuple[Any, ...]]]:
        """The rows of each of these SELECTs."""
        if not self._joins:
            return [self._rows_of(statement) for statement in statements]
        rows: list[Sequence[tuple[Any, ...]]] = []
        for some in _packets(statements):
            found = self._send(*some)
            rows += found[len(found) - len(some) :]
        return rows

    def _rows_of(self, statement: str) -> Sequence[tuple[Any, ...]]:
        self.query(statement)
        return self.fetchall()

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        """The rows of the last SELECT."""
        return self._rows

    def commit(self) -> None:
        """Make all of it durable."""
        if self._waiting:
            self._send("COMMIT")
        elif not self._connection.get_autocommit() or self._in_transaction():
            self._connection.commit()

    def _in_transaction(self) -> bool:
        """Whether one has been begun explicitly, as the server said with its last answer."""
        from pymysql.constants import SERVER_STATUS

        return bool(self._connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    def close(self) -> None:
        """Forget what was not sent."""
        self._waiting.clear()
        self._cursor.close()

    def _send(self, *last: str) -> list[Sequence[tuple[Any, ...]]]:
        """What waits, and these; gives the rows of each."""
        waiting, self._waiting, self._chars = self._waiting, [], 0
        cursor = self._cursor
        cursor.execute(";".join([*waiting, *last]))
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
        return found
