"""Sets from UNSes: absorbed, answered in order, paused, damaged, delivered again."""

from __future__ import annotations

import pytest

from lcc.errors import code
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import FROM_QM
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, Remote, World, page, pages

BAD_SET = code("bad-set")


def answers(uns: FakeUns) -> list[tuple[int, int]]:
    return [(answer.number, answer.code) for answer in uns.answers]


def test_a_set_is_absorbed_and_answered(world: World) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    assert answers(uns) == [(1, 0)]
    assert uns.answers[0].epoch == "e1"
    assert world.count("qdb") == 3


def test_sets_are_answered_in_order_at_every_size(make_world: MakeWorld) -> None:
    world = make_world(absorb_batch=5, absorb_ahead=12)
    pid, other = world.provider(), world.provider()
    uns = FakeUns(world)
    text = "".join(
        uns.set_text(number, pid if number % 2 else other, pages(*range(number, number + size)))
        for number, size in enumerate([0, 1, 4, 5, 6, 30, 0, 0, 11, 2], 1)
    )
    uns.write(text)
    assert answers(uns) == [(number, 0) for number in range(1, 11)]
    assert world.count("setspos", "last_number = 10") == 1


def test_small_sets_share_a_transaction(world: World) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    world.database.hold_back()
    uns.send_set(1, pid, pages(1))
    for number in range(2, 50):
        uns.send_set(number, pid, pages(number))
    assert len(world.database.waiting) == 1
    world.database.step()
    world.settle()
    assert answers(uns) == [(1, 0)]
    world.database.step()
    world.settle()
    assert len(uns.answers) == 49
    world.database.let_go()


def test_a_uns_that_sends_too_much_is_paused(make_world: MakeWorld) -> None:
    world = make_world(absorb_batch=10, absorb_ahead=20)
    pid = world.provider()
    uns = FakeUns(world)
    world.database.hold_back()
    for number in range(1, 4):
        assert not uns.paused
        uns.send_set(number, pid, pages(*range(number * 10, number * 10 + 10)))
    assert uns.paused
    world.database.let_go()
    world.settle()
    assert not uns.paused
    assert len(uns.answers) == 3


def test_a_uns_that_sends_big_elements_is_paused_by_their_bytes(make_world: MakeWorld) -> None:
    """With an emoji a string takes four bytes a character."""
    world = make_world(absorb_ahead_bytes=1 << 20, absorb_batch_bytes=1 << 18)
    pid = world.provider()
    uns = FakeUns(world)
    world.database.hold_back()
    (absorber,) = world.engine.absorbers
    filling, sent = "x" * 6000 + "\U0001f600", 0
    while not uns.paused:
        sent += 1
        assert sent < 1000
        uns.send_set(sent, pid, [page(sent, sent=filling)])
        assert absorber.waiting_bytes < (1 << 20) + 30_000
    assert absorber.waiting_bytes > 1 << 20 and 40 < sent < 60
    # A transaction takes no more than is allowed, however few elements that are.
    world.database.step()
    world.settle()
    assert [answer.number for answer in uns.answers] == [1] and uns.paused  # as the first set came alone
    world.database.step()
    world.settle()
    assert 5 < len(uns.answers) < 15
    world.database.let_go()
    world.settle()
    assert not uns.paused and answers(uns) == [(number, 0) for number in range(1, sent + 1)]
    assert absorber.waiting_bytes == absorber.waiting_count == 0


def test_a_big_set_is_cut_by_its_bytes(make_world: MakeWorld) -> None:
    world = make_world(absorb_batch_bytes=1 << 16)
    pid = world.provider()
    uns = FakeUns(world)
    world.database.hold_back()
    uns.send_set(1, pid, [page(number, sent="x" * 6000) for number in range(30)])
    steps = 0
    while world.database.waiting:
        world.database.step()
        world.settle()
        steps += 1
    assert answers(uns) == [(1, 0)] and world.count("qdb") == 30
    assert steps >= 3
    world.database.let_go()


def test_the_text_of_a_refusal_is_short(world: World, logged_errors: LoggedErrors) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    text = uns.set_text(1, pid, pages(1)).replace("<u ", f'<u l="{"9" * 100_000}" ')
    uns.write(text)
    assert answers(uns) == [(1, BAD_SET)]
    assert all(len(kept) < 300 for kept in world.engine.refused.values())
    assert len(logged_errors.flush("is refused")) == 1


def test_nothing_is_absorbed_before_the_claim(make_world: MakeWorld) -> None:
    world = make_world()
    pid = world.provider()
    world.database.unavailable = True
    world.start()
    uns = FakeUns(world)
    botm = FakeBotm(world)
    uns.send_set(1, pid, pages(1))
    world.advance(20)
    assert answers(uns) == [] and not botm.out
    world.database.unavailable = False
    world.advance(10)
    assert answers(uns) == [(1, 0)] and len(botm.out) == 1


