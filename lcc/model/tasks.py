"""Tasks and jobs (seed 003): what is done periodically, and each time that it is done."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import attrs

COMMAND = "command"
"""The kind of tasks and jobs that say no other one: an executable of the managers' worker folders."""
REPEATED_SECONDS = 3 * 3600
"""A wall clock that is set back by no more repeats no times of day (as with Debian's cron)."""
POLLED_KINDS = ("feed", "sitemap", "robots")
"""The built-in kinds: their URL (the first argument) is fetched through the queue, and a worker starts only when its
content has changed."""

ARGUMENTS_BYTES_MAX = 16384
"""All arguments of a job together, as the JSON that stands on the wire, in UTF-8."""
DATA_BYTES_MAX = 16384
"""What a task keeps for its workers, in UTF-8."""
INPUT_BYTES_MAX = 8192
"""What a built-in kind hands to its worker, in UTF-8."""
OUTPUT_BYTES_MAX = 65536
"""Of a worker's output, its end is kept."""
NAME_CHARS_MAX = 100
"""Of a kind, of a resource, of a manager."""
KEY_CHARS_MAX = 255
"""Of a follow-up's key."""
MESSAGE_CHARS_MAX = 2000
"""Of a job's status message, of a row of its log."""


class JobState(Enum):
    """How a job is.

    ``TEMPORARY`` and ``LOST`` may wait to be tried again (:attr:`Job.due_time` says when), or be the end.
    """

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    TEMPORARY = "temporary-error"
    PERMANENT = "permanent-error"
    LOST = "lost"


