"""What a UNS knows of providers when notifiers speak of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from lcc.errors import SetError
from lcc.model import Provider, Source
from lcc.roles.uns.notifiers import checkers
from lcc.roles.uns.notifiers.checkers import KNOWN_SECONDS, Checkers
from tests.support.databases import result_of

PROVIDERS = {pid: Provider(pid, (f"http://site{pid}.example/",), "") for pid in (1, 2)}


def _of(provider: Provider, _: Source) -> Any:
    return provider


class Asked:
    """The database: it answers when the test says so."""

    def __init__(self) -> None:
        self.providers: list[tuple[int, Deferred[Provider | None]]] = []
        self.orders: list[Deferred[dict[int, int]]] = []
        self.clock = Clock()
        self.checkers = Checkers(self.clock, self._read, self._read_orders, _of)

    def _read(self, pid: int) -> Deferred[Provider | None]:
        self.providers.append((pid, Deferred()))
        return self.providers[-1][1]

    def _read_orders(self, pids: Collection[int]) -> Deferred[dict[int, int]]:
        self.orders.append(Deferred())
        return self.orders[-1]

    def answer(self) -> None:
        """All that was asked for providers."""
        while self.providers:
            pid, asked = self.providers.pop(0)
            asked.callback(PROVIDERS.get(pid))

    def known(self, pid: int) -> Any:
        """The provider that elements are checked for."""
        return self.checkers.checker(pid, Source.LINK)

    def load(self, *wanted: tuple[int, int]) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.checkers.load(wanted))


def test_one_that_is_changed_while_order_numbers_are_read_is_read_again() -> None:
    """Another notifier has it watched: it is not gone."""
    asked = Asked()
    loaded = asked.load((1, 5), (2, 0))
    asked.answer()
    asked.checkers.forget(1)
    asked.checkers.forget(2)
    asked.orders.pop().callback({1: 5})
    assert not loaded.called
    asked.checkers.forget(2)
    asked.answer()
    result_of(loaded)
    for pid in (1, 2):
        assert asked.known(pid) is PROVIDERS[pid]
    assert asked.checkers.is_drawn(1, 5)


def test_one_that_is_unknown_is_gone() -> None:
    asked = Asked()
    loaded = asked.load((3, 0))
    asked.answer()
    result_of(loaded)
    with pytest.raises(SetError, match="no longer registered"):
        asked.known(3)


def test_one_that_is_changed_while_others_are_read_is_read_again() -> None:
    asked = Asked()
    loaded = asked.load((1, 0), (2, 0))
    (first, answer), second = asked.providers
    answer.callback(PROVIDERS[first])
    asked.checkers.forget(first)
    asked.providers = [second]
    asked.answer()
    asked.answer()
    result_of(loaded)
    assert asked.known(first) is PROVIDERS[first]


def loaded(asked: Asked, *wanted: tuple[int, int]) -> list[int]:
    """Load; gives the providers that were read for it."""
    loading = asked.load(*wanted)
    read = sorted(pid for pid, _ in asked.providers)
    asked.answer()
    while asked.orders:
        asked.orders.pop().callback({1: 5})
    result_of(loading)
    return read


def test_a_provider_is_known_for_some_seconds() -> None:
    asked = Asked()
    assert loaded(asked, (1, 0), (2, 0)) == [1, 2]
    asked.clock.advance(KNOWN_SECONDS - 0.5)
    assert not asked.checkers.lacks(1, 0) and loaded(asked, (1, 0), (2, 0)) == []
    asked.clock.advance(0.5)
    assert asked.checkers.lacks(1, 0) and loaded(asked, (1, 0)) == [1]
    assert not asked.checkers.lacks(1, 0) and asked.checkers.lacks(2, 0)


def test_order_numbers_are_read_only_where_they_may_have_been_drawn_since() -> None:
    asked = Asked()
    loaded(asked, (1, 0))
    assert asked.checkers.lacks(1, 1) and not asked.checkers.is_drawn(1, 1) and asked.checkers.is_drawn(1, 0)
    loaded(asked, (1, 5))
    assert asked.checkers.is_drawn(1, 5) and not asked.checkers.is_drawn(1, 6)
    assert not asked.checkers.lacks(1, 5) and asked.checkers.lacks(1, 6)
    loading = asked.load((1, 5))
    assert loading.called and not asked.orders
    asked.checkers.drawn(1, 9)
    asked.checkers.drawn(1, 7)
    assert asked.checkers.is_drawn(1, 9) and not asked.checkers.lacks(1, 9)


def test_of_one_that_is_gone_no_order_number_is_lacking() -> None:
    asked = Asked()
    loaded(asked, (3, 0))
    assert not asked.checkers.lacks(3, 4)


def test_one_that_was_never_read_is_no_provider() -> None:
    with pytest.raises(SetError, match="no longer registered"):
        Asked().known(1)


def test_the_oldest_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkers, "_KNOWN_MAX", 2)
    monkeypatch.setattr(checkers, "_ORDERS_MAX", 2)
    asked = Asked()
    for pid in (1, 2, 1, 3):
        asked.clock.advance(KNOWN_SECONDS)
        loaded(asked, (pid, 0))
        asked.checkers.drawn(pid, int(asked.clock.seconds()))
    asked.clock.advance(-KNOWN_SECONDS)
    assert [asked.checkers.lacks(pid, 0) for pid in (1, 2, 3)] == [False, True, False]
    assert [asked.checkers.is_drawn(pid, 1) for pid in (1, 2, 3)] == [True, False, True]
