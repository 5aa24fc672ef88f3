"""The robots behind a BOT-M: the connection to each, and which of them gets an order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.work import ROBOT_CHARS, Capacity, Done, Ping, Ready
from lcc.roles.botm.orders import Order
from lcc.roles.peer import Peer
from lcc.transport.stream import XmlStream

_log = Logger()

FROM_ROBOT = Vocabulary(Ready, Capacity, Done, Ping, often=[Done])
CAPACITY_MAX = 4096
"""What one robot may say of itself."""
FOLDER_CHARS = 200
"""Of the path of a robot's content folder, for people."""
REFUSED_TOLD = 3
"""Robots without orders that are named."""
AFFINITY_MAX = 20_000
"""Providers of which the last robot is remembered."""


class Master(Protocol):
    """What a robot's connection needs of the engine."""

    def robot_ready(self, robot: RobotPeer) -> None:
        """The robot takes orders from now on."""

    def robot_changed(self, robot: RobotPeer) -> None:
        """Its capacity has changed."""

    def robot_done(self, robot: RobotPeer, order: Order, done: Done) -> None:
        """It has ended this order."""

    def robots_settled(self) -> None:
        """A batch of a robot's messages was worked off."""

    def robot_lost(self, robot: RobotPeer) -> None:
        """Its connection is gone."""


class RobotPeer(Peer):
    """The connection to one robot.

    :ivar capacity: fetches at once; 0 before it is ready.
    :ivar is_ready: it has said that it takes orders.
    :ivar paused: an operator has it take none: its capacity is 0.
    :ivar orders: what it has, by order id.
    :ivar left: the robot (or its death) ended the connection: none of its fetches runs any longer.  False after a
        connection that this end dropped: the robot may hang, and its fetches with it.
    """

    def __init__(self, master: Master, clock: IReactorTime, hello: Hello, gone: Callable[[RobotPeer], None]) -> None:
        super().__init__(clock, hello, frozenset(["bot"]), FROM_ROBOT)
        self.master = master
        self._gone = gone
        self.capacity = 0
        self.is_ready = False
        self.paused = False
        self.orders: dict[str, Order] = {}
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
        """How many more orders it takes."""
        return self.capacity - len(self.orders)

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
        self._take_no_more()
        self.stream.abort()

    def messages_received(self, messages: list[Flat]) -> Deferred[None] | None:
        try:
            for message in messages:
                if type(message) is Done:
                    order = self.orders.pop(message.id, None)
                    if order is None:
                        raise StreamError("unknown-message", f"a result of order {message.id[:80]!r} that it has not")
                    self.master.robot_done(self, order, message)
                elif type(message) is Capacity:
                    self._set_capacity(message.fetches, bool(message.paused))
                    self.master.robot_changed(self)
                elif not self.is_ready:
                    assert self.peer_hello is not None
                    self.is_ready = True
                    self._set_capacity(self.peer_hello.capacity)
                    self.master.robot_ready(self)
        except StreamError:
            self._take_no_more()
            raise
        finally:
            self.master.robots_settled()
        return None

    def stream_failed(self, error: StreamError) -> None:
        self._take_no_more()
        super().stream_failed(error)

    def peer_finished(self) -> None:
        self.left = True
        super().peer_finished()

    def peer_lost(self, reason: Failure) -> None:
        self.left = self.left or reason.check(ConnectionAborted) is None
        self.capacity = 0
        self._gone(self)
        self.master.robot_lost(self)

    def _take_no_more(self) -> None:
        if self.capacity:
            self.capacity = 0
            self.master.robot_changed(self)

    def _set_capacity(self, fetches: int, paused: bool = False) -> None:
        self.paused = paused
        if paused:
            self.capacity = 0
            return
        if not 1 <= fetches <= CAPACITY_MAX:
            raise StreamError("limit", f"a capacity of {fetches}; 1 to {CAPACITY_MAX} are possible")
        self.capacity = fetches


class RobotFactory(Factory):
    """Makes a :class:`RobotPeer` for each connection, up to a number of them.

    :param hello: what this end says of itself.
    """

    noisy = False

    def __init__(self, master: Master, clock: IReactorTime, hello: Hello, robots_max: int) -> None:
        self._master = master
        self._clock = clock
        self._hello = hello
        self._robots_max = robots_max
        self._peers: set[RobotPeer] = set()

    def buildProtocol(self, address: object) -> XmlStream | None:
        if len(self._peers) >= self._robots_max:
            _log.warn("More than {limit} robots: refusing one more", limit=self._robots_max)
            return None
        peer = RobotPeer(self._master, self._clock, self._hello, self._peers.discard)
        self._peers.add(peer)
        return peer.build_stream()

    def drop_all(self) -> None:
        """End all connections."""
        for peer in list(self._peers):
            peer.stream.abort()


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
        """Orders that can be handed out now."""
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
