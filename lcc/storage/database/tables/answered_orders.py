"""Orders that are answered: rows that commands and the monitor write, and the role that owns the tables carries out.

They are carried out in the order in which they were given; the answer stands in the row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lcc.storage.database.tables.locked_counter import draw
from lcc.storage.database.transactions import Question, Txn

_COLUMNS = ("id", "kind", "target", "body", "time", "done_time", "answer")


def write_json(value: Any) -> str:
    """As columns hold it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class AnsweredOrders:
    """A table of orders.

    :param table: has the columns ``id``, ``kind``, ``target``, ``body`` (JSON), ``time``, ``done_time`` (NULL: open)
        and ``answer`` (JSON).
    :param ids: the counter of their numbers.
    """

    def __init__(self, table: str, ids: str) -> None:
        self._table = table
        self._ids = ids

    def give(self, txn: Txn, kind: str, target: int | str, body: Mapping[str, Any], now: int) -> int:
        """Add an order; returns its number."""
        number = draw(txn, self._ids)
        txn.insert(self._table, _COLUMNS, [(number, kind, target, write_json(body), now, None, "")])
        return number

    def open_ones(self, limit: int) -> Question:
        """Asks for the numbers of the next orders, in the order in which they were given."""
        return Question(f"SELECT id FROM {self._table} WHERE done_time IS NULL ORDER BY id LIMIT ?", None, [limit])

    def set_answer(self, txn: Txn, number: int, answer: Mapping[str, Any], now: int) -> None:
        """An order is done; ``error`` in its answer: it could not be."""
        sql = f"UPDATE {self._table} SET done_time = ?, answer = ? WHERE id = ?"
        txn.execute(sql, [now, write_json(answer), number])

    def answer(self, txn: Txn, number: int) -> dict[str, Any] | None:
        """What became of an order; None: it is open, or forgotten."""
        row = txn.one(f"SELECT done_time, answer FROM {self._table} WHERE id = ?", [number])
        return None if row is None or row[0] is None else dict(json.loads(row[1] or "{}"))

    def purge(self, txn: Txn, upto: int, limit: int) -> int:
        """Forget orders that were answered until then; returns how many."""
        sql = f"SELECT id FROM {self._table} WHERE done_time <= ? ORDER BY done_time, id LIMIT ?"
        numbers = [number for (number,) in txn.query(sql, [upto, limit])]
        txn.execute_in(f"DELETE FROM {self._table} WHERE id IN ({{in}})", numbers)
        return len(numbers)