class TaskState(Enum):
    """Whether a task is carried out."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


@attrs.frozen
class When:
    """When the jobs of a task are due; exactly one of the first three is set.

    :ivar every_seconds: period; 0: none.
    :ivar at: ``HH:MM`` or ``HH:MM:SS``, every day; empty: none.
    :ivar cron: a cron line of five fields; empty: none.
    :ivar timezone: IANA name for ``at`` and ``cron``; empty: UTC.
    """

    every_seconds: int = 0
    at: str = ""
    cron: str = ""
    timezone: str = ""


@attrs.frozen
class JobSpec:
    """What is to be run.

    :ivar kind: names the limits that it has at a manager.
    :ivar command: name of the executable; of a built-in kind, empty: its own worker.
    :ivar args: its arguments, unchanged; never seen by a shell.
    :ivar resource: that it needs; empty: none.
    :ivar on: ``allow:HOST`` and ``deny:HOST``, of the hosts of managers (with ``*``); empty: any.
    :ivar data: text that its workers keep from one job to the next.
    """

    kind: str = COMMAND
    command: str = ""
    args: tuple[str, ...] = ()
    resource: str = ""
    on: tuple[str, ...] = ()
    data: str = ""


@attrs.frozen
class Task:
    """A periodic activity: a row of ``tasks``.

    :ivar id: 0: it has none yet.
    :ivar auto: its period follows from what its polls found, between ``least_seconds`` and ``most_seconds``.
    :ivar due_time: when its next job is due, in seconds since 1970; None: it is suspended, or has an open job.
    :ivar started_time: of its latest job; None: there was none.
    :ivar ended_time: of its latest job; None: none has ended.
    :ivar last_state: of its latest job, once it has ended.
    :ivar since_time: since when its jobs fail; None: the latest one did not.
    :ivar failures: of its jobs in a row.
    :ivar message: of its latest job, or why it was suspended.
    :ivar moved_from: the URL that it polled before the page moved for good (301, 308); empty: it did not.
    """

    id: int
    spec: JobSpec
    when: When
    state: TaskState = TaskState.ACTIVE
    auto: bool = False
    least_seconds: int = 0
    most_seconds: int = 0
    created_time: int = 0
    due_time: int | None = None
    started_time: int | None = None
    ended_time: int | None = None
    last_state: JobState | None = None
    since_time: int | None = None
    failures: int = 0
    message: str = ""
    moved_from: str = ""


@attrs.frozen
class Job:
    """A one-time activity: a row of ``jobs``.

    :ivar task: whose turn it is; 0: a person's or a worker's own.
    :ivar parent: the job that has added it; 0: none.
    :ivar key: as its adder named it: a second one with this key is not added while this one is kept.
    :ivar attempt: how often it was started; a report that names another one is late, and does nothing.
    :ivar commits: how many of this attempt's commits took effect.
    :ivar scheduled_time: when it was to start first.
    :ivar due_time: when it may start next; None: it runs, or has ended.
    :ivar started_time, ended_time: None: not yet.
    :ivar updated_time: when anything was heard of it.
    :ivar manager: that runs it, or ran it last; ``host`` is where, ``pid`` its process there (0: not known).
    :ivar exit_code: None: it has none (yet), as when a signal ended it.
    :ivar signal: that ended it; 0: none.
    :ivar seconds: that its last attempt took.
    """

    id: int
    spec: JobSpec
    task: int = 0
    parent: int = 0
    key: str = ""
    state: JobState = JobState.PENDING
    attempt: int = 0
    commits: int = 0
    scheduled_time: int = 0
    due_time: int | None = None
    started_time: int | None = None
    ended_time: int | None = None
    updated_time: int = 0
    manager: str = ""
    host: str = ""
    pid: int = 0
    message: str = ""
    exit_code: int | None = None
    signal: int = 0
    seconds: float = 0.0


@attrs.frozen
class Resource:
    """What one job at a time may use: a row of ``resources``.

    :ivar interval_seconds: the least time from the start of one job to the start of the next.
    :ivar started_time: when the last one started; 0: none has.
    """

    name: str
    interval_seconds: int = 0
    started_time: int = 0


class LogRow(NamedTuple):
    """What a worker logs.

    :ivar level: ``debug``, ``info``, ``warn`` or ``error``.
    """

    time: int
    level: str
    text: str


LOG_LEVELS = ("debug", "info", "warn", "error")


@attrs.frozen
class FollowUp:
    """A job that a worker adds.

    :ivar key: added once, however often workers of its task say it; empty: once by this job, however often it runs.
    :ivar after_seconds: from when it was added.
    :ivar at_time: when, in seconds since 1970; None: ``after_seconds`` says it.
    """

    spec: JobSpec
    key: str = ""
    after_seconds: int = 0
    at_time: int | None = None


@attrs.frozen
class JobNotice:
    """A URL that a worker notifies the LCC of.

    :ivar source: name of its source (``lcc.model.sources``): ``feed``, ``link`` or ``listed``.
    :ivar op: ``update``, ``delete``, ``recheck`` or ``retract``.
    :ivar mimetype: empty: not known.
    :ivar mtime: when it was changed last, as whoever names it says, in seconds since 1970; empty: not known.
    """

    url: str
    source: str
    op: str = "update"
    mimetype: str = ""
    mtime: str = ""


@attrs.frozen
class Effects:
    """What a job does besides its work: it takes effect in one transaction, with its ending or a commit.

    :ivar items: what the store of items gets: JSON objects, as text.
    :ivar data: of its task from now on; None: unchanged.
    :ivar every_seconds: period of its task from now on; None: unchanged.
    """

    logs: tuple[LogRow, ...] = ()
    followups: tuple[FollowUp, ...] = ()
    notices: tuple[JobNotice, ...] = ()
    items: tuple[str, ...] = ()
    data: str | None = None
    every_seconds: int | None = None


@attrs.frozen
class JobResult:
    """How an attempt of a job ended; with the state ``RUNNING``: what it commits on its way.

    :ivar commit: counts the commits of the attempt, from 1; 0: it is its end.
    :ivar exit_code: None: a signal has ended it, or it was not started.
    :ivar seconds: that it took; ``cpu_seconds`` of CPU, with its children.
    :ivar retry_after_seconds: of a temporary error: when it wishes to be tried again; None: no wish.
    :ivar output: the end of what it wrote.
    :ivar manager: name of the manager that says so; empty: the scheduler itself.
    """

    id: int
    attempt: int
    state: JobState
    commit: int = 0
    exit_code: int | None = None
    signal: int = 0
    message: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    retry_after_seconds: int | None = None
    output: str = ""
    effects: Effects = attrs.field(factory=Effects)
    manager: str = ""


class KindLimits(NamedTuple):
    """What a manager allows the jobs of a kind; 0: without limit.

    :ivar jobs: at once.
    """

    kind: str
    jobs: int
    seconds: int = 0
    memory_bytes: int = 0
    files: int = 0


class ManagerState(Enum):
    """Whether a manager can be given jobs.

    ``UNKNOWN``: it was connected, but the scheduler itself has said nothing of it for a while.
    """

    UP = "up"
    PAUSED = "paused"
    DOWN = "down"
    UNKNOWN = "unknown"


MANAGER_UNKNOWN_SECONDS = 90
"""After so long without a word of the scheduler it is not known how a manager is."""


@attrs.frozen
class ManagerStatus:
    """A manager, as the scheduler knows it: a row of ``managers``.

    :ivar run: names its latest run.
    :ivar first_time: when a manager of this name was heard of first.
    :ivar started_time: when its latest run was heard of first.
    :ivar heard_time: when it was heard of last; while it is connected, within half a minute.
    :ivar down_time: since when it is not connected; None: it is.
    :ivar paused: why it takes no jobs, in its operator's words; empty: it does.
    :ivar capacity: jobs at once, of all kinds; 0: as its kinds allow.
    :ivar kinds: what it takes, by name; ``*`` is any kind that is not named.
    :ivar running: jobs that it has.
    """

    name: str
    host: str
    run: str
    first_time: int
    started_time: int
    heard_time: int
    down_time: int | None = None
    paused: str = ""
    capacity: int = 0
    kinds: tuple[KindLimits, ...] = ()
    running: int = 0

    def state(self, now: float) -> ManagerState:
        """How it is.

        :param now: seconds since 1970.
        """
        if self.down_time is not None:
            return ManagerState.DOWN
        if now - self.heard_time > MANAGER_UNKNOWN_SECONDS:
            return ManagerState.UNKNOWN
        return ManagerState.PAUSED if self.paused else ManagerState.UP

    def since(self, now: float) -> int:
        """Since when it is down; of one that is up, since when it runs; of one that is unknown, when it was heard of
        last.  Seconds since 1970."""
        state = self.state(now)
        if state is ManagerState.UNKNOWN:
            return self.heard_time
        return self.started_time if self.down_time is None else self.down_time


class Asking(NamedTuple):
    """Whose own words a job may notify of (the source ``listed``): those of the site whose document it was given.

    :ivar pid: the provider of the document; 0: it speaks for nobody.
    :ivar order: order number that was drawn for the provider when the poll of the document began.
    """

    pid: int = 0
    order: int = 0


NOBODY = Asking()


class ItemsStored(NamedTuple):
    """What a store of items did with those of a job.

    :ivar new: that were not there before.
    :ivar changed: that were there, and differ.
    :ivar notices: of URLs that the LCC is notified of because of them.
    :ivar every_seconds: period of the task from now on; None: unchanged.
    :ivar robots: the text of a robots.txt; None: there was none among them.
    :ivar warning: for the job's log; empty: nothing.
    """

    new: int = 0
    changed: int = 0
    notices: tuple[JobNotice, ...] = ()
    every_seconds: int | None = None
    robots: str | None = None
    warning: str = ""


class DueJob(NamedTuple):
    """What the scheduler keeps in memory of a job that waits for a manager.

    :ivar hosts: as :attr:`JobSpec.on`.
    :ivar attempt: that was made last; 0: none.
    """

    id: int
    due_time: int
    attempt: int
    kind: str
    command: str
    resource: str
    hosts: tuple[str, ...]


class StartedJob(NamedTuple):
    """A job that was given to a manager.

    :ivar data: of its task, or its own.
    :ivar input: of a polled kind; empty: none.
    """

    id: int
    attempt: int
    task: int
    spec: JobSpec
    data: str
    input: str


class Assigned(NamedTuple):
    """A job that is due, and who gets it.

    :ivar manager, run, host: name of the manager, its run, and its host.
    """

    job: DueJob
    manager: str
    run: str
    host: str


class RunningJob(NamedTuple):
    """A job that some manager has, as the scheduler knows it.

    :ivar manager: its name.
    :ivar run: that this manager was when it got the job.
    :ivar killed: why it is to end; empty: it is not to.
    """

    id: int
    attempt: int
    kind: str
    resource: str
    manager: str
    run: str
    started_time: int
    killed: str


class TaskClaim(NamedTuple):
    """A scheduler's right to write.

    :ivar run: the fencing number; each write checks that it is still the newest.
    :ivar epoch: of the numbers of its notices: a new one where they may be given out again.
    :ivar notices: the greatest of these numbers so far.
    """

    run: int
    epoch: str
    notices: int


class Recorded(NamedTuple):
    """What became of an ending.

    :ivar late: it was of an earlier attempt, of a job that another manager has, or known already: nothing was done.
    :ivar over: the attempt is over: its manager has room again.
    """

    id: int
    attempt: int
    late: bool
    over: bool
