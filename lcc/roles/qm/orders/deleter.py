"""The delete manager: sees to it that files of deleted content go away (seed 002, section 6).

The delete orders are rows of ``fsmdb``, so they survive everything.  For each BOT-M that is connected this pages
through its rows, keeps at most a window of them outstanding, and takes the answered ones out.  There is no hurry, and
each transaction is one that sets and results have to wait for: answers are taken out when half a window has come, or
all, or after a second; new rows are read once a second, unless there was a whole window of them.

A file stays for a while after it was deleted (``delete_grace``), so that readers can finish.  What is for a BOT-M
that is not connected stays in the table until it connects.  When an order is due stands there as a time of the
wall clock: once that was set, no file is removed for ``delete_grace``; all that were deleted before have stayed
for so long then.

An order that is not answered (the file could not be removed) stays in the table, too, and is sent again: at once when
all others were sent, then less and less often.  So that such orders do not fill the window, each of them leaves it
after a while.
"""

from __future__ import annotations

from typing import NamedTuple

from twisted.logger import Logger

from lcc.interfaces import IQueueStore
from lcc.protocols.work import Delete
from lcc.roles.qm.part import ENDINGS, Hub, Part
from lcc.roles.qm.peers.handler import Connection

_log = Logger()

STUCK_SECONDS = 60.0
STUCK_SECONDS_MAX = 3600.0
"""An order that is not answered again and again is sent once in this time."""
LOOK_SECONDS = 10.0
"""Orders become due with time (``delete_grace``): how often the table is read for those."""
WOKEN_SECONDS = 1.0
"""How often at most it is read for new ones; without ``delete_grace`` always, as they are due at once."""
FAILED_SECONDS = 5.0
"""After an error of the store."""


class Deleter:
    """Delete orders of all machines.

    :param window: orders outstanding at a BOT-M.
    :param grace_seconds: for how long a file stays after it was deleted.
    :ivar files_deleted: files whose deletion was answered and noted.
    :ivar held_until: no orders are sent before, on the clock.
    :ivar woken_seconds: how often at most the table is read for new orders.
    """

    def __init__(self, hub: Hub, store: IQueueStore, window: int, grace_seconds: float) -> None:
        self.files_deleted = 0
        self.enabled = False
        self.window = window
        self.held_until = 0.0
        self.woken_seconds = min(WOKEN_SECONDS, grace_seconds)
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


class _Rest(NamedTuple):
    """An order that was not answered.

    :ivar until: it is not sent again before.
    :ivar seconds: for how long.
    """

    until: float
    seconds: float


_NONE = _Rest(0.0, 0.0)


class _MachineDeletes(Part):
    """Those of one connection.

    :ivar _after: the last row that was read.
    :ivar _outstanding: rows sent and not answered; when each was sent.
    :ivar _answered: rows to be taken out of the table.
    :ivar _overdue: some of them have waited for a second: however few they are, they go now.
    :ivar _more: the last read did not reach the end of those that are due.
    :ivar _woken: there may be rows that were not read yet.
    :ivar _again: rows may have come before ``_after``, too: read from the start once everything is answered.
    :ivar _resting: the last rows that were not answered, as many as a window: once the rest of one is over, the table
        is read from the start.
    :ivar _quiet_until: no warning before.
    :ivar _read_at: when the table was last read.
    """

    ERROR_TEXT = "Cannot send delete orders"

    def __init__(self, hub: Hub, store: IQueueStore, deleter: Deleter, machine: int, connection: Connection) -> None:
        super().__init__(hub, store)
        self._deleter = deleter
        self._machine = machine
        self._connection = connection
        self._after = 0
        self._outstanding: dict[int, float] = {}
        self._answered: list[int] = []
        self._overdue = False
        self._more = True
        self._woken = False
        self._again = False
        self._resting: dict[int, _Rest] = {}
        self._quiet_until = 0.0
        self._read_at = hub.clock.seconds()

    def start(self) -> None:
        """Send and take out what can be."""
        if self._deleter.enabled and self._has_work():
            self._begin(self._work)

    def deleted(self, row_id: int) -> None:
        """The file of this order is deleted."""
        if row_id in self._outstanding or row_id in self._resting:  # late is better than never
            self._outstanding.pop(row_id, None)
            self._resting.pop(row_id, None)
            self._answered.append(row_id)
            self.start()

    def wake(self) -> None:
        """There are new rows."""
        self._woken = self._again = True
        self.start()

    def check_stuck(self, now: float) -> None:
        """Called every second."""
        self._overdue = bool(self._answered)
        if now - self._read_at >= LOOK_SECONDS:
            self._woken = True
            self._again |= not self._more and any(
                rest.until <= now for row_id, rest in self._resting.items() if row_id not in self._outstanding
            )
        stuck = [row_id for row_id, sent in self._outstanding.items() if now - sent >= STUCK_SECONDS]
        for row_id in stuck:
            self._give_up(row_id, now)
        if stuck:
            self._more = True
            if now >= self._quiet_until:
                self._quiet_until = now + STUCK_SECONDS
                _log.warn(
                    "Machine {machine} does not answer {count} delete orders; they are sent again later",
                    machine=self._machine,
                    count=len(self._resting),
                )
        self.start()

    def _give_up(self, row_id: int, now: float) -> None:
        del self._outstanding[row_id]
        seconds = 0.0
        if row_id in self._resting:
            seconds = min(max(STUCK_SECONDS, 2 * self._resting[row_id].seconds), STUCK_SECONDS_MAX)
        elif len(self._resting) >= self._deleter.window:
            del self._resting[next(iter(self._resting))]
            self._again = True
        self._resting[row_id] = _Rest(now + seconds, seconds)

    def _ended(self) -> None:
        self.start()

    def _is_batch(self) -> bool:
        enough = not self._outstanding or len(self._answered) >= (self._deleter.window + 1) // 2
        return bool(self._answered) and (enough or self._overdue)

    def _may_read(self) -> bool:
        now = self._hub.clock.seconds()
        if now < self._deleter.held_until:
            return False
        outstanding = len(self._outstanding)
        if outstanding > self._deleter.window // 2:
            return False
        is_time = now - self._read_at >= self._deleter.woken_seconds
        return self._more or (is_time and (self._woken or (self._again and not outstanding)))

    def _has_work(self) -> bool:
        return self._is_batch() or self._may_read()

    async def _work(self) -> None:
        while self._has_work():
            try:
                if self._is_batch():
                    await self._take_out()
                else:
                    await self._read()
            except ENDINGS:
                raise
            except Exception:
                _log.failure("Cannot work off the delete orders of machine {machine}", machine=self._machine)
                await self._sleep(FAILED_SECONDS)

    async def _take_out(self) -> None:
        ids, self._answered, self._overdue = self._answered, [], False
        await self._ask("delete orders", lambda: self._store.deletes_done(ids))
        self._deleter.files_deleted += len(ids)

    async def _read(self) -> None:
        if self._again and not self._outstanding:
            self._after = 0
            self._again = False
        limit = self._deleter.window - len(self._outstanding)
        self._more = self._woken = False
        self._read_at = self._hub.clock.seconds()
        rows = await self._ask(
            "delete orders", lambda: self._store.deletes(self._machine, self._after, limit, self._hub.now())
        )
        known = {*self._outstanding, *self._answered}  # the latter late, maybe while the table was read
        for row in rows:
            self._after = row.id
            if row.id not in known and self._resting.get(row.id, _NONE).until <= self._read_at:
                self._outstanding[row.id] = self._read_at
                self._connection.say(Delete(row.id, row.machine, row.file))
        self._more = len(rows) == limit
