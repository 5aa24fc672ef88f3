"""Cancelled rows of the queue (``cancelled``): a deletion came after them, so there is nothing to fetch.

They are removed at their turn, which may be hours later in a time slot.  Until then they count in ``qpsdb.nurls``,
but not as backlog.
"""

from __future__ import annotations

from collections.abc import Iterable

from lcc.storage.database.tables.rows import NOTHING
from lcc.storage.database.transactions import Txn

LOOKED_AT = 100_000
"""If there are more cancelled rows, the rest counts as backlog."""


def _with_cancelled(where: str = "") -> str:
    return (
        f"LEFT JOIN (SELECT n.psetid AS psetid, n.slot AS slot, COUNT(*) AS cancelled FROM"
        f" (SELECT urlkey FROM cancelled{where} LIMIT {LOOKED_AT}) AS some JOIN qdb n ON n.urlkey = some.urlkey"
        f" AND n.operation = {NOTHING} GROUP BY n.psetid, n.slot) AS gone"
        " ON gone.psetid = s.psetid AND gone.slot = s.slot"
    )


WITH_CANCELLED = _with_cancelled()
"""Append it to ``qpsdb s`` to use :data:`TO_FETCH`."""
WITH_CANCELLED_OF_ONE = _with_cancelled(" WHERE urlkey BETWEEN ? AND ?")
"""The same for one provider; its two parameters are the first and last key of the provider."""
TO_FETCH = "(s.nurls - COALESCE(gone.cancelled, 0))"
"""Rows to fetch of a set and slot."""


def note_cancelled(txn: Txn, keys: Iterable[bytes]) -> None:
    """Mark these rows as cancelled."""
    txn.upsert("cancelled", ("urlkey",), [(key,) for key in keys], ("urlkey",), ("urlkey",))


def forget_cancelled(txn: Txn, keys: Iterable[bytes]) -> None:
    """The rows of these keys are gone or no longer cancelled."""
    txn.execute_in("DELETE FROM cancelled WHERE urlkey IN ({in})", keys)
