"""From a peer's hello to the handler of its messages.

UNSes are refused while the queue manager is overloaded.  A peer that remembers something has its hello compared with
the database first (:mod:`lcc.roles.qm.maintenance.repair`).  What it says meanwhile is kept; it is paused at once, so
that this is what one read brought at most.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError
from lcc.interfaces import IQueueStore
from lcc.protocols.hello import Hello
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.intake.overload import Intake
from lcc.roles.qm.maintenance.repair import Repair
from lcc.roles.qm.part import ENDINGS, Hub, Part
from lcc.roles.qm.peers.handler import Connection, Handler

_log = Logger()

Admit = Callable[[Connection, Hello], Handler]
"""Makes the handler for this connection, or raises StreamError to refuse the peer."""


class Handshake:
    """Gives each connection its handler.

    :param admit: makes the handler of a peer whose hello is in order.
    """

    def __init__(self, hub: Hub, store: IQueueStore, repair: Repair, intake: Intake, admit: Admit) -> None:
        self._hub = hub
        self._store = store
        self._repair = repair
        self._intake = intake
        self._admit = admit
        self._pending: dict[PendingPeer, None] = {}  # in the order in which they came
        self._enabled = False

    def enable(self) -> None:
        """The database is claimed: compare the hellos of those who came before."""
        self._enabled = True
        for pending in list(self._pending):
            pending.compare()

    def hello(self, connection: Connection, hello: Hello) -> None:
        """A peer has said hello; sets the connection's handler.

        :raises StreamError: it is refused.
        """
        self._intake.check_hello(hello)
        if not (hello.epoch and (hello.acked or hello.numbers_upto)) and not (hello.machine and hello.names_upto):
            connection.handler = self._admit(connection, hello)  # it remembers nothing
            return
        pending = PendingPeer(self._hub, self._store, connection, hello, self._repair, self._admit, self._pending)
        connection.handler = pending
        if self._enabled:
            pending.compare()

    def stop(self) -> None:
        """End all comparisons."""
        for pending in list(self._pending):
            pending.stop()
        self._pending.clear()


class PendingPeer(Part, Handler):
    """A peer whose hello is being compared with the database.

    The comparison goes on when the peer is lost: what it remembers may show a loss that must be repaired.

    :param pending: those that are; it enters itself, and leaves.
    """

    ERROR_TEXT = "Cannot compare a hello with the database"

    def __init__(
        self,
        hub: Hub,
        store: IQueueStore,
        connection: Connection,
        hello: Hello,
        repair: Repair,
        admit: Admit,
        pending: dict[PendingPeer, None],
    ) -> None:
        super().__init__(hub, store)
        self._connection = connection
        self._hello = hello
        self._repair = repair
        self._admit = admit
        self._pending = pending
        self._elements: list[Start] = []
        self._room: Deferred[None] | None = None
        self._lost = False
        pending[self] = None

    def compare(self) -> None:
        """Compare its hello; then it is admitted, unless it has to begin anew."""
        self._begin(self._compare)

    async def _compare(self) -> None:
        in_order = await self._repair.compare(self._connection, self._hello)
        if in_order and not (self._lost or self._stopped):
            self._let_in()

    def _let_in(self) -> None:
        room, self._room = self._room, None
        elements, self._elements = self._elements, []
        try:
            handler = self._connection.handler = self._admit(self._connection, self._hello)
            more = handler.elements_received(elements) if elements else None
        except StreamError as error:
            if room is None:
                raise
            room.errback(error)
            return
        if room is not None and more is not None:
            more.chainDeferred(room)
        elif room is not None:
            room.callback(None)

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        self._elements += elements
        if self._room is None:
            self._room = Deferred()
        return self._room

    def lost(self) -> None:
        self._lost = True
        self._elements = []
        room, self._room = self._room, None
        if room is not None:
            room.callback(None)  # the connection may be shared with others, who go on

    def _ended(self) -> None:
        self._pending.pop(self, None)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, StreamError):
            self._connection.stream_failed(error)  # its hello was in order, but it cannot be let in
        else:
            super()._failed(failure)
            if not isinstance(error, ENDINGS):
                self._connection.drop()

    def _log_failure(self, failure: Failure) -> None:
        peer = self._connection.describe()
        _log.failure("Cannot compare the hello of {peer} with the database", failure=failure, peer=peer)
