"""What is told again of hosts whose addresses were refused, and how often."""

from __future__ import annotations

from itertools import pairwise

import pytest
from twisted.internet.task import Clock

from lcc.model.spider.crawls import HostRef
from lcc.roles.spider import private_hosts
from lcc.roles.spider.private_hosts import PrivateHosts

A, B = HostRef(1, "http://a/"), HostRef(1, "http://b/")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hosts(clock: Clock) -> PrivateHosts:
    return PrivateHosts(clock)


def test_all_that_was_told_before_the_provider_was_asked_for_is_told_again(hosts: PrivateHosts) -> None:
    assert not hosts.is_to_ask(A)
    hosts.newest_set = 6
    assert hosts.refused(A, 4) and hosts.is_to_ask(A) and not hosts.is_to_ask(B)
    assert hosts.refused(A, 6)
    hosts.newest_set = 7  # it was on its way when the first one was refused
    assert hosts.refused(A, 7) and hosts.is_to_ask(A)
    hosts.asked(A)
    assert not hosts.is_to_ask(A)
    hosts.newest_set = 9
    assert hosts.refused(A, 5) and hosts.refused(A, 7) and not hosts.is_to_ask(A), "its answer came late"
    assert not hosts.refused(A, 8) and not hosts.is_to_ask(A), "it was told to the provider as it is now"
    assert hosts.refused(B, 8)
    hosts.begin()
    assert not hosts.is_to_ask(B) and hosts.refused(A, 1) and not hosts.newest_set


def test_it_is_asked_for_less_and_less_often(hosts: PrivateHosts, clock: Clock) -> None:
    asked = []
    for second in range(4 * 3600):
        hosts.newest_set += 1
        if hosts.refused(A, hosts.newest_set):
            asked.append(second)
            hosts.asked(A)
        clock.advance(1)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses[:4] == [61, 121, 241, 481] and pauses[-1] == 3601


def test_a_pause_begins_when_it_was_asked_for_in_vain(hosts: PrivateHosts, clock: Clock) -> None:
    """However long it took until one was refused: else all others would be told again at once."""
    hosts.newest_set = 1
    assert hosts.refused(A, 1)
    hosts.asked(A)
    clock.advance(10 * 3600)
    assert [hosts.refused(A, number) for number in (1, 2, 3)] == [True, False, False]
    clock.advance(60)
    assert hosts.refused(A, 4)


def test_so_many_are_remembered(hosts: PrivateHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_hosts, "_KEPT", 2)
    for name in "abca":
        hosts.refused(HostRef(1, name), 1)
    assert [host.root for host in hosts._refused] == ["c", "a"]
