"""Orders to BOT-Ms and what becomes of them, on the real store."""

from __future__ import annotations

import pytest

from lcc.errors import code
from lcc.model import FETCH_NOW
from lcc.storage.database.tables.timeline import current_timeline
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, page, pages

DNS = code("dns-failed")


@pytest.fixture(params=[0, 1, 2])
def hops(request: pytest.FixtureRequest) -> int:
    """Directly, and behind central BOT-Ms."""
    return int(request.param)


def urls(botm: FakeBotm) -> list[str]:
    return [fetch.url.rsplit("/", 1)[-1] for fetch in botm.seen]


def test_from_a_set_to_the_cache(world: World) -> None:
    pid = world.provider("http://site.example/", "http://other.example/", allow_private=True)
    botm = FakeBotm(world)
    uns = FakeUns(world)
    uns.send_set(1, pid, [page(1, furl="http://site.example/real?x=1&y=%20#part"), *pages(2, 3)])
    fetch = botm.seen[0]
    assert fetch.url == "http://site.example/real?x=1&y=%20"
    assert fetch.roots.split() == ["http://site.example/", "http://other.example/"]
    assert fetch.private and not fetch.insecure
    assert (fetch.pid, fetch.mimetype) == (pid, "text/html")
    assert fetch.id.startswith(world.database.now(current_timeline).partition("-")[2])
    assert len(botm.seen) == 1  # one at a time
    assert botm.finish_all() == 3
    assert urls(botm)[1:] == ["2.html", "3.html"]
    assert botm.upto == 3 and not botm.kept
    row = world.cached()["http://site.example/1.html"]
    assert (row.fetched_machineid, row.fetched_fileid, row.status) == (1, 1001, 200)
    assert world.count("qdb") == 0
    assert world.engine.scheduler.active_count == world.engine.scheduler.taken_count == 0


def test_many_providers_in_parallel_up_to_the_overload(make_world: MakeWorld) -> None:
    world = make_world(overload=1.5)
    uns = FakeUns(world)
    for number in range(1, 41):
        pid = world.provider(f"http://site{number}.example/")
        uns.send_set(number, pid, pages(*range(5)))
    botm = FakeBotm(world, capacity=8)
    assert len(botm.out) == 12
    assert [fetch.pid for fetch in botm.seen] == list(range(1, 13))
    botm.set_capacity(10)
    assert len(botm.out) == 15
    botm.set_capacity(0)
    for _ in range(5):
        botm.done(next(iter(botm.out.values())))
    assert len(botm.out) == 10
    botm.set_capacity(100)
    assert len(botm.out) == 40
    assert botm.finish_all() == 195
    assert world.count("qdb") == 0 and world.cached_count == 200
    for pid in range(1, 41):
        mine = [fetch.url for fetch in botm.seen if fetch.pid == pid]
        assert mine == sorted(mine)


def test_several_botms_share_the_work(make_world: MakeWorld) -> None:
    world = make_world(overload=1.0)
    first, second = FakeBotm(world, 1, capacity=2), FakeBotm(world, 2, capacity=6)
    uns = FakeUns(world)
    for number in range(1, 21):
        uns.send_set(number, world.provider(), pages(1, 2))
    assert (len(first.out), len(second.out)) == (2, 6)
    while first.out or second.out:
        first.finish_all(1)
        second.finish_all(3)
    for machine in (1, 2):
        assert world.count("lccurl", f"fetched_machineid = {machine}") > 0
    assert world.count("qdb") == 0


def test_a_provider_stays_with_its_botm(make_world: MakeWorld) -> None:
    world = make_world()
    uns = FakeUns(world)
    first = FakeBotm(world, 1)
    uns.send_set(1, world.provider(), pages(*range(10)))
    second = FakeBotm(world, 2, capacity=100)
    assert first.finish_all() == 10 and not second.seen


def test_nothing_is_sent_before_ready(world: World) -> None:
    pid = world.provider()
    FakeUns(world).send_set(1, pid, pages(1))
    botm = FakeBotm(world, ready=False)
    world.advance(3)
    assert not botm.seen


def test_a_notification_during_its_fetch_is_fetched_again(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2))
    (fetch,) = botm.out.values()
    uns.send_set(2, pid, [page(1, md5="1" * 32)])
    botm.done(fetch)
    botm.finish_all()
    assert sorted(urls(botm)) == ["1.html", "1.html", "2.html"]
    first, second = (fetch.generation for fetch in botm.seen if "1.html" in fetch.url)
    assert first < second
    assert world.count("qdb") == 0 and world.cached_count == 2


def test_a_notification_for_a_row_that_is_buffered(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    uns.send_set(2, pid, [page(2, furl="http://site.example/moved.html")])
    botm.finish_all()
    assert urls(botm) == ["1.html", "moved.html", "3.html"]


def test_a_deletion_during_the_fetch(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1))
    botm.finish_all()
    uns.send_set(2, pid, [page(1, md5="1" * 32), page(2)])
    uns.send_set(3, pid, [page(1, delete=True), page(2, delete=True)])
    assert len(botm.deletes) == 1
    botm.finish_all()
    assert urls(botm) == ["1.html", "1.html"]
    assert world.cached() == {} and world.count("qdb") == 0
    botm.delete_all()
    assert world.count("fsmdb") == 0
    assert world.engine.deleter.files_deleted == 2  # that of the first fetch, and that of the second


