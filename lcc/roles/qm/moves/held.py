"""Applies sets that were held behind a fence, where their provider is in the end; each once (doc/moves.md)."""

from __future__ import annotations

import attrs
from twisted.logger import Logger

from lcc.model import SetHeader
from lcc.model.frontend.moves import HeldPiece
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.moves.steps import take_step
from lcc.storage.database.database import Database
from lcc.storage.queue.moves.fences import applied_upto, held_pieces, set_pieces, take_lost
from lcc.storage.queue.store import QueueStore

_log = Logger()

_LAST_ID = (1 << 63) - 1


async def apply_held(
    engine: QmEngine, store: QueueStore, database: Database, holder: Database, subid: int, pid: int
) -> int:
    """Apply what is held of a provider.

    :param database: of this LCC.
    :param holder: where the sets are held.
    :param subid: that sub-LCC.
    :returns: the last set that is applied now.
    """
    uns = f"held/{subid}/{pid}"
    epoch, held = await holder.interact(held_pieces, pid)
    if not held:
        return 0
    upto = await database.interact(applied_upto, uns, epoch)
    after = (upto, _LAST_ID)
    while True:
        _, held = await holder.interact(held_pieces, pid, after)
        if not held:
            return upto
        lost = {piece.whole for piece in held if piece.lost}
        for whole in sorted(lost):
            header = attrs.evolve(_of(held, whole), uns=uns, epoch=epoch, number=whole, full=False, said=None)
            await take_step(engine, store, take_lost, header)
            _log.warn(
                "A set of provider {pid} is incomplete at its former sub-LCC: requesting a full set",
                pid=pid,
            )
        pieces = [piece for piece in set_pieces(held, uns, epoch) if piece.header.number not in lost]
        if pieces:
            engine.absorbed(await store.absorb(pieces, engine.now()))
        after = (held[-1].whole, _LAST_ID if held[-1].whole in lost else held[-1].id)
        upto = held[-1].whole


def _of(held: list[HeldPiece], whole: int) -> SetHeader:
    return next(piece.header for piece in held if piece.whole == whole)
