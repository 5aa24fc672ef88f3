"""The wire of scheduler and manager, from both ends, and what a worker writes on its descriptor 3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, execute, succeed
from twisted.internet.task import Clock

from lcc.config import ManagerConfig
from lcc.domain.tasks.kinds import ANY, KindSettings
from lcc.model.tasks import Effects, JobResult, JobState
from lcc.protocols.endings import write_ending
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.jobs import (
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
from lcc.protocols.worker import Add, Commit, LogLine, NotifyUrl, Period, Retry, Show, Status, Store
from lcc.roles.manager.conversation import PACE_SECONDS
from lcc.roles.manager.engine import Manager
from lcc.roles.manager.job import NotStarted
from lcc.roles.manager.job import RunningJob as ManagedJob
from lcc.storage.disk.file_system import Disk
from lcc.workers.launch import Report
from tests.fuzz.mutation import TOKENS, segment
from tests.fuzz.target import Target, check, joined
from tests.support.roles.robots import FakePeer
from tests.support.roles.scheduler import Bench
from tests.support.tasks import NOW
from tests.support.transports import Line, Wire

JOB = b"7700077"
"""Stands for the job that there is, in what is sent."""
_SETTINGS = ManagerConfig(name="m1", host="h1", jobs_max=1000, jobs=1000, requests_max=500, stop_seconds=0.0)
_TOKENS = (*TOKENS, JOB, b' attempt="1"', b' state="completed"', b' commit="1"', b"<end count='0'/>", b"<ready/>")
_LIMITS = KindSettings(1000, 60.0, 1.0, 1 << 30, 100, 1 << 20, 1 << 20, 10, 10)


def _xml(*messages: Flat) -> str:
    return "".join(each.to_xml() for each in messages)


class _OfJobs(Target):
    """:ivar job: that the peer may speak of."""

    share = 5
    streams = 60
    tokens = _TOKENS
    job = 0

    def play(self, random: Random, pieces: Sequence[bytes]) -> Line | None:
        self.prepare()
        data = joined(pieces)
        if JOB in data:
            pieces = segment(random, data.replace(JOB, str(self.job).encode()))
        return super().play(random, pieces)

    def prepare(self) -> None:
        """There is a job."""
        raise NotImplementedError


class ManagersAtScheduler(_OfJobs):
    """What managers say to a scheduler: the real one, on SQLite."""

    name = "jobs: at the scheduler"
    allowed = ("breaks the stream", "is refused")

    @classmethod
    def seeds(cls) -> list[bytes]:
        def hello(run: str = "r1") -> str:
            return Hello("manager", "hostile", run=run, capacity=5, host="h9").open_tag()

        kinds = _xml(Kind("command", 5, 300, 1 << 30, 256), Kind("*", 2), Has("true"), Has("other.sh"))
        job = int(JOB)
        effects = Effects(data="kept", every_seconds=900)
        done = JobResult(job, 1, JobState.COMPLETED, message="done", output="x" * 300, effects=effects)
        failed = JobResult(job, 1, JobState.TEMPORARY, exit_code=9, message="no", retry_after_seconds=5)
        commit = (
            _xml(Ending(1, job, 1, "running", 1, message="half")) + _xml(*write_ending(2, done)).partition(">")[2]
        )
        lives = _xml(Heartbeat(1), Started(job, 1, 4711), JobStatus(job, 1, "12 of 40"), Heartbeat(2, 1, "paused"))
        texts = (
            hello() + kinds + _xml(Ready()) + lives + _xml(*write_ending(1, done)),
            hello() + kinds + _xml(RunOver("r0"), RunningJob(job, 1), Ready()) + _xml(*write_ending(1, failed)),
            hello() + kinds + _xml(Ready()) + commit + _xml(*write_ending(2, done)) + "</lcc:stream>",
            hello("r2") + kinds + _xml(Ready(), Kind("command", 0), Has("true", True)) + lives,
            hello() + kinds + _xml(Ready(), *write_ending(1, done), *write_ending(1, done), *write_ending(9, failed)),
            hello(),
        )
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.bench = Bench(home, effects_max=1 << 16)
        self.clock = self.bench.clock
        self.bench.start()
        self.bench.pass_time(2)
        self._runs = 0
        self._hosts = 0

    def settle(self) -> None:
        self.bench.settle()

    def prepare(self) -> None:
        self.bench.add(every=31_000_000)
        self.bench.pass_time(1, silent=True)
        newest = "SELECT id FROM jobs WHERE task = (SELECT MAX(id) FROM tasks)"
        self.job = int(self.bench.database.now(lambda txn: txn.value(newest)))

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        stream = self.bench.engine.factory().buildProtocol(None)
        return Line(stream, self.settle, room=room, late=late)

    def rest(self) -> None:
        # What it had is lost with its lease, and due again.
        self.bench.pass_time(self.bench.settings.lease + 5, step=5, silent=True)

    def honest(self) -> None:
        """A job is run, and its ending recorded; so is what hostile managers have left."""
        bench = self.bench
        self._runs += 1
        self.prepare()
        manager = bench.manager("honest", run=f"run{self._runs}", has=("true",), command=1000)
        ended: dict[int, JobState] = {}
        for _ in range(400):
            bench.pass_time(1)
            for order in manager.given():
                manager.end(order)
                ended[order.id] = JobState.COMPLETED
            if self._is_over(self.job):
                break
        check(self._is_over(self.job), f"job {self.job} was not run: it is {bench.state(self.job)}")
        manager.peer.stream.abort()
        bench.settle()
        bench.managers.clear()
        self.rest()
        check(not bench.stopped, "the scheduler has given up")

    def _is_over(self, job: int) -> bool:
        return self.bench.state(job) is JobState.COMPLETED

    def close(self) -> None:
        self.bench.engine.stop()
        self.bench.settle()


def _hear(scheduler: FakePeer, messages: list[Flat]) -> None:
    """Answer heartbeats, so that no lease ends."""
    for message in messages:
        if isinstance(message, Heartbeat):
            scheduler.say(Heard(message.number))


class _Started:
    """A job's process that the launcher would have: it does what it is told.

    :ivar told: it was.
    """

    def __init__(self, job: ManagedJob, clock: Clock) -> None:
        self.job = job
        self.told = False
        self._clock = clock
        clock.callLater(0, job.started, 4711)

    def tell(self, word: str) -> None:
        if not self.told:
            self.told = True
            self._clock.callLater(0, self.job.ended, Report(status=9))

    def renew(self, until: float) -> None:
        """It has no lease of its own here."""


class _Starter:
    """In place of the launcher.

    :ivar started: jobs that run, and those that have run.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.scratch = folder
        self.started: list[_Started] = []
        self._clock = clock

    def start(self, order: RunJob, limits: KindSettings, job: Any, lease_until: float, content: Any) -> _Started:
        self.started.append(_Started(job, self._clock))
        return self.started[-1]

    def commands(self) -> Deferred[tuple[list[str], dict[str, str]]]:
        return succeed((["true"], {}))

    def stop(self) -> None:
        """Nothing runs."""


