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

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.config import BotmConfig
from lcc.errors import StreamError
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello, is_earlier, session_name
from lcc.protocols.work import Drop, Fetch, Gone, MachineHello, addressed
from lcc.roles.botm.downstream import DownstreamFactory
from lcc.roles.botm.relay_downstream import RelayDownstream
from lcc.roles.botm.relay_upstream import RelayUpstream
from lcc.roles.peer import PeerFactory
from lcc.roles.upstream import Upstream

_log = Logger()

MACHINES_MAX = 10_000
"""Behind one central BOT-M, also over others."""
HOPS_MAX = 16
"""Central BOT-Ms between a machine and the queue manager."""
MESSAGE_CHARS_MAX = 100_000
"""A message that is longer when it is written anew could be too long for the feed of the upper end."""


class Route(NamedTuple):
    """The way to a machine.

    :ivar peer: the connection that it is behind.
    :ivar machine: what it said of itself, with the names of the BOT-Ms on the way below this one.
    """

    peer: RelayDownstream
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
        self._factory = DownstreamFactory(self._new_peer, settings.robots_max, "BOT-Ms")
        self._routes: dict[int, Route] = {}
        self._link: Upstream | None = None
        self._reading_paused = False
        self._refusal_logged = False
        self._sessions = 0

    # What the service needs.

    def upstream_factory(self, good_hello: Callable[[], None]) -> PeerFactory:
        """For the connection upwards."""
        return PeerFactory(
            lambda: RelayUpstream(self, self._clock, self._hello, self._upper, Vocabulary(), good_hello)
        )

    def downstream_factory(self) -> DownstreamFactory:
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

    def upstream_ready(self, link: Upstream) -> None:
        """The upper end is there: BOT-Ms may come."""
        self._link = link
        self._reading_paused = False
        _log.info("Connected to {peer}", peer=link.describe())

    def upstream_messages(self, link: Upstream, messages: Iterable[tuple[int, str, Flat]]) -> None:
        """The upper end says this to machines."""
        for machine, session, message in messages:
            self._pass_down(link, machine, session, message)

    def upstream_resumed(self, link: Upstream) -> None:
        """The upper end reads again."""
        if link is self._link and self._reading_paused:
            self._reading_paused = False
            for peer in self._factory.peers:
                if peer.peer_hello is not None:
                    peer.stream.resume_reading()

    def upstream_lost(self, link: Upstream) -> None:
        """The upper end is gone: the BOT-Ms have to say everything again."""
        if link is not self._link:
            return
        self._link = None
        _log.info("Lost {peer}; {count} machines must reconnect", peer=link.describe(), count=len(self._routes))
        self._routes.clear()
        self._factory.drop_all()

    def _pass_down(self, link: Upstream, machine: int, session: str, message: Flat) -> None:
        route = self._routes.get(machine)
        if link is not self._link or route is None:
            return  # it is gone: what it did not get it says when it connects again
        if session and session != route.machine.session:
            if type(message) is Fetch:
                _log.info(
                    "Dropping order {id} for an earlier connection of machine {number}", id=message.id, number=machine
                )
            return  # the same
        peer = route.peer
        if type(message) is Drop and peer.machine:
            peer.drop("the queue manager asks for it")
        elif type(message) is Fetch:
            peer.tell(addressed(self._with_time_left(link, peer, message), machine, session))
        else:
            peer.tell(addressed(message, machine, session))

    def _with_time_left(self, link: Upstream, peer: RelayDownstream, fetch: Fetch) -> Fetch:
        passed = self._clock.seconds() - link.sent_seconds(fetch.sent_ms)
        lease = max(0, int(fetch.lease_seconds - passed))
        start = None if fetch.start_seconds is None else max(0, int(fetch.start_seconds - passed))
        return fetch.replaced(lease_seconds=lease, start_seconds=start, sent_ms=peer.peer_clock_ms())

    # The BOT-Ms.

    def downstream_messages(self, peer: RelayDownstream, messages: Iterable[tuple[int, Flat]]) -> None:
        """BOT-Ms say this; if too much of it waits to be sent up, read no more."""
        try:
            for number, message in messages:
                if type(message) is MachineHello:
                    self._arrived(peer, message)
                elif type(message) is Gone:
                    self._departed(peer, number)
                else:
                    self._pass_up(peer, number, message)
        finally:
            if self._link is not None and not self._link.stream.writable:
                self._reading_paused = True
                for each in self._factory.peers:
                    if each.peer_hello is not None:
                        each.stream.pause_reading()

    def downstream_lost(self, peer: RelayDownstream) -> None:
        """The connection is gone, and with it all machines behind it."""
        self._factory.discard(peer)
        for number in [number for number, route in self._routes.items() if route.peer is peer]:
            self._departed(peer, number)

    def _new_peer(self) -> RelayDownstream | None:
        if self._link is None:
            if not self._refusal_logged:
                self._refusal_logged = True
                _log.info("Refusing BOT-Ms until the upper end is connected; they retry")
            return None
        self._refusal_logged = False
        return RelayDownstream(self, self._clock, self._hello, self._new_session)

    def _new_session(self) -> str:
        self._sessions += 1
        return session_name(self._hello.run, self._sessions)

    def _arrived(self, peer: RelayDownstream, machine: MachineHello) -> None:
        number = machine.machine
        if self._link is None:
            return
        if number <= 0 or not machine.run or machine.via.count(" ") >= HOPS_MAX:
            raise StreamError("syntax", f"machine {number} of run {machine.run!r} via {machine.via[:200]!r}")
        route = self._routes.get(number)
        if route is not None and route.machine.run != machine.run:
            _log.warn(
                "Machine {number} is connected twice: through {one}, and now through {other}, which is refused",
                number=number,
                one=route.peer.describe(),
                other=peer.describe(),
            )
            self._turn_away(peer, machine)
            return
        if route is not None and is_earlier(machine.session, route.machine.session):
            _log.info(
                "Machine {number} has reconnected since: refusing {peer}",
                number=number,
                peer=peer.describe(),
            )
            self._turn_away(peer, machine)
            return
        if route is None and len(self._routes) >= MACHINES_MAX:
            _log.error("More than {limit} machines: refusing {number}", limit=MACHINES_MAX, number=number)
            self._turn_away(peer, machine)
            return
        if route is not None:
            _log.info("Machine {number} reconnected", number=number)
            self._leave(number)
            if route.peer is not peer:
                self._turn_away(*route)
        self._routes[number] = Route(peer, machine)
        self._link.say(attrs.evolve(machine, via=f"{self._name} {machine.via}".rstrip()))
        _log.info("Machine {number} connected: {peer}", number=number, peer=peer.describe())

    def _departed(self, peer: RelayDownstream, number: int) -> None:
        route = self._routes.get(number)
        if route is not None and route.peer is peer:
            self._leave(number)
            _log.info("Machine {number} disconnected: {peer}", number=number, peer=peer.describe())

    def _pass_up(self, peer: RelayDownstream, number: int, message: Flat) -> None:
        text = addressed(message, number)
        if len(text) > MESSAGE_CHARS_MAX:
            raise StreamError("limit", f"<{message.TAG}> of {len(text)} characters")
        route = self._routes.get(number)
        if self._link is not None and route is not None and route.peer is peer:
            self._link.stream.send(text)

    def _leave(self, number: int) -> None:
        del self._routes[number]
        if self._link is not None:
            self._link.say(Gone(number))

    def _turn_away(self, peer: RelayDownstream, machine: MachineHello) -> None:
        number = machine.machine
        if peer.machine:
            peer.drop(f"machine {number} is there twice")
        else:
            peer.stream.send(addressed(Drop(number), number, machine.session))
