"""URLs that failed in passing are tried again after a while, each for itself, whatever happens in between."""

from __future__ import annotations

from lcc.domain.keys import url_key
from lcc.errors import code
from lcc.protocols.work import Fetch
from lcc.storage.database.tables.order_rows import FETCH_PAGE, RETRY, add_order
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, pages

DNS = code("dns-failed")


def only(botm: FakeBotm) -> Fetch:
    (fetch,) = botm.out.values()
    return fetch


def name(fetch: Fetch) -> str:
    return fetch.url.rpartition("/")[2].removesuffix(".html")


def fail_all(botm: FakeBotm, answer: int = 503) -> str:
    """Every fetch fails until nothing is given out any more; gives what was fetched."""
    fetched = ""
    while botm.out:
        fetch = next(iter(botm.out.values()))
        fetched += name(fetch)
        botm.done(fetch, answer)
    return fetched


def test_each_attempt_waits_longer(make_world: MakeWorld) -> None:
    world = make_world(attempts_max=4, retry_initial=60.0, retry_maximum=100.0)
    FakeUns(world).send_set(1, world.provider(), pages(1))
    botm = FakeBotm(world)
    for longest in (60, 100, 100):
        botm.done(only(botm), 503)
        world.advance(0.75 * longest - 1)
        assert not botm.out, "it is not tried at once, though nothing else is to be done"
        world.advance(0.25 * longest + 6)
    botm.done(only(botm), 503)
    assert world.count("qdb") == 0 and world.count("urlerrs") == 1


def test_others_do_not_wait_for_it(world: World) -> None:
    pid, other = world.provider(), world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    botm.done(only(botm), 503)
    uns.send_set(2, pid, pages(4))
    uns.send_set(3, other, pages(5))
    assert botm.finish_all() == 4
    assert world.cached_count == 4 and world.count("qdb") == 1
    assert world.engine.scheduler.active_count == 0, "nothing in memory waits for it"
    world.advance(66)
    assert botm.finish_all() == 1


def test_while_there_is_other_work_it_comes_behind_its_set(make_world: MakeWorld) -> None:
    world = make_world(read_ahead=2)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(*range(8)))
    uns.send_set(2, only(botm).pid, pages(9))
    botm.done(only(botm), 503)
    botm.done(only(botm), 503)
    botm.done(only(botm))
    world.advance(66)
    while botm.out:
        botm.done(only(botm))
    assert "".join(map(name, botm.seen)) in ("01234567019", "01234567109")


def test_a_restart_goes_on_where_the_last_one_was(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2, 3))
    assert fail_all(botm) == "123"
    world.advance(30)
    world.start()
    botm = FakeBotm(world, earlier=botm)
    world.advance(13)
    assert not botm.seen
    world.advance(24)
    assert botm.finish_all() == 3 and world.count("qdb") == 0


def test_it_was_due_while_no_queue_manager_ran(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    fail_all(botm)
    world.engine.stop()
    world.clock.advance(1000)
    world.start()
    botm = FakeBotm(world, earlier=botm)
    world.advance(2)
    assert botm.finish_all() == 2


def test_the_database_is_away_when_it_is_due(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1))
    fail_all(botm)
    world.database.unavailable = True
    world.advance(100)
    assert not botm.out
    world.database.unavailable = False
    world.advance(10)
    assert botm.finish_all() == 1


def test_told_anew_it_is_tried_at_once(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2))
    fail_all(botm)
    uns.send_set(2, pid, pages(2))
    assert name(only(botm)) == "2"
    botm.finish_all()
    assert world.cached_count == 1 and world.count("qdb") == 1


def test_retry_takes_only_what_failed_with_that_code(make_world: MakeWorld) -> None:
    world = make_world(hold_initial=1000.0, hold_maximum=1000.0, retry_initial=1000.0)
    first, second, third = [world.provider(f"http://site{number}.example/") for number in range(3)]
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, first, pages(1, 2))
    botm.done(only(botm), 503)
    botm.done(only(botm), 1401)
    for number, (pid, answer) in enumerate(((second, DNS), (third, code("connect-refused"))), 2):
        uns.send_set(number, pid, pages(3))
        botm.done(only(botm), answer)
    assert not botm.out
    tried = []
    for pid, error in ((0, 1401), (0, DNS), (second, 503), (first, 503), (0, 429), (0, 0)):
        world.database.now(add_order, RETRY, pid, error)
        world.advance(2)
        tried.append([(fetch.pid, name(fetch)) for fetch in botm.out.values()])
        botm.finish_all()
    assert tried == [[(first, "2")], [(second, "3")], [], [(first, "1")], [], [(third, "3")]]
    assert world.count("qdb") == 0 and world.cached_count == 4


def test_one_page_is_fetched_now(make_world: MakeWorld) -> None:
    """What failed in passing, and what waits because its site is unreachable; nothing else."""
    world = make_world(hold_initial=1000.0, hold_maximum=1000.0, retry_initial=1000.0)
    first, second = [world.provider(f"http://site{number}.example/") for number in range(2)]
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, first, pages(1, 2))
    urls = [(first, only(botm).url)]
    fail_all(botm)
    uns.send_set(2, second, pages(3))
    urls.append((second, only(botm).url))
    fail_all(botm, DNS)
    for pid, url in urls:
        world.database.now(add_order, FETCH_PAGE, pid, 0, url_key(pid, url, "").hex())
        world.advance(2)
        assert (only(botm).pid, only(botm).url) == (pid, url)
        botm.finish_all()
    assert world.cached_count == 2 and world.count("qdb") == 1
    # And what is cached, once more.
    world.database.now(add_order, FETCH_PAGE, first, 0, url_key(first, urls[0][1], "").hex())
    world.advance(2)
    assert botm.finish_all() == 1


def test_a_clock_that_is_set_back_does_not_make_it_wait_for_ever(world: World) -> None:
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1))
    world.begin += 10_000
    fail_all(botm)
    world.begin -= 10_000
    world.advance(70)
    assert botm.finish_all() == 1
