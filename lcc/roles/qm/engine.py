"""QM, the queue manager (seed 002, section 6).

What it owns
    The queue (``qdb``, ``qpsdb``) and the cache (``lccurl``, ``fsmdb``): nobody else writes them.  Everything that
    must survive is in the database; what is in memory can be lost at any moment.

What it does
    UNSes and BOT-Ms connect to it, at any time.  Sets are absorbed into the queue in batches (``absorber``); a set
    is answered when it is durable.  Providers take their turns (``ready_queue``); rows are read ahead for those whose
    turn it is, and handed out one at a time for each (``scheduler``).  They go as orders to the BOT-Ms
    (``dispatcher``), results come back and are recorded in batches (``recorder``), content that is deleted is
    removed from its machine (``deleter``).  Once a second it carries out what ``lcc-admin`` ordered
    (``admin_orders``), gives up orders whose leases have passed, and releases what has waited long enough
    (``slots``, ``retries``, ``delay_timer``).

What it promises
    Each row of the queue is handed out, in order, until its result is recorded; one fetch at a time for each
    provider; what arrives while its URL is being fetched is fetched again.  Memory is bounded: waiting elements for
    each UNS, waiting results, rows read ahead, and a number for each provider that waits.

Failures
    *The database is unavailable*: everything waits and is retried with growing delays; peers are paused when enough
    has gathered; nothing ends (``part``).  *A newer queue manager has claimed the database*: this one stops
    (``Busy``).  *It is killed*: the UNSes send again what was not answered, the BOT-Ms say what is running and send
    again the results that were not acknowledged; the store applies each only once.  Nothing is sent to a BOT-M before
    it has said all that.  *A UNS or a BOT-M disconnects*: see ``absorber`` and ``dispatcher``.  *Sets or results that
    cannot be stored* are refused or recorded as errors, one by one, and never stop what is behind them.  Delays, and
    what waits to be retried, stand in the database and outlast the process.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import QmConfig
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.registration.sites import hosts_of
from lcc.errors import Busy
from lcc.interfaces import IQueueStore
from lcc.model import Absorbed, ProviderHosts, Recorded
from lcc.protocols.hello import Hello
from lcc.roles.qm.intake.absorber import Absorber
from lcc.roles.qm.intake.overload import Intake
from lcc.roles.qm.maintenance.admin_orders import AdminOrders
from lcc.roles.qm.maintenance.delay_timer import DelayTimer
from lcc.roles.qm.maintenance.housekeeping import Housekeeping
from lcc.roles.qm.maintenance.reader import Reader
from lcc.roles.qm.maintenance.repair import Repair
from lcc.roles.qm.maintenance.retries import RetryOpener
from lcc.roles.qm.maintenance.slots import SlotOpener
from lcc.roles.qm.maintenance.state import StateSaver
from lcc.roles.qm.maintenance.unconfirmed import UnconfirmedWrites
from lcc.roles.qm.moves.counts import MoveCounts
from lcc.roles.qm.orders.deleter import Deleter
from lcc.roles.qm.orders.dispatcher import Dispatcher
from lcc.roles.qm.orders.leases import Leases
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.orders.recorder import Recorder
from lcc.roles.qm.orders.verifier import Verifier
from lcc.roles.qm.part import Part, StoreRetry
from lcc.roles.qm.peers.botms import BotmHandler
from lcc.roles.qm.peers.central import CentralHandler
from lcc.roles.qm.peers.connections import BOTM_ONLY, UNS_AND_BOTM, ConnectionFactory, DirectConnection
from lcc.roles.qm.peers.handler import Connection, Handler
from lcc.roles.qm.peers.handshake import Handshake
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.hosts import NO, HostGroups
from lcc.roles.qm.schedule.ready_queue import ReadyQueue
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.wall_clock import WallClock

_log = Logger()

TICK_SECONDS = 1.0


class QmEngine:
    """The queue manager: puts its parts together, and is their :class:`~lcc.roles.qm.part.Hub`.

    :param clock: for all timers and leases; it is never set.
    :param wall_clock: seconds since 1970; it may be set at any time.
    :param random: gives numbers in [0, 1).
    :param stop_process: called once when this queue manager must not go on.
    :param timeslots: the LCC's period of hours.
    :param mimetypes: patterns of what it takes where nobody has told a type, separated by spaces; empty: all.
    :ivar run: number of this run; 0 until the database is claimed.
    :ivar ticked: when the last tick was, on the clock.
    :ivar refused: sets that were refused in this run (:mod:`lcc.roles.qm.intake.absorber`).
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
        mimetypes: str = "",
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.wall_clock: Callable[[], float] = WallClock(wall_clock, clock, self._stepped)
        self.retry = StoreRetry(clock, random)
        self.moves = MoveCounts()
        self.run = 0
        self.started = False
        self.ticked = 0.0
        self.refused: dict[tuple[str, str, int], str] = {}
        self._stop_process = stop_process
        self._starting: Deferred[None] | None = None
        self._tick_loop = LoopingCall(self._tick)
        self._tick_loop.clock = clock
        self._pumping = False
        self._stopped = False
        timeslots = timeslots or TimeSlots()
        site_rate = settings.bandwidth_bytes
        # One robot cannot know what all others have fetched.
        run_rows = 1 if site_rate else settings.run_rows

        scheduler = self.scheduler = Scheduler(
            ReadyQueue(),
            Delays(settings.hold_initial, settings.hold_maximum, random),
            timeslots,
            settings.read_ahead,
            settings.read_ahead_total,
            settings.quantum_urls,
            settings.quantum_bytes,
            settings.hours_margin,
            run_rows,
            HostGroups(settings.serial_by_host),
        )
        self.intake = Intake(self, store, settings, lambda: self.absorbers)

        self.recorder = Recorder(self, store, scheduler, settings.record_batch)
        self.dispatcher = Dispatcher(
            scheduler,
            self.recorder,
            settings.overload,
            settings.lease,
            self.wall_clock,
            site_rate,
            run_rows,
            settings.retry_after_max,
            mimetypes,
        )
        self.leases = Leases(self, store, scheduler, settings.lease, self._has_work)
        self.deleter = Deleter(self, store, settings.delete_window, settings.delete_grace)
        self.verifier = Verifier(self, store, self.recorder)

        self.repair = Repair(self, store, random)
        self._connections: dict[DirectConnection, None] = {}
        self._handshake = Handshake(self, store, self.repair, self.intake, self._admit)

        self.reader = Reader(self, store, scheduler)
        self.slots = SlotOpener(self, store, scheduler, timeslots)
        self.retries = RetryOpener(self, store, scheduler)
        self.delay_timer = DelayTimer(self, store, scheduler.delays, timeslots, site_rate)
        self.admin_orders = AdminOrders(self, store, scheduler, self.reader)
        self.housekeeping = Housekeeping(self, store)
        self.unconfirmed = UnconfirmedWrites(self, store)
        self.state_saver = StateSaver(
            self,
            store,
            scheduler,
            self.intake,
            self.leases,
            self.dispatcher,
            self.recorder,
            self.deleter,
            self.handlers,
        )

    # Its life.

    def start(self) -> None:
        """Claim the database, load the queue, and begin; until then peers may connect and wait."""
        self._starting = Deferred.fromCoroutine(self._start())
        self._starting.addErrback(lambda failure: failure.trap(CancelledError) and None)
        self._starting.addErrback(self._start_failed)

    async def _start(self) -> None:
        ask, store = self.retry.ask, self.store
        try:
            claim = await ask("claiming the database", lambda: store.claim(self.now()))
            self.scheduler.frozen.load(await ask("reading which providers move", store.fences))
            waiting = await ask("loading the queue", store.providers_with_work)
            if self.settings.serial_by_host != NO:
                known = await ask("reading the roots of providers", store.provider_roots)
                hosts = (ProviderHosts(pid, hosts_of(roots), watched) for pid, watched, roots in known)
                self.scheduler.hosts.load(hosts, self.wall_clock())
            await ask("measuring the queue", self.intake.check)
            states = await ask("reading which machines had orders", store.machines)
            self.leases.load(states, claim.saved_lease)
            if await self.delay_timer.load(claim.saved_time):
                self.slots.set_back()
                self.retries.stepped()
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
        self.scheduler.costs.begin(self.wall_clock())
        self.scheduler.load(waiting, withhold=bool(self.leases.awaited))
        self.started = True
        self.dispatcher.enable(claim.timeline, self.leases.longest_seconds)
        self.recorder.enable(claim.timeline, claim.timelines)
        self.deleter.enable()
        for absorber in self.absorbers:
            absorber.enable()
        self.ticked = self.clock.seconds()
        self._tick_loop.start(TICK_SECONDS, now=False)
        self.repair.epoch = claim.database_epoch
        self._handshake.enable()
        self.leases.tick()
        self.pump()

    def _stepped(self, step: float) -> None:
        """The wall clock was set."""
        self.scheduler.stepped(step, self.wall_clock())
        self.retries.stepped()
        if step < 0:
            self.slots.set_back()
        if self.dispatcher.paused_since is not None:
            self.dispatcher.paused_since += round(step)
        self.deleter.stepped()
        self.intake.stepped(step)
        self.state_saver.soon()  # so that whoever comes next knows what the clock showed

    def _start_failed(self, failure: Failure) -> None:
        _log.failure("The queue manager cannot start", failure=failure)
        self._end_process()

    async def say_that_it_stops(self) -> None:
        """To be called before :meth:`stop`, while the database is still there."""
        if self.started:
            self.dispatcher.disable()
            await self.state_saver.end()

    def stop(self) -> None:
        """Drop all peers and timers.  What was given to the store may still be done."""
        self._stopped = True
        self.started = False
        if self._tick_loop.running:
            self._tick_loop.stop()
        if self._starting is not None:
            self._starting.cancel()
        parts: list[Part | Deleter | Verifier | Handshake | StoreRetry] = [
            *self.absorbers,
            *(self.recorder, self.intake, self.leases, self.deleter, self.verifier, self._handshake, self.reader),
            *(self.slots, self.retries, self.delay_timer, self.admin_orders, self.housekeeping, self.unconfirmed),
            *(self.state_saver, self.retry),
        ]
        for part in parts:
            part.stop()
        for connection in list(self._connections):
            connection.drop()

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
        if self.dispatcher.paused_since is None:
            self.dispatcher.paused_since = self.now()
            self.dispatcher.recall_all()
            self.state_saver.soon()

    def resume(self) -> None:
        """Give out orders again."""
        if self.dispatcher.paused_since is not None:
            self.dispatcher.paused_since = None
            self.state_saver.soon()
            self.pump()

    # Peers.

    def factory(self, for_uns: bool) -> ConnectionFactory:
        """For a listening port.

        :param for_uns: UNSes may connect, too, not only BOT-Ms.
        """
        expected = UNS_AND_BOTM if for_uns else BOTM_ONLY
        return ConnectionFactory(
            self._handshake, self._connections, self.clock, Hello(role="qm", name="qm"), expected
        )

    def _admit(self, connection: Connection, hello: Hello) -> Handler:
        """The hello of a peer is in order.

        :raises StreamError: it is refused all the same.
        """
        _log.info("{peer} has connected", peer=connection.describe())
        if hello.role == "uns":
            absorber = Absorber(self, self.store, connection, hello.name, hello.epoch, self.settings, self.refused)
            if self.started:
                absorber.enable()
            return absorber
        if isinstance(connection, DirectConnection) and not hello.machine:
            return CentralHandler(connection, self._handshake)
        return BotmHandler(
            self,
            self.dispatcher,
            self.recorder,
            self.deleter,
            self.verifier,
            self.leases,
            connection,
            hello,
        )

    def handlers(self) -> list[Handler]:
        """Those of all direct connections."""
        return [connection.handler for connection in self._connections if connection.handler is not None]

    @property
    def absorbers(self) -> list[Absorber]:
        """Those of the UNSes that are connected."""
        return [handler for handler in self.handlers() if isinstance(handler, Absorber)]

    @property
    def centrals(self) -> list[CentralHandler]:
        """Those of the central BOT-Ms that are connected."""
        return [handler for handler in self.handlers() if isinstance(handler, CentralHandler)]

    # The hub of the parts.

    def now(self) -> int:
        """Seconds since 1970."""
        return int(self.wall_clock())

    @property
    def machines(self) -> list[Machine]:
        """The machines whose BOT-Ms have ever connected."""
        return list(self.dispatcher.machines.values())

    @property
    def progress(self) -> tuple[str, int]:
        """How far the cache has come: its timeline, and the number of its last change."""
        return self.intake.progress

    def _has_work(self) -> bool:
        # Rows that do "nothing" are not counted, but are taken away only where orders may be given out.
        return self.intake.queue_rows > 0 or self.scheduler.active_count > 0

    def absorbed(self, outcome: Absorbed) -> None:
        """Something was queued."""
        self.intake.absorbed(outcome)
        if outcome.queued:
            self.leases.tick()
        for pid, (psetid, seq) in outcome.queued.items():
            self.scheduler.work_arrived(pid, psetid, seq, outcome.priorities.get(pid, 0))
        if outcome.touched:
            self.scheduler.touched(outcome.touched)
        if outcome.deletes:
            self.deleter.wake()
        self.pump()

    def recorded(self, outcome: Recorded) -> None:
        """Results were recorded."""
        self.intake.changed(outcome.change)
        if outcome.retry_time is not None:
            self.retries.waits(outcome.retry_time)
        if outcome.deletes:
            self.deleter.wake()
        self.pump()

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
            self.delay_timer.pumped()

    def _pump_once(self) -> bool:
        """One round; True: another one may do more."""
        self.scheduler.release(self.wall_clock())
        self.recorder.start()
        self.dispatcher.send_recalls()
        if self.recorder.full or self.scheduler.hours.reached_count > self.settings.record_batch:
            return False
        free, total = self.dispatcher.send(self.clock.seconds())
        if total:
            # As many again as there are runs out: while these are read, those are fetched.
            self.scheduler.fill(free + total)
            self.dispatcher.send_recalls()  # those that share a host may have asked for some
        if self.scheduler.hours.reached_count:
            self.recorder.start()
        return self.reader.start() and self.started

    # The tick.

    def _tick(self) -> None:
        try:
            now = self.clock.seconds()
            self._tick_once(now)
            self.ticked = now
        except Exception:
            _log.failure("Periodic tick failed")  # the next one comes in a second

    def _tick_once(self, now: float) -> None:
        self.dispatcher.check_leases(now)
        self.intake.tick(now)
        self.leases.tick()
        for machine in self.machines:
            if machine.ready:
                machine.tell_progress(*self.progress)
        wall = self.wall_clock()
        self.scheduler.release(wall)
        self.slots.tick(wall)
        self.retries.tick(wall)
        self.delay_timer.tick()
        self.verifier.tick()
        self.deleter.check_stuck(now)
        self.housekeeping.tick(now)
        self.unconfirmed.tick()
        self.state_saver.tick(now)
        self.admin_orders.tick()
        self.pump()
