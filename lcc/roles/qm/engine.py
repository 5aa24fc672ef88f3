"""QM, the queue manager (seed 002, section 6).

What it owns
    The queue (``qdb``, ``qpsdb``) and the cache (``lccurl``, ``fsmdb``): nobody else writes them.  Everything that
    must survive is in the database; what is in memory can be lost at any moment.

What it does
    UNSes and BOT-Ms connect to it, at any time.  Sets are absorbed into the queue in batches (``absorber``); a set
    is answered when it is durable.  Providers take their turns (``turns``); rows are read ahead for those whose
    turn it is, and handed out one at a time for each (``scheduler``).  They go as orders to the BOT-Ms
    (``dispatcher``), results come back and are recorded in batches (``recorder``), content that is deleted is
    removed from its machine (``deleter``).  Once a second it carries out what ``lcc-admin`` ordered, gives up
    orders whose leases have passed, and releases what has waited long enough
    (``keeper``, ``retries``).

What it promises
    Each row of the queue is handed out, in order, until its result is recorded; one fetch at a time for each
    provider; what arrives while its URL is being fetched is fetched again.  Memory is bounded: waiting elements for
    each UNS, waiting results, rows read ahead, and a number for each provider that waits.

Failures
    *The database is away*: everything waits and is tried again with growing delays; peers are paused when enough
    has gathered; nothing ends.  *A newer queue manager has claimed the database*: this one stops (``Busy``).  *It
    is killed*: the UNSes send again what was not answered, the BOT-Ms say what is running and send again the
    results that were not acknowledged; the store applies each only once.  Nothing is sent to a BOT-M before it has
    said all that. *A UNS or a BOT-M is gone*: see ``absorber`` and ``dispatcher``.  *Sets or results that cannot be
    stored* are refused or recorded as errors, one by one, and never stop what is behind them.  Delays, and what
    waits to be tried again, stand in the database and outlast the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import QmConfig
from lcc.domain.timeslots import TimeSlots
from lcc.errors import Busy
from lcc.interfaces import IQueueStore
from lcc.model import Absorbed, CarriedOut, Delay, Recorded
from lcc.protocols.hello import Hello
from lcc.roles.background import Background
from lcc.roles.qm.intake.absorber import Absorber
from lcc.roles.qm.maintenance.housekeeping import Housekeeper
from lcc.roles.qm.maintenance.periodic import Upkeep
from lcc.roles.qm.maintenance.reader import Reader
from lcc.roles.qm.maintenance.state import StateSaver
from lcc.roles.qm.maintenance.timers import Timekeeper
from lcc.roles.qm.maintenance.wall_clock import WallClock
from lcc.roles.qm.orders.deleter import Deleter
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.machines import Line, Machine
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.orders.verifier import Verifier
from lcc.roles.qm.patience import Patience
from lcc.roles.qm.peers.botms import Botm
from lcc.roles.qm.peers.central import Behind, Central
from lcc.roles.qm.peers.connections import BOTM_ONLY, UNS_AND_BOTM, Guest, Visitor, VisitorFactory
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.hours_filter import Closed
from lcc.roles.qm.schedule.ready_queue import ReadyQueue
from lcc.roles.qm.schedule.scheduler import Scheduler

_log = Logger()

TICK_SECONDS = 1.0


class QmEngine:
    """The queue manager.

    :param clock: for all timers and leases; it is never set.
    :param wall_clock: seconds since 1970; it may be set at any time.
    :param random: gives numbers in [0, 1).
    :param stop_process: called once when this queue manager must not go on.
    :param timeslots: the LCC's period of hours.
    """

    def __init__(
        self,
        store: IQueueStore,
        settings: QmConfig,
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        random: Callable[[], float],
        stop_process: Callable[[], None],
        timeslots: TimeSlots | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self._wall_clock = wall_clock = WallClock(wall_clock, clock, self._stepped)
        self._stop_process = stop_process
        self.patience = Patience(clock, random)
        self.timeslots = timeslots or TimeSlots()
        self.scheduler = Scheduler(
            ReadyQueue(),
            Delays(settings.hold_initial, settings.hold_maximum, random),
            self.timeslots,
            settings.read_ahead,
            settings.read_ahead_total,
            settings.quantum_urls,
            settings.quantum_bytes,
            settings.hours_margin,
        )
        self.timekeeper = Timekeeper(
            self,
            store,
            self.patience,
            self.scheduler,
            self.timeslots,
            clock,
            wall_clock,
            settings.bandwidth_bytes,
        )
        self.recorder = Recorder(self, store, self.patience, settings.record_batch)
        self.dispatcher = Dispatcher(
            self.scheduler, self.recorder, settings.overload, settings.lease, wall_clock, settings.bandwidth_bytes
        )
        self.deleter = Deleter(self, store, self.patience, settings.delete_window, settings.delete_grace)
        self.verifier = Verifier(self, store, self.patience)
        self.reader = Reader(self, store, self.patience, self.scheduler)
        self.housekeeper = Housekeeper(self, store)
        self.upkeep = Upkeep(self, store, self.patience, settings, random)
        self.state_saver = StateSaver(self, store)
        self.run = 0
        """The run of this queue manager; 0 until it has claimed the database."""
        self.started = False
        self.ticked = 0.0
        """When what is done every second was done last, on the clock."""
        self.paused_since: int | None = None
        """Since when an operator has it give out no orders (seconds since 1970); None: it does."""
        self.sets_answered = 0
        self.results_recorded = 0
        self.refused: dict[tuple[str, str, int], str] = {}
        """Sets that were refused in this run (:mod:`lcc.roles.qm.intake.absorber`)."""
        self.centrals: set[Central] = set()
        """The central BOT-Ms that are connected."""
        self._visitors: set[Visitor] = set()
        self._absorbers: set[Absorber] = set()
        self._starting: Deferred[None] | None = None
        self._ordering = Background("Orders cannot be carried out")
        self._tick_loop = LoopingCall(self._tick)
        self._tick_loop.clock = clock
        self._pumping = False
        self._stopped = False

    # Its life.

    def start(self) -> None:
        """Claim the database, load the queue, and begin; until then peers may connect and wait."""
        self._starting = Deferred.fromCoroutine(self._start())
        self._starting.addErrback(lambda failure: failure.trap(CancelledError) and None)
        self._starting.addErrback(self._start_failed)

    async def _start(self) -> None:
        try:
            claim = await self.patience.ask("claiming the database", lambda: self.store.claim(self.now()))
            waiting = await self.patience.ask("loading the queue", self.store.providers_with_work)
            await self.upkeep.starting(claim)
            if await self.timekeeper.starting(claim.saved_time):
                self.deleter.stepped()
        except Busy as error:
            self.fatal(error)
            return
        _log.info(
            "Queue manager run {run} on database {epoch}: {count} providers have work",
            run=claim.run,
            epoch=claim.database_epoch,
            count=len(waiting),
        )
        self.run = claim.run
        self.scheduler.load(waiting, withhold=bool(self.upkeep.leases.awaited))
        self.started = True
        self.dispatcher.enable(f"{claim.run}-{self.now():x}", self.upkeep.leases.longest_seconds)
        self.recorder.enable()
        self.deleter.enable()
        for absorber in list(self._absorbers):
            absorber.enable()
        self.ticked = self.clock.seconds()
        self._tick_loop.start(TICK_SECONDS, now=False)
        self.upkeep.started(claim)
        self.pump()

    def _stepped(self, step: float) -> None:
        """The wall clock was set."""
        self.timekeeper.stepped(step)
        if self.paused_since is not None:
            self.paused_since += round(step)
        self.deleter.stepped()
        self.upkeep.intake.stepped(step)
        self.state_saver.soon()  # so that whoever comes next knows what the clock showed

    def _start_failed(self, failure: Failure) -> None:
        _log.failure("The queue manager cannot start", failure=failure)
        self._end_process()

    async def say_that_it_stops(self) -> None:
        """To be called before :meth:`stop`, while the database is still there."""
        if self.started:
            await self.state_saver.end(self.clock)

    def stop(self) -> None:
        """Drop all peers and timers.  What was given to the store may still be done."""
        self._stopped = True
        self.started = False
        if self._tick_loop.running:
            self._tick_loop.stop()
        if self._starting is not None:
            self._starting.cancel()
        self._ordering.cancel()
        for absorber in list(self._absorbers):
            absorber.stop()
        self.recorder.stop()
        self.timekeeper.stop()
        self.upkeep.stop()
        self.housekeeper.stop()
        self.deleter.stop()
        self.verifier.stop()
        self.reader.stop()
        self.state_saver.stop()
        for visitor in list(self._visitors):
            visitor.drop()

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""
        if not self._stopped:
            _log.critical("This queue manager stops: {error}", error=str(error))
            self._end_process()

    def _end_process(self) -> None:
        if not self._stopped:
            self.stop()
            self._stop_process()

    def pause(self) -> None:
        """Give out no orders until :meth:`resume`.  All else goes on: what is out comes back and is recorded."""
        if self.paused_since is None:
            self.paused_since = self.now()
            self.state_saver.soon()

    def resume(self) -> None:
        """Give out orders again."""
        if self.paused_since is not None:
            self.paused_since = None
            self.state_saver.soon()
            self.pump()

    # Peers.

    def factory(self, for_uns: bool) -> VisitorFactory:
        """For a listening port.

        :param for_uns: UNSes may connect, too, not only BOT-Ms.
        """
        hello = Hello(role="qm", name="qm")
        return VisitorFactory(self, self.clock, hello, UNS_AND_BOTM if for_uns else BOTM_ONLY)

    def welcome(self, visitor: Visitor, hello: Hello) -> Guest:
        """Somebody has said hello.

        :raises StreamError: it is turned away.
        """
        self._visitors.add(visitor)
        return self.upkeep.welcome(visitor, hello, partial(self._let_in, visitor, hello))

    def _let_in(self, visitor: Visitor, hello: Hello) -> Guest:
        _log.info("{peer} has connected", peer=visitor.describe())
        if hello.role == "botm":
            return self.let_in_machine(visitor, hello) if hello.machine else Central(self, visitor)
        absorber = Absorber(
            hello.name,
            hello.epoch,
            visitor.say,
            self,
            self.store,
            self.patience,
            self.settings,
            visitor.leave,
        )
        self._absorbers.add(absorber)
        visitor.absorber = absorber
        if self.started:
            absorber.enable()
        return absorber

    def welcome_machine(self, machine: Behind) -> Guest:
        """The BOT-M of a machine behind a central one has said hello.

        :raises StreamError: it is turned away.
        """
        return self.upkeep.welcome(machine, machine.hello, partial(self.let_in_machine, machine, machine.hello))

    def let_in_machine(self, line: Line, hello: Hello) -> Guest:
        """The hello of a machine's BOT-M is in order.

        :raises StreamError: it is turned away all the same.
        """
        botm = Botm(self, line, hello)
        self.upkeep.botm_hello(hello)
        return botm

    def gone(self, visitor: Visitor) -> None:
        """A connection is closed."""
        self._visitors.discard(visitor)
        if visitor.absorber is not None:
            self._absorbers.discard(visitor.absorber)
        if visitor.peer_hello is not None:
            _log.info("{peer} is gone", peer=visitor.describe())

    # What the parts say.

    def now(self) -> int:
        """Seconds since 1970."""
        return int(self._wall_clock())

    def clock_seconds(self) -> float:
        """The clock that leases are measured on."""
        return self.clock.seconds()

    @property
    def absorbers(self) -> set[Absorber]:
        """The UNSes that are connected."""
        return self._absorbers

    def machine_list(self) -> list[Machine]:
        """All machines whose BOT-Ms have connected."""
        return list(self.dispatcher.machines.values())

    @property
    def has_rows(self) -> bool:
        """Rows of the queue are about to be given out, or taken away."""
        return self.scheduler.active_count > 0

    def botm_ready(self, machine: Machine) -> None:
        """A BOT-M has said what is still running there."""
        self.upkeep.botm_ready(machine)

    def leases_over(self) -> None:
        """No orders of an earlier queue manager are running that are not known."""
        self.scheduler.let_go()
        self.pump()

    @property
    def overloaded(self) -> bool:
        """Nothing is taken in from UNSes."""
        return self.upkeep.intake.overloaded

    @property
    def overloaded_since(self) -> int | None:
        """Since when (seconds since 1970); None: it is not overloaded."""
        return self.upkeep.intake.since

    def overload_state(self) -> str:
        """Why nothing is taken in from UNSes at present; empty: sets are taken in."""
        return self.upkeep.intake.reason

    def absorbed(self, outcome: Absorbed) -> None:
        """Pieces of sets are in the queue."""
        self.upkeep.absorbed(outcome)
        self.sets_answered += len(outcome.answers)
        for pid, (psetid, seq) in outcome.queued.items():
            self.scheduler.work_arrived(pid, psetid, seq, outcome.priorities.get(pid, 0))
        if outcome.touched:
            self.scheduler.touched(outcome.touched)
        if outcome.deletes:
            self.deleter.wake()
        self.pump()

    def take_removed(self) -> list[tuple[bytes, int]]:
        """Rows whose operation is "nothing" that were reached."""
        removed, self.scheduler.hours.removed = self.scheduler.hours.removed, []
        return removed

    def take_closed(self) -> list[Closed]:
        """Rows that were reached when their hours had closed."""
        closed, self.scheduler.hours.closed = self.scheduler.hours.closed, []
        return closed

    def slots_now(self, closed: Sequence[Closed]) -> list[tuple[bytes, int, int]]:
        """The slots that these rows go to now."""
        return self.scheduler.hours.slots_of(closed, self._wall_clock())

    def with_delays(self, write: Callable[[list[Delay]], Deferred[Recorded]]) -> Deferred[Recorded]:
        """Write, together with the delays that have changed."""
        return self.timekeeper.delays.saved_with(write)

    def recorded(self, done: list[tuple[bytes, int]], outcome: Recorded) -> None:
        """Results are recorded."""
        self.results_recorded += len(done)
        self.upkeep.recorded(outcome)
        self.scheduler.recorded(done, outcome, self._wall_clock())
        if outcome.retry_time is not None:
            self.timekeeper.retries.waits(outcome.retry_time)
        if outcome.deletes:
            self.deleter.wake()
        self.pump()

    @property
    def progress(self) -> tuple[str, int]:
        """How far the cache has come: its timeline, and the number of its last change."""
        return self.upkeep.progress

    def pump(self) -> None:
        """Something has changed: send what can be sent, read what is wanted, record what has come."""
        if not self.started or self._pumping:
            return
        self._pumping = True  # a store that answers at once would come back here
        try:
            while self._pump_once():
                pass
        finally:
            self._pumping = False
        if self.started:
            self.timekeeper.pumped()

    def _pump_once(self) -> bool:
        """One round; True: another one may do more."""
        self.timekeeper.pumping()
        for entry in self.timekeeper.unfetchable():
            self.recorder.add(entry)
        self.recorder.start()
        if self.recorder.full or self.scheduler.hours.reached_count > self.settings.record_batch:
            return False
        free, total = self.dispatcher.slots()
        if self.paused_since is not None:
            free = 0
        sent = self.dispatcher.send(free, self.clock.seconds()) if free else 0
        if total:
            # As many again as there are orders out: while these are read, those are fetched.
            self.scheduler.fill(free - sent + total)
        if self.scheduler.hours.reached_count:
            for entry in self.timekeeper.unfetchable():
                self.recorder.add(entry)
            self.recorder.start()
        return self.reader.start() and self.started

    # What is done by the clock.

    def _tick(self) -> None:
        try:
            now = self.clock.seconds()
            self._tick_once(now)
            self.ticked = now
        except Exception:
            _log.failure("What is done every second has failed")  # and is done again in a second

    def _tick_once(self, now: float) -> None:
        self.dispatcher.check_leases(now)
        self.upkeep.tick(now)
        self.timekeeper.tick()
        self.verifier.tick()
        self.deleter.check_stuck(now)
        self.housekeeper.tick(now)
        self.state_saver.tick(now)
        if not self._ordering.busy:
            self._ordering.begin(self._carry_out_orders())
        self.pump()

    async def _carry_out_orders(self) -> None:
        while True:
            try:
                done = await self.patience.ask("orders of lcc-admin", lambda: self.store.carry_out_orders(self.now()))
            except Busy as error:
                self.fatal(error)
                return
            self._orders_carried_out(done)
            if not done.more:
                return

    def _orders_carried_out(self, done: CarriedOut) -> None:
        self.absorbed(done.work)
        for kind, pid, error in done.finished:
            _log.debug("Carried out: {kind} {pid} {error}", kind=kind, pid=pid, error=error)
            if kind == "provider-removed":
                self.scheduler.provider_removed(pid)
            self.reader.provider_changed(pid)
            self.timekeeper.order_finished(kind, pid, error)
        if done.finished:
            self.pump()
