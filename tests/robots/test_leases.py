"""However long an order is on its way: nobody fetches for it when its lease is over where it was given."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcc.config import BotmConfig
from lcc.errors import code
from lcc.protocols.work import Done, Fetch
from lcc.roles.bot.engine import Robot
from lcc.roles.botm.dispatcher import LEASE_SHARE, ROBOT_MARGIN_SECONDS
from lcc.roles.botm.relay import Relay
from lcc.storage.disk.content_folder import AttemptFolder
from tests.support.roles.botm import Bench
from tests.support.roles.robots import FakePeer, ScriptedFetcher, fake_qm, fetch_order
from tests.support.transports import Wire

from .test_interleavings import QueuePeer

LEASE_SECONDS = 60
MACHINE = 7


class Chain(Bench):
    """Queue manager, central BOT-M, BOT-M, robot: each connection is as slow as the test wants."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, parent="above")
        config = BotmConfig(name="central", serves="botms")
        self.relay = Relay(config, self.clock, "c1", frozenset(["qm"]))
        self.fetcher = ScriptedFetcher()
        self.robot = Robot("bot", 4, self.clock, {"http": self.fetcher}, AttemptFolder(path).sink, "b1")
        self.given: dict[str, float] = {}
        self.top: QueuePeer = None  # type: ignore[assignment]
        self.links: list[Wire] = []
        self.connect_all()

    def connect_all(self) -> None:
        """Connect what is not connected, from the top down."""
        if not self.links or self.links[0].client.closed or self.links[0].server.closed:
            qm = fake_qm(self.clock)
            self.top = QueuePeer(self.clock, qm.hello, "botm", qm.vocabulary)
            self.top.shared, self.top.machine = True, MACHINE
            self.links[:1] = [
                self.connect(self.relay.upstream_factory(int).buildProtocol(None), self.top.build_stream())
            ]
            self.settle()
        for index, (lower, upper) in enumerate(
            (
                (self.factory, self.relay.downstream_factory()),
                (self.robot.upstream_factory(int), self.engine.downstream_factory()),
            ),
            1,
        ):
            if len(self.links) <= index or self.links[index].client.closed or self.links[index].server.closed:
                above = upper.buildProtocol(None)
                if above is not None:
                    self.links[index : index + 1] = [self.connect(lower.buildProtocol(None), above)]
                    self.settle()

    def order(self, number: int) -> None:
        order = fetch_order(number, lease=LEASE_SECONDS)
        self.given[order.url] = self.clock.seconds()
        self.top.say(attrs.evolve(order, sent_ms=self.top.peer_clock_ms()))

    def check(self) -> None:
        now = self.clock.seconds()
        for running in self.fetcher.running:
            assert now < self.given[running.order.url] + LEASE_SECONDS, "fetched after its lease"


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_nobody_fetches_after_the_lease(seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder:
        chain = Chain(Path(folder))
        count = 0
        slow = [random.choice((0, 0, 0.8)) for _link in chain.links]
        ends = random.choice((0, 0.02, 0.1))
        for _step in range(150):
            if random.random() < 0.3 and not chain.links[0].closed:
                count += 1
                chain.order(count)
            chain.clock.advance(random.choice((0, 0.5, 1, 3)))
            chain.check()
            for wire, delay in zip(chain.links, slow, strict=True):
                for end in wire.ends:
                    if random.random() >= delay:
                        wire.move(end)
                wire.close_ends()
            chain.check()
            if random.random() < ends and chain.fetcher.running:
                random.choice(chain.fetcher.running).fail()
            if random.random() < 0.1:
                chain.connect_all()
        for _second in range(LEASE_SECONDS):
            chain.pass_time(1)
            chain.check()
        assert chain.fetcher.all
        assert chain.engine.held == len(chain.engine._results)


def delivered(bench: Bench, qm: FakePeer, wire: Wire, order: Fetch, late_seconds: float) -> None:
    """The order is sent now and read later."""
    qm.say(attrs.evolve(order, sent_ms=qm.peer_clock_ms()))
    bench.clock.advance(0)
    text, wire.server.out = bytes(wire.server.out), bytearray()
    for _ in range(int(late_seconds)):
        bench.pass_time(1)
    wire.client.stream.dataReceived(text)
    bench.settle()


@pytest.mark.parametrize("late", [0, 40, 200])
def test_a_botm_counts_from_when_the_order_was_sent(bench: Bench, late: int) -> None:
    qm, wire = bench.qm()
    bot, _ = bench.bot()
    bench.pass_time(100)
    delivered(bench, qm, wire, fetch_order(1), late)
    (fetch,) = bot.of(Fetch)
    assert fetch.lease_seconds == int(300 * LEASE_SHARE) - late - ROBOT_MARGIN_SECONDS
    assert fetch.sent_ms == bot.clock_ms()


def test_an_order_that_was_on_its_way_for_too_long_is_not_begun(bench: Bench) -> None:
    qm, wire = bench.qm()
    bot, _ = bench.bot()
    delivered(bench, qm, wire, fetch_order(1), 280)
    assert bot.of(Fetch) == [] and [done.code for done in qm.of(Done)] == [code("handed-back")]


def test_a_clock_that_says_what_cannot_be_harms_nothing(bench: Bench) -> None:
    qm, _ = bench.qm()
    bot, _ = bench.bot()
    bench.pass_time(10)
    bench.say(qm, attrs.evolve(fetch_order(1), sent_ms=10**15), attrs.evolve(fetch_order(2), sent_ms=-(10**15)))
    (fetch,) = bot.of(Fetch)
    assert fetch.id == "q1-1" and fetch.lease_seconds <= 300 * LEASE_SHARE
