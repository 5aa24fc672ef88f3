"""The saved state of the queue manager, for ``lcc-admin`` (:mod:`lcc.roles.qm.maintenance.state` makes the text)."""

from __future__ import annotations

import json

from lcc.storage.database.transactions import Txn
from lcc.storage.queue.write_transaction import WriteTransaction


def save_state(txn: Txn, run: int, text: str) -> None:
    """See :meth:`lcc.interfaces.IQueueStore.save_state`."""
    WriteTransaction(txn, run)
    txn.upsert("qmstate", ["id", "state"], [(1, text)], ["id"])


def saved_state(txn: Txn) -> str:
    """The state saved last; empty: none."""
    return str(txn.value("SELECT state FROM qmstate WHERE id = 1", (), ""))


def saved_time_and_lease(txn: Txn) -> tuple[int, float]:
    """When it was saved, by the wall clock of that queue manager (seconds since 1970), and the lease of its orders,
    in seconds; 0: unknown."""
    try:
        state = json.loads(saved_state(txn) or "{}")
        return int(state["time"]), float(state.get("lease", 0))
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0, 0.0
