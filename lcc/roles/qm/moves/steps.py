"""One step of a move in the database of this LCC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lcc.roles.qm.engine import QmEngine
from lcc.storage.queue.store import QueueStore


async def take_step(engine: QmEngine, store: QueueStore, function: Callable[..., object], *args: object) -> Any:
    """Run ``function(write, *args)`` in one :class:`~lcc.storage.queue.write_transaction.WriteTransaction`; gives its
    result.  The queue manager hears what it has queued, and what earlier writes have that were not confirmed.

    :raises StoreUnavailable: it may have been carried out all the same.
    """
    result, outcome = await store.move_step(engine.now(), function, *args)
    engine.absorbed(outcome)
    return result
