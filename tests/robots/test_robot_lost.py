"""What the end of a robot's connection tells: it has ended its fetches, or it may still be fetching."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater

from lcc.protocols.hello import Hello, Ping
from lcc.protocols.work import Done, Running
from lcc.transport.links import RetryPolicy, link_service
from lcc.transport.pipe_endpoints import PipeClientEndpoint, PipePort
from lcc.transport.pipes import Pipes
from tests.support.roles.botm import Bench, ids
from tests.support.roles.robots import READY, fake_bot, fetch_order
from tests.support.tls import RIGHT, Pki, string

reactor: Any = global_reactor


@inlineCallbacks
def until(bench: Bench, condition: Callable[[], bool]) -> Any:
    """Let the sockets work until this is so.  Time stands still for the BOT-M."""
    while not condition():
        yield deferLater(reactor, 0.005)
        bench.settle()


def test_a_reset_connection_does_not_tell_that_the_fetches_have_ended(bench: Bench) -> None:
    """The robot hangs, and something in between resets its connection: the web server still answers it."""
    qm, _ = bench.qm()
    _, wire = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1))
    other, _ = bench.bot(4, "b2")
    wire.client.hung = True
    wire.server.lose(ConnectionLost())
    bench.pass_time(60)
    assert ids(other) == []
    again, _ = bench.qm()
    assert [running.id for running in again.of(Running)] == ["q1-1"]
    # It goes on, learns that its connection is lost, ends its fetches and connects again.
    back, _ = bench.bot(1, "b1")
    assert ids(back) + ids(other) == ["q1-1"]


def test_the_orders_of_a_robot_that_does_not_come_back_after_a_reset_end_with_their_lease(bench: Bench) -> None:
    qm, _ = bench.qm()
    _, wire = bench.bot(1, "b1")
    bench.say(qm, fetch_order(1, lease=100))
    other, _ = bench.bot(4, "b2")
    wire.client.hung = True
    wire.server.lose(ConnectionLost())
    bench.pass_time(101)
    assert (ids(other), qm.of(Done), bench.engine.held) == ([], [], 0)
    bench.say(qm, fetch_order(2, pid=1))
    assert ids(other) == ["q1-2"]


@pytest.mark.parametrize(
    ("endpoint", "unread", "goes_to_another"),
    [
        ("unix:{folder}/botm.sock", False, True),
        ("unix:{folder}/botm.sock", True, True),  # reset as well, but by nobody else
        ("tcp:0:interface=127.0.0.1", False, True),
        ("tcp:0:interface=127.0.0.1", True, False),
    ],
)
@pytest_twisted.inlineCallbacks
def test_what_the_kernel_tells_of_a_robot_that_was_killed(
    bench: Bench, tmp_path: Path, endpoint: str, unread: bool, goes_to_another: bool
) -> Any:
    """It closes the robot's socket: in order, or with a reset where the robot had not read everything."""
    factory = bench.engine.downstream_factory()
    port = yield serverFromString(reactor, endpoint.format(folder=tmp_path)).listen(factory)
    address = port.getHost()
    robot = socket.socket(socket.AF_UNIX if endpoint.startswith("unix") else socket.AF_INET)
    robot.connect(address.name if endpoint.startswith("unix") else (address.host, address.port))
    try:
        qm, _ = bench.qm()
        robot.sendall((Hello(role="bot", name="bot-b1", capacity=1, run="b1").open_tag() + READY.to_xml()).encode())
        yield until(bench, lambda: len(bench.engine.robots) == 1)
        bench.say(qm, fetch_order(1))
        yield until(bench, lambda: b"q1-1" in robot.recv(65536, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        if not unread:
            robot.recv(65536)
        other, _ = bench.bot(4, "b2")
        robot.close()
        yield until(bench, lambda: len(bench.engine.robots) == 1)
        bench.pass_time(60)
        assert ids(other) == (["q1-1"] if goes_to_another else [])
    finally:
        robot.close()
        bench.engine.stop()
        yield port.stopListening()


@pytest.mark.parametrize(("ended_by", "goes_to_another"), [("robot", True), ("unread", True), ("BOT-M", False)])
def test_a_robot_of_the_same_process_is_lost_as_one_at_a_unix_socket(
    bench: Bench, ended_by: str, goes_to_another: bool
) -> None:
    """Nothing is in between: whoever did not end the connection here has ended it there, and its fetches with it."""
    pipes = Pipes(bench.clock)
    PipePort(pipes, "botm.sock", bench.engine.downstream_factory()).startListening()
    robot = fake_bot(bench.clock, 1)
    PipeClientEndpoint(pipes, "botm.sock").connect(Factory.forProtocol(robot.build_stream))
    bench.settle()
    robot.say(READY)
    qm, _ = bench.qm()
    bench.say(qm, fetch_order(1))
    bench.settle()
    assert ids(robot) == ["q1-1"]
    other, _ = bench.bot(4, "b2")
    if ended_by == "BOT-M":
        next(each for each in bench.engine.robots if each.orders).drop("a test")
    else:
        if ended_by == "unread":
            robot.stream.pause_reading()
            next(each for each in bench.engine.robots if each.orders).say(Ping(1))
            bench.settle()
        robot.stream.abort()
    bench.pass_time(60)
    assert ids(other) == (["q1-1"] if goes_to_another else [])


@pytest.mark.parametrize("over_tls", [False, True])
@pytest_twisted.inlineCallbacks
def test_a_robot_that_is_stopped_over_tcp_leaves_its_orders_to_others(
    bench: Bench, tmp_path: Path, over_tls: bool
) -> Any:
    pki = Pki(tmp_path / "pki")
    listen, connect = "tcp:0:interface=127.0.0.1", "tcp:127.0.0.1:{}"
    if over_tls:
        listen = string("0:interface=127.0.0.1", pki.files("botm", RIGHT), roles="bot")
        connect = string("127.0.0.1:{}", pki.files("bot", RIGHT), roles="botm")
    port = yield serverFromString(reactor, listen).listen(bench.engine.downstream_factory())
    robot = fake_bot(reactor, 1)
    robots = Factory.forProtocol(robot.build_stream)
    robots.noisy = False
    link = link_service(reactor, connect.format(port.getHost().port), robots, RetryPolicy(lambda: 0.5))
    link.startService()
    try:
        yield until(bench, lambda: robot.peer_hello is not None)
        robot.say(READY)
        yield until(bench, lambda: len(bench.engine.robots) == 1)
        qm, _ = bench.qm()
        bench.say(qm, fetch_order(1))
        yield until(bench, lambda: ids(robot) == ["q1-1"])
        other, _ = bench.bot(4, "b2")
        yield link.stopService()
        yield until(bench, lambda: len(bench.engine.robots) == 1)
        bench.pass_time(1)
        assert ids(other) == ["q1-1"]
    finally:
        bench.engine.stop()
        yield port.stopListening()
