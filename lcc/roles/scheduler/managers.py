"""Managers: what each of them takes and has, and the connection to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.model.tasks import MESSAGE_CHARS_MAX, NAME_CHARS_MAX, JobResult, KindLimits
from lcc.protocols.endings import EndingReader
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.jobs import (
    COMMANDS_MAX,
    KINDS_MAX,
    RUNNING_MAX,
    RUNS_MAX,
    UP,
    Ending,
    EndingsRecorded,
    Has,
    Heard,
    Heartbeat,
    JobStatus,
    Kill,
    Kind,
    RunJob,
    RunningJob,
    RunOver,
    Started,
)
from lcc.roles.peer import Peer

_log = Logger()

ANY_KIND = "*"
_FILE_NAME_CHARS_MAX = 255


class Manager:
    """A run of a manager, also while it is not connected.

    :ivar started_time: when this run was heard of first (seconds since 1970).
    :ivar heard: when something was heard of it last, on the scheduler's clock.
    :ivar lost_time: since when it is not connected (seconds since 1970); None: it is.
    :ivar jobs: that it has: id -> (attempt, kind, resource).
    :ivar kinds: what it takes.
    :ivar commands: its executables.
    :ivar paused: why it takes nothing new, for display; empty: it does.
    """

    def __init__(self, name: str, run: str, started_time: float) -> None:
        self.name = name
        self.run = run
        self.host = name
        self.capacity = 0
        self.started_time = started_time
        self.heard = 0.0
        self.lost_time: float | None = None
        self.jobs: dict[int, tuple[int, str, str]] = {}
        self.kinds: dict[str, KindLimits] = {}
        self.commands: set[str] = set()
        self.paused = ""
        self.recorded = 0
        self.connection: ManagerConnection | None = None

    def __str__(self) -> str:
        return f"{self.name} on {self.host}"

    @property
    def takes(self) -> bool:
        """It is connected, and may be given jobs."""
        return self.connection is not None and self.connection.ready and not self.paused

    def free(self, kind: str) -> int:
        """How many more jobs of this kind it takes; of the kind "": of all kinds together."""
        if not self.takes:
            return 0
        whole = self.capacity - len(self.jobs) if self.capacity else 1 << 30
        if not kind:
            return max(0, whole)
        limits = self.kinds.get(kind) or self.kinds.get(ANY_KIND)
        if limits is None:
            return 0
        return max(0, min(whole, limits.jobs - sum(1 for _, other, _ in self.jobs.values() if other == kind)))

    def takes_kind(self, kind: str) -> bool:
        """It runs jobs of this kind, when it has room."""
        limits = self.kinds.get(kind) or self.kinds.get(ANY_KIND)
        return limits is not None and limits.jobs > 0

    def has(self, command: str) -> bool:
        """It can run this command; empty: the kind's own worker, which all have."""
        return not command or command in self.commands

    def attempt_of(self, job: int) -> int:
        """The attempt of this job that it has; 0: none."""
        return self.jobs.get(job, (0,))[0]

    def take(self, job: int, attempt: int, kind: str, resource: str) -> None:
        """It has this job."""
        self.jobs[job] = (attempt, kind, resource)


class Scheduling(Protocol):
    """What a connection needs of the engine."""

    clock: IReactorTime
    ending_chars_max: int

    def manager_connected(self, connection: ManagerConnection, hello: Hello) -> Manager:
        """A manager has said its hello.  StreamError: it is not taken."""

    def manager_ready(self, manager: Manager, running: dict[int, int], over: frozenset[str]) -> None:
        """It has said all that it has: job -> attempt; and which runs of it are over."""

    def manager_changed(self, manager: Manager) -> None:
        """It takes something else from now on."""

    def manager_lost(self, manager: Manager) -> None:
        """Its connection is gone."""

    def job_told(self, manager: Manager, job: int, attempt: int, process: int = 0, status: str = "") -> None:
        """Its process has started, or it says this of itself; what is said of a job that the manager has not is
        nothing."""

    def job_ended(self, manager: Manager, number: int, result: JobResult, chars: int) -> Deferred[Any] | None:
        """An ending, or a commit.  A Deferred: more are not wanted before it fires."""


