"""A robot that hangs when its BOT-M dies: the next BOT-M finds it, by the lock that it holds."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from twisted.application.service import IService, Service
from twisted.internet.task import Clock
from twisted.logger import LogEvent

from lcc.errors import Busy
from lcc.protocols.hello import Ready
from lcc.roles.bot.engine import SWEEP_SECONDS, Robot
from lcc.roles.botm.earlier_robots import LOOK_SECONDS, WAIT_SECONDS, WATCH_SECONDS, EarlierRobots
from lcc.storage.disk.content_folder import ROBOTS, AttemptFolder, ContentFolder
from lcc.storage.disk.durable import DurableCounter
from lcc.storage.disk.file_system import AnyPath, Disk
from lcc.transport.links import LockService
from tests.support.logs import LoggedErrors
from tests.support.roles.botm import Bench
from tests.support.roles.robots import FakePeer, ScriptedFetcher, World, fake_botm, fetch_order
from tests.support.transports import Wire

Restart = Callable[..., "Restarted"]
RUN, OTHER = "00112233445566aa", "00112233445566bb"


def content_of(path: Path) -> ContentFolder:
    folder = ContentFolder(path, lambda file: DurableCounter(file, 100), lock=LockService)
    folder.open()
    return folder


def lock_of(path: Path, run: str) -> LockService:
    """What a robot of another process holds."""
    lock = LockService(path / ROBOTS / run)
    lock.startService()
    return lock


def names(path: Path) -> list[str]:
    return sorted(file.name for file in (path / ROBOTS).iterdir())


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Restart]:
    """``restarted(run, ...)``: a BOT-M that starts where robots of these runs were, and still are."""
    made: list[Restarted] = []

    def restarted(*runs: str) -> Restarted:
        made.append(Restarted(tmp_path, *runs))
        return made[0]

    yield restarted
    for bench in made:
        for lock in bench.locks.values():
            lock.stopService()


class Restarted(Bench):
    """A BOT-M that starts where robots of these runs were, and still are."""

    def __init__(self, path: Path, *runs: str) -> None:
        content_of(path)
        self.locks = {run: lock_of(path, run) for run in runs}
        super().__init__(path)
        self.content._lock = LockService
        self.engine.start()

    def readies(self, qm: FakePeer) -> list[Ready]:
        self.settle()
        return qm.of(Ready)


def test_the_folder_knows_who_holds_a_lock(tmp_path: Path) -> None:
    folder = content_of(tmp_path)
    assert folder.fetching_robots() == set()
    lock = lock_of(tmp_path, RUN)
    (tmp_path / ROBOTS / OTHER).touch()
    assert folder.fetching_robots() == {RUN}
    assert names(tmp_path) == [RUN], "what nobody holds is removed"
    folder.robot_over(RUN)
    assert names(tmp_path) == [RUN], "it is there again"
    lock.stopService()
    folder.robot_over(RUN)
    assert names(tmp_path) == []
    (tmp_path / "outside").touch()
    folder.robot_over("../outside")
    assert (tmp_path / "outside").exists()


def test_what_is_removed_between_its_opening_and_its_locking_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, robot = content_of(tmp_path), AttemptFolder(tmp_path, lock=LockService)
    lock, looks = fcntl.flock, [folder.fetching_robots]

    def later(file: int, operation: int) -> None:
        while looks:
            assert looks.pop()() == set()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", later)
    robot.begin_fetching(RUN)
    assert folder.fetching_robots() == {RUN}
    robot.end_fetching(RUN)


def test_where_files_cannot_be_locked_nobody_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, robot = content_of(tmp_path), AttemptFolder(tmp_path, lock=LockService)

    def refused(_file: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError, match="No locks available"):
        robot.begin_fetching(RUN)
    assert names(tmp_path) == []
    (tmp_path / ROBOTS / RUN).touch()
    with pytest.raises(OSError, match=f"No locks available.*{RUN}"):
        folder.fetching_robots()


def test_a_botm_starts_on_a_full_disk_although_it_cannot_see_who_hangs(tmp_path: Path) -> None:
    content_of(tmp_path)
    (tmp_path / ROBOTS).rmdir()
    disk = FullDisk()
    disk.is_full = True
    folder = ContentFolder(tmp_path, lambda file: DurableCounter(file, 100, disk), disk, lock=LockService)
    folder.open()
    engine = EarlierRobots(Clock(), folder, bool, bool)
    engine.load()
    told: list[Ready] = []
    engine.tell(told.append)
    assert told == [Ready()]


def test_one_file_that_cannot_be_looked_at_hides_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, lock = content_of(tmp_path), lock_of(tmp_path, RUN)
    (tmp_path / ROBOTS / OTHER).touch()
    (tmp_path / ROBOTS / "README").touch()
    monkeypatch.setattr(folder, "_lock", lambda path: Unreadable() if path.name != RUN else LockService(path))
    assert folder.fetching_robots() == {RUN}
    assert folder.fetching_robots({RUN, OTHER, "gone"}) == {RUN, OTHER}, "that one is not known to have ended"
    lock.stopService()
    assert folder.fetching_robots({OTHER}) == {OTHER}


class Unreadable(Service):
    """The lock of a file that is another user's."""

    def startService(self) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")


