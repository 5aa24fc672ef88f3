"""How far to read at once, where changes are followed by their numbers."""

from __future__ import annotations

from lcc.storage.database.transactions import Txn


def range_end(txn: Txn, table: str, after: int, last: int, rows_max: int) -> int:
    """The number up to which there are at most so many changes behind another one, and none is left out.

    Numbers have gaps: they jump where changes may have been lost
    (:func:`lcc.storage.queue.maintenance.repair.begin_epoch`).

    :param table: that has them in its column ``change_number``.
    :param last: it is no greater than this.
    """
    first: int | None = txn.value(f"SELECT MIN(change_number) FROM {table} WHERE change_number > ?", [after])
    return last if first is None else min(last, first - 1 + rows_max)
