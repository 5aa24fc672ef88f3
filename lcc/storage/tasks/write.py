"""Write transactions of the scheduler: its fence, its counters, statistics of the day, logs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lcc.errors import Busy
from lcc.model.tasks import MESSAGE_CHARS_MAX, LogRow, TaskClaim
from lcc.storage.database.tables.set_epochs import claim_epoch
from lcc.storage.database.transactions import Txn

DAY_SECONDS = 86400
COUNTED = (
    *("completed", "temporary", "permanent", "lost", "retried", "unchanged"),
    *("seconds", "cpu_seconds", "items"),
)


class TaskWrite:
    """One transaction of the scheduler; :meth:`save` ends it.

    :param run: of the scheduler that writes.
    :param now: seconds since 1970.
    :param jobs_max: jobs that may be open at once.
    :raises Busy: a newer scheduler has claimed the tables.
    """

    def __init__(self, txn: Txn, run: int, now: int, jobs_max: int) -> None:
        self.txn = txn
        self.now = now
        self.jobs_max = jobs_max
        if txn.dialect.certifies:
            # Locks are local to a node.  A claim changes this row, too, so that only one of the two commits.
            txn.execute("UPDATE schedulerfence SET value = value + 1 WHERE name = 'fence'")
        rows = txn.query(f"SELECT name, value FROM schedulerfence{txn.for_update}")
        self._counters: dict[str, int] = dict(rows)
        self._before = dict(self._counters)
        if self._counters["run"] != run:
            raise Busy(f"a newer scheduler (run {self._counters['run']}) has claimed the database")
        self._counts: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._logs: dict[int, list[tuple[int, LogRow]]] = defaultdict(list)

    def next(self, counter: str) -> int:
        """Increment a counter, and return it."""
        self._counters[counter] += 1
        return self._counters[counter]

    def value(self, counter: str) -> int:
        """A counter."""
        return self._counters[counter]

    def heard(self) -> None:
        """The scheduler lives: others see when it was heard of last."""
        self._counters["heard"] = self.now

    def opened(self, jobs: int) -> None:
        """There are so many more (or fewer) open jobs."""
        self._counters["open"] += jobs

    @property
    def room(self) -> int:
        """How many more jobs may be open."""
        return max(0, self.jobs_max - self._counters["open"])

    def check_room(self) -> None:
        """:raises ValueError: no more jobs may be open."""
        if not self.room:
            raise ValueError(f"there are {self.jobs_max:,} open jobs already ([scheduler] jobs_max)")

    def count(self, kind: str, **counts: float) -> None:
        """Add to the day's statistics of a kind; the names are those of the columns of ``jobsdone``."""
        for name, count in counts.items():
            self._counts[kind][name] += count

    def log(self, job: int, attempt: int, row: LogRow) -> None:
        """A row of a job's log."""
        self._logs[job].append((attempt, row))

    def tell(self, job: int, level: str, text: str) -> None:
        """A row of the log of a job that has ended, if it is still kept."""
        if job and self.txn.one("SELECT 1 FROM jobs WHERE id = ?", [job]):
            self.log(job, 0, LogRow(self.now, level, text[:MESSAGE_CHARS_MAX]))

    def save(self) -> None:
        """Write what has changed."""
        for name, value in self._counters.items():
            if value != self._before.get(name) and name != "fence":
                self.txn.execute("UPDATE schedulerfence SET value = ? WHERE name = ?", [value, name])
        self._save_counts()
        self._save_logs()

    def _save_counts(self) -> None:
        if not self._counts:
            return
        day = self.now // DAY_SECONDS
        sql = f"SELECT kind, {', '.join(COUNTED)} FROM jobsdone WHERE day = ? AND kind IN ({{in}})"
        before = {row[0]: row[1:] for row in self.txn.query_in(sql, sorted(self._counts), [day])}
        rows: list[tuple[Any, ...]] = []
        for kind, counts in sorted(self._counts.items()):
            old = before.get(kind, (0,) * len(COUNTED))
            new = {name: value + counts[name] for name, value in zip(COUNTED, old, strict=True)}
            whole = (value if name.endswith("seconds") else round(value) for name, value in new.items())
            rows.append((day, kind, *whole))
        self.txn.upsert("jobsdone", ("day", "kind", *COUNTED), rows, ("day", "kind"))

    def _save_logs(self) -> None:
        if not self._logs:
            return
        sql = "SELECT job, MAX(number) FROM joblogs WHERE job IN ({in}) GROUP BY job"
        last = dict(self.txn.query_in(sql, sorted(self._logs)))
        rows = [
            (job, last.get(job, 0) + at, attempt, row.time, row.level, row.text)
            for job, logged in sorted(self._logs.items())
            for at, (attempt, row) in enumerate(logged, 1)
        ]
        self.txn.insert("joblogs", ("job", "number", "attempt", "time", "level", "text"), rows)


def claim_run(txn: Txn) -> TaskClaim:
    """Begin a new run; it fences off the writes of all older ones."""
    txn.execute("UPDATE schedulerfence SET value = value + 1 WHERE name IN ('run', 'fence')")
    run = int(txn.value("SELECT value FROM schedulerfence WHERE name = 'run'"))
    waiting = txn.one("SELECT 1 FROM tasknotices LIMIT 1") is not None
    epoch, left_out = claim_epoch(txn, "notices_epoch", waiting)
    txn.execute("UPDATE schedulerfence SET value = value + ? WHERE name = 'notice'", [left_out])
    notices = int(txn.value("SELECT value FROM schedulerfence WHERE name = 'notice'"))
    return TaskClaim(run, epoch, notices)
