"""What the scheduler has to do now: orders, tasks that are due, jobs that are due; read at once, each second."""

from __future__ import annotations

from typing import Any, NamedTuple

from lcc.model.tasks import DueJob
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.tasks.jobs.due import SELECT_DUE, due_job
from lcc.storage.tasks.orders import ORDERS

_TASKS = "SELECT id FROM tasks WHERE polled = 0 AND due_time <= ? ORDER BY due_time, id LIMIT ?"
_JOBS = (
    f"{SELECT_DUE} WHERE due_time <= ? AND due_time >= ? AND (due_time > ? OR id > ?) ORDER BY due_time, id LIMIT ?"
)


class DueWork(NamedTuple):
    """
    :ivar orders: the next ones, in the order in which they were given.
    :ivar tasks: that are due and not polled, the longest first.
    :ivar job_rows: of :attr:`jobs`.
    """

    orders: list[int]
    tasks: list[int]
    job_rows: list[tuple[Any, ...]]

    @property
    def jobs(self) -> list[DueJob]:
        """Those that are due, the longest first."""
        return [due_job(row) for row in self.job_rows]

    @property
    def last_job(self) -> tuple[int, int] | None:
        """When the last of them is due, and its id; None: there are none."""
        return (self.job_rows[-1][1], self.job_rows[-1][0]) if self.job_rows else None


def due_work(txn: Txn, now: int, after: tuple[int, int], orders_max: int, tasks_max: int, jobs_max: int) -> DueWork:
    """What there is to do now, at most so many of each.

    :param after: only jobs behind this ``(due_time, id)``.
    """
    orders, tasks, jobs = txn.query_several(
        [
            ORDERS.open_ones(orders_max),
            Question(_TASKS, None, [now, tasks_max]),
            Question(_JOBS, None, [now, after[0], *after, jobs_max]),
        ]
    )
    return DueWork([number for (number,) in orders], [number for (number,) in tasks], jobs)