class _NoContents:
    """In place of the content that jobs are given: there is none."""

    async def fetch(self, order: RunJob) -> Path:
        raise NotStarted("no content")

    def remove(self, path: Path) -> None:
        """There was none."""


class _World:
    """A manager whose jobs are no processes, and whose scheduler is played."""

    def __init__(self, home: Path) -> None:
        self.clock = Clock()
        self.starter = _Starter(home, self.clock)
        contents: Any = _NoContents()
        self.engine = Manager(
            _SETTINGS,
            {ANY: _LIMITS},
            self.starter,  # type: ignore[arg-type]  # stands in
            contents,
            home,
            Disk(),
            self.clock,
            lambda: NOW + self.clock.seconds(),
            lambda function, *args: execute(function, *args),
            "run1",
            "h1",
        )
        self.engine.start()
        self.clock.advance(0)
        self.wires: list[Wire] = []

    def factory(self) -> Any:
        """Of its connection to the scheduler."""
        return self.engine.upstream_factory(lambda: None)

    def settle(self) -> None:
        self.clock.advance(0)
        for _ in range(5):
            for wire in self.wires:
                wire.settle()
            self.clock.advance(0)
        self.wires = [wire for wire in self.wires if not wire.closed]

    def scheduler(self) -> FakePeer:
        """An honest scheduler, that is connected."""
        peer = FakePeer(self.clock, Hello("scheduler", "s1", run="s1"), "manager", UP)
        peer.on_messages = lambda messages: _hear(peer, messages)
        self.wires.append(Wire(self.factory().buildProtocol(None), peer.build_stream()))
        self.settle()
        return peer

    def run(self, peer: FakePeer, job: int) -> _Started:
        """Have this job run."""
        peer.say(RunJob(job, 1, 0, "command", "true", 60))
        self.settle()
        check(self.starter.started, "no job was started")
        started = self.starter.started[-1]
        check(started.job.order.id == job, f"job {started.job.order.id} was started")
        return started

    def lose(self, peer: FakePeer) -> None:
        """The scheduler's connection is gone."""
        peer.stream.abort()
        self.settle()

    def record(self, peer: FakePeer) -> list[Ending]:
        """All endings that it heard; they are recorded."""
        self.settle()
        endings = peer.of(Ending)
        if endings:
            peer.say(EndingsRecorded(endings[-1].number))
        self.settle()
        return endings

    def close(self) -> None:
        done: list[Any] = []
        Deferred.fromCoroutine(self.engine.stop()).addBoth(done.append)
        for _ in range(400):
            self.clock.advance(0.1)
            self.settle()
            if done:
                break
        check(done == [None], f"the manager does not stop: {done}")


