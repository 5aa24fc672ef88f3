"""Fetches one page on an operator's order, in all types that are known of it: what waits for a retry, what failed for
good, and what is cached (by a conditional request).

Hours, bandwidth and turns of its provider hold as ever.
"""

from __future__ import annotations

from collections import defaultdict

from lcc.interfaces import IQueueRules
from lcc.model import FETCH_NOW
from lcc.storage.database.tables.key_ranges import views_range
from lcc.storage.database.tables.rows import CACHED, FETCH
from lcc.storage.queue.admin.retry import retry_errors
from lcc.storage.queue.maintenance.recheck import recheck
from lcc.storage.queue.schedule.waiting_retries import hasten, priorities_of
from lcc.storage.queue.write_transaction import WriteTransaction


def fetch_page(write: WriteTransaction, rules: IQueueRules, pid: int, key: bytes) -> None:
    """Queue it.

    :param key: of any type of the page.
    """
    txn, views = write.txn, views_range(key)
    waiting: defaultdict[tuple[int, int], list[tuple[bytes, int]]] = defaultdict(list)
    for each, psetid, slot, seq in txn.query(
        f"SELECT urlkey, psetid, slot, seq FROM qdb WHERE urlkey >= ? AND urlkey <= ? AND operation = {FETCH}"
        " AND slot < ? ORDER BY psetid, slot, seq",
        [*views, FETCH_NOW],
    ):
        waiting[psetid, slot].append((each, seq))
    for (psetid, slot), rows in waiting.items():
        hasten(write, pid, psetid, slot, rows)
    write.pending.priorities.update(priorities_of(txn, [pid]))
    retry_errors(write, rules, pid, views)
    cached = txn.query(f"SELECT urlkey FROM lccurl WHERE urlkey >= ? AND urlkey <= ? AND state = {CACHED}", views)
    recheck(write, rules, [each for (each,) in cached], share=1.0)
