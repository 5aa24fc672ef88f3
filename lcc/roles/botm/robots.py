"""The robots behind a BOT-M: the connection to each, and which of them gets an order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from twisted.internet.address import UNIXAddress
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Vocabulary
from lcc.protocols.hello import KNOWS_BATCHES, KNOWS_INTERVAL, Hello, Ping, Ready
from lcc.protocols.work import ROBOT_CHARS, Capacity, Done
from lcc.roles.botm.downstream import Downstream, UpperEnd
from lcc.roles.botm.orders import HeldOrder, Run

_log = Logger()

FROM_ROBOT = Vocabulary(Ready, Capacity, Done, Ping, often=[Done])
CAPACITY_MAX = 4096
"""What one robot may say of itself."""
FOLDER_CHARS = 200
"""Of the path of a robot's content folder, for display."""
REFUSED_TOLD = 3
"""Robots without orders that are named."""
AFFINITY_MAX = 20_000
"""Providers of which the last robot is remembered."""


class RobotPeer(Downstream):
    """The connection to one robot.

    :param changed: called when it takes no more orders all of a sudden.
    :ivar capacity: fetches at once; 0 before it is ready.
    :ivar is_ready: it has said that it takes orders.
    :ivar paused: an operator has it take none: its capacity is 0.
    :ivar orders: what it has, by order id; ``runs``: the same by provider.
    :ivar left: the robot (or its death) ended the connection: none of its fetches runs any longer.  False after a
        connection that this end dropped, or that was reset: the robot may hang, and its fetches with it.
    """

    def __init__(self, engine: UpperEnd, clock: IReactorTime, hello: Hello, changed: Callable[[], None]) -> None:
        super().__init__(engine, clock, hello, "bot", FROM_ROBOT)
        self._changed = changed
        self.capacity = 0
        self.is_ready = False
        self.paused = False
        self.orders: dict[str, HeldOrder] = {}
        self.runs: dict[int, Run] = {}
        self.left = False

    @property
    def run(self) -> str:
        """Names this run of the robot's process; empty: it did not say."""
        return self.peer_hello.run if self.peer_hello is not None else ""

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self.peer_hello.name if self.peer_hello is not None else ""

    @property
    def free(self) -> int:
        """How many more runs it takes."""
        return self.capacity - len(self.runs)

    @property
    def takes_runs(self) -> bool:
        """It takes several orders of one provider; False: it is of an older version."""
        return self.peer_hello is not None and self.peer_hello.orders_max > 0

    @property
    def knows_interval(self) -> bool:
        """It keeps to the interval of an order; False: it is of an older version."""
        return self.peer_hello is not None and KNOWS_INTERVAL in self.peer_hello.knows.split()

    @property
    def knows_batches(self) -> bool:
        """It stores the files of a batch; False: it is of an older version."""
        return self.peer_hello is not None and KNOWS_BATCHES in self.peer_hello.knows.split()

    def other_folder(self, folder: str, owner: str) -> str:
        """Why it must get no orders: it writes to another content folder.  Empty: it does not, or does not say.

        :param folder: the BOT-M's.
        :param owner: the run that has claimed that one; empty: nothing is known.
        """
        hello = self.peer_hello
        if hello is None or not (hello.folder and owner) or hello.owner == owner:
            return ""
        theirs = hello.folder if len(hello.folder) <= FOLDER_CHARS else hello.folder[:FOLDER_CHARS] + "…"
        return f"its content folder, {theirs}, is not that of its BOT-M, {folder}"

    def drop(self, why: str) -> None:
        """End the connection; the robot ends all its fetches when it notices."""
        _log.warn("Dropping {peer}: {why}", peer=self.describe(), why=why)
        self.take_no_more()
        self.stream.abort()

    def begin(self) -> None:
        """It has said that it takes orders.

        :raises StreamError: it says an impossible capacity.
        """
        assert self.peer_hello is not None
        self.is_ready = True
        self.set_capacity(self.peer_hello.capacity)

    def take_back(self, order_id: str) -> HeldOrder:
        """The order that it has ended.

        :raises StreamError: it does not have this one.
        """
        order = self.orders.pop(order_id, None)
        if order is None:
            raise StreamError("unknown-message", f"a result of order {order_id[:80]!r}, which it does not have")
        return order

    def take_no_more(self) -> None:
        """It gets no more orders: its connection is about to end."""
        if self.capacity:
            self.capacity = 0
            self._changed()

    def set_capacity(self, fetches: int, paused: bool = False) -> None:
        """It says that it takes so many orders.

        :raises StreamError: that is impossible.
        """
        self.paused = paused
        if paused:
            self.capacity = 0
            return
        if not 1 <= fetches <= CAPACITY_MAX:
            raise StreamError("limit", f"a capacity of {fetches}; 1 to {CAPACITY_MAX} are possible")
        self.capacity = fetches

    def stream_failed(self, error: StreamError) -> None:
        self.take_no_more()
        super().stream_failed(error)

    def peer_finished(self) -> None:
        self.left = True
        super().peer_finished()

    def peer_lost(self, reason: Failure) -> None:
        self.left = self.left or self._was_ended_there(reason)
        self.capacity = 0
        super().peer_lost(reason)

    def _was_ended_there(self, reason: Failure) -> bool:
        """Whether only the robot, or its death, can have ended the connection."""
        if isinstance(self.stream.peer, UNIXAddress):
            return reason.check(ConnectionAborted) is None  # nothing is in between
        # A reset or a timeout of TCP may come from the network, while the robot hangs in the middle of its fetches.
        return reason.check(ConnectionDone) is not None


