"""The delete manager: sees to it that files of deleted content go away (seed 002, section 6).

The delete orders are rows of ``fsmdb``, so they survive everything.  For each BOT-M that is connected this pages
through its rows, keeps at most a window of them outstanding, and takes the answered ones out in batches.  A file
stays for a while after it was deleted (``delete_grace``), so that readers can finish.  What is for a BOT-M that is
away simply stays in the table until it connects.  When an order is due stands there as a time of the wall clock: once
that was set, no file is removed for ``delete_grace``; all that were deleted before have stayed for so long then.

An order that is not answered (the file could not be removed) stays in the table, too, and is sent again later.  So
that such orders do not fill the window, they leave it when there was no answer for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from lcc.errors import Busy
from lcc.interfaces import IQueueStore
from lcc.protocols.work import Delete
from lcc.roles.background import Background
from lcc.roles.qm.orders.machines import Line
from lcc.roles.qm.patience import Patience

_log = Logger()

STUCK_SECONDS = 60.0
LOOK_SECONDS = 10.0
"""Orders become due with time (``delete_grace``): how often it is looked whether some have."""


class Deleting(Protocol):
    """What the delete manager needs of the engine."""

    def now(self) -> int:
        """Seconds since 1970."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""


class _Client:
    """A BOT-M that is connected.

    :ivar after: the last row that was read.
    :ivar outstanding: rows sent and not answered.
    :ivar answered: rows to be taken out of the table.
    :ivar woken: there may be rows that were not read yet.
    :ivar last_answer: when something was answered, or nothing was outstanding.
    :ivar looked: when it was last looked whether orders have become due.
    :ivar again: rows may have come before ``after``, too: read from the start once everything is answered.
    """

    def __init__(self, machine: int, line: Line, ended: Callable[[], None]) -> None:
        self.machine = machine
        self.line = line
        self.after = 0
        self.outstanding: set[int] = set()
        self.answered: list[int] = []
        self.woken = True
        self.again = False
        self.work = Background("Deleting has failed", ended)
        self.last_answer = 0.0
        self.looked = 0.0


class Deleter:
    """Delete orders of all machines.

    :param window: orders outstanding at a BOT-M.
    :param grace_seconds: for how long a file stays after it was deleted.
    """

    def __init__(
        self, engine: Deleting, store: IQueueStore, patience: Patience, window: int, grace_seconds: float
    ) -> None:
        self.files_deleted = 0
        self._engine = engine
        self._store = store
        self._patience = patience
        self._window = window
        self._grace = grace_seconds
        self._held_until = 0.0
        self._clients: dict[Line, _Client] = {}
        self._enabled = False

    def connected(self, machine: int, line: Line) -> None:
        """This BOT-M takes orders now."""
        client = self._clients[line] = _Client(machine, line, lambda: self._worked(client))
        client.last_answer = self._patience.clock.seconds()
        self._start(client)

    def disconnected(self, line: Line) -> None:
        """It is gone; its orders stay in the table."""
        client = self._clients.pop(line, None)
        if client is not None:
            client.work.cancel()

    def deleted(self, line: Line, row_id: int) -> None:
        """The file of this order is gone."""
        client = self._clients.get(line)
        if client is not None and row_id in client.outstanding:
            client.outstanding.discard(row_id)
            client.last_answer = self._patience.clock.seconds()
            client.answered.append(row_id)
            self._start(client)

    def wake(self) -> None:
        """There are new rows."""
        for client in self._clients.values():
            client.woken = client.again = True
            self._start(client)

    def stepped(self) -> None:
        """The wall clock was set."""
        self._held_until = self._patience.clock.seconds() + self._grace

    def check_stuck(self, now: float) -> None:
        """Called now and then: go on where nothing is answered."""
        for client in list(self._clients.values()):
            if now - client.looked >= LOOK_SECONDS:
                client.looked = now
                client.woken = True
                self._start(client)
            if not client.outstanding:
                client.last_answer = now
            elif now - client.last_answer >= STUCK_SECONDS:
                _log.warn(
                    "Machine {machine} does not answer {count} delete orders; they are sent again later",
                    machine=client.machine,
                    count=len(client.outstanding),
                )
                client.outstanding.clear()
                client.last_answer = now
                client.woken = True
                self._start(client)

    def enable(self) -> None:
        """The queue manager may write from now on."""
        self._enabled = True
        self.wake()

    def stop(self) -> None:
        """End what is going on."""
        for line in list(self._clients):
            self.disconnected(line)
        self._enabled = False

    def _start(self, client: _Client) -> None:
        if not client.work.busy and self._enabled and self._has_work(client):
            client.work.begin(self._work(client))

    def _worked(self, client: _Client) -> None:
        if self._clients.get(client.line) is client:
            self._start(client)

    def _has_work(self, client: _Client) -> bool:
        if client.answered:
            return True
        if self._patience.clock.seconds() < self._held_until:
            return False  # check_stuck() looks again
        outstanding = len(client.outstanding)
        return (client.woken and outstanding <= self._window // 2) or (client.again and not outstanding)

    async def _work(self, client: _Client) -> None:
        while self._has_work(client):
            try:
                if client.answered:
                    await self._take_out(client)
                else:
                    await self._read(client)
            except Busy as error:
                self._engine.fatal(error)
                return
            except CancelledError:
                raise
            except Exception:
                _log.failure("The delete orders of machine {machine} are stuck", machine=client.machine)
                await self._patience.sleep(5.0)

    async def _take_out(self, client: _Client) -> None:
        ids, client.answered = client.answered, []
        await self._patience.ask("delete orders", lambda: self._store.deletes_done(ids))
        self.files_deleted += len(ids)

    async def _read(self, client: _Client) -> None:
        if client.again and not client.outstanding:
            client.after = 0
            client.again = False
        limit = self._window - len(client.outstanding)
        client.woken = False
        rows = await self._patience.ask(
            "delete orders", lambda: self._store.deletes(client.machine, client.after, limit, self._engine.now())
        )
        for row in rows:
            client.after = row.id
            if row.id not in client.outstanding:
                client.outstanding.add(row.id)
                client.line.say(Delete(row.id, row.machine, row.file))
        if len(rows) == limit:
            client.woken = True
