"""Hands orders to robots, and takes back what came of them: which order goes where, and what a lost robot means.

Leases, hours and failures of robots are as :mod:`lcc.roles.botm.engine` says.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import ceil, inf

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from lcc.config import BotmConfig
from lcc.errors import CODES, StreamError
from lcc.interfaces import IContentFolder
from lcc.model.content_batches import read_stored
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.work import Capacity, Done, Recall
from lcc.roles.botm.counters import Counters
from lcc.roles.botm.disk_health import DiskHealth
from lcc.roles.botm.downstream import DownstreamFactory
from lcc.roles.botm.orders import HeldOrder, OrderBook, Run
from lcc.roles.botm.results import Results
from lcc.roles.botm.robots import Pool, RobotPeer
from lcc.roles.botm.roster import Roster

_log = Logger()

LEASE_SHARE = 0.9
"""The part of a lease that counts here: the rest went by, or may have gone by, on the way."""
ROBOT_MARGIN_SECONDS = 2
"""A robot must have ended this long before the order's time is over."""
SWEEP_SECONDS = 1.0
WAIT_MARGIN_SECONDS = ROBOT_MARGIN_SECONDS + 1 + SWEEP_SECONDS
"""An order that has waited for a robot until then, before its time is over, is no longer given to one."""
ENDING_SECONDS = 0.5
"""A process that dies closes its connections one by one: that to here may be closed before those to sites."""
_STORE_FAILED = CODES["store-failed"]
_NO_ROOM = CODES["no-room"]
_HOURS_OVER = CODES["hours-over"]
_ROBOT_ERROR = CODES["robot-error"]
_HANDED_BACK = CODES["handed-back"]
_UNSUPPORTED = CODES["scheme-unsupported"]


