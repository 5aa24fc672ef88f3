"""BOT-M, the robot multiplexer (seed 002, section 7).

What it owns
    The content files of one machine and their names.  Nothing else outlives it: what it was given and had not
    finished when it died is sent again by the queue manager: at once, unless a robot hangs that may still be fetching
    (:mod:`lcc.roles.botm.earlier_robots`).

What it does
    It connects to the queue manager and takes orders; robots connect to it.  The orders of one provider are a run
    (:mod:`lcc.roles.botm.orders`), which goes to one robot that has room: to the one that last served the provider,
    because the connection to that site is open there, else to the one with the most room; a higher priority first.
    What comes later for the same provider follows it there.  Each order gets a file id of its own.  What the robots
    cannot take yet waits (the queue manager sends a little more than they can, so that none is ever idle).  When a
    robot reports success its attempt is renamed into place, then the result goes up with machine and file id.  What
    is recalled and not begun goes back.  It reports how much its robots can take, and whenever that changes.

What it promises
    Of one provider never two robots have orders.  Each order ends in one result, or in none when its lease is over.
    A result is kept, and sent again on each new connection, until the queue manager has recorded it; on a new
    connection come first these results, then what is still running, then ``<ready/>``: at ``<ready/>`` the queue
    manager knows everything.  Results are numbered without a gap from 1 in each run of this process (``run`` in its
    hello).  An order that is held, or whose result is not recorded yet, is ignored when it comes again.

Leases
    The queue manager gives an order out again when its lease has passed.  Here it counts from the moment when the
    order was sent, as far as that is known, and nine tenths of it count; a robot is told to be done
    :data:`~lcc.roles.botm.dispatcher.ROBOT_MARGIN_SECONDS` before that.  An order that no robot has had goes back as
    ``handed-back`` shortly before its time is over.  One that a robot may have begun is dropped without a result: the
    queue manager does the rest, and a result "failed" would count against the URL, which did nothing wrong.  A robot
    that holds an order beyond that is dropped.

Hours
    An order may say within what time its fetch must begin (``start_seconds``), because its hours end then.  It counts
    from when the order came in, also through a change of robots; what is too late goes back as ``hours-over``.

Failures
    *A robot has another content folder* than this BOT-M, by the run that is noted there: it gets no orders; the
    others go on.  *A robot is gone*: a moment later its attempts are thrown away; its orders go to others, in front
    of all that wait, under new attempt names.  *A robot is dropped by this end* (silent, or sends garbage), *or its
    TCP connection is reset*: it may hang, with its connections to web servers still open.  Its orders are held back
    until it has connected again (it ends all its fetches when it loses the connection) or their time is over; the
    queue manager is told how many hang, so that it sends as much as before for the other robots.  *The queue manager
    is gone*: fetching goes on; results are kept, never more than orders were held.  *The disk is full, or fails*:
    what was not stored, and what waits, goes back as ``no-room``, so that other machines fetch it; the capacity is 0
    until there is room again (:mod:`lcc.roles.botm.disk_health`).  *Storing failed, and the disk is well*: the result
    is ``store-failed``, and nothing is handed out for a while.  *This process is killed*: robots end their fetches at
    once, and for those that hang the next one says that it is unsure; attempts are removed at the next start; a file
    whose result was not recorded stays behind for ``lcc-admin fsck``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.config import BotmConfig
from lcc.errors import StreamError
from lcc.interfaces import IContentFolder, IContentSync
from lcc.model.content_batches import FILES_MAX
from lcc.protocols.flat import Flat
from lcc.protocols.hello import KNOWS_INTERVAL, Hello, session_name
from lcc.protocols.work import (
    DOWN,
    Capacity,
    Delete,
    Fetch,
    Intact,
    Mark,
    Names,
    Recall,
    RecordedUpto,
    Running,
    Settled,
    Verify,
)
from lcc.roles.botm.content_orders import ContentOrders
from lcc.roles.botm.counters import Counters
from lcc.roles.botm.disk_health import DiskHealth
from lcc.roles.botm.dispatcher import LEASE_SHARE, Dispatcher
from lcc.roles.botm.downstream import DownstreamFactory
from lcc.roles.botm.earlier_robots import EarlierRobots
from lcc.roles.botm.orders import HeldOrder
from lcc.roles.botm.results import Results
from lcc.roles.botm.robots import RobotPeer
from lcc.roles.botm.status import fetching, is_fetched
from lcc.roles.botm.syncer import InThread, Syncer
from lcc.roles.botm.upstream import BotmUpstream
from lcc.roles.peer import PeerFactory
from lcc.roles.upstream import Upstream

_log = Logger()


class BotMaster:
    """The engine of a BOT-M.

    :param content: where content files are; must be open before the first connection.
    :param sync: what is safely on the disk; must be open before the first connection.
    :param in_thread: runs what blocks.
    :param run: names this run of the process; never used again.
    :ivar settled: no result of an earlier run waits to be recorded any longer.
    """

    def __init__(
        self,
        settings: BotmConfig,
        clock: IReactorTime,
        content: IContentFolder,
        sync: IContentSync,
        in_thread: InThread,
        run: str,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._content = content
        self._run = run
        self.settled = False
        self.syncer = Syncer(settings, clock, content, sync, in_thread, self._safe_upto)
        self.counters = Counters()
        self._results = Results()
        self._disk = DiskHealth(clock, content, self._disk_changed)
        self._dispatcher = Dispatcher(
            settings,
            clock,
            content,
            Hello(role="botm", name=settings.name, machine=settings.machine, run=run),
            self._disk,
            self.counters,
            self._results,
            self._report,
            self._tell_capacity,
        )
        self._earlier_robots = EarlierRobots(
            clock, content, lambda run: self._dispatcher.pool.of_run(run) is not None, self._connect_again
        )
        self._content_orders = ContentOrders(content, settings.machine, in_thread, self.counters)
        self._link: Upstream | None = None
        self._sessions = 0
        self.paused = False
        """An operator has it take no new orders."""
        self._told_capacity = Capacity(-1)

    # What the service needs.

    def upstream_factory(self, good_hello: Callable[[], None]) -> PeerFactory:
        """For the connection to the queue manager."""
        upper = frozenset(["botm" if self._settings.parent else "qm"])
        return PeerFactory(lambda: BotmUpstream(self, self._clock, self.hello(), upper, DOWN, good_hello))

    def downstream_factory(self) -> DownstreamFactory:
        """For the port where robots connect."""
        return self._dispatcher.factory

    def start(self) -> None:
        """The content folder is open."""
        try:
            self._content.claim(self._run)
        except OSError as error:
            _log.warn(
                "Cannot claim the content folder, so robots with another one go unnoticed: {error}",
                error=str(error),
            )
        self._earlier_robots.load()
        self._disk.start()
        self.syncer.start()

    def stop(self) -> Deferred[None]:
        """End all timers and the robots' connections; fires when the content is safely on the disk."""
        self._earlier_robots.cancel()
        self._disk.stop()
        self._dispatcher.stop()
        return self.syncer.stop()

    def hello(self) -> Hello:
        """What this BOT-M says of itself now, on a new connection."""
        settings = self._settings
        self._sessions += 1
        epoch, change = self._content.mark
        first, upto = self.syncer.suspect
        return Hello(
            role="botm",
            name=settings.name,
            epoch=epoch,
            acked=change,
            machine=settings.machine,
            names_upto=self._content.names_upto,
            capacity=self.capacity,
            orders_max=settings.orders_max,
            knows=KNOWS_INTERVAL,
            run=self._run,
            content=settings.content_url,
            session=session_name(self._run, self._sessions),
            suspect_from=first,
            suspect_upto=upto,
        )

    # What the console shows.

    def clock_seconds(self) -> float:
        """The clock that leases are measured on."""
        return self._clock.seconds()

    @property
    def connected(self) -> bool:
        """The queue manager is there."""
        return self._link is not None

    @property
    def disk_trouble(self) -> str:
        """Why content cannot be stored at present; empty: it can."""
        return self._disk.no_room or ("" if self._disk.ok else "storing failed; retrying soon")

    @property
    def look_age_seconds(self) -> float:
        """Since it has looked at the content's disk, as it does every few seconds."""
        return self._disk.look_age_seconds

    @property
    def orders(self) -> list[HeldOrder]:
        """Those that are held."""
        return list(self._dispatcher.orders)

    @property
    def results_waiting(self) -> int:
        """Results that the queue manager has not recorded."""
        return len(self._results)

    @property
    def robots(self) -> list[RobotPeer]:
        """The robots that are ready."""
        return self._dispatcher.pool.robots

    @property
    def robots_refused(self) -> dict[RobotPeer, str]:
        """The robots that get no orders, and why."""
        return self._dispatcher.pool.refused

    @property
    def names_upto(self) -> int:
        """File ids from this one on were never given out."""
        return self._content.names_upto

    # What the content port needs.

    @property
    def machine(self) -> int:
        """The id of this machine."""
        return self._settings.machine

    def is_suspect(self, file_id: int) -> bool:
        """A crash of the machine may have damaged this file; it is being verified."""
        return self.syncer.is_suspect(file_id)

    def is_damaged(self, file_id: int) -> bool:
        """A crash of the machine has damaged this file."""
        return self.syncer.is_damaged(file_id)

    def status(self) -> dict[str, Any]:
        """What is held here that no row of the database has to name yet, for ``lcc-admin fsck``; and what is being
        fetched, for ``lcc-admin top``.

        ``files``: those of orders, and of results that are not recorded yet.  ``attempts``: those that may be being
        written.  ``settled``: a file that is in no row of the database, and not in ``files``, never will be in one.
        ``out``: orders that robots carry out; ``waiting``: the others.  ``fetching``: those of the former that robots
        have had for longest; ``bytes`` is what they have stored so far.
        """
        orders = self.orders
        out = sum(map(is_fetched, orders))
        return {
            "machine": self.machine,
            "waiting": len(orders) - out,
            "out": out,
            "fetching": fetching(orders, self._content, self.clock_seconds()),
            "run": self._run,
            "settled": self.settled,
            "names_upto": self._content.names_upto,
            "suspect": list(self.syncer.suspect),
            "files": sorted({file for order in orders for file in order.files} | self._results.files),
            "attempts": sorted(attempt for order in orders for attempt in order.attempts_written),
        }

    def _safe_upto(self) -> int:
        return min([order.file for order in self._dispatcher.orders if order.file], default=self._content.next_name)

    @property
    def capacity(self) -> int:
        """Fetches that the robots can do at once; 0 while the disk fails, or while paused."""
        return self._dispatcher.pool.capacity if self._disk.ok and not self.paused else 0

    @property
    def paused_here(self) -> str:
        """What an operator has paused, in words; empty: nothing."""
        robots = [f"robot {robot.name}" for robot in self._dispatcher.pool.robots if robot.paused]
        return ", ".join([*(["BOT-M"] if self.paused else []), *robots])

    def pause(self) -> None:
        """Take no new orders until :meth:`resume`; those that are here are carried out."""
        self.paused = True
        self._tell_capacity()

    def resume(self) -> None:
        """Take orders again."""
        self.paused = False
        self._tell_capacity()

    @property
    def held(self) -> int:
        """Orders and results that are in memory."""
        return len(self._dispatcher.orders) + len(self._results)

    # The queue manager.

    def upstream_ready(self, link: Upstream) -> None:
        """The queue manager is there: tell it everything."""
        self._link = link
        stream = link.stream
        stream.send(self._results.unrecorded())
        now = self._clock.seconds()
        for order in self._dispatcher.orders:
            fetch = order.fetch
            left = max(0, int(order.lease_end - now))
            link.say(Running(fetch.id, fetch.pid, fetch.key, fetch.generation, left))
        self._dispatcher.upstream_ready()
        self._told_capacity = Capacity(link.hello.capacity)
        self._tell_capacity()
        self._earlier_robots.tell(link.say)
        self._dispatcher.roster.connected(link)
        _log.info(
            "Connected to {peer}; {results} results and {orders} orders held",
            peer=link.describe(),
            results=len(self._results),
            orders=len(self._dispatcher.orders),
        )

    def upstream_messages(self, link: Upstream, messages: list[Flat]) -> None:
        """Orders and acknowledgements."""
        if link is not self._link:
            return
        try:
            for message in messages:
                if type(message) is Fetch:
                    self._order(link, message)
                elif type(message) is RecordedUpto:
                    self._results.recorded(message.number)
                elif type(message) is Recall:
                    self._dispatcher.recall(message.pid)
                elif type(message) is Delete:
                    self._content_orders.delete(link, message)
                elif type(message) is Mark:
                    self._content_orders.remember(message)
                elif type(message) is Names:
                    self._content_orders.skip_names(message)
                elif type(message) is Settled:
                    self.settled = True
                elif type(message) in (Verify, Intact):
                    self.syncer.message(link, message)
        finally:
            self._dispatcher.hand_out()

    def upstream_resumed(self, link: Upstream) -> None:
        """Nothing waits for that: what is sent up is bounded by the orders that are held."""

    def upstream_lost(self, link: Upstream) -> None:
        """The queue manager is gone; fetching goes on."""
        if link is self._link:
            self._link = None
            self._earlier_robots.cancel()
            self._dispatcher.roster.disconnected()
            self.syncer.disconnected()
            self._content_orders.disconnected()
            _log.info("Lost {peer}; {orders} orders held", peer=link.describe(), orders=len(self._dispatcher.orders))

    def _connect_again(self) -> None:
        """What is said on each connection has changed."""
        if self._link is not None:
            self._link.stream.abort()

    def _order(self, link: Upstream, fetch: Fetch) -> None:
        if fetch.id in self._dispatcher.orders or fetch.id in self._results:
            return
        if self.held >= self._settings.orders_max:
            raise StreamError("limit", f"more than {self._settings.orders_max} orders at once")
        if not 0 <= fetch.files <= FILES_MAX:
            raise StreamError("limit", f"a batch of {fetch.files} files; {FILES_MAX} are possible")
        sent = link.sent_seconds(fetch.sent_ms)
        start_by = inf if fetch.start_seconds is None else sent + fetch.start_seconds
        self._dispatcher.add(HeldOrder(fetch, sent + fetch.lease_seconds * LEASE_SHARE, start_by))

    def _report(self, result: str) -> None:
        if self._link is not None:
            self._link.stream.send(result)

    def _disk_changed(self) -> None:
        self._tell_capacity()
        self._dispatcher.disk_changed()

    def _tell_capacity(self) -> None:
        dispatcher = self._dispatcher
        told = Capacity(
            self.capacity, self._disk.no_room, self.paused_here, dispatcher.pool.refused_told, dispatcher.hanging
        )
        if self._link is not None and told != self._told_capacity:
            self._told_capacity = told
            self._link.say(told)
