"""The robot between a BOT-M that the test plays and a fetcher that does what the test says."""

import hashlib
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import CancelledError, Deferred

from lcc.errors import CODES, FetchError
from lcc.model import Fetched
from lcc.protocols.hello import Ready
from lcc.protocols.work import Done, Fetch
from lcc.roles.bot.closing import CLOSE_SECONDS
from lcc.roles.bot.engine import WAITING_MAX, Robot
from lcc.storage.disk.content_folder import ATTEMPTS, AttemptFolder, attempt_path
from lcc.storage.disk.file_system import Disk
from tests.support.roles.robots import FakePeer, ScriptedFetcher, World, fake_botm, fetch_order
from tests.support.transports import Wire


class Bench(World):
    """A robot with its folder, its fetcher and a BOT-M."""

    def __init__(
        self, path: Path, concurrency: int = 4, disk: Disk | None = None, deadline_seconds: float = 0.0
    ) -> None:
        super().__init__()
        (path / ATTEMPTS / "000").mkdir(parents=True)
        self.path = path
        self.fetcher = ScriptedFetcher()
        fetchers = {"http": self.fetcher, "https": self.fetcher}
        sinks = AttemptFolder(path, disk or Disk()).sink
        self.robot = Robot("bot", concurrency, self.clock, fetchers, sinks, "b1", deadline_seconds=deadline_seconds)
        self.hellos = 0
        self.factory = self.robot.upstream_factory(self._good_hello)
        self.botm, self.wire = self.connect_botm()

    def _good_hello(self) -> None:
        self.hellos += 1

    def connect_botm(self) -> tuple[FakePeer, Wire]:
        peer = fake_botm(self.clock)
        wire = self.connect(self.factory.buildProtocol(None), peer.build_stream())
        self.settle()
        return peer, wire

    def order(self, number: int, **fields: Any) -> None:
        fields.setdefault("attempt", attempt_path(number, 1))
        sent_ms = fields.pop("sent_ms", None)
        self.say(attrs.evolve(fetch_order(number, **fields), sent_ms=sent_ms))

    def say(self, order: Fetch) -> None:
        self.botm.say(order)
        self.settle()

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.path / ATTEMPTS).rglob("*") if path.is_file())

    @property
    def urls(self) -> list[str]:
        return [running.order.url for running in self.fetcher.all]

    @property
    def results(self) -> list[Done]:
        self.settle()
        return self.botm.of(Done)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_hello_ready_fetch_result(bench: Bench) -> None:
    assert bench.botm.peer_hello is not None
    assert (bench.botm.peer_hello.capacity, bench.botm.peer_hello.run) == (4, "b1")
    assert bench.botm.heard == [Ready()]
    assert bench.hellos == 1
    bench.order(1)
    (running,) = bench.fetcher.running
    assert (running.order.pid, running.order.url, running.order.mimetype) == (
        1,
        "http://site1.example/1",
        "text/html",
    )
    bench.clock.advance(0.25)
    running.succeed(
        b"hello ",
        b"world",
        mimetype="text/html",
        charset="utf-8",
        modified=77,
        etag='"x"',
        headers='["Server", "a&b <\\u00e4>"]',
        wire_bytes=300,
    )
    (result,) = bench.results
    assert result == Done(
        number=0,
        id="q1-1",
        pid=1,
        key=fetch_order(1).key,
        generation=1,
        code=0,
        status=200,
        url="http://site1.example/1",
        size_bytes=11,
        md5=hashlib.md5(b"hello world").hexdigest(),
        mimetype="text/html",
        charset="utf-8",
        modified=77,
        etag='"x"',
        headers='["Server", "a&b <\\u00e4>"]',
        wire_bytes=300,
        elapsed_ms=250,
    )
    assert (bench.path / attempt_path(1, 1)).read_bytes() == b"hello world"


def test_an_empty_content_is_a_file(bench: Bench) -> None:
    bench.order(1)
    bench.fetcher.running[0].succeed()
    assert (bench.results[0].code, bench.results[0].size_bytes) == (0, 0)
    assert (bench.path / attempt_path(1, 1)).read_bytes() == b""


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (FetchError("connect-refused", "port 80"), 1302, 0),
        (FetchError.from_status(404), 404, 404),
        (OSError(28, "No space left on device"), 1410, 0),
        (ZeroDivisionError("oops"), 1413, 0),
    ],
)
def test_failures_are_answered_and_leave_no_file(
    bench: Bench, error: Exception, code: int, status: int, logged_errors: Any
) -> None:
    bench.order(1)
    running = bench.fetcher.running[0]
    running.sink.write(b"part")
    running.fail(error)
    (result,) = bench.results
    assert (result.code, result.status, result.size_bytes, result.md5) == (code, status, 0, "")
    assert bench.files() == []
    assert len(logged_errors.flush("oops")) == (code == 1413)
    bench.order(2)
    bench.fetcher.running[0].succeed(b"x")
    assert bench.results[1].code == 0


