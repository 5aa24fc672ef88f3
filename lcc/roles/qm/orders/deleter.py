"""The delete manager: sees to it that files of deleted content go away (seed 002, section 6).

The delete orders are rows of ``fsmdb``, so they survive everything.  For each BOT-M that is connected this pages
through its rows, keeps at most a window of them outstanding, and takes the answered ones out in batches.  A file
stays for a while after it was deleted (``delete_grace``), so that readers can finish.  What is for a BOT-M that is
not connected stays in the table until it connects.  When an order is due stands there as a time of the wall clock:
once that was set, no file is removed for ``delete_grace``; all that were deleted before have stayed for so long then.

An order that is not answered (the file could not be removed) stays in the table, too, and is sent again later.  So
that such orders do not fill the window, they leave it when there was no answer for a while.
"""

from __future__ import annotations

from twisted.logger import Logger

from lcc.interfaces import IQueueStore
from lcc.protocols.work import Delete
from lcc.roles.qm.part import ENDINGS, Hub, Part
from lcc.roles.qm.peers.handler import Connection

_log = Logger()

STUCK_SECONDS = 60.0
LOOK_SECONDS = 10.0
"""Orders become due with time (``delete_grace``): how often the table is read for those."""
FAILED_SECONDS = 5.0
"""After an error of the store."""


class Deleter:
    """Delete orders of all machines.

    :param window: orders outstanding at a BOT-M.
    :param grace_seconds: for how long a file stays after it was deleted.
    :ivar files_deleted: files whose deletion was answered and noted.
    :ivar held_until: no orders are sent before, on the clock.
    """

    def __init__(self, hub: Hub, store: IQueueStore, window: int, grace_seconds: float) -> None:
        self.files_deleted = 0
        self.enabled = False
        self.window = window
        self.held_until = 0.0
        self._grace = grace_seconds
        self._hub = hub
        self._store = store
        self._machines: dict[Connection, _MachineDeletes] = {}

    def connected(self, machine: int, connection: Connection) -> None:
        """This BOT-M takes orders now."""
        deletes = self._machines[connection] = _MachineDeletes(self._hub, self._store, self, machine, connection)
        deletes.start()

    def disconnected(self, connection: Connection) -> None:
        """It is disconnected; its orders stay in the table."""
        deletes = self._machines.pop(connection, None)
        if deletes is not None:
            deletes.stop()

    def deleted(self, connection: Connection, row_id: int) -> None:
        """The file of this order is deleted."""
        deletes = self._machines.get(connection)
        if deletes is not None:
            deletes.deleted(row_id)

    def wake(self) -> None:
        """There are new rows."""
        for deletes in self._machines.values():
            deletes.wake()

    def stepped(self) -> None:
        """The wall clock was set."""
        self.held_until = self._hub.clock.seconds() + self._grace

    def check_stuck(self, now: float) -> None:
        """Called every second: look for orders that have become due, and for those that are not answered."""
        for deletes in list(self._machines.values()):
            deletes.check_stuck(now)

    def enable(self) -> None:
        """The queue manager may write from now on."""
        self.enabled = True
        self.wake()

    def stop(self) -> None:
        """End what is going on."""
        for connection in list(self._machines):
            self.disconnected(connection)
        self.enabled = False


class _MachineDeletes(Part):
    """Those of one connection.

    :ivar _after: the last row that was read.
    :ivar _outstanding: rows sent and not answered.
    :ivar _answered: rows to be taken out of the table.
    :ivar _woken: there may be rows that were not read yet.
    :ivar _again: rows may have come before ``_after``, too: read from the start once everything is answered.
    :ivar _last_answer: when something was answered, or nothing was outstanding.
    :ivar _looked: when the table was last read for orders that have become due.
    """

    ERROR_TEXT = "Cannot send delete orders"

    def __init__(self, hub: Hub, store: IQueueStore, deleter: Deleter, machine: int, connection: Connection) -> None:
        super().__init__(hub, store)
        self._deleter = deleter
        self._machine = machine
        self._connection = connection
        self._after = 0
        self._outstanding: set[int] = set()
        self._answered: list[int] = []
        self._woken = True
        self._again = False
        self._last_answer = hub.clock.seconds()
        self._looked = 0.0

    def start(self) -> None:
        """Send and take out what can be."""
        if self._deleter.enabled and self._has_work():
            self._begin(self._work)

    def deleted(self, row_id: int) -> None:
        """The file of this order is deleted."""
        if row_id in self._outstanding:
            self._outstanding.discard(row_id)
            self._last_answer = self._hub.clock.seconds()
            self._answered.append(row_id)
            self.start()

    def wake(self) -> None:
        """There are new rows."""
        self._woken = self._again = True
        self.start()

    def check_stuck(self, now: float) -> None:
        """Called every second."""
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._woken = True
            self.start()
        if not self._outstanding:
            self._last_answer = now
        elif now - self._last_answer >= STUCK_SECONDS:
            _log.warn(
                "Machine {machine} does not answer {count} delete orders; they are sent again later",
                machine=self._machine,
                count=len(self._outstanding),
            )
            self._outstanding.clear()
            self._last_answer = now
            self._woken = True
            self.start()

    def _ended(self) -> None:
        self.start()

    def _has_work(self) -> bool:
        if self._answered:
            return True
        if self._hub.clock.seconds() < self._deleter.held_until:
            return False  # check_stuck() looks again
        outstanding = len(self._outstanding)
        return (self._woken and outstanding <= self._deleter.window // 2) or (self._again and not outstanding)

    async def _work(self) -> None:
        while self._has_work():
            try:
                if self._answered:
                    await self._take_out()
                else:
                    await self._read()
            except ENDINGS:
                raise
            except Exception:
                _log.failure("Cannot work off the delete orders of machine {machine}", machine=self._machine)
                await self._sleep(FAILED_SECONDS)

    async def _take_out(self) -> None:
        ids, self._answered = self._answered, []
        await self._ask("delete orders", lambda: self._store.deletes_done(ids))
        self._deleter.files_deleted += len(ids)

    async def _read(self) -> None:
        if self._again and not self._outstanding:
            self._after = 0
            self._again = False
        limit = self._deleter.window - len(self._outstanding)
        self._woken = False
        rows = await self._ask(
            "delete orders", lambda: self._store.deletes(self._machine, self._after, limit, self._hub.now())
        )
        for row in rows:
            self._after = row.id
            if row.id not in self._outstanding:
                self._outstanding.add(row.id)
                self._connection.say(Delete(row.id, row.machine, row.file))
        if len(rows) == limit:
            self._woken = True
