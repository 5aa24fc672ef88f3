"""What is promised of tasks and jobs, looked at after each transaction of the scheduler, and in the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import attrs

from lcc.domain.tasks.due import spread
from lcc.storage.database.migrations import TASKS

from .tasks import SHARED, SHARED_SECONDS, TaskWorld
from .workers import Attempt, Part

_OPEN = ("pending", "running")
_LATE_SECONDS = 60
_AUDIT = """
CREATE TABLE simulated_history (
    seq INTEGER PRIMARY KEY, what TEXT, id INTEGER, task INTEGER, state TEXT, attempt INTEGER, commits INTEGER,
    due INTEGER, started INTEGER, scheduled INTEGER, resource TEXT, text TEXT
);
CREATE TRIGGER simulated_new AFTER INSERT ON jobs BEGIN
    INSERT INTO simulated_history (what, id, task, state, attempt, commits, due, started, scheduled, resource, text)
    VALUES ('new', NEW.id, NEW.task, NEW.state, NEW.attempt, NEW.commits, NEW.due_time, NEW.started_time,
        NEW.scheduled_time, NEW.resource, NEW.input);
END;
CREATE TRIGGER simulated_job AFTER UPDATE ON jobs BEGIN
    INSERT INTO simulated_history (what, id, task, state, attempt, commits, due, started, scheduled, resource, text)
    VALUES ('job', NEW.id, NEW.task, NEW.state, NEW.attempt, NEW.commits, NEW.due_time, NEW.started_time,
        NEW.scheduled_time, NEW.resource, NEW.message);
END;
CREATE TRIGGER simulated_task AFTER UPDATE OF due_time ON tasks
WHEN NEW.polled = 0 AND NEW.due_time IS NOT NULL AND OLD.due_time IS NULL BEGIN
    INSERT INTO simulated_history (what, id, due, started, attempt)
    VALUES ('due', NEW.id, NEW.due_time, NEW.started_time, NEW.every_seconds);
END;
CREATE TRIGGER simulated_told AFTER DELETE ON tasknotices BEGIN
    INSERT INTO simulated_history (what, id, text) VALUES ('told', OLD.number, OLD.source);
