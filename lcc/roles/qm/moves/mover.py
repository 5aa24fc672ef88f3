"""The destination's side of a move: carries it out, step by step (doc/moves.md).

Each step is noted in the front end's database before the next one begins, and can be done again: whoever is killed
goes on where it was.  One provider is copied at a time; what has been frozen, or has flipped, goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from lcc.domain.wording import duration, number
from lcc.errors import StoreUnavailable
from lcc.model.frontend.moves import UNDECIDED, Fence, Move, MoveState
from lcc.model.frontend.places import SubLcc
from lcc.model.frontend.traces import FencedAt
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.moves.copying import Copying, carrier_of, content_of
from lcc.roles.qm.moves.held import apply_held
from lcc.roles.qm.moves.steps import take_step
from lcc.roles.qm.moves.tasks import TaskMoves
from lcc.roles.qm.moves.verifying import Verifying
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.fe import moves as front_moves
from lcc.storage.fe.flips import last_flip
from lcc.storage.queue.moves.arrivals import Arrived, admit, arrive_page, content_bytes, open_arrived
from lcc.storage.queue.moves.departing import why_not
from lcc.storage.queue.moves.fences import Known, fence_epoch, has_fence, held_elsewhere, known_of, leaving
from lcc.storage.queue.moves.paged import PAGE_ROWS, START
from lcc.storage.queue.moves.staging import (
    find_carrier,
    forget_staged,
    is_carrier_of,
    is_whole,
    make_carrier,
    remove_carrier,
    unfinished,
)
from lcc.storage.queue.store import QueueStore

_log = Logger()

PAUSE_SECONDS = 0.02
AGAIN_SECONDS = 1.0
"""From one look at what has changed to the next."""
FEW_ROWS = 500
FEW_FILES = 20
"""With so little left a provider is frozen."""
FREEZE_SECONDS = 20.0
"""A freeze that has not flipped by then is given up."""
SHORTLY_SECONDS = 0.1
FREEZE_AGAIN_SECONDS, FREEZE_AGAIN_SECONDS_MAX = 30.0, 600.0
"""From one freeze to the next: each time twice as long as before, so that a provider that cannot be moved for hours
stands still for a small part of them only."""
FREEZES_DOUBLED_MAX = 10
SLICE_SECONDS = 2.0
"""So long a provider is copied, until others are looked at."""
CONTENT_SECONDS = 900.0
"""A provider that has flipped to a sub-LCC that was restored from a backup waits for content as long as some has come
in this time, or none was asked for in vain."""
_STANDING_STILL = (MoveState.FREEZING, MoveState.FLIPPED)
BEHIND = "the front end's database was restored from a backup: run lcc-admin fe repair"
LATE_LOOK_SECONDS = 10.0
"""From one look for sets that come late at former homes to the next."""


class Mover:
    """Carries out moves to this sub-LCC.

    :param database: of this LCC.
    :param front: the front end's database.
    :param source: gives the database of another sub-LCC.
    """

    def __init__(
        self,
        engine: QmEngine,
        store: QueueStore,
        database: Database,
        front: Database,
        source: Callable[[SubLcc], Database],
        tasks: TaskMoves,
    ) -> None:
        self._engine = engine
        self._store = store
        self._step = partial(take_step, engine, store)
        self._database = database
        self._front = front
        self._source = source
        self._tasks = tasks
        self._compared: dict[int, float] = {}
        """Move -> when its next comparison is due, on the clock."""
        self._verifying: dict[int, Verifying] = {}
        """Of each move that copies."""
        self._left: dict[int, tuple[int, float]] = {}
        """Move that has flipped -> content files that were left at the last look, and when they became fewer."""
        self._late_look = 0.0
        self._taken: dict[int, tuple[str, dict[int, int]]] = {}
        """Of each former home: its epoch, and of each provider the last set that was taken from there."""
        self._has_looked = False

    async def look(self, me: SubLcc, sublccs: Mapping[int, SubLcc]) -> bool:
        """Go on with what is to be done; True: something is soon to be looked at again."""
        if not self._has_looked:
            await self._finish_ended(me, sublccs)
            self._has_looked = True
        found = await self._front.interact(front_moves.moves_to, me.subid)
        self._engine.moves.read(found, self._engine.clock.seconds())
        soon = False
        for move in found:
            if move.state not in (MoveState.PLANNED, MoveState.COPYING):
                soon |= bool(await self._try(move, sublccs))
        if not any(move.state in _STANDING_STILL for move in found):
            for move in found:
                if move.state in (MoveState.PLANNED, MoveState.COPYING):
                    tried = await self._try(move, sublccs)
                    if tried is not None:
                        soon |= tried
                        break  # the next ones wait
        clock = self._engine.clock
        if clock.seconds() >= self._late_look:
            self._late_look = clock.seconds() + LATE_LOOK_SECONDS
            await self._take_late(me, sublccs)
        return soon

    async def _finish_ended(self, me: SubLcc, sublccs: Mapping[int, SubLcc]) -> None:
        """If this database was put back from a backup, it may be in the midst of moves that have ended since."""
        found = await self._database.interact(unfinished)
        for pid in sorted(found.pids):
            move = await self._front.interact(front_moves.last_move, pid)
            if move is None or not (_has_ended(move) or move.dest != me.subid):
                continue
            fence = (await self._database.interact(known_of, pid)).fence
            if fence is not None and fence.state is Fence.ARRIVING:
                # A later one may be under way, or cancelled.
                here = await self._front.interact(front_moves.last_flipped, pid)
                if here is None or here.epoch < fence.epoch:
                    continue  # the front end's database is older than its arrival: the repair needs what is staged
                if here.state is MoveState.DONE and here.dest == me.subid:
                    # It may have left, and come back, since.
                    arrival = await self._front.interact(front_moves.arrival, pid, me.subid, fence.epoch) or here
                    await self._arrive_rows(arrival, _name(sublccs, arrival.source))
                    await self._open(here)
                    _log.warn("Provider {pid} was still arriving: this LCC was restored from a backup", pid=pid)
            await self._forget_staged(pid)
        # Not before: their rows have the content of those that arrive.
        for carrier, move_id in found.carriers.items():
            move = await self._front.interact(front_moves.get_move, move_id)
            if move is not None and _has_ended(move):
                await self._database.write(remove_carrier, carrier)

    async def _take_late(self, me: SubLcc, sublccs: Mapping[int, SubLcc]) -> None:
        """Sets that UNSes of former homes had in their spools all the time."""
        for subid in sorted(sublccs.keys() - {me.subid}):
            with suppress(StoreUnavailable):  # the others may be reachable
                epoch, held = await self._source(sublccs[subid]).interact(held_elsewhere)
                before, taken = self._taken.get(subid, ("", {}))
                if before != epoch:
                    taken = {}
                self._taken[subid] = epoch, taken
                new = [pid for pid, last in held.items() if taken.get(pid, 0) < last]
                if new:
                    for pid in await self._front.interact(front_moves.moved_to, new, subid, me.subid):
                        await self._take_held(pid, sublccs[subid])
                        taken[pid] = held[pid]

    async def _try(self, move: Move, sublccs: Mapping[int, SubLcc]) -> bool | None:
        """Go on with a move; True: it is soon to be looked at again; None: its source is unreachable."""
        source = sublccs.get(move.source)
        try:
            here = await self._database.interact(known_of, move.pid)
            if move.state is MoveState.CANCELLED:
                if here.fence is None or here.fence.state is not Fence.ARRIVING:  # else that is of a later move
                    await self._clean(move)
                return False
            if source is None:
                raise front_moves.CannotMove(f"sub-LCC {move.source}, its source, is gone")
            there = await self._source(source).interact(known_of, move.pid)
            if _is_behind(move, await self._front.interact(last_flip), here, there):
                raise front_moves.Behind
            if move.number("behind"):
                move = await self._note(move, {"behind": 0}, "")
            return await self._go_on(move, source, is_open=here.fence == FencedAt(move.epoch, Fence.OPEN))
        except front_moves.Behind:
            await self._wait_for_repair(move)
            return None
        except front_moves.Overtaken as error:
            _log.debug("Move {id}: {error}", id=move.id, error=str(error))
            return True
        except front_moves.CannotMove as error:
            with suppress(front_moves.Overtaken):
                await self._cannot(move, str(error))
            return False
        except StoreUnavailable as error:  # moves from other sub-LCCs go on
            _log.debug("Move {id} waits: {error}", id=move.id, error=str(error))
            return None

    async def _wait_for_repair(self, move: Move) -> None:
        """Its source and its destination know more of it than the front end's database."""
        if move.number("behind"):
            return
        with suppress(front_moves.Overtaken):
            await self._note(move, {"behind": 1}, BEHIND)
            _log.error(
                "Move {id} of provider {pid} waits: the front end's database was restored from a backup."
                " Run lcc-admin fe repair",
                id=move.id,
                pid=move.pid,
            )

    async def _cannot(self, move: Move, why: str) -> None:
        if move.state in UNDECIDED:
            await self._front.write(front_moves.give_up, move, why, self._engine.now())
            _log.warn("Provider {pid} cannot be moved: {why}", pid=move.pid, why=why)
            if move.state is MoveState.FREEZING:
                self._engine.moves.goes_on(move.pid, self._engine.clock.seconds(), here=False)

    async def _clean(self, move: Move) -> None:
        await self._forget(move)
        await self._note(move, {"cleaned": True}, move.why)
        self._engine.moves.ended["cancelled"] += 1

    async def _go_on(self, move: Move, source: SubLcc, *, is_open: bool) -> bool:
        state = move.state
        if state is MoveState.PLANNED:
            await self._plan(move, source)
            return True
        if state in (MoveState.COPYING, MoveState.FREEZING) and not await self._has_carrier(move, source):
            return True
        if state is MoveState.COPYING:
            return await self._copy(move, source)
        if state is MoveState.FREEZING:
            await self._freeze(move, source)
            return True
        if state is MoveState.FLIPPED:
            if is_open:  # all is here; the front end's database has forgotten that
                await self._front.write(front_moves.activate, move, self._engine.now())
            else:
                await self._arrive(move, source)
            return True
        if await self._is_arriving(move):  # it was put back from a backup, or killed
            await self._arrive_rows(move, source.name)
        await self._open(move)
        await self._take_held(move.pid, source)
        await self._forget(move)
        await self._front.write(front_moves.end_move, move, self._engine.now())
        self._engine.moves.ended["arrived"] += 1
        _log.info("Provider {pid} has moved here from sub-LCC {name}", pid=move.pid, name=source.name)
        return False

    # Planned.

    async def _plan(self, move: Move, source: SubLcc) -> None:
        await self._check(move, source)
        if await self._database.select(_is_here, move.pid):
            raise front_moves.CannotMove(f"there is a provider {move.pid} at its destination")
        now = self._engine.now()
        carrier = await self._database.write(make_carrier, move, source.name, source.content, now)
        noted = await self._note(move, {"carrier": carrier, "content": source.content}, "")
        await self._front.write(front_moves.begin_copying, noted, now)

    async def _check(self, move: Move, source: SubLcc) -> None:
        """:raises CannotMove: it cannot be moved, or no longer."""
        if not source.content.startswith(("http://", "https://")):
            raise front_moves.CannotMove(
                f"robots cannot read the content of sub-LCC {source.name}: lcc-admin fe set --content must"
                " give a URL of http: or https:"
            )
        why = await self._source(source).interact(why_not, move.pid)
        if why:
            raise front_moves.CannotMove(why)
        await self._tasks.check(move.pid, source)

    # Copying.

    async def _copy(self, move: Move, source: SubLcc) -> bool:
        clock = self._engine.clock
        if clock.seconds() < self._compared.get(move.id, 0.0):
            return False
        await self._check(move, source)
        if not await self._has_obeyed(move):
            return True
        copying = self._copying(move, source)
        compared = await copying.compare(SLICE_SECONDS)
        followed = await copying.follow(pause=True)
        if followed is None:  # there is more, after a look at other moves
            await self._note(move, {"rows": move.number("rows") + compared, "counted": 0}, move.why)
            await copying.check_content(move.number("rows") + compared)
            await self._verify(move, source, move.number("rows") + compared, is_here=False)
            return True
        counted, rows = move.number("counted"), move.number("rows")
        if compared or not counted:
            counted, rows = 1 if await copying.is_complete() else 0, await copying.rows()
        self._compared[move.id] = clock.seconds() + AGAIN_SECONDS
        left = await copying.content_left()
        await copying.check_content(rows)
        is_here = left <= FEW_FILES
        verified = await self._verify(move, source, rows, is_here)
        changed = compared + followed
        passes = move.number("passes") + 1
        progress = {"passes": passes, "rows": rows, "counted": counted, "changed": changed, "content_left": left}
        noted = await self._note(move, progress, move.why)
        if changed <= FEW_ROWS * passes and is_here and verified and self._may_freeze(noted):
            self._engine.moves.stands_still(move.pid, clock.seconds())
            await self._front.write(front_moves.freeze, noted, self._engine.now())
            return True
        return False

    async def _verify(self, move: Move, source: SubLcc, rows: int, is_here: bool) -> bool:
        return await self._verifying_of(move).go_on(self._source(source), rows, is_here, SLICE_SECONDS)

    def _verifying_of(self, move: Move) -> Verifying:
        if move.id not in self._verifying:
            self._verifying[move.id] = Verifying(self._engine.clock, self._database, move.pid, content_of(move))
        return self._verifying[move.id]

    def _copying(self, move: Move, source: SubLcc) -> Copying:
        there = self._source(source)
        return Copying(self._engine, self._store, self._database, there, move, self._verifying_of(move))

    async def _has_obeyed(self, move: Move) -> bool:
        fence = await self._front.interact(front_moves.get_fence, move.pid, move.source)
        return fence is not None and fence.obeyed_epoch >= move.epoch

    def _may_freeze(self, move: Move) -> bool:
        waited = self._engine.now() - move.number("frozen_time")
        again = FREEZE_AGAIN_SECONDS * 2.0 ** min(max(move.number("freezes") - 1, 0), FREEZES_DOUBLED_MAX)
        return not 0 <= waited < min(again, FREEZE_AGAIN_SECONDS_MAX)

    # Freezing.

    async def _freeze(self, move: Move, source: SubLcc) -> None:
        if self._is_over(move):
            await self._thaw(move, "it does not come to rest: a set is arriving, or a fetch does not end")
            return
        if not await self._has_obeyed(move):
            return
        await self._check(move, source)
        copying = self._copying(move, source)
        if await copying.follow(pause=False) is None:
            await self._thaw(move, "its source was restored from a backup")
            return
        if not move.number("counted") and not await copying.is_complete():
            await self._thaw(move, "rows are missing, and copied again")
            return
        await copying.copy_whole()
        until = self._engine.clock.seconds() + FREEZE_SECONDS
        while await copying.content_left():
            if self._engine.clock.seconds() > until:
                await self._thaw(move, "its content does not come from the source in time")
                return
            await self._sleep(SHORTLY_SECONDS)
        await copying.check_content(move.number("rows"))
        stands_still = await self._source(source).interact(has_fence, move.pid, move.epoch, Fence.FROZEN)
        since = await copying.copied_upto()
        if not stands_still or since is None:  # it may have obeyed again
            await self._thaw(move, "its source was restored from a backup")
            return
        await self._front.write(front_moves.flip, move, since, self._engine.now())

    def _is_over(self, move: Move) -> bool:
        return not 0 <= self._engine.now() - move.number("frozen_time") <= FREEZE_SECONDS

    async def _thaw(self, move: Move, why: str) -> None:
        await self._front.write(front_moves.thaw, move, why, self._engine.now())
        _log.warn("Move of provider {pid} postponed: {why}", pid=move.pid, why=why)
        self._engine.moves.goes_on(move.pid, self._engine.clock.seconds(), here=False)

    # Flipped.

    async def _arrive(self, move: Move, source: SubLcc) -> None:
        engine = self._engine
        if await self._has_former_rows(move):
            return
        if await self._database.interact(fence_epoch, move.pid) < move.epoch:  # it is not admitted
            if await self._front.write(front_moves.hold_again, move, engine.now()):
                return
            if not await self._has_come(move, source):
                return
        engine.scheduler.frozen.freeze(move.pid)
        delay = await self._step(admit, move)
        engine.delay_timer.arrived(move.pid, delay)
        engine.reader.provider_changed(move.pid)
        await self._front.write(front_moves.admit, move, engine.now())
        if move.pid in engine.moves.frozen:  # else it was admitted before
            engine.moves.goes_on(move.pid, engine.clock.seconds(), here=True)
        if move.number("lost"):
            await self._store.want_full_set(move.pid, "cache-crash")
        await self._arrive_rows(move, source.name)
        await self._tasks.arrive(move, source, self._database)
        engine.moves.content_bytes += await self._database.select(content_bytes, move.pid)
        await self._open(await self._front.write(front_moves.activate, move, engine.now()))

    async def _has_come(self, move: Move, source: SubLcc) -> bool:
        """Whether the provider can be admitted.  If not, this database was restored from a backup: the source still
        has all rows and content, and stands still, and so does the provider here."""
        whole = await self._database.interact(is_whole, move)
        if not whole and not await self._has_carrier(move, source):
            return False
        copying = self._copying(move, source)
        left = await copying.content_left()
        comes = self._comes(move, left, await copying.asked_in_vain())
        waits = not whole or (left > 0 and comes)
        why = ""
        if waits:
            why = f"its destination was restored from a backup: {'content is' if whole else 'rows are'} copied again"
        elif left:
            why = f"no content has come for {duration(CONTENT_SECONDS)}: {number(left, 'file')} will be fetched again"
        if why != move.why or (waits and left != move.number("content_left")):
            await self._note(move, {"content_left": left}, why)
        if why not in ("", move.why):
            _log.warn("Move {id} of provider {pid}: {why}", id=move.id, pid=move.pid, why=why)
        if waits:
            await self._copy_again(copying, comes)
        return not waits and why == move.why  # else the next look goes on, with what was noted

    def _comes(self, move: Move, left: int, in_vain: bool) -> bool:
        """Whether content still comes, or may come once robots ask for it.

        :param left: files that are still to come.
        :param in_vain: some were asked for, and did not come.
        """
        now = self._engine.clock.seconds()
        before, since = self._left.get(move.id, (left, now))
        if left < before or not left or not in_vain:
            since = now
        self._left[move.id] = left, since
        return now - since < CONTENT_SECONDS

    async def _copy_again(self, copying: Copying, content_comes: bool) -> None:
        await copying.compare(SLICE_SECONDS, content_comes=content_comes)
        if await copying.follow(pause=False) is not None and not (content_comes and await copying.content_left()):
            await copying.copy_whole()

    async def _is_arriving(self, move: Move) -> bool:
        return await self._database.interact(has_fence, move.pid, move.epoch, Fence.ARRIVING)

    async def _arrive_rows(self, move: Move, source: str) -> None:
        arrived = Arrived(True, START)
        while arrived.more:
            arrived = await self._step(arrive_page, self._store.rules, move, arrived.place)
            for url in arrived.damaged:
                _log.warn(
                    "Content of {url} (provider {pid}) was missing or damaged at sub-LCC {name}; it is fetched again",
                    url=url,
                    pid=move.pid,
                    name=source,
                )
            await self._sleep(PAUSE_SECONDS)

    async def _has_carrier(self, move: Move, source: SubLcc) -> bool:
        """Whether the move's carrier is there.  If not, this database was put back from a backup, perhaps to when
        another provider got its number, or somebody has removed it: another carrier is made, to go on with."""
        if await self._database.interact(is_carrier_of, move, carrier_of(move)):
            return True
        carrier = await self._database.write(make_carrier, move, source.name, content_of(move), self._engine.now())
        if not await self._database.interact(is_carrier_of, move, carrier):
            return False  # its removal is not carried out yet
        await self._note(move, {"carrier": carrier}, move.why)
        _log.warn(
            "Copying provider {pid} again: this LCC was restored from a backup, or the carrier of its content was"
            " removed",
            pid=move.pid,
        )
        return False

    async def _has_former_rows(self, move: Move) -> bool:
        """This database was put back from a backup of when the provider was here before, and has yet to remove it."""
        fence = await self._front.interact(front_moves.get_fence, move.pid, move.dest)
        if fence is None or fence.state is not Fence.LEFT:
            return False
        if move.pid in await self._database.interact(leaving):
            return True
        return await self._database.interact(fence_epoch, move.pid) < fence.epoch or fence.obeyed_epoch < fence.epoch

    async def _open(self, move: Move) -> None:
        """Begin with what waits: not before the front end's map says that all is here, for readers of the cache."""
        await self._step(open_arrived, move)
        self._engine.scheduler.frozen.thaw(move.pid)
        self._engine.pump()

    async def _take_held(self, pid: int, source: SubLcc) -> None:
        """Sets that came to the source after the freeze."""
        there = self._source(source)
        await apply_held(self._engine, self._store, self._database, there, source.subid, pid)

    async def _forget(self, move: Move) -> None:
        self._verifying.pop(move.id, None)
        self._left.pop(move.id, None)
        self._compared.pop(move.id, None)
        await self._forget_staged(move.pid)
        carrier = await self._database.interact(find_carrier, move)
        if carrier:
            await self._database.write(remove_carrier, carrier)

    async def _forget_staged(self, pid: int) -> None:
        while await self._step(forget_staged, pid, PAGE_ROWS):
            await self._sleep(PAUSE_SECONDS)

    # Inside.

    async def _note(self, move: Move, progress: Mapping[str, object], why: str) -> Move:
        return await self._front.write(front_moves.note_progress, move, progress, why, self._engine.now())

    def _sleep(self, seconds: float) -> Deferred[None]:
        return deferLater(self._engine.clock, seconds)


def _has_ended(move: Move) -> bool:
    return move.state is MoveState.DONE or (move.state is MoveState.CANCELLED and bool(move.progress.get("cleaned")))


def _name(sublccs: Mapping[int, SubLcc], subid: int) -> str:
    return sublccs[subid].name if subid in sublccs else str(subid)


def _is_here(txn: Txn, pid: int) -> bool:
    return txn.one("SELECT 1 FROM pidb WHERE pid = ?", [pid]) is not None


def _is_behind(move: Move, last: int, here: Known, there: Known) -> bool:
    """Whether the front end's database is older than a step of this move, or of a later one.

    :param last: number of the last flip that it has given out.
    :param here, there: what its destination and its source know.
    """
    if move.state in UNDECIDED:
        if max(here.newest_flip, there.newest_flip) > last:
            return True
        if here.fence is not None and here.fence.state is not Fence.LEFT:
            return True  # it is here, or was on its way to leave
    return any(known.fence is not None and known.fence.epoch > move.epoch for known in (here, there))
