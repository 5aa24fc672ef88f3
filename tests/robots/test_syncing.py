"""What a BOT-M syncs, what it says it holds, and what it verifies, under one clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.protocols.work import Checked, Fetch, Intact, Names, RecordedUpto, Settled, Verify
from lcc.roles.botm.syncer import ASKED_MAX
from lcc.storage.disk.content_paths import content_path
from lcc.storage.disk.content_sync import ContentSync
from tests.support.logs import LoggedErrors
from tests.support.roles.botm import Bench
from tests.support.roles.robots import done, fetch_order


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path, sync_interval=10.0, verify_bytes=10_000)
    bench.engine.start()
    return bench


def mark(bench: Bench) -> list[str]:
    return (bench.path / "synced").read_text().split()


def test_the_mark_stays_before_the_oldest_file_that_is_still_to_come(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot(8)
    bench.say(qm, *[fetch_order(number) for number in range(1, 6)])
    fetches = bot.of(Fetch)
    assert mark(bench)[0] == "1"
    for fetch in (fetches[0], fetches[1], fetches[3]):
        bench.finish(bot, fetch)
    bench.pass_time(10)
    assert len(bench.disk.synced) == 1 and mark(bench)[:2] == ["3", "running"]
    # The third one fails: there will be no such file.
    bench.say(bot, done(fetches[2], 404))
    bench.pass_time(10)
    assert mark(bench)[0] == "5"
    bench.finish(bot, fetches[4])
    bench.pass_time(10)
    assert mark(bench)[0] == "6"
    bench.engine.stop()
    assert mark(bench)[:2] == ["6", "clean"]


def test_an_order_whose_robot_is_lost_keeps_its_name(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot(1)
    bench.say(qm, fetch_order(1))
    bot.stream.close()
    bench.settle()
    bench.pass_time(10)
    assert mark(bench)[0] == "1"
    bot, _ = bench.bot(1, "b2")
    (fetch,) = bot.of(Fetch)
    bench.finish(bot, fetch)
    bench.pass_time(10)
    assert mark(bench)[0] == "2"


def test_what_it_holds(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot(2)
    status = bench.engine.status
    assert status()["settled"] is False and status()["files"] == [] == status()["attempts"]
    bench.say(qm, Settled(), *[fetch_order(number) for number in range(1, 4)])
    first, second = bot.of(Fetch)
    assert status()["settled"] is True
    assert status()["files"] == [1, 2] and status()["attempts"] == [first.attempt, second.attempt]
    bench.finish(bot, first)
    # Until its result is recorded it is held, whether it was sent or not.
    assert status()["files"] == [1, 2, 3] and len(status()["attempts"]) == 2
    bench.say(qm, RecordedUpto(1))
    assert status()["files"] == [2, 3]
    bench.say(bot, done(second, 404))
    assert status()["files"] == [3]
    # Also while nobody is there: a file of an earlier run is settled once and for all.
    qm.stream.abort()
    bench.settle()
    assert status()["settled"] is True


def test_a_slow_sync_is_not_begun_twice_and_the_stop_waits_for_it(bench: Bench) -> None:
    running: list[Deferred[Any]] = []
    calls: list[Any] = []

    def in_thread(function: Any, *args: Any) -> Deferred[Any]:
        calls.append((function.__name__, *args))
        running.append(Deferred())
        return running[-1]

    bench.engine.syncer._in_thread = in_thread
    bench.pass_time(30)
    assert calls == [("advance", 1)]
    stopped: list[Any] = []
    bench.engine.stop().addCallback(stopped.append)
    assert len(calls) == 1 and not stopped
    running[0].callback(None)
    assert calls[1:] == [("close",)] and not stopped
    running[1].callback(None)
    assert stopped == [None]


def test_a_disk_that_fails_is_logged_once_and_stops_nothing(bench: Bench, logged_errors: LoggedErrors) -> None:
    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    bench.disk.sync_all = fail  # type: ignore[method-assign]
    bench.pass_time(40)
    assert len(logged_errors.flush("Cannot sync the content folder")) == 1
    assert mark(bench)[1] == "failed"
    qm, _ = bench.qm()
    bot, _ = bench.bot(1)
    bench.say(qm, fetch_order(1))
    bench.finish(bot, bot.of(Fetch)[0])
    assert (bench.path / content_path(1)).exists()


def crashed(bench: Bench) -> None:
    """The machine has crashed: files 1 to 99 are suspect."""
    (bench.path / "synced").write_text("1 running boot0 0\n")
    bench.sync = ContentSync(bench.path, "boot1", bench.disk)
    bench.sync.open(100)
    bench.engine.syncer._sync = bench.sync


def put(bench: Bench, file: int, data: bytes) -> None:
    path = bench.path / content_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


MD5 = "900150983cd24fb0d6963f7d28e17f72"
"""Of ``abc``."""


def test_verifying_goes_at_its_pace(bench: Bench) -> None:
    crashed(bench)
    put(bench, 1, b"abc")
    put(bench, 2, b"x" * 25_000)
    put(bench, 3, b"abx")
    qm, _ = bench.qm()
    hello = qm.peer_hello
    assert hello is not None and (hello.suspect_from, hello.suspect_upto) == (1, 100)
    assert bench.engine.is_suspect(99) and not bench.engine.is_suspect(100)
    bench.say(qm, Verify(1, 3, MD5), Verify(2, 25_000, MD5), Verify(3, 3, MD5), Verify(4, 3, MD5))
    assert qm.of(Checked) == [Checked(1, True)]
    bench.pass_time(1, 0.1)
    assert qm.of(Checked) == [Checked(1, True), Checked(2, False)]
    bench.pass_time(1, 0.1)
    assert len(qm.of(Checked)) == 2
    bench.pass_time(2, 0.1)
    assert qm.of(Checked)[2:] == [Checked(3, False), Checked(4, False)]
    # An answer to another question: of a range that ends before.
    bench.say(qm, Intact(50))
    assert bench.engine.is_suspect(99)
    bench.say(qm, Intact(100))
    assert not bench.engine.is_suspect(99) and mark(bench)[1] == "running"
    assert [file for file in range(100) if bench.engine.is_damaged(file)] == [2, 3, 4]
    assert not (bench.path / content_path(3)).exists() and (bench.path / content_path(1)).exists()


def test_a_disk_that_does_not_take_what_is_intact_is_asked_again(bench: Bench, logged_errors: LoggedErrors) -> None:
    """Or all that comes later is suspect at the next crash, too (world 701014)."""
    crashed(bench)
    qm, _ = bench.qm()
    write = bench.disk.write

    def fail(path: Path, data: bytes) -> None:
        raise OSError(5, "Input/output error")

    bench.disk.write = fail  # type: ignore[method-assign]
    bench.say(qm, Intact(100))
    assert len(logged_errors.flush("Cannot sync the content folder")) == 1
    bench.pass_time(10)
    assert bench.engine.is_suspect(99)
    bench.disk.write = write  # type: ignore[method-assign]
    bench.pass_time(10)
    assert not bench.engine.is_suspect(99) and mark(bench)[1] == "running"


def test_a_connection_that_is_lost_ends_it(bench: Bench) -> None:
    crashed(bench)
    put(bench, 1, b"x" * 25_000)
    qm, _ = bench.qm()
    bench.say(qm, Verify(1, 25_000, MD5), Verify(2, 3, MD5))
    qm.stream.abort()
    bench.settle()
    bench.pass_time(5)
    again, _ = bench.qm()
    assert again.peer_hello is not None and again.peer_hello.suspect_upto == 100
    bench.say(again, Verify(3, 3, MD5))
    assert again.of(Checked) == [Checked(3, False)]


def test_too_many_questions_at_once(bench: Bench) -> None:
    crashed(bench)
    put(bench, 1, b"x" * 25_000)
    qm, _ = bench.qm()
    bench.say(qm, *[Verify(1, 25_000, MD5)] * (ASKED_MAX + 2))
    assert qm.lost


def test_a_folder_that_was_lost_gives_new_names_only(bench: Bench, logged_errors: LoggedErrors) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot(1)
    bench.say(qm, Names(5000), fetch_order(1))
    (fetch,) = bot.of(Fetch)
    assert fetch.attempt == "attempts/004/000000001388.1"
    assert (bench.path / "counter").read_text() == "5100\n"
    assert logged_errors.flush("lcc-admin fsck --repair")
    # It is behind what it has given out by now: nothing happens.
    bench.say(qm, Names(50), fetch_order(2))
    logged_errors.flush("lcc-admin fsck --repair")
    bench.finish(bot, fetch)
    assert bot.of(Fetch)[1].attempt == "attempts/004/000000001389.1"
