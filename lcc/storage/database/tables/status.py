"""Single values that describe the database as a whole; each costs one cheap statement, because they are polled."""

from __future__ import annotations

from lcc.model import FETCH_NOW, retry_time
from lcc.storage.database.tables.rows import last_generation
from lcc.storage.database.transactions import Txn


def queue_size(txn: Txn) -> int:
    """See :meth:`lcc.interfaces.IQueueStore.queue_size`.  The counter is exact: it is updated in the transactions
    that change the queue."""
    return int(txn.value("SELECT value FROM counters WHERE name = 'queued'", (), 0))


def last_change(txn: Txn) -> int:
    """The number of the cache's last change."""
    return int(txn.value("SELECT value FROM counters WHERE name = 'change'", (), 0))


def last_change_time(txn: Txn) -> int:
    """When that was, seconds since 1970: no later change is before that; 0: there was none yet."""
    return int(txn.value("SELECT value FROM counters WHERE name = 'change_time'", (), 0))


def newest_generation(txn: Txn) -> int:
    """No row of the queue, and no content, has a greater one; whatever the queue takes in from now on has."""
    return last_generation(int(txn.value("SELECT value FROM counters WHERE name = 'batch'", (), 0)))


def database_epoch(txn: Txn) -> str:
    """The epoch of this database: another one after a loss, or if it is created anew."""
    return str(txn.value("SELECT value FROM meta WHERE name = 'epoch'", (), ""))


def forgotten_upto(txn: Txn) -> int:
    """Deletions up to this change number may be forgotten: their tombstones have expired."""
    return int(txn.value("SELECT value FROM counters WHERE name = 'forgotten'", (), 0))


def next_retry(txn: Txn) -> int | None:
    """When the first URL that waits for a retry is due; None: none waits."""
    sql = f"SELECT slot FROM qpsdb {txn.by_index('qpsdb_slot')} WHERE slot < ? ORDER BY slot DESC LIMIT 1"
    slot = txn.value(sql, [FETCH_NOW])
    return None if slot is None else retry_time(slot)
