"""The manager: runs the jobs of the scheduler, each in a process of its own (seed 003, "Manager").

What it owns
    The processes of the jobs that it was given, their folders, and the endings that are not recorded yet.  No table:
    it needs no database, and may run on any host.

What it does
    It connects to the scheduler, and says what it may run: kinds and how many of each, and which executables are in
    its folders.  It starts a worker for each job that it gets (:mod:`lcc.roles.manager.starting`), keeps the first
    and the last of its output, answers it on descriptor 3, collects its effects, and sends them with its ending.
    Endings are numbered and on the disk until the scheduler has recorded them.

What it promises
    A job's ending is told only when no process of the job exists any longer.  Of one job two attempts never run here
    at the same time.  Effects go to the scheduler as a whole, with the ending or a commit, or not at all.

Leases
    A heartbeat goes up every few seconds.  A job may run until ``lease_seconds`` after the last one that was answered
    *was sent*, less a margin; then its shepherd kills it, whether this process still runs or not.  The scheduler
    counts from when it received that heartbeat, which is never earlier: when it gives the job to another manager,
    nothing of it runs here.

Failures
    *A worker hangs, forks, floods, fills the disk or crashes*: see :mod:`lcc.workers.shepherd` for its processes;
    what it says is bounded, and read slowly where there is too much of it.  *The launcher dies*: it is started again,
    jobs run on.  *The shepherd of a job is killed*: what it leaves is found by its environment and killed; a
    temporary error.  *The scheduler is gone*: jobs run to their end, or to that of their lease; endings are kept.
    *The disk fails*: endings are kept in memory only, and a job whose effects cannot be written is an error.  *This
    process is stopped*: it waits a little for its jobs, ends the others, which are temporary errors, and leaves when
    all is recorded.  *It is killed*: shepherds kill their jobs at once; the next run waits until the last of them has
    ended before it connects, says so, and sends the endings that it finds; the scheduler has the other jobs tried
    again, without waiting for their lease.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import ManagerConfig
from lcc.domain.tasks.kinds import ANY, KindSettings
from lcc.model.tasks import JobState
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.jobs import (
    DOWN,
    HEARTBEAT_SECONDS,
    EndingsRecorded,
    Has,
    Heard,
    Heartbeat,
    JobStatus,
    Kill,
    Kind,
    RunJob,
    RunOver,
    Started,
)
from lcc.protocols.jobs import (
    RunningJob as RunningMessage,
)
from lcc.roles.manager.effects import Collected
from lcc.roles.manager.endings import KeptEndings, NewEnding, Settled
from lcc.roles.manager.job import NotStarted, Process, RunningJob
from lcc.roles.manager.verdict import Told
from lcc.roles.peer import PeerFactory
from lcc.roles.upstream import Upstream
from lcc.storage.disk.file_system import Disk
from lcc.workers.launch import LEASE_WAS_OVER, Report

_log = Logger()

LEASE_MARGIN_SECONDS = 2.0
LEASE_MARGIN_SHARE = 0.1
"""A lease ends here so much earlier, whichever is less: that is the time to kill in."""
RECORD_SECONDS = 3.0
"""A manager that stops waits so long until its endings are recorded; then the next run sends them."""
_POLL_SECONDS = 0.05


class JobStarter(Protocol):
    """Starts workers: :class:`lcc.roles.manager.starting.Workers`."""

    def start(
        self, order: RunJob, limits: KindSettings, job: RunningJob, lease_until: float, content: Path | None
    ) -> Process:
        """Start a job's worker.

        :param content: the file that it is given; None: none.
        :raises OSError: that is not possible now.
        """

    def commands(self) -> Deferred[tuple[list[str], dict[str, str]]]:
        """The executables that jobs may run; and those that they may not, with the reason."""

    def stop(self) -> None:
        """Start nothing any longer."""

    @property
    def scratch(self) -> Path:
        """Where jobs have their files."""


class ContentFetcher(Protocol):
    """Fetches what jobs of a built-in kind are given: :class:`lcc.roles.manager.content.Contents`."""

    async def fetch(self, order: RunJob) -> Path:
        """The path of a job's content.

        :raises NotStarted: it cannot be had.
        """

    def remove(self, path: Path) -> None:
        """The job has ended."""


class Manager:
    """The engine of a manager.

    :param kinds: limits of each kind, and of :data:`~lcc.domain.tasks.kinds.ANY`.
    :param folder: of endings, and of effects that are too many for the memory.
    :param now: seconds since 1970.
    :param in_thread: runs what blocks.
    :param run: names this run of the process; never used again.
    :param host: by which tasks choose hosts.
    :ivar counts: of what has happened, for metrics: jobs by ``(kind, state)``.
    """

    def __init__(
        self,
        settings: ManagerConfig,
        kinds: dict[str, KindSettings],
        starter: JobStarter,
        contents: ContentFetcher,
        folder: Path,
        disk: Disk,
        clock: IReactorTime,
        now: Callable[[], float],
        in_thread: Callable[..., Deferred[Any]],
        run: str,
        host: str,
    ) -> None:
        self.settings = settings
        self.kinds = kinds
        self.paused = False
        """An operator has it take nothing new."""
        self.counts: Counter[tuple[str, str]] = Counter()
        self.cpu_seconds: dict[str, float] = dict.fromkeys(kinds, 0.0)
        """Of the jobs of each kind that have ended."""
        self.faults: dict[str, str] = {}
        """Files in the folders of workers that may not be run, and why."""
        self.commands: list[str] = []
        """Executables that jobs may run."""
        self.endings = KeptEndings(folder / "endings", disk, in_thread, self._send_endings)
        self._starter = starter
        self._contents = contents
        self._folder = folder
        self._disk = disk
        self._clock = clock
        self._now = now
        self.run = run
        self._host = host
        self._jobs: dict[tuple[int, int], RunningJob] = {}
        self._waiting: deque[RunningJob] = deque()
        self._link: Upstream | None = None
        self._stopping = False
        self._heard_seconds = 0.0
        self._beats: dict[int, float] = {}
        self._beat = 0
        self._sent_upto = 0
        self._sending = False
        self._hello_seconds = 0.0
        self._collections = 0
        self._over: tuple[str, ...] = ()
        """Earlier runs, of which nothing runs any longer."""
        self._beating = LoopingCall(self._heartbeat)
        self._beating.clock = clock
        self._scanning = LoopingCall(self._scan)
        self._scanning.clock = clock

    # What the service needs.

    def upstream_factory(self, good_hello: Callable[[], None]) -> PeerFactory:
        """For the connection to the scheduler."""
        return PeerFactory(
            lambda: Upstream(self, self._clock, self._hello(), frozenset(["scheduler"]), DOWN, good_hello)
        )

    def start(self, over: tuple[str, ...] = ()) -> Deferred[None]:
        """Find what earlier runs have left, and what can be run; then it may connect.

        :param over: earlier runs, of which nothing runs any longer.
        :raises OSError: the folder cannot be used.
        """
        self._over = over
        self.endings.open()
        for name, _ in self._disk.names(self._folder):
            if name.startswith("effects-"):
                self._disk.remove(self._folder / name)
        self._scanning.start(self.settings.scan_interval, now=False).addErrback(_log_failure)
        return Deferred.fromCoroutine(self._scan())

    async def stop(self) -> None:
        """End all jobs in order; see the head of the module."""
        self._stopping = True
        if self._link is not None:
            self._heartbeat()
        await self._until(lambda: not self._jobs, self.settings.stop_seconds)
        for job in list(self._jobs.values()):
            self._end(job, Told(JobState.TEMPORARY, "Ended because the manager was stopped"))
        grace = max((job.limits.grace_seconds for job in self._jobs.values()), default=0.0)
        await self._until(lambda: not self._jobs, grace + RECORD_SECONDS)
        await self._until(lambda: self._link is None or not len(self.endings), RECORD_SECONDS)
        for loop in (self._scanning, self._beating):
            if loop.running:
                loop.stop()
        self._starter.stop()

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        end = self._clock.seconds() + seconds
        while not condition() and self._clock.seconds() < end:
            await deferLater(self._clock, _POLL_SECONDS)

    # What console and metrics show.

    @property
    def connected(self) -> bool:
        """The scheduler is there."""
        return self._link is not None

    @property
    def jobs(self) -> list[RunningJob]:
        """Those that run, or wait for room here."""
        return list(self._jobs.values())

    @property
    def paused_words(self) -> str:
        """Why it takes nothing new; empty: it does."""
        if self._stopping:
            return "stopping"
        return "paused by an operator" if self.paused else ""

    def pause(self) -> None:
        """Take nothing new until :meth:`resume`; jobs that run go on."""
        self.paused = True
        self._beat_now()

    def resume(self) -> None:
        """Take jobs again."""
        self.paused = False
        self._beat_now()

    def clock_seconds(self) -> float:
        """The clock that durations are measured on."""
        return self._clock.seconds()

    def limits_of(self, kind: str) -> KindSettings:
        """What jobs of this kind may use."""
        return self.kinds.get(kind) or self.kinds[ANY]

    # The scheduler.

    def _hello(self) -> Hello:
        self._hello_seconds = self._clock.seconds()
        settings = self.settings
        return Hello("manager", settings.name, run=self.run, capacity=settings.jobs_max, host=self._host)

    def upstream_ready(self, link: Upstream) -> None:
        """The scheduler is there: tell it what can be run, and what there is."""
        self._link = link
        self._heard_seconds = max(self._heard_seconds, self._hello_seconds)
        self._beats.clear()
        self._beat = 0
        self._sent_upto = 0
        for name, limits in self.kinds.items():
            seconds, memory = round(limits.seconds), limits.memory_bytes
            link.say(Kind(name, limits.jobs, seconds, memory, limits.open_files))
        for command in self.commands:
            link.say(Has(command))
        for run in self._over:
            link.say(RunOver(run))
        for key in sorted({*self._jobs, *self.endings.jobs()}):
            link.say(RunningMessage(*key))
        link.say(Ready())
        for job in self._jobs.values():
            if job.pid:
                link.say(Started(*job.key, job.pid))
        if self._beating.running:
            self._beating.stop()
        self._beating.start(HEARTBEAT_SECONDS).addErrback(_log_failure)
        self._send_endings()
        _log.info(
            "Connected to {peer}; {jobs} jobs and {endings} endings held",
            peer=link.describe(),
            jobs=len(self._jobs),
            endings=len(self.endings),
        )

    def upstream_messages(self, link: Upstream, messages: list[Flat]) -> None:
        """What it orders and acknowledges."""
        if link is not self._link:
            return
        for message in messages:
            if isinstance(message, RunJob):
                self._run_job(message)
            elif isinstance(message, Kill):
                self._kill(message)
            elif isinstance(message, Heard):
                self._heard(message.number)
            elif isinstance(message, EndingsRecorded):
                self.endings.recorded(message.number)

    def upstream_resumed(self, link: Upstream) -> None:
        """It reads again."""
        self._send_endings()

    def upstream_lost(self, link: Upstream) -> None:
        """The scheduler is gone; jobs run on."""
        if link is self._link:
            self._link = None
            if self._beating.running:
                self._beating.stop()
            _log.info("Lost the connection to the scheduler; {jobs} jobs run on", jobs=len(self._jobs))

    def _say(self, message: Flat) -> None:
        if self._link is not None:
            self._link.say(message)

    def _beat_now(self) -> None:
        if self._link is not None:
            self._heartbeat()

    def _heartbeat(self) -> None:
        self._beat += 1
        self._beats[self._beat] = self._clock.seconds()
        self._say(Heartbeat(self._beat, len(self._jobs), self.paused_words))

    def _heard(self, number: int) -> None:
        sent = self._beats.get(number)
        if sent is None:
            return
        self._beats = {each: when for each, when in self._beats.items() if each > number}
        self._heard_seconds = max(self._heard_seconds, sent)
        for job in self._jobs.values():
            if job.process is not None:
                job.process.renew(self._lease_until(job.order))

    def _lease_until(self, order: RunJob) -> float:
        seconds = order.lease_seconds
        return self._heard_seconds + seconds - min(LEASE_MARGIN_SECONDS, LEASE_MARGIN_SHARE * seconds)

    # Jobs.

    def _run_job(self, order: RunJob) -> None:
        key = order.id, order.attempt
        if key in self._jobs or key in self.endings.jobs():
            return
        job = RunningJob(
            self,
            order,
            self.limits_of(order.kind),
            self._clock,
            self._now,
            self._new_effects,
            self.settings,
        )
        for other in list(self._jobs.values()):
            if other.order.id == order.id:
                # The scheduler has given up that attempt.  This one begins when it is over.
                other.silent = True
                self._end(other, Told(JobState.TEMPORARY, "Superseded"), at_once=True)
        self._jobs[key] = job
        self._waiting.append(job)
        self._begin_waiting()

    def _new_effects(self) -> Collected:
        self._collections += 1
        path = self._folder / f"effects-{self._collections}"
        return Collected(path, self._disk, self.settings.effects_max, self.settings.effects_bytes)

    def _begin_waiting(self) -> None:
        for job in list(self._waiting):
            if self._may_begin(job):
                self._waiting.remove(job)
                self._begin(job)

    def _may_begin(self, job: RunningJob) -> bool:
        begun = [each for each in self._jobs.values() if each not in self._waiting]
        if any(each.order.id == job.order.id for each in begun):
            return False
        of_kind = sum(each.order.kind == job.order.kind for each in begun)
        return len(begun) < self.settings.jobs_max and of_kind < max(1, job.limits.jobs)

    def _begin(self, job: RunningJob) -> None:
        job.begun()
        Deferred.fromCoroutine(self._start(job)).addErrback(self._not_started, job)

    async def _start(self, job: RunningJob) -> None:
        order = job.order
        if self._stopping:
            raise NotStarted("The manager is stopping")
        if order.input and not order.command:
            job.content = await self._contents.fetch(order)
            if job.told is not None:
                raise NotStarted(job.told.text, again=job.told.state is JobState.TEMPORARY)
        until = self._lease_until(order)
        if until <= self._clock.seconds():
            raise NotStarted(LEASE_WAS_OVER)  # the order was late; another manager may have it by now
        job.process = self._starter.start(order, job.limits, job, until, job.content)

    def _not_started(self, failure: Failure, job: RunningJob) -> None:
        error = failure.value
        if isinstance(error, NotStarted):
            report = Report(refused=str(error), again=error.again)
        elif isinstance(error, OSError):
            _log.warn("Cannot start job {id}: {error}", id=job.order.id, error=str(error))
            report = Report(refused=f"Cannot start it: {error.strerror or error}", again=True)
        else:
            _log.failure("Cannot start job {id}", failure, id=job.order.id)
            report = Report(refused=f"Cannot start it: fault of the manager, see its log: {error!r:.300}", again=True)
        if job.key in self._jobs:
            job.ended(report)

    def _kill(self, message: Kill) -> None:
        job = self._jobs.get((message.id, message.attempt))
        if job is not None:
            job.silent = job.silent or message.silent
            reason = f": {message.reason}" if message.reason else ""
            self._end(job, Told(JobState.PERMANENT, f"Killed{reason}"), at_once=message.silent)

    def _end(self, job: RunningJob, told: Told, *, at_once: bool = False) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
            job.ended(Report(refused=told.text, again=told.state is JobState.TEMPORARY))
        else:
            job.end(told, at_once=at_once)

    # What jobs tell.

    def job_started(self, job: RunningJob, pid: int) -> None:
        """Its process has started."""
        self._say(Started(*job.key, pid))

    def job_status(self, status: JobStatus) -> None:
        """It says how far it is."""
        self._say(status)

    def job_commits(self, job: RunningJob, new: NewEnding, settled: Settled) -> None:
        """It wants this to take effect now."""
        self.endings.keep(new, settled)

    def job_ended(self, job: RunningJob, new: NewEnding) -> None:
        """All its processes have ended."""
        del self._jobs[job.key]
        if job.content is not None:
            self._contents.remove(job.content)
        ending = new.ending
        kind = job.order.kind if job.order.kind in self.kinds else ANY
        self.counts[kind, ending.state] += 1
        self.cpu_seconds[kind] += ending.cpu_ms / 1000
        if job.silent:
            if new.effects is not None:
                new.effects.close()
        else:
            self.endings.keep(new)
        self._begin_waiting()

    def _send_endings(self) -> None:
        if not self._sending and self._link is not None:
            self._sending = True
            Deferred.fromCoroutine(self._send_all()).addErrback(_log_failure)

    async def _send_all(self) -> None:
        """Send endings one after the other, each as a whole, as long as the scheduler reads."""
        try:
            while self._link is not None and self._link.stream.writable:
                link = self._link
                number = self.endings.after(self._sent_upto)
                if not number:
                    return
                text = await self.endings.read(number)
                if link is self._link:
                    link.stream.send(text)
                    self._sent_upto = number
        finally:
            self._sending = False

    # What can be run.

    async def _scan(self) -> None:
        try:
            found, faults = await self._starter.commands()
        except (OSError, CancelledError) as error:
            _log.warn("Cannot list the folders of workers: {error}", error=str(error))
            return
        for command, why in faults.items():
            if self.faults.get(command) != why:
                _log.warn("Not run: {why}", why=why)
        self.faults = faults
        for command in sorted(set(found) - set(self.commands)):
            self._say(Has(command))
        for command in sorted(set(self.commands) - set(found)):
            self._say(Has(command, gone=True))
        self.commands = found


def _log_failure(failure: Failure) -> None:
    _log.failure("The manager failed", failure=failure)
