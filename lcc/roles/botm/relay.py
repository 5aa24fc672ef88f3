"""A central BOT-M: it serves other BOT-Ms (seed 002, section 7).

What it owns
    Nothing, not even in memory, but which machine is behind which connection.  It may be killed at any moment.

What it does
    It joins the connections of many BOT-Ms into one.  The queue manager goes on to see each machine by itself, with
    its own run, capacity, orders, numbered results and acknowledgements; so every rule that holds for a BOT-M that is
    connected directly holds behind any number of central ones.  Up go the hello of each machine that connects
    (``<machine/>``), what it says, and that it is gone (``<gone/>``); down go the messages to it.  Each names its
    machine, and goes where that machine is, through further central ones if need be.

Connections
    BOT-Ms are let in while the upper end is there.  When it is lost they are dropped: they go on fetching, connect
    again, and say again all that the upper end must know, as they do whenever they connect.  So nothing has to be
    kept here; and a central BOT-M that is, by a wrong configuration, its own parent (also over others) never gets a
    connection.

Back-pressure
    While the upper end does not read, nothing is read from below.  A BOT-M that does not read holds up nobody: what
    is for it is kept up to a limit, then it is dropped, alone.  So is one that says what makes no sense.

Sessions
    A machine connects again while an order for it is under way, from the queue manager or a BOT-M between.  It would
    come by the new connection; but the queue manager hears that the machine does not have it, and gives it to another
    one: two robots would fetch from the same provider.  So each connection of a machine has a name, which its hello
    tells, and what is said to the machine names the connection that it is meant for; here, and in the machine's own
    BOT-M, what is meant for another one is dropped.  What comes from a queue manager of an older version names none,
    and is passed on.

A machine that is there twice
    The same run of a BOT-M: the connection that was made later is the good one, the other one is dropped.  Another
    run: two BOT-Ms were given one machine id (or a machine was restarted so suddenly that its old connection still
    seems to live); the later one is turned away until the earlier one is gone, because what the one fetches the other
    knows nothing of.

Leases
    An order goes on with what is left of its lease: the time that it was on its way, and here, counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.config import BotmConfig
from lcc.errors import StreamError
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, is_earlier, session_name
from lcc.protocols.work import Drop, Fetch, Gone, MachineHello, addressed
from lcc.roles.botm.downstream import BranchFactory, BranchPeer
from lcc.roles.botm.relay_upstream import TrunkFactory, TrunkLink

_log = Logger()

MACHINES_MAX = 10_000
"""Behind one central BOT-M, also over others."""
HOPS_MAX = 16
"""Central BOT-Ms between a machine and the queue manager."""


class Route(NamedTuple):
    """The way to a machine.

    :ivar branch: the connection that it is behind.
    :ivar machine: what it said of itself, with the names of the BOT-Ms on the way below this one.
    """

    branch: BranchPeer
    machine: MachineHello


class Relay:
    """The engine of a central BOT-M.

    :param run: names this run of the process; never used again.
    :param upper: the roles that may be at the upper end.
    """

    def __init__(self, settings: BotmConfig, clock: IReactorTime, run: str, upper: frozenset[str]) -> None:
        self._name = settings.name.replace(" ", "_") or "botm"
        self._clock = clock
        self._upper = upper
        self._hello = Hello(role="botm", name=settings.name, run=run)
        self._factory = BranchFactory(self, clock, self._hello, settings.robots_max)
        self._routes: dict[int, Route] = {}
        self._link: TrunkLink | None = None
        self._paused = False
        self._sessions = 0

    # What the service needs.

    def link_factory(self, good_hello: Callable[[], None]) -> TrunkFactory:
        """For the connection upwards."""
        return TrunkFactory(self, self._clock, self._hello, self._upper, good_hello)

    def branch_factory(self) -> BranchFactory:
        """For the port where BOT-Ms connect."""
        return self._factory

    def stop(self) -> None:
        """End the connections of BOT-Ms."""
        self._factory.drop_all()

    @property
    def machines(self) -> Mapping[int, MachineHello]:
        """What each machine that is connected said of itself."""
        return {number: route.machine for number, route in self._routes.items()}

    def content_of(self, machine: int) -> str:
        """The address at which the content of a machine is read; empty: that is not known."""
        route = self._routes.get(machine)
        return "" if route is None else route.machine.content

    @property
    def connected(self) -> bool:
        """The upper end is there."""
        return self._link is not None

    # The upper end.

    def trunk_ready(self, link: TrunkLink) -> None:
        """The upper end is there: BOT-Ms may come."""
        self._link = link
        self._paused = False
        _log.info("Connected to {peer}", peer=link.describe())

    def trunk_message(self, link: TrunkLink, machine: int, session: str, message: Flat) -> None:
        """The upper end says this to a machine, on this of its connections."""
        route = self._routes.get(machine)
        if link is not self._link or route is None:
            return  # it is gone: what it did not get it says when it connects again
        if session and session != route.machine.session:
            if type(message) is Fetch:
                _log.info(
                    "Dropping order {id} for an earlier connection of machine {number}", id=message.id, number=machine
                )
            return  # the same
        branch = route.branch
        if type(message) is Drop and branch.machine:
            branch.drop("the queue manager wants it")
        elif type(message) is Fetch:
            branch.tell(addressed(self._with_time_left(link, branch, message), machine, session))
        else:
            branch.tell(addressed(message, machine, session))

    def trunk_resumed(self, link: TrunkLink) -> None:
        """The upper end reads again."""
        if link is self._link and self._paused:
            self._paused = False
            for branch in self._factory.peers:
                if branch.peer_hello is not None:
                    branch.stream.resume_reading()

    def trunk_lost(self, link: TrunkLink) -> None:
        """The upper end is gone: the BOT-Ms have to say everything again."""
        if link is not self._link:
            return
        self._link = None
        _log.info(
            "Lost {peer}; {count} machines have to connect again", peer=link.describe(), count=len(self._routes)
        )
        self._routes.clear()
        self._factory.drop_all()

    def _with_time_left(self, link: TrunkLink, branch: BranchPeer, fetch: Fetch) -> Fetch:
        passed = self._clock.seconds() - link.sent_seconds(fetch.sent_ms)
        lease = max(0, int(fetch.lease_seconds - passed))
        start = None if fetch.start_seconds is None else max(0, int(fetch.start_seconds - passed))
        return attrs.evolve(fetch, lease_seconds=lease, start_seconds=start, sent_ms=branch.peer_clock_ms())

    # The BOT-Ms.

    def new_session(self) -> str:
        """Names a connection of a BOT-M of an older version, which does not do so itself."""
        self._sessions += 1
        return session_name(self._hello.run, self._sessions)

    def arrived(self, branch: BranchPeer, machine: MachineHello) -> None:
        """A machine is there."""
        number = machine.machine
        if self._link is None:
            return
        if number <= 0 or not machine.run or machine.via.count(" ") >= HOPS_MAX:
            raise StreamError("syntax", f"machine {number} of run {machine.run!r} via {machine.via[:200]!r}")
        route = self._routes.get(number)
        if route is not None and route.machine.run != machine.run:
            _log.warn(
                "Machine {number} is there twice: behind {one}, and now behind {other}, which is turned away",
                number=number,
                one=route.branch.describe(),
                other=branch.describe(),
            )
            self._turn_away(branch, machine)
            return
        if route is not None and is_earlier(machine.session, route.machine.session):
            _log.info(
                "Machine {number} has connected again meanwhile: {peer} is late",
                number=number,
                peer=branch.describe(),
            )
            self._turn_away(branch, machine)
            return
        if route is None and len(self._routes) >= MACHINES_MAX:
            _log.error("More than {limit} machines: turning away {number}", limit=MACHINES_MAX, number=number)
            self._turn_away(branch, machine)
            return
        if route is not None:
            _log.info("Machine {number} has connected again", number=number)
            self._leave(number)
            if route.branch is not branch:
                self._turn_away(*route)
        self._routes[number] = Route(branch, machine)
        self._link.say(attrs.evolve(machine, via=f"{self._name} {machine.via}".rstrip()))
        _log.info("Machine {number} has connected: {peer}", number=number, peer=branch.describe())

    def departed(self, branch: BranchPeer, number: int) -> None:
        """A machine is gone."""
        route = self._routes.get(number)
        if route is not None and route.branch is branch:
            self._leave(number)
            _log.info("Machine {number} is gone: {peer}", number=number, peer=branch.describe())

    def said(self, branch: BranchPeer, number: int, text: str) -> None:
        """A machine says this."""
        route = self._routes.get(number)
        if self._link is not None and route is not None and route.branch is branch:
            self._link.stream.send(text)

    def branch_settled(self, branch: BranchPeer) -> None:
        """A batch of messages went up: if too many wait there, read no more."""
        if self._link is not None and not self._link.stream.writable:
            self._paused = True
            for each in self._factory.peers:
                if each.peer_hello is not None:
                    each.stream.pause_reading()

    def branch_lost(self, branch: BranchPeer) -> None:
        """A connection is gone."""
        self._factory.discard(branch)
        for number in [number for number, route in self._routes.items() if route.branch is branch]:
            self.departed(branch, number)

    def _leave(self, number: int) -> None:
        del self._routes[number]
        if self._link is not None:
            self._link.say(Gone(number))

    def _turn_away(self, branch: BranchPeer, machine: MachineHello) -> None:
        number = machine.machine
        if branch.machine:
            branch.drop(f"machine {number} is there twice")
        else:
            branch.stream.send(addressed(Drop(number), number, machine.session))
