"""Settling what earlier runs of a BOT-M have left, and verifying what a crash of its machine may have lost (P7).

*Settled.*  Results that a BOT-M has sent may still wait to be recorded when it is started anew.  When none of its
earlier runs does so any longer, the new one is told: then a file of an earlier run that is in no row of the database
never will be in one, which is what ``lcc-admin fsck`` has to know of an orphan.

*Verifying.*  A BOT-M whose machine has crashed names in its hello the files that may be lost.  Once it is settled, it
is asked about each of these that a row refers to, a page at a time; what it says is damaged is queued to be fetched
again, durably; after the last page it is told that nothing is suspect any longer.  When the connection is lost, the
next one begins anew.  Rows that move on meanwhile do no harm: what no row refers to is not fetched again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy
from lcc.interfaces import IQueueStore
from lcc.model import Absorbed
from lcc.protocols.work import Checked, Intact, Settled, Verify
from lcc.roles.qm.orders.machines import Line, Machine
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.patience import Patience

_log = Logger()

PAGE_FILES = 200


class Verifying(Protocol):
    """What is needed of the engine."""

    recorder: Recorder

    def now(self) -> int:
        """Seconds since 1970."""

    def machine_list(self) -> Iterable[Machine]:
        """All machines that have connected."""

    def absorbed(self, outcome: Absorbed) -> None:
        """Something was queued."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""


class _Talk:
    """What is going on with one connection.

    :ivar asked: files that it was asked about and has not answered.
    :ivar damaged: files of these that it says are.
    :ivar answered: fires when it has answered all.
    """

    def __init__(self, line: Line) -> None:
        self.line = line
        self.asked: set[int] = set()
        self.damaged: list[int] = []
        self.answered: Deferred[None] | None = None
        self.work: Deferred[None] | None = None


class Verifier:
    """All machines.

    :ivar files_lost: found damaged so far.
    """

    def __init__(self, engine: Verifying, store: IQueueStore, patience: Patience) -> None:
        self.files_lost = 0
        self._engine = engine
        self._store = store
        self._patience = patience
        self._talks: dict[int, _Talk] = {}

    def tick(self) -> None:
        """To be called every second."""
        for machine in self._engine.machine_list():
            line = machine.line
            if line is None or not machine.ready or machine.settled:
                continue
            if not self._engine.recorder.holds_earlier(machine, machine.run):
                machine.settled = True
                line.say(Settled())
                if machine.suspect[1]:
                    self._start(machine, line)

    def checked(self, machine: Machine, line: Line, message: Checked) -> None:
        """A BOT-M has looked at a file."""
        talk = self._talks.get(machine.number)
        if talk is None or talk.line is not line or message.file not in talk.asked:
            return
        talk.asked.discard(message.file)
        if not message.ok:
            talk.damaged.append(message.file)
        if not talk.asked and talk.answered is not None:
            answered, talk.answered = talk.answered, None
            answered.callback(None)

    def disconnected(self, machine: Machine, line: Line) -> None:
        """This connection is gone."""
        talk = self._talks.get(machine.number)
        if talk is not None and talk.line is line:
            self._end(machine.number)

    def stop(self) -> None:
        """End what is going on."""
        for number in list(self._talks):
            self._end(number)

    def _end(self, number: int) -> None:
        work = self._talks.pop(number).work
        if work is not None:
            work.cancel()

    def _start(self, machine: Machine, line: Line) -> None:
        if machine.number in self._talks:
            self._end(machine.number)
        talk = self._talks[machine.number] = _Talk(line)
        work = talk.work = Deferred.fromCoroutine(self._verify(machine, talk))
        work.addErrback(self._failed, machine)

    def _failed(self, failure: Failure, machine: Machine) -> None:
        if isinstance(failure.value, Busy):
            self._engine.fatal(failure.value)
        elif not failure.check(CancelledError):
            _log.failure("The content of machine {number} is not verified", failure=failure, number=machine.number)

    async def _verify(self, machine: Machine, talk: _Talk) -> None:
        first, upto = machine.suspect
        _log.warn(
            "Machine {number} has crashed: its content files {first} to {last} are verified",
            number=machine.number,
            first=first,
            last=upto - 1,
        )
        after, looked, lost = first - 1, 0, 0
        while True:
            question = partial(self._store.content_rows, machine.number, after, upto, PAGE_FILES)
            rows = await self._patience.ask("content to be verified", question)
            if not rows:
                break
            talk.asked = {row.file for row in rows}
            talk.damaged = []
            answered = talk.answered = Deferred()
            for row in rows:
                talk.line.say(Verify(row.file, row.size_bytes, row.md5))
            await answered
            looked += len(rows)
            lost += len(talk.damaged)
            await self._fetch_again(machine, talk.damaged)
            after = rows[-1].file
        talk.line.say(Intact(upto))
        _log.info(
            "The content of machine {number} is verified: of {looked} files {lost} were lost, and are fetched again",
            number=machine.number,
            looked=looked,
            lost=lost,
        )

    async def _fetch_again(self, machine: Machine, files: list[int]) -> None:
        if files:
            question = partial(self._store.fetch_again, machine.number, files, self._engine.now())
            outcome = await self._patience.ask("fetching again what was lost", question)
            self.files_lost += len(files)
            self._engine.absorbed(outcome)
