"""Priorities, quantum, bandwidth and hours in the queue manager as a whole, on the real store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from twisted.internet.defer import fail

from lcc.errors import StoreUnavailable, code
from lcc.protocols.work import Fetch
from lcc.storage.providers.providers import change_provider, get_provider
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, MakeWorld, World, page, pages

HOUR = 3600.0


def wide(*numbers: int, hours: str = "") -> list:  # type: ignore[type-arg]
    return [page(number, hours=hours) for number in numbers]


def pids(botm: FakeBotm) -> list[int]:
    return [fetch.pid for fetch in botm.seen]


def only(botm: FakeBotm) -> Fetch:
    (fetch,) = botm.out.values()
    return fetch


def hour_of(world: World) -> int:
    return datetime.fromtimestamp(world.wall_clock(), UTC).hour


def pass_hours(world: World, botm: FakeBotm, hours: int) -> list[tuple[int, str]]:
    """Everything that is fetched meanwhile: (hour, page)."""
    fetched = []
    for _ in range(hours * 300):
        while botm.out:
            fetch = next(iter(botm.out.values()))
            fetched.append((hour_of(world), fetch.url.rsplit("/", 1)[-1]))
            botm.done(fetch)
        world.clock.advance(12)
        for remote in list(world.remotes):
            remote.write("<ping/>")
        world.settle()
    return fetched


def test_a_higher_priority_overtakes_between_two_fetches(make_world: MakeWorld) -> None:
    world = make_world(overload=1.0)
    uns, botm = FakeUns(world), FakeBotm(world, capacity=2)
    for number in range(1, 7):
        uns.send_set(number, world.provider(), pages(*range(50)))
    assert pids(botm) == [1, 2]
    middle, high = world.provider(priority=1), world.provider(priority=2)
    uns.send_set(7, middle, pages(*range(3)))
    uns.send_set(8, high, pages(*range(3)))
    botm.done(next(iter(botm.out.values())))
    assert pids(botm)[2:] == [high]
    while botm.out:
        botm.done(next(iter(botm.out.values())))
        if world.count("qdb", f"pid = {high}") == 0 and world.count("qdb", f"pid = {middle}") == 0:
            break
    later = pids(botm)[2:]
    assert later.count(high) == later.count(middle) == 3
    assert sum(pid < middle for pid in later) <= 3
    botm.finish_all()
    assert world.count("qdb") == 0


def test_huge_sets_do_not_hold_up_small_ones(make_world: MakeWorld) -> None:
    world = make_world(overload=1.0, quantum_urls=10)
    uns, botm = FakeUns(world), FakeBotm(world, capacity=2)
    for number in range(1, 4):
        uns.send_set(number, world.provider(), pages(*range(300)))
    small = world.provider()
    uns.send_set(4, small, pages(*range(5)))
    for _ in range(60):
        botm.done(next(iter(botm.out.values())))
    assert pids(botm).count(small) == 5
    botm.finish_all()
    assert world.count("qdb") == 0 and world.cached_count == 905


def test_a_partial_set_passes_the_full_set_of_its_provider(make_world: MakeWorld) -> None:
    world = make_world(quantum_urls=10, read_ahead=8)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(*range(200)), full=True)
    uns.send_set(2, pid, pages(*range(1000, 1012)))
    botm.finish_all(60)
    numbers = [int(fetch.url.rsplit("/", 1)[-1].partition(".")[0]) for fetch in botm.seen]
    assert sum(number >= 1000 for number in numbers) == 12
    botm.finish_all()
    numbers = [int(fetch.url.rsplit("/", 1)[-1].partition(".")[0]) for fetch in botm.seen]
    assert [number for number in numbers if number < 1000] == list(range(200))
    assert [number for number in numbers if number >= 1000] == list(range(1000, 1012))
    assert world.count("qdb") == 0


def test_bandwidth_of_a_provider(world: World) -> None:
    pid = world.provider(bandwidth_bytes=1000)
    other = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    botm.done(only(botm), wire_bytes=2500)
    assert not botm.out
    uns.send_set(2, other, pages(1))
    assert only(botm).pid == other
    botm.done(only(botm), wire_bytes=10**6)
    world.advance(2.4)
    assert not botm.out
    world.clock.advance(0.11)
    world.settle()
    botm.done(only(botm), 404, wire_bytes=700)  # failures count, too
    world.clock.advance(0.69)
    world.settle()
    assert not botm.out
    world.clock.advance(0.02)
    world.settle()
    assert len(botm.out) == 1
    botm.finish_all(1)
    world.advance(1)
    botm.finish_all()
    assert world.count("qdb") == 0


def test_a_debt_survives_a_restart(world: World) -> None:
    pid = world.provider(bandwidth_bytes=100)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2))
    botm.done(only(botm), wire_bytes=100 * 60)
    assert world.count("pdelays", f"pid = {pid} AND reason = 'bandwidth'") == 1
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(58)
    assert not back.out
    world.advance(3)
    assert len(back.out) == 1
    back.finish_all()
    world.advance(3)
    assert world.count("pdelays") == 0


@pytest.mark.parametrize("whose", ["provider", "site"])
def test_a_debt_is_as_durable_as_the_result_that_made_it(make_world: MakeWorld, whose: str) -> None:
    """The queue manager is killed as soon as it has acknowledged the result."""
    world = make_world(bandwidth_bytes=100 if whose == "site" else 0)
    pid = world.provider(bandwidth_bytes=100 if whose == "provider" else None)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2))
    botm.done(only(botm), wire_bytes=500)
    assert botm.upto == 1 and not botm.out
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(4.5)
    assert not back.out
    world.advance(1)
    assert len(back.out) == 1


def test_a_debt_that_nobody_has_any_longer_is_forgotten(make_world: MakeWorld) -> None:
    """The limit of the whole LCC is taken away while the queue manager does not run."""
    world = make_world(bandwidth_bytes=100)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    botm.done(only(botm), wire_bytes=100_000)
    world.settings = attrs.evolve(world.settings, bandwidth_bytes=0)
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(2)
    assert len(back.out) == 1 and world.count("pdelays") == 0


def test_where_the_site_is_limited_no_order_waits_at_a_botm(make_world: MakeWorld) -> None:
    """It would begin while the site has not paid."""
    for rate, count in ((0, 6), (1000, 4)):
        world = make_world(bandwidth_bytes=rate)
        uns, botm = FakeUns(world), FakeBotm(world, capacity=4)
        for number in range(1, 9):
            uns.send_set(number, world.provider(), pages(1))
        assert len(botm.out) == count


def test_bandwidth_of_the_whole_site(make_world: MakeWorld) -> None:
    world = make_world(bandwidth_bytes=1000)
    uns, botm = FakeUns(world), FakeBotm(world)
    for number in range(1, 4):
        uns.send_set(number, world.provider(), pages(1, 2))
    assert len(botm.out) == 3
    for fetch in list(botm.out.values()):
        botm.done(fetch, wire_bytes=20_000)
    assert not botm.out
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(59)
    assert not back.out
    world.advance(2)
    assert len(back.out) == 3
    back.finish_all(3)
    world.advance(5)
    back.finish_all()
    assert world.count("qdb") == 0


def test_hours_of_a_provider(world: World) -> None:
    pid = world.provider(hours="0-2")
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    world.advance(2)
    assert not botm.seen
    assert world.count("pdelays", "reason = 'hours'") == 1
    fetched = pass_hours(world, botm, 5)
    assert [name for _, name in fetched] == ["1.html", "2.html", "3.html"]
    assert {hour for hour, _ in fetched} == {0}


def test_hours_of_a_provider_end_between_two_fetches(make_world: MakeWorld) -> None:
    world = make_world(lease=10_000.0)
    pid = world.provider(hours="22-23", timezone="UTC")
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2))
    fetch = only(botm)
    world.advance(47 * 60)
    botm.done(fetch)
    assert not botm.out and world.count("qdb") == 1
    world.start()
    back = FakeBotm(world, earlier=botm)
    fetched = pass_hours(world, back, 25)
    assert fetched == [(22, "2.html")]


def test_nothing_is_ordered_shortly_before_its_hours_end(make_world: MakeWorld) -> None:
    world = make_world(lease=10_000.0)
    mine, other = world.provider(hours="22-23"), world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, mine, pages(1, 2))
    uns.send_set(2, other, [*pages(1), *wide(2, hours="22"), *pages(3)])
    first, second = list(botm.out.values())
    world.advance(46 * 60 + 15)  # 22:59:35
    botm.done(first)
    botm.done(second)
    assert only(botm).url.endswith("3.html")
    assert world.count("qdb", "slot = 22") == 1
    fetched = pass_hours(world, botm, 25)
    assert sorted(fetched) == [(22, "2.html"), (22, "2.html"), (22, "3.html")]


def test_an_order_says_until_when_it_may_begin(make_world: MakeWorld) -> None:
    world = make_world(hours_margin=20.0)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), [*pages(1), *wide(2, hours="20-24")])
    uns.send_set(2, world.provider(hours="22-24"), wide(1, hours="22"))
    uns.send_set(3, world.provider(hours="22-24"), pages(1))
    left = 3600 - 800  # it is 22:13:20
    assert {fetch.pid: fetch.start_seconds for fetch in botm.out.values()} == {
        1: None,
        2: left - 20,
        3: left + 3600 - 20,
    }
    botm.done(botm.seen[0])
    assert botm.seen[-1].start_seconds == left + 3600 - 20


@pytest.mark.parametrize("whose", ["url", "provider"])
def test_what_came_too_late_waits_for_its_hours(make_world: MakeWorld, whose: str) -> None:
    """An order that waited at its BOT-M until the hours were over comes back; nothing was tried."""
    world = make_world(lease=10_000.0)
    of_url, of_provider = ("22", "") if whose == "url" else ("", "22")
    pid = world.provider(hours=of_provider)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, wide(1, hours=of_url))
    first = only(botm)
    world.advance(47 * 60)  # 23:00:20
    botm.done(first, code("hours-over"))
    assert not botm.out and botm.upto == botm.number
    assert world.count("qdb", "attempts = 0") == 1 and world.count("urlerrs") == 0
    fetched = pass_hours(world, botm, 25)
    assert fetched == [(22, "1.html")]
    assert world.count("qdb") == 0


def test_what_came_too_late_of_an_earlier_queue_manager(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), wide(1, hours="22"))
    first = only(botm)
    world.start()
    back = FakeBotm(world, earlier=botm)
    back.done(first, code("hours-over"))
    (again,) = back.out.values()  # here it is not too late
    assert again.url == first.url and again.id != first.id
    back.done(again)
    assert world.count("qdb") == 0 and world.overlaps == 0


def test_a_slot_that_begins_before_a_row_is_written_to_it_is_not_missed(make_world: MakeWorld) -> None:
    """It is reached before midnight, when 0 is the next slot; by the time it can be written, that has begun."""
    world = make_world(lease=10_000.0)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), [*pages(1), *wide(2, hours="22,0-5")])
    fetch = only(botm)
    record, asked = world.engine.store.record, []

    def away_once(*arguments: Any) -> Any:
        asked.append(arguments)
        return fail(StoreUnavailable("away")) if len(asked) == 1 else record(*arguments)

    world.advance(3600 + 46 * 60 + 35)  # 23:59:55
    world.engine.store.record = away_once  # type: ignore[method-assign]
    world.clock.advance(4.99)
    botm.done(fetch)
    assert pass_hours(world, botm, 1) == [(0, "2.html")]
    assert len(asked) > 1


def test_hours_of_urls(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, [*wide(1, 2, hours="0-2"), *pages(3), *wide(4, hours="22-23"), *wide(5, hours="23")])
    fetched = pass_hours(world, botm, 5)
    assert fetched[:2] == [(22, "3.html"), (22, "4.html")]
    assert fetched[2:] == [(23, "5.html"), (0, "1.html"), (0, "2.html")]
    assert world.count("qdb") == world.count("qpsdb") == 0


def test_urls_whose_window_closes_while_they_are_queued_go_back_to_their_slot(make_world: MakeWorld) -> None:
    world = make_world(lease=10_000.0)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, [*pages(1), *wide(2, 3, hours="22"), *pages(4)])
    fetch = only(botm)
    world.advance(47 * 60)
    botm.done(fetch)  # it is 23h by now
    assert only(botm).url.endswith("4.html")
    assert world.count("qdb", "slot = 22") == 2 and world.count("qpsdb", "slot = 22 AND nurls = 2") == 1
    fetched = pass_hours(world, botm, 25)
    assert fetched == [(23, "4.html"), (22, "2.html"), (22, "3.html")]
    assert world.count("qdb") == world.count("qpsdb") == 0


@pytest.mark.parametrize("away_hours", [3, 30])
def test_slots_that_begin_while_no_queue_manager_runs(world: World, away_hours: int) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, wide(1, 2, hours="0-6"))
    assert world.count("qdb", "slot = 0") == 2
    world.engine.stop()
    world.clock.advance(away_hours * HOUR)
    world.start()
    back = FakeBotm(world, earlier=botm)
    assert [hour for hour, _ in pass_hours(world, back, 1)] == [hour_of_start(away_hours)] * 2


def hour_of_start(away_hours: int) -> int:
    return datetime.fromtimestamp(NOW + away_hours * HOUR, UTC).hour


def test_hours_that_no_longer_meet_are_reported(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, [*pages(1), *wide(2, hours="22-23")])
    change(world, pid, hours="22")
    change(world, pid, hours="0-5,22")
    world.advance(2)
    change(world, pid, hours="0-5")
    fetch = only(botm)
    world.advance(2)
    botm.done(fetch)
    pass_hours(world, botm, 3)
    assert world.count("urlerrs", "code = 1213") == 1
    assert world.count("qdb") == 0


def change(world: World, pid: int, **changes: object) -> None:
    provider = world.database.now(get_provider, pid)
    assert provider is not None
    world.database.now(change_provider, attrs.evolve(provider, **changes))  # type: ignore[arg-type]


def test_a_change_of_the_provider_takes_effect_at_once(world: World) -> None:
    pid = world.provider(bandwidth_bytes=1)
    closed = world.provider(hours="0-1")
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2))
    uns.send_set(2, closed, pages(1))
    botm.done(only(botm), wire_bytes=100_000)
    world.advance(2)
    assert not botm.out
    change(world, pid, bandwidth_bytes=50_000)
    change(world, closed, hours="")
    world.advance(2)
    assert {fetch.pid for fetch in botm.out.values()} == {closed}
    world.advance(2)
    assert {fetch.pid for fetch in botm.out.values()} == {pid, closed}


def test_new_hours_reach_rows_that_wait_in_slots(world: World) -> None:
    """It is 22h.  The row waits for 10h, because the provider's hours begin then; now they are open."""
    pid = world.provider(hours="10-12")
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, wide(1, hours="9-24"))
    assert world.count("qdb", "slot = 10") == 1
    change(world, pid, hours="")
    world.advance(2)
    botm.done(only(botm))
    assert world.count("qdb") == world.count("qpsdb") == 0


def test_a_new_priority_counts_at_once(make_world: MakeWorld) -> None:
    world = make_world(overload=1.0)
    uns, botm = FakeUns(world), FakeBotm(world, capacity=1)
    for number in range(1, 30):
        uns.send_set(number, world.provider(), pages(1, 2))
    change(world, 29, priority=2)
    world.advance(2)
    botm.finish_all(1)
    assert pids(botm) == [1, 29]


def test_a_site_error_survives_a_restart_and_grows(make_world: MakeWorld) -> None:
    world = make_world(hold_initial=100.0, hold_maximum=1000.0)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1))
    botm.done(only(botm), 1301)
    world.advance(2)
    assert world.count("pdelays", "reason = 'site-error' AND code = 1301 AND failures = 1") == 1
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(70)
    assert not back.out
    world.advance(30)
    back.done(only(back), 1301)
    world.advance(140)
    assert not back.out
    world.advance(62)
    back.finish_all()
    world.advance(2)
    assert world.count("pdelays") == 0 and world.cached_count == 1
