"""The source's side of a move: obeys the fences of the front end (doc/moves.md)."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from twisted.logger import Logger

from lcc.model.frontend.moves import Fence, FenceOrder, MoveState
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.moves.held import apply_held
from lcc.roles.qm.moves.steps import take_step
from lcc.roles.qm.moves.tasks import TaskMoves
from lcc.roles.qm.schedule.work import fetch_info
from lcc.storage.database.database import Database
from lcc.storage.database.tables.order_rows import has_orders
from lcc.storage.fe.moves import (
    Overtaken,
    departure,
    draw_loss,
    fences_for,
    forgotten_fences,
    last_flipped,
    last_move,
    obey_again,
    obeyed,
    thaw,
)
from lcc.storage.queue.moves.fences import (
    HELD_SECONDS,
    fence_epochs,
    forget_held,
    forget_parts,
    give_up_old_held,
    has_new_epoch,
    held_here,
    known_of,
    leaving,
    lose_after_loss,
    lose_forgotten,
    put_fence,
    standing_fences,
)
from lcc.storage.queue.moves.following import forget_touched
from lcc.storage.queue.moves.leaving import FROM, leave_page
from lcc.storage.queue.moves.paged import Place
from lcc.storage.queue.store import QueueStore
from lcc.storage.queue.write_transaction import WriteTransaction

_log = Logger()

FROZEN_SECONDS = 60.0
"""A freeze that its destination has not ended by then is ended here: it may be out of order."""
FORGET_EVERY_SECONDS = 3600.0
_PAGE_KEYS = 2000


class Obeying:
    """Obeys fences.

    :param database: of this LCC.
    :param front: the front end's database.
    """

    def __init__(
        self, engine: QmEngine, store: QueueStore, database: Database, front: Database, tasks: TaskMoves
    ) -> None:
        self._engine = engine
        self._store = store
        self._step = partial(take_step, engine, store)
        self._database = database
        self._front = front
        self._tasks = tasks
        self._has_looked = False
        self._next_forgetting = 0.0
        self._frozen_since: dict[tuple[int, int], float] = {}

    async def look(self, subid: int) -> bool:
        """Obey what is to be obeyed; True: something is soon to be looked at again.

        :param subid: this sub-LCC.
        """
        soon = False
        if not self._has_looked:
            await self._find_forgotten(subid)
        after = 0 if await self._database.select(has_new_epoch) else None
        while after is not None:
            after = await self._step(lose_after_loss, self._engine.now() - HELD_SECONDS, after)
        orders = await self._front.interact(fences_for, subid)
        known = await self._database.select(fence_epochs) if orders else {}
        for order in orders:
            epoch = known.get(order.pid, -1)
            forgotten = epoch < order.epoch <= order.obeyed_epoch
            if epoch < order.obeyed_epoch and order.state.holds:
                await self._step(lose_forgotten, order.pid, await self._front.write(draw_loss))
            if forgotten:
                await self._front.write(obey_again, subid, {order.pid: epoch})
            is_held = order.pid in self._engine.scheduler.frozen
            if order.obeyed_epoch < order.epoch or forgotten or is_held != order.state.holds:
                soon |= not await self._obey(order)
            soon |= order.state is Fence.FOLLOWED  # it will soon be frozen, and everybody wait
        await self._thaw_forgotten({(order.pid, order.epoch) for order in orders if order.state is Fence.FROZEN})
        await self._apply_here(subid)
        if self._engine.clock.seconds() >= self._next_forgetting:
            self._next_forgetting = self._engine.clock.seconds() + FORGET_EVERY_SECONDS
            before = self._engine.now() - HELD_SECONDS
            pid = await self._step(give_up_old_held, before)
            while pid is not None:
                pid = await self._step(give_up_old_held, before, pid)
            while await self._step(forget_parts, before):
                pass
        return soon

    async def _find_forgotten(self, subid: int) -> None:
        """Fences that were lifted since this database was backed up are obeyed again, and those of providers that
        were just leaving then."""
        left = await self._database.select(leaving)
        if left:
            await self._front.write(obey_again, subid, {pid: epoch - 1 for pid, epoch in left.items()})
        known = await self._database.select(standing_fences)
        lifted = await self._front.interact(forgotten_fences, subid, known) if known else {}
        if lifted:
            await self._front.write(obey_again, subid, lifted)
        self._has_looked = True

    async def _thaw_forgotten(self, frozen: set[tuple[int, int]]) -> None:
        """Give up freezes whose destination does not.

        :param frozen: provider and epoch of all that stand still here.
        """
        engine, clock = self._engine, self._engine.clock.seconds()
        self._frozen_since = {each: self._frozen_since.get(each, clock) for each in frozen}
        for (pid, epoch), since in self._frozen_since.items():
            if clock - since < FROZEN_SECONDS:
                continue
            move = await self._front.interact(last_move, pid)
            if move is None or (move.state, move.epoch) != (MoveState.FREEZING, epoch) or move.number("behind"):
                continue  # it has flipped
            with suppress(Overtaken):
                await self._front.write(thaw, move, "its destination does not go on", engine.now())
                _log.warn(
                    "Provider {pid} resumes here: the destination of move {id} does not respond", pid=pid, id=move.id
                )

    async def _obey(self, order: FenceOrder) -> bool:
        """Go on with a fence; True: it is obeyed."""
        engine, pid = self._engine, order.pid
        if order.state is not Fence.LEFT and await self._still_arrives(order):
            return False
        if not await self._step(put_fence, pid, order.epoch, order.state):
            return True  # the front end's database was put back from a backup
        frozen = engine.scheduler.frozen
        if not order.state.holds:
            frozen.thaw(pid)
            engine.pump()
            await self._tasks.go_on(pid)
            if order.state is Fence.OPEN:
                await self._forget_touched(pid)
        else:
            frozen.freeze(pid)
            engine.dispatcher.send_recalls()
            tasks_rest = await self._tasks.are_at_rest(pid)  # the longest, so that it begins at once
            if not (tasks_rest and self._is_still(pid)) or await self._database.select(has_orders, pid):
                return False
            if order.state is Fence.FROZEN and not await self._settle(pid):
                return False
            if order.state is Fence.LEFT:
                await self._leave(order)
        await self._front.write(obeyed, order)
        return True

    async def _still_arrives(self, order: FenceOrder) -> bool:
        """Whether the provider has come here for good, but this database was restored to when it was arriving: first
        the mover takes over what is staged."""
        fence = (await self._database.interact(known_of, order.pid)).fence
        if fence is None or fence.state is not Fence.ARRIVING:
            return False
        here = await self._front.interact(last_flipped, order.pid)
        if here is None or here.epoch < fence.epoch:
            return False
        return here.state is MoveState.DONE and here.dest == order.subid

    def _is_still(self, pid: int) -> bool:
        """Nothing is fetched of it, nothing recorded, no set absorbed."""
        engine = self._engine
        if engine.leases.awaited or any(absorber.has_some_of(pid) for absorber in engine.absorbers):
            return False
        return engine.scheduler.frozen.is_still(pid)

    async def _settle(self, pid: int) -> bool:
        """Have saved what its last fetches have cost, and when they began, so that it goes with it.

        :returns: it is saved; else it soon is.
        """
        engine = self._engine
        provider = await self._store.provider(pid)
        if provider is not None:
            engine.scheduler.costs.leaves(pid, fetch_info(provider).limits)
        return engine.delay_timer.is_saved(pid)

    async def _forget_touched(self, pid: int) -> None:
        more = True
        while more:
            more = await self._step(_forget_touched, pid)

    async def _leave(self, order: FenceOrder) -> None:
        engine = self._engine
        move = await self._front.interact(departure, order.pid, order.subid)
        if move is None:
            _log.error("The fence of provider {pid} has no move: its rows stay", pid=order.pid)
            return
        place: Place | None = FROM
        while place is not None:
            place = await self._step(leave_page, move, place)
        await self._tasks.left(order.pid)
        engine.scheduler.provider_removed(order.pid)
        engine.reader.provider_changed(order.pid)
        engine.moves.ended["left"] += 1
        _log.info("Provider {pid} has left this sub-LCC (move {id})", pid=order.pid, id=move.id)

    async def _apply_here(self, subid: int) -> None:
        """Sets that were held of providers that stayed, or came back."""
        for pid in await self._database.interact(held_here):
            upto = await apply_held(self._engine, self._store, self._database, self._database, subid, pid)
            await self._step(forget_held, pid, upto)


def _forget_touched(write: WriteTransaction, pid: int) -> bool:
    return forget_touched(write.txn, pid, _PAGE_KEYS)
