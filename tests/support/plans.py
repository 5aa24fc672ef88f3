"""Transactions that ask MariaDB how it is going to answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcc.storage.database.transactions import Txn


class ExplainingCursor:
    """Explains each SELECT, UPDATE and DELETE before it is done.

    :ivar plans: (statement, table, kind of access, index, rows looked at).
    """

    def __init__(self, cursor: Any) -> None:
        self.plans: list[tuple[str, str, str, str | None, int]] = []
        self.fetchall = cursor.fetchall
        self._cursor = cursor

    def query(self, sql: str) -> None:
        self._explain(sql)
        self._cursor.query(sql)

    def query_several(self, statements: Sequence[str]) -> list[Sequence[tuple[Any, ...]]]:
        for sql in statements:
            self._explain(sql)
        found: list[Sequence[tuple[Any, ...]]] = self._cursor.query_several(statements)
        return found

    def write(self, sql: str) -> None:
        self._explain(sql)
        self._cursor.write(sql)

    def _explain(self, sql: str) -> None:
        if sql.lstrip("(").split()[0] in ("SELECT", "UPDATE", "DELETE"):
            self._cursor.query(f"EXPLAIN {sql}")
            for row in self._cursor.fetchall():
                _id, _kind, table, access, _possible, index, _length, _ref, rows, *_extra = row
                if table is not None and not table.startswith("<"):
                    self.plans.append((sql, table, access, index, int(rows or 0)))


class Explaining(Txn):
    """A transaction whose statements are explained."""

    def __init__(self, txn: Txn) -> None:
        self.dialect = txn.dialect
        self._cursor = ExplainingCursor(txn._cursor)

    @property
    def plans(self) -> list[tuple[str, str, str, str | None, int]]:
        return self._cursor.plans