def test_without_earlier_robots_the_botm_is_ready_at_once(restarted: Restart) -> None:
    bench = restarted()
    qm, _ = bench.qm()
    assert bench.readies(qm) == [Ready()]


def test_it_is_unsure_where_one_hangs(restarted: Restart) -> None:
    bench = restarted(RUN, OTHER)
    qm, wire = bench.qm()
    assert bench.readies(qm) == []
    bench.locks[OTHER].stopService()
    bench.clock.advance(WAIT_SECONDS)
    bench.settle()
    assert bench.readies(qm) == [Ready(unsure=True, up_seconds=5)]
    wire.kill(wire.client)
    bench.clock.advance(3600)
    qm, _ = bench.qm()
    assert bench.readies(qm) == [Ready(unsure=True, up_seconds=3605)], "and does not wait again"


@pytest.mark.parametrize("connects", [False, True])
def test_once_it_hangs_no_longer_the_botm_connects_again_and_is_sure(restarted: Restart, connects: bool) -> None:
    bench = restarted(RUN)
    bench.clock.advance(WAIT_SECONDS)
    qm, _ = bench.qm()
    assert [each.unsure for each in bench.readies(qm)] == [True]
    bench.clock.advance(WATCH_SECONDS)
    bench.settle()
    assert bench.engine.connected
    if connects:
        bench.bot(run=RUN)
    else:
        bench.locks[RUN].stopService()
    bench.clock.advance(WATCH_SECONDS)
    bench.settle()
    assert not bench.engine.connected
    bench.clock.advance(WATCH_SECONDS)
    qm, _ = bench.qm()
    assert bench.readies(qm) == [Ready()]
    bench.clock.advance(WATCH_SECONDS)
    bench.settle()
    assert bench.engine.connected


def test_one_that_is_slow_to_notice_delays_the_botm_a_little(restarted: Restart) -> None:
    bench = restarted(RUN)
    qm, _ = bench.qm()
    bench.locks[RUN].stopService()
    bench.clock.advance(LOOK_SECONDS)
    bench.settle()
    assert bench.readies(qm) == [Ready()]


def test_one_that_has_connected_again_does_not_hang(restarted: Restart) -> None:
    bench = restarted(RUN)
    qm, _ = bench.qm()
    bench.bot(run=RUN)
    bench.clock.advance(LOOK_SECONDS)
    bench.settle()
    assert bench.readies(qm) == [Ready()]


def test_a_connection_that_is_lost_while_it_waits_is_told_nothing(restarted: Restart) -> None:
    bench = restarted(RUN)
    qm, wire = bench.qm()
    wire.kill(wire.client)
    bench.settle()
    again, _ = bench.qm()
    bench.clock.advance(WAIT_SECONDS)
    bench.settle()
    assert [each.unsure for each in bench.readies(again)] == [True]
    assert bench.readies(qm) == []


def test_what_a_dead_robot_locked_is_removed_when_its_connection_ends(restarted: Restart) -> None:
    bench = restarted()
    lock = lock_of(bench.path, RUN)
    bot, _ = bench.bot(run=RUN)
    lock.stopService()
    bot.stream.close()
    bench.settle()
    assert names(bench.path) == []


