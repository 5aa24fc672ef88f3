"""What the queue manager knows of the BOT-Ms: one :class:`Machine` for each machine id that ever connected.

A machine outlives its connections: when the connection is lost its orders stay out, because they are still being
fetched, until the BOT-M is back and says which ones are not, or their leases have passed.
"""

from __future__ import annotations

from twisted.logger import Logger

from lcc.errors import StreamError
from lcc.model.providers import PRIORITIES
from lcc.protocols.hello import KNOWS_INTERVAL, Hello, is_earlier
from lcc.protocols.work import MachineHello, Mark, Recall, RecordedUpto, Robot
from lcc.roles.qm.peers.handler import Connection

_log = Logger()

OLD_CENTRAL = (
    "a central BOT-M on the way to it is of an older version, and could bring an order to a connection that knows "
    "nothing of it: bring it to the version of the queue manager"
)
"""Why a machine gets no orders whose hello came without the name of its connection."""


class Order:
    """A work order that is out.

    :ivar place: the row's ``(psetid, seq)``; (0, 0) for an order of an earlier queue manager, where it is not known.
    :ivar deadline: on the clock's scale: then it is lost.
    """

    __slots__ = ("deadline", "generation", "id", "key", "machine", "pid", "place")

    def __init__(
        self,
        order_id: str,
        pid: int,
        key: bytes,
        generation: int,
        place: tuple[int, int],
        deadline: float,
        machine: Machine,
    ) -> None:
        self.id = order_id
        self.pid = pid
        self.key = key
        self.generation = generation
        self.place = place
        self.deadline = deadline
        self.machine = machine


class Run:
    """The orders of one provider that are out at one machine: they are carried out one after the other.

    :ivar connection: by which they went, and by which more may follow; None: those of an earlier queue manager, which
        no more may follow.
    :ivar orders: by id, in the order in which they went.
    :ivar since: clock time when the first of them went.
    :ivar priority: of the provider when it did; 0: that is not known.
    :ivar recalled: what is not begun was asked back.
    :ivar suspected: since something came of it, one of its orders was given up, and may be what hangs.
    """

    __slots__ = ("connection", "orders", "pid", "priority", "recalled", "since", "suspected")

    def __init__(self, pid: int, connection: Connection | None, since: float, priority: int) -> None:
        self.pid = pid
        self.since = since
        self.priority = priority
        self.connection = connection
        self.orders: dict[str, Order] = {}
        self.recalled = False
        self.suspected = False


