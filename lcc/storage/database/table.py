"""A table's columns, declared once: what selects, inserts and updates name follows from the declaration."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from lcc.storage.database.transactions import Txn


class Table:
    """
    :param key: columns of the primary key.
    :param columns: those that are read and written as a row, in this order.
    :ivar select: ``SELECT … FROM …`` for all of them.
    """

    def __init__(self, name: str, key: Sequence[str], columns: Sequence[str]) -> None:
        self.name = name
        self.key = tuple(key)
        self.columns = tuple(columns)
        self.select = f"SELECT {', '.join(columns)} FROM {name}"

    def without(self, names: Collection[str]) -> tuple[str, ...]:
        """The columns but for these."""
        return tuple(column for column in self.columns if column not in names)

    def insert(self, txn: Txn, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows whose keys do not exist."""
        txn.insert(self.name, self.columns, rows)

    def upsert(self, txn: Txn, rows: Sequence[Sequence[Any]], update: Sequence[str] | None = None) -> None:
        """Insert rows; where the key exists, its row gets the new values.

        :param update: only of these columns; None: of all but the key.
        """
        txn.upsert(self.name, self.columns, rows, self.key, update)


def due_where(failing: bool, share: str, without: Collection[str]) -> str:
    """The condition of what may be done at servers of strangers (:class:`lcc.roles.places.Places`).

    :param failing: rows whose column ``failures`` is above 0, or the others.
    :param share: the column of who has a share.
    :param without: whose rows are left out: the parameters of the condition.
    """
    where = "failures > 0" if failing else "failures = 0"
    return f"{where} AND {share} NOT IN ({', '.join('?' * len(without))})" if without else where
