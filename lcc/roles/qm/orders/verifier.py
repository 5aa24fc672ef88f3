"""Tells BOT-Ms when no earlier result is pending (*settled*), and verifies files after a crash (*verifying*; P7).

*Settled.*  Results that a BOT-M has sent may still wait to be recorded when it is started anew.  When none of its
earlier runs does so any longer, the new one is told: then a file of an earlier run that is in no row of the database
never will be in one, which is what ``lcc-admin fsck`` has to know of an orphan.

*Verifying.*  A BOT-M whose machine has crashed names in its hello the files that may be lost.  Once it is settled, it
is asked about each of these that a row refers to, a page at a time; what it says is damaged is queued to be fetched
again, durably; after the last page it is told that nothing is suspect any longer.  When the connection is lost, the
next one begins anew.  Rows that move on meanwhile do no harm: what no row refers to is not fetched again.
"""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.interfaces import IQueueStore
from lcc.protocols.work import Checked, Intact, Settled, Verify
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.part import Hub, Part
from lcc.roles.qm.peers.handler import Connection

_log = Logger()

PAGE_FILES = 200


class Verifier:
    """All machines."""

    def __init__(self, hub: Hub, store: IQueueStore, recorder: Recorder) -> None:
        self._hub = hub
        self._store = store
        self._recorder = recorder
        self._verifications: dict[int, _Verification] = {}

    def tick(self) -> None:
        """Called every second."""
        for machine in self._hub.machines:
            connection = machine.connection
            if connection is None or not machine.ready or machine.settled:
                continue
            if not self._recorder.holds_earlier(machine, machine.run):
                machine.settled = True
                connection.say(Settled())
                if machine.suspect[1]:
                    self._start(machine, connection)

    def checked(self, machine: Machine, connection: Connection, message: Checked) -> None:
        """A BOT-M has looked at a file."""
        verification = self._verifications.get(machine.number)
        if verification is not None and verification.connection is connection:
            verification.checked(message)

    def disconnected(self, machine: Machine, connection: Connection) -> None:
        """This connection is lost."""
        verification = self._verifications.get(machine.number)
        if verification is not None and verification.connection is connection:
            del self._verifications[machine.number]
            verification.stop()

    def stop(self) -> None:
        """End what is going on."""
        while self._verifications:
            self._verifications.popitem()[1].stop()

    def _start(self, machine: Machine, connection: Connection) -> None:
        earlier = self._verifications.get(machine.number)
        if earlier is not None:
            earlier.stop()
        verification = _Verification(self._hub, self._store, machine, connection)
        self._verifications[machine.number] = verification
        verification.start()


class _Verification(Part):
    """That of one connection.

    :ivar _asked: files that its BOT-M was asked about and has not answered.
    :ivar _damaged: files of these that it says are.
    :ivar _answered: fires when it has answered all.
    """

    ERROR_TEXT = "Cannot verify the content of a machine"

    def __init__(self, hub: Hub, store: IQueueStore, machine: Machine, connection: Connection) -> None:
        super().__init__(hub, store)
        self.connection = connection
        self._machine = machine
        self._asked: set[int] = set()
        self._damaged: list[int] = []
        self._answered: Deferred[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._begin(self._verify)

    def checked(self, message: Checked) -> None:
        """Its BOT-M has looked at a file."""
        if message.file not in self._asked:
            return
        self._asked.discard(message.file)
        if not message.ok:
            self._damaged.append(message.file)
        if not self._asked and self._answered is not None:
            answered, self._answered = self._answered, None
            answered.callback(None)

    async def _verify(self) -> None:
        number = self._machine.number
        first, upto = self._machine.suspect
        _log.warn(
            "Machine {number} has crashed; verifying its content files {first} to {last}",
            number=number,
            first=first,
            last=upto - 1,
        )
        after, looked, lost = first - 1, 0, 0
        while True:
            question = partial(self._store.content_rows, number, after, upto, PAGE_FILES)
            rows = await self._ask("content to be verified", question)
            if not rows:
                break
            self._asked = {row.file for row in rows}
            self._damaged = []
            answered = self._answered = Deferred()
            for row in rows:
                self.connection.say(Verify(row.file, row.size_bytes, row.md5))
            await answered
            looked += len(rows)
            lost += len(self._damaged)
            if self._damaged:
                await self._fetch_again(number, self._damaged)
            after = rows[-1].file
        self.connection.say(Intact(upto))
        _log.info(
            "Content of machine {number} verified: {lost} of {looked} files were lost, and are fetched again",
            number=number,
            looked=looked,
            lost=lost,
        )

    async def _fetch_again(self, number: int, files: list[int]) -> None:
        question = partial(self._store.fetch_again, number, files, self._hub.now())
        self._hub.absorbed(await self._ask("fetching again what was lost", question))

    def _log_failure(self, failure: Failure) -> None:
        _log.failure("Cannot verify the content of machine {number}", failure=failure, number=self._machine.number)