END;
"""
_READ = (
    "SELECT what, id, task, state, attempt, commits, due, started, scheduled, resource, text, seq"
    " FROM simulated_history WHERE seq > ? ORDER BY seq"
)


@attrs.define
class Known:
    """A job, as the history has it so far.

    :ivar commits: of each attempt, how many took effect.
    """

    task: int
    state: str
    attempt: int
    scheduled: int
    due: int | None
    started: int | None
    commits: Counter[int] = attrs.field(factory=Counter)

    @property
    def is_open(self) -> bool:
        """It goes on."""
        return self.state in _OPEN or self.due is not None


class TaskPromises:
    """Watches tasks.

    :param broken: told what was, with the promise that it breaks.
    :param told: called with the number of each set that the scheduler takes out of its outbox as told.
    """

    def __init__(self, world: TaskWorld, broken: Callable[[str, str], None], told: Callable[[int], None]) -> None:
        self._world = world
        self._broken = broken
        self._told = told
        self._seq = 0
        self._jobs: dict[int, Known] = {}
        self._open: dict[int, int] = {}
        """Task -> its open job."""
        self._started: dict[int, int] = {}
        """Task -> when its latest attempt was started."""
        self._ended: Counter[int] = Counter()
        """Task -> jobs of it that have ended."""
        self._late: set[int] = set()
        """Tasks whose latest job was started late."""
        self._used: dict[str, int] = {}
        self._inputs: dict[int, str] = {}
        """Task that polls -> what its latest job has read."""
        self._readers: dict[int, int] = {}
        """Task that polls -> its latest job."""
        self._healed: dict[int, int] | None = None
        world.database.connection(TASKS).executescript(_AUDIT)

    @property
    def counts(self) -> dict[str, int]:
        """What there was."""
        return {
            "jobs": len(self._jobs),
            "jobs of polls": sum(job.task in self._world.polled for job in self._jobs.values()),
            "attempts": len(self._world.hall.attempts),
        }

    # While it runs.

    def committed(self) -> None:
        """The scheduler has committed."""
        for text in self._world.hall.met:
            self._broken("P13", text)
        self._world.hall.met.clear()
        for row in self._world.database.connection(TASKS).execute(_READ, [self._seq]).fetchall():
            what, number, task, state, attempt, commits, due, started, scheduled, resource, text, self._seq = row
            if what == "due":
                self._check_due(number, due, started, attempt)
            elif what == "told":
                self._told(number)
            elif what == "new":
                self._jobs[number] = Known(task, state, attempt, scheduled, due, started)
                self._new(number, task, text)
            else:
                self._changed(number, self._jobs[number], state, attempt, commits, due, started, resource)

        world = self._world
        ((count,),) = world.rows("SELECT COUNT(*) FROM jobs WHERE ended_time IS NULL")
        ((told,),) = world.rows("SELECT value FROM schedulerfence WHERE name = 'open'")
        if count != told:
            self._broken("P14", f"the books say that {told} jobs are open, {count} are")

    def _new(self, number: int, task: int, text: str) -> None:
        if not task:
            return
        other = self._open.get(task)
        if other is not None:
            self._broken("P13", f"task {task} gets job {number}, and {other} is open")
        self._open[task] = number
        path = self._world.polled.get(task)
        if path is not None:
            digest = json.loads(text)["md5"]
            before = self._jobs.get(self._readers.get(task, 0))
            if self._inputs.get(task) == digest and before is not None and before.state == "completed":
                self._broken("P15", f"job {number} of task {task} reads what the one before it has read")
            if digest not in self._world.site.feeds[path]:
                self._broken("P15", f"job {number} of task {task} reads what was never there")
            self._inputs[task] = digest
            self._readers[task] = number

    def _changed(
        self,
        number: int,
        job: Known,
        state: str,
        attempt: int,
        commits: int,
        due: int | None,
        started: int | None,
        resource: str,
    ) -> None:
        was_running, before = job.state == "running", job.attempt
        job.state, job.attempt, job.due = state, attempt, due
        job.commits[attempt] = max(job.commits[attempt], commits)
        if state == "running" and attempt != before:
            if was_running:
                self._broken("P13", f"job {number} is started (attempt {attempt}) while attempt {before} runs")
            assert started is not None
            self._starts(number, job, started, resource)
        elif attempt != before:
            self._broken("P13", f"job {number} ends as attempt {attempt}, attempt {before} was started last")
        elif was_running and state == "completed":
            known = self._world.hall.attempts.get((number, attempt))
            if known is None or not known.done:
                self._broken("P14", f"job {number} is completed, its attempt {attempt} is not")
        elif was_running and state == "permanent-error":
            known = self._world.hall.attempts.get((number, attempt))
            if not (known and known.failed) and number not in self._world.killed:
                self._broken("P14", f"job {number} has failed for good, its attempt {attempt} has not")
        elif was_running and state == "lost":
            known = self._world.hall.attempts.get((number, attempt))
            if known is not None and known.ended is None:
                self._broken("P13", f"job {number} is lost (attempt {attempt}), and runs at {known.manager}")
        if not job.is_open and job.task and self._open.get(job.task) == number:
            del self._open[job.task]
            self._ended[job.task] += was_running

    def _starts(self, number: int, job: Known, started: int, resource: str) -> None:
        job.started = started
        world, task = self._world, job.task
        if task and task not in world.polled and task in world.tasks:
            last = self._started.get(task)
            (every,) = world.rows(f"SELECT every_seconds FROM tasks WHERE id = {task}")[0]
            if job.attempt == 1 and last is not None and started - last < every and not world.clock_was_set:
                self._broken(
                    "P13", f"job {number} of task {task} starts {started - last} s after the last, not {every}"
                )
            if job.attempt == 1:
                self._late.discard(task)
            if started - job.scheduled > _LATE_SECONDS:
                self._late.add(task)
            self._started[task] = started
        last = self._used.get(resource)
        if resource == SHARED and last is not None and started - last < SHARED_SECONDS and not world.clock_was_set:
            self._broken(
                "P13", f"job {number} uses {resource} {started - last} s after the last, not {SHARED_SECONDS}"
            )
        self._used[resource] = started

    def _check_due(self, task: int, due: int, started: int | None, every: int) -> None:
        """It is not due later than it has to be."""
        if started is None or self._world.clock_was_set:
            return
        spreads = self._ended[task] <= 1 or task in self._late
        now = self._world.timeline.now + self._world.clock_ahead
        latest = max(int(now), started + every + (int(spread(task) * every) if spreads else 0))
        if due > latest:
            self._broken("P13", f"task {task}, which started at {started}, is due at {due}, not {latest}")

    # In the end.

    def undone(self) -> list[str]:
        """What is left to be done; at first, each task has to be carried out once more."""
        world = self._world
        ended = {task: self._ended[task] for task in world.tasks}
        if self._healed is None:
            self._healed = ended
        left = [f"task {task} is carried out no longer" for task in world.tasks if ended[task] == self._healed[task]]
        for task, path in world.polled.items():
            reader = self._jobs.get(self._readers.get(task, 0))
            is_read = reader is not None and reader.state in ("completed", "permanent-error")
            if self._inputs.get(task) != world.site.feeds[path][-1] or not is_read:
                left.append(f"the last change of {path} is not read by a job of task {task}")
        if left and not world.suspended:
            return left
        if not world.suspended:
            world.suspend_all()
        left = [f"job {job} is open" for (job,) in world.rows("SELECT id FROM jobs WHERE ended_time IS NULL")]
        for table in ("tasknotices", "heldnotices"):
            if count := world.rows(f"SELECT COUNT(*) FROM {table}")[0][0]:
                left.append(f"{count} rows in {table}")
        if world.rows("SELECT 1 FROM taskorders WHERE done_time IS NULL"):
            left.append("orders of the operator are open")
        return left

    def _effective(self) -> Iterator[tuple[Attempt, Part]]:
        """What has to have taken effect."""
        for (number, attempt), known in self._world.hall.attempts.items():
            job = self._jobs.get(number)
            if job is None:
                continue
            whole = job.state == "completed" and job.attempt == attempt
            yield from ((known, part) for part in known.parts[: None if whole else job.commits[attempt]])

    def check_the_end(self, notices_may_be_lost: bool) -> None:
        """All is over.

        :param notices_may_be_lost: something loses sets that were accepted.
        """
        self.committed()
        world = self._world
        last = world.rows("SELECT value FROM schedulerfence WHERE name = 'job'")[0][0]
        if (count := world.rows("SELECT COUNT(*) FROM jobs")[0][0]) != last:
            self._broken("P14", f"there were {last} jobs, and there are {count}")
        counted: dict[int, set[int]] = {}
        tokens: dict[str, str] = {}
        urls: set[str] = set()
        for known, part in self._effective():
            if part.counted:
                counted.setdefault(known.order.task, set()).add(known.order.id)
            tokens |= dict(part.added)
            urls |= set(part.urls)
        for task, data in world.rows("SELECT id, data FROM tasks"):
            kept, expected = json.loads(data)["count"] if data else 0, len(counted.get(task, ()))
            if kept != expected:
                self._broken("P14", f"task {task} has counted {kept} jobs, and has had {expected} that counted")
        self._check_followups(tokens)
        self._expect(urls, notices_may_be_lost)

    def _check_followups(self, tokens: dict[str, str]) -> None:
        rows = self._world.rows("SELECT args, jobkey, scope FROM jobs WHERE command = 'follow'")
        there = Counter(json.loads(args)[0] for args, _, _ in rows)
        keys = Counter((scope, key) for _, key, scope in rows if key)
        for token, count in there.items():
            if token not in tokens:
                self._broken("P14", f"follow-up {token} is of an attempt that never took effect")
            if count > 1:
                self._broken("P14", f"follow-up {token} is there {count} times")
        for (scope, key), count in keys.items():
            if count > 1:
                self._broken("P14", f"{count} follow-ups have the key {key} of {scope}")
        named = {(f"task/{self._task_of(token)}", key) for token, key in tokens.items() if key}
        lost = [token for token, key in tokens.items() if not key and token not in there]
        for what in (*lost, *sorted(named - keys.keys())):
            self._broken("P14", f"follow-up {what} is lost")

    def _task_of(self, token: str) -> int:
        return self._jobs[int(token.partition(".")[0])].task

    def _expect(self, urls: set[str], may_be_lost: bool) -> None:
        """The pages that jobs have notified of are in the cache, as far as robots.txt allows, and no others."""
        site = self._world.site
        connection = self._world.database.connection()
        failed = {url for (url,) in connection.execute("SELECT url FROM urlerrs WHERE pid = ?", [site.pid])}
        cached = {
            url for (url,) in connection.execute("SELECT curl FROM lccurl WHERE pid = ? AND state = 1", [site.pid])
        }
        for url in sorted(urls):
            path = url.removeprefix(site.root)
            allowed = not (site.has_robots and path.startswith("no/"))
            if allowed and url not in failed and (url in cached or not may_be_lost):
                page = site.page_at(path)
                assert page is not None
                site.pages[path] = page
