"""What is forgotten after a time: jobs that have ended, with their logs; answers to orders; old statistics."""

from __future__ import annotations

from lcc.storage.tasks.orders import ORDERS
from lcc.storage.tasks.polling.robots import forget_unknown
from lcc.storage.tasks.write import DAY_SECONDS, TaskWrite

PAGE_ROWS = 500
_ORDERS_KEPT_SECONDS = 3600
HELD_SECONDS = 7 * 86400
"""A hint that has waited for so long for a robots.txt is dropped."""


def purge_page(write: TaskWrite, jobs_kept_seconds: int, statistics_kept_days: int) -> bool:
    """Forget the next page; False: there is no more."""
    txn = write.txn
    sql = "SELECT id FROM jobs WHERE ended_time <= ? ORDER BY ended_time, id LIMIT ?"
    jobs = [number for (number,) in txn.query(sql, [write.now - jobs_kept_seconds, PAGE_ROWS])]
    txn.execute_in("DELETE FROM joblogs WHERE job IN ({in})", jobs)
    txn.execute_in("DELETE FROM jobs WHERE id IN ({in})", jobs)
    orders = ORDERS.purge(txn, write.now - _ORDERS_KEPT_SECONDS, PAGE_ROWS)
    _drop_hints(write)
    txn.execute("DELETE FROM jobsdone WHERE day < ?", [write.now // DAY_SECONDS - statistics_kept_days])
    return len(jobs) == PAGE_ROWS or orders == PAGE_ROWS


def _drop_hints(write: TaskWrite) -> None:
    """Hints that have waited too long for a robots.txt."""
    limit = [write.now - HELD_SECONDS]
    sql = "SELECT job, origin, COUNT(*) FROM heldnotices WHERE time <= ? GROUP BY job, origin"
    dropped = write.txn.query(sql, limit)
    for job, origin, count in dropped:
        write.tell(job, "warn", f"{count} URLs of {origin} are left out: its robots.txt could not be read for a week")
    write.txn.execute("DELETE FROM heldnotices WHERE time <= ?", limit)
    origins = sorted({origin for _, origin, _ in dropped})
    waiting = {
        origin for (origin,) in write.txn.query_in("SELECT origin FROM heldnotices WHERE origin IN ({in})", origins)
    }
    forget_unknown(write, [origin for origin in origins if origin not in waiting])
