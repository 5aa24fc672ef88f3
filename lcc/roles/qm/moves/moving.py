"""A sub-LCC's part in moves of providers: looks what is to be done, as destination and as source (doc/moves.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from lcc.errors import Busy, StoreUnavailable
from lcc.model.frontend.places import SubState
from lcc.roles.background import Background
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.moves.mover import Mover
from lcc.roles.qm.moves.obeying import Obeying
from lcc.roles.qm.moves.tasks import TaskMoves
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.database import Database
from lcc.storage.fe.sublccs import list_sublccs
from lcc.storage.queue.store import QueueStore

_log = Logger()

LOOK_SECONDS = 1.0
SOON_SECONDS = 0.2
AFTER_ERROR_SECONDS = 60.0
"""Such as: the queue manager may not read the front end's tables."""


class Moving:
    """Looks once a second; more often while a provider stands still.

    :param name: of this sub-LCC.
    :param database: of this LCC.
    :param front: the front end's database.
    :param databases: of the other sub-LCCs.
    :param own_tasks: the database with the tables of this LCC's tasks; None: it has none (yet).
    """

    def __init__(
        self,
        name: str,
        engine: QmEngine,
        store: QueueStore,
        database: Database,
        front: Database,
        databases: SubDatabases,
        own_tasks: Callable[[], Database | None] = lambda: None,
    ) -> None:
        self._name = name
        self._engine = engine
        self._front = front
        tasks = TaskMoves(engine.now, own_tasks, databases.tasks_of)
        self._obeying = Obeying(engine, store, database, front, tasks)
        self._mover = Mover(engine, store, database, front, databases.of, tasks)
        # Each goes on while the other waits.
        self._jobs = [_Looking(self._obey, engine), _Looking(self._move, engine)]

    def start(self) -> None:
        """Look now, then again and again."""
        for job in self._jobs:
            job.start()

    def stop(self) -> None:
        """Look no longer."""
        for job in self._jobs:
            job.stop()

    async def _obey(self) -> bool:
        me = next((sub for sub in await self._front.interact(list_sublccs) if sub.name == self._name), None)
        return me is not None and await self._obeying.look(me.subid)

    async def _move(self) -> bool:
        sublccs = {sub.subid: sub for sub in await self._front.interact(list_sublccs)}
        me = next((sub for sub in sublccs.values() if sub.name == self._name), None)
        others = {subid: sub for subid, sub in sublccs.items() if sub.state is not SubState.REMOVED}
        return me is not None and await self._mover.look(me, others)


class _Looking:
    """Does something again and again."""

    def __init__(self, look: Callable[[], Awaitable[bool]], engine: QmEngine) -> None:
        self._look = look
        self._engine = engine
        self._job = Background("Cannot go on with moves of providers", self._ended)
        self._next: IDelayedCall | None = None
        self._running = False
        self._seconds = LOOK_SECONDS

    def start(self) -> None:
        self._running = True
        self._begin()

    def stop(self) -> None:
        self._running = False
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._job.cancel()

    def _begin(self) -> None:
        self._next = None
        self._job.begin(self._once())

    async def _once(self) -> None:
        self._seconds = LOOK_SECONDS
        if not self._engine.started:
            self._seconds = SOON_SECONDS  # what was put back from a backup may have providers that are elsewhere
            return
        try:
            # A database that is unavailable is asked again with the next look.
            with suppress(StoreUnavailable):
                self._seconds = SOON_SECONDS if await self._look() else LOOK_SECONDS
        except Busy as error:
            self._engine.fatal(error)
        except Exception:
            self._seconds = AFTER_ERROR_SECONDS
            raise

    def _ended(self) -> None:
        if self._running:
            self._next = self._engine.clock.callLater(self._seconds, self._begin)
