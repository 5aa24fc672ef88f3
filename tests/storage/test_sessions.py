"""Order numbers, connections and full sets under way, as UNSes write them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest
import pytest_twisted
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail, gatherResults

from lcc.config import Config, DatabaseConfig, QmConfig, UnsConfig
from lcc.errors import StoreUnavailable
from lcc.model import FullSetKey, SetStart
from lcc.model.frontend.moves import Fence
from lcc.storage.providers.providers import change_provider, get_provider
from lcc.storage.providers.sessions import ORDER_JUMP as JUMP
from lcc.storage.providers.sessions import Login, SessionStore, kept_numbers, open_session_store
from lcc.storage.queue.moves.fences import put_fence
from tests.support.databases import DirectDatabase, result_of
from tests.support.queue import Queue, notice

Open = Callable[..., SessionStore]


@pytest.fixture
def opened(backend: Any) -> Any:
    """Opens session stores of UNSes."""
    from twisted.internet import reactor

    stores: list[SessionStore] = []

    def open_one(name: str = "uns", **settings: Any) -> SessionStore:
        config = Config(
            home=backend.home,
            database=DatabaseConfig(url=backend.url),
            uns=UnsConfig(name=name),
            qm=QmConfig(**settings),
        )
        store = open_session_store(config, reactor, Random(len(stores)))
        store.start()
        stores.append(store)
        return store

    yield open_one
    pytest_twisted.blockon(gatherResults([store.stop() for store in stores]))


@pytest.fixture
def queue(backend: Any) -> Any:
    queue = Queue(DirectDatabase(backend.url, backend.home))
    yield queue
    queue.database.blocking.close()


async def numbers(store: SessionStore, *starts: tuple[int, int]) -> list[int | None]:
    return await store.begin_sets([SetStart(pid, held) for pid, held in starts], 100)


async def counters(store: SessionStore, sql: str) -> None:
    """Do this to the counters, as others would."""
    await store.database.write(lambda txn: txn.execute(sql))


@pytest_twisted.ensureDeferred
async def test_sessions_are_counted(opened: Open) -> None:
    store, other = opened(), opened("other")
    first = await store.open_session(3, "192.0.2.1", 100)
    assert (first.number, first.order, first.last_ip) == (1, 1, "")
    second = await other.open_session(3, "2001:db8::1", 200)
    assert (second.number, second.order, second.last_ip) == (2, 2, "192.0.2.1")
    assert (await store.open_session(4, "192.0.2.1", 300)).number == 1
    third = await store.open_session(3, "x" * 1000, 300)
    assert (third.number, third.order, third.last_ip) == (3, 3, "2001:db8::1")


@pytest_twisted.ensureDeferred
async def test_sessions_that_come_together_are_counted_as_one_after_the_other(opened: Open, queue: Queue) -> None:
    queue.send(500, notice("a"))
    store, pid = opened(), queue.pid
    logins = [Login(3, "a", 100, 0), Login(pid, "b", 100, 0), Login(3, "c", 100, 0), Login(4, "d", 100, 7)]
    found = await store._count(logins)
    assert [(each.number, each.last_ip) for each in found] == [(1, ""), (1, ""), (2, "a"), (1, "")]
    assert [each.order for each in found] == [1, 500 + JUMP + 1, 2, 7 + JUMP + 1]
    again = await gatherResults([store.open_session(each.pid, "e", 200) for each in logins])
    assert [(each.number, each.last_ip) for each in again] == [(3, "c"), (2, "b"), (4, "e"), (2, "d")]
    assert [each.order for each in again] == [3, 500 + JUMP + 2, 4, 7 + JUMP + 2]


@pytest_twisted.ensureDeferred
async def test_a_set_keeps_its_number_until_somebody_else_draws_one(opened: Open) -> None:
    store, other = opened(), opened("other")
    first = (await store.open_session(3, "a", 100)).order
    assert await numbers(store, (3, first)) == [first] == await numbers(store, (3, first))
    second = (await other.open_session(3, "a", 100)).order
    assert await numbers(other, (3, second)) == [second]
    (third,) = await numbers(store, (3, first))
    assert third is not None and third > second
    (fourth,) = await numbers(other, (3, second))
    assert fourth is not None and fourth > third
    assert (await store.open_session(3, "a", 100)).number == 3, "numbers of sets are no connections"


@pytest_twisted.ensureDeferred
async def test_what_is_in_the_queue_was_drawn(opened: Open, queue: Queue) -> None:
    """Elsewhere, if the provider has moved here: a notifier may tell here what it drew there."""
    queue.send(500, notice("a"))
    store, pid = opened(), queue.pid
    assert await store.last_drawn([pid, 3]) == {pid: 500, 3: 0}
    order = (await store.open_session(pid, "a", 100)).order
    assert await store.last_drawn([pid]) == {pid: order}


@pytest_twisted.ensureDeferred
async def test_sets_that_begin_together_have_the_order_of_their_beginning(opened: Open) -> None:
    store = opened()
    older = (await store.open_session(3, "a", 100)).order
    newer = (await store.open_session(3, "a", 100)).order
    alone = (await store.open_session(4, "a", 100)).order
    found = await numbers(store, (3, older), (4, alone), (3, newer), (5, 0))
    assert found == [newer + 1, alone, newer + 2, 1]


@pytest_twisted.ensureDeferred
async def test_two_unses_never_give_the_same_number(opened: Open) -> None:
    stores = [opened("one"), opened("two")]
    begun = [store.begin_sets([SetStart(3, 0), SetStart(4, 0)], 0) for _ in range(20) for store in stores]
    found = await gatherResults(begun)
    for position in (0, 1):
        given = [pair[position] for pair in found]
        assert len(set(given)) == 40 == max(given)


# Losses.


@pytest_twisted.ensureDeferred
async def test_counters_that_got_lost_go_on_behind_queue_and_spools(opened: Open, queue: Queue) -> None:
    queue.send(500, notice("a"))
    store, pid = opened(), queue.pid
    session = await store.open_session(pid, "192.0.2.1", 100)
    assert session.order == 500 + JUMP + 1, "spools may hold more than the queue has seen"
    assert session.number == 1
    assert (await store.open_session(pid, "192.0.2.1", 100)).order == session.order + 1, "once is enough"


@pytest_twisted.ensureDeferred
async def test_a_counter_that_was_put_back_goes_on_behind_an_empty_full_set(opened: Open, queue: Queue) -> None:
    queue.send(500, notice("a"))
    queue.send(600, full=True)
    store, pid = opened(), queue.pid
    await counters(store, f"INSERT INTO connections VALUES ({pid}, 550, '', 0, 7, 550)")
    order = (await store.open_session(pid, "192.0.2.1", 100)).order
    queue.send(order, notice("b"))
    assert queue.database.query("SELECT COUNT(*) FROM qdb WHERE operation = 1") == [(1,)], "it is not taken as older"


@pytest_twisted.ensureDeferred
async def test_a_session_does_not_keep_a_number_that_was_put_back(opened: Open, queue: Queue) -> None:
    store, pid = opened(), queue.pid
    held = (await store.open_session(pid, "192.0.2.1", 100)).order
    queue.send(held + 7, notice("a"))
    assert await numbers(store, (pid, held)) == [held + 7 + JUMP + 1]
    (again,) = await store.begin_sets([SetStart(pid, held, known=3 * JUMP)], 100)
    assert again == 4 * JUMP + 1, "this UNS has a later one in its spool"
    assert (await store.open_session(pid, "192.0.2.1", 100)).number == 2


@pytest_twisted.ensureDeferred
async def test_two_hundred_thousand_losses_fit(opened: Open, queue: Queue) -> None:
    store = opened()
    await counters(
        store, f"INSERT INTO connections VALUES ({queue.pid}, {200_000 * JUMP}, '', 0, 7, {200_000 * JUMP})"
    )
    session = await store.open_session(queue.pid, "", 0, 200_000 * JUMP + 5)
    assert (session.order, session.number) == (200_001 * JUMP + 6, 8)


# An upgrade.


@pytest_twisted.ensureDeferred
async def test_an_upgrade_shows_no_jump_and_keeps_the_order(opened: Open) -> None:
    """One UNS at a time: an older one draws a number for each connection from the same counter."""
    store = opened()
    await store.open_session(3, "", 0)
    old = "UPDATE connections SET lastconnseq = lastconnseq + 1 WHERE pid = 3"
    # As the older version has left it.
    await counters(store, "UPDATE connections SET lastconnseq = 41, sessions = 0, countedseq = 0")
    session = await store.open_session(3, "", 0)
    assert (session.number, session.order) == (42, 42)
    assert await numbers(store, (3, 42)) == [42]
    await counters(store, old)
    assert await numbers(store, (3, 42)) == [44]
    assert (await store.open_session(3, "", 0)).number == 44
    await counters(store, old)
    await counters(store, old)
    session = await store.open_session(3, "", 0)
    assert (session.number, session.order) == (47, 48)


# Full sets.


async def full(store: SessionStore, pid: int, now: int = 100) -> int | None:
    order = (await store.open_session(pid, "", now)).order
    (number,) = await store.begin_sets([SetStart(pid, order, counts=True)], now)
    assert number in (None, order)
    return number


@pytest.fixture
def limited(queue: Queue) -> int:
    """A provider that may send two full sets."""
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, attrs.evolve(provider, full_sets=2))
    return queue.pid


@pytest_twisted.ensureDeferred
async def test_two_unses_together_allow_no_more_full_sets_than_one(opened: Open, queue: Queue, limited: int) -> None:
    one, two = opened("one"), opened("two")
    first = await full(one, limited)
    assert first and await full(two, limited)
    assert await full(one, limited) is None and await full(two, limited) is None
    assert await full(one, limited) is None, "what was refused is not noted"
    await one.end_full_sets([FullSetKey(limited, first)])  # it was cut off
    third = await full(two, limited)
    assert third and await full(one, limited) is None
    # The queue manager has taken in one of them, and counts it.
    queue.send(third, notice("a"), full=True)
    assert await full(one, limited) is None
    await two.end_full_sets([FullSetKey(limited, third)])
    assert await full(one, limited) is None, "one is counted, one is under way"
    # A new period.
    queue.database.now(lambda txn: txn.execute("UPDATE pstats SET fullsets_used = 0"))
    assert await full(one, limited)
    assert await full(one, limited) is None


@pytest_twisted.ensureDeferred
async def test_two_full_sets_of_one_session_count_as_two(opened: Open, limited: int) -> None:
    store = opened()
    order = (await store.open_session(limited, "", 0)).order
    found = [
        (await store.begin_sets([SetStart(limited, held, counts=True)], 0))[0] for held in (order, order, order + 1)
    ]
    assert found == [order, order + 1, None]


@pytest_twisted.ensureDeferred
async def test_full_sets_that_begin_together_count_as_many(opened: Open, limited: int) -> None:
    store = opened()
    starts = [SetStart(limited, 0, counts=counts) for counts in (True, False, True, True, False, True)]
    found = await store.begin_sets(starts, 0)
    assert [number is None for number in found] == [False, False, False, True, False, True]


@pytest_twisted.ensureDeferred
async def test_what_a_killed_uns_had_begun_is_taken_off_when_it_starts(opened: Open, limited: int) -> None:
    one, two = opened("one"), opened("two")
    first, second = await full(one, limited), await full(one, limited)
    assert first and second and await full(two, limited) is None
    again = opened("one")
    await two.keep_full_sets([], 100)
    assert await full(two, limited) is None, "they are the other one's"
    await again.keep_full_sets([FullSetKey(limited, second)], 100)
    assert await full(two, limited)
    assert await full(two, limited) is None
    # Sets that an older version has spooled are not noted yet.
    await again.keep_full_sets([FullSetKey(limited, second), FullSetKey(limited, 5000)], 100)
    await again.end_full_sets([FullSetKey(limited, second)])
    assert await full(two, limited) is None


@pytest_twisted.ensureDeferred
async def test_a_uns_that_is_gone_for_good_holds_nothing_back_for_ever(opened: Open, limited: int) -> None:
    one, two = opened("one", full_set_period=1000), opened("two", full_set_period=1000)
    assert await full(one, limited, 100) and await full(one, limited, 100)
    assert await full(two, limited, 1099) is None
    assert await full(two, limited, 1100)


@pytest_twisted.ensureDeferred
async def test_a_full_set_whose_commit_was_not_heard_of_does_not_stay(opened: Open, limited: int) -> None:
    store = opened()
    held = (await store.open_session(limited, "", 0)).order
    start = [SetStart(limited, held, counts=True)]
    write = store.database.write

    def deaf(*args: Any) -> Deferred[Any]:
        return write(*args).addCallback(lambda _: fail(StoreUnavailable("not heard of")))

    store.database.write = deaf  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.begin_sets(start, 0)
    store.database.write = write  # type: ignore[method-assign]
    await store.end_full_sets([])
    assert await full(store, limited) and await full(store, limited)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 3)), max_size=8), st.integers(0, 3))
def test_who_keeps_its_number(wishes: list[tuple[int, int]], last: int) -> None:
    starts = [SetStart(pid, held) for pid, held in wishes]
    found = kept_numbers(starts, {1: last, 2: 2}, {1: 0, 2: 3})
    for index, (start, number) in enumerate(zip(starts, found, strict=True)):
        if number is not None:
            assert (start.pid, number) == (1, last) == (1, start.held)
            assert all(found[before] is not None for before in range(index) if starts[before].pid == 1)


@pytest_twisted.ensureDeferred
async def test_a_provider_that_moves_begins_nothing(opened: Open, queue: Queue) -> None:
    """Neither sessions nor sets; others that begin together with it are not held up."""
    store, pid, other = opened(), queue.pid, queue.add_provider()
    session = await store.open_session(pid, "192.0.2.1", 100)
    fence, pieces = result_of(queue.store.move_step(100, put_fence, pid, 1, Fence.FROZEN))
    assert fence and not pieces.queued
    with pytest.raises(StoreUnavailable, match=f"provider {pid} is moving"):
        await store.open_session(pid, "192.0.2.1", 100)
    answers = await numbers(store, (pid, session.order), (other, 0), (pid, 0))
    assert answers[0] == 0 == answers[2] and answers[1]
    logins = await gatherResults([store.open_session(other, "192.0.2.2", 100), store.open_session(other, "", 100)])
    assert [login.number for login in logins] == [1, 2]
    # An older fence changes nothing; a newer one does.
    assert not result_of(queue.store.move_step(100, put_fence, pid, 0, Fence.OPEN))[0]
    assert await numbers(store, (pid, session.order)) == [0]
    assert result_of(queue.store.move_step(100, put_fence, pid, 2, Fence.OPEN))[0]
    assert await numbers(store, (pid, session.order)) == [session.order]


@pytest_twisted.ensureDeferred
async def test_the_number_of_a_set_that_is_held_is_not_given_again(opened: Open, queue: Queue) -> None:
    """What is told with it would be absorbed first, and count as older (780365m)."""
    store, pid = opened(), queue.pid
    first = (await store.open_session(pid, "192.0.2.1", 100)).order
    result_of(queue.store.move_step(100, put_fence, pid, 1, Fence.ARRIVING))
    # Nor is that of one that may be on its way.
    (second,) = await numbers(store, (pid, first))
    assert second is not None and second > first
    queue.send(second, notice("a"))
    result_of(queue.store.move_step(100, put_fence, pid, 2, Fence.OPEN))
    (third,) = await numbers(store, (pid, second))
    assert third is not None and third > second, "it is held until it is applied"
