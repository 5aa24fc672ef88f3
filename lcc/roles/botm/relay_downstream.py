"""The connection of a central BOT-M down to a machine's BOT-M, or to another central one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.errors import StreamError
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.work import UP, Gone, MachineHello, addressee
from lcc.protocols.xmlfeed import Start
from lcc.roles.botm.downstream import Downstream, UpperEnd

_log = Logger()

UNREAD_BYTES_MAX = 8 * 1024 * 1024
"""What is kept for a BOT-M that does not read; beyond that it is dropped."""


class RelayDownstream(Downstream):
    """The connection to a BOT-M below: that of a machine, or a central one with machines behind it.

    Its messages are tuples: the machine that a message is from, the message.  The hello of a machine that connects
    directly comes as a :class:`MachineHello`, too.

    :param new_session: names the connection of a machine's BOT-M of an older version, which does not do so itself.
    :ivar machine: its machine id; 0: it is a central one.
    :ivar unread_bytes: sent to it since it stopped reading.
    """

    def __init__(self, engine: UpperEnd, clock: IReactorTime, hello: Hello, new_session: Callable[[], str]) -> None:
        super().__init__(engine, clock, hello, "botm", Vocabulary())
        self._new_session = new_session
        self.machine = 0
        self.unread_bytes = 0

    def tell(self, text: str) -> None:
        """Send it this element; if it does not read, up to :data:`UNREAD_BYTES_MAX`."""
        stream = self.stream
        if not stream.writable:
            self.unread_bytes += len(text)
            if self.unread_bytes > UNREAD_BYTES_MAX:
                self.drop("it does not read")
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
            # One of an older version names no session; all that is for it passes here, so this one can name it.
            named = attrs.evolve(hello, session=hello.session or self._new_session())
            self.engine.downstream_messages(self, [(self.machine, MachineHello(**attrs.asdict(named)))])
        else:
            _log.info("{peer}, a central BOT-M, connected", peer=self.describe())

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        self.engine.downstream_messages(self, self._with_machines(elements))
        return None

    def stream_resumed(self) -> None:
        self.unread_bytes = 0

    def _with_machines(self, elements: list[Start]) -> Iterator[tuple[int, Flat]]:
        own = self.machine
        for name, attributes, _depth in elements:
            message = UP.read(name, attributes)
            machine = addressee(name, attributes)
            if not own:
                if not machine:
                    raise StreamError("syntax", f"<{message.TAG}> of no machine from a central BOT-M")
            elif isinstance(message, (MachineHello, Gone)) or machine not in (0, own):
                raise StreamError("unknown-message", f"<{message.TAG}> of machine {machine} from machine {own}")
            yield machine or own, message