def test_what_failed_has_travelled_too(bench: Bench) -> None:
    """The provider's bandwidth is what comes over its wire, content or not."""
    error = FetchError("body-too-long")
    error.wire_bytes = 65_000_000
    bench.order(1)
    bench.fetcher.running[0].fail(error)
    bench.order(2)
    bench.fetcher.running[0].succeed(b"not here", status=503, wire_bytes=70)
    bench.order(3, lease=5)
    bench.fetcher.running[0].travelled = 900
    bench.clock.pump([1.0] * 6)
    assert [(result.code, result.wire_bytes) for result in bench.results] == [
        (CODES["body-too-long"], 65_000_000),
        (503, 70),
        (CODES["deadline"], 900),
    ]


def test_nothing_begins_after_its_hours(tmp_path: Path) -> None:
    bench = Bench(tmp_path, concurrency=1)
    bench.order(1)
    bench.order(2, start=5)
    bench.order(3, start=60)
    bench.clock.pump([1.0] * 6)
    assert [(result.id, result.code) for result in bench.results] == [("q1-2", CODES["hours-over"])]
    bench.fetcher.running[0].succeed(b"x")
    assert bench.urls == ["http://site1.example/1", "http://site3.example/3"]
    bench.order(4, start=0)
    bench.fetcher.running[0].succeed(b"x")
    assert len(bench.urls) == 2 and bench.results[-1].code == CODES["hours-over"]
    assert bench.files() == [attempt_path(1, 1).split("/")[-1], attempt_path(3, 1).split("/")[-1]]


