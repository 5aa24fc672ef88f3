"""Tells the upper end which robots there are and how busy: when that has changed, every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from lcc.protocols.work import ROBOT_CHARS, Robot, Robots
from lcc.roles.botm.robots import RobotPeer
from lcc.roles.upstream import Upstream

TELL_SECONDS = 5.0
NOBODY = Robots.telling([])


class Roster:
    """Tells the upper end of the robots.

    :param robots: gives those that are ready.
    """

    def __init__(self, clock: IReactorTime, robots: Callable[[], Iterable[RobotPeer]]) -> None:
        self._robots = robots
        self._told = NOBODY
        self._link: Upstream | None = None
        self._loop = LoopingCall(self.tell)
        self._loop.clock = clock

    def connected(self, link: Upstream) -> None:
        """The upper end is there, and knows of none."""
        self._link, self._told = link, NOBODY
        if not self._loop.running:
            self._loop.start(TELL_SECONDS, now=False)
        self.tell()

    def disconnected(self) -> None:
        """It is gone."""
        self._link = None
        if self._loop.running:
            self._loop.stop()

    def tell(self) -> None:
        """Tell what has changed."""
        if self._link is None:
            return
        robots = (
            Robot(robot.name[:ROBOT_CHARS], robot.capacity, len(robot.runs), robot.paused) for robot in self._robots()
        )
        told = Robots.telling(robots)
        if told != self._told:
            self._told = told
            self._link.say(told)
