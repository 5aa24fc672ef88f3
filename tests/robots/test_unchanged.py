"""Content that need not be fetched again, and content of another type than was told: robot and BOT-M."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.errors import CODES
from lcc.protocols.work import Done, Fetch
from lcc.storage.disk.content_paths import attempt_path
from tests.support.roles.botm import Bench
from tests.support.roles.robots import done, fetch_order

from .test_bot import Bench as RobotBench

STORED: dict[str, Any] = {"stored": "3.99", "etag": '"e"', "modified": 100, "stored_bytes": 7}


def conditional(number: int, **more: Any) -> Fetch:
    """An order about something that is stored."""
    return attrs.evolve(fetch_order(number), **(STORED | more))


def order(bench: RobotBench, fetch: Fetch) -> None:
    bench.botm.say(attrs.evolve(fetch, attempt=attempt_path(1, 1)))
    bench.settle()


@pytest.fixture
def robot(tmp_path: Path) -> RobotBench:
    return RobotBench(tmp_path)


def test_the_fetcher_hears_what_is_stored(robot: RobotBench) -> None:
    order(robot, conditional(1))
    (running,) = robot.fetcher.running
    asked = running.order
    assert (asked.conditional, asked.etag, asked.modified, asked.stored_bytes) == (True, '"e"', 100, 7)
    running.succeed(status=304, unchanged=True, wire_bytes=55)
    (result,) = robot.results
    assert (result.code, result.unchanged, result.status, result.wire_bytes) == (0, "3.99", 304, 55)
    assert (result.file, result.md5, result.size_bytes) == (None, "", 0)
    assert robot.files() == []


def test_a_fetcher_may_fetch_all_the_same(robot: RobotBench) -> None:
    order(robot, conditional(1))
    robot.fetcher.running[0].succeed(b"newer", revalidate=True)
    (result,) = robot.results
    assert (result.code, result.unchanged, result.size_bytes, result.revalidate) == (0, "", 5, True)


def test_what_was_written_before_it_was_found_unchanged_goes(robot: RobotBench) -> None:
    order(robot, conditional(1))
    robot.fetcher.running[0].succeed(b"some", unchanged=True)
    assert robot.results[0].unchanged == "3.99"
    assert robot.files() == []


def test_unchanged_is_no_answer_to_who_did_not_ask(robot: RobotBench) -> None:
    order(robot, fetch_order(1))
    assert not robot.fetcher.running[0].order.conditional
    robot.fetcher.running[0].succeed(unchanged=True)
    assert (robot.results[0].code, robot.results[0].unchanged) == (CODES["bad-response"], "")


def test_another_type_than_was_told(robot: RobotBench) -> None:
    order(robot, fetch_order(1))
    robot.fetcher.running[0].succeed(b"%PDF", mimetype="application/pdf", charset="x", wire_bytes=99)
    (result,) = robot.results
    assert result.code == CODES["mimetype-mismatch"] == 1408
    assert result.detail == "told text/html, got application/pdf"
    assert result.wire_bytes == 99
    assert robot.files() == []


@pytest.mark.parametrize("mimetype", ["", "text/html", "application/octet-stream"])
def test_types_that_contradict_nothing(robot: RobotBench, mimetype: str) -> None:
    order(robot, fetch_order(1))
    robot.fetcher.running[0].succeed(b"<p>", mimetype=mimetype)
    assert (robot.results[0].code, robot.results[0].mimetype) == (0, mimetype)


def test_the_botm_passes_it_on_without_a_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, conditional(1), conditional(2, stored="3.100"))
    first, second = bot.of(Fetch)
    assert (first.stored, first.etag, first.modified, first.stored_bytes) == ("3.99", '"e"', 100, 7)
    bench.say(bot, attrs.evolve(done(first, size=0), status=304, unchanged="3.99"))
    bench.finish(bot, second)
    unchanged, fetched = qm.of(Done)
    assert (unchanged.code, unchanged.status, unchanged.unchanged) == (0, 304, "3.99")
    assert (unchanged.machine, unchanged.file) == (None, None)
    assert (fetched.unchanged, fetched.machine) == ("", 7)
    assert fetched.file is not None
    assert len(bench.files()) == 1


@pytest.mark.parametrize("said", ["3.98", "nonsense"])
def test_a_robot_that_answers_what_it_was_not_asked(tmp_path: Path, said: str) -> None:
    bench = Bench(tmp_path)
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, conditional(1), fetch_order(2))
    for fetch in bot.of(Fetch):
        bench.write(fetch)
        bench.say(bot, attrs.evolve(done(fetch), unchanged=said))
    assert [(result.code, result.unchanged, result.file) for result in qm.of(Done)] == [
        (CODES["robot-error"], "", None)
    ] * 2
    assert bench.files() == []


def test_it_is_sent_again_until_it_is_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    qm, wire = bench.qm()
    bot, _ = bench.bot()
    bench.say(qm, conditional(1))
    (fetch,) = bot.of(Fetch)
    bench.say(bot, attrs.evolve(done(fetch), unchanged="3.99"))
    wire.kill(wire.ends[1])
    bench.settle()
    later, _ = bench.qm()
    assert [result.unchanged for result in later.of(Done)] == ["3.99"]
