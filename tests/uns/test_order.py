"""The order of a provider's sets: a number for each, drawn when it begins to be told."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from lcc.protocols.cp_uns_client import init
from lcc.protocols.uns_qm import Absorbed
from tests.support.roles.uns import PASSWORD, ROOT, STATUS, Cp, World, codes, partial, url

BEGIN = f'<lococa:set urlprefix="{ROOT}">'
FULL = f'<lococa:set set="full" urlprefix="{ROOT}">'


def say(world: World, cp: Cp, text: str) -> None:
    cp.send(text)
    world.pump()


def test_a_set_on_a_connection_that_stays_open_is_newer_than_what_another_one_told_before(world: World) -> None:
    qm = world.connect_qm()
    first, second = world.login(), world.login()
    say(world, second, partial("a", kind="full"))
    say(world, first, partial("b"))
    full, partial_set = qm.sets
    assert full.begin.full and full.begin.connseq < partial_set.begin.connseq
    say(world, second, partial("c"))
    assert qm.sets[-1].begin.connseq > partial_set.begin.connseq


def test_the_usual_session_keeps_its_number(world: World) -> None:
    qm = world.connect_qm()
    cp = world.login()
    for name in ("a", "b", "c"):
        say(world, cp, partial(name))
    assert [taken.begin.connseq for taken in qm.sets] == [1, 1, 1]
    assert world.database.drawn == {7: 1}


def test_what_is_told_behind_a_full_set_is_newer_than_it(world: World) -> None:
    """Its deletions may be held, and released when more was told."""
    qm = world.connect_qm()
    cp = world.login()
    for kind in ("partial", "full", "partial", "partial"):
        say(world, cp, partial("a", kind=kind))
    assert [taken.begin.connseq for taken in qm.sets] == [1, 1, 2, 2]


def test_sets_told_at_once_have_the_order_in_which_they_began(world: World) -> None:
    qm = world.connect_qm()
    first, second = world.login(), world.login()
    say(world, second, BEGIN + url("b"))
    say(world, first, BEGIN + url("a"))
    say(world, second, "</lococa:set>")
    say(world, first, "</lococa:set>")
    numbers = {taken.notices[0].curl[-1]: taken.begin.connseq for taken in qm.sets}
    assert numbers["b"] < numbers["a"]


def test_what_a_provider_is_shown_counts_its_connections_only(world: World) -> None:
    world.connect_qm()
    first, second = world.login(), world.login()
    for cp in (first, second, first):
        say(world, cp, partial("a"))
    assert '<connect_info seq="3"' in world.login().text


def test_without_the_database_a_set_is_refused_when_it_begins(world: World) -> None:
    cp = world.login()
    greeting = len(cp.text)
    world.database.away = True
    say(world, cp, BEGIN)
    assert codes(cp.text[greeting:]) == [1012] and cp.closed
    assert cp.text[greeting:].startswith("<lococa:set_result>\n<errors>\n</errors>\n<set_rejected")
    assert world.incoming_files() == []


def test_bytes_are_held_back_while_the_number_is_drawn(world: World) -> None:
    qm = world.connect_qm()
    cp = world.login()
    held = world.database.held = []
    say(world, cp, BEGIN + url("a") + url("http://elsewhere.example/"))
    say(world, cp, url("b") + "</lococa:set>" + partial("c"))
    assert cp.transport.paused and cp.waiting and qm.sets == []
    assert "waits for an order number" in world.uns.open_sessions[0].describe()
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert [[notice.curl for notice in taken.notices] for taken in qm.sets] == [
        [ROOT + "a", ROOT + "b"],
        [ROOT + "c"],
    ]
    assert codes(cp.text) == [1204] and cp.text.count("<set_accepted") == 2


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_pieces_that_come_after_the_pause_are_held_back(world: World, cut: int) -> None:
    """A transport may deliver once more after it was paused."""
    qm = world.connect_qm()
    cp = world.login()
    held = world.database.held = []
    data = partial("a", "b").encode()
    end = data.index(b">") + 1
    cp.protocol.dataReceived(data[: end + cut])
    cp.protocol.dataReceived(data[end + cut :])
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert [len(taken.notices) for taken in qm.sets] == [2] and "<set_accepted" in cp.text


def test_a_half_close_while_the_number_is_drawn_is_no_end(world: World) -> None:
    qm = world.connect_qm()
    cp = world.login()
    held = world.database.held = []
    say(world, cp, partial("a"))
    cp.protocol.readConnectionLost()
    world.pump()
    assert not cp.closed
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert "<set_accepted" in cp.text and cp.closed and qm.numbers == [1]


def test_a_set_cut_off_by_a_half_close_while_its_number_is_drawn(world: World) -> None:
    cp = world.login()
    held = world.database.held = []
    say(world, cp, BEGIN + url("a"))
    cp.protocol.readConnectionLost()
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert cp.closed and "<set_accepted" not in cp.text
    assert world.incoming_files() == [] and world.uns.counters.sets_accepted == 0


def test_a_connection_lost_while_the_number_is_drawn_leaves_nothing(world: World) -> None:
    cp = world.login()
    held = world.database.held = []
    say(world, cp, partial("a", kind="full"))
    cp.lose()
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert world.set_files() == [] and world.incoming_files() == [] and world.spool.size_bytes == 0
    assert world.database.under_way == set()


def test_a_database_that_does_not_answer_in_time(worlds: Callable[..., World]) -> None:
    world = worlds(database_timeout=3.0)
    cp = world.login()
    held = world.database.held = []
    say(world, cp, partial("a", kind="full") + partial("b"))
    world.pass_time(4)
    assert codes(cp.text) == [1012] and cp.closed
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert world.incoming_files() == [] and world.database.under_way == set(), "it counts no longer"
    assert "init_accepted" in world.login().text


def test_nonsense_behind_the_tag_is_answered_behind_the_number(world: World) -> None:
    cp = world.login()
    held = world.database.held = []
    say(world, cp, BEGIN + url("a", "") + "<broken</lococa:set>")
    assert codes(cp.text) == []
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert codes(cp.text) == [1205, 1001] and world.incoming_files() == []


def test_sets_that_begin_together_share_a_transaction(worlds: Callable[..., World]) -> None:
    world = worlds()
    qm = world.connect_qm()
    cps = [world.login() for _ in range(20)]
    held = world.database.held = []
    for cp in cps:
        cp.send(partial("a"))
    world.pump()
    assert len(held) == 1
    held[0].callback(None)
    world.pump()
    assert len(held) == 2, "all that came meanwhile"
    world.database.held = None
    held[1].callback(None)
    world.pump()
    numbers = [taken.begin.connseq for taken in qm.sets]
    assert len(numbers) == 20 == len(set(numbers)) and numbers == sorted(numbers)


def test_a_counter_that_went_back_goes_on_behind_the_spool(world: World) -> None:
    first = world.login()
    for _ in range(3):
        say(world, world.login(), partial("a"))
    say(world, first, partial("b"))
    world.restart()
    world.database.drawn.clear()
    say(world, world.login(), partial("c"))
    orders = [taken.begin.connseq for taken in world.connect_qm().sets]
    assert orders[-1] > max(orders[:-1])


@pytest.mark.parametrize("full", [False, True])
def test_a_set_read_after_a_standstill_gets_no_new_number(world: World, full: bool) -> None:
    """Its provider may have gone meanwhile, and have told something newer elsewhere."""
    qm = world.connect_qm()
    first, second = world.login(), world.login()
    world.clock.advance(20)
    say(world, first, partial("a", kind="full" if full else "partial"))
    assert codes(first.text) == [1012] and first.closed and qm.sets == []
    say(world, second, partial("b"))
    assert "<set_accepted" in second.text or codes(second.text) == [1012]
    assert world.database.under_way == set()
    world.pass_time(3)
    older = world.login()
    world.login()
    say(world, older, partial("c"))
    assert "<set_accepted" in older.text


def test_a_set_whose_session_holds_the_last_number_is_taken_after_a_standstill(world: World) -> None:
    cp = world.login()
    world.clock.advance(20)
    say(world, cp, partial("a"))
    assert "<set_accepted" in cp.text


def test_a_new_number_that_took_long_is_not_taken(world: World) -> None:
    qm = world.connect_qm()
    first, second = world.login(), world.login()
    held = world.database.held = []
    say(world, first, partial("a"))
    say(world, second, partial("b"))
    world.pass_time(3)
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert codes(first.text) == [1012] and first.closed
    world.pass_time(3)
    assert len(qm.sets) <= 1


def test_a_uns_that_is_stopped_rejects_a_set_that_waits_for_its_number(world: World) -> None:
    cp = world.login()
    held = world.database.held = []
    say(world, cp, partial("a", kind="full"))
    world.uns.stop()
    world.pump()
    assert codes(cp.text) == [1012] and cp.closed
    world.database.held = None
    held[0].callback(None)
    world.pump()
    assert world.set_files() == [] and world.incoming_files() == [] and world.database.under_way == set()


# Full sets under way.


def test_full_sets_that_did_not_arrive_or_were_rejected_count_no_longer(world: World) -> None:
    answer: list[int] = [1105]
    world.connect_qm(lambda begin: Absorbed(begin.epoch, begin.number, answer[0]))
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=1)
    say(world, cp := world.login(), FULL)
    assert len(world.database.under_way) == 1
    assert codes(_told(world, partial("a", kind="full"))) == [1101]
    cp.lose()
    world.pump()
    assert codes(_told(world, partial("a", kind="full"))) == [1105], "one is left: it comes to the queue manager"
    assert codes(_told(world, FULL + "<broken</x>")) == [1001]
    answer[0] = 0
    assert "<set_accepted" in _told(world, partial("a", kind="full"))
    assert world.database.under_way == set()


def test_what_a_killed_run_had_begun_counts_no_longer_and_what_is_spooled_does(world: World) -> None:
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=2)
    assert "<set_accepted" in _told(world, partial("a", kind="full"))
    say(world, world.login(), FULL)
    assert len(world.database.under_way) == 2
    world.restart()
    assert len(world.database.under_way) == 1
    assert codes(_told(world, partial("a", kind="full"))) == []
    assert codes(_told(world, partial("a", kind="full"))) == [1101]


def test_what_could_not_be_written_of_full_sets_is_written_later(world: World) -> None:
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=1)
    say(world, cp := world.login(), FULL)
    world.database.away = True
    cp.lose()
    world.pump()
    world.database.away = False
    world.pass_time(11)
    assert world.database.under_way == set()


def test_neither_wanted_nor_unlimited_full_sets_are_counted(world: World) -> None:
    world.database.statuses[7] = attrs.evolve(STATUS, full_sets_left=0, full_set_wanted="old-files", wantid=5)
    world.database.statuses[8] = attrs.evolve(STATUS, full_sets_left=None)
    for pid in (7, 8):
        cp = world.connect()
        say(world, cp, init(pid, PASSWORD) + FULL)
        assert codes(cp.text) == []
    assert world.database.under_way == set()


def _told(world: World, text: str) -> str:
    cp = world.login()
    before = len(cp.text)
    say(world, cp, text)
    cp.half_close()
    world.pump()
    return cp.text[before:]
