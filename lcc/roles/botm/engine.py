"""BOT-M, the robot multiplexer (seed 002, section 7).

What it owns
    The content files of one machine and their names.  Nothing else outlives it: what it was given and had not
    finished when it died is sent again by the queue manager.

What it does
    It connects to the queue manager and takes orders; robots connect to it.  Each order gets a file id of its own and
    goes to a robot that has room: to the one that last served the provider, because the connection to that site is
    open there, else to the one with the most room.  What the robots cannot take yet waits (the queue manager sends a
    little more than they can, so that none is ever idle).  When a robot reports success its attempt is renamed into
    place, then the result goes up with machine and file id.  It reports how much its robots can take, and whenever
    that changes.

What it promises
    Of one provider never two orders are out.  Each order ends in one result, or in none when its lease is over.  A
    result is kept, and sent again on each new connection, until the queue manager has recorded it; on a new
    connection come first these results, then what is still running, then ``<ready/>``: at ``<ready/>`` the queue
    manager knows everything.  Results are numbered without a gap from 1 in each run of this process (``run`` in its
    hello).  An order that is held, or whose result is not recorded yet, is ignored when it comes again.

Leases
    The queue manager gives an order out again when its lease has passed.  Here it counts from the moment when the
    order was sent, as far as that is known, and nine tenths of it count; a robot is told to be done
    :data:`ROBOT_MARGIN_SECONDS` before that.  An order whose time is
    over is dropped without a result: the queue manager does the rest, and a result "failed" would count against the
    URL, which did nothing wrong.  A robot that holds an order beyond that is dropped.

Hours
    An order may say within what time its fetch must begin (``start_seconds``), because its hours end then.  It counts
    from when the order came in, also through a change of robots; what is too late goes back as ``hours-over``.

Failures
    *A robot has another content folder* than this BOT-M, by the run that is noted there: it gets no orders; the
    others go on.  *A robot is gone*: a moment later its attempts are thrown away; its orders go to others, in front
    of all that wait, under new attempt names.  *A robot is dropped by this end* (silent, or sends garbage): it may
    hang, with its connections to web servers still open. Its orders are held back until it has connected again (it
    ends all its fetches when it loses the connection) or their time is over.  *The queue manager is gone*: fetching
    goes on; results are kept, never more than orders were held.  *The disk is full, or fails*: what was not stored,
    and what waits, goes back as ``no-room``, so that other machines fetch it; the capacity is 0 until there is room
    again (:mod:`lcc.roles.botm.stores`).  *Storing failed, and the disk is well*: the result is ``store-failed``, and
    nothing is handed out for a while.  *This process is killed*: robots end their fetches at once; attempts are
    removed at the next start; a file whose result was not recorded stays behind for ``lcc-admin fsck``.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from math import inf
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from lcc.config import BotmConfig
from lcc.errors import CODES, StreamError
from lcc.interfaces import IContentFolder, IContentSync
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, session_name
from lcc.protocols.work import (
    Capacity,
    Delete,
    Deleted,
    Done,
    Fetch,
    Intact,
    Mark,
    Names,
    Ready,
    RecordedUpto,
    Running,
    Settled,
    Verify,
)
from lcc.roles.botm.counters import Counters
from lcc.roles.botm.orders import Order, OrderBook
from lcc.roles.botm.results import Results
from lcc.roles.botm.robots import Pool, RobotFactory, RobotPeer
from lcc.roles.botm.roster import Roster
from lcc.roles.botm.stores import Stores
from lcc.roles.botm.syncer import InThread, Syncer
from lcc.roles.botm.upstream import UpLink, UpLinkFactory

_log = Logger()

LEASE_SHARE = 0.9
"""The part of a lease that counts here: the rest went by, or may have gone by, on the way."""
ROBOT_MARGIN_SECONDS = 2
"""A robot must have ended this long before the order's time is over."""
SWEEP_SECONDS = 1.0
ENDING_SECONDS = 0.5
FETCHING_SHOWN = 200
"""A process that dies closes its connections one by one: that to here may be closed before those to sites."""
_STORE_FAILED = CODES["store-failed"]
_NO_ROOM = CODES["no-room"]
_HOURS_OVER = CODES["hours-over"]
_ROBOT_ERROR = CODES["robot-error"]


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
        self._book = OrderBook()
        self._results = Results()
        self._pool = Pool()
        self._roster = Roster(clock, lambda: self._pool.robots)
        self._held_back: dict[str, list[Order]] = {}
        self._ending: set[IDelayedCall] = set()
        self._robot_factory = self._make_robot_factory()
        self._link: UpLink | None = None
        self._sessions = 0
        self.paused = False
        """An operator has it take no new orders."""
        self._told_capacity = Capacity(-1)
        self._sweep_call: IDelayedCall | None = None
        self._stores = Stores(clock, content, self._stores_changed)

    # What the service needs.

    def link_factory(self, good_hello: Callable[[], None]) -> UpLinkFactory:
        """For the connection to the queue manager."""
        upper = "botm" if self._settings.parent else "qm"
        return UpLinkFactory(self, self._clock, frozenset([upper]), good_hello)

    def robot_factory(self) -> RobotFactory:
        """For the port where robots connect."""
        return self._robot_factory

    def start(self) -> None:
        """The content folder is open."""
        try:
            self._content.claim(self._run)
        except OSError as error:
            _log.warn(
                "Cannot note whose content folder this is, so robots with another one are not found: {error}",
                error=str(error),
            )
        self._stores.start()
        self.syncer.start()

    def stop(self) -> Deferred[None]:
        """End all timers and the robots' connections; fires when the content is safely on the disk."""
        self._stores.stop()
        self._roster.disconnected()
        for call in (self._sweep_call, *self._ending):
            if call is not None and call.active():
                call.cancel()
        self._robot_factory.drop_all()
        return self.syncer.stop()

    def _make_robot_factory(self) -> RobotFactory:
        settings = self._settings
        hello = Hello(role="botm", name=settings.name, machine=settings.machine, run=self._run)
        return RobotFactory(self, self._clock, hello, settings.robots_max)

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
        return self._stores.no_room or ("" if self._stores.ok else "storing has failed; it is tried again soon")

    @property
    def look_age_seconds(self) -> float:
        """Since it has looked at the content's disk, as it does every few seconds."""
        return self._stores.look_age_seconds

    @property
    def orders(self) -> list[Order]:
        """Those that are held."""
        return list(self._book)

    @property
    def results_waiting(self) -> int:
        """Results that the queue manager has not recorded."""
        return len(self._results)

    @property
    def robots(self) -> list[RobotPeer]:
        """The robots that are ready."""
        return self._pool.robots

    @property
    def robots_refused(self) -> dict[RobotPeer, str]:
        """The robots that get no orders, and why."""
        return self._pool.refused

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

    def status(self) -> dict[str, Any]:
        """What is held here that no row of the database has to name yet, for ``lcc-admin fsck``; and what is being
        fetched, for ``lcc-admin top``.

        ``files``: those of orders, and of results that are not recorded yet.  ``attempts``: those that may be being
        written.  ``settled``: a file that is in no row of the database, and not in ``files``, never will be in one.
        ``waiting``, ``out``: orders without and with a robot.  ``fetching``: those of the latter that robots have had
        for longest; ``bytes`` is what they have stored so far.
        """
        orders = list(self._book)
        return {
            "machine": self.machine,
            "waiting": sum(order.robot is None for order in orders),
            "out": sum(order.robot is not None for order in orders),
            "fetching": self._fetching(orders),
            "run": self._run,
            "settled": self.settled,
            "names_upto": self._content.names_upto,
            "suspect": list(self.syncer.suspect),
            "files": sorted({order.file for order in orders if order.file} | self._results.files),
            "attempts": sorted(order.attempt for order in orders if order.attempt),
        }

    def _fetching(self, orders: list[Order]) -> list[dict[str, Any]]:
        now = self.clock_seconds()
        oldest = nsmallest(FETCHING_SHOWN, (each for each in orders if each.robot), key=lambda each: each.given_at)
        return [
            {
                "pid": order.fetch.pid,
                "url": order.fetch.url,
                "robot": order.robot.name,
                "seconds": round(now - order.given_at, 1),
                "bytes": self._content.attempt_bytes(order.attempt),
                "attempt": order.attempts,
            }
            for order in oldest
        ]

    def _safe_upto(self) -> int:
        return min([order.file for order in self._book if order.file], default=self._content.next_name)

    @property
    def capacity(self) -> int:
        """Fetches that the robots can do at once; 0 while the disk fails, or an operator has it so."""
        return self._pool.capacity if self._stores.ok and not self.paused else 0

    @property
    def paused_here(self) -> str:
        """What an operator has paused, in words; empty: nothing."""
        robots = [f"robot {robot.name}" for robot in self._pool.robots if robot.paused]
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
        return len(self._book) + len(self._results)

    # The queue manager.

    def uplink_ready(self, link: UpLink) -> None:
        """The queue manager is there: tell it everything."""
        self._link = link
        stream = link.stream
        stream.send(self._results.unrecorded())
        now = self._clock.seconds()
        for order in self._book:
            fetch = order.fetch
            left = max(0, int(order.lease_end - now))
            link.say(Running(fetch.id, fetch.pid, fetch.key, fetch.generation, left))
        self._told_capacity = Capacity(link.hello.capacity)
        self._tell_capacity()
        link.say(Ready())
        self._roster.connected(link)
        _log.info(
            "Connected to {peer}: {results} results, {orders} orders from before",
            peer=link.describe(),
            results=len(self._results),
            orders=len(self._book),
        )

    def uplink_messages(self, link: UpLink, messages: list[Flat]) -> None:
        """Orders and acknowledgements."""
        if link is not self._link:
            return
        try:
            for message in messages:
                if type(message) is Fetch:
                    self._order(link, message)
                elif type(message) is RecordedUpto:
                    self._results.recorded(message.number)
                elif type(message) is Delete:
                    self._delete(link, message)
                elif type(message) is Mark:
                    self._remember(message)
                elif type(message) is Names:
                    self._skip_names(message)
                elif type(message) is Settled:
                    self.settled = True
                elif type(message) in (Verify, Intact):
                    self.syncer.message(link, message)
        finally:
            self._hand_out()

    def uplink_lost(self, link: UpLink) -> None:
        """The queue manager is gone; fetching goes on."""
        if link is self._link:
            self._link = None
            self._roster.disconnected()
            self.syncer.disconnected()
            _log.info("Lost {peer}; {orders} orders are held", peer=link.describe(), orders=len(self._book))

    def _order(self, link: UpLink, fetch: Fetch) -> None:
        if fetch.id in self._book or fetch.id in self._results:
            return
        if self.held >= self._settings.orders_max:
            raise StreamError("limit", f"more than {self._settings.orders_max} orders at once")
        sent = link.sent_seconds(fetch.sent_ms)
        start_by = inf if fetch.start_seconds is None else sent + fetch.start_seconds
        self.counters.orders_taken += 1
        self._book.add(Order(fetch, sent + fetch.lease_seconds * LEASE_SHARE, start_by))
        if self._sweep_call is None:
            self._sweep_call = self._clock.callLater(SWEEP_SECONDS, self._sweep)

    def _delete(self, link: UpLink, delete: Delete) -> None:
        if delete.machine != self._settings.machine:
            _log.error(
                "A delete order for machine {machine} came to machine {here}; it is not carried out",
                machine=delete.machine,
                here=self._settings.machine,
            )
            return
        try:
            self._content.remove(delete.file)
        except OSError as error:
            _log.error("Content file {file} cannot be removed: {error}", file=delete.file, error=str(error))
            return  # without an answer it stays on the queue manager's list
        self.counters.files_removed += 1
        link.say(Deleted(delete.id))

    def _skip_names(self, names: Names) -> None:
        _log.error(
            "The database knows of files up to {last}, this content folder only of those below {upto}: it was lost "
            "or put back from a backup. Run lcc-admin fsck --repair here: it has what is lost fetched again",
            last=names.upto - 1,
            upto=self._content.names_upto,
        )
        try:
            self._content.skip_names(names.upto)
        except OSError as error:
            # Whatever was given out now could be somebody else's.
            raise StreamError("limit", f"no file names can be reserved: {error}") from error

    def _remember(self, mark: Mark) -> None:
        try:
            self._content.remember(mark.epoch, mark.change)
        except OSError as error:
            _log.error("Cannot note how far the database has come: {error}", error=str(error))

    # The robots.

    def robot_ready(self, robot: RobotPeer) -> None:
        """A robot takes orders from now on."""
        run = robot.run
        if run:
            # The robot has ended all its fetches when it lost its connection, also if this end has not noticed yet.
            earlier = self._pool.of_run(run)
            if earlier is not None:
                earlier.left = True
                earlier.drop("it has connected again")
            self._release(self._held_back.pop(run, []))
        refused = robot.other_folder(str(self._content.path), self._content.owner)
        if refused:
            self._pool.refuse(robot, refused)
            _log.warn(
                "{peer} gets no orders: {why}. Set [bot] content to that of the BOT-M, and start the robot again",
                peer=robot.describe(),
                why=refused,
            )
            self._tell_capacity()
            return
        self._pool.add(robot)
        _log.info("{peer} is ready for {count} fetches", peer=robot.describe(), count=robot.capacity)
        self._tell_capacity()
        self._roster.tell()

    def robot_changed(self, robot: RobotPeer) -> None:
        """A robot's capacity has changed."""
        self._tell_capacity()

    def robot_done(self, robot: RobotPeer, order: Order, done: Done) -> None:
        """A robot has ended an order."""
        fetch, attempt, code, detail = order.fetch, order.attempt, done.code, done.detail
        file = None
        unchanged = done.unchanged if code == 0 else ""
        if unchanged != "" and unchanged != fetch.stored:
            code, detail, unchanged = _ROBOT_ERROR, "not changed, it says, but it was not asked that", ""
        if code == 0 and not unchanged:
            try:
                self._content.accept(attempt, order.file)
                file = order.file
                self._stores.stored()
                self.counters.files_stored += 1
                self.counters.files_stored_bytes += done.size_bytes
            except OSError as error:
                code, detail = _STORE_FAILED, f"{attempt}: {error}"
        if file is None:
            self._content.discard(attempt)
            if code == _STORE_FAILED and self._stores.failed(detail):
                code = _NO_ROOM
        self._book.drop(order)
        ok = file is not None
        self._report(
            Done(
                number=self._results.next_number,
                id=fetch.id,
                pid=fetch.pid,
                key=fetch.key,
                generation=fetch.generation,
                code=code,
                status=done.status,
                detail=detail,
                url=done.url,
                size_bytes=done.size_bytes if ok else 0,
                md5=done.md5 if ok else "",
                mimetype=done.mimetype,
                charset=done.charset,
                modified=done.modified,
                etag=done.etag,
                headers=done.headers,
                wire_bytes=done.wire_bytes,
                elapsed_ms=done.elapsed_ms,
                machine=self._settings.machine if ok else None,
                file=file,
                revalidate=done.revalidate and ok,
                unchanged=unchanged,
            )
        )

    def robots_settled(self) -> None:
        """A batch of a robot's messages was worked off: it has room again."""
        self._hand_out()

    def robot_lost(self, robot: RobotPeer) -> None:
        """A robot is gone; what it had goes to others."""
        self._pool.remove(robot)
        self.counters.robots_lost += 1
        orders = list(robot.orders.values())
        robot.orders.clear()
        for order in orders:
            order.robot = None
        if orders:
            _log.warn(
                "Lost {peer} with {count} fetches, {then}",
                peer=robot.describe(),
                count=len(orders),
                then="which go to others" if robot.left else "which wait until it is back or their time is over",
            )
        if robot.left and orders:
            self._release_soon(orders)
        elif orders:
            self._held_back.setdefault(robot.run, []).extend(orders)
        self._tell_capacity()
        self._roster.tell()
        self._hand_out()

    # Inside.

    def _hand_out(self) -> None:
        if self._stores.no_room:
            for held in self._book:
                if not held.out:
                    self._send_back(held, _NO_ROOM)
            return
        free = self._pool.free if len(self._book) else 0
        while free > 0 and self._stores.ok:
            order = self._book.take()
            if order is None:
                return
            free -= self._give(order)

    def _stores_changed(self) -> None:
        self._tell_capacity()
        self._hand_out()

    def _give(self, order: Order) -> bool:
        fetch = order.fetch
        now = self._clock.seconds()
        lease = int(order.lease_end - now) - ROBOT_MARGIN_SECONDS
        if lease < 1:
            self._expire(order)
            return False
        start = None if order.start_by == inf else int(order.start_by - now)
        if start is not None and start < 1:
            self._send_back(order, _HOURS_OVER)
            return False
        if not order.file:
            try:
                order.file = self._content.reserve()
            except OSError as error:
                self._book.put_back([order])
                self._stores.failed(f"no file name can be reserved: {error}")
                return False
        order.attempts += 1
        order.attempt = self._content.attempt(order.file, order.attempts)
        robot = self._pool.choose(fetch.pid)
        order.robot = robot
        order.given_at = self.clock_seconds()
        robot.orders[fetch.id] = order
        robot.say(
            Fetch(
                fetch.id,
                fetch.pid,
                fetch.key,
                fetch.generation,
                fetch.url,
                fetch.roots,
                lease,
                fetch.mimetype,
                fetch.private,
                fetch.insecure,
                order.attempt,
                start,
                robot.peer_clock_ms(),
                fetch.stored,
                fetch.etag,
                fetch.modified,
                fetch.stored_bytes,
            )
        )
        return True

    def _sweep(self) -> None:
        self._sweep_call = None
        now = self._clock.seconds()
        late: set[RobotPeer] = set()
        for order in self._book:
            if now >= order.lease_end:
                if order.robot is None:
                    self._expire(order)
                elif order.robot not in late:
                    late.add(order.robot)
                    order.robot.drop("it has not ended a fetch in time")
            elif now >= order.start_by and not order.out:
                self._send_back(order, _HOURS_OVER)
        for run in [run for run, orders in self._held_back.items() if all(order.dropped for order in orders)]:
            del self._held_back[run]
        if len(self._book):
            self._sweep_call = self._clock.callLater(SWEEP_SECONDS, self._sweep)
        self._hand_out()

    def _release_soon(self, orders: list[Order]) -> None:
        def release() -> None:
            self._ending.discard(call)
            self._release(orders)
            self._hand_out()

        call = self._clock.callLater(ENDING_SECONDS, release)
        self._ending.add(call)

    def _release(self, orders: list[Order]) -> None:
        for order in orders:
            if order.attempt:
                self._content.discard(order.attempt)
        self._book.put_back(orders)

    def _send_back(self, order: Order, code: int) -> None:
        """It is too late for it, or there is no room; it was not begun (or not by a robot that is still there)."""
        self.counters.orders_sent_back += 1
        self._book.drop(order)
        fetch = order.fetch
        self._report(Done(self._results.next_number, fetch.id, fetch.pid, fetch.key, fetch.generation, code=code))

    def _report(self, done: Done) -> None:
        text = self._results.add(done)
        if self._link is not None:
            self._link.stream.send(text)

    def _expire(self, order: Order) -> None:
        self.counters.orders_expired += 1
        _log.info("The time of order {id} is over; it is dropped", id=order.fetch.id)
        if order.attempt:
            self._content.discard(order.attempt)
        self._book.drop(order)

    def _tell_capacity(self) -> None:
        told = Capacity(self.capacity, self._stores.no_room, self.paused_here, self._pool.refused_told)
        if self._link is not None and told != self._told_capacity:
            self._told_capacity = told
            self._link.say(told)
