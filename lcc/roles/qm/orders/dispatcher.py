"""Orders: which BOT-M gets the next row, what is out where, and what becomes of it.

The orders of a provider that are out are a run: one robot carries them out one after the other, so that many pages
cost one message at each hop.  Until all of them are answered, more of the provider can only follow those, to the same
machine by the same connection.  What has not been begun can be recalled; that frees nothing until it is answered.

Each BOT-M gets a few more runs than it has robots for (``overload``), so that none is ever idle; what hangs with a
lost robot has a place besides.  They wait there for a robot; while any do, runs end with their quantum, or after a
part of a lease: one that grew for ever would keep its robot from them.  For the same reason no more of a slow site is
out at a time than is fetched within such a part.  A provider's runs go where its last one went, because the
connection to its site is open there, as long as that BOT-M has a free robot; else to the BOT-M with the most room.
This is remembered for a while when the provider has nothing to fetch.

An order that does not come back is handed out again, but never while it may still be running (no two fetches at once
from one provider):

* its BOT-M has connected again and says that it is not running there: at once (unless it was started anew, and a
  robot that hangs may still be fetching it);
* its lease has passed: whoever had it has given up before that.  When this happens again to the same row at a BOT-M
  that was there all the time, the row counts as failed (``robot-error``) and goes to the end of its set: a URL that
  makes robots hang must not hold up its provider for ever.  Of a run that is the first order: the others may not even
  have been begun.

An order of an earlier queue manager, which a BOT-M says is running, keeps its provider busy in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf

from twisted.logger import Logger

from lcc.domain.fetches.results import ResultCounts
from lcc.domain.keys import pid_of
from lcc.errors import StreamError, code
from lcc.model import ANY_TYPE, COUNTED, FetchResult, Source
from lcc.model.content_batches import count_of
from lcc.protocols.hello import Hello
from lcc.protocols.work import Done, Fetch, Running
from lcc.roles.qm.orders.machines import Machine, Order
from lcc.roles.qm.orders.recorder import Entry, Recorder
from lcc.roles.qm.peers.handler import Connection
from lcc.roles.qm.schedule.delays import SITE
from lcc.roles.qm.schedule.runs import Behind
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import ProviderWork

_log = Logger()

_ROBOT_ERROR = code("robot-error")
_HOURS_OVER = code("hours-over")
_NO_ROOM = code("no-room")
_HANDED_BACK = code("handed-back")
_CAME_BACK = frozenset([_HOURS_OVER, _NO_ROOM, _HANDED_BACK])
_NOTHING_STORED: tuple[str, str, int | None, int | None] = ("", "", None, None)
_EXPIRED_KEPT = 10_000
_TOLD, _POLLED = int(Source.TOLD), int(Source.POLLED)
RUN_SHARE = 0.2
"""Of a lease: what is out of one provider takes no longer, as far as anybody knows, and where others wait for a robot
its run grows for no longer: their leases must not pass because sites are slow."""
AFFINITY_MAX = 20_000
"""Providers of which the last machine is remembered when they have nothing to fetch for a while."""


def read_key(text: str, pid: int) -> bytes:
    """A URL's key as messages carry it.

    :raises StreamError: it is none, or not of this provider.
    """
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 20 or pid_of(key) != pid:
        raise StreamError("syntax", f"{text[:80]!r} is no key of provider {pid}")
    return key


class Dispatcher:
    """All orders that are out.

    :param overload: runs at a BOT-M, as a multiple of its capacity (not with a ``site_rate``).
    :param lease_seconds: how long an order may take.
    :param wall_clock: seconds since 1970, for what the scheduler decides.
    :param site_rate: bytes per second for all fetches together; 0: without limit.
    :param run_rows: orders of one provider that are out at the same time, at most; 1 with a ``site_rate``.
    :ivar paused_since: since when an operator has it send no orders (seconds since 1970); None: it does.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        recorder: Recorder,
        overload: float,
        lease_seconds: float,
        wall_clock: Callable[[], float],
        site_rate: int = 0,
        run_rows: int = 1,
        retry_after_max: float = 0.0,
        accepts: str = "",
    ) -> None:
        self.machines: dict[int, Machine] = {}
        self.paused_since: int | None = None
        self.results = ResultCounts()
        self.orders_sent = 0
        self.orders_lost = 0
        self.leases_passed = 0
        self.results_again = 0
        self.orders_too_late = 0
        self.orders_no_room = 0
        self.orders_handed_back = 0
        self.runs_recalled = 0
        self._scheduler = scheduler
        self._recorder = recorder
        # What waits at a BOT-M would begin while the site has not paid.
        self._overload = 1.0 if site_rate else overload
        self._lease = self._longest_seconds = lease_seconds
        scheduler.run_seconds = RUN_SHARE * lease_seconds
        self._wall_clock = wall_clock
        self._site_rate = site_rate
        self._run_rows = run_rows
        self._retry_after_max = retry_after_max
        self._accepts = accepts
        self._lease_text = max(1, int(lease_seconds))
        self._orders: dict[str, Order] = {}
        self._foreign: dict[str, Order] = {}
        self._expired: dict[bytes, int] = {}
        self._homes: dict[int, int] = {}
        self._run = ""
        self._number = 0

    @property
    def orders_out(self) -> int:
        """Orders that are out, those of earlier queue managers included."""
        return len(self._orders) + len(self._foreign)

    @property
    def orders(self) -> list[Order]:
        """Those orders, in the order in which they went out."""
        return [*self._foreign.values(), *self._orders.values()]

    def home(self, pid: int) -> int:
        """The machine that this provider's last order went to, as far as it is remembered; 0: none."""
        return self._homes.get(pid, 0)

    def enable(self, timeline: str, longest_seconds: float) -> None:
        """Orders may be sent from now on.

        :param timeline: of the database, which has begun with this queue manager: the orders' ids begin with it, and
            so are unique also after the database was put back.
        :param longest_seconds: the longest lease that orders of earlier queue managers may have.
        """
        self._run = f"{timeline}-"
        self._longest_seconds = longest_seconds

    # What the BOT-Ms say.

    def connected(self, connection: Connection, hello: Hello) -> Machine:
        """A BOT-M has connected.

        :raises StreamError: another one of the same machine is there.
        """
        machine = self.machines.get(hello.machine)
        if machine is None:
            machine = self.machines[hello.machine] = Machine(hello.machine)
        machine.connected(connection, hello)
        return machine

    def running(self, machine: Machine, message: Running, now: float) -> None:
        """An order from before this connection is still being fetched.

        :raises StreamError: the message makes no sense.
        """
        machine.reported.add(message.id)
        if message.id in self._orders or message.id in self._foreign:
            return
        key = read_key(message.key, message.pid)
        longest = self._longest_seconds
        left = min(float(max(0, message.lease_seconds)), longest) + 0.1 * longest
        order = Order(message.id, message.pid, key, message.generation, (0, 0), now + left, machine)
        self._foreign[message.id] = order
        machine.add(order, None, now)
        self._scheduler.running(message.pid, key, message.generation)

    def ready(self, machine: Machine, unsure: float | None = None) -> None:
        """It has said everything: what it did not name is not running there.

        :param unsure: what went to it before this time on the clock, to an earlier run of it, may be.
        """
        missing = [order for order_id, order in machine.orders.items() if order_id not in machine.reported]
        machine.become_ready(unsure)
        lost = [order for order in missing if order.id not in machine.earlier]
        for order in lost:
            self._lost(order)
        if lost:
            _log.info("{count} orders were lost at BOT-M {machine}", count=len(lost), machine=machine.number)
        if machine.earlier:
            _log.warn(
                "Robots of BOT-M {machine} hang: {count} orders from before its start may still be fetched, and wait "
                "until that is over, or their leases",
                count=len(machine.earlier),
                machine=machine.number,
            )
        machine.acknowledge()
        machine.recall_again()

    def done(self, machine: Machine, message: Done) -> None:
        """A fetch has ended."""
        if not machine.is_new(message.number):
            self.results_again += 1
            return
        order = self._forget(message.id, answered=message.code not in _CAME_BACK or message.elapsed_ms > 0)
        if message.code in _CAME_BACK:
            self._came_back(order, machine, message)
            return
        result: FetchResult | None = None
        try:
            result = message.result(read_key(message.key, message.pid), machine.number)
            if order is not None and (result.key, result.generation) != (order.key, order.generation):
                raise StreamError("syntax", f"order {order.id} was for another URL")
        except StreamError as error:
            _log.error(
                "Unusable result from BOT-M {machine}: {error}",
                machine=machine.number,
                error=str(error),
            )
            if order is not None:
                result = FetchResult(order.pid, order.key, order.generation, _ROBOT_ERROR, detail="unusable result")
        if result is not None:
            self.results.ended(result.code, bool(result.unchanged), result.wire_bytes, result.size_bytes)
            wall = self._wall_clock()
            if self._site_rate:
                self._scheduler.delays.charge(SITE, result.wire_bytes, self._site_rate, wall)
            if order is not None:
                elapsed = message.elapsed_ms / 1000
                self._scheduler.finished(order.pid, order.key, result.code, result.wire_bytes, wall, elapsed)
            else:
                self._scheduler.known(result.key, result.generation)
                self._scheduler.costs.came(result.pid, result.wire_bytes, wall, message.elapsed_ms / 1000)
            if message.retry_seconds > 0 and result.code and self._retry_after_max:
                seconds = min(message.retry_seconds, self._retry_after_max)
                self._scheduler.asked(result.pid, result.code, seconds, wall)
            if self._expired:
                self._expired.pop(result.key, None)
        psetid = 0 if order is None else order.place[0]
        timeline = "" if psetid else message.id.partition("-")[0]
        self._recorder.add(Entry(result, machine, machine.run, message.number, psetid, timeline))

    def _came_back(self, order: Order | None, machine: Machine, done: Done) -> None:
        """Nothing was found out: the row is looked at again, and waits for its hours, or for a machine with room."""
        if order is not None:
            if done.code == _HOURS_OVER:
                self.orders_too_late += 1
            elif done.code == _NO_ROOM:
                self.orders_no_room += 1
            else:
                self.orders_handed_back += 1
            wall = self._wall_clock()
            if done.owed_ms > 0:
                self._scheduler.costs.owes(order.pid, done.owed_ms / 1000, wall)
            if done.wire_bytes > 0 or done.elapsed_ms > 0:  # it was begun
                if self._site_rate:
                    self._scheduler.delays.charge(SITE, done.wire_bytes, self._site_rate, wall)
                self._scheduler.costs.came(order.pid, done.wire_bytes, wall, done.elapsed_ms / 1000)
            self._scheduler.lost(order.pid, order.key, *order.place)
        self._recorder.add(Entry(None, machine, machine.run, done.number))

    # What goes out.

    def slots(self) -> tuple[int, int]:
        """How many runs all BOT-Ms together take now, and how many they may hold."""
        free = total = 0
        for machine in self.machines.values():
            if machine.ready:
                most = machine.places(self._overload)
                total += most
                if machine.granted:
                    free += max(0, most - machine.load)
        return free, total

    def send(self, now: float) -> tuple[int, int]:
        """Send as many orders as there are rows and room; gives how many runs may be sent still, and how many all
        BOT-Ms together may hold."""
        self.send_recalls()
        free, total = self.slots()
        if not self._run or self.paused_since is not None:
            return 0, total
        scheduler, wall, room = self._scheduler, self._wall_clock(), self._room()
        scheduler.spaces_runs = all(each.knows_interval for each in self.machines.values() if each.granted)
        most = self._run_rows if room > 0 else 1
        for work in scheduler.take_more(wall, most, lambda work: self._behind(work, now)):
            room -= len(work.rows_out)
            self._send_rows(self.machines[work.machine], work, now, wall)
        while True:
            while free > 0:
                taken = scheduler.take(wall, min(self._run_rows, max(1, room)))
                if taken is None:
                    return free, total
                room -= len(taken.rows_out)
                self._send_rows(self._machine_for(taken.machine or self._homes.get(taken.pid, 0)), taken, now, wall)
                free -= 1
            if room <= 0 or not scheduler.overtaken(self._frees):
                return 0, total
            self.send_recalls()
            free, total = self.slots()

    def recall_all(self) -> None:
        """Nothing more of what is out is to be begun."""
        self._scheduler.recall_all()
        self.send_recalls()

    def disable(self) -> None:
        """Send no orders any more, and recall those that are out."""
        self._run = ""
        self.recall_all()

    def send_recalls(self) -> None:
        """Recall what the scheduler wants back."""
        if not self._scheduler.recalls:
            return
        recalls, self._scheduler.recalls = self._scheduler.recalls, set()
        for pid in sorted(recalls):
            for machine in self.machines.values():
                self.runs_recalled += machine.recall(pid)

    def _room(self) -> int:
        """How many orders any BOT-M takes now, several of one provider among them; 0 or less while there is one of
        an older version, or with so many that it takes no more: then each provider gets one at a time."""
        return min((machine.room for machine in self.machines.values() if machine.granted), default=0)

    def _behind(self, work: ProviderWork, now: float) -> Behind:
        machine = self.machines.get(work.machine)
        if machine is None or not machine.may_grow(work.pid, now - RUN_SHARE * self._lease):
            return Behind(0, False)
        return Behind(machine.room, machine.contended)

    def _frees(self, work: ProviderWork) -> bool:
        """Whether there is room for another run once this one is recalled."""
        return any(
            machine.granted and machine.frees(work.pid) and machine.load <= machine.places(self._overload)
            for machine in self.machines.values()
        )

    def _send_rows(self, machine: Machine, work: ProviderWork, now: float, wall: float) -> None:
        connection, info = machine.connection, work.info
        assert info is not None and connection is not None
        if work.machine != machine.number:
            work.machine = machine.number
            self._remember_home(work.pid, machine.number)
        deadline, sent_ms, rate = now + self._lease, connection.peer_clock_ms(), info.limits.rate or 0
        interval_ms = ceil(info.limits.interval * 1000)
        machine.given += len(work.rows_out)
        self.orders_sent += len(work.rows_out)
        for row, start_by in work.rows_out:
            key, pid, psetid, _, seq, _, generation, _, _, notice, stored, _, source, _ = row
            self._number += 1
            order_id = f"{self._run}{self._number}"
            order = self._orders[order_id] = Order(order_id, pid, key, generation, (psetid, seq), deadline, machine)
            machine.add(order, connection, now, work.priority)
            url = notice.furl or notice.curl
            if "#" in url:
                url = url.partition("#")[0]
            mimetype, polled, renew, accepts, files = notice.mimetype, False, False, "", 0
            if source != _TOLD:
                renew = bool(source & _POLLED)
                # What others name as well redirects within the roots; its type is judged where it is recorded.
                polled = renew and not source & COUNTED
                files = count_of(notice.subtype) if polled and notice.subtype else 0
                if mimetype == ANY_TYPE:
                    mimetype, accepts = "", "" if renew else self._accepts
            token, etag, modified, stored_bytes = stored or _NOTHING_STORED
            connection.say(
                Fetch(
                    order_id,
                    pid,
                    key.hex(),
                    generation,
                    url,
                    info.roots,
                    self._lease_text,
                    mimetype,
                    info.private,
                    info.insecure,
                    "",
                    None if start_by == inf else int(start_by - wall),
                    sent_ms,
                    token,
                    etag,
                    modified,
                    stored_bytes,
                    work.priority,
                    rate,
                    0,
                    interval_ms,
                    polled,
                    accepts,
                    renew,
                    files,
                )
            )
        work.rows_out = []

    def _remember_home(self, pid: int, number: int) -> None:
        homes = self._homes
        homes.pop(pid, None)
        homes[pid] = number
        if len(homes) > AFFINITY_MAX:
            del homes[next(iter(homes))]

    def _machine_for(self, last: int) -> Machine:
        """Where the next order goes; there is room somewhere."""
        machines = self.machines
        machine = machines.get(last)
        if machine is not None and machine.granted and machine.load < machine.places(1.0):
            return machine
        if len(machines) == 1:
            return next(iter(machines.values()))
        return max(
            (machine for machine in machines.values() if machine.granted),
            # Of equals the one that got least, so that content is spread when there is little to do.
            key=lambda machine: (
                machine.capacity * self._overload + machine.runs_hanging - machine.load,
                -machine.given,
            ),
        )

    # What does not come back.

    def check_leases(self, now: float) -> None:
        """Give up orders whose leases have passed."""
        late: list[Order] = []
        for order in self._orders.values():  # in the order of their deadlines
            if order.deadline > now:
                break
            late.append(order)
        late += [order for order in self._foreign.values() if order.deadline <= now]
        for order in late:
            self._lease_passed(order)

    def _lease_passed(self, order: Order) -> None:
        self.leases_passed += 1
        _log.warn(
            "Lease of order {id} for provider {pid} at BOT-M {machine} has expired",
            id=order.id,
            pid=order.pid,
            machine=order.machine.number,
        )
        run = order.machine.runs[order.pid]
        there = order.machine.ready and order.id not in order.machine.earlier
        suspect, run.suspected = there and not run.suspected, True
        times = self._expired.get(order.key, 0)
        if not (suspect and times):
            if suspect and len(self._expired) < _EXPIRED_KEPT:
                self._expired[order.key] = times + 1
            self._lost(order)
            return
        self._expired.pop(order.key, None)
        self._forget(order.id)
        self._scheduler.finished(order.pid, order.key, _ROBOT_ERROR, 0, self._wall_clock())
        result = FetchResult(
            order.pid, order.key, order.generation, _ROBOT_ERROR, detail=f"no answer within {self._lease:g} seconds"
        )
        self._recorder.add(Entry(result))

    def _lost(self, order: Order) -> None:
        self.orders_lost += 1
        self._forget(order.id)
        self._scheduler.lost(order.pid, order.key, *order.place, self._wall_clock())

    def _forget(self, order_id: str, answered: bool = False) -> Order | None:
        order = self._orders.pop(order_id, None) or self._foreign.pop(order_id, None)
        if order is not None:
            run = order.machine.forget(order)
            if answered:
                run.suspected = False
        return order
