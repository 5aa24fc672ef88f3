"""Batches of content files: at the robot, and at its BOT-M."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.errors import CODES, FetchError
from lcc.model.content_batches import FILES_MAX, write_stored
from lcc.protocols.content_batch import write_file
from lcc.protocols.hello import KNOWS_BATCHES
from lcc.protocols.work import Done, Fetch, RecordedUpto
from lcc.storage.disk.content_paths import attempt_path, content_path, nth_attempt
from lcc.storage.disk.file_system import Disk
from tests.robots.test_bot import Bench as RobotBench
from tests.support.logs import LoggedErrors
from tests.support.roles.botm import Bench
from tests.support.roles.robots import FakePeer, done, fetch_order

CONTENTS = [b"one", b"", b"three"]
ANSWER = write_file(200, b"one") + write_file(200) + write_file(410) + write_file(200, b"three")


def digest(data: bytes) -> str:
    return md5(data).hexdigest()


STORED = write_stored([(3, digest(b"one")), (0, digest(b"")), None, (5, digest(b"three"))])


@pytest.fixture
def robot(tmp_path: Path) -> RobotBench:
    return RobotBench(tmp_path)


def batch(number: int, count: int = 4, attempt: int = 1) -> Fetch:
    first = 1022  # so that the attempts lie in two folders
    return attrs.evolve(fetch_order(number, attempt=attempt_path(first, attempt)), files=count, mimetype="")


def ready(bench: RobotBench) -> None:
    (bench.path / attempt_path(1024, 1)).parent.mkdir()


def test_a_robot_stores_each_file_of_a_batch(robot: RobotBench) -> None:
    ready(robot)
    robot.say(batch(1))
    (running,) = robot.fetcher.running
    running.succeed(*[ANSWER[at : at + 5] for at in range(0, len(ANSWER), 5)], wire_bytes=200)
    (result,) = robot.results
    assert (result.code, result.files, result.size_bytes, result.md5, result.wire_bytes) == (0, STORED, 8, "", 200)
    names = [attempt_path(1022 + index, 1) for index in (0, 1, 3)]
    assert [(robot.path / name).read_bytes() for name in names] == CONTENTS
    assert len(robot.files()) == 3


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (ANSWER[:-1], "early-eof"),
        (ANSWER + b"x", "bad-response"),
        (write_file(200, b"one") + b"<html>not here</html>", "bad-response"),
        (b"", "early-eof"),
    ],
)
def test_a_bad_answer_leaves_nothing(robot: RobotBench, answer: bytes, name: str) -> None:
    ready(robot)
    robot.say(batch(1))
    (running,) = robot.fetcher.running
    try:
        running.succeed(answer)
    except FetchError as error:  # as it comes to the fetcher
        running.fail(error)
    (result,) = robot.results
    assert (result.code, result.files, robot.files()) == (CODES[name], "", [])


def test_a_batch_without_a_file_is_not_found(robot: RobotBench) -> None:
    robot.say(batch(1, 2))
    (running,) = robot.fetcher.running
    running.succeed(write_file(410) + write_file(413))
    (result,) = robot.results
    assert (result.code, result.files) == (404, "")


def test_a_robot_that_loses_its_botm_removes_what_it_has_of_a_batch(robot: RobotBench) -> None:
    ready(robot)
    robot.say(batch(1))
    (running,) = robot.fetcher.running
    running.sink.write(ANSWER[:15])
    assert len(robot.files()) == 2
    robot.wire.kill(robot.wire.server)
    robot.settle()
    assert robot.files() == []
    with pytest.raises(OSError, match="closed"):  # a fetcher that does not notice that it was cancelled
        running.sink.write(ANSWER[15:])
    assert robot.files() == []


# At the BOT-M.


def bot(bench: Bench, run: str = "b1", knows: str = KNOWS_BATCHES) -> Any:
    return bench.bot(run=run, knows=knows)


def write(bench: Bench, fetch: Fetch) -> None:
    for index, content in ((0, b"one"), (1, b""), (3, b"three")):
        (bench.path / nth_attempt(fetch.attempt, index)).write_bytes(content)


def stored(fetch: Fetch) -> Done:
    return attrs.evolve(done(fetch, size=8), files=STORED, md5="")


def order(bench: Bench, qm: FakePeer, number: int = 1) -> None:
    bench.say(qm, attrs.evolve(fetch_order(number), files=4))


def test_each_file_of_a_batch_becomes_a_content_file(bench: Bench) -> None:
    qm, _ = bench.qm()
    peer, _ = bot(bench)
    bench.say(qm, fetch_order(5))
    order(bench, qm)
    bench.finish(peer, peer.of(Fetch)[0])
    fetch = peer.of(Fetch)[1]
    assert fetch.files == 4
    files = [2, 3, 4, 5]
    status = bench.engine.status()
    assert status["files"] == [1, *files]
    assert status["attempts"] == [nth_attempt(fetch.attempt, index) for index in range(4)]
    write(bench, fetch)
    bench.say(peer, stored(fetch))
    (_, result) = qm.of(Done)
    assert (result.code, result.machine, result.file, result.files) == (0, 7, 2, STORED)
    assert bench.files() == sorted(content_path(file) for file in (1, 2, 3, 5))
    assert (bench.path / content_path(5)).read_bytes() == b"three"
    assert bench.engine.status()["files"] == [1, *files]
    assert bench.engine.counters.files_stored == 4
    bench.say(qm, RecordedUpto(2))
    assert bench.engine.status()["files"] == []
    bench.say(qm, fetch_order(6))
    assert bench.engine.status()["files"] == [6]


def test_a_robot_of_an_older_version_gets_no_batch(bench: Bench) -> None:
    """The queue manager asks for its files one by one then."""
    qm, _ = bench.qm()
    peer, _ = bot(bench, knows="")
    order(bench, qm)
    bench.say(qm, fetch_order(2))
    assert [fetch.files for fetch in peer.of(Fetch)] == [0]
    (result,) = qm.of(Done)
    assert result.code == CODES["scheme-unsupported"]


def test_the_batch_of_a_lost_robot_goes_to_another_one(bench: Bench) -> None:
    qm, _ = bench.qm()
    peer, wire = bot(bench)
    order(bench, qm)
    (fetch,) = peer.of(Fetch)
    write(bench, fetch)
    wire.kill(wire.client)
    other, _ = bot(bench, "b2")
    bench.pass_time(2)
    (again,) = other.of(Fetch)
    assert bench.files() == []
    assert (again.files, again.attempt) == (4, nth_attempt(fetch.attempt, 0).replace(".1", ".2"))
    write(bench, again)
    bench.say(other, stored(again))
    assert bench.files() == [content_path(file) for file in (1, 2, 4)]
    assert [result.files for result in qm.of(Done)] == [STORED]


@pytest.mark.parametrize("files", ["", "-,-,-,-", "1:x", STORED + ",-"])
def test_a_result_that_does_not_fit_the_batch_is_an_error(bench: Bench, files: str) -> None:
    qm, _ = bench.qm()
    peer, _ = bot(bench)
    order(bench, qm)
    (fetch,) = peer.of(Fetch)
    write(bench, fetch)
    bench.say(peer, attrs.evolve(stored(fetch), files=files))
    (result,) = qm.of(Done)
    assert (result.code, result.file, result.files) == (CODES["robot-error"], None, "")
    assert bench.files() == []


def test_files_of_an_ordinary_order_mean_nothing(bench: Bench) -> None:
    qm, _ = bench.qm()
    peer, _ = bot(bench)
    bench.say(qm, fetch_order(1))
    (fetch,) = peer.of(Fetch)
    bench.write(fetch)
    bench.say(peer, attrs.evolve(done(fetch), files=STORED))
    (result,) = qm.of(Done)
    assert (result.code, result.file, result.files) == (0, 1, "")
    assert bench.engine.status()["files"] == [1]


class _Failing(Disk):
    """Renames only so many files."""

    left = 2

    def rename(self, source: Any, target: Any) -> None:
        if not str(target).endswith(("counter", "synced")):
            if self.left <= 0:
                raise OSError(5, "planted")
            self.left -= 1
        super().rename(source, target)


def test_a_batch_is_stored_as_a_whole_or_not_at_all(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    bench = Bench(tmp_path, _Failing())
    qm, _ = bench.qm()
    peer, _ = bot(bench)
    order(bench, qm)
    (fetch,) = peer.of(Fetch)
    write(bench, fetch)
    bench.say(peer, stored(fetch))
    (result,) = qm.of(Done)
    assert (result.code, result.file, result.files) == (CODES["store-failed"], None, "")
    assert bench.files() == []
    assert len(logged_errors.flush("planted")) == 1


@pytest.mark.parametrize("count", [-1, FILES_MAX + 1])
def test_a_batch_that_is_none_ends_the_connection(bench: Bench, count: int) -> None:
    qm, _ = bench.qm()
    bench.say(qm, attrs.evolve(fetch_order(1), files=count))
    assert qm.lost