class Pool:
    """The robots that are ready.

    An order goes to the robot that last served its provider, because the connection to that site is open there; if
    that one is full, to the one with the most room.
    """

    def __init__(self, affinity_max: int = AFFINITY_MAX) -> None:
        self._robots: dict[RobotPeer, None] = {}
        self._refused: dict[RobotPeer, str] = {}
        self._last: OrderedDict[int, RobotPeer] = OrderedDict()
        self._affinity_max = affinity_max

    def add(self, robot: RobotPeer) -> None:
        """This robot takes orders."""
        self._robots[robot] = None

    def refuse(self, robot: RobotPeer, why: str) -> None:
        """This one is there, and gets none."""
        self._refused[robot] = why

    def remove(self, robot: RobotPeer) -> None:
        """This one is gone."""
        self._robots.pop(robot, None)
        self._refused.pop(robot, None)

    def of_run(self, run: str) -> RobotPeer | None:
        """The robot of this run, if it is there."""
        return next((robot for robot in (*self._robots, *self._refused) if robot.run == run), None)

    @property
    def refused(self) -> dict[RobotPeer, str]:
        """The robots that get no orders, and why."""
        return dict(self._refused)

    @property
    def refused_told(self) -> str:
        """The same for people; empty: none."""
        told = [f"robot {robot.name[:ROBOT_CHARS]}: {why}" for robot, why in self._refused.items()]
        if len(told) > REFUSED_TOLD:
            told[REFUSED_TOLD:] = [f"and {len(told) - REFUSED_TOLD} more"]
        return "; ".join(told)

    @property
    def robots(self) -> list[RobotPeer]:
        """All of them."""
        return list(self._robots)

    @property
    def capacity(self) -> int:
        """Fetches at once of all robots together."""
        return sum([robot.capacity for robot in self._robots])

    @property
    def free(self) -> int:
        """Runs that can be handed out now."""
        return sum([robot.free for robot in self._robots if robot.free > 0])

    def choose(self, pid: int) -> RobotPeer:
        """The robot for an order of this provider; :attr:`free` must not be 0."""
        last = self._last
        robot = last.get(pid)
        if robot is None or robot.free <= 0 or robot not in self._robots:
            # One that is paused, or is being dropped, has a capacity of 0.
            able = [each for each in self._robots if each.free > 0]
            robot = max(able, key=lambda each: each.free / each.capacity)
            if pid not in last and len(last) >= self._affinity_max:
                last.popitem(last=False)
            last[pid] = robot
        last.move_to_end(pid)
        return robot
