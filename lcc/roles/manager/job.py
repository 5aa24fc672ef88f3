"""One attempt of a job, from its order to its ending."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from lcc.config import ManagerConfig
from lcc.domain.tasks.kinds import KindSettings
from lcc.errors import StreamError
from lcc.model.notifiers import JOBS_MAY_SAY
from lcc.model.sources import parse_source
from lcc.model.tasks import DATA_BYTES_MAX, LOG_LEVELS, MESSAGE_CHARS_MAX, JobState, LogRow
from lcc.protocols.endings import read_followup
from lcc.protocols.flat import Flat
from lcc.protocols.jobs import DATA, ITEM, OUTPUT, AddJob, Ending, JobStatus, Notify, RunJob, pieces
from lcc.protocols.worker import (
    ITEM_BYTES_MAX,
    Add,
    Commit,
    LogLine,
    NotifyUrl,
    Ok,
    Period,
    Refused,
    Retry,
    Show,
    ShownJob,
    Status,
    Store,
)
from lcc.roles.manager.conversation import Denied, WorkerConversation
from lcc.roles.manager.effects import Collected, CollectedLog, TooMuch
from lcc.roles.manager.endings import NewEnding, Settled
from lcc.roles.manager.output import KeptOutput
from lcc.roles.manager.verdict import Told, verdict
from lcc.transport.stream import XmlStream
from lcc.workers.launch import KILL, TERM, Limits, Report

STATUS_SECONDS = 1.0
"""A job's status goes to the scheduler at most so often."""
SECONDS_MAX = 10 * 366 * 86400
URL_CHARS_MAX = 4096
_OPERATIONS = frozenset({"update", "delete", "recheck", "retract"})
_OK = Ok()


class NotStarted(Exception):
    """A job cannot begin; says why.

    :param again: another try might do.
    """

    def __init__(self, text: str, *, again: bool = True) -> None:
        super().__init__(text)
        self.again = again


class Process(Protocol):
    """The process of a job, as the launcher has it."""

    def tell(self, word: str) -> None:
        """Tell its shepherd :data:`~lcc.workers.launch.TERM` or :data:`~lcc.workers.launch.KILL`."""

    def renew(self, until: float) -> None:
        """Its lease ends later: then, on the reactor's clock."""


class JobOwner(Protocol):
    """What a :class:`RunningJob` needs of the manager."""

    def job_started(self, job: RunningJob, pid: int) -> None:
        """Its process has started."""

    def job_status(self, status: JobStatus) -> None:
        """It says how far it is."""

    def job_commits(self, job: RunningJob, new: NewEnding, settled: Settled) -> None:
        """It wants this to take effect now."""

    def job_ended(self, job: RunningJob, new: NewEnding) -> None:
        """All its processes have ended."""


