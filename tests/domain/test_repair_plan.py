"""The rules of ``lcc-admin fe repair``, as whole plans; tests/frontend/test_repair.py plays them with databases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from lcc.domain.frontend.repair import concerned, misnumbered, plan_repair
from lcc.model.frontend.moves import UNFINISHED, Fence, FenceOrder, Move, MoveState
from lcc.model.frontend.places import AtHome, Placement, SubLcc, SubState
from lcc.model.frontend.traces import (
    CarrierTrace,
    FencedAt,
    FlipTrace,
    FrontState,
    Mend,
    RepairPlan,
    Traces,
    Trouble,
)

NOW = 9000
LOST = "the front end's database was repaired: order it again"


def sub(subid: int, name: str) -> SubLcc:
    first = 100 * subid
    return SubLcc(
        subid=subid,
        name=name,
        state=SubState.OPEN,
        uns=(),
        proxy_protocol=False,
        notifiers="",
        content=f"http://{subid}/",
        database="",
        first_pid=first,
        last_pid=first + 99,
        first_machine=first,
        last_machine=first + 99,
    )


SUBS = (sub(1, "a"), sub(2, "b"), sub(3, "c d"))
PID = 150
"""Made in a."""


def at(epoch: int, state: Fence = Fence.OPEN, pid: int = PID) -> dict[int, FencedAt]:
    return {pid: FencedAt(epoch, state)}


def flip(number: int, source: int, dest: int, epoch: int, pid: int = PID, *, arrived: bool = True) -> FlipTrace:
    return FlipTrace(arrived, number, pid, source, dest, epoch, 1000 + number)


def left(*what: int) -> FlipTrace:
    return flip(*what, arrived=False)


def carrier(move: int, pid: int = 970, moved: int = PID, source: str = "a") -> CarrierTrace:
    return CarrierTrace(pid, moved, move, 2000 + move, source, f"http://carried/{move}", None)


def trace(
    fences: Mapping[int, FencedAt] | None = None,
    here: Iterable[int] = (),
    flips: Iterable[FlipTrace] = (),
    carriers: Iterable[CarrierTrace] = (),
    files: Mapping[int, int] | None = None,
    newest_move: int = 0,
    newest_subid: int = 0,
) -> Traces:
    return Traces(
        fences or {}, tuple(flips), tuple(carriers), frozenset(here), files or {}, newest_move, newest_subid
    )


def order(subid: int, epoch: int, state: Fence, obeyed: int = -1, pid: int = PID) -> FenceOrder:
    return FenceOrder(pid, subid, epoch, state, obeyed)


def move(number: int, state: MoveState, source: int, dest: int, epoch: int, **more: Any) -> Move:
    usual = {"pid": PID, "flip": 0, "made_time": 3000 + number, "changed_time": 3500, "progress": {}, "why": ""}
    return Move(id=number, source=source, dest=dest, state=state, epoch=epoch, **{**usual, **more})


def plan(
    traces: Mapping[int, Traces],
    *,
    places: Iterable[Placement] = (),
    moves: Iterable[Move] = (),
    fences: Iterable[FenceOrder] = (),
    counters: Mapping[str, int] | None = None,
    keep: Mapping[int, int] | None = None,
) -> RepairPlan:
    """With sub-LCCs a, b and c; those without traces cannot be read."""
    front = FrontState(
        {place.pid: place for place in places},
        tuple(moves),
        {(each.pid, each.subid): each for each in fences},
        {"subid": 3, "move": 50, "flip": 40} if counters is None else counters,
    )
    return plan_repair(front, SUBS, traces, keep or {}, NOW)


def row(of: FlipTrace, state: MoveState, number: int = 0, **more: Any) -> Move:
    """The row of a move that has flipped."""
    content = {1: "http://1/", 2: "http://2/", 3: "http://3/"}.get(of.source, "")
    usual = {"flip": of.flip, "made_time": of.time, "changed_time": of.time, "progress": {"content": content}}
    return move(number, state, of.source, of.dest, of.epoch, **{**usual, **more})


def cancelled(number: int, carried: CarrierTrace, source: int, dest: int, epoch: int) -> Move:
    """The row of a move of which there is only a carrier."""
    progress = {"carrier": carried.pid, "content": carried.content}
    times = {"made_time": carried.made_time, "changed_time": NOW}
    return move(number, MoveState.CANCELLED, source, dest, epoch, progress=progress, why=LOST, **times)


def given_up(of: Move, epoch: int) -> Move:
    return attrs.evolve(of, state=MoveState.CANCELLED, epoch=epoch, why=LOST, changed_time=NOW)


def check_mend(
    found: RepairPlan, text: str, place: Placement | None, *rows: Move | FenceOrder, flip: int = 1040
) -> None:
    """One provider is put right, and the numbers of flips go on far behind all that were given out."""
    moves = tuple(row for row in rows if isinstance(row, Move))
    fences = tuple(row for row in rows if isinstance(row, FenceOrder))
    assert found == RepairPlan([Mend(PID, text, place, moves, fences)], [], {"flip": flip})


def check_trouble(found: RepairPlan, text: str, advice: str, **counters: int) -> None:
    assert found == RepairPlan([], [Trouble(PID, text, advice)], counters)


BACKUP = "restore a newer backup of its sub-LCC"
NOTHING = RepairPlan([], [], {})
NONE = trace()
"""Of a sub-LCC that knows nothing of moves."""


# What is right already, and numbers.


def test_where_all_is_right_nothing_is_done() -> None:
    for known in ({}, {1: NONE, 2: NONE, 3: NONE}, {1: trace(here={PID}), 2: NONE, 3: NONE}):
        assert plan(known) == NOTHING
    # Its move goes on by itself; one that is being made is the registration's.
    freezing = {1: trace(at(1, Fence.FROZEN), here={PID}), 2: NONE, 3: NONE}
    for state in UNFINISHED:
        assert plan(freezing, moves=[move(9, state, 1, 2, 1)]) == NOTHING
        if state is not MoveState.PLANNED:
            assert plan({1: NONE, 2: trace(here={PID}), 3: NONE}, moves=[move(9, state, 2, 1, 1)]) == NOTHING
    assert (
        plan(freezing, places=[Placement(PID, 1, 1)]) == plan(freezing, fences=[order(3, 1, Fence.LEFT)]) == NOTHING
    )
    making = Placement(PID, 1, 0, AtHome.MAKING)
    assert plan({1: NONE, 2: trace(here={PID}), 3: NONE}, places=[making]) == NOTHING


def test_counters_are_raised_to_what_the_sub_lccs_know() -> None:
    known = {1: trace(newest_move=70, newest_subid=7), 2: trace(flips=[flip(45, 1, 2, 1)], newest_move=60), 3: NONE}
    assert plan(known, counters={}).counters == {"subid": 7, "move": 70, "flip": 45}
    assert plan(known, counters={"subid": 7, "move": 70, "flip": 45}) == NOTHING
    assert plan(known, counters={"subid": 8, "move": 71, "flip": 46}) == NOTHING
    assert plan({}, counters={"move": 0}).counters == {"subid": 3}
    assert plan_repair(FrontState({}, [], {}, {}), [], {}, {}, NOW) == NOTHING
    first = move(1, MoveState.CANCELLED, 1, 2, 1)
    assert plan({}, moves=[first], counters={}).counters == {"subid": 3, "move": 1}
    moves = [move(5, MoveState.DONE, 1, 2, 1, flip=12), move(3, MoveState.CANCELLED, 1, 2, 1)]
    assert plan({}, moves=moves, counters={}).counters == {"subid": 3, "move": 5, "flip": 12}
    # A plan that repairs leaves out a thousand, of which only the lost database knew.
    found = plan({1: NONE, 2: trace(here={PID}), 3: NONE}, moves=moves, counters={})
    assert found.counters == {"subid": 3, "move": 5, "flip": 1012}


def test_all_that_anyone_knows_is_asked_about() -> None:
    front = FrontState(
        {1: Placement(1, 1)},
        [move(2, MoveState.PLANNED, 1, 2, 1, pid=2), move(3, MoveState.DONE, 1, 2, 1, pid=3)],
        {(4, 1): order(1, 1, Fence.LEFT, pid=4)},
        {},
    )
    known = {1: trace(at(1, pid=5), here={6}), 2: trace(flips=[flip(1, 1, 2, 1, pid=7)], carriers=[carrier(1)])}
    assert concerned(front, known) == {1, 2, 5, 6, 7}
    assert concerned(FrontState({}, [], {}, {}), {}) == set()


def test_sub_lccs_with_other_numbers_are_named() -> None:
    right = {1: trace(flips=[left(4, 1, 2, 5)]), 2: trace(flips=[flip(4, 1, 2, 5)]), 3: NONE}
    assert misnumbered(SUBS, right) == misnumbered(SUBS, {1: right[1]}) == misnumbered(SUBS, {2: right[2]}) == {}
    # a and b were made anew in another order: what a calls "from 2 to me" are its own notes.
    swapped = {2: trace(flips=[left(4, 2, 1, 5)]), 1: trace(flips=[flip(4, 2, 1, 5)])}
    assert misnumbered(SUBS, swapped) == {}
    wrong = {3: trace(flips=[left(2, 3, 1, 2), left(4, 3, 2, 5)]), 1: trace(flips=[flip(4, 2, 1, 5)])}
    for traces in (wrong, dict(reversed(wrong.items()))):
        assert misnumbered(SUBS, traces) == {"a": 2, "c d": 2}
    assert misnumbered(SUBS, {1: trace(flips=[left(4, 1, 2, 5)]), 3: trace(flips=[flip(4, 1, 3, 5)])}) == {"c d": 2}
    # Another move of the same flip is no other side.
    assert misnumbered(SUBS, {1: trace(flips=[left(4, 1, 2, 5)]), 3: trace(flips=[flip(4, 1, 3, 5, pid=9)])}) == {}
    # From itself to itself: its number is another one, and nobody knows which.
    for own in (flip(4, 2, 2, 5), left(4, 2, 2, 5)):
        assert misnumbered(SUBS, {2: trace(flips=[own]), 1: NONE}) == {"b": 0}


# The front end knows the newest epoch.


def test_a_provider_is_where_it_is_found() -> None:
    check_mend(plan({1: NONE, 2: trace(here={PID}), 3: NONE}), "is in b", Placement(PID, 2, 1))
    place = [Placement(PID, 3, 4)]
    check_mend(plan({1: trace(here={PID}), 2: NONE, 3: NONE}, places=place), "is in a", Placement(PID, 1, 5))
    # Nobody has an id of this range: it is none's.
    for number, name in ((1, "a"), (2, "b")):
        nobody = plan({1: NONE, 2: NONE, 3: NONE, number: trace(here={7})})
        assert nobody.mends == [Mend(7, f"is in {name}", Placement(7, number, 1))]
    advice = "run this again when a can be read"
    check_trouble(plan({2: trace(here={PID}), 3: NONE}), "is in b, though the front end has it in a", advice)
    for fence in Fence:
        found = plan({1: trace(at(0, fence)), 2: trace(here={PID}), 3: NONE})
        check_trouble(found, "is in b, though the front end has it in a", BACKUP)


def test_of_two_none_is_chosen_but_one_that_is_told_to_leave_does() -> None:
    both = {1: trace(here={PID}, files={PID: 5}), 2: trace(at(0, Fence.FOLLOWED), here={PID}), 3: NONE}
    look = "look at both (lcc-admin provider show 150 there), then say which one keeps it: "
    text = "is in several sub-LCCs: a (5 files), b (0 files, followed at epoch 0)"
    check_trouble(plan(both), text, look + "--keep 150=a or --keep 150=b")
    place = [Placement(PID, 2, 4)]
    assert plan(both, places=place, fences=[order(1, 4, Fence.LEFT)]) == NOTHING
    for state in (Fence.FROZEN, Fence.OPEN):
        assert plan(both, places=place, fences=[order(1, 4, state)]).troubles
    # With three, one of which leaves, two are left.
    three = {1: trace(here={PID}), 2: trace(here={PID}), 3: trace(here={PID})}
    text = "is in several sub-LCCs: a (0 files), c d (0 files)"
    found = plan(three, places=place, fences=[order(2, 4, Fence.LEFT)])
    check_trouble(found, text, look + "--keep 150=a or --keep '150=c d'")


def test_a_new_home_that_cannot_be_read_is_one_of_several() -> None:
    traces = {1: trace(at(7, Fence.LEFT), flips=[left(5, 1, 2, 7)]), 3: trace(here=[PID], files={PID: 4})}
    found = plan(traces, places=[Placement(PID, 1, 3)])
    (trouble,) = found.troubles
    assert trouble.text == "is in several sub-LCCs: b (cannot be read), c d (4 files)"


def test_a_new_home_that_has_forgotten_a_provider_is_named() -> None:
    source = trace(at(4, Fence.LEFT), flips=[left(41, 1, 2, 4), left(39, 1, 3, 2)])
    text = "has moved from a to b, which does not know it: its database is of before the move"
    known: dict[str, Any] = {"places": [Placement(PID, 2, 4)], "counters": {"subid": 3, "move": 50, "flip": 41}}
    check_trouble(plan({1: source, 2: NONE, 3: NONE}, **known), text, "restore a newer backup of b")
    # It was removed there, or is there, or cannot be asked, or is elsewhere.
    for dest in (trace(at(4)), trace(here={PID})):
        assert plan({1: source, 2: dest, 3: NONE}, **known) == NOTHING
    assert plan({1: source, 3: NONE}, **known) == NOTHING
    assert plan({1: source, 2: NONE, 3: NONE}, **{**known, "places": [Placement(PID, 3, 4)]}) == NOTHING
    # The front end does not know of the move: this sub-LCC cannot say where it is, either.
    found = plan({1: source, 2: NONE, 3: NONE}, counters={"subid": 3, "move": 50, "flip": 41})
    check_trouble(found, text, "restore a newer backup of b")


# A sub-LCC knows a higher epoch: it stays.


def test_a_move_that_has_not_flipped_is_cancelled() -> None:
    frozen, stays = trace(at(3, Fence.FROZEN), here={PID}), "stays in a; its move had not flipped, and is cancelled"
    place, opened = Placement(PID, 1, 19), order(1, 19, Fence.OPEN)
    carried = (carrier(12), carrier(14, 971), carrier(13, moved=7))
    known = {1: frozen, 2: trace(carriers=[carried[0]]), 3: trace(carriers=carried[1:2])}
    both = (cancelled(14, carried[1], 1, 3, 19), cancelled(12, carried[0], 1, 2, 19))
    check_mend(plan(known), stays, place, *both, opened)
    # Numbers that others have are not used again; who the source was is known by its name.
    known = {
        1: frozen,
        2: trace(carriers=[carrier(12, source="c d")]),
        3: trace(carriers=[carrier(12, 971, source="z")]),
    }
    found = plan(known, moves=[move(12, MoveState.DONE, 1, 2, 1, pid=9)])
    rows = (cancelled(0, carrier(12, source="c d"), 3, 2, 19), cancelled(0, carrier(12, 971), 0, 3, 19))
    check_mend(found, stays, place, *rows, opened)
    # Nor are those that this plan gives to others.
    found = plan(known)
    rows = (cancelled(12, carrier(12, source="c d"), 3, 2, 19), cancelled(0, carrier(12, 971), 0, 3, 19))
    check_mend(found, stays, place, *rows, opened)
    # The front end knows the move.
    copying = move(12, MoveState.COPYING, 1, 2, 1, progress={"rows": 5})
    found = plan({1: frozen, 2: trace(carriers=carried[:1]), 3: NONE}, moves=[copying], places=[Placement(PID, 1, 1)])
    check_mend(found, stays, place, given_up(copying, 19), opened)


def test_only_what_stands_still_may_have_flipped_unseen() -> None:
    text, advice = "stands still in a, and may have moved to b, c d", "run this again when b, c d can be read"
    check_trouble(plan({1: trace(at(3, Fence.FROZEN), here={PID})}), text, advice)
    found = plan({1: trace(at(3, Fence.FOLLOWED), here={PID})})
    stays = "stays in a; its move had not flipped, and is cancelled"
    check_mend(found, stays, Placement(PID, 1, 19), order(1, 19, Fence.OPEN))


def test_who_stays_is_nowhere_else_but_where_it_has_left() -> None:
    frozen = trace(at(7, Fence.FROZEN), here={PID}, flips=[flip(6, 2, 1, 5), flip(5, 3, 2, 2)])
    found = plan({1: trace(at(7, Fence.FROZEN), here={PID}), 2: trace(here={PID}, files={PID: 8}), 3: NONE})
    assert found.mends == []
    (trouble,) = found.troubles
    assert trouble.text == "is in several sub-LCCs: a (0 files, frozen at epoch 7), b (8 files)"
    first, second = (row(each, MoveState.DONE) for each in (flip(5, 3, 2, 2), flip(6, 2, 1, 5)))
    stays, place = "stays in a; its move had not flipped, and is cancelled", Placement(PID, 1, 23)
    opened = order(1, 23, Fence.OPEN)
    # b, put back from a backup, still has it: at a lower epoch than that of the move from there, or at none.
    for there, more in ((at(4), [order(2, 4, Fence.OPEN, 4)]), (at(4, Fence.FROZEN), []), ({}, [])):
        found = plan({1: frozen, 2: trace(there, here={PID}), 3: NONE})
        check_mend(found, stays, place, first, second, opened, *more)
    early = trace(at(2, Fence.FROZEN), here={PID}, flips=[flip(5, 2, 1, 1)])
    assert plan({1: early, 2: trace(here={PID}), 3: NONE}).troubles == []
    for epoch in (5, 6):
        assert plan({1: frozen, 2: trace(at(epoch), here={PID}), 3: NONE}).mends == []


def test_a_move_that_has_flipped_is_never_cancelled() -> None:
    """Sets that its source holds follow moves that are done."""
    moved = move(8, MoveState.ACTIVE, 1, 2, 5, flip=30, why="w")
    done = attrs.evolve(moved, state=MoveState.DONE, why="", changed_time=NOW)
    found = plan({1: NONE, 2: trace(at(6), here={PID}), 3: NONE}, moves=[moved])
    check_mend(found, "is in b", Placement(PID, 2, 6), done, order(2, 6, Fence.OPEN, 6))
    next_one = carrier(12, source="b")
    found = plan({1: NONE, 2: trace(at(6, Fence.FROZEN), here={PID}), 3: trace(carriers=[next_one])}, moves=[moved])
    rows = (done, cancelled(12, next_one, 2, 3, 22), order(2, 22, Fence.OPEN))
    check_mend(found, "stays in b; its move had not flipped, and is cancelled", Placement(PID, 2, 22), *rows)
    # It has moved on.
    on = flip(45, 2, 3, 7)
    found = plan({1: NONE, 2: trace(at(7, Fence.LEFT)), 3: trace(at(7), here={PID}, flips=[on])}, moves=[moved])
    fences = (order(3, 7, Fence.OPEN, 7), order(2, 7, Fence.LEFT, 7))
    where = Placement(PID, 3, 7)
    check_mend(found, "has moved from b to c d", where, done, row(on, MoveState.DONE), *fences, flip=1045)


# It has moved.


def test_who_has_left_is_where_its_source_says() -> None:
    gone, nobody = (
        trace(at(3, Fence.LEFT), flips=[left(41, 1, 3, 3)]),
        "has left a; where to, no sub-LCC that could be read says",
    )
    where = Placement(PID, 3, 3)
    active = row(gone.flips[0], MoveState.ACTIVE)
    fences = (order(3, 3, Fence.OPEN, 3), order(1, 3, Fence.LEFT, 3))
    check_mend(
        plan({1: gone, 2: NONE}),
        "has moved from a to c d; its move goes on (active)",
        where,
        active,
        *fences,
        flip=1041,
    )
    still = attrs.evolve(gone, here=frozenset({PID}))
    fences = (order(3, 3, Fence.OPEN, 3), order(1, 3, Fence.LEFT))
    check_mend(
        plan({1: still, 2: NONE}),
        "has moved from a to c d; its move goes on (active)",
        where,
        active,
        *fences,
        flip=1041,
    )
    # Who says where to is of another move, or of none.
    advice = "run this again when c d can be read"
    check_trouble(plan({1: trace(at(3, Fence.LEFT)), 2: NONE}), nobody, advice)
    check_trouble(plan({1: trace(at(3, Fence.LEFT), flips=[left(39, 1, 3, 2)]), 2: NONE}), nobody, advice)
    check_trouble(plan({1: trace(at(3, Fence.LEFT), flips=[left(40, 2, 3, 3)]), 2: NONE}), nobody, advice)
    check_trouble(plan({1: trace(at(3, Fence.LEFT)), 2: NONE, 3: NONE}), nobody, BACKUP)


def test_a_move_is_done_when_its_source_has_nothing_and_its_content_is_there() -> None:
    moved = flip(45, 1, 2, 5)
    where, text = Placement(PID, 2, 5), "has moved from a to b"
    opened, obeyed, leaves = order(2, 5, Fence.OPEN, 5), order(1, 5, Fence.LEFT, 5), order(1, 5, Fence.LEFT)
    done, active = row(moved, MoveState.DONE), row(moved, MoveState.ACTIVE)
    dest = trace(at(5), here={PID}, flips=[moved])
    found = plan({1: trace(at(5, Fence.LEFT), flips=[left(45, 1, 2, 5)]), 2: dest, 3: NONE})
    check_mend(found, text, where, done, opened, obeyed, flip=1045)
    # Its source still has it, or cannot be asked.
    for others in ({1: trace(at(4, Fence.FROZEN), here={PID}), 3: NONE}, {3: NONE}):
        found = plan({2: dest, **others})
        check_mend(found, f"{text}; its move goes on (active)", where, active, opened, leaves, flip=1045)
    # Its source was removed.
    from_gone = flip(45, 9, 2, 5)
    found = plan({1: NONE, 2: trace(at(5), here={PID}, flips=[from_gone]), 3: NONE})
    rows = (row(from_gone, MoveState.DONE), opened, order(9, 5, Fence.LEFT, 5))
    check_mend(found, "has moved from sub-LCC 9 to b", where, *rows, flip=1045)
    # Content is still carried: the move goes on under its number, unless another move has that.
    carrying = attrs.evolve(dest, carriers=(carrier(12), carrier(13, 971), carrier(14, moved=9)))
    progress = {"content": "http://carried/13", "carrier": 971}
    for moves, number, made in (([], 13, 2013), ([move(13, MoveState.DONE, 3, 1, 1, pid=9)], 0, moved.time)):
        found = plan({1: trace(at(5, Fence.LEFT)), 2: carrying, 3: NONE}, moves=moves)
        goes_on = attrs.evolve(active, id=number, made_time=made, progress=progress)
        assert found.mends[0] == Mend(PID, f"{text}; its move goes on (active)", where, (goes_on,), (opened, obeyed))
    other = CarrierTrace(972, 160, 13, 1, "a", "", None)
    (trouble,) = plan({1: trace(at(5, Fence.LEFT)), 2: carrying, 3: trace(carriers=[other])}).troubles
    assert trouble.pid == 160 and "(move 13)" in trouble.text
    # A carrier elsewhere is of another move.
    found = plan({1: trace(at(5, Fence.LEFT)), 2: dest, 3: trace(carriers=[carrier(12)])})
    assert found.mends[0].moves == (done,)
    assert found.mends[1:] == [] and found.troubles == []


def test_the_open_move_is_the_one_that_has_flipped_or_is_given_up() -> None:
    moved = flip(45, 1, 2, 5)
    known = {1: trace(at(5, Fence.LEFT)), 2: trace(at(5), here={PID}, flips=[moved]), 3: NONE}
    where, fences = Placement(PID, 2, 5), (order(2, 5, Fence.OPEN, 5), order(1, 5, Fence.LEFT, 5))
    done = row(moved, MoveState.DONE)
    for state in MoveState:
        # To the same sub-LCC, not flipped as far as the front end knows.
        before = move(12, state, 1, 2, 4, progress={"rows": 3})
        its_own = attrs.evolve(done, id=12, made_time=3012, progress={"content": "http://1/", "rows": 3})
        rows = [its_own] if state in UNFINISHED[:3] else [done]
        if state in UNFINISHED[3:]:
            rows.append(given_up(before, 5))  # there is none without a flip
        check_mend(plan(known, moves=[before]), "has moved from a to b", where, *rows, *fences, flip=1045)
        # To another one.
        before = move(12, state, 1, 3, 4)
        rows = [done, given_up(before, 5)] if state in UNFINISHED else [done]
        check_mend(plan(known, moves=[before]), "has moved from a to b", where, *rows, *fences, flip=1045)
        # With this flip.
        before = move(12, state, 1, 2, 4, flip=45)
        its_own = attrs.evolve(done, id=12, made_time=3012 if state in UNFINISHED else moved.time)
        check_mend(plan(known, moves=[before]), "has moved from a to b", where, its_own, *fences, flip=1045)
    # It takes what its carrier knows, but keeps its number.
    before = move(11, MoveState.FREEZING, 1, 2, 4, progress={"rows": 3})
    known[2] = attrs.evolve(known[2], carriers=(carrier(12),))
    (mend,) = plan(known, moves=[before]).mends
    progress = {"content": "http://carried/12", "rows": 3, "carrier": 970}
    assert mend.moves == (row(moved, MoveState.ACTIVE, 11, made_time=3011, progress=progress),)


def test_rows_still_arrive() -> None:
    moved = flip(45, 1, 2, 5)
    source = trace(at(4, Fence.FROZEN), here={PID})
    text, where = "has moved from a to b; its move goes on (flipped)", Placement(PID, 2, 5)
    frozen = order(1, 4, Fence.FROZEN, 4)
    found = plan({1: source, 2: trace(at(5, Fence.ARRIVING), here={PID}, flips=[moved]), 3: NONE})
    check_mend(found, text, where, row(moved, MoveState.FLIPPED), frozen, flip=1045)
    # Its flip is not noted yet: it gets a new number, and comes from who stands still.
    found = plan({1: source, 2: trace(at(5, Fence.ARRIVING)), 3: trace(at(4, Fence.FROZEN))})
    new = row(FlipTrace(True, 1041, PID, 1, 2, 5, NOW), MoveState.FLIPPED)
    check_mend(found, text, where, new, frozen, flip=1041)
    nobody = "arrives in b; where from, no sub-LCC that could be read says"
    for one, three in (
        (trace(at(4, Fence.FROZEN)), NONE),
        (trace(at(3, Fence.FROZEN), here={PID}), NONE),
        (trace(at(4, Fence.FOLLOWED), here={PID}), NONE),
        (source, source),
    ):
        check_trouble(plan({1: one, 2: trace(at(5, Fence.ARRIVING)), 3: three}), nobody, BACKUP)


def test_two_with_the_highest_epoch_are_for_an_operator() -> None:
    for state in (Fence.OPEN, Fence.ARRIVING):
        found = plan({1: trace(at(5), here={PID}), 2: trace(at(5, state), here={PID}), 3: NONE})
        assert found.mends == []
        assert f"a (0 files, open at epoch 5), b (0 files, {state.value} at epoch 5)" in found.troubles[0].text
    found = plan({1: trace(here={PID}), 2: trace(at(5), here={PID}), 3: NONE})
    assert found.mends == [] and "a (0 files), b (0 files, open at epoch 5)" in found.troubles[0].text
    # Where it arrives, its row may not be there yet.
    found = plan({1: trace(at(5), here={PID}), 2: trace(at(5, Fence.ARRIVING)), 3: NONE})
    assert found.mends == [] and len(found.troubles) == 1
    moved = flip(47, 2, 1, 9)
    found = plan({1: trace(at(9), here={PID}, flips=[moved]), 2: NONE, 3: trace(at(3), here={PID})})
    assert found.mends == [] and "a (0 files, open at epoch 9), c d" in found.troubles[0].text


def test_who_has_not_moved_lately_is_where_it_is() -> None:
    opened = order(2, 5, Fence.OPEN, 5)
    check_mend(plan({1: NONE, 2: trace(at(5), here={PID}), 3: NONE}), "is in b", Placement(PID, 2, 5), opened)
    found = plan({1: trace(at(1), here={PID}), 2: NONE, 3: NONE}, fences=[order(1, 0, Fence.OPEN)])
    check_mend(found, "is in a", Placement(PID, 1, 1), order(1, 1, Fence.OPEN, 1))
    # The highest epoch is of a move from there that was cancelled.
    moved, planned = flip(20, 1, 2, 2), move(9, MoveState.PLANNED, 2, 3, 2)
    found = plan({1: NONE, 2: trace(at(5), here={PID}, flips=[moved, flip(21, 2, 3, 5)]), 3: NONE}, moves=[planned])
    rows = (row(moved, MoveState.DONE), row(flip(21, 2, 3, 5), MoveState.DONE), given_up(planned, 21), opened)
    check_mend(found, "is in b", Placement(PID, 2, 21), *rows)


def test_moves_and_fences_of_before_are_noted_too() -> None:
    last = flip(47, 2, 1, 9)
    known = {
        1: trace(at(9), here={PID}, flips=[last, left(45, 1, 2, 5), left(30, 1, 3, 2)]),
        2: trace(at(5), here={PID}, flips=[flip(45, 1, 2, 5)]),
        3: trace(at(3, Fence.LEFT), here={PID}, flips=[left(41, 3, 1, 8)]),
    }
    rows = [row(each, MoveState.DONE) for each in (flip(41, 3, 1, 8), flip(45, 1, 2, 5))]
    fences = [order(1, 9, Fence.OPEN, 9), order(2, 9, Fence.LEFT), order(3, 9, Fence.LEFT)]
    text = "has moved from b to a; its move goes on (active)"
    found = plan(known, moves=[move(8, MoveState.DONE, 1, 3, 2, flip=30)])
    check_mend(found, text, Placement(PID, 1, 9), *rows, row(last, MoveState.ACTIVE), *fences, flip=1047)
    # Those that the front end knows as they are, it keeps.
    known[3] = trace(at(3, Fence.LEFT))
    for before, kept in ((2, False), (3, True), (4, True)):
        found = plan(known, fences=[order(3, before, Fence.LEFT)])
        noted = order(3, 3, Fence.LEFT, 3)
        assert (noted in found.mends[0].fences) is not kept
    for state in (Fence.FROZEN, Fence.FOLLOWED, Fence.ARRIVING):
        known[3] = trace(at(3, state))
        assert plan(known).mends[0].fences == tuple(fences[:2])


# What an operator says, and what is left of moves.


def test_who_keeps_a_provider_has_it_and_the_others_lose_it() -> None:
    known = {1: trace(here={PID}), 2: trace(at(5), here={PID}), 3: trace(here={PID})}
    for epoch, place in ((23, [Placement(PID, 1, 7)]), (21, [Placement(PID, 1, 4)])):
        found = plan(known, keep={PID: 2}, places=place)
        active = [
            row(FlipTrace(True, number, PID, source, 2, epoch, NOW), MoveState.ACTIVE)
            for number, source in ((1041, 1), (1042, 3))
        ]
        fences = (order(2, epoch, Fence.OPEN), order(1, epoch, Fence.LEFT), order(3, epoch, Fence.LEFT))
        check_mend(found, "stays in b, and leaves a, c d", Placement(PID, 2, epoch), *active, *fences, flip=1042)
    before = flip(20, 3, 1, 2)
    found = plan({1: trace(here={PID}, flips=[before]), 2: trace(here={PID}), 3: NONE}, keep={PID: 1})
    assert found.mends[0].moves[0] == row(before, MoveState.DONE)
    # What is not so is not done.
    advice = "leave out --keep for it"
    for has, keeper in (({1, 3}, "b"), ({1}, "a"), ((), "a")):
        known = {number: trace(here={PID} if number in has else ()) for number in (1, 2, 3)}
        found = plan(known, keep={PID: 1 if keeper == "a" else 2}, places=[Placement(PID, 1)])
        check_trouble(found, f"is not in {keeper} and another sub-LCC at once, or is moving", advice)
    known = {1: trace(here={PID}), 2: trace(here={PID}), 3: NONE}
    moving = plan(known, keep={PID: 1}, moves=[move(9, MoveState.FREEZING, 1, 2, 1)])
    check_trouble(moving, "is not in a and another sub-LCC at once, or is moving", advice)


def test_what_was_copied_for_a_move_that_is_forgotten_is_forgotten() -> None:
    one, two = carrier(12), carrier(13, 971, moved=160)
    known = {1: trace(carriers=[two]), 2: trace(carriers=[one]), 3: NONE}
    text = "was to move to {}: what was copied is forgotten"
    both = [
        Mend(160, text.format("a"), None, (cancelled(13, two, 1, 1, 0),)),
        Mend(PID, text.format("b"), None, (cancelled(12, one, 1, 2, 0),)),
    ]
    both[0] = attrs.evolve(both[0], moves=(attrs.evolve(both[0].moves[0], pid=160),))
    assert plan(known) == RepairPlan(both, [], {"flip": 1040})
    # Another move has its number: an operator removes what is left.
    taken = [move(12, MoveState.DONE, 3, 1, 1, pid=161), move(13, MoveState.DONE, 1, 2, 1, pid=160, made_time=2013)]
    troubled = "was to move to b (move 12); its content was carried by provider 970 there"
    check_trouble(plan(known, moves=taken), troubled, "remove that one there: lcc-admin provider remove 970")
    # That is said of each, and so is the rest of what is left there.
    three = {1: NONE, 2: trace(carriers=[one, attrs.evolve(two, move=12), carrier(14, 972, moved=161)]), 3: NONE}
    found = plan(three, moves=[move(12, MoveState.DONE, 1, 2, 1, pid=1, made_time=one.made_time)])
    assert ([trouble.pid for trouble in found.troubles], [mend.pid for mend in found.mends]) == ([160], [161])
    # Nothing is done for a move that is known, goes on, or has arrived.
    known = {1: NONE, 2: trace(carriers=[one]), 3: NONE}
    assert plan(known, moves=[move(12, MoveState.DONE, 1, 2, 1, made_time=2012)]) == NOTHING
    for state in MoveState:
        found = plan(known, moves=[move(13, state, 1, 3, 0)])
        assert (found == NOTHING) is (state in UNFINISHED)
        assert len(plan(known, moves=[move(13, state, 1, 3, 0, pid=160)]).mends) == 1
    arriving = {1: NONE, 2: trace(at(2, Fence.ARRIVING), carriers=[one]), 3: NONE}
    assert plan(arriving, places=[Placement(PID, 2, 2)]) == NOTHING
    frozen = {1: NONE, 2: trace(at(2, Fence.FROZEN), carriers=[one]), 3: NONE}
    (mend,) = plan(frozen, places=[Placement(PID, 2, 2)]).mends
    assert mend.moves == (cancelled(12, one, 1, 2, 2),)
    # Nor for one of whom something else is to be said or done.
    both_have = {1: trace(here={PID}), 2: trace(here={PID}, carriers=[one]), 3: NONE}
    assert plan(both_have).mends == [] and len(plan(both_have).troubles) == 1
    elsewhere = {1: NONE, 2: trace(carriers=[one]), 3: trace(here={PID})}
    assert [mend.text for mend in plan(elsewhere).mends] == ["is in c d"]
