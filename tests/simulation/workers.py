"""Workers of simulated managers: what would be processes of their own.

A seed decides what each does: it succeeds after some seconds, with effects or without, commits on its way, fails in
passing or for good, hangs, is killed, or takes no notice of TERM.  As with real ones, it goes on while its manager is
frozen or cut off, until its lease is over; and it ends with its manager.  What it tells its manager arrives in order,
after a moment; a manager that is frozen hears it later, one that is dead never.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import attrs
from twisted.internet.defer import Deferred, maybeDeferred, succeed

from lcc.domain.tasks.kinds import KindSettings
from lcc.protocols.flat import Flat
from lcc.protocols.jobs import RunJob
from lcc.protocols.worker import Add, Commit, LogLine, NotifyUrl, Refused, Retry, Status, Store
from lcc.roles.manager.conversation import Denied
from lcc.roles.manager.job import RunningJob
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Event
from lcc.workers.launch import KILL, LEASE_OVER, SECONDS, TOLD, Report

FOLLOW = "follow"
"""The command of all follow-ups."""
_PIPE_SECONDS = 0.002
_TERM_SECONDS = 0.05
_KILLED = 9
_ENDS: dict[str, float] = {"0": 60, "1": 9, "2": 5, "3": 3, "hang": 7, "signal": 4, "retry": 4}


@attrs.define
class Part:
    """What an attempt wants to take effect at once: all up to a commit, or to its end.

    :ivar counted: it has counted its job in what its task keeps.
    :ivar added: follow-ups: its token, and the key (empty: none).
    :ivar urls: that it notifies of.
    """

    counted: bool = False
    added: list[tuple[str, str]] = attrs.field(factory=list)
    urls: list[str] = attrs.field(factory=list)


@attrs.define(eq=False)
class Attempt:
    """What the world knows of an attempt.

    :ivar done: its worker has exited with 0.
    :ivar failed: its worker has failed for good, or was killed.
    :ivar parts: the last one belongs to its end.
    """

    order: RunJob
    manager: str
    began: float
    ended: float | None = None
    done: bool = False
    failed: bool = False
    parts: list[Part] = attrs.field(factory=lambda: [Part()])

    @property
    def activity(self) -> tuple[str, int]:
        """What never runs twice at once: its task, or if it is of none, its job."""
        return ("task", self.order.task) if self.order.task else ("job", self.order.id)


class Hall:
    """All workers of a world.

    :param root: of the site whose pages they notify of.
    :param step_seconds: between two things that a worker does, on the average.
    :ivar page: gives the name of the page that is notified of with a token.
    :ivar fails_until: until then, what they need is away: they fail in passing.
    :ivar attempts: by job and attempt.
    :ivar met: what must never be, as it was seen.
    """

    def __init__(self, root: str, step_seconds: float) -> None:
        self.root = root
        self.step_seconds = step_seconds
        self.page: Callable[[str], str] = str
        self.fails_until = 0.0
        self.attempts: dict[tuple[int, int], Attempt] = {}
        self.running: dict[tuple[str, int], Attempt] = {}
        self.using: dict[str, Attempt] = {}
        self.met: list[str] = []

    def begin(self, order: RunJob, manager: str, now: float) -> Attempt:
        """One more runs."""
        attempt = Attempt(order, manager, now)
        known = self.attempts.setdefault((order.id, order.attempt), attempt)
        if known is not attempt:
            self.met.append(f"job {order.id} is started twice as attempt {order.attempt}")
        other = self.running.get(attempt.activity)
        if other is not None:
            self.met.append(
                f"job {order.id} (attempt {order.attempt}) runs at {manager} while {other.order.id} "
                f"({other.order.attempt}) of the same {attempt.activity[0]} does at {other.manager}"
            )
        self.running[attempt.activity] = attempt
        if order.resource:
            user = self.using.get(order.resource)
            if user is not None:
                self.met.append(f"jobs {order.id} and {user.order.id} use {order.resource} at once")
            self.using[order.resource] = attempt
        return attempt

    def end(self, attempt: Attempt, now: float) -> None:
        """It runs no longer."""
        attempt.ended = now
        if self.running.get(attempt.activity) is attempt:
            del self.running[attempt.activity]
        if self.using.get(attempt.order.resource) is attempt:
            del self.using[attempt.order.resource]


class SimulatedWorkers:
    """In place of :class:`lcc.roles.manager.starting.Workers`: of one run of a manager."""

    def __init__(self, hall: Hall, process: Process) -> None:
        self._hall = hall
        self._process = process
        self._chance = process.timeline.random(f"starting {process.name} {process.timeline.now}")
        self.scratch = Path(f"/home/{process.name}/jobs")
        process.machine.disk.make_folder(self.scratch, 0o700)

    def start(
        self, order: RunJob, limits: KindSettings, job: RunningJob, lease_until: float, content: Path | None
    ) -> Worker:
        """As :class:`lcc.roles.manager.engine.JobStarter` says."""
        if self._chance.random() < 0.01:
            raise OSError(errno.EAGAIN, "no more processes")
        attempt = self._hall.begin(order, self._process.name, self._process.timeline.now)
        return Worker(self._hall, self._process, attempt, limits, job, lease_until, content)

    def commands(self) -> Deferred[tuple[list[str], dict[str, str]]]:
        """As :class:`lcc.roles.manager.engine.JobStarter` says."""
        return succeed(([FOLLOW, "work"], {}))

    def stop(self) -> None:
        """Those that run are ended by the manager, or with it."""


class Worker:
    """A worker, and its shepherd."""

    def __init__(
        self,
        hall: Hall,
        process: Process,
        attempt: Attempt,
        limits: KindSettings,
        job: RunningJob,
        lease_until: float,
        content: Path | None,
    ) -> None:
        self._hall = hall
        self._process = process
        self._timeline = process.timeline
        self._attempt = attempt
        self._limits = limits
        self._job = job
        order = attempt.order
        self._chance = self._timeline.random(f"worker {order.id} {order.attempt}")
        self._obeys = self._chance.random() < 0.7
        self._steps, self._end_how = _script(self._chance, order)
        self._part = attempt.parts[-1]
        self._content = process.machine.disk.paths_at(str(content)) if content is not None else None
        self._tokens = 0
        self._terminated = False
        self._lease = self._later(lease_until - process.reactor.seconds(), self._over, LEASE_OVER)
        self._events: list[Event] = [self._lease]
        if limits.seconds:
            self._events.append(self._later(limits.seconds, self._terminate, SECONDS))
        process.children.append(self._die)
        self._tell_manager(job.started, 1000 + order.id)
        self._soon(self._go_on)

    # What its manager says (lcc.roles.manager.job.Process).

    def tell(self, word: str) -> None:
        """TERM or KILL."""
        if word == KILL:
            self._over(TOLD)
        else:
            self._terminate(TOLD)

    def renew(self, until: float) -> None:
        """Its lease ends later."""
        if self._lease.active():
            self._lease.reset(max(0.0, until - self._process.reactor.seconds()))

    # Its life.

    def _later(self, seconds: float, function: Callable[..., Any], *args: Any) -> Event:
        """Not of the manager's process: it goes on while that is frozen."""
        return self._timeline.call_later(max(0.0, seconds), None, function, *args)

    def _soon(self, function: Callable[..., Any], *args: Any) -> None:
        self._events.append(self._later(self._chance.expovariate(1 / self._hall.step_seconds), function, *args))

    def _tell_manager(self, function: Callable[..., Any], *args: Any) -> None:
        if self._process.alive:
            self._process.reactor.callLater(_PIPE_SECONDS, function, *args)

    @property
    def _runs(self) -> bool:
        return self._attempt.ended is None

    def _terminate(self, why: str) -> None:
        if self._runs and not self._terminated:
            self._terminated = True
            seconds = _TERM_SECONDS if self._obeys else self._limits.grace_seconds
            self._events.append(self._later(seconds, self._over, why))

    def _over(self, why: str) -> None:
        """Its shepherd has killed it."""
        self._exit(Report(status=_KILLED, why=why))

    def _die(self) -> None:
        """Its manager is dead."""
        if self._runs:
            self._ended()

    def _exit(self, report: Report) -> None:
        if self._runs:
            self._ended()
            self._tell_manager(self._job.ended, report)

    def _ended(self) -> None:
        self._hall.end(self._attempt, self._timeline.now)
        for event in self._events:
            if event.active():
                event.cancel()
        if self._die in self._process.children:
            self._process.children.remove(self._die)

    def _go_on(self) -> None:
        if not self._runs:
            return
        if self._steps:
            step = self._steps.pop(0)
            self._tell_manager(self._ask, step, self._request(step))
            return
        how, attempt = self._end_how, self._attempt
        if self._timeline.now < self._hall.fails_until:
            how = "1"
        if how == "hang":
            return
        if how == "signal":
            attempt.failed = True
            self._exit(Report(status=11))
        elif how == "retry":
            self._tell_manager(self._ask, "", Retry(self._chance.randint(0, 3)))
            self._exit(Report(status=1 << 8))
        else:
            attempt.done, attempt.failed = how == "0", how == "2"
            self._exit(Report(status=int(how) << 8, cpu_seconds=0.01))

    # What it asks its manager.

    def _request(self, step: str) -> Flat:
        order = self._attempt.order
        self._tokens += 1
        token = f"{order.id}.{order.attempt}.{len(self._attempt.parts)}.{self._tokens}"
        if step == "count":
            kept = json.loads(order.data or '{"count": 0, "job": 0}')
            count = kept["count"] + (kept["job"] != order.id)
            return Store(data=json.dumps({"count": count, "job": order.id}))
        if step in ("add", "key", "shared"):
            key = {"add": "", "key": f"k{order.id}", "shared": "shared"}[step]
            after = self._chance.choice((0, 0, 2, 5))
            return Add(FOLLOW, json.dumps([token]), "follow", key, after, resource="")
        if step in ("feed", "link", "no"):
            folder = "no" if step == "no" else "n"
            mimetype = self._chance.choice(("", "text/html"))
            source = "feed" if step == "feed" else "link"
            return NotifyUrl(f"{self._hall.root}{folder}/{self._hall.page(token)}.html", source, mimetype=mimetype)
        if step == "robots":
            return Store(item=json.dumps({"robots": (self._content or b"").decode()}))
        if step == "commit":
            return Commit()
        return LogLine(token) if step == "log" else Status(token)

    def _ask(self, step: str, request: Flat) -> None:
        """In the manager."""
        if step == "commit":
            self._part = Part()
            self._attempt.parts.append(self._part)
        maybeDeferred(self._job.asked, request).addCallbacks(
            lambda answer: self._answered(step, request, answer), lambda failure: failure.trap(Denied) and None
        ).addCallback(lambda _: self._later(_PIPE_SECONDS, self._continue))

    def _continue(self) -> None:
        if self._runs:
            self._soon(self._go_on)

    def _answered(self, step: str, request: Flat, answer: Flat) -> None:
        if isinstance(answer, Refused):
            return
        if step == "count":
            self._part.counted = True
        elif isinstance(request, Add):
            self._part.added.append((json.loads(request.args)[0], request.key))
        elif isinstance(request, NotifyUrl):
            self._part.urls.append(request.url)


def _script(chance: Random, order: RunJob) -> tuple[list[str], str]:
    """What a worker does, and how it ends."""
    if order.kind == "robots":
        return ["robots"], "0" if chance.random() < 0.8 else "1"
    how = chance.choices(list(_ENDS), list(_ENDS.values()))[0]
    if order.kind == FOLLOW:
        return [], how
    steps = []
    if order.kind == "feed":
        steps = ["feed"] * chance.randint(0, 3)
    else:
        for step, share in (("count", 0.8), ("add", 0.3), ("key", 0.3), ("shared", 0.1), ("link", 0.4), ("no", 0.1)):
            if chance.random() < share:
                steps.append(step)
        chance.shuffle(steps)
        if chance.random() < 0.4:
            steps.insert(chance.randint(0, len(steps)), "commit")
        if chance.random() < 0.3:
            steps.insert(chance.randint(0, len(steps)), chance.choice(("log", "status", "commit")))
    return steps, how