class RunningJob:
    """
    :param order: what is to be run.
    :param now: seconds since 1970.
    :param effects: makes the collections of its effects, one after each commit.
    :ivar process: None: not begun.
    :ivar pid: of its worker; 0: it has not started yet.
    """

    def __init__(
        self,
        owner: JobOwner,
        order: RunJob,
        limits: KindSettings,
        clock: IReactorTime,
        now: Callable[[], float],
        effects: Callable[[], Collected],
        settings: ManagerConfig,
    ) -> None:
        self.order = order
        self.limits = limits
        self.process: Process | None = None
        self.pid = 0
        self.status = ""
        self.output = KeptOutput()
        self.started_seconds = clock.seconds()
        self.content: Path | None = None
        """A file that it is given."""
        self.told: Told | None = None
        """Why it was ended."""
        self.silent = False
        """Its report is not wanted."""
        self._owner = owner
        self._clock = clock
        self._now = now
        self._manager = settings.name
        self._requests_max = settings.requests_max
        self._new_effects = effects
        self._effects = effects()
        self._log = CollectedLog(settings.log_rows)
        self._data: str | None = None
        self._every_seconds: int | None = None
        self._retry_after: int | None = None
        self._commits = 0
        self._fault = ""
        self._status_call: IDelayedCall | None = None
        self._status_waits = False

    @property
    def key(self) -> tuple[int, int]:
        """Id of the job, and attempt."""
        return self.order.id, self.order.attempt

    # The manager.

    def end(self, told: Told, *, at_once: bool = False) -> None:
        """End it: TERM, or KILL; the first reason stays."""
        self.told = self.told or told
        if self.process is not None:
            self.process.tell(KILL if at_once else TERM)

    def begun(self) -> None:
        """It waits no longer."""
        self.started_seconds = self._clock.seconds()

    # The launcher (and a simulated one).

    def build_descriptor(self, closed: Callable[[], object]) -> XmlStream:
        """The protocol at the manager's end of its descriptor 3.

        :param closed: called when that is closed.
        """
        return WorkerConversation(self, self._clock, self._requests_max, closed).build_stream()

    def started(self, pid: int) -> None:
        """The worker runs."""
        self.pid = pid
        self._owner.job_started(self, pid)

    def wrote(self, data: bytes) -> None:
        """It has written this to its standard output or error."""
        self.output.add(data)

    def ended(self, report: Report) -> None:
        """All its processes have ended (or it could not be started), and all that they said was told."""
        if self._status_call is not None and self._status_call.active():
            self._status_call.cancel()
        limits = Limits(seconds=self.limits.seconds, disk_bytes=self.limits.disk_bytes)
        said = self.status or self.output.last_line
        state, exit_code, signal, message = verdict(report, self.told, self._fault, limits, said)
        effects: Collected | None = self._effects
        if state is not JobState.COMPLETED:
            self._effects.close()
            effects = self._every_seconds = self._data = None
        ending = Ending(
            0,
            *self.key,
            state.value,
            0,
            exit_code,
            signal,
            message,
            round((self._clock.seconds() - self.started_seconds) * 1000),
            round(report.cpu_seconds * 1000),
            report.memory_bytes,
            self._retry_after if state is JobState.TEMPORARY else None,
            self._every_seconds,
        )
        self._owner.job_ended(self, NewEnding(ending, self._messages(is_end=True), effects))

    def _messages(self, *, is_end: bool) -> list[Flat]:
        output = self.output.text if is_end else ""
        return [
            *(pieces(OUTPUT, output) if output else ()),
            *(pieces(DATA, self._data) if self._data is not None else ()),
            *self._log.take(int(self._now()), is_end=is_end),
        ]

    # Its descriptor 3.

    def fault(self, text: str) -> None:
        """Nothing more will be understood there: not all that it wanted would take effect, so nothing does."""
        self._fault = self._fault or text

    def asked(self, request: Flat) -> Flat | Deferred[Flat]:
        """The answer to a request.

        :raises Denied: it is refused.
        """
        job: int | None = getattr(request, "job", None)
        if job is not None and job != self.order.id:
            raise Denied("not-yours", f"this is descriptor 3 of job {self.order.id}, not of job {job}")
        if isinstance(request, Show):
            return self._shown()
        if isinstance(request, Commit):
            return self._commit()
        self._take(request)
        return _OK

    def _shown(self) -> ShownJob:
        order = self.order
        return ShownJob(
            order.id,
            order.task,
            order.kind,
            order.attempt,
            order.command,
            order.args,
            order.resource,
            order.data,
            order.input,
            round(self.limits.seconds),
            self._manager,
        )

    def _commit(self) -> Deferred[Flat]:
        if self._fault:
            raise Denied("failed", self._fault)
        self._commits += 1
        done: Deferred[Flat] = Deferred()
        ending = Ending(
            0,
            *self.key,
            JobState.RUNNING.value,
            self._commits,
            message=self.status,
            every_seconds=self._every_seconds,
        )
        new = NewEnding(ending, self._messages(is_end=False), self._effects)
        self._data = self._every_seconds = None
        self._effects = self._new_effects()
        self._owner.job_commits(self, new, lambda why: done.callback(Refused("failed", why) if why else _OK))
        return done

    def _take(self, request: Flat) -> None:
        if isinstance(request, Status):
            self.status = request.text[:MESSAGE_CHARS_MAX]
            self._say_status()
        elif isinstance(request, LogLine):
            if request.level not in LOG_LEVELS:
                raise Denied("invalid", f"level {request.level[:40]!r}: there are {', '.join(LOG_LEVELS)}")
            self._log.add(LogRow(int(self._now()), request.level, request.text[:MESSAGE_CHARS_MAX]))
        elif isinstance(request, Period):
            if not self.order.task:
                raise Denied("invalid", f"job {self.order.id} is of no task, so there is no period")
            self._every_seconds = _seconds(request.seconds, 1)
        elif isinstance(request, Retry):
            self._retry_after = _seconds(request.seconds, 0)
        else:
            self._take_effect(request)

    def _take_effect(self, request: Flat) -> None:
        if isinstance(request, Add):
            self._collect(self._followup(request))
        elif isinstance(request, NotifyUrl):
            self._collect(_notice(request))
        elif isinstance(request, Store) and request.item is not None:
            self._collect(*pieces(ITEM, _item(request.item)))
        elif isinstance(request, Store):
            data = request.data or ""
            if len(data.encode("utf-8", "replace")) > DATA_BYTES_MAX:
                raise Denied("too-much", f"data of more than {DATA_BYTES_MAX:,} bytes")
            self._data = data
        else:
            raise AssertionError(request)

    def _followup(self, request: Add) -> Flat:
        if request.kind == "command" and not request.command:
            raise Denied("invalid", "a follow-up without a command")
        added = AddJob(
            request.kind,
            request.command,
            request.args,
            request.key,
            request.after_seconds,
            request.at_time,
            self.order.resource if request.resource is None else request.resource,
            request.on,
            request.data,
        )
        try:
            read_followup(added)
        except (ValueError, StreamError) as error:
            raise Denied("invalid", str(error)) from None
        return added

    def _collect(self, *messages: Flat) -> None:
        if self._fault:
            raise Denied("failed", self._fault)
        try:
            self._effects.add(*messages)
        except TooMuch as error:
            self.fault(str(error))
            raise Denied("too-much", str(error)) from None
        except OSError as error:
            self.fault(f"effects cannot be kept: {error.strerror or error}")
            raise Denied("failed", self._fault) from None

    def _say_status(self) -> None:
        """Tell the scheduler now, unless that was done just now: then a moment later, whatever it is by then."""
        if self._status_call is not None and self._status_call.active():
            self._status_waits = True
            return
        self._status_waits = False
        self._owner.job_status(JobStatus(*self.key, self.status))
        self._status_call = self._clock.callLater(STATUS_SECONDS, self._status_due)

    def _status_due(self) -> None:
        if self._status_waits:
            self._say_status()


