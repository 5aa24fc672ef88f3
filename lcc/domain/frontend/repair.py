"""The rules that a front end's database is repaired by, from what the sub-LCCs' own databases say (doc/front-end.md).

Of a provider the highest epoch is right, whoever has it.  A move that has flipped goes on from there; one that has
not is cancelled.  Nothing is decided that an unread sub-LCC could contradict, and of two sub-LCCs that both have a
provider none is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from lcc.domain.frontend.sub_lccs import home_of
from lcc.model.frontend.moves import UNDECIDED, UNFINISHED, Fence, FenceOrder, Move, MoveState
from lcc.model.frontend.places import AtHome, Placement, SubLcc
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
from lcc.model.shellwords import shell_word

EPOCH_JUMP = 16
"""By how much an epoch grows: the lost database may have given out some that nobody has obeyed."""
FLIP_JUMP = 1000
"""Likewise numbers of flips: of those whose rows had not arrived only the lost database knew."""
LOST = "the front end's database was repaired: order it again"
_THAWED = (Fence.FROZEN, Fence.FOLLOWED)


def misnumbered(subs: Sequence[SubLcc], traces: Mapping[int, Traces]) -> dict[str, int]:
    """Sub-LCCs that had other numbers before: their names, and these numbers (0: nobody knows which).

    The two sides of a move name each other.
    """
    names = {sub.subid: sub.name for sub in subs}
    arrivals = {(each.flip, each.pid): each for trace in traces.values() for each in trace.flips if each.arrived}
    found: dict[int, int] = {}
    for subid, trace in traces.items():
        for left in trace.flips:
            if left.source == left.dest:
                found.setdefault(subid, 0)
            arrived = arrivals.get((left.flip, left.pid))
            if left.arrived or arrived is None:
                continue
            # What each was numbered says the other side.
            for number, said in ((subid, arrived.source), (arrived.dest, left.dest)):
                if number != said:
                    found[number] = said
    return {names[subid]: number for subid, number in sorted(found.items())}


def concerned(front: FrontState, traces: Mapping[int, Traces]) -> set[int]:
    """Providers of which each sub-LCC is to say whether it has them."""
    pids = front.places.keys() | {move.pid for move in front.moves if move.state in UNFINISHED}
    for trace in traces.values():
        pids |= trace.fences.keys() | trace.here | {flip.pid for flip in trace.flips}
    return pids


def plan_repair(
    front: FrontState, subs: Sequence[SubLcc], traces: Mapping[int, Traces], keep: Mapping[int, int], now: int
) -> RepairPlan:
    """What is to be put right.

    :param front: read in the transaction that puts it right.
    :param subs: all sub-LCCs that are not removed.
    :param traces: of those that could be read, by their numbers.
    :param keep: provider -> the sub-LCC that keeps it, as an operator says, where several have it.
    """
    return _Planner(front, subs, traces, keep, now).plan()


class _Known(NamedTuple):
    """What is known of one provider.

    :ivar fences: by sub-LCC.
    :ivar here: sub-LCCs that have it.
    :ivar flips: oldest first.
    :ivar known: the epoch that the front end has.
    :ivar top: the highest epoch that a sub-LCC has; 0: none has any.
    """

    pid: int
    place: Placement
    fences: dict[int, FencedAt]
    here: frozenset[int]
    flips: list[FlipTrace]
    open_move: Move | None
    known: int
    top: int

    @property
    def undecided(self) -> Move | None:
        """The open move, if it has not flipped: one that has is never cancelled."""
        move = self.open_move
        return None if move is None or move.flip else move


class _Planner:
    def __init__(
        self,
        front: FrontState,
        subs: Sequence[SubLcc],
        traces: Mapping[int, Traces],
        keep: Mapping[int, int],
        now: int,
    ) -> None:
        self._front = front
        self._subs = subs
        self._traces = traces
        self._keep = keep
        self._now = now
        self._names = {sub.subid: sub.name for sub in subs}
        self._unread = sorted(self._names.keys() - traces.keys())
        self._known_flips = {move.flip for move in front.moves}
        flips = {(each.flip, each.pid): each for trace in traces.values() for each in trace.flips}
        self._flips = [flips[key] for key in sorted(flips)]
        last_flip = max([0, *self._known_flips, *(each.flip for each in self._flips)])
        self._flip = max(last_flip, front.counters.get("flip", 0))
        self._move_ids = {move.id for move in front.moves}
        self._troubles: list[Trouble] = []

    def plan(self) -> RepairPlan:
        mends: list[Mend] = []
        flip_before = self._flip
        self._flip += FLIP_JUMP
        for each in self._providers():
            mend = self._mend(each)
            if mend is not None:
                mends.append(mend)
        mends += self._leftover_carriers(mends)
        if not mends:
            self._flip = flip_before
        counters = self._front.counters
        moves = [trace.newest_move for trace in self._traces.values()]
        subids = [trace.newest_subid for trace in self._traces.values()]
        wanted = {
            "subid": max([*self._names, *subids, 0]),
            "move": max([*moves, *self._move_ids, 0]),
            "flip": self._flip,
        }
        raised = {name: value for name, value in wanted.items() if value > counters.get(name, 0)}
        return RepairPlan(mends, self._troubles, raised)

    def _providers(self) -> Iterator[_Known]:
        front, traces = self._front, self._traces
        fences: dict[int, dict[int, FencedAt]] = {}
        here: dict[int, set[int]] = {}
        for subid, trace in traces.items():
            for pid, fence in trace.fences.items():
                fences.setdefault(pid, {})[subid] = fence
            for pid in trace.here:
                here.setdefault(pid, set()).add(subid)
        flips: dict[int, list[FlipTrace]] = {}
        for each in self._flips:
            flips.setdefault(each.pid, []).append(each)
        open_moves = {move.pid: move for move in front.moves if move.state in UNFINISHED}
        known: dict[int, int] = {}
        for order in front.fences.values():
            known[order.pid] = max(known.get(order.pid, 0), order.epoch)
        for pid in sorted({*fences, *here, *front.places} | flips.keys() | open_moves.keys()):
            home = home_of(self._subs, pid)
            place = front.places.get(pid) or Placement(pid, 0 if home is None else home.subid)
            move = open_moves.get(pid)
            if place.state is not AtHome.MAKING:
                yield _Known(
                    pid,
                    place,
                    fences.get(pid, {}),
                    frozenset(here.get(pid, ())),
                    flips.get(pid, []),
                    move,
                    max(place.epoch, known.get(pid, 0), 0 if move is None else move.epoch),
                    max((fence.epoch for fence in fences.get(pid, {}).values()), default=0),
                )

    # One provider.

    def _mend(self, each: _Known) -> Mend | None:
        if each.pid in self._keep:
            return self._kept(each)
        if each.top > each.known:
            return self._behind(each)
        if each.open_move is not None:
            return None  # its queue managers go on
        return self._unfenced(each)

    def _unfenced(self, each: _Known) -> Mend | None:
        """The front end knows its newest epoch, and no move is under way."""
        place = each.place
        leaving = {
            subid
            for subid in each.here
            if (order := self._front.fences.get((each.pid, subid))) is not None and order.state is Fence.LEFT
        }
        here = each.here - leaving
        last = self._last(each)
        if len(here) > 1:
            self._in_several(each, here)
        elif here and place.subid not in here:
            (subid,) = here
            if place.subid not in self._unread and place.subid not in each.fences:
                put = Placement(each.pid, subid, each.known + 1)
                return Mend(each.pid, f"is in {self._name(subid)}", put)
            text = f"is in {self._name(subid)}, though the front end has it in {self._name(place.subid)}"
            self._undecided(each, text)
        elif last is not None and last.dest == place.subid:
            self._check_lost(each, last)
        return None

    def _check_lost(self, each: _Known, last: FlipTrace) -> None:
        """Its new home may have forgotten it."""
        if last.dest in self._traces and last.dest not in each.fences and last.dest not in each.here:
            name = self._name(last.dest)
            self._troubles.append(
                Trouble(
                    each.pid,
                    f"has moved from {self._name(last.source)} to {name}, which does not know it: its database is of"
                    " before the move",
                    f"restore a newer backup of {name}",
                )
            )

    def _behind(self, each: _Known) -> Mend | None:
        """A sub-LCC knows a higher epoch than the front end."""
        states = {subid: fence.state for subid, fence in each.fences.items() if fence.epoch == each.top}
        there = [subid for subid, state in states.items() if state in (Fence.ARRIVING, Fence.OPEN)]
        if len(there) > 1:
            self._in_several(each, frozenset(there))
            return None
        if there:
            return self._arrived(each, there[0], states[there[0]])
        left = [subid for subid, state in states.items() if state is Fence.LEFT]
        if left:
            return self._left(each, left[0])
        (subid, state), *_ = states.items()
        if state is Fence.FROZEN and self._unread:
            self._undecided(
                each, f"stands still in {self._name(subid)}, and may have moved to {self._unread_names()}"
            )
            return None
        return self._stayed(each, subid)

    def _stayed(self, each: _Known, subid: int) -> Mend | None:
        """It was about to move, and had not flipped."""
        if not self._is_alone(each, subid, None):
            return None
        epoch = each.top + EPOCH_JUMP
        moves = self._history(each, None)
        if each.undecided is not None:
            moves += (self._given_up(each.undecided, epoch),)
        else:
            moves += tuple(
                [self._cancelled(each.pid, to, carrier, epoch) for to, carrier in self._carriers(each.pid)]
            )
        return Mend(
            each.pid,
            f"stays in {self._name(subid)}; its move had not flipped, and is cancelled",
            Placement(each.pid, subid, epoch),
            moves,
            (FenceOrder(each.pid, subid, epoch, Fence.OPEN, -1), *self._fences(each, {subid})),
        )

    def _left(self, each: _Known, source: int) -> Mend | None:
        """Its former home says that it has left; the new one does not say that it is there."""
        last = self._last(each)
        if last is None or last.source != source:
            self._undecided(each, f"has left {self._name(source)}; where to, no sub-LCC that could be read says")
            return None
        if last.dest in self._traces:
            self._check_lost(each, last)
            return None
        return self._moved(each, last.dest, source, last)

    def _arrived(self, each: _Known, dest: int, state: Fence) -> Mend | None:
        """The highest epoch says that it is there."""
        last = self._last(each)
        if state is Fence.OPEN and (last is None or last.dest != dest):
            if not self._is_alone(each, dest, None):  # it has not moved lately
                return None
            epoch, moves = each.top, self._history(each, None)
            if each.undecided is not None:
                epoch += EPOCH_JUMP
                moves += (self._given_up(each.undecided, epoch),)
            text = f"is in {self._name(dest)}"
            return Mend(each.pid, text, Placement(each.pid, dest, epoch), moves, self._fences(each, set()))
        if last is not None:
            return self._moved(each, dest, last.source, last, arriving=state is Fence.ARRIVING)
        frozen = [
            subid
            for subid, fence in each.fences.items()
            if fence == FencedAt(each.top - 1, Fence.FROZEN) and subid in each.here
        ]
        if len(frozen) != 1:
            self._undecided(each, f"arrives in {self._name(dest)}; where from, no sub-LCC that could be read says")
            return None
        self._flip += 1
        flip = FlipTrace(True, self._flip, each.pid, frozen[0], dest, each.top, self._now)
        return self._moved(each, dest, frozen[0], flip, arriving=True)

    def _moved(self, each: _Known, dest: int, source: int, flip: FlipTrace, *, arriving: bool = False) -> Mend | None:
        """It has flipped; the rest of the move goes on.

        :param arriving: not all of its rows are there.
        """
        if not self._is_alone(each, dest, source):
            return None
        is_left = source not in self._names or (source in self._traces and source not in each.here)
        is_clean = dest in self._traces and not any(to == dest for to, _ in self._carriers(each.pid))
        state = MoveState.FLIPPED if arriving else MoveState.DONE if is_left and is_clean else MoveState.ACTIVE
        moves = (*self._history(each, flip), self._flipped(each, flip, state))
        before = each.undecided
        if before is not None and before.id not in {move.id for move in moves}:
            moves += (self._given_up(before, each.top),)
        pid, top = each.pid, each.top
        # Former homes that were put back from a backup leave once more.
        again = sorted(each.here - {dest, source})
        fences = list(self._fences(each, {dest, source, *again}))
        if arriving:
            fences.append(FenceOrder(pid, source, top - 1, Fence.FROZEN, top - 1))
        else:
            fences.append(FenceOrder(pid, dest, top, Fence.OPEN, top))
            fences.append(FenceOrder(pid, source, top, Fence.LEFT, top if is_left else -1))
        fences += [FenceOrder(pid, subid, top, Fence.LEFT, -1) for subid in again]
        text = f"has moved from {self._name(source)} to {self._name(dest)}"
        if state is not MoveState.DONE:
            text += f"; its move goes on ({state.value})"
        return Mend(pid, text, Placement(pid, dest, top), moves, tuple(fences))

    def _kept(self, each: _Known) -> Mend | None:
        """An operator says where it is: it leaves the others, as after a move."""
        keeper = self._keep[each.pid]
        others = sorted(each.here - {keeper})
        if keeper not in each.here or not others or each.open_move is not None:
            self._troubles.append(
                Trouble(
                    each.pid,
                    f"is not in {self._name(keeper)} and another sub-LCC at once, or is moving",
                    "leave out --keep for it",
                )
            )
            return None
        epoch = max(each.top, each.known) + EPOCH_JUMP
        moves = list(self._history(each, None))
        for subid in others:
            self._flip += 1
            flip = FlipTrace(True, self._flip, each.pid, subid, keeper, epoch, self._now)
            moves.append(self._new_move(flip, MoveState.ACTIVE, 0, {}))
        return Mend(
            each.pid,
            f"stays in {self._name(keeper)}, and leaves {', '.join(map(self._name, others))}",
            Placement(each.pid, keeper, epoch),
            tuple(moves),
            (
                FenceOrder(each.pid, keeper, epoch, Fence.OPEN, -1),
                *[FenceOrder(each.pid, subid, epoch, Fence.LEFT, -1) for subid in others],
            ),
        )

    # Rows of moves.

    def _last(self, each: _Known) -> FlipTrace | None:
        """The move that has made the highest epoch."""
        return next((flip for flip in each.flips if flip.epoch == each.top), None)

    def _history(self, each: _Known, last: FlipTrace | None) -> tuple[Move, ...]:
        """Moves that have come to their ends, as far as the front end does not know that.

        :param last: the one that may not have.
        """
        new = [
            self._new_move(flip, MoveState.DONE, 0, {})
            for flip in each.flips
            if flip.flip not in self._known_flips and (last is None or flip.flip != last.flip)
        ]
        move = each.open_move
        if move is not None and move.flip and (last is None or move.flip != last.flip):
            new.append(attrs.evolve(move, state=MoveState.DONE, why="", changed_time=self._now))
        return tuple(new)

    def _flipped(self, each: _Known, flip: FlipTrace, state: MoveState) -> Move:
        """The row of the move that has flipped."""
        move = each.open_move
        number, time = 0, flip.time
        progress: Mapping[str, object] = {}
        carrier = next((one for to, one in self._carriers(each.pid) if to == flip.dest), None)
        if move is not None and (move.flip == flip.flip or (move.state in UNDECIDED and move.dest == flip.dest)):
            number, time, progress = move.id, move.made_time, move.progress
        if carrier is not None:
            progress = {**progress, "carrier": carrier.pid, "content": carrier.content}
            if not number and carrier.move not in self._move_ids:
                number, time = carrier.move, carrier.made_time
                self._move_ids.add(number)
        known = next((one.id for one in self._front.moves if one.flip == flip.flip), 0)
        made = self._new_move(flip, state, known or number, progress)
        return attrs.evolve(made, made_time=time)

    def _new_move(self, flip: FlipTrace, state: MoveState, number: int, progress: Mapping[str, object]) -> Move:
        return Move(
            id=number,
            pid=flip.pid,
            source=flip.source,
            dest=flip.dest,
            flip=flip.flip,
            state=state,
            epoch=flip.epoch,
            made_time=flip.time,
            changed_time=flip.time,
            progress={"content": self._content(flip.source), **progress},
            why="",
        )

    def _given_up(self, move: Move, epoch: int) -> Move:
        return attrs.evolve(move, state=MoveState.CANCELLED, epoch=epoch, why=LOST, changed_time=self._now)

    def _cancelled(self, pid: int, dest: int, carrier: CarrierTrace, epoch: int) -> Move:
        """So that its destination forgets what it has copied."""
        number = 0 if carrier.move in self._move_ids else carrier.move
        self._move_ids.add(number)
        source = next((subid for subid, name in self._names.items() if name == carrier.source), 0)
        return Move(
            id=number,
            pid=pid,
            source=source,
            dest=dest,
            flip=0,
            state=MoveState.CANCELLED,
            epoch=epoch,
            made_time=carrier.made_time,
            changed_time=self._now,
            progress={"carrier": carrier.pid, "content": carrier.content},
            why=LOST,
        )

    def _carriers(self, pid: int) -> list[tuple[int, CarrierTrace]]:
        """Those of a provider, and where they are; the newest first."""
        found = [
            (subid, carrier)
            for subid, trace in self._traces.items()
            for carrier in trace.carriers
            if carrier.moved == pid
        ]
        return sorted(found, key=lambda each: -each[1].move)

    def _leftover_carriers(self, mends: Sequence[Mend]) -> Iterator[Mend]:
        """Carriers of moves that the front end does not know, and that nothing has come of."""
        known = {(move.id, move.made_time) for move in self._front.moves}
        mended = {mend.pid for mend in mends} | {trouble.pid for trouble in self._troubles}
        for subid, trace in sorted(self._traces.items()):
            for carrier in trace.carriers:
                pid = carrier.moved
                fence = trace.fences.get(pid)
                arrives = fence is not None and fence.state is Fence.ARRIVING
                moving = any(move.pid == pid and move.state in UNFINISHED for move in self._front.moves)
                if (carrier.move, carrier.made_time) in known or pid in mended or arrives or moving:
                    continue
                if carrier.move in self._move_ids:
                    self._troubles.append(
                        Trouble(
                            pid,
                            f"was to move to {self._name(subid)} (move {carrier.move}); its content was carried by"
                            f" provider {carrier.pid} there",
                            f"remove that one there: lcc-admin provider remove {shell_word(carrier.pid)}",
                        )
                    )
                    continue
                epoch = 0 if fence is None else fence.epoch
                text = f"was to move to {self._name(subid)}: what was copied is forgotten"
                yield Mend(pid, text, None, (self._cancelled(pid, subid, carrier, epoch),))

    # Fences.

    def _fences(self, each: _Known, decided: set[int]) -> tuple[FenceOrder, ...]:
        """What the sub-LCCs obey that the front end does not know.

        :param decided: others say what these obey.
        """
        found: list[FenceOrder] = []
        for subid, (epoch, state) in sorted(each.fences.items()):
            order = self._front.fences.get((each.pid, subid))
            newer = order is None or order.epoch < epoch
            if newer and subid not in decided and state in (Fence.LEFT, Fence.OPEN):
                found.append(FenceOrder(each.pid, subid, epoch, state, epoch))
        return tuple(found)

    # What is not decided.

    def _is_alone(self, each: _Known, owner: int, source: int | None) -> bool:
        """No other sub-LCC claims it.

        :param source: that it is leaving.
        """
        others = {subid for subid in each.here - {owner} if subid != source and not self._has_left(each, subid)}
        if others:
            self._in_several(each, frozenset(others | {owner}))
        return not others

    def _has_left(self, each: _Known, subid: int) -> bool:
        """A move from there is noted, which it has forgotten: it was put back from a backup."""
        epoch = each.fences[subid].epoch if subid in each.fences else 0
        return any(flip.source == subid and flip.epoch > epoch for flip in each.flips)

    def _in_several(self, each: _Known, subids: frozenset[int] | set[int]) -> None:
        parts = []
        for subid in sorted(subids):
            traces = self._traces.get(subid)
            if traces is None:
                parts.append(f"{self._name(subid)} (cannot be read)")
                continue
            files = traces.files.get(each.pid, 0)
            fence = each.fences.get(subid)
            stands = "" if fence is None else f", {fence.state.value} at epoch {fence.epoch}"
            parts.append(f"{self._name(subid)} ({files} files{stands})")
        keep = " or ".join(f"--keep {shell_word(f'{each.pid}={self._name(subid)}')}" for subid in sorted(subids))
        self._troubles.append(
            Trouble(
                each.pid,
                f"is in several sub-LCCs: {', '.join(parts)}",
                f"look at both (lcc-admin provider show {shell_word(each.pid)} there),"
                f" then say which one keeps it: {keep}",
            )
        )

    def _undecided(self, each: _Known, text: str) -> None:
        unread = self._unread_names()
        advice = f"run this again when {unread} can be read" if unread else "restore a newer backup of its sub-LCC"
        self._troubles.append(Trouble(each.pid, text, advice))

    def _unread_names(self) -> str:
        return ", ".join(map(self._name, self._unread))

    def _name(self, subid: int) -> str:
        return self._names.get(subid, f"sub-LCC {subid}")

    def _content(self, subid: int) -> str:
        return next((sub.content for sub in self._subs if sub.subid == subid), "")