def test_a_set_that_comes_twice_is_applied_once(world: World) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    botm = FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2))
    botm.finish_all()
    assert len(botm.seen) == 2
    uns.close()
    again = FakeUns(world)
    again.send_set(1, pid, pages(1, 2))
    assert answers(again) == [(1, 0)]
    assert len(botm.seen) == 2 and not botm.out


def test_a_commit_whose_answer_was_lost(world: World) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    botm = FakeBotm(world)
    world.database.lose_results = 1
    uns.send_set(1, pid, pages(1, 2))
    assert answers(uns) == []
    world.advance(1)
    assert answers(uns) == [(1, 0)]
    assert botm.finish_all() == 2
    assert world.count("qdb") == 0 and world.cached_count == 2


def test_the_database_is_away_for_a_while(world: World) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    world.database.unavailable = True
    uns.send_set(1, pid, pages(1, 2))
    world.advance(30)
    assert answers(uns) == []
    assert world.engine.retry.retries > 3
    world.database.unavailable = False
    world.advance(10)
    assert answers(uns) == [(1, 0)]


def test_nothing_asks_the_database_any_more_once_it_has_stopped(world: World) -> None:
    uns = FakeUns(world)
    world.database.unavailable = True
    uns.send_set(1, 1, pages(1, 2))
    uns.close()
    world.advance(1)
    world.engine.stop()
    assert not world.clock.getDelayedCalls(), "not for a UNS that has disconnected while its set was absorbed, either"


def test_the_connection_is_lost_while_absorbing(make_world: MakeWorld) -> None:
    world = make_world(absorb_batch=2)
    pid = world.provider()
    uns = FakeUns(world)
    world.database.hold_back()
    uns.send_set(1, pid, pages(1, 2, 3, 4, 5))
    uns.close()
    world.database.let_go()
    assert world.count("qdb") == 2
    again = FakeUns(world)
    again.send_set(1, pid, pages(1, 2, 3, 4, 5))
    assert answers(again) == [(1, 0)] and world.count("qdb") == 5


def test_a_full_set_whose_connection_is_cut_at_any_byte_deletes_nothing(make_world: MakeWorld) -> None:
    world = make_world(absorb_batch=2)
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    botm.finish_all()
    uns.send_set(2, pid, pages(2, 4))
    before = world.cached(pid)
    assert len(before) == 3
    text = uns.set_text(3, pid, pages(1, 5, 6, 7, 8), full=True, answered=True)
    for cut in range(len(text)):
        uns.close()
        uns = FakeUns(world)
        uns.write(text[:cut])
        assert uns.answers == [] and world.cached(pid) == before
        assert world.count("qdb", "operation = 0") == world.count("fsmdb") == 0
    uns.close()
    uns = FakeUns(world)
    uns.write(text)
    assert answers(uns) == [(3, 0)]
    assert list(world.cached(pid)) == [page(1).curl]
    assert world.count("qdb", "operation = 0") == 2, "what was queued, and is not named either"
    botm.finish_all()
    assert sorted(world.cached(pid)) == [page(number).curl for number in (1, 5, 6, 7, 8)]


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("answered", [False, True])
def test_a_damaged_set_is_refused_in_its_turn(
    make_world: MakeWorld, logged_errors: LoggedErrors, size: int, answered: bool
) -> None:
    world = make_world(absorb_batch=2)
    pid = world.provider()
    uns = FakeUns(world)
    botm = FakeBotm(world)
    good = uns.set_text(1, pid, pages(100))
    short = uns.set_text(2, pid, pages(*range(size)), full=True, count=size + 1, answered=answered)
    broken = uns.set_text(3, pid, [page(7)]).replace("<u c=", "<u x=")
    stray = uns.set_text(4, 0, [page(8)])
    last = uns.set_text(5, pid, pages(101))
    uns.write(good + short + broken + stray + last)
    assert answers(uns) == [(1, 0), (2, BAD_SET), (3, BAD_SET), (4, BAD_SET), (5, 0)]
    assert "damaged" in uns.answers[1].text
    assert world.count("pstats", "wantfullset = 'cache-crash'") == int(answered)
    botm.finish_all()
    assert {"http://site.example/100.html", "http://site.example/101.html"} <= set(world.cached())
    assert len(logged_errors.flush("is refused: the set is damaged")) == 3