class FullDisk(Disk):
    """One on which no file can be made while it is full."""

    is_full = False

    def patch(self, path: AnyPath, offset: int, data: bytes, *, create: bool = False) -> None:
        if self.is_full:
            raise OSError("full")
        super().patch(path, offset, data, create=create)

    def make_folder(self, path: AnyPath, mode: int = 0o700) -> list[str]:
        if self.is_full and not Path(path).is_dir():
            raise OSError("full")
        return super().make_folder(path, mode)


class RealRobot(World):
    """A robot with its folder, and a BOT-M that the test plays."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.content = content_of(path)
        self.disk, self.fetcher = FullDisk(), ScriptedFetcher()
        self.attempts = AttemptFolder(path, self.disk, LockService)
        attempts, fetchers = self.attempts, {"http": self.fetcher}
        self.robot = Robot("bot", 4, self.clock, fetchers, attempts.sink, RUN, owner=attempts.owner, note=attempts)
        self.factory = self.robot.upstream_factory(int)

    def botm(self) -> tuple[FakePeer, Wire]:
        peer = fake_botm(self.clock)
        wire = self.connect(self.factory.buildProtocol(None), peer.build_stream())
        self.settle()
        return peer, wire


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealRobot]:
    real = RealRobot(tmp_path)
    yield real
    real.robot.close()


def test_a_robot_holds_its_lock_while_it_is_connected(real: RealRobot) -> None:
    assert real.content.fetching_robots() == set()
    botm, wire = real.botm()
    assert botm.of(Ready) and real.content.fetching_robots() == {RUN}
    botm.say(fetch_order(1, attempt="attempts/000/000000000001.1"))
    real.settle()
    wire.kill(wire.server)
    real.settle()
    assert not real.fetcher.running
    assert real.content.fetching_robots() == set() and names(real.path) == []
    real.botm()
    assert real.content.fetching_robots() == {RUN}
    real.robot.close()
    assert names(real.path) == []


def test_a_robot_that_could_not_lock_tries_again(real: RealRobot, logged: list[LogEvent]) -> None:
    real.disk.is_full = True
    botm, _ = real.botm()
    assert botm.of(Ready) and real.content.fetching_robots() == set()
    assert [event["error"] for event in logged if "Cannot lock" in event.get("log_format", "")] == ["full"]
    botm.say(fetch_order(1, attempt="attempts/000/000000000001.1"))
    real.settle()
    real.disk.is_full = False
    real.clock.advance(SWEEP_SECONDS)
    real.settle()
    assert real.content.fetching_robots() == {RUN}


def test_the_lock_is_held_as_long_as_a_fetch_takes_to_end(real: RealRobot, logged_errors: LoggedErrors) -> None:
    botm, wire = real.botm()
    botm.say(fetch_order(1, attempt="attempts/000/000000000001.1"))
    real.settle()
    (stubborn,) = real.fetcher.running
    stubborn.result._canceller = None
    stubborn.result.pause()  # cancelling does not end it at once
    wire.kill(wire.server)
    real.settle()
    assert real.content.fetching_robots() == {RUN}
    real.clock.advance(SWEEP_SECONDS)
    real.settle()
    assert real.content.fetching_robots() == set(), "it was left alone"
    assert logged_errors.flush("does not cancel")
    stubborn.result.unpause()


def test_a_robot_with_the_folder_of_another_botm_locks_nothing_there(real: RealRobot) -> None:
    real.content.claim("0000000000000002")
    _, wire = real.botm()
    assert real.content.fetching_robots() == set()
    wire.kill(wire.server)
    real.content.claim("m1")
    real.botm()
    assert real.content.fetching_robots() == {RUN}


def test_a_lock_that_another_holds_is_no_lock(tmp_path: Path) -> None:
    content_of(tmp_path)
    lock: IService = lock_of(tmp_path, RUN)
    attempts = AttemptFolder(tmp_path, lock=LockService)
    with pytest.raises(OSError, match="is locked"):
        attempts.begin_fetching(RUN)
    attempts.end_fetching(RUN)
    assert names(tmp_path) == [RUN]
    with pytest.raises(Busy):
        LockService(tmp_path / ROBOTS / RUN).startService()
    lock.stopService()
    attempts.begin_fetching(RUN)
    attempts.begin_fetching(RUN)
    attempts.end_fetching(RUN)
    assert names(tmp_path) == []