def _seconds(value: int, minimum: int) -> int:
    if not minimum <= value <= SECONDS_MAX:
        raise Denied("invalid", f"{value} is not from {minimum} to {SECONDS_MAX:,} seconds")
    return value


def _notice(request: NotifyUrl) -> Notify:
    try:
        source = parse_source(request.source)
        if not source & JOBS_MAY_SAY:
            raise ValueError(f"source {request.source!r} is not for workers (there are feed, link, listed)")
        if request.op not in _OPERATIONS:
            raise ValueError(f"operation {request.op[:40]!r}: there are {', '.join(sorted(_OPERATIONS))}")
        scheme, colon, _ = request.url.partition("://")
        if not colon or not scheme.isalnum() or len(request.url) > URL_CHARS_MAX or " " in request.url:
            raise ValueError(f"{request.url[:200]!r} is no URL")
    except ValueError as error:
        raise Denied("invalid", str(error)) from None
    return Notify(request.url, request.source, request.op, request.mimetype)


def _item(text: str) -> str:
    if len(text.encode("utf-8", "replace")) > ITEM_BYTES_MAX:
        raise Denied("too-much", f"an item of more than {ITEM_BYTES_MAX:,} bytes")
    try:
        if type(json.loads(text)) is not dict:
            raise ValueError
    except (ValueError, RecursionError):
        raise Denied("invalid", "an item must be a JSON object") from None
    return text
