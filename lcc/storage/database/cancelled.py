"""Rows of the queue that do nothing at their turn (``cancelled``): a deletion came after them.

They stay until then, which may be hours in a time slot, and count in ``qpsdb.nurls``; but nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from lcc.storage.database.rows import NOTHING
from lcc.storage.database.transactions import Txn

LOOKED_AT = 100_000
"""Where there are more of them, the rest counts as if it were to be fetched."""


def _with_cancelled(where: str = "") -> str:
    return (
        f"LEFT JOIN (SELECT n.psetid AS psetid, n.slot AS slot, COUNT(*) AS cancelled FROM"
        f" (SELECT urlkey FROM cancelled{where} LIMIT {LOOKED_AT}) AS some JOIN qdb n ON n.urlkey = some.urlkey"
        f" AND n.operation = {NOTHING} GROUP BY n.psetid, n.slot) AS gone"
        " ON gone.psetid = s.psetid AND gone.slot = s.slot"
    )


WITH_CANCELLED = _with_cancelled()
"""Put it behind rows of ``qpsdb``, named ``s``, for :data:`TO_FETCH`."""
WITH_CANCELLED_OF_ONE = _with_cancelled(" WHERE urlkey BETWEEN ? AND ?")
"""The same for the sets of one provider; its two parameters are the ends of the provider's keys."""
TO_FETCH = "(s.nurls - COALESCE(gone.cancelled, 0))"
"""How many rows of a set and slot are to be fetched."""


def note_cancelled(txn: Txn, keys: Iterable[bytes]) -> None:
    """These rows do nothing from now on."""
    txn.upsert("cancelled", ("urlkey",), [(key,) for key in keys], ("urlkey",), ("urlkey",))


def forget_cancelled(txn: Txn, keys: Iterable[bytes]) -> None:
    """The rows of these keys are gone, if there were any."""
    txn.execute_in("DELETE FROM cancelled WHERE urlkey IN ({in})", keys)
