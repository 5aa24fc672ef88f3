"""The part of the tasks of feeds and sitemaps in moves: orders to the schedulers of both sub-LCCs (doc/moves.md).

A scheduler that belongs to the whole front end has its tables elsewhere: then there is nothing to do here.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from lcc.model.frontend.moves import Move
from lcc.model.frontend.places import SubLcc
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.moves import CannotMove
from lcc.storage.queue.moves.staging import stage_task_ids, staged_task_ids
from lcc.storage.tasks import moving
from lcc.storage.tasks.orders import ORDERS

_log = Logger()


class TaskMoves:
    """
    :param own: the database with the tables of this LCC's tasks; None: it has none (yet).
    :param of: that of another sub-LCC.
    """

    def __init__(
        self,
        now: Callable[[], int],
        own: Callable[[], Database | None],
        of: Callable[[SubLcc], Database | None],
    ) -> None:
        self._now = now
        self._own = own
        self._of = of

    # The source.

    async def are_at_rest(self, pid: int) -> bool:
        """Have the tasks of a provider rest; True: they do."""
        database = self._own()
        if database is None or await database.interact(moving.at_rest, pid):
            return True
        await self._order(database, moving.TASKS_REST, pid)
        return False

    async def go_on(self, pid: int) -> None:
        """The provider stays."""
        database = self._own()
        if database is not None and await database.interact(moving.resting, pid):
            await self._order(database, moving.TASKS_GO_ON, pid)

    async def left(self, pid: int) -> None:
        """The provider is elsewhere, with its tasks."""
        database = self._own()
        if database is not None:
            await self._order(database, moving.TASKS_LEFT, pid)

    async def _order(self, database: Database, kind: str, pid: int) -> None:
        await database.write(_order_once, kind, pid, self._now())

    # The destination.

    async def check(self, pid: int, source: SubLcc) -> None:
        """:raises CannotMove: there are tasks, and nobody here who would carry them out."""
        there = self._of(source)
        if there is None or self._own() is not None:
            return
        count = len(await there.interact(moving.own_tasks, pid))
        if count:
            raise CannotMove(f"provider {pid} has {count} tasks, and its destination has no scheduler")

    async def arrive(self, move: Move, source: SubLcc, main: Database) -> None:
        """Order that the tasks of a provider be added here, with all that their workers have collected.

        :param main: the database of this LCC.
        """
        there, here = self._of(source), self._own()
        if there is None or here is None:
            return
        numbers = await there.interact(moving.own_tasks, move.pid)
        known = await main.interact(staged_task_ids, move.pid)
        if numbers and not known:
            drawn = await here.write(moving.draw_ids, len(numbers))
            known = dict(zip(numbers, drawn, strict=True))
            await main.write(stage_task_ids, move.pid, known)
        for table in moving.tables():
            after: list[object] = []
            while True:
                found = await there.interact(moving.departing_tasks, move.pid, table, after)
                if not found.rows:
                    break
                after = moving.key_of(table, found.rows[-1])
                body = moving.renumbered(found, known)._asdict()
                await here.write(ORDERS.give, moving.TASKS_ARRIVE, move.pid, body, self._now())
        if numbers:
            _log.info("{count} tasks of provider {pid} move here", count=len(numbers), pid=move.pid)


def _order_once(txn: Txn, kind: str, pid: int, now: int) -> None:
    if not moving.is_ordered(txn, kind, pid):
        ORDERS.give(txn, kind, pid, {}, now)
