"""The scheduler: when tasks are due, and which manager carries a job out (seed 003).

*Owns* the tables of tasks (:mod:`lcc.storage.tasks.store`): it alone writes them, and the newest scheduler that has
claimed them alone.  Commands and the monitor leave orders.  Managers own the processes of jobs, and nothing else.

*Strategy.*  One loop does everything that writes, one step after the other: orders, endings, lost jobs, tasks that
are due, jobs for managers with room.  It runs each second and whenever there is something to do, and each step takes
what has gathered since in one transaction.  Tasks are not held in memory; they are found by an index of when they are
due.  Jobs that are due are (:class:`~lcc.roles.scheduler.ready.ReadyJobs`), up to ``ready_max``.

A job is given out in this order: its row says that the attempt runs; the manager gets it; the manager reports its end
with all its effects; one transaction records the end, the effects, and when the task is due next; the manager hears
that.  So a task has at most one job, and effects take place once, whatever is lost in between.

*Failures.*

* A manager is lost, or its host: its jobs are lost when it was silent for ``lease``, and are tried again, with
  growing delays.  By then it has ended them itself (:mod:`lcc.protocols.jobs`).  A late report of it does nothing, as
  its attempt is no longer the job's.
* A manager is killed, and started again: this run says that the former one is over; what that had is lost at once.
* The connection is lost, and comes back within the lease: the manager names what it has, and everything goes on.
  What it does not name never arrived there: that is lost at once.  What was killed meanwhile is ended then.
* The scheduler ends, or is killed: jobs go on; the next run waits for their managers for a lease.
* The database is unreachable: nothing begins; what is reported waits, and managers are no longer read when much does.
  The same transaction may be done twice: attempts, commits and keys of follow-ups are fenced in their rows.
* A newer scheduler has claimed the tables: this one stops.
* A job breaks a rule (too many effects, a notice of no URL, items that are none): a permanent error of that job, with
  the words.  Nothing of it takes effect.
* Something cannot be handled, though the database is there: it is named in the log and set aside, as an error of its
  job, task or order (:mod:`lcc.storage.database.bisecting`); where that is not possible either, the step is tried
  again with the next tick, and the other steps are done all the same.
* The wall clock is set: forwards, what is due then is due now, and for a day nothing is forgotten; backwards, nothing
  waits longer from then on than its rule has it wait at most (:mod:`lcc.storage.tasks.clock_steps`; so it is at the
  start, too).  Leases do not notice it: they are measured on the reactor's clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import SchedulerConfig
from lcc.errors import Busy, StoreUnavailable, StreamError
from lcc.model.tasks import MESSAGE_CHARS_MAX, Assigned, DueJob, JobResult, JobState, Recorded, StartedJob, TaskClaim
from lcc.protocols.hello import Hello
from lcc.protocols.jobs import RunJob, write_args
from lcc.roles.background import Background
from lcc.roles.loops import LogLimit
from lcc.roles.peer import PeerFactory
from lcc.roles.scheduler.counters import Counters
from lcc.roles.scheduler.endings import Ending, EndingQueue
from lcc.roles.scheduler.housekeeping import Housekeeping
from lcc.roles.scheduler.manager_table import ManagerTable
from lcc.roles.scheduler.managers import Manager, ManagerConnection
from lcc.roles.scheduler.ready import ReadyJobs, Taker
from lcc.roles.scheduler.roster import Lost, Roster
from lcc.roles.wall_clock import WallClock
from lcc.storage.database.bisecting import NOT_OF_ONE
from lcc.storage.tasks.jobs.due_work import DueWork
from lcc.storage.tasks.store import TaskStore

_log = Logger()

TICK_SECONDS = 1.0
_BATCH = 200
_ORDERS_AT_ONCE = 50
_FIRST = (0, 0)
_STATES = {JobState.COMPLETED: "completed", JobState.TEMPORARY: "temporary", JobState.PERMANENT: "permanent"}


class Scheduler:
    """The engine.

    :param now: the wall clock, seconds since 1970.
    :param run: names this run of the process.
    :param stop_process: called when a newer scheduler has claimed the tables.
    """

    def __init__(
        self,
        settings: SchedulerConfig,
        store: TaskStore,
        clock: IReactorTime,
        now: Callable[[], float],
        run: str,
        stop_process: Callable[[], object],
    ) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.now: Callable[[], float] = WallClock(now, clock, self._stepped)
        self.counters = Counters()
        self.ready = ReadyJobs()
        self.roster = Roster(settings.lease)
        self.manager_table = ManagerTable(self.roster, store)
        self.ending_chars_max = settings.effects_max
        self.run_number = 0
        """Number of this run; 0: it has not claimed the tables yet."""
        self.paused_since: float | None = None
        """Since when an operator has it give out no jobs (seconds since 1970); None: it does."""
        self.trouble = ""
        """Why the database is waited for; empty: it is not."""
        self.claimed: Callable[[TaskClaim], object] = lambda claim: None
        """Called when this scheduler has claimed the tables."""
        self.background: list[Callable[[], object]] = []
        """Called each second, once the tables are claimed: what others do."""
        self._hello = Hello("scheduler", settings.name, run=run)
        self._stop_process = stop_process
        self._stopped = False
        self._tick_loop = LoopingCall(self._tick)
        self._tick_loop.clock = clock
        self._work = Background("Cannot schedule", self._work_ended, self._work_failed)
        self._again = False
        self._ticked = True
        self._endings = EndingQueue(settings.effects_max)
        self._lost: list[Lost] = []
        self._killed: dict[tuple[int, int], str] = {}
        """Running attempts (job, attempt) that are to end, and why: their managers hear it when they are there."""
        self._told: dict[tuple[int, int], tuple[int, str]] = {}
        """What is to be noted of running attempts (job, attempt): process id or 0, status or empty."""
        self._loaded: tuple[int, int] = _FIRST
        self._loading: tuple[int, int] = _FIRST
        """Up to where is being loaded now: what others make meanwhile may come too late for it."""
        self._repeated = store.repeated
        self._giving: list[tuple[DueJob, Manager]] = []
        self._last_time = 0
        self._steps, self._steps_bounded = 1, 0
        """How often the wall clock was set, the time before the start included; after how many of these what waits
        was looked at."""
        self._early: list[tuple[Manager, ManagerConnection | None, dict[int, int], frozenset[str]]] = []
        """Managers that were ready before the tables were claimed."""
        self._housekeeping = Housekeeping(settings, store)
        self._log_limit = LogLimit(clock)

    # Beginning and end.

    def start(self) -> None:
        """Claim the tables, and begin; until then managers may connect and wait."""
        self._tick_loop.start(TICK_SECONDS)

    def stop(self) -> None:
        """Drop all managers and timers.  What was given to the store may still be done."""
        self._stopped = True
        if self._tick_loop.running:
            self._tick_loop.stop()
        self._work.cancel()
        for manager in self.roster.connected:
            if manager.connection is not None:
                manager.connection.stream.abort()

    def factory(self) -> PeerFactory:
        """For the port of managers."""
        return PeerFactory(lambda: None if self._stopped else ManagerConnection(self, self._hello))

    def pause(self) -> None:
        """Give out no jobs until :meth:`resume`.  All else goes on."""
        if self.paused_since is None:
            self.paused_since = self.now()

    def resume(self) -> None:
        """Give out jobs again."""
        self.paused_since = None
        self.wake()

    @property
    def endings_waiting(self) -> int:
        """Endings that wait to be recorded."""
        return len(self._endings)

    # What managers say.

    def manager_connected(self, connection: ManagerConnection, hello: Hello) -> Manager:
        """As :class:`lcc.roles.scheduler.managers.Scheduling` says."""
        if not hello.name or not hello.run:
            raise StreamError("syntax", "the hello of a manager without name or run")
        if hello.capacity < 0:
            raise StreamError("syntax", f"the hello of a manager with capacity={hello.capacity}")
        manager = self.roster.manager_of(hello.name, hello.run, self.clock.seconds(), self.now())
        if manager.connection is not None:
            manager.connection.stream.abort()
        manager.connection, manager.lost_time = connection, None
        manager.capacity, manager.host = hello.capacity, hello.host or hello.name
        manager.kinds, manager.commands = {}, set()
        for other in self.roster.connected:
            if other.name == manager.name and other.host != manager.host:
                _log.warn(
                    "Two managers are named {name}, on {host} and on {other}: one that is down is not missed. Next: "
                    "give each a name of its own ([manager] name)",
                    name=manager.name,
                    host=manager.host,
                    other=other.host,
                )
        return manager

    def manager_ready(self, manager: Manager, running: dict[int, int], over: frozenset[str]) -> None:
        """As :class:`lcc.roles.scheduler.managers.Scheduling` says."""
        _log.info(
            "Manager {manager} connected; it has {count} jobs, and takes {kinds}",
            manager=str(manager),
            count=len(running),
            kinds=", ".join(f"{limits.jobs} {kind}" for kind, limits in sorted(manager.kinds.items())) or "none",
        )
        if self.run_number:
            self._compare(manager, running, over)
        else:
            self._early.append((manager, manager.connection, running, over))

    def _compare(self, manager: Manager, running: dict[int, int], over: frozenset[str]) -> None:
        """What a manager has, with what it should have; also of runs of it that are over."""
        lost, unwanted = self.roster.compare(manager, running, self._endings.jobs_of(manager.name), over)
        self._lost += lost
        for job, attempt in unwanted:
            if manager.connection is not None:
                manager.connection.kill(job, attempt, "it is not wanted any longer", silent=True)
        for job, (attempt, _, _) in manager.jobs.items():
            if (job, attempt) in self._killed and manager.connection is not None:
                manager.connection.kill(job, attempt, self._killed[job, attempt])
        self.manager_changed(manager)

    def manager_changed(self, manager: Manager) -> None:
        """As :class:`lcc.roles.scheduler.managers.Scheduling` says."""
        self.manager_table.changed()
        self.ready.managers_changed()
        self.wake()

    def manager_lost(self, manager: Manager) -> None:
        """As :class:`lcc.roles.scheduler.managers.Scheduling` says."""
        manager.lost_time = self.now()
        self.manager_table.changed()
        if not self._stopped:
            _log.info(
                "Lost the connection to manager {manager}, which has {count} jobs",
                manager=str(manager),
                count=len(manager.jobs),
            )

    def job_told(self, manager: Manager, job: int, attempt: int, process: int = 0, status: str = "") -> None:
        """As :class:`lcc.roles.scheduler.managers.Scheduling` says."""
        if manager.attempt_of(job) == attempt:
            known, before = self._told.get((job, attempt), (0, ""))
            self._told[job, attempt] = (process or known, status[:MESSAGE_CHARS_MAX] or before)

    def job_ended(self, manager: Manager, number: int, result: JobResult, chars: int) -> Deferred[Any] | None:
        """As :class:`lcc.roles.scheduler.managers.Scheduling` says."""
        result = attrs.evolve(result, manager=manager.name)
        room = self._endings.add(Ending(manager, number, result, chars))
        self.wake()
        return room

    # The loop.

    def wake(self) -> None:
        """There is something to do."""
        self._again = True
        if not (self._work.busy or self._stopped):
            self._work.begin(self._do_all())

    def _tick(self) -> None:
        self._ticked = True
        self.wake()
        if self.run_number:
            for call in self.background:
                call()

    async def _do_all(self) -> None:
        while self._again and not self._stopped:
            self._again = False
            if not self.run_number:
                await self._claim()
            now, clock = self._time(), self.clock.seconds()
            if self._steps_bounded < self._steps:
                await self._step("look at what waits", self._bound_waits(now))
            if self._ticked:
                self._ticked = False
                await self._step("read what is due", self._do_due(now))
                await self._step("note what jobs say", self._note_progress(now))
                await self._step("write the table of managers", self.manager_table.save(clock, now))
                await self._step("forget old jobs", self._housekeeping.purge(clock, now))
                await self._step("forget old items", self._housekeeping.purge_items(clock, now))
            await self._step("record endings", self._record(now))
            await self._step("record lost jobs", self._lose(now))
            await self._step("give out jobs", self._give(now))
            self.trouble = ""

    async def _step(self, what: str, work: Awaitable[None]) -> None:
        """Do it; if it fails with the database there, the next steps are done all the same."""
        try:
            await work
        except NOT_OF_ONE:
            raise
        except Exception:
            if self._log_limit.allows(what):
                _log.failure("Cannot {what}", what=what)

    async def _note_progress(self, now: int) -> None:
        if self._told:
            told, self._told = self._told, {}
            await self.store.note_progress([(*key, *said) for key, said in told.items()], now)

    def _stepped(self, step: float) -> None:
        """The wall clock was set by so many seconds; less than 0: back."""
        self._steps += 1
        if step > 0:
            self._housekeeping.postpone(self.clock.seconds())

    async def _bound_waits(self, now: int) -> None:
        """The wall clock may have been set back: nothing waits for too long."""
        steps, after = self._steps, await self.store.bound_waits(0, now)
        while after is not None:
            after = await self.store.bound_waits(after, now)
        self.ready.no_later_than(now)
        await self._read_resources()
        self.ready.clear()  # jobs are due at other times now
        self._loaded = _FIRST
        self.roster.no_later_than(now)
        self.manager_table.changed()
        self._steps_bounded = steps

    def _time(self) -> int:
        now = int(self.now())
        if now < self._last_time:
            self._loaded = _FIRST  # the clock was set back
        self._last_time = now
        return now

    async def _claim(self) -> None:
        claim = await self.store.claim()
        await self._read_resources()
        await self.manager_table.load(self.clock.seconds(), self.now())
        running = await self.store.running_jobs()
        self.roster.adopt_orphans(running, self.clock.seconds())
        for job in running:
            self.ready.use(job.resource, job.id, job.started_time)
        self._killed = {(job.id, job.attempt): job.killed for job in running if job.killed}
        self.run_number = claim.run
        early, self._early = self._early, []
        for manager, connection, named, over in early:
            if manager.connection is connection is not None:
                self._compare(manager, named, over)
        _log.info("Scheduler run {run}: {count} jobs are out", run=claim.run, count=len(running))
        self.claimed(claim)

    async def _do_due(self, now: int) -> None:
        """Orders, tasks that are due, jobs that are due: read at once, as each read wakes a thread."""
        try:
            due = await self._read_due(now, _ORDERS_AT_ONCE)
            if due.orders:
                await self._step("carry out orders", self._carry_out_orders(due.orders, now))
                due = await self._read_due(now, 0)  # they may have changed what is due
            if due.tasks:
                await self._step("make the jobs of due tasks", self._make_due_jobs(due.tasks, now))
            await self._step("take the jobs that are due", self._load(due, now))
        finally:
            self._loading = _FIRST

    async def _read_due(self, now: int, orders_max: int) -> DueWork:
        if self.store.repeated != self._repeated:
            # The first run may have been committed; then the second one has found nothing to make.
            self._repeated, self._loaded = self.store.repeated, _FIRST
        if self.ready.read_from is not None:
            due_time, number = self.ready.read_from
            self._loaded, self.ready.read_from = min(self._loaded, (due_time, number - 1)), None
        self._loading = (now, 1 << 62)
        limit = min(_BATCH, self.settings.ready_max)
        due = await self.store.due_work(now, self._loaded, orders_max, _BATCH, limit)
        if due.last_job is not None and len(due.job_rows) == limit:
            self._loading = due.last_job
        return due

    async def _carry_out_orders(self, orders: list[int], now: int) -> None:
        done = await self.store.carry_out_orders(orders, now)
        self.counters.orders += done.count
        self._again = self._ticked = True  # there may be more
        for number in done.changed:
            self.ready.discard(number)
        if done.changed:
            self.ready.managers_changed()  # they may be among those that are not held here
        self._add(done.made)
        for job, attempt, why in done.killed:
            self._killed[job, attempt] = why
            manager = self.roster.holder(job)
            if manager is not None and manager.connection is not None:
                manager.connection.kill(job, attempt, why)
        await self._read_resources()

    async def _read_resources(self) -> None:
        rows = await self.store.resources()
        for removed in set(self.ready.intervals) - {row.name for row in rows}:
            self.ready.set_interval(removed, 0, 0)
        for row in rows:
            self.ready.set_interval(row.name, row.interval_seconds, row.started_time)

    async def _make_due_jobs(self, tasks: list[int], now: int) -> None:
        made = await self.store.make_due_jobs(tasks, now)
        self.counters.made += len(made)
        self._add(made)
        if len(made) == _BATCH:
            self._again = self._ticked = True

    async def _load(self, due: DueWork, now: int) -> None:
        """Take the jobs that have become due."""
        found, end = due.jobs, self._loading
        more = end < (now, 1 << 62)
        giving = self._being_given
        new = [job for job in found if job.id not in giving and self.ready.wants(job)]
        while len(new) > self._room and self.ready.make_room(self.roster.connected):
            new = [job for job in new if self.ready.wants(job)]
        if len(new) > self._room:
            new = new[: self._room]
            end = (new[-1].due_time, new[-1].id) if new else self._loaded
        for job in new:
            self.ready.add(job)
        if (more and end > self._loaded) or self.store.repeated != self._repeated:
            self._again = self._ticked = True
        self._loaded = end

    @property
    def _being_given(self) -> set[int]:
        return {job.id for job, _ in self._giving}

    @property
    def _room(self) -> int:
        """How many more jobs are held in memory."""
        return max(0, self.settings.ready_max - len(self.ready))

    def add(self, made: Iterable[DueJob]) -> None:
        """Others have made these jobs."""
        jobs = list(made)
        self.counters.made += len(jobs)
        self._add(jobs)
        if jobs:
            self.wake()

    def _add(self, made: list[DueJob]) -> None:
        """These were made just now: those that come behind what was loaded will be.  (When whoever has made one
        hears of it, it may have been loaded, and be on its way out.)"""
        giving = self._being_given
        for job in made:
            if job.id not in giving and (job.due_time, job.id) <= max(self._loaded, self._loading):
                if self._room:
                    self.ready.add(job)
                else:
                    key = job.due_time, job.id
                    self.ready.read_from = min(key, self.ready.read_from or key)

    # Endings.

    async def _record(self, now: int) -> None:
        while self._endings:
            batch = self._endings.first(_BATCH)
            done = await self.store.record_endings([ending.result for ending in batch], now)
            self._endings.recorded(batch)
            for ending, recorded in zip(batch, done.recorded, strict=True):
                self._ended(ending, recorded)
            self.counters.followups += len(done.made)
            self._add(done.made)
            for manager in {id(ending.manager): ending.manager for ending in batch}.values():
                if manager.connection is not None:
                    manager.connection.say_recorded(manager.recorded)
            self._endings.tell_room()

    def _ended(self, ending: Ending, recorded: Recorded) -> None:
        manager, result = ending.manager, ending.result
        manager.recorded = max(manager.recorded, ending.number)
        if recorded.late:
            self.counters.late += 1
        elif result.state in _STATES:
            name = _STATES[result.state]
            setattr(self.counters, name, getattr(self.counters, name) + 1)
        if not recorded.over:
            return
        held = manager.jobs.get(result.id)
        if held is None or held[0] != result.attempt:
            return
        attempt, _, resource = held
        self._killed.pop((result.id, attempt), None)
        self._told.pop((result.id, attempt), None)
        if result.state in (JobState.RUNNING, JobState.PERMANENT) and manager.connection is not None:
            # What it has committed may have been refused, here or when it was read, so that it has ended; a manager
            # where it has ended by itself takes no notice.
            manager.connection.kill(result.id, attempt, "its effects are refused", silent=True)
        del manager.jobs[result.id]
        self.ready.release(resource, result.id)
        self.ready.more_room()

    # Jobs that are lost.

    async def _lose(self, now: int) -> None:
        self._lost += self.roster.take_lost(self.clock.seconds())
        by_reason: dict[str, list[Lost]] = {}
        for each in self._lost:
            by_reason.setdefault(each.why, []).append(each)
        for why, lost in by_reason.items():
            found = await self.store.lose_attempts([(each.job, each.attempt) for each in lost], why, now)
            self.counters.lost += len(found)
            for job, attempt in found:
                _log.warn("Job {job} is lost (attempt {attempt}): {why}", job=job, attempt=attempt, why=why)
            for each in lost:
                self._killed.pop((each.job, each.attempt), None)
                self.ready.release(each.resource, each.job)
                self._lost.remove(each)

    # Giving jobs out.

    async def _give(self, now: int) -> None:
        if self.paused_since is not None:
            return
        while True:
            if not self._giving:
                takers: list[Taker] = [manager for manager in self.roster.connected if manager.takes]
                self._giving = [
                    (job, taker)
                    for job, taker in self.ready.choose(takers, now, _BATCH)
                    if isinstance(taker, Manager)
                ]
            if not self._giving:
                return
            chosen = [Assigned(job, manager.name, manager.run, manager.host) for job, manager in self._giving]
            # Until it is known to be committed: the same again.
            started = await self.store.start_jobs(chosen, now)
            giving, self._giving = self._giving, []
            self._send(started, giving)

    def _send(self, started: list[StartedJob], giving: list[tuple[DueJob, Manager]]) -> None:
        found = {job.id: job for job in started}
        self.counters.started += len(started)
        for due, manager in giving:
            job = found.get(due.id)
            if job is None:
                self.ready.release(due.resource, due.id)  # it was killed, or changed, meanwhile
                continue
            self.ready.use(due.resource, due.id, self.now())  # it may have been chosen a while ago
            if manager.connection is None or not manager.connection.ready:
                # The manager may be forgotten by now: then nobody else would miss the job.  If it is there again, and
                # has yet to say what it has, it may say so as it was before it had this one, and would run it though
                # the job is lost.
                self._lost.append(Lost(job.id, job.attempt, due.resource, f"manager {manager} left before it had it"))
                continue
            manager.take(job.id, job.attempt, due.kind, due.resource)
            manager.connection.run(self._message(job))
            why = self._killed.get((job.id, job.attempt))
            if why is not None:  # while its start was not known to be committed
                manager.connection.kill(job.id, job.attempt, why)

    def _message(self, job: StartedJob) -> RunJob:
        spec = job.spec
        return RunJob(
            job.id,
            job.attempt,
            job.task,
            spec.kind,
            spec.command,
            int(self.settings.lease),
            write_args(spec.args),
            job.data,
            job.input,
            spec.resource,
        )

    # When the loop ends.

    def _work_ended(self) -> None:
        if self._again and not self.trouble:
            self.wake()

    def _work_failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, Busy):
            self._fatal(error)
        elif isinstance(error, StoreUnavailable):
            self.trouble = str(error)
            self._loaded = _FIRST  # what it has made may not be known here
            if self._log_limit.allows("reach the database"):
                _log.warn("Database unavailable, retrying: {error}", error=str(error))
        elif not failure.check(CancelledError):
            self.trouble = f"{type(error).__name__}: {error}"
            _log.failure("Cannot schedule", failure=failure)

    def _fatal(self, error: Busy) -> None:
        if not self._stopped:
            _log.critical("This scheduler stops: {error}", error=str(error))
            self.stop()
            self._stop_process()
