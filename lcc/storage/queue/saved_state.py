"""What the queue manager says of itself, for ``lcc-admin`` (:mod:`lcc.roles.qm.maintenance.state` makes the text)."""

from __future__ import annotations

import json

from lcc.storage.database.transactions import Txn
from lcc.storage.queue.write_transaction import WriteTransaction


def save_state(txn: Txn, run: int, text: str) -> None:
    """See :meth:`lcc.interfaces.IQueueStore.save_state`."""
    WriteTransaction(txn, run)
    txn.upsert("qmstate", ["id", "state"], [(1, text)], ["id"])


def saved_state(txn: Txn) -> str:
    """What was saved last; empty: nothing yet."""
    return str(txn.value("SELECT state FROM qmstate WHERE id = 1", (), ""))


def saved_time_and_lease(txn: Txn) -> tuple[int, float]:
    """When that was, on the wall clock of who saved it (seconds since 1970), and how long its orders may be out, in
    seconds; 0: that is not known."""
    try:
        state = json.loads(saved_state(txn) or "{}")
        return int(state["time"]), float(state.get("lease", 0))
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0, 0.0
