"""The connections of BOT-Ms to a central BOT-M."""

from __future__ import annotations

from typing import Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.work import UP, Gone, MachineHello, addressed, addressee
from lcc.protocols.xmlfeed import Start
from lcc.roles.peer import Peer
from lcc.transport.stream import XmlStream

_log = Logger()

UNREAD_BYTES_MAX = 8 * 1024 * 1024
"""What is kept for a BOT-M that does not read; beyond that it is dropped."""
MESSAGE_CHARS_MAX = 100_000
"""A message that is longer when it is written anew could be too long for the feed of the upper end."""


class Stem(Protocol):
    """What a branch needs of the engine."""

    @property
    def connected(self) -> bool:
        """The upper end is there."""

    def new_session(self) -> str:
        """Names a connection of a BOT-M that does not do so itself."""

    def arrived(self, branch: BranchPeer, machine: MachineHello) -> None:
        """A machine is there."""

    def departed(self, branch: BranchPeer, machine: int) -> None:
        """It is gone."""

    def said(self, branch: BranchPeer, machine: int, text: str) -> None:
        """It says this element."""

    def branch_settled(self, branch: BranchPeer) -> None:
        """A batch of the branch's messages was worked off."""

    def branch_lost(self, branch: BranchPeer) -> None:
        """The connection is gone, and with it all machines behind it."""


class BranchPeer(Peer):
    """The connection to a BOT-M below: that of a machine, or a central one with machines behind it.

    :ivar machine: its machine id; 0: it is a central one.
    :ivar unread_bytes: said to it since it stopped to read.
    """

    def __init__(self, stem: Stem, clock: IReactorTime, hello: Hello) -> None:
        super().__init__(clock, hello, frozenset(["botm"]), Vocabulary())
        self._stem = stem
        self.machine = 0
        self.unread_bytes = 0

    def tell(self, text: str) -> None:
        """Send it this element; if it reads nothing, only so much."""
        stream = self.stream
        if not stream.writable:
            self.unread_bytes += len(text)
            if self.unread_bytes > UNREAD_BYTES_MAX:
                self.drop("it does not read what is said to it")
                return
        stream.send(text)

    def drop(self, why: str) -> None:
        """End the connection."""
        _log.warn("Dropping {peer}: {why}", peer=self.describe(), why=why)
        self.stream.abort()

    def describe(self) -> str:
        if self.peer_hello is not None and self.machine:
            return f"botm {self.peer_hello.name} of machine {self.machine}"
        return super().describe()

    def peer_ready(self, hello: Hello) -> None:
        if hello.machine < 0 or not hello.run:
            raise StreamError("syntax", "a BOT-M must name its run, and its machine if it is not a central one")
        self.machine = hello.machine
        if self.machine:
            # One of an older version names no session; all that comes here for it passes by here, so this one can.
            named = attrs.evolve(hello, session=hello.session or self._stem.new_session())
            self._stem.arrived(self, MachineHello(**attrs.asdict(named)))
        else:
            _log.info("{peer}, a central BOT-M, has connected", peer=self.describe())

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        try:
            for name, attributes, _depth in elements:
                message = UP.read(name, attributes)
                machine = addressee(name, attributes)
                if self.machine:
                    self._from_machine(machine, message)
                else:
                    self._from_central(machine, message)
        finally:
            self._stem.branch_settled(self)
        return None

    def peer_resumed(self) -> None:
        self.unread_bytes = 0

    def peer_lost(self, reason: Failure) -> None:
        self._stem.branch_lost(self)

    def _from_machine(self, machine: int, message: Flat) -> None:
        if isinstance(message, (MachineHello, Gone)) or machine not in (0, self.machine):
            raise StreamError("unknown-message", f"<{message.TAG}> of machine {machine} from machine {self.machine}")
        self._pass_on(self.machine, message)

    def _from_central(self, machine: int, message: Flat) -> None:
        if not machine:
            raise StreamError("syntax", f"<{message.TAG}> of no machine from a central BOT-M")
        if isinstance(message, MachineHello):
            self._stem.arrived(self, message)
        elif isinstance(message, Gone):
            self._stem.departed(self, machine)
        else:
            self._pass_on(machine, message)

    def _pass_on(self, machine: int, message: Flat) -> None:
        text = addressed(message, machine)
        if len(text) > MESSAGE_CHARS_MAX:
            raise StreamError("limit", f"<{message.TAG}> of {len(text)} characters")
        self._stem.said(self, machine, text)


class BranchFactory(Factory):
    """Makes a :class:`BranchPeer` for each connection, up to a number of them, while the upper end is there.

    :param hello: what this end says of itself.
    """

    noisy = False

    def __init__(self, stem: Stem, clock: IReactorTime, hello: Hello, branches_max: int) -> None:
        self._stem = stem
        self._clock = clock
        self._hello = hello
        self._branches_max = branches_max
        self._peers: set[BranchPeer] = set()
        self._told = False

    def buildProtocol(self, address: object) -> XmlStream | None:
        if not self._stem.connected:
            if not self._told:
                self._told = True
                _log.info("A BOT-M is turned away, as this one is not connected itself (it tries again)")
            return None
        self._told = False
        if len(self._peers) >= self._branches_max:
            _log.warn("More than {limit} BOT-Ms: refusing one more", limit=self._branches_max)
            return None
        peer = BranchPeer(self._stem, self._clock, self._hello)
        self._peers.add(peer)
        return peer.build_stream()

    @property
    def peers(self) -> list[BranchPeer]:
        """All connections."""
        return list(self._peers)

    def discard(self, peer: BranchPeer) -> None:
        """This one is gone."""
        self._peers.discard(peer)

    def drop_all(self) -> None:
        """End all connections."""
        for peer in self.peers:
            peer.stream.abort()