class Dispatcher:
    """The robots' side of a BOT-M.

    :param hello: what this end says of itself to robots.
    :param results: numbers and keeps the results.
    :param report: sends the text of a result up.
    :param capacity_changed: called when the robots can do more, or less, at once.
    :ivar orders: those that are held.
    :ivar pool: the robots.
    :ivar roster: tells the upper end of them.
    """

    def __init__(
        self,
        settings: BotmConfig,
        clock: IReactorTime,
        content: IContentFolder,
        hello: Hello,
        disk: DiskHealth,
        counters: Counters,
        results: Results,
        report: Callable[[str], None],
        capacity_changed: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._content = content
        self._machine = settings.machine
        self._disk = disk
        self._counters = counters
        self._results = results
        self._report = report
        self._capacity_changed = capacity_changed
        self.orders = OrderBook()
        self.pool = Pool()
        self.roster = Roster(clock, lambda: self.pool.robots)
        self.factory = DownstreamFactory(
            lambda: RobotPeer(self, clock, hello, capacity_changed), settings.robots_max, "robots"
        )
        self._held_back: dict[str, list[Run]] = {}
        self._dropped: dict[int, float] = {}
        """Provider -> until when the queue manager counts orders of it as out that were dropped here."""
        self._ending: set[IDelayedCall] = set()
        self._sweep_call: IDelayedCall | None = None

    @property
    def hanging(self) -> int:
        """Runs that the queue manager has out here, and that no robot can take: those that a lost one may still carry
        out, unless they are recalled, and those that were dropped."""
        held = sum(not run.recalled for runs in self._held_back.values() for run in runs)
        return held + sum(self.orders.run(pid) is None for pid in self._dropped)

    def stop(self) -> None:
        """End all timers and the robots' connections."""
        self.roster.disconnected()
        for call in (self._sweep_call, *self._ending):
            if call is not None and call.active():
                call.cancel()
        self.factory.drop_all()

    def add(self, order: HeldOrder) -> None:
        """Take in a new order; it goes to a robot with the next :meth:`hand_out`."""
        self._counters.orders_taken += 1
        self.orders.add(order)
        if self._sweep_call is None:
            self._sweep_call = self._clock.callLater(SWEEP_SECONDS, self._sweep)

    def upstream_ready(self) -> None:
        """The queue manager is told what is held: all else is lost, for it too."""
        self._dropped.clear()

    def recall(self, pid: int) -> None:
        """Of this provider's orders only the one that is being fetched is still wanted."""
        run = self.orders.run(pid)
        if run is None:
            return
        run.recalled = True
        self._send_back_waiting(run)
        self._capacity_changed()
        if run.robot is not None and run.robot.takes_runs:
            run.robot.say(Recall(pid))

    def disk_changed(self) -> None:
        """Content can be stored, or can be no longer: then what the robots have not begun is wanted back."""
        if not self._disk.ok:
            for run in [run for robot in self.pool.robots for run in robot.runs.values() if len(run.orders) > 1]:
                self.recall(run.pid)
        self.hand_out()

    def hand_out(self) -> None:
        """Give the robots what they have room for; without room on the disk, send back what is not out."""
        if self._disk.no_room:
            for held in self.orders:
                if not held.out:
                    self._send_back(held, _NO_ROOM)
            return
        if not self._disk.ok:
            return
        for run in self.orders.take_grown():
            if run.robot.capacity:
                self._give(run, run.robot)
        free = self.pool.free if len(self.orders) else 0
        while free > 0 and self._disk.ok:
            taken = self.orders.take()
            if taken is None:
                return
            free -= self._give(taken, self.pool.choose(taken.pid))

    # The robots.

    def downstream_messages(self, robot: RobotPeer, messages: list[Flat]) -> None:
        """A robot says this; it has room again afterwards."""
        try:
            for message in messages:
                if type(message) is Done:
                    self._ended(robot, robot.take_back(message.id), message)
                elif type(message) is Capacity:
                    robot.set_capacity(message.fetches, bool(message.paused))
                    self._capacity_changed()
                elif not robot.is_ready:
                    robot.begin()
                    self._robot_ready(robot)
        except StreamError:
            robot.take_no_more()
            raise
        finally:
            self.hand_out()

    def downstream_lost(self, robot: RobotPeer) -> None:
        """A robot is gone; what it had goes to others."""
        self.factory.discard(robot)
        self.pool.remove(robot)
        self._counters.robots_lost += 1
        runs, count = list(robot.runs.values()), len(robot.orders)
        robot.orders.clear()
        robot.runs.clear()
        for run in runs:
            run.robot = None
            for order in run.orders.values():
                order.robot = None
        if runs:
            _log.warn(
                "Lost {peer} with {count} orders, {then}",
                peer=robot.describe(),
                count=count,
                then="which go to others" if robot.left else "held until it reconnects or their time is over",
            )
        if robot.left and runs:
            self._release_soon(runs)
        elif runs:
            self._held_back.setdefault(robot.run, []).extend(runs)
        if robot.left and self.pool.of_run(robot.run) is None:
            self._content.robot_over(robot.run)
        self._capacity_changed()
        self.roster.tell()
        self.hand_out()

    def _robot_ready(self, robot: RobotPeer) -> None:
        run = robot.run
        if run:
            # The robot has ended all its fetches when it lost its connection, also if this end has not noticed yet.
            earlier = self.pool.of_run(run)
            if earlier is not None:
                earlier.left = True
                earlier.drop("it has connected again")
            self._release(self._held_back.pop(run, []))
        refused = robot.other_folder(str(self._content.path), self._content.owner)
        if refused:
            self.pool.refuse(robot, refused)
            _log.warn(
                "{peer} gets no orders: {why}. Set [bot] content to that of the BOT-M, and restart the robot",
                peer=robot.describe(),
                why=refused,
            )
            self._capacity_changed()
            return
        self.pool.add(robot)
        _log.info("{peer} is ready for {count} fetches", peer=robot.describe(), count=robot.capacity)
        self._capacity_changed()
        self.roster.tell()

    def _ended(self, robot: RobotPeer, order: HeldOrder, done: Done) -> None:
        """A robot has ended an order: what the queue manager is told of it."""
        fetch, code, detail = order.fetch, done.code, done.detail
        file = None
        unchanged = done.unchanged if code == 0 else ""
        if unchanged != "" and unchanged != fetch.stored:
            code, detail, unchanged = _ROBOT_ERROR, "not modified, though the order was not conditional", ""
        if code == 0 and not unchanged:
            try:
                self._counters.files_stored += self._accept(order, done)
                file = order.file
                self._disk.stored()
                self._counters.files_stored_bytes += done.size_bytes
            except OSError as error:
                code, detail = _STORE_FAILED, f"{order.attempt}: {error}"
            except ValueError as error:
                code, detail = _ROBOT_ERROR, str(error)
        if file is None:
            self._discard(order)
            if code == _STORE_FAILED and self._disk.failed(detail):
                code = _NO_ROOM
        run = order.run
        self.orders.drop(order)
        now = self._clock.seconds()
        if not run.ended(order, done, now):
            del robot.runs[run.pid]
            self.orders.keep_debt(run, now)
            self.orders.put_back([run])  # with what it did not get, as it is paused, or of an older version
        ok = file is not None
        self._report(
            self._results.add(
                done.replaced(
                    number=self._results.next_number,
                    pid=fetch.pid,
                    key=fetch.key,
                    generation=fetch.generation,
                    code=code,
                    detail=detail,
                    size_bytes=done.size_bytes if ok else 0,
                    md5=done.md5 if ok else "",
                    machine=self._machine if ok else None,
                    file=file,
                    revalidate=done.revalidate and ok,
                    unchanged=unchanged,
                    files=done.files if ok and fetch.files else "",
                )
            )
        )

    def _accept(self, order: HeldOrder, done: Done) -> int:
        """Rename what was stored into place; gives how many files it is.

        :raises OSError: it cannot be; nothing is left.
        :raises ValueError: the robot does not say what it has stored of a batch.
        """
        if not order.fetch.files:
            self._content.accept(order.attempt, order.file)
            return 1
        stored = read_stored(done.files, order.fetch.files)
        if not any(stored):
            raise ValueError("nothing of a batch")
        accepted: list[int] = []
        try:
            for file, attempt, found in zip(order.files, order.attempts_written, stored, strict=True):
                if found is not None:
                    self._content.accept(attempt, file)
                    accepted.append(file)
        except OSError:
            for file in accepted:
                with suppress(OSError):  # else it stays behind for fsck
                    self._content.remove(file)
            raise
        return len(accepted)

    def _discard(self, order: HeldOrder) -> None:
        """Remove what was written for it."""
        for attempt in order.attempts_written:
            self._content.discard(attempt)

    # Orders.

    def _give(self, run: Run, robot: RobotPeer) -> bool:
        """Give this robot what it does not have of a run; False: it has nothing of it."""
        now = self._clock.seconds()
        run.robot = robot
        for order in [order for order in run.orders.values() if not order.out]:
            if not robot.takes_runs and run.pid in robot.runs:
                break  # it gets the next one when it has ended that
            if order.fetch.interval_ms and not robot.knows_interval and (run.pid in robot.runs or run.paid_at > now):
                self._send_back(order, _HANDED_BACK)
                continue
            lease = int(order.lease_end - now) - ROBOT_MARGIN_SECONDS
            start = None if order.start_by == inf else int(order.start_by - now)
            if order.fetch.files and not robot.knows_batches:
                self._send_back(order, _UNSUPPORTED)  # its files are asked for one by one then
            elif lease < 1:
                self._expire(order)
            elif start is not None and start < 1:
                self._send_back(order, _HOURS_OVER)
            elif not self._reserve(order):
                self.orders.not_given(run)
                break
            else:
                self._give_one(run, order, robot, lease, start, now)
        if run.pid in robot.runs:
            return True
        self.orders.put_back([run])
        return False

    def _reserve(self, order: HeldOrder) -> bool:
        """Reserve file names for it; False: the disk fails."""
        if not order.file:
            try:
                # Nobody else reserves any meanwhile: those of a batch follow one another.
                file_ids = [self._content.reserve() for _ in range(max(1, order.fetch.files))]
                order.file = file_ids[0]
            except OSError as error:
                self._disk.failed(f"cannot reserve a file name: {error}")
                return False
        return True

    def _give_one(
        self, run: Run, order: HeldOrder, robot: RobotPeer, lease: int, start: int | None, now: float
    ) -> None:
        order.attempts += 1
        order.attempt = self._content.attempt(order.file, order.attempts)
        order.robot = robot
        order.given_at = now
        order.out = True
        robot.orders[order.fetch.id] = order
        robot.runs[run.pid] = run
        robot.say(
            order.fetch.replaced(
                lease_seconds=lease,
                attempt=order.attempt,
                start_seconds=start,
                sent_ms=robot.peer_clock_ms(),
                owed_ms=max(0, ceil((run.paid_at - now) * 1000)),
            )
        )

    def _sweep(self) -> None:
        self._sweep_call = None
        now = self._clock.seconds()
        late: set[RobotPeer] = set()
        for order in self.orders:
            if now >= order.lease_end:
                if order.robot is None:
                    self._expire(order)
                elif order.robot not in late:
                    late.add(order.robot)
                    order.robot.drop("it has not ended a fetch in time")
            elif now >= order.start_by and not order.out:
                self._send_back(order, _HOURS_OVER)
            elif not order.attempts and now >= order.lease_end - WAIT_MARGIN_SECONDS:
                self._expire(order)
        for name, runs in list(self._held_back.items()):
            self._release([run for run in runs if not run.given])  # what came after that robot was lost
            if held := [run for run in runs if run.given]:
                self._held_back[name] = held
            else:
                del self._held_back[name]
        self._dropped = {pid: until for pid, until in self._dropped.items() if until > now}
        self._capacity_changed()
        if len(self.orders) or self._dropped:
            self._sweep_call = self._clock.callLater(SWEEP_SECONDS, self._sweep)
        self.hand_out()

    def _release_soon(self, runs: list[Run]) -> None:
        def release() -> None:
            self._ending.discard(call)
            self._release(runs)
            self.hand_out()

        call = self._clock.callLater(ENDING_SECONDS, release)
        self._ending.add(call)

    def _release(self, runs: list[Run]) -> None:
        for run in runs:
            run.may_have_begun(self._clock.seconds())
            for order in run.orders.values():
                self._discard(order)
        self.orders.put_back(runs)
        for run in runs:
            if run.recalled:
                self._send_back_waiting(run)

    def _send_back_waiting(self, run: Run) -> None:
        """Those orders of a run that no robot has, or may have."""
        for order in [order for order in run.orders.values() if not order.out]:
            self._send_back(order, _HANDED_BACK)

    def _send_back(self, order: HeldOrder, code: int) -> None:
        """It is too late for it, or there is no room; it was not begun (or not by a robot that is still there)."""
        self._counters.orders_sent_back += 1
        self.orders.drop(order)
        fetch, now = order.fetch, self._clock.seconds()
        self.orders.keep_debt(order.run, now)
        owed = max(0.0, order.run.paid_at - now) if fetch.interval_ms else 0.0
        self._report(
            self._results.add(
                Done(
                    self._results.next_number,
                    fetch.id,
                    fetch.pid,
                    fetch.key,
                    fetch.generation,
                    code=code,
                    owed_ms=ceil(owed * 1000),
                )
            )
        )

    def _expire(self, order: HeldOrder) -> None:
        if not order.attempts:
            self._send_back(order, _HANDED_BACK)  # dropped, it would count as one that a robot cannot end
            return
        self._counters.orders_expired += 1
        _log.info("Dropping order {id}: its time is over", id=order.fetch.id)
        self._dropped[order.fetch.pid] = order.lease_end + order.fetch.lease_seconds * (1 - LEASE_SHARE)
        self._discard(order)
        self.orders.drop(order)