class OrdersAtManager(_OfJobs):
    """What a scheduler says to a manager."""

    name = "jobs: at the manager"

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello("scheduler", "s1", run="s1").open_tag()
        job = int(JOB)
        run = RunJob(job, 1, 3, "command", "true", 60, '["a","b c"]', "kept", "", "site")
        other = RunJob(job + 1, 2, 0, "feed", "full-content", 60, input='{"task": 1}', data="x" * 2000)
        texts = (
            hello + _xml(run, Heard(1), Heard(2), Kill(job, 1, "not wanted"), EndingsRecorded(1)),
            hello + _xml(run, RunJob(job, 2, 3, "command", "true", 60), Kill(job, 1, "", True), Heard(99)),
            hello + _xml(other, run, EndingsRecorded(0), EndingsRecorded(1 << 40)) + "</lcc:stream>",
            hello + _xml(*(RunJob(job + each, 1, 0, "command", "true", 60) for each in range(60))),
            hello + _xml(RunJob(job, 1, 0, "no-such", "none.sh", 1), RunJob(job, 1, 0, "command", "true", 60)),
            hello,
        )
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.world = _World(home)
        self.clock = self.world.clock

    def settle(self) -> None:
        self.world.settle()

    def prepare(self) -> None:
        self.job += 100

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return Line(self.world.factory().buildProtocol(None), self.settle, room=room, late=late)

    def rest(self) -> None:
        self.settle()

    def honest(self) -> None:
        """All that runs is ended and recorded; so is a job of this scheduler."""
        world = self.world
        self.prepare()
        peer = world.scheduler()
        for key in [job.key for job in world.engine.jobs]:
            peer.say(Kill(*key, "not wanted"))
        world.record(peer)
        check(not world.engine.jobs, f"{len(world.engine.jobs)} jobs do not end")
        world.starter.started.clear()
        started = world.run(peer, self.job)
        started.told = True
        started.job.ended(Report(status=0))
        endings = world.record(peer)
        mine = [each.state for each in endings if each.id == self.job]
        check(mine == [JobState.COMPLETED.value], f"its ending is told as {mine}")
        check(not len(world.engine.endings), "endings are kept that were recorded")
        world.lose(peer)

    def close(self) -> None:
        self.world.close()


