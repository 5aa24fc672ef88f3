"""Roots that are taken away while there is work, in the queue manager as a whole, on the real store."""

from __future__ import annotations

import attrs
import pytest

from lcc.errors import code
from lcc.model import UrlNotice
from lcc.storage.database.tables.order_rows import ROOTS_TAKEN
from lcc.storage.providers.providers import change_provider, get_provider, provider_status
from tests.support.roles.qm import FakeBotm, FakeUns, World, pages

NARROW = "http://site.example/1"
"""What begins with it are pages 1 and 10 to 19."""
INSIDE = {f"http://site.example/{number}.html" for number in (1, *range(10, 20))}


def set_roots(world: World, pid: int, *roots: str) -> None:
    provider = world.database.now(get_provider, pid)
    assert provider is not None
    world.database.now(change_provider, attrs.evolve(provider, roots=roots))


def narrow(world: World, pid: int) -> None:
    set_roots(world, pid, NARROW)


def errors(world: World, pid: int) -> dict[str, int]:
    return {error.url: error.code for error in world.database.now(provider_status, pid, 100).errors}


@pytest.mark.parametrize("dropped_first", [True, False])
def test_what_lies_outside_is_not_fetched_any_more(world: World, dropped_first: bool) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world, capacity=1)
    uns.send_set(1, pid, pages(*range(30)))
    (first,) = botm.seen
    narrow(world, pid)
    if not dropped_first:
        # Its rows were read ahead, and many are looked at before the order is carried out.
        world.database.now(lambda txn: txn.execute("DELETE FROM orders WHERE kind = ?", [ROOTS_TAKEN]))
    world.advance(2)
    botm.finish_all()
    world.advance(2)
    assert {fetch.url for fetch in botm.seen[1:]} == INSIDE
    assert all(fetch.roots == NARROW for fetch in botm.seen[1:])
    assert world.cached(pid).keys() - {first.url} == INSIDE
    assert world.count("qdb") == 0
    told = errors(world, pid)
    assert set(told.values()) == {code("outside-roots")}
    assert told.keys() - {first.url} == {f"http://site.example/{n}.html" for n in range(30)} - INSIDE - {first.url}


def test_a_set_that_was_spooled_before_is_judged_by_the_roots_of_now(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    narrow(world, pid)
    uns.send_set(1, pid, pages(1, 2, 10))
    botm.finish_all()
    assert world.cached(pid).keys() == {"http://site.example/1.html", "http://site.example/10.html"}
    assert errors(world, pid) == {"http://site.example/2.html": code("outside-roots")}


@pytest.mark.parametrize("busy", [False, True])
def test_what_is_told_below_a_new_root_is_fetched_before_its_order_is_carried_out(world: World, busy: bool) -> None:
    """Nobody waits for that order, which may have a long one before it."""
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world, capacity=1)
    uns.send_set(1, pid, pages(1))
    if not busy:
        botm.finish_all()
    set_roots(world, pid, "http://site.example/", "http://new.example/")
    new = UrlNotice("http://new.example/a", mimetype="text/html", sent="[]")
    uns.send_set(2, pid, [new])
    botm.finish_all()
    assert errors(world, pid) == {}
    assert [fetch.url for fetch in botm.seen] == ["http://site.example/1.html", "http://new.example/a"]
    assert "http://new.example/" in botm.seen[-1].roots