class Machine:
    """A BOT-M.

    :ivar number: its machine id.
    :ivar name: what it calls itself.
    :ivar via: the names of the central BOT-Ms on the way to it, from the top down; empty: it is connected directly.
    :ivar content: the address at which its content is read; empty: it tells none.
    :ivar run: which run of its process is, or was last, connected.
    :ivar session: its connection, as it names it; empty: it does not.
    :ivar refused: why it gets no orders, for people; empty: it may get some.
    :ivar connection: None: it is disconnected.
    :ivar ready: it has said on this connection what is still running.
    :ivar granted: it may get orders (:mod:`lcc.roles.qm.orders.leases`).
    :ivar mark: how far the database had come when it was told last.
    :ivar capacity: fetches that its robots do at once.
    :ivar hanging: runs out there that none of them can take, as a lost one may still be fetching.
    :ivar trouble: why it can store nothing at present, as it says; empty: it can.
    :ivar paused: what an operator has paused there, in words; empty: nothing.
    :ivar robots_refused: which robots there get no orders, and why, for people; empty: none.
    :ivar robots: those there, the first ones if they are many, for people; ``robots_count``: all.
    :ivar orders: those that are out there; ``runs``: the same by provider.
    :ivar load: runs that are not recalled.
    :ivar orders_max: orders that it holds at most, several of one provider among them; 0: it is of an older version,
        and gets one order of a provider at a time.
    :ivar knows_interval: it keeps to the interval of a provider within a run.
    :ivar given: how many orders it ever got.
    :ivar reported: ids that it says are running, until it is ready.
    :ivar unsure: it has said on this connection that a robot of an earlier run may still be fetching what went to it
        before this time on the clock; None: there is none.
    :ivar earlier: ids of those orders out here that went to an earlier run, and may be what such a robot fetches.
    :ivar last_number: the number of the last result of its run that came in.
    :ivar recorded: the number up to which they are on stable storage.
    :ivar suspect: files that may be lost: from the first to before the second; (0, 0): none.
    :ivar settled: it was told on this connection that no result of an earlier run waits to be recorded.
    """

    __slots__ = (
        *(
            "capacity",
            "content",
            "given",
            "granted",
            "hanging",
            "knows_interval",
            "last_number",
            "load",
            "connection",
            "mark",
            "name",
            "number",
            "orders",
            "orders_max",
            "ready",
        ),
        *("paused", "recorded", "refused", "reported", "robots", "robots_count", "robots_refused", "run", "runs"),
        *(
            "_earlier_pids",
            "_earlier_wanted",
            "earlier",
            "unsure",
            "session",
            "settled",
            "suspect",
            "trouble",
            "via",
            "_by_priority",
        ),
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = ""
        self.via = ""
        self.content = ""
        self.run = ""
        self.session = ""
        self.refused = ""
        self.connection: Connection | None = None
        self.ready = False
        self.granted = False
        self.mark: tuple[str, int] = ("", 0)
        self.capacity = self.hanging = 0
        self.trouble = ""
        self.paused = ""
        self.robots_refused = ""
        self.robots: tuple[Robot, ...] = ()
        self.robots_count = 0
        self.orders: dict[str, Order] = {}
        self.runs: dict[int, Run] = {}
        self.load = 0
        self._by_priority = [0] * PRIORITIES
        self.orders_max = 0
        self.knows_interval = False
        self.given = 0
        self.reported: set[str] = set()
        self.unsure: float | None = None
        self.earlier: set[str] = set()
        self._earlier_pids: set[int] = set()
        self._earlier_wanted = 0
        self.last_number = 0
        self.recorded = 0
        self.suspect = (0, 0)
        self.settled = False

    def connected(self, connection: Connection, hello: Hello) -> None:
        """It has connected; an older connection of the same run is dropped.

        :raises StreamError: another run is connected.  Two BOT-Ms have this machine id (or the machine was restarted
            so suddenly that its old connection still seems to live): what the one fetches the other knows nothing of.
            Or a later connection of this run is, or was, there.
        """
        if is_earlier(hello.session, self.session):
            raise StreamError("unknown-message", f"machine {self.number} has connected again since")
        if self.connection is not None:
            if hello.run != self.run:
                raise StreamError(
                    "unknown-message", f"another BOT-M, {self.name}, is connected as machine {self.number}"
                )
            _log.info("BOT-M {machine} has connected again; dropping its old connection", machine=self.number)
            self.connection.drop()
        if hello.run != self.run:
            self.earlier = set(self.orders)
            self.run = hello.run
            self.last_number = 0
            self.recorded = 0
        self.name = hello.name
        self.session = hello.session
        self.via = hello.via if isinstance(hello, MachineHello) else ""
        self.content = hello.content
        self.connection = connection
        self.ready = self.granted = self.settled = False
        self.unsure = None
        self.suspect = (hello.suspect_from, hello.suspect_upto)
        self.mark = ("", 0)
        self.refused = f"{OLD_CENTRAL} ({self.via})" if self.via and not hello.session else ""
        if self.refused:
            _log.warn("BOT-M {machine} gets no orders: {why}", machine=self.number, why=self.refused)
        self.set_capacity(hello.capacity)
        self.orders_max = hello.orders_max
        self.knows_interval = KNOWS_INTERVAL in hello.knows.split()
        self.trouble = ""
        self.paused = ""
        self.robots_refused = ""
        self.robots, self.robots_count = (), 0
        self.reported.clear()

    def become_ready(self, unsure: float | None) -> None:
        """It has said what is running.

        :param unsure: a robot of an earlier run may still be fetching what went to it before this time.
        """
        self.ready, self.unsure = True, unsure
        self.earlier = set() if unsure is None else self.earlier - self.reported
        self._earlier_pids = {self.orders[each].pid for each in self.earlier}
        self._earlier_wanted = sum(not self.runs[pid].recalled for pid in self._earlier_pids)
        self.reported.clear()

    def add(self, order: Order, connection: Connection | None, now: float, priority: int = 0) -> None:
        """This order is out here.

        :param connection: by which it went; None: it is one of an earlier queue manager.
        :param priority: of its provider.
        """
        self.orders[order.id] = order
        run = self.runs.get(order.pid)
        if run is None:
            run = self.runs[order.pid] = Run(order.pid, connection, now, priority)
            self.load += 1
            self._by_priority[priority] += 1
        run.orders[order.id] = order

    def forget(self, order: Order) -> Run:
        """This order is out no longer; the run that it belongs to."""
        run = self.runs[order.pid]
        del self.orders[order.id]
        del run.orders[order.id]
        if order.id in self.earlier:
            self.earlier.remove(order.id)
            if order.pid in self._earlier_pids and self.earlier.isdisjoint(run.orders):
                self._earlier_pids.remove(order.pid)
                self._earlier_wanted -= not run.recalled
        if not run.orders:
            del self.runs[order.pid]
            self._by_priority[run.priority] -= 1
            if not run.recalled:
                self.load -= 1
        return run

    def may_grow(self, pid: int, since: float) -> bool:
        """Whether orders may follow those of this provider that are out here, if there is :attr:`room`.

        While others wait for a robot, none may follow where there is a run of a higher priority: it may be that.

        :param since: nor, then, a run that was sent before this time.
        """
        run = self.runs.get(pid)
        return (
            run is not None
            and not run.recalled
            and run.connection is self.connection
            and self.granted
            and self.capacity > 0
            and (not self.contended or (run.since >= since and not any(self._by_priority[run.priority + 1 :])))
        )

    @property
    def room(self) -> int:
        """How many orders it takes now, several of one provider among them."""
        held = len(self.orders) - len(self.earlier)
        return self.orders_max // 2 - held  # the other half is for results that are not recorded yet

    @property
    def contended(self) -> bool:
        """More runs are out here than its robots do at once: some wait for a robot."""
        return len(self.runs) - len(self._earlier_pids) > self.capacity + self.hanging

    def recall(self, pid: int) -> bool:
        """Ask for what is not begun of this provider.  There is room for another run at once; the provider is free
        when all its orders are answered, or their leases have passed.

        :return: False: nothing of it is out here, or it was asked before.
        """
        run = self.runs.get(pid)
        if run is None or run.recalled:
            return False
        run.recalled = True
        self.load -= 1
        self._earlier_wanted -= pid in self._earlier_pids
        self._say_recall(run)
        return True

    def frees(self, pid: int) -> bool:
        """Whether there is a run of this provider here whose recall makes room: not where it hangs."""
        return pid in self.runs and pid not in self._earlier_pids

    def recall_again(self) -> None:
        """On a new connection: what was asked may not have been heard."""
        for run in self.runs.values():
            if run.recalled:
                self._say_recall(run)

    def _say_recall(self, run: Run) -> None:
        if self.connection is not None and self.orders_max:
            self.connection.say(Recall(run.pid))

    def set_capacity(self, fetches: int, hanging: int = 0) -> None:
        """Its robots do so many fetches at once, and so many runs hang."""
        self.capacity = 0 if self.refused else max(0, fetches)
        self.hanging = max(0, hanging)

    def places(self, overload: float) -> int:
        """How many runs it may hold: a multiple of what its robots do at once, and what hangs."""
        return self.capacity and int(self.capacity * overload) + self.runs_hanging

    @property
    def runs_hanging(self) -> int:
        """Runs out here that none of its robots can take."""
        return self.hanging + self._earlier_wanted

    def disconnected(self, connection: Connection) -> None:
        """This connection is gone."""
        if self.connection is connection:
            self.connection = None
            self.robots, self.robots_count = (), 0
            self.ready = self.granted = False
            self.unsure = None

    def is_new(self, number: int) -> bool:
        """Whether a result with this number has not come in before.  Numbers count up from 1 within a run."""
        if number <= self.last_number:
            return False
        self.last_number = number
        return True

    def tell_progress(self, timeline: str, change: int) -> None:
        """The cache has come to this change: it is to remember that."""
        if self.connection is not None and change and self.mark != (timeline, change):
            self.mark = (timeline, change)
            self.connection.say(Mark(timeline, change))

    def recorded_upto(self, run: str, number: int, progress: tuple[str, int]) -> None:
        """Results of that run are on stable storage; the cache has come so far with them."""
        self.tell_progress(*progress)
        if run == self.run:
            self.recorded = max(self.recorded, number)
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tell it what need not be kept any longer."""
        if self.connection is not None and self.recorded:
            self.connection.say(RecordedUpto(self.recorded))
