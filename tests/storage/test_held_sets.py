"""Sets of a provider that stands still, on each backend: they are held as they came, and applied once where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from lcc.model import SetAnswer, SetHeader, SetPiece, Source, UnsStanding
from lcc.model.frontend.moves import Fence, HeldPiece
from lcc.model.frontend.traces import FencedAt
from lcc.model.notifiers import NoticeId
from lcc.storage.queue.moves import fences
from tests.storage.test_following import fence
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

NAMES = "abcde"


def step(queue: Queue, function: Callable[..., Any], *args: Any, now: int = 50) -> Any:
    return result_of(queue.store.move_step(now, function, *args))[0]


def cut(queue: Queue, header: SetHeader, first: int, upto: int) -> SetPiece:
    """These elements of the set of all names."""
    keyed = [queue.keyed(notice(name, "1")) for name in NAMES]
    return SetPiece(header, first, tuple(keyed[first:upto]), upto == len(keyed))


def held(queue: Queue, pid: int = 0, after: tuple[int, int] = (0, 0)) -> list[HeldPiece]:
    epoch, pieces = queue.database.now(fences.held_pieces, pid or queue.pid, after)
    assert epoch == result_of(queue.store.claim(1)).database_epoch
    return pieces


def names_of(pieces: Sequence[HeldPiece]) -> list[tuple[int, str]]:
    return [(piece.first_index, "".join(each.notice.curl[-1] for each in piece.notices)) for piece in pieces]


def give_up(queue: Queue, before: int) -> None:
    pid = step(queue, fences.give_up_old_held, before, None, 2)
    while pid is not None:
        pid = step(queue, fences.give_up_old_held, before, pid, 2)


def queued(queue: Queue) -> str:
    return "".join(row.notice.curl[-1] for row in queue.rows())


def standing(queue: Queue, number: int) -> UnsStanding:
    return result_of(queue.store.check_uns("uns", "e", number, 0))


@pytest.mark.parametrize("state", [Fence.FROZEN, Fence.ARRIVING, Fence.LEFT])
def test_a_set_is_held_as_it_came_and_answered_once(queue: Queue, state: Fence) -> None:
    fence(queue, queue.pid, state)
    assert result_of(queue.store.fences()) == {queue.pid: state}
    header = queue.header(7, number=3, full=True, errors_upto=2, said=NoticeId("push/p", "x", 4, 1))
    pieces = [cut(queue, header, 0, 2), cut(queue, header, 2, 5)]
    assert queue.absorb(pieces[:1]).answers == () and not held(queue)
    assert standing(queue, 3) is UnsStanding.DATABASE_BEHIND
    # It comes again, cut in another way.
    assert queue.absorb([cut(queue, header, 0, 1), cut(queue, header, 1, 4)]).answers == ()
    assert queue.absorb(pieces[1:]).answers == (SetAnswer("e", 3, 0),)
    found = held(queue)
    assert names_of(found) == [(0, "a"), (1, "bcd"), (2, "cde")]
    assert [piece.header for piece in found] == [header] * len(found)
    assert len({piece.whole for piece in found}) == 1 and found[-1].id == found[-1].whole
    assert not any(piece.lost for piece in found)
    assert standing(queue, 3) is UnsStanding.FINE, "a UNS that was told so is not ahead"
    assert queue.absorb(pieces).answers == (SetAnswer("e", 3, 0),)
    assert held(queue) == found and not queue.rows()


def test_what_has_begun_goes_on_until_its_provider_has_left(queue: Queue) -> None:
    header = queue.header(1)
    queue.absorb([cut(queue, header, 0, 1)])
    fence(queue, queue.pid, Fence.FROZEN)
    other = queue.header(2, uns="other", number=1)
    queue.absorb([cut(queue, other, 0, 2), cut(queue, header, 1, 3)])
    assert queued(queue) == "abc" and not held(queue)
    fence(queue, queue.pid, Fence.LEFT, 2)
    assert queue.absorb([cut(queue, header, 3, 5)]).answers == (SetAnswer("e", header.number, 0),)
    (piece,) = held(queue)
    assert names_of([piece]) == [(3, "de")] and piece.lost, "a part of it was applied here"
    assert queued(queue) == "abc"


def test_a_set_of_which_a_part_is_held_stays_held(queue: Queue) -> None:
    """Its provider goes on between two pieces."""
    fence(queue, queue.pid, Fence.FROZEN)
    header, another = queue.header(1), queue.header(2, uns="other", number=1)
    queue.absorb([cut(queue, header, 0, 1)])
    fence(queue, queue.pid, Fence.OPEN, 2)
    assert queue.database.now(fences.held_here) == []
    queue.absorb([cut(queue, another, 0, 1), cut(queue, another, 1, 2)])
    assert queued(queue) == "ab", "the other one is not"
    queue.absorb([cut(queue, header, 1, 5)])
    assert names_of(held(queue)) == [(0, "a"), (1, "bcde")] and queued(queue) == "ab"
    assert queue.database.now(fences.held_here) == [queue.pid]


def test_a_set_that_comes_anew_is_applied_where_its_provider_goes_on(queue: Queue) -> None:
    fence(queue, queue.pid, Fence.FROZEN)
    header = queue.header(1)
    queue.absorb([cut(queue, header, 0, 2)])
    fence(queue, queue.pid, Fence.OPEN, 2)
    assert queue.absorb([cut(queue, header, 0, 5)]).answers == (SetAnswer("e", header.number, 0),)
    assert queued(queue) == NAMES and not held(queue)


@pytest.mark.parametrize("state", [Fence.OPEN, Fence.FOLLOWED])
def test_what_is_left_of_sets_that_came_anew_is_forgotten(queue: Queue, state: Fence) -> None:
    """While sets are held, each new one takes a new order number."""
    fence(queue, queue.pid, Fence.FROZEN)
    anew, going_on, lost = [queue.header(1, uns=name, number=1) for name in ("anew", "going on", "lost")]
    queue.absorb([cut(queue, lost, 0, 2)], now=100)
    queue.absorb([cut(queue, header, 0, upto) for header in (anew, going_on) for upto in (1, 2)], now=200)

    def forget(before: int) -> list[str]:
        while step(queue, fences.forget_parts, before, 1):
            pass
        return sorted(bytes(uns).decode() for (uns,) in queue.database.query("SELECT uns FROM heldsets"))

    assert forget(10**6) == ["anew", "going on", "lost"], "its provider stands still"
    fence(queue, queue.pid, state, 2)
    queue.absorb([cut(queue, anew, 0, 5)], now=300)
    assert forget(100) == ["going on", "lost"]
    assert forget(101) == ["going on"]
    queue.absorb([cut(queue, going_on, 2, 5)], now=300)
    assert forget(10**6) == ["going on"] * 2 and len(held(queue)) == 2, "it is whole now"


def test_what_a_notifier_has_told_before_is_not_held(queue: Queue) -> None:
    said = NoticeId("push/p", "x", 1, 0)
    queue.absorb([cut(queue, queue.header(0, source=Source.POLLED, said=said), 0, 5)])
    fence(queue, queue.pid, Fence.LEFT)
    again = queue.header(0, source=Source.POLLED, said=said)
    assert queue.absorb([cut(queue, again, 0, 5)]).answers == (SetAnswer("e", again.number, 0),)
    assert not held(queue) and standing(queue, again.number) is UnsStanding.FINE
    new = attrs.evolve(again, number=again.number + 1, said=NoticeId("push/p", "x", 2, 1))
    queue.absorb([cut(queue, new, 0, 5)])
    assert [piece.header for piece in held(queue)] == [new]


def test_they_are_applied_in_their_order_and_forgotten(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "PIECES_AT_ONCE", 2)
    other = queue.add_provider()
    for pid in (queue.pid, other):
        fence(queue, pid, Fence.FROZEN)
    first, second, foreign = queue.header(1), queue.header(2, uns="other", number=9), queue.header(1, pid=other)
    third = queue.header(3, uns="third", number=1)
    queue.absorb([cut(queue, third, 0, 1)])
    queue.absorb([cut(queue, first, 0, 1), cut(queue, second, 0, 3)])
    queue.absorb([cut(queue, second, 3, 5)])
    queue.absorb([cut(queue, first, 1, 2), cut(queue, first, 2, 5), cut(queue, foreign, 0, 5)])
    fence(queue, queue.pid, Fence.OPEN, 2)
    assert queue.database.now(fences.held_here) == [queue.pid]
    pieces, after = [], (0, 0)
    while page := held(queue, after=after):
        assert len(page) <= 2
        pieces += page
        after = (page[-1].whole, page[-1].id)
    assert names_of(pieces) == [(0, "abc"), (3, "de"), (0, "a"), (1, "b"), (2, "cde")], "the first that was whole"
    wholes = list(dict.fromkeys(piece.whole for piece in pieces))
    assert queue.database.now(fences.applied_upto, "held/1/2", "x") == 0
    absorbed = queue.absorb(fences.set_pieces(pieces, "held/1/2", "x"))
    assert absorbed.answers == tuple(SetAnswer("x", number, 0) for number in wholes)
    assert queued(queue) == NAMES
    assert queue.database.now(fences.applied_upto, "held/1/2", "x") == wholes[-1]
    step(queue, fences.forget_held, queue.pid, wholes[0])
    assert {piece.whole for piece in held(queue)} == {wholes[1]}
    step(queue, fences.forget_held, queue.pid, wholes[1])
    assert queue.database.now(fences.held_here) == [] and len(held(queue, other)) == 1
    queue.absorb([cut(queue, third, 1, 5)])
    assert names_of(held(queue)) == [(0, "a"), (1, "bcde")], "what has come in part is kept for the rest"


def test_a_set_that_is_lost_is_asked_for(queue: Queue) -> None:
    """By whoever has its provider in the end."""
    header = queue.header(1, uns="held/1/2", epoch="x", number=40)
    fence(queue, queue.pid, Fence.ARRIVING)
    step(queue, fences.take_lost, header)
    (piece,) = held(queue)
    assert piece.lost and piece.notices == () and piece.id == piece.whole
    assert queue.database.now(fences.applied_upto, "held/1/2", "x") == 40
    assert queue.stats("wantfullset") == ""
    fence(queue, queue.pid, Fence.OPEN, 2)
    step(queue, fences.take_lost, attrs.evolve(header, number=41))
    assert queue.stats("wantfullset") == "cache-crash" and len(held(queue)) == 1
    assert result_of(queue.store.check_uns("held/1/2", "x", 41, 0)) is UnsStanding.FINE
    step(queue, fences.take_lost, attrs.evolve(header, number=42, pid=999))
    assert queue.database.query("SELECT pid FROM pstats WHERE wantfullset <> ''") == [(queue.pid,)]


def test_what_nobody_takes_for_long_is_given_up_and_told(queue: Queue) -> None:
    """One row stays of each provider: its new home is to hear that something is lost."""
    whole, partly, here = queue.pid, queue.add_provider(), queue.add_provider()
    for pid in (whole, partly, here):
        fence(queue, pid, Fence.LEFT)
    for number in range(1, 4):
        queue.absorb([cut(queue, queue.header(number, pid=whole), 0, 5)], now=number * 100)
        queue.absorb([cut(queue, queue.header(1, pid=here, uns="h", number=number), 0, 5)], now=100)
    queue.absorb([cut(queue, queue.header(1, pid=partly, uns="p", number=1), 0, 5)], now=100)
    queue.absorb([cut(queue, queue.header(1, pid=partly, uns="p", number=2), 0, 3)], now=100)
    fence(queue, here, Fence.FROZEN, 2)
    before = {pid: held(queue, pid) for pid in (whole, partly, here)}
    newest = {pid: pieces[-1].whole for pid, pieces in before.items()}
    _, elsewhere = queue.database.now(fences.held_elsewhere)
    assert elsewhere == {whole: newest[whole], partly: newest[partly]}
    give_up(queue, 300)
    kept, new = held(queue, whole)
    assert (kept.id, kept.whole, kept.notices, kept.lost) == (before[whole][1].id, before[whole][1].whole, (), True)
    assert kept.header == before[whole][1].header and new == before[whole][2]
    (lost,) = held(queue, partly)
    assert lost.lost and lost.id == lost.whole > newest[partly], "behind the part that may have been the last"
    assert held(queue, here) == before[here]
    # What is given up later takes the place of what was given up before.
    give_up(queue, 301)
    (last,) = held(queue, whole)
    assert (last.id, last.lost) == (new.id, True) and held(queue, partly) == [lost]
    give_up(queue, 10**6)
    assert held(queue, whole) == [last] and held(queue, partly) == [lost]


def test_new_sets_pass_an_old_part(queue: Queue) -> None:
    """The row that stands for old sets does not hide new ones, even if it comes behind them."""
    fence(queue, queue.pid, Fence.LEFT)
    part = queue.header(1, uns="p", number=1)
    queue.absorb([cut(queue, queue.header(1), 0, 5)], now=100)
    queue.absorb([cut(queue, part, 0, 3)], now=100)
    queue.absorb([cut(queue, queue.header(2), 0, 5)], now=500)
    new = held(queue)[-1]
    give_up(queue, 300)
    first, lost = held(queue)
    assert first == new and not first.lost
    assert lost.lost and lost.whole > new.whole
    # The new home has taken that; now the new set is old, too: nothing more is told.
    give_up(queue, 600)
    (last,) = held(queue)
    assert (last.id, last.whole, last.lost) == (lost.id, lost.whole, True)
    assert held(queue, after=(lost.whole, lost.id)) == []


@pytest.mark.parametrize("part", [True, False])
def test_a_set_whose_beginning_was_given_up_is_lost(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, part: bool
) -> None:
    """Its other elements come later, or had come.

    :param part: an older set has come in part, so that the row for old sets comes behind.
    """
    monkeypatch.setattr(fences, "PIECES_AT_ONCE", 2)
    fence(queue, queue.pid, Fence.LEFT)
    before, after = queue.header(1, uns="p", number=1), queue.header(1, uns="q", number=1)
    if part:
        queue.absorb([cut(queue, queue.header(1, uns="r", number=1), 0, 1)], now=100)
    queue.absorb([cut(queue, before, 0, 1)], now=100)
    if part:
        queue.absorb([cut(queue, after, 0, 1)], now=100)
    queue.absorb([cut(queue, before, 1, 2), cut(queue, before, 2, 3), cut(queue, before, 3, 5)], now=500)
    queue.absorb([cut(queue, queue.header(2, uns="s", number=1), 0, 5)], now=500)
    give_up(queue, 300)
    if part:
        queue.absorb([cut(queue, after, 1, 5)], now=500)
    found: list[HeldPiece] = []
    while page := held(queue, after=(found[-1].whole, found[-1].id) if found else (0, 0)):
        found += page
    whole = [piece for piece in found if not piece.lost]
    assert names_of(whole) == [(0, NAMES)] and whole[0].header.uns == "s"
    lost = {piece.header.uns for piece in found if piece.lost}
    assert lost >= ({"p", "q"} if part else {"p"})


def test_the_newest_fence_is_obeyed(queue: Queue) -> None:
    now, pid, other = queue.database.now, queue.pid, queue.add_provider()
    assert now(fences.known_of, pid) == (None, 0) and now(fences.fence_epoch, pid) == -1
    assert step(queue, fences.put_fence, pid, 5, Fence.FOLLOWED)
    assert step(queue, fences.put_fence, pid, 5, Fence.FROZEN)
    assert not step(queue, fences.put_fence, pid, 4, Fence.OPEN)
    assert now(fences.known_of, pid) == (FencedAt(5, Fence.FROZEN), 0)
    assert now(fences.fence_epochs) == {pid: 5} and now(fences.fence_epoch, pid) == 5
    assert now(fences.has_fence, pid, 5, Fence.FROZEN)
    for asked in ((pid, 5, Fence.OPEN), (pid, 4, Fence.FROZEN), (other, 5, Fence.FROZEN)):
        assert not now(fences.has_fence, *asked)
    seen = {}
    for epoch, state in enumerate(Fence, 6):
        fence(queue, other, state, epoch)
        seen[state] = (
            other in now(fences.standing_fences),
            other in now(fences.leaving),
            now(fences.is_incomplete, other),
            other in now(fences.fences),
        )
    assert seen == {
        Fence.OPEN: (False, False, False, False),
        Fence.FOLLOWED: (True, False, False, False),
        Fence.FROZEN: (True, False, False, True),
        Fence.ARRIVING: (False, False, True, True),
        Fence.LEFT: (False, True, True, True),
    }
    queue.database.now(lambda txn: txn.execute("DELETE FROM pidb WHERE pid = ?", [other]))
    assert now(fences.leaving) == {}, "nothing is left of it"
    assert not now(fences.is_incomplete, pid)