def test_a_refusal_that_its_uns_has_not_heard(world: World, logged_errors: LoggedErrors) -> None:
    """It comes again; by then its provider was told that it is accepted, and a later set is applied."""
    pid = world.provider()
    uns = FakeUns(world)
    uns.write(uns.set_text(1, pid, pages(1, 2), count=3) + uns.set_text(2, pid, pages(3)))
    assert answers(uns) == [(1, BAD_SET), (2, 0)] and world.count("pstats", "wantfullset <> ''") == 0
    uns.close()
    again = FakeUns(world)
    for number in (1, 2):
        again.send_set(number, pid, pages(number), answered=True)
    assert answers(again) == [(1, BAD_SET), (2, 0)]
    assert world.count("pstats", "wantfullset = 'cache-crash'") == 1
    assert len(logged_errors.flush("is refused: the set is damaged")) == 2


def refuse_row(world: World, curl_end: str) -> None:
    """From now on the database does not take a queue row whose URL ends so."""
    trigger = f"CREATE TRIGGER refusing BEFORE INSERT ON qdb WHEN NEW.curl LIKE '%{curl_end}'"
    world.database.now(lambda txn: txn.execute(f"{trigger} BEGIN SELECT RAISE(ABORT, 'not this one'); END"))


def test_a_set_that_the_store_cannot_take(world: World, logged_errors: LoggedErrors) -> None:
    pid = world.provider()
    refuse_row(world, "/3.html")
    uns = FakeUns(world)
    world.database.hold_back()
    uns.send_set(1, pid, pages(1))
    uns.send_set(2, pid, pages(2))
    uns.send_set(3, pid, pages(3))
    uns.send_set(4, pid, pages(4))
    world.database.let_go()
    world.settle()
    assert answers(uns) == [(1, 0), (2, 0), (3, BAD_SET), (4, 0)]
    assert world.count("qdb") == 3
    assert len(logged_errors.flush("Cannot absorb")) == 2
    assert len(logged_errors.flush("is refused")) == 1


def test_a_big_set_that_the_store_cannot_take(make_world: MakeWorld, logged_errors: LoggedErrors) -> None:
    world = make_world(absorb_batch=2)
    pid = world.provider()
    uns = FakeUns(world)
    refuse_row(world, "/4.html")
    whole = uns.set_text(1, pid, pages(*range(1, 9))) + uns.set_text(2, pid, pages(9))
    middle = whole.index("6.html")
    uns.write(whole[:middle])
    uns.write(whole[middle:])
    assert answers(uns) == [(1, BAD_SET), (2, 0)]
    logged_errors.flush("Cannot absorb")
    assert len(logged_errors.flush("is refused")) == 1


@pytest.mark.parametrize(
    "text", ["<u c='http://x/'/>", "<end count='1'/>", "<nonsense/>", "<set/>", "<set epoch='e' number='x'/>", "<&"]
)
def test_what_makes_no_sense_closes_the_connection(world: World, text: str) -> None:
    uns = FakeUns(world)
    uns.write(text + "<ping/>")
    assert uns.closed
    assert FakeUns(world).qm_hello is not None


def test_a_stream_that_breaks_within_a_set(world: World, logged_errors: LoggedErrors) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    text = uns.set_text(1, pid, pages(1, 2))
    uns.write(text[: text.index("<end")] + "<u c=></u>")
    assert uns.closed and world.count("qdb") == 0
    assert len(logged_errors.flush("breaks the stream")) == 1
    again = FakeUns(world)
    again.send_set(1, pid, pages(1, 2))
    assert answers(again) == [(1, 0)]


def test_two_unses_at_once(world: World) -> None:
    pid = world.provider()
    first, second = FakeUns(world, "a", "ea"), FakeUns(world, "b", "eb")
    first.send_set(1, pid, pages(1))
    second.send_set(1, pid, pages(2), connseq=2)
    assert answers(first) == answers(second) == [(1, 0)]
    assert world.count("qdb") == 2


def test_names_that_are_too_long_for_keys(world: World) -> None:
    """They would be cut, or refused, by one database and not by the other."""
    assert FakeUns(world, "\u00e4" * 127).qm_hello is not None
    assert FakeUns(world, "\u00e4" * 128).closed
    assert FakeUns(world, epoch="e" * 256).closed


def test_a_uns_is_not_served_where_only_botms_are(world: World) -> None:
    assert Remote(world, False, Hello(role="uns", name="u"), FROM_QM).closed


def test_stopping_cancels_everything(world: World) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    world.database.hold_back()
    uns.send_set(1, pid, pages(1))
    world.engine.stop()
    world.settle()
    assert uns.closed
    world.database.let_go()
    assert not uns.answers


def test_a_row_that_does_nothing_goes_when_nothing_else_is_queued(world: World) -> None:
    pid = world.provider()
    uns = FakeUns(world)
    uns.send_set(1, pid, [page(1)])
    uns.send_set(2, pid, [page(1, delete=True)])
    assert world.count("qdb", "operation = 0") == 1
    world.start()
    FakeBotm(world)
    world.advance(3)
    assert world.count("qdb") == world.count("qpsdb") == 0
