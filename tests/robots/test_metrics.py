"""What a BOT-M, and a robot, tell of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lcc.errors import CODES, FetchError
from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Buckets
from lcc.protocols.work import Delete, Fetch
from lcc.roles.bot.metrics import BotMetrics
from lcc.roles.botm.metrics import STUCK_SECONDS, BotmMetrics
from lcc.storage.disk.file_system import Disk, Space
from tests.support.roles.botm import Bench
from tests.support.roles.robots import done, fetch_order

from .test_bot import Bench as RobotBench


def shown(metrics: IRoleMetrics) -> dict[tuple[str, ...], float | Buckets]:
    """Metric and values of labels -> what it shows."""
    return {
        (reading.metric.name, *labels): value for reading in metrics.readings() for labels, value in reading.series
    }


def failing(metrics: IRoleMetrics) -> dict[str, bool]:
    """Conditions that do not hold, and whether the process is broken for want of them."""
    return {each.name: each.alive for each in metrics.conditions() if not each.holds}


def test_a_robot_counts_its_fetches_by_how_they_ended(tmp_path: Path) -> None:
    bench = RobotBench(tmp_path)
    metrics = BotMetrics(bench.robot)
    for number in range(1, 6):
        bench.order(number)
    found = shown(metrics)
    assert (found["lcc_bot_fetches_running",], found["lcc_bot_orders_waiting",]) == (4, 1)
    first, second, third, fourth = bench.fetcher.running
    bench.clock.advance(0.2)
    first.succeed(b"hello", mimetype="text/html", wire_bytes=300)
    second.fail(FetchError.from_status(404))
    bench.clock.advance(2)
    third.fail(FetchError.from_status(410))
    lost = FetchError("idle-timeout")
    lost.wire_bytes = 50
    fourth.fail(lost)
    bench.settle()
    found = shown(metrics)
    assert found["lcc_bot_wire_bytes",] == 350 and found["lcc_bot_content_bytes",] == 5
    by_name = {key[1]: value for key, value in found.items() if key[0] == "lcc_bot_fetch_seconds"}
    assert by_name.keys() == {"stored", "http-4xx", "idle-timeout"}
    gone = by_name["http-4xx"]
    assert isinstance(gone, Buckets) and gone.total == pytest.approx(2.4) and gone.upto[-1] == 2
    assert dict(zip(gone.bounds, gone.upto, strict=False))[0.25] == 1
    assert not failing(metrics)
    bench.robot.pause()
    assert failing(metrics) == {"not-paused": False}


def test_a_fetch_that_does_not_end_is_counted(tmp_path: Path, logged_errors: Any) -> None:
    bench = RobotBench(tmp_path)
    bench.order(1, lease=2)
    stubborn = bench.fetcher.all[0].result
    stubborn._canceller = None
    stubborn.pause()
    bench.pass_time(6)
    found = shown(BotMetrics(bench.robot))
    ended = found["lcc_bot_fetch_seconds", "deadline"]
    assert isinstance(ended, Buckets) and ended.upto[-1] == 1 == found["lcc_bot_fetches_abandoned",]
    assert logged_errors.flush("does not cancel")


class LittleRoom(Disk):
    """Has what the test says."""

    free_bytes = 1 << 30

    def space(self, folder: Any) -> Space:
        return Space(self.free_bytes, 1000, True)


def test_a_botm_counts_what_it_keeps(tmp_path: Path, logged_errors: Any) -> None:
    disk = LittleRoom()
    bench = Bench(tmp_path, disk, content_reserve=1 << 20)
    metrics = BotmMetrics(bench.engine, bench.content)
    assert ("lcc_botm_disk_free_bytes",) not in shown(metrics), "nobody has looked yet"
    bench.engine.start()
    assert failing(metrics) == {"upper": False}
    qm, _ = bench.qm()
    bot, wire = bench.bot(2)
    bench.say(qm, *[fetch_order(number) for number in range(1, 5)])
    bench.finish(bot, bot.of(Fetch)[0])
    found = shown(metrics)
    assert (found["lcc_botm_orders", "out"], found["lcc_botm_orders", "waiting"]) == (2, 1)
    assert found["lcc_botm_robot_capacity", "bot-b1"] == 2 == found["lcc_botm_robot_orders", "bot-b1"]
    assert (found["lcc_botm_files_stored",], found["lcc_botm_files_stored_bytes",]) == (1, 3)
    assert found["lcc_botm_disk_free_bytes",] == 1 << 30 and found["lcc_botm_disk_reserve_bytes",] == 1 << 20
    assert not failing(metrics)
    bench.say(qm, Delete(1, 7, 1))
    assert shown(metrics)["lcc_botm_files_removed",] == 1
    disk.free_bytes = 1000
    bench.pass_time(3)
    assert failing(metrics) == {"disk": False}
    assert shown(metrics)["lcc_botm_orders_sent_back",] == 1 and shown(metrics)["lcc_botm_disk_free_bytes",] == 1000
    bench.say(bot, done(bot.of(Fetch)[1], CODES["store-failed"]))
    wire.kill(wire.client)
    bench.settle()
    assert shown(metrics)["lcc_botm_robots_lost",] == 1
    assert logged_errors.flush("No room for content")


def test_a_botm_that_looks_at_its_disk_no_longer_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged_errors: Any
) -> None:
    bench = Bench(tmp_path)
    bench.engine.start()
    bench.qm()
    metrics = BotmMetrics(bench.engine, bench.content)
    bench.pass_time(STUCK_SECONDS + 10)
    assert not failing(metrics)

    def fail(_tried: bool) -> str:
        raise RuntimeError("planted")

    monkeypatch.setattr(bench.content, "no_room", fail)
    bench.pass_time(STUCK_SECONDS + 10)
    assert failing(metrics) == {"looking": True}
    assert len(logged_errors.flush("planted")) > 10, "it is tried again"
