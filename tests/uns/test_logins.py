"""Providers that connect: who is let in, how many, from where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from lcc.errors import StoreUnavailable
from lcc.protocols.cp_uns_client import init
from lcc.storage.providers.passwords import hash_password
from tests.support.roles.uns import PASSWORD, STATUS, World, codes


@pytest.mark.parametrize(("pid", "password"), [(7, "wrong"), (99, PASSWORD), (0, "x")])
def test_no_such_provider_and_wrong_password_are_told_alike(world: World, pid: int, password: str) -> None:
    cp = world.login(pid, password)
    assert cp.text == (
        '<lococa:init_rejected>\n<reason code="1010">unknown provider or wrong password</reason>\n'
        "</lococa:init_rejected>\n"
    )
    assert cp.transport.write_closed and not cp.transport.closed
    cp.half_close()
    world.pump()
    assert cp.transport.closed


@pytest.mark.parametrize("password", ["", "x", PASSWORD])
def test_a_watched_provider_is_no_provider(world: World, password: str) -> None:
    watched = attrs.evolve(world.database.providers[8], password_hash="", watched=True)
    world.database.providers[8] = watched
    texts = [world.login(pid, password).text for pid in (8, 99)]
    assert texts[0] == texts[1]


def test_the_time_of_a_rejection_tells_nothing(world: World) -> None:
    """Whether there is such a provider, and how its password is kept, cannot be told by when the answer comes."""
    stored = hash_password("secret", generated=False)
    world.database.providers[8] = attrs.evolve(world.database.providers[8], password_hash=stored)
    for seconds in (0.0, 0.1, 0.7):
        cps = []
        world.held_threads = []
        for number, pid in enumerate((7, 8, 99)):
            cp = world.connect(host=f"192.0.2.{number}")
            cp.send(init(pid, "wrong"))
            cps.append(cp)
        world.pump()
        assert len(world.held_threads) == 1
        if seconds < 0.5:
            world.clock.advance(seconds)
            world.release_threads()
            world.clock.advance(0.49 - seconds)
            world.pump()
            assert [cp.text for cp in cps] == ["", "", ""]
            world.clock.advance(0.02)
        else:
            world.clock.advance(0.5)
            world.pump()
            assert [codes(cp.text) for cp in cps] == [[1010], [], [1010]], "a machine that is overloaded"
            world.clock.advance(seconds - 0.5)
            world.release_threads()
            world.clock.advance(0.3)
        world.pump()
        assert [codes(cp.text) for cp in cps] == [[1010]] * 3


def test_who_leaves_before_its_rejection_leaves_nothing(world: World) -> None:
    cp = world.connect()
    cp.send(init(99, "wrong"))
    world.pump()
    cp.lose()
    world.pump()
    assert world.clock.getDelayedCalls() == [] and cp.text == ""


@pytest.mark.parametrize("question", ["login", "open_session", "status"])
def test_a_database_that_does_not_answer(
    worlds: Callable[..., World], question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds(database_timeout=5)
    world.database.statuses[7] = attrs.evolve(STATUS, error_count=1, errors_upto=1)  # or they need not be read
    works = getattr(world.database, question)
    hanging: list[Deferred[Any]] = []

    def hangs(*_: Any) -> Deferred[Any]:
        hanging.append(Deferred())
        return hanging[-1]

    monkeypatch.setattr(world.database, question, hangs)
    cps = []
    for _ in range(2):
        cps.append(world.connect())
        cps[-1].send(init(7, PASSWORD))
    with capturedLogs() as logged:
        world.pass_time(4)
        assert [cp.text for cp in cps] == ["", ""]
        world.pass_time(2)
    assert [codes(cp.text) for cp in cps] == [[1012], [1012]] and cps[0].closed
    assert sum(event["log_level"].name == "warn" for event in logged) == 1
    late = [works(*((7, "", 1) if question == "open_session" else (7, 1)[: 1 + (question == "status")]))]
    late[0].chainDeferred(hanging[0])
    hanging[1].errback(StoreUnavailable("away"))
    world.pump()
    assert [codes(cp.text) for cp in cps] == [[1012], [1012]]
    monkeypatch.setattr(world.database, question, works)
    assert "init_accepted" in world.login().text


def test_the_log_tells_as_whom_somebody_tried(world: World) -> None:
    with capturedLogs() as logged:
        world.login(99, "wrong")
    told = [formatEvent(event) for event in logged]
    assert any("as provider 99 rejected: 1010" in line for line in told if line)
    assert not any("wrong" in line.replace("wrong password", "") for line in told if line)


def test_a_chosen_password_is_checked_in_a_thread(world: World) -> None:
    stored = hash_password("secret", generated=False)
    world.database.providers[7] = attrs.evolve(world.database.providers[7], password_hash=stored)
    world.held_threads = []
    cp = world.login(7, "secret")
    assert cp.text == "" and len(world.held_threads) == 1
    world.release_threads()
    assert "init_accepted" in cp.text


def test_too_many_wrong_passwords_are_not_even_looked_at(worlds: Callable[..., World]) -> None:
    world = worlds(failed_logins=3, login_window=60)
    for _ in range(3):
        assert codes(world.login(7, "wrong").text) == [1010]
    asked = world.database.asked
    assert codes(world.login(7).text) == [1011]
    assert codes(world.login(8).text) == [1011]  # from the same address
    assert world.database.asked == asked
    other = world.connect(host="192.0.2.8")
    other.send(init(8, PASSWORD))
    world.pump()
    assert "init_accepted" in other.text
    world.pass_time(61)
    assert "init_accepted" in world.login(7).text


def test_passwords_tried_all_at_once_are_throttled_as_well(worlds: Callable[..., World]) -> None:
    world = worlds(failed_logins=3, login_window=60)
    stored = hash_password("secret", generated=False)
    world.database.providers[7] = attrs.evolve(world.database.providers[7], password_hash=stored)
    world.held_threads = []
    cps = [world.login(7, "wrong") for _ in range(10)]
    assert len(world.held_threads) == 3
    world.release_threads()
    world.wait_for_rejections()
    assert sorted(code for cp in cps for code in codes(cp.text)) == [1010] * 3 + [1011] * 7


def test_right_passwords_are_never_counted(worlds: Callable[..., World]) -> None:
    world = worlds(failed_logins=3, login_window=60)
    for _ in range(5):
        assert "init_accepted" in world.login(7).text
    for _ in range(2):
        assert codes(world.login(7, "wrong").text) == [1010]
    for _ in range(5):
        assert "init_accepted" in world.login(7).text
    assert codes(world.login(7, "wrong").text) == [1010]
    assert codes(world.login(7).text) == [1011]


def test_the_database_is_away(world: World) -> None:
    world.database.away = True
    cp = world.login()
    assert codes(cp.text) == [1012] and cp.closed
    world.database.away = False
    assert "init_accepted" in world.login().text


def test_connections_of_one_provider_are_bounded(worlds: Callable[..., World]) -> None:
    world = worlds(connections_per_provider=2)
    first, _second = world.login(), world.login()
    assert codes(world.login().text) == [1014]
    assert "init_accepted" in world.login(8).text
    first.lose()
    assert "init_accepted" in world.login().text


def test_connections_are_bounded(worlds: Callable[..., World]) -> None:
    world = worlds(connections_max=2)
    world.login(7)
    world.login(8)
    cp = world.login(8)
    assert codes(cp.text) == [1014] and cp.closed
    for number in range(99):
        world.connect(host=f"198.51.100.{number}")
    assert world.port.buildProtocol(None) is None


def test_a_provider_is_not_locked_out_by_others(worlds: Callable[..., World]) -> None:
    world = worlds(failed_logins=3)
    assert "init_accepted" in world.login().text
    for number in range(5):
        cp = world.connect(host=f"198.51.100.{number}")
        cp.send(init(7, "wrong"))
        world.pump()
    world.wait_for_rejections()
    assert "init_accepted" in world.login().text
    stranger = world.connect(host="198.51.100.99")
    stranger.send(init(7, PASSWORD))
    world.pump()
    assert codes(stranger.text) == [1011]


def test_one_address_takes_no_more_than_its_share(worlds: Callable[..., World]) -> None:
    world = worlds(connections_max=10, connections_per_address=3)
    flood = [world.connect(host="198.51.100.1") for _ in range(3)]
    for _ in range(10):
        # These are told why, if they say who they are; of others there are no more than ten.
        last = world.connect(host="198.51.100.1")
    last.send(init(7, PASSWORD))
    world.pump()
    assert codes(last.text) == [1014]
    assert world.port.buildProtocol(IPv4Address("TCP", "198.51.100.1", 1)) is None
    assert "init_accepted" in world.login().text
    flood[0].lose()
    again = world.connect(host="198.51.100.1")
    again.send(init(7, PASSWORD))
    world.pump()
    assert "init_accepted" in again.text


def test_an_ipv6_network_is_one_address(worlds: Callable[..., World]) -> None:
    world = worlds(connections_per_address=2, failed_logins=3)
    for number in range(2):
        world.connect(host=f"2001:db8::{number}")
    refused = world.connect(host="2001:db8::ffff:1")
    refused.send(init(7, PASSWORD))
    world.pump()
    assert codes(refused.text) == [1014]
    other = world.connect(host="2001:db8:0:1::1")
    other.send(init(7, PASSWORD))
    world.pump()
    assert "init_accepted" in other.text


def test_who_does_not_log_in_is_dropped(world: World) -> None:
    cp = world.connect()
    cp.send(init(7, PASSWORD)[:30])
    world.pump()
    world.pass_time(31)
    assert codes(cp.text) == [1005] and cp.closed
    world.pass_time(31)
    assert cp.transport.closed


def test_who_says_nothing_after_its_login_is_dropped(world: World) -> None:
    cp = world.login()
    before = cp.text
    world.pass_time(301)
    assert cp.text == before and cp.closed


def test_a_provider_that_has_moved_is_to_try_later(world: World) -> None:
    """Nobody else is told more than that there is none."""
    world.database.left = {9}
    assert codes(world.login(9).text) == [1012]
    assert codes(world.login(10).text) == [1010]