def test_a_result_that_comes_again_is_recorded_once(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    world.database.hold_back()
    botm.done(next(iter(botm.out.values())))
    botm.close()
    back = FakeBotm(world, earlier=botm)
    world.database.let_go()
    world.settle()
    assert back.upto == 1 and not back.kept
    assert world.engine.dispatcher.results_again == 1
    back.finish_all()
    assert world.count("qdb") == 0 and world.cached_count == 3
    assert world.count("fsmdb") == 0


def test_a_botm_that_is_killed_starts_again_with_nothing(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    for number in range(1, 5):
        uns.send_set(number, world.provider(), pages(1, 2))
    assert len(botm.out) == 4
    botm.close()
    world.fetching.clear()
    world.advance(5)
    new = FakeBotm(world, run="r2")
    assert {fetch.url for fetch in new.out.values()} == {"http://site.example/1.html"}
    assert set(new.out).isdisjoint(botm.out)
    assert new.finish_all() == 8
    assert world.count("qdb") == 0


def test_a_botm_whose_link_broke_goes_on(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    for number in range(1, 5):
        uns.send_set(number, world.provider(), pages(1, 2))
    botm.close()
    lost, ended, running, _ = list(botm.out.values())
    botm.forget(lost)
    botm.done(ended)
    back = FakeBotm(world, earlier=botm)
    assert len(back.seen) == 2  # the next of the one that has ended, and the one that was lost
    assert lost.key in {fetch.key for fetch in back.seen}
    assert running.id in back.out
    back.finish_all()
    assert world.count("qdb") == 0 and world.cached_count == 8


def test_a_newer_connection_replaces_the_older(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    new = FakeBotm(world, earlier=botm)
    assert botm.closed and not new.closed
    new.finish_all()
    assert world.cached_count == 2


def test_a_lease_that_passes_while_the_botm_is_away(make_world: MakeWorld) -> None:
    world = make_world(lease=60.0)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    botm.close()
    other = FakeBotm(world, 2)
    world.advance(58)
    assert not other.seen
    world.fetching.clear()  # the robot has given up
    world.advance(4)
    assert urls(other) == ["1.html"]
    late = FakeBotm(world, 1, earlier=botm, ready=False)
    late.running.clear()
    late.done(next(iter(botm.out.values())))
    other.finish_all()
    assert world.count("qdb") == 0 and world.cached_count == 2
    other.delete_all()


def test_a_url_that_hangs_robots_does_not_hold_up_its_provider(make_world: MakeWorld) -> None:
    world = make_world(lease=60.0, attempts_max=2)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    hung = 0
    for _ in range(6):
        while botm.out:
            fetch = next(iter(botm.out.values()))
            if "1.html" in fetch.url:
                botm.forget(fetch)
                hung += 1
            else:
                botm.done(fetch)
        world.advance(61)
    assert hung == 4
    assert world.count("qdb") == 0 and list(world.cached()) == ["http://site.example/2.html"]
    assert world.count("urlerrs", "code = 1413") == 1


def test_errors_of_urls(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    for answer in (503, 404, 0):
        botm.done(next(iter(botm.out.values())), answer)
    assert not botm.out
    world.advance(44)
    assert not botm.out
    world.advance(21)
    assert urls(botm) == ["1.html", "2.html", "3.html", "1.html"]
    botm.finish_all()
    assert world.cached_count == 2 and world.count("urlerrs") == 1


def test_errors_of_the_site_hold_the_provider(make_world: MakeWorld) -> None:
    world = make_world(hold_initial=10.0, hold_maximum=40.0)
    pid, other = world.provider(), world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    uns.send_set(2, other, pages(1))
    botm.finish_all(0)
    for fetch in list(botm.out.values()):
        botm.done(fetch, DNS if fetch.pid == pid else 0)
    assert not botm.out and world.cached_count == 1
    uns.send_set(3, pid, pages(4))
    world.advance(7)
    assert not botm.out
    world.advance(5)
    # One that failed goes to the end of its set: it may name another host than the others.
    assert [fetch.url for fetch in botm.out.values()] == ["http://site.example/2.html"]
    botm.done(next(iter(botm.out.values())), DNS)
    world.advance(14)
    assert not botm.out
    world.advance(8)
    botm.finish_all()
    assert urls(botm)[-4:] == ["3.html", "1.html", "2.html", "4.html"]
    assert world.count("qdb") == 0 and world.cached_count == 5


def test_deletes_wait_for_their_machine(make_world: MakeWorld) -> None:
    world = make_world(delete_window=10)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(*range(35)))
    botm.finish_all()
    botm.close()
    uns.send_set(2, pid, [page(number, delete=True) for number in range(35)])
    world.advance(3)
    assert world.count("fsmdb") == 35 and world.cached() == {}
    back = FakeBotm(world, earlier=botm)
    assert len(back.deletes) == 10
    back.delete_all()
    assert world.count("fsmdb") == 0 and world.engine.deleter.files_deleted == 35


def test_deletes_that_are_not_answered_come_again(make_world: MakeWorld) -> None:
    world = make_world(delete_window=10)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(*range(6)))
    botm.finish_all()
    uns.send_set(2, pid, [page(number, delete=True) for number in range(6)])
    kept = botm.deletes.pop(0)
    botm.delete_all()
    assert world.count("fsmdb") == 1
    botm.close()
    back = FakeBotm(world, earlier=botm)
    assert back.deletes == [kept]
    back.delete_all()
    assert world.count("fsmdb") == 0


def test_slots_leave_room_for_hours() -> None:
    assert FETCH_NOW == -1