def test_a_fetcher_that_raises(bench: Bench, logged_errors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_arguments: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(bench.fetcher, "fetch", fetch)
    bench.order(1)
    assert bench.results[0].code == CODES["robot-error"]
    assert bench.robot.running == 0
    assert len(logged_errors.flush("oops")) == 1


def test_an_answer_that_is_no_content(bench: Bench) -> None:
    bench.order(1)
    bench.fetcher.running[0].succeed(b"not here", status=503)
    assert (bench.results[0].code, bench.results[0].status) == (503, 503)
    assert bench.files() == []


def test_a_scheme_that_nobody_fetches(bench: Bench) -> None:
    fetch = fetch_order(1)
    bench.botm.raw(fetch.to_xml().replace("http://site1.example/1", "gopher://site1.example/1"))
    assert bench.results[0].code == CODES["scheme-unsupported"]


@pytest.mark.parametrize("attempt", ["", "../x", "/etc/passwd", "attempts/../counter", "counter"])
def test_nothing_is_written_outside_the_attempts(bench: Bench, attempt: str) -> None:
    bench.order(1, attempt=attempt)
    assert bench.results[0].code == CODES["store-failed"]
    assert bench.fetcher.all == []


def test_redirects_stay_within_the_roots(bench: Bench) -> None:
    bench.order(1)
    follow = bench.fetcher.running[0].follow
    assert follow("http://site1.example/1", "/a/../b#part") == "http://site1.example/b"
    assert follow("http://site1.example/1", "https://site1.example/s") == "https://site1.example/s"
    for location in ("http://other.example/", "http://site1.example.evil/", "//other.example/x"):
        with pytest.raises(FetchError) as caught:
            follow("http://site1.example/1", location)
        assert caught.value.code == CODES["redirect-outside"]
    for location in ("http://[::", "http://user:pw@site1.example/"):
        with pytest.raises(FetchError):
            follow("http://site1.example/1", location)


def test_never_more_than_the_concurrency(bench: Bench) -> None:
    for number in range(1, 11):
        bench.order(number)
    while bench.fetcher.running:
        bench.fetcher.running[-1].succeed(b"x")
        bench.settle()
    assert bench.fetcher.at_once_max == 4
    assert sorted(result.id for result in bench.results) == sorted(f"q1-{number}" for number in range(1, 11))


def test_never_two_of_one_provider(bench: Bench) -> None:
    for number in range(1, 4):
        bench.order(number, pid=5)
    bench.order(4, pid=6)
    assert bench.urls == ["http://site5.example/1", "http://site6.example/4"]
    bench.fetcher.running[0].fail(FetchError("bad-response"))
    bench.settle()
    assert bench.urls[2:] == ["http://site5.example/2"]


def test_an_order_that_comes_twice_runs_once(bench: Bench) -> None:
    bench.order(1)
    bench.order(1)
    bench.fetcher.running[0].succeed(b"x")
    assert len(bench.results) == len(bench.fetcher.all) == 1


def test_a_botm_that_sends_without_end_is_dropped(bench: Bench) -> None:
    for number in range(WAITING_MAX + 10):
        bench.botm.say(fetch_order(number, attempt=attempt_path(number, 1)))
    bench.settle()
    assert bench.botm.lost
    assert bench.robot.running == 0
    assert all(running.cancelled for running in bench.fetcher.all)


def test_when_the_botm_is_gone_all_fetches_end_at_once(bench: Bench) -> None:
    for number in range(1, 7):
        bench.order(number)
    for running in bench.fetcher.running:
        running.sink.write(b"part")
    assert len(bench.files()) == 4
    bench.wire.kill(bench.wire.server)
    bench.settle()
    assert len(bench.fetcher.all) == 4
    assert all(running.cancelled for running in bench.fetcher.all)
    assert bench.files() == []
    bench.botm, bench.wire = bench.connect_botm()
    bench.order(7)
    bench.fetcher.running[0].succeed(b"x")
    assert [result.id for result in bench.results] == ["q1-7"]


def test_an_answer_never_goes_to_another_connection(bench: Bench) -> None:
    bench.order(1)
    (stubborn,) = bench.fetcher.running
    stubborn.result._canceller = None
    stubborn.result.pause()  # cancelling does not end it at once
    bench.wire.kill(bench.wire.server)
    bench.settle()
    bench.botm, bench.wire = bench.connect_botm()
    bench.order(2, pid=1)
    assert len(bench.fetcher.all) == 1  # the provider is still being fetched from
    stubborn.result.unpause()
    bench.settle()
    assert len(bench.fetcher.all) == 2
    assert bench.results == []


def test_a_fetch_ends_with_its_lease(bench: Bench) -> None:
    bench.order(1, lease=10)
    bench.order(2, lease=100)
    bench.order(3, pid=2, lease=5)
    bench.pass_time(12)
    assert [(result.id, result.code) for result in bench.results] == [("q1-3", 1421), ("q1-1", 1401)]
    assert [running.cancelled for running in bench.fetcher.all] == [True, False]
    bench.fetcher.running[0].succeed(b"x")
    assert bench.results[-1].code == 0
    bench.pass_time(2)


def test_what_the_server_says_is_cut_to_what_the_wire_takes(bench: Bench) -> None:
    bench.order(1)
    bench.fetcher.running[0].succeed(
        b"x", url="http://site1.example/" + "&" * 50000, etag="e" * 5000, headers="&" * 60000, charset="c" * 2000
    )
    bench.order(2)
    bench.fetcher.running[0].fail(FetchError("bad-response", "<" * 100_000))
    first, second = bench.results
    assert (first.code, first.etag, first.charset, first.headers) == (0, "", "", "")
    assert len(second.detail) <= 500
    assert not bench.botm.lost


def test_close_ends_everything(bench: Bench) -> None:
    bench.order(1)
    closed: list[object] = []
    bench.robot.close().addCallback(closed.append)
    assert closed
    assert bench.fetcher.closed
    assert bench.fetcher.all[0].cancelled
    bench.botm.stream.abort()
    bench.settle()
    assert bench.botm.of(Done) == []
    assert bench.clock.getDelayedCalls() == []


def test_what_is_no_order_ends_the_connection(bench: Bench) -> None:
    bench.botm.raw('<delete id="1" machine="1" file="1"/>')
    bench.settle()
    assert bench.botm.lost


def test_an_order_whose_lease_is_over_is_not_begun(bench: Bench) -> None:
    """It lay in the connection while the robot stood still: others may be fetching there by now."""
    sent_ms = bench.botm.peer_clock_ms()
    for _ in range(100):
        bench.pass_time(1)
    bench.say(attrs.evolve(fetch_order(1, lease=100), sent_ms=sent_ms))
    bench.pass_time(0.75, 0.25)
    assert bench.urls == [] and [result.code for result in bench.results] == [CODES["handed-back"]]
    bench.say(attrs.evolve(fetch_order(2, lease=110, attempt=attempt_path(2, 1)), sent_ms=sent_ms))
    bench.pass_time(0.75, 0.25)  # late, but the BOT-M lives
    assert len(bench.urls) == 1


def test_an_order_that_comes_late_from_a_botm_that_died_is_not_begun(bench: Bench) -> None:
    """The robot stood still; meanwhile its BOT-M was killed, and the order given to another robot."""
    bench.pass_time(60)
    bench.botm.say(attrs.evolve(fetch_order(1, attempt=attempt_path(1, 1)), sent_ms=bench.botm.peer_clock_ms()))
    bench.clock.advance(0)
    bench.clock.advance(7)
    bench.wire.move(bench.wire.server)
    assert bench.fetcher.all == []
    bench.clock.advance(0.1)
    bench.wire.kill(bench.wire.server)
    bench.settle()
    bench.pass_time(5)
    assert bench.fetcher.all == []
    assert bench.robot._sweep_call is None


def test_an_order_that_comes_late_from_a_botm_that_lives_is_begun(bench: Bench) -> None:
    bench.pass_time(60)
    bench.order(1, sent_ms=52_000)
    assert bench.fetcher.all == []
    bench.pass_time(1, 0.5)
    assert bench.urls == ["http://site1.example/1"]
    bench.order(2)
    assert len(bench.urls) == 2


def test_what_waited_while_the_robot_stood_still_is_begun_after_a_look(bench: Bench) -> None:
    bench.order(1, pid=1)
    bench.order(2, pid=1)  # waits for the first
    bench.clock.rightNow += 8  # nothing ran meanwhile
    bench.fetcher.running[0].fail(FetchError("bad-response"))
    assert len(bench.fetcher.all) == 1
    bench.pass_time(1, 0.25)
    assert len(bench.fetcher.all) == 2


class StrangeFetcher:
    """Somebody's plugin, with faults."""

    schemes = ("strange",)

    def __init__(self, gives: Any) -> None:
        self.gives = gives
        self.sinks: list[Any] = []
        self.ends: list[Deferred[Any]] = []

    def fetch(self, order: Any, sink: Any, follow: Any) -> Any:
        self.sinks.append(sink)
        return Deferred.fromCoroutine(self.never()) if self.gives == "never" else self.gives

    async def never(self) -> Any:
        while True:
            self.ends.append(Deferred())
            try:
                return await self.ends[-1]
            except CancelledError:
                pass

    def close(self) -> Any:
        if self.gives == "raise":
            raise ZeroDivisionError("oops")
        return Deferred(lambda _: None)


@pytest.mark.parametrize("gives", [None, 42, "text"])
def test_a_fetcher_that_gives_no_deferred(bench: Bench, gives: Any, logged_errors: Any) -> None:
    bench.robot._fetchers = {"strange": StrangeFetcher(gives), **bench.robot._fetchers}
    for _ in range(2):
        bench.say(attrs.evolve(fetch_order(1, attempt=attempt_path(1, 1)), url="strange://x/"))
    assert [result.code for result in bench.results] == [CODES["robot-error"]] * 2
    assert bench.robot.running == 0 and not bench.wire.closed
    assert len(logged_errors.flush("gives no Deferred")) == 2


@pytest.mark.parametrize("lost", [False, True])
def test_a_fetcher_that_does_not_end_is_left_alone(bench: Bench, lost: bool, logged_errors: Any) -> None:
    strange = StrangeFetcher("never")
    bench.robot._fetchers = {"strange": strange, **bench.robot._fetchers}
    order = attrs.evolve(fetch_order(1, lease=10, attempt=attempt_path(1, 1)), url="strange://x/")
    bench.say(order)
    bench.order(2, lease=100)
    strange.sinks[0].write(b"part")
    if lost:
        bench.wire.server.stream.abort()
        bench.settle()
        assert bench.robot.running == 1  # told to end
        bench.botm, bench.wire = bench.connect_botm()
        bench.pass_time(2)
        assert bench.results == []
    else:
        bench.pass_time(13)
        assert [(result.id, result.code) for result in bench.results] == [(order.id, CODES["deadline"])]
        assert bench.robot.running == 1  # the other provider's goes on
    assert "000000000001.1" not in bench.files()
    assert len(logged_errors.flush("does not cancel")) == 1
    bench.order(3, pid=1)
    assert bench.urls[-1] == "http://site1.example/3"
    with pytest.raises(OSError, match="this attempt is closed"):
        strange.sinks[0].write(b"more")
    strange.ends[-1].callback(Fetched(status=0, url="strange://x/"))
    count = len(bench.results)
    bench.fetcher.running[-1].succeed(b"x")
    assert [result.id for result in bench.results[count:]] == ["q1-3"]


@pytest.mark.parametrize("gives", ["never", "raise"])
def test_a_fetcher_that_does_not_close_holds_up_no_stop(bench: Bench, gives: str, logged_errors: Any) -> None:
    bench.robot._fetchers = {"strange": StrangeFetcher(gives), **bench.robot._fetchers}
    if gives == "never":
        bench.say(attrs.evolve(fetch_order(1, attempt=attempt_path(1, 1)), url="strange://x/"))
    closed: list[Any] = []
    bench.robot.close().addCallback(closed.append)
    bench.clock.advance(CLOSE_SECONDS)
    assert closed == [None] and bench.fetcher.closed
    assert len(logged_errors.flush("Cannot close the fetcher for strange")) == 1