class WorkerRequests(_OfJobs):
    """What a job writes on its descriptor 3."""

    name = "descriptor 3: at the manager"
    share = 6
    tokens = (*_TOKENS, b"<commit/>", b"<show/>", b"<ok/>", b' item="{}"', b' data=""', b' job="1"', b"<store/>")

    @classmethod
    def seeds(cls) -> list[bytes]:
        job = int(JOB)
        adding = Add("true", '["x"]', "command", "k1", 5, None, "", '["allow:h1"]', "data")
        texts = (
            _xml(Show(), Status("12 of 40"), LogLine("found it", "warn"), Period(900), Retry(5)),
            _xml(
                adding, Add("true", at_time=NOW + 99, job=job), NotifyUrl("http://site.example/1", "feed"), Commit()
            ),
            _xml(Store(item='{"id": "1", "title": "t"}'), Store(data="kept"), Commit(), Status("more"), Commit()),
            '<?xml version="1.0"?>\n' + _xml(Status("a")) + "\n\n<!-- x -->" + _xml(Status("b"), Store(item="[]")),
            _xml(NotifyUrl("nonsense"), NotifyUrl("http://h.example/", "told", "delete"), Show(job + 1), Add()),
            _xml(*(LogLine(f"line {number}") for number in range(300))),
        )
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.world = _World(home)
        self.clock = self.world.clock
        self._peer = self.world.scheduler()
        self._closed = 0
        self._opened = 0

    def settle(self) -> None:
        self.world.settle()

    def pass_time(self, seconds: float) -> None:
        """The scheduler is there all the time."""
        self.clock.advance(seconds / 8)
        self.settle()

    def prepare(self) -> None:
        self.job += 1
        self._started = self.world.run(self._peer, self.job)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        if self._started.told:
            self.prepare()
        self._opened += 1
        stream = self._started.job.build_descriptor(self._count_closed)
        return Line(stream, self.settle, room=room, late=late)

    def _count_closed(self) -> None:
        self._closed += 1

    def talk(self, random: Random, line: Line, pieces: Sequence[bytes]) -> None:
        line.say(pieces)
        # A commit is answered when the scheduler has recorded it.
        for _ in range(random.randrange(4)):
            self.world.record(self._peer)
            self.clock.advance(0.1)

    def play(self, random: Random, pieces: Sequence[bytes]) -> Line | None:
        line = super().play(random, pieces)
        self._end(random.choice((0, 0, 9, 1 << 8, 2 << 8)))
        return line

    def _end(self, status: int) -> JobState:
        """Its worker exits: it has ended, one way or the other, and is told so once."""
        self._peer.heard.clear()
        self._started.told = True
        self._started.job.ended(Report(status=status))
        endings = [each for each in self.world.record(self._peer) if not each.commit]
        check([each.id for each in endings] == [self.job], f"{endings} were told of job {self.job}")
        check(not len(self.world.engine.endings), "endings are kept that were recorded")
        check(not self.world.engine.jobs, "it is not forgotten")
        check(self._closed == self._opened, "its descriptor is not closed")
        self.world.starter.started.clear()
        self._peer.heard.clear()
        return JobState(endings[0].state)

    def rest(self) -> None:
        self.clock.advance(PACE_SECONDS)  # it may have waited so long for the next request
        self.settle()

    def honest(self) -> None:
        self.prepare()
        line = self.connect()
        line.say([_xml(Show(), Store(data="kept"), Commit()).encode()])
        for _ in range(4):
            self.clock.advance(0.1)
            self.world.record(self._peer)
        line.turn()
        check(line.heard.count(b"<ok") == 2 and b"<job " in line.heard, f"it heard {line.heard!r}")
        line.lose()
        state = self._end(0)
        check(state is JobState.COMPLETED, f"its ending is told as {state}")

    def close(self) -> None:
        self.world.lose(self._peer)
        self.world.close()
