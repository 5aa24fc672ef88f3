"""How much is queued, and how far the database has come: asked again and again, so each is one cheap statement."""

from __future__ import annotations

from lcc.storage.database.transactions import Txn


def queue_size(txn: Txn) -> int:
    """See :meth:`lcc.interfaces.IQueueStore.queue_size`.  The counter is kept exactly, in the transactions that
    change the queue, so that nobody has to count rows, nor to add up providers."""
    return int(txn.value("SELECT value FROM counters WHERE name = 'queued'", (), 0))


def last_change(txn: Txn) -> int:
    """See :meth:`lcc.interfaces.IQueueRepair.last_change`."""
    return int(txn.value("SELECT value FROM counters WHERE name = 'change'", (), 0))
