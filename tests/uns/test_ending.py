"""How connections end: a provider that has said all it has to say, a UNS that is stopped."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from lcc.protocols.cp_uns_client import init
from lcc.protocols.uns_qm import Set
from lcc.storage.providers.passwords import hash_password
from tests.support.roles.uns import PASSWORD, ROOT, Cp, World, absorbed, codes, partial, url

Worlds = Callable[..., World]
BEGIN = f'<lococa:set urlprefix="{ROOT}">'


def stop(world: World) -> list[None]:
    """Stop it; what is given gets an item when it has ended."""
    ended: list[None] = []
    world.uns.stop().addCallback(ended.append)
    world.pump()
    return ended


def close_all(*cps: Cp) -> None:
    """What a provider does that has read the end."""
    for cp in cps:
        assert cp.closed
        cp.transport.loseConnection()


@pytest.mark.parametrize("end", ["", url("a"), url("a") + "<url c='b'", url("a") + "</lococa:set"])
def test_a_set_that_ends_by_half_close_is_rejected(world: World, end: str) -> None:
    qm = world.connect_qm()
    cp = world.login()
    greeting = len(cp.text)
    cp.send(BEGIN + end)
    cp.half_close()
    world.pump()
    assert codes(cp.text[greeting:]) == [1015] and "<set_rejected" in cp.text and cp.transport.closed
    assert cp.text.endswith("</lococa:set_result>\n")
    assert qm.sets == [] and world.incoming_files() == []
    assert world.uns.counters.sets_cut_off == 1


def test_a_begun_tag_is_a_begun_set(world: World) -> None:
    cp = world.login()
    cp.send("<lococa:set urlpre")
    cp.half_close()
    world.pump()
    assert codes(cp.text)[-1:] == [1015] and "<set_rejected" in cp.text


def test_an_init_that_ends_by_half_close_is_rejected(world: World) -> None:
    cp = world.connect()
    cp.send(init(7, PASSWORD)[:-3])
    cp.half_close()
    world.pump()
    assert codes(cp.text) == [1015] and "init_rejected>" in cp.text and cp.transport.closed


@pytest.mark.parametrize("said", ["", init(7, PASSWORD), init(7, PASSWORD) + "\n <!-- that is all -->\n"])
def test_who_ends_between_documents_is_told_nothing_more(world: World, said: str) -> None:
    cp = world.connect()
    cp.send(said)
    cp.half_close()
    world.pump()
    assert codes(cp.text) == [] and cp.transport.closed and bool(cp.text) == bool(said)


@pytest.mark.parametrize("with_qm", [True, False])
def test_half_close_right_behind_the_end_tag_gets_the_answer(world: World, with_qm: bool) -> None:
    """Also where the answer comes later."""
    held: list[Set] = []
    qm = world.connect_qm(held.append) if with_qm else None
    world.held_threads = []
    cp = world.login()
    cp.send(partial("a"))
    cp.half_close()
    world.pump()
    assert not cp.closed and "<set_" not in cp.text
    if qm is not None:
        qm.say(absorbed(held[0]))
        world.pump()
    else:
        world.release_threads()
    assert '<set_accepted received="1"/>' in cp.text and cp.transport.closed


def test_a_stop_answers_everybody(worlds: Worlds) -> None:
    world = worlds()
    held: list[Set] = []
    world.connect_qm(held.append)
    new, begun, idle, tag, arriving, complete = world.connect(), world.connect(), *(world.login() for _ in range(4))
    said = len(idle.text)
    begun.send(init(7, PASSWORD)[:30])
    tag.send("<lococa:set")
    arriving.send(BEGIN + url("a"))
    complete.send(partial("b"))
    world.pump()
    ended = stop(world)
    for cp in (new, begun):
        assert codes(cp.text) == [1012] and "init_rejected>" in cp.text
    for cp in (tag, arriving):
        assert codes(cp.text[said:]) == [1012] and cp.text.endswith("</lococa:set_result>\n")
    assert len(idle.text) == said
    assert '<set_accepted received="1"/>' in complete.text, "from the spool: the queue manager has not answered"
    assert world.set_files() == ["000000000001-7.set"] and world.incoming_files() == []
    assert not ended, "they have not read that yet, for all it knows"
    close_all(new, begun, idle, tag, arriving, complete)
    assert ended
    late = world.connect()
    late.send(init(7, PASSWORD))
    world.pump()
    assert codes(late.text) == [1012]


def test_a_stop_with_nobody_there(world: World) -> None:
    assert stop(world) and stop(world)


def test_a_login_that_is_being_decided_is_told_to_come_again(world: World) -> None:
    world.held_threads = []
    chosen = hash_password("chosen", generated=False)  # which takes a thread
    world.database.providers[7] = attrs.evolve(world.database.providers[7], password_hash=chosen)
    cp = world.login(password="chosen")
    assert cp.text == ""
    stop(world)
    assert codes(cp.text) == [1012] and cp.closed
    world.release_threads()
    assert codes(cp.text) == [1012]


def test_a_set_that_was_sent_ahead_is_rejected(world: World) -> None:
    """The set before it gets its answer."""
    held: list[Set] = []
    world.connect_qm(held.append)
    world.held_threads = []
    cp = world.login()
    cp.send(partial("a") + partial("b"))
    world.pump()
    stop(world)
    world.release_threads()
    assert cp.text.count("<set_accepted") == 1 and codes(cp.text) == [1012] and cp.closed
    assert len(held) == 1


def test_a_stop_waits_for_a_peer_that_does_not_read_in_bounded_time(worlds: Worlds) -> None:
    world = worlds(stop_timeout=5.0)
    world.connect_qm()
    cp = world.login(capacity=1000)
    cp.reads = False
    cp.send(partial(*(f"http://elsewhere.example/{i}" for i in range(3000))), 4096)
    world.pump()
    ended = stop(world)
    assert not ended and not cp.closed
    world.pass_time(4)
    assert not ended
    world.pass_time(2)
    assert ended and cp.transport.closed and world.incoming_files() == []
    world.uns.close()
    world.pump()
    assert not [call for call in world.clock.getDelayedCalls() if call.active()]


def test_a_provider_that_reads_late_gets_its_last_answer(worlds: Worlds) -> None:
    world = worlds()
    world.connect_qm()
    cp = world.login(capacity=1000)
    cp.reads = False
    cp.send(partial(*(f"http://elsewhere.example/{i}" for i in range(3000))), 4096)
    world.pump()
    ended = stop(world)
    cp.reads = True
    world.pump()
    assert "<set_accepted" in cp.text and cp.closed
    close_all(cp)
    assert ended
