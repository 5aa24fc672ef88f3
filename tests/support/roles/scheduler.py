"""A scheduler on a bench: real tables on SQLite, a clock of its own, managers played by the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from lcc.config import SchedulerConfig
from lcc.model.tasks import JobResult, JobSpec, JobState
from lcc.protocols import jobs
from lcc.protocols.endings import write_ending
from lcc.protocols.hello import Hello, Ready
from lcc.roles.scheduler.engine import Scheduler
from tests.support.databases import DirectDatabase
from tests.support.roles.robots import FakePeer, World
from tests.support.tasks import NOW, Tasks, sqlite_tasks
from tests.support.transports import Wire


class FakeManager:
    """A manager played by the test.

    :ivar hears: it sends heartbeats with each second (:meth:`Bench.pass_time`).
    """

    def __init__(self, bench: Bench, name: str, run: str, host: str, capacity: int) -> None:
        hello = Hello("manager", name, run=run, host=host, capacity=capacity)
        self.bench = bench
        self.peer = FakePeer(bench.clock, hello, "scheduler", jobs.DOWN)
        stream = bench.engine.factory().buildProtocol(None)
        assert stream is not None
        self.wire: Wire = bench.connect(self.peer.build_stream(), stream)
        self.number = 0
        self.beats = 0

    def say(self, *messages: Any) -> None:
        for message in messages:
            self.peer.say(message)
        self.bench.settle()

    def heartbeat(self, paused: str = "") -> None:
        self.beats += 1
        self.say(jobs.Heartbeat(self.beats, paused=paused))

    def given(self) -> list[jobs.RunJob]:
        """The jobs that it was given since it was asked last."""
        found = self.peer.of(jobs.RunJob)
        self.peer.heard = [each for each in self.peer.heard if not isinstance(each, jobs.RunJob)]
        return found

    def end(self, job: jobs.RunJob, state: JobState = JobState.COMPLETED, **more: Any) -> JobResult:
        result = JobResult(job.id, job.attempt, state, **more)
        self.number += 1
        self.say(*write_ending(self.number, result))
        return result

    def lose(self) -> None:
        """The connection is cut."""
        self.wire.kill(self.wire.client)
        self.bench.settle()


class Bench(World):
    """See the module.

    :ivar step: what the wall clock is ahead of the other one.
    """

    def __init__(self, folder: Path, database: DirectDatabase | None = None, **settings: Any) -> None:
        super().__init__()
        self.step = NOW
        self.settings = SchedulerConfig(**settings)
        self.database = database or sqlite_tasks(folder)
        self.tasks = Tasks(self.database)
        self.stopped = 0
        self.runs = 0
        self.managers: list[FakeManager] = []
        self.engine = self.another()

    def another(self) -> Scheduler:
        """A further run of the scheduler."""
        self.runs += 1
        store = self.tasks.another_store()
        return Scheduler(self.settings, store, self.clock, self.now, f"s{self.runs}", self._stop)

    def _stop(self) -> None:
        self.stopped += 1

    def now(self) -> float:
        return self.step + self.clock.seconds()

    def start(self) -> None:
        self.engine.start()
        self.settle()

    def restart(self) -> None:
        """The scheduler is killed, and begins again."""
        self.engine.stop()
        self.settle()
        self.managers = []
        self.engine = self.another()
        self.start()

    def manager(
        self,
        name: str = "m",
        run: str = "r1",
        host: str = "host1",
        capacity: int = 0,
        running: dict[int, int] | None = None,
        over: tuple[str, ...] = (),
        has: tuple[str, ...] = ("true",),
        **kinds: int,
    ) -> FakeManager:
        manager = FakeManager(self, name, run, host, capacity)
        self.managers.append(manager)
        for kind, count in (kinds or {"command": 10}).items():
            manager.peer.say(jobs.Kind("*" if kind == "any" else kind, count))
        for command in has:
            manager.peer.say(jobs.Has(command))
        for earlier in over:
            manager.peer.say(jobs.RunOver(earlier))
        for job, attempt in (running or {}).items():
            manager.peer.say(jobs.RunningJob(job, attempt))
        manager.say(Ready())
        return manager

    def add(self, every: int = 3600, resource: str = "", on: tuple[str, ...] = (), **more: Any) -> int:
        """A task; it is given as an order, and carried out by the engine."""
        from lcc.model.tasks import Task, When
        from lcc.storage.tasks.orders import order_task

        spec = JobSpec(command="true", args=("a",), resource=resource, on=on)
        task = Task(0, attrs.evolve(spec, **more), When(every_seconds=every))
        number, _ = self.database.now(order_task, task, int(self.now()))
        return number

    def order(self, kind: str, target: int = 0, **body: Any) -> int:
        from lcc.storage.tasks.orders import ORDERS

        return self.database.now(ORDERS.give, kind, target, body, int(self.now()))

    def pass_time(self, seconds: float, step: float = 1.0, silent: bool = False) -> None:
        """Time goes by; managers that are connected are heard."""
        while seconds > 0:
            super().pass_time(min(step, seconds), step)
            seconds -= step
            for manager in [] if silent else self.managers:
                if not (manager.peer.lost or manager.wire.client.dead):
                    manager.heartbeat()

    def state(self, job: int) -> JobState:
        return self.tasks.job(job).state
