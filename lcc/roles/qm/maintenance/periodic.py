"""What a queue manager does besides its work: not taking in too much, noticing losses, noting where orders are out.

The engine tells what happens; see :mod:`~lcc.roles.qm.intake.overload`, :mod:`~lcc.roles.qm.maintenance.repair` and
:mod:`~lcc.roles.qm.orders.leases` for what is done about it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from lcc.config import QmConfig
from lcc.errors import Busy
from lcc.interfaces import IQueueStore
from lcc.model import Absorbed, Claim, Recorded
from lcc.protocols.hello import Hello
from lcc.roles.qm.intake.absorber import Absorber
from lcc.roles.qm.intake.overload import Intake
from lcc.roles.qm.maintenance.repair import Repair
from lcc.roles.qm.orders.leases import Leases
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.patience import Patience
from lcc.roles.qm.peers.connections import Caller, Guest


class Engine(Protocol):
    """What is needed of the engine."""

    def now(self) -> int:
        """Seconds since 1970."""

    def clock_seconds(self) -> float:
        """The clock that leases are measured on."""

    def pump(self) -> None:
        """Something may be given out."""

    def leases_over(self) -> None:
        """No orders of an earlier queue manager are running that are not known."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""

    @property
    def absorbers(self) -> Collection[Absorber]:
        """The UNSes that are connected."""

    def machine_list(self) -> Iterable[Machine]:
        """All machines that have connected."""

    @property
    def has_rows(self) -> bool:
        """Rows of the queue are about to be given out, or taken away."""


class Upkeep:
    """All of it."""

    def __init__(
        self,
        engine: Engine,
        store: IQueueStore,
        patience: Patience,
        settings: QmConfig,
        random: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._store = store
        self._patience = patience
        self.intake = Intake(engine, store, settings)
        self.repair = Repair(engine, store, patience, random)
        self.leases = Leases(engine, store, settings.lease, self._has_work)

    def _has_work(self) -> bool:
        # Rows that do "nothing" are not counted, but are taken away only where orders may be given out.
        return self.intake.queue_rows > 0 or self._engine.has_rows

    async def starting(self, claim: Claim) -> None:
        """Before anything is taken in or given out."""
        await self._patience.ask("measuring the queue", self.intake.check)
        states = await self._patience.ask("what machines had orders", self._store.machines)
        self.leases.load(states, claim.saved_lease)

    def started(self, claim: Claim) -> None:
        """Work begins."""
        self.repair.begin(claim)
        self.leases.tick()

    def stop(self) -> None:
        """End what is going on."""
        self.intake.stop()
        self.repair.stop()
        self.leases.stop()

    def tick(self, clock_seconds: float) -> None:
        """To be called every second."""
        self.intake.tick(clock_seconds)
        self.leases.tick()
        for machine in self._engine.machine_list():
            if machine.ready:
                machine.tell_progress(*self.progress)

    @property
    def progress(self) -> tuple[str, int]:
        """How far the cache has come, as far as is known here: its timeline, and the number of its last change."""
        return self.intake.progress

    def recorded(self, outcome: Recorded) -> None:
        """A batch of results is recorded."""
        self.intake.changed(outcome.change)

    def absorbed(self, outcome: Absorbed) -> None:
        """Pieces of sets are in the queue."""
        if outcome.queued:
            self.intake.queue_rows = max(1, self.intake.queue_rows)
            self.leases.tick()

    def welcome(self, visitor: Caller, hello: Hello, admit: Callable[[], Guest]) -> Guest:
        """Somebody has said hello.

        :param admit: lets it in.
        :raises StreamError: it is turned away.
        """
        self.intake.welcome(hello)
        return self.repair.welcome(visitor, hello, admit)

    def botm_hello(self, hello: Hello) -> None:
        """A BOT-M is let in."""
        self.leases.said_hello(hello.machine, hello.names_upto)

    def botm_ready(self, machine: Machine) -> None:
        """A BOT-M has said what is running there."""
        self.leases.ready(machine.number)
        machine.tell_progress(*self.progress)
