"""Which machines may have orders running, kept in the database for the queue manager that comes after this one.

A queue manager that was killed leaves orders behind.  The next one learns from each BOT-M, before it says that it is
ready, what is still running there; but of a BOT-M that is disconnected it knows nothing, and must not have a provider
fetched elsewhere that may still be fetched there.  The rule is simple:

* Orders go to a machine only while the table ``machines`` says, durably, that orders may be running there for a lease
  from now on.  This is kept a quarter of a lease ahead while there is something to fetch, so it is written rarely; it
  is taken back when nothing is queued, or when the machine is disconnected and has no orders.
* After a start, providers that had rows to be fetched are not fetched from until each machine for which the table
  names a time has said that it is ready, or a lease has passed from the start (and what the note was ahead).  Where
  it says that robots hang which may be fetching, a lease from its own start counts, which may have passed long ago.
  This is measured on the clock that is never set: what the table says is a time of day, for people, and the wall
  clock may show another one by now.  When the time is over, that is noted, so that the next queue manager does not
  wait again.  In the usual case, all machines back within seconds, nothing waits for longer than that.  A provider
  that had nothing in the queue is not being fetched from, since a row stays until its result is recorded; nor is one
  that has an order at a machine that is back.  Those wait for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from twisted.logger import Logger

from lcc.interfaces import IQueueStore
from lcc.model import MachineState
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.part import Hub, Part
from lcc.roles.qm.schedule.scheduler import Scheduler

_log = Logger()

AHEAD = 0.25
"""How far ahead, in leases, what is noted is ahead of what is needed."""
SPARE_SECONDS = 2.0
"""A machine gets no more orders when what is noted is less than this ahead of what is needed."""


class Leases(Part):
    """What is noted of the machines.  A database that is unavailable is asked again with the next tick.

    :param lease_seconds: of an order.
    :param more_work: whether there is anything to fetch.
    :ivar awaited: machine -> until when, on the clock, orders of an earlier queue manager may be running there.
    :ivar longest_seconds: the lease of any order that may be out: that of an earlier queue manager may have been set
        longer.
    """

    ASKS_AGAIN = False
    ERROR_TEXT = "Cannot note which machines have orders"

    def __init__(
        self,
        hub: Hub,
        store: IQueueStore,
        scheduler: Scheduler,
        lease_seconds: float,
        more_work: Callable[[], bool],
    ) -> None:
        super().__init__(hub, store)
        self.awaited: dict[int, float] = {}
        self.longest_seconds = lease_seconds
        self._scheduler = scheduler
        self._lease = lease_seconds
        self._more_work = more_work
        self._states: dict[int, MachineState] = {}
        self._noted: dict[int, float] = {}
        self._enabled = False
        self._again = False
        self._longest_until = 0.0

    def load(self, states: Iterable[MachineState], earlier_seconds: float = 0.0) -> None:
        """Begin with what the queue manager before this one has noted.

        :param earlier_seconds: the longest lease that its orders may have; 0: it did not say.
        """
        self.longest_seconds = max(self._lease, earlier_seconds)
        # One that still runs may go on giving out orders until its notes are used up.
        seconds = self.longest_seconds * (1 + AHEAD) + SPARE_SECONDS
        for state in states:
            self._states[state.machine] = state
            if state.lease_until:
                self.awaited[state.machine] = self._hub.clock.seconds() + seconds
        for machine in self._hub.machines:
            if machine.ready:
                self._is_back(machine)
        self._longest_until = self._hub.clock.seconds() + seconds
        self._enabled = True
        for number in self.awaited:
            _log.info(
                "Machine {number} may still have orders: what was queued before waits until its BOT-M connects, or "
                "{seconds} seconds have passed",
                number=number,
                seconds=round(seconds),
            )

    def connected(self, number: int, names_upto: int) -> None:
        """A BOT-M has connected; noted with whatever is noted next."""
        state = self._states.get(number, MachineState(number))
        changed = state._replace(last_seen=self._hub.now(), names_upto=max(names_upto, state.names_upto))
        self._states[number] = changed
        self._save([changed])

    def ready(self, machine: Machine) -> None:
        """A BOT-M has said what is running there."""
        if machine.number in self.awaited and self._is_back(machine) and not self.awaited:
            _log.info("All machines that may have had orders have connected")
            self._over()
        self.tick()

    def tick(self) -> None:
        """To be called every second, and when there is work: note what has to be noted."""
        if not self._enabled:
            return
        clock, now = self._hub.clock.seconds(), self._hub.now()
        if clock >= self._longest_until:
            self.longest_seconds = self._lease
        passed = [number for number, until in self.awaited.items() if until <= clock]
        for number in passed:
            del self.awaited[number]
            _log.warn("The leases of all orders that machine {number} may have had have passed", number=number)
        if passed and not self.awaited:
            self._over()
        if self._job.busy:
            self._again = True
            self._grant()  # a write that hangs keeps no machine beyond its note
            return
        changed: list[MachineState] = []
        notes: dict[int, float] = {}
        machines = {machine.number: machine for machine in self._hub.machines}
        for number in sorted(machines.keys() | self._states.keys()):
            machine, state = machines.get(number), self._states.get(number, MachineState(number))
            if machine is not None and machine.ready and (machine.orders or self._more_work()):
                if self._ahead(number, clock) < self._lease * AHEAD / 2 + SPARE_SECONDS:
                    seconds = self._lease * (1 + AHEAD) + SPARE_SECONDS
                    notes[number] = clock + seconds
                    changed.append(state._replace(last_seen=now, lease_until=int(now + seconds) + 1))
            elif machine is None or not machine.orders:
                self._noted.pop(number, None)  # from now on it gets nothing, whether that is saved or not
                if state.lease_until and number not in self.awaited:
                    seen = state.last_seen if machine is None else now
                    changed.append(state._replace(last_seen=seen, lease_until=0))
        if changed:
            self._save(changed, notes)
        self._grant()

    def stop(self) -> None:
        """End what is going on."""
        self._enabled = False
        super().stop()

    def _is_back(self, machine: Machine) -> bool:
        """It has named what is running there: nothing more is waited for, but for what its robots that hang had."""
        until = self._hub.clock.seconds()
        if machine.unsure is not None:
            # What went to the run before this one went before this one was started.
            until = min(machine.unsure + self.longest_seconds, self.awaited.get(machine.number, until))
        if until > self._hub.clock.seconds():
            self.awaited[machine.number] = until
            return False
        self.awaited.pop(machine.number, None)
        return True

    def _over(self) -> None:
        """No orders of an earlier queue manager are running that are not known."""
        self._scheduler.let_go(self._hub.wall_clock())
        self._hub.pump()

    def _ahead(self, number: int, clock: float) -> float:
        """How many seconds what is noted of a machine is ahead of what an order needs."""
        return self._noted.get(number, clock) - clock - self._lease

    def _save(self, changed: list[MachineState], notes: Mapping[int, float] = MappingProxyType({})) -> None:
        """
        :param notes: machine -> until when, on the clock, it may have orders once this is saved.
        """
        if self._enabled:
            self._begin(self._write, changed, notes)  # if one is running, the next tick comes

    async def _write(self, changed: list[MachineState], notes: Mapping[int, float]) -> None:
        await self._ask("noting which machines have orders", lambda: self._store.save_machines(changed))
        self._noted |= notes
        for state in changed:
            known = self._states.get(state.machine, state)
            self._states[state.machine] = known._replace(last_seen=state.last_seen, lease_until=state.lease_until)

    def _ended(self) -> None:
        again, self._again = self._again, False
        if again:
            self.tick()  # what has come meanwhile does not wait for the next second
        else:
            self._grant()

    def _grant(self) -> None:
        """Decide who may get orders now."""
        if not self._enabled:
            return
        clock = self._hub.clock.seconds()
        more = False
        for machine in self._hub.machines:
            granted = machine.ready and self._ahead(machine.number, clock) >= SPARE_SECONDS
            more = more or (granted and not machine.granted)
            machine.granted = granted
        if more:
            self._hub.pump()
