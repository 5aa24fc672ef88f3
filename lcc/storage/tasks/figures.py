"""The scheduler at a glance: whether it runs, its managers, what waits.  A few index scans, whatever there is."""

from __future__ import annotations

import attrs

from lcc.model.tasks import JobState, ManagerState, ManagerStatus
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.managers import managers
from lcc.storage.tasks.polling.sitemaps import held_sitemaps
from lcc.storage.tasks.write import DAY_SECONDS

AWAY_SECONDS = 60
"""A scheduler says some times a minute that it runs: one that did not for so long does not."""
COUNTED_MAX = 1000
"""More are not counted."""


@attrs.frozen
class TaskFigures:
    """
    :ivar run: of the scheduler that claimed the tables last; 0: none ever has.
    :ivar heard_time: when it was heard of last; 0: never.
    :ivar has_tasks: whether there is anything to do periodically.
    :ivar open: jobs that wait or run, those included that are to be tried again.
    :ivar running: jobs at managers.
    :ivar failing: tasks whose last job failed (:data:`COUNTED_MAX` at most).
    :ivar lost_today: jobs that managers had accepted and never reported, since midnight UTC.
    :ivar orders: that wait to be carried out (:data:`COUNTED_MAX` at most).
    :ivar sitemaps_held: sitemaps that have lost too many URLs at once; ``sitemap_urls_held`` of these.
    :ivar order_time: when the oldest of these was given; None: there is none.
    """

    run: int = 0
    heard_time: int = 0
    has_tasks: bool = False
    open: int = 0
    running: int = 0
    failing: int = 0
    lost_today: int = 0
    orders: int = 0
    order_time: int | None = None
    managers: tuple[ManagerStatus, ...] = ()
    sitemaps_held: int = 0
    sitemap_urls_held: int = 0

    def is_alive(self, now: float) -> bool:
        """Whether the scheduler runs.

        :param now: seconds since 1970.
        """
        return self.heard_time > 0 and abs(now - self.heard_time) < AWAY_SECONDS

    def connected(self, now: float) -> int:
        """Managers that are up, paused ones included."""
        return sum(each.state(now) in (ManagerState.UP, ManagerState.PAUSED) for each in self.managers)


def task_figures(txn: Txn, now: float) -> TaskFigures:
    """The figures of now.

    :param now: seconds since 1970.
    """
    numbers = dict(txn.query("SELECT name, value FROM schedulerfence"))
    failing = f"SELECT COUNT(*) FROM (SELECT id FROM tasks WHERE since_time > 0 LIMIT {COUNTED_MAX}) some"
    lost = "SELECT SUM(lost) FROM jobsdone WHERE day = ?"
    waiting = "SELECT time FROM taskorders WHERE done_time IS NULL ORDER BY id LIMIT ?"
    times = [row[0] for row in txn.query(waiting, [COUNTED_MAX])]
    known = managers(txn)
    held = held_sitemaps(txn)
    return TaskFigures(
        run=numbers.get("run", 0),
        heard_time=numbers.get("heard", 0),
        has_tasks=txn.one("SELECT 1 FROM tasks WHERE state = 'active' LIMIT 1") is not None,
        open=numbers.get("open", 0),
        running=int(txn.value("SELECT COUNT(*) FROM jobs WHERE state = ?", [JobState.RUNNING.value])),
        failing=int(txn.value(failing)),
        lost_today=int(txn.value(lost, [int(now) // DAY_SECONDS]) or 0),
        orders=len(times),
        order_time=times[0] if times else None,
        managers=tuple(known),
        sitemaps_held=held[0],
        sitemap_urls_held=held[1],
    )
