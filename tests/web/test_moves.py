"""Providers that move between sub-LCCs, as their sub-LCC's monitor shows them."""

from __future__ import annotations

import pytest_twisted

from lcc.model.frontend.moves import Fence

from .kit import Watch
from .test_pages import check_page, words


def fence(watch: Watch, state: Fence, pid: int = 1) -> None:
    row = (pid, 1, state.value)
    watch.database.now(lambda txn: txn.upsert("fenced", ("pid", "epoch", "state"), [row], ("pid",)))


def flip(watch: Watch, number: int, pid: int, arrived: int) -> None:
    columns = ("flip", "pid", "subid", "arrived", "epoch", "time")
    watch.database.now(lambda txn: txn.insert("flips", columns, [(number, pid, 2, arrived, 3, 1_700_000_000)]))


@pytest_twisted.ensureDeferred
async def test_moves_on_the_first_page(watch: Watch) -> None:
    await watch.look()
    browser = await watch.visitor()
    assert "moves:" not in (await browser.get("/")).text("pipeline")
    fence(watch, Fence.FOLLOWED)
    fence(watch, Fence.FROZEN, 2)
    fence(watch, Fence.ARRIVING, 3)
    fence(watch, Fence.LEFT, 4)
    flip(watch, 1, 4, 0)
    flip(watch, 2, 5, 1)
    await watch.look()
    reply = await browser.get("/")
    check_page(reply)
    assert "moves: 2 leaving, 1 arriving, 1 came, 1 left" in " ".join(reply.text("pipeline").split())


@pytest_twisted.ensureDeferred
async def test_how_a_provider_moves(watch: Watch) -> None:
    await watch.look()
    browser = await watch.visitor()
    for state, said in (
        (Fence.FOLLOWED, "This provider is being copied to another sub-LCC."),
        (Fence.FROZEN, "This provider is about to leave for another sub-LCC: nothing is fetched, and logins wait."),
        (Fence.ARRIVING, "This provider is arriving from another sub-LCC: nothing is fetched until all its rows"),
    ):
        fence(watch, state)
        reply = await browser.get("/provider/1")
        check_page(reply)
        assert said in words(reply) and "Nothing to fetch." not in words(reply)
    fence(watch, Fence.OPEN)
    assert "sub-LCC" not in words(await browser.get("/provider/1"))


@pytest_twisted.ensureDeferred
async def test_one_that_has_left(watch: Watch) -> None:
    browser = await watch.visitor()
    flip(watch, 3, 99, 0)
    gone = await browser.get("/provider/99")
    assert gone.status == 404
    assert "Provider 99 moved to another sub-LCC (number 2) at 2023-11-14 22:13:20 UTC." in words(gone)
    assert "There is no provider 98." in words(await browser.get("/provider/98"))