class ManagerConnection(Peer):
    """One connection of a manager.

    :ivar ready: it has said what it has.
    """

    def __init__(self, engine: Scheduling, hello: Hello) -> None:
        super().__init__(engine.clock, hello, frozenset(["manager"]), UP)
        self.engine = engine
        self.ready = False
        self.manager: Manager | None = None
        self._running: dict[int, int] = {}
        self._over: set[str] = set()
        self._ending: EndingReader | None = None
        self._handlers: dict[type[Flat], Callable[[Manager, Any], Deferred[Any] | None]] = {
            Kind: self._kind,
            Has: self._has,
            RunningJob: self._running_job,
            RunOver: self._run_over,
            Ready: self._ready,
            Heartbeat: self._heartbeat,
            Started: self._started,
            JobStatus: self._status,
            Ending: self._ending_begins,
        }

    def peer_ready(self, hello: Hello) -> None:
        self.manager = self.engine.manager_connected(self, hello)

    def messages_received(self, messages: list[Flat]) -> Deferred[Any] | None:
        """As :class:`lcc.roles.peer.Peer` says.

        :raises StreamError: a message cannot stand where it does.
        """
        manager, wait = self.manager, None
        assert manager is not None
        for message in messages:
            if manager.connection is not self:
                return None  # another one has taken its place
            handler = self._handlers.get(type(message))
            if self._ending is not None:
                wait = self._ending_goes_on(manager, message) or wait
            elif handler is None:
                raise StreamError("unknown-message", f"<{message.TAG}> outside of an ending")
            else:
                wait = handler(manager, message) or wait
        return wait

    def peer_lost(self, reason: Failure) -> None:
        if self.manager is not None and self.manager.connection is self:
            self.manager.connection = None
            self.engine.manager_lost(self.manager)

    # What it says.

    def _kind(self, manager: Manager, message: Kind) -> None:
        _check_name("a kind", message.name, NAME_CHARS_MAX)
        limits = KindLimits(message.name, max(0, message.jobs), message.seconds, message.memory_bytes, message.files)
        manager.kinds[message.name] = limits
        if len(manager.kinds) > KINDS_MAX:
            raise StreamError("limit", f"more than {KINDS_MAX} kinds")
        if self.ready:
            self.engine.manager_changed(manager)

    def _has(self, manager: Manager, message: Has) -> None:
        _check_name("an executable", message.command, _FILE_NAME_CHARS_MAX)
        if message.gone:
            manager.commands.discard(message.command)
        else:
            manager.commands.add(message.command)
        if len(manager.commands) > COMMANDS_MAX:
            raise StreamError("limit", f"more than {COMMANDS_MAX} executables")
        if self.ready:
            self.engine.manager_changed(manager)

    def _running_job(self, manager: Manager, message: RunningJob) -> None:
        self._running[message.id] = message.attempt
        if len(self._running) > RUNNING_MAX:
            raise StreamError("limit", f"more than {RUNNING_MAX:,} jobs")

    def _run_over(self, manager: Manager, message: RunOver) -> None:
        _check_name("a run", message.run, NAME_CHARS_MAX)
        if message.run == manager.run:
            raise StreamError("syntax", "a manager that says that its own run is over")
        self._over.add(message.run)
        if len(self._over) > RUNS_MAX:
            raise StreamError("limit", f"more than {RUNS_MAX} runs that are over")

    def _ready(self, manager: Manager, message: Ready) -> None:
        self.ready = True
        self.engine.manager_ready(manager, self._running, frozenset(self._over))
        self._running, self._over = {}, set()

    def _heartbeat(self, manager: Manager, message: Heartbeat) -> None:
        manager.heard = self.clock.seconds()
        self.say(Heard(message.number))
        paused = message.paused[:MESSAGE_CHARS_MAX]
        if paused != manager.paused:
            manager.paused = paused
            self.engine.manager_changed(manager)

    def _started(self, manager: Manager, message: Started) -> None:
        self.engine.job_told(manager, message.id, message.attempt, process=message.process)

    def _status(self, manager: Manager, message: JobStatus) -> None:
        self.engine.job_told(manager, message.id, message.attempt, status=message.text)

    def _ending_begins(self, manager: Manager, message: Ending) -> None:
        self._ending = EndingReader(message, self.engine.ending_chars_max)

    def _ending_goes_on(self, manager: Manager, message: Flat) -> Deferred[Any] | None:
        ending = self._ending
        assert ending is not None
        result = ending.add(message)
        if result is None:
            return None
        self._ending = None
        return self.engine.job_ended(manager, ending.number, result, ending.chars)

    # What it is told.

    def run(self, message: RunJob) -> None:
        """Run this."""
        self.say(message)

    def kill(self, job: int, attempt: int, reason: str, silent: bool = False) -> None:
        """End this."""
        self.say(Kill(job, attempt, reason, silent))

    def say_recorded(self, number: int) -> None:
        """Endings up to this number are stored."""
        self.say(EndingsRecorded(number))


def _check_name(what: str, name: str, chars_max: int) -> None:
    if not 1 <= len(name) <= chars_max:
        raise StreamError("limit", f"{what} with a name of {len(name)} characters: it may have 1 to {chars_max}")
