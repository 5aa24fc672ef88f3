"""All providers of small_sets.py in one process.  Not for use alone.

``small_sets_provider.py UNS-PORT sessions|sets PIDS AT-ONCE COUNT FIRST-PAGE``: providers 1 to PIDS in turn, AT-ONCE
connections at any time.  ``sessions``: each connects, logs in, waits for ``init_accepted``, tells of one page, waits
for ``set_accepted`` and leaves; then the next one comes.  ``sets``: the connections stay, and tell one page after the
other.  The pages have numbers from FIRST-PAGE on, each is told once.  Prints JSON: when the first was told and the
last was accepted (``time.monotonic``), this process's CPU in between, and the milliseconds of each.

It does as little as it can (the cores are also those of the LCC), but nothing less than a provider does.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Callable

import attrs
from lcc_site import PASSWORD

from lcc.protocols.cp_uns_client import init

ROOT = "http://p{pid}.example/"
SILENCE_SECONDS_MAX = 60
_LOGGED_IN = b"</lococa:init_accepted>\n"
_ANSWERED = b"</lococa:set_result>\n"
_ACCEPTED = b'<set_accepted received="1"/>'


@attrs.define(eq=False)
class Connection:
    """One connection of a provider.

    :ivar said: by the UNS, since the last answer.
    :ivar begun: when its session, or its set, began.
    """

    socket: socket.socket
    pid: int
    begun: float
    said: bytes = b""


class Providers:
    """Connections, and what each is to say next."""

    def __init__(self, port: int, pids: int, first_page: int, count: int) -> None:
        self._port = port
        self._pids = pids
        self._pages = iter(range(first_page, first_page + count))
        self._next_page = next(self._pages, None)
        self._poll = select.epoll()
        self._open: dict[int, Connection] = {}
        self._connected = 0
        self.times_ms: list[float] = []

    def connect(self) -> None:
        """The next provider connects and says who it is."""
        pid = self._connected % self._pids + 1
        self._connected += 1
        begun = time.monotonic()
        connection = Connection(socket.create_connection(("127.0.0.1", self._port)), pid, begun)
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.EPOLLIN)
        connection.socket.sendall(init(pid, PASSWORD).encode())

    def sessions(self, at_once: int) -> None:
        """A session for each page."""
        for _ in range(at_once):
            self.connect()
        self._run(self._leave)

    def log_in(self, at_once: int) -> None:
        """Connections that have logged in, and no more."""
        for _ in range(at_once):
            self.connect()
        logged_in = 0
        while logged_in < at_once:
            logged_in += len(self._answered())

    def sets(self) -> None:
        """A set for each page, over the connections that have logged in."""
        for connection in list(self._open.values()):
            self._tell_again(connection)
        self._run(self._tell_again)

    def _run(self, then: Callable[[Connection], None]) -> None:
        while self._open:
            for connection, said in self._answered():
                if said.endswith(_LOGGED_IN):
                    self._tell(connection)
                elif _ACCEPTED in said:
                    self.times_ms.append(1000 * (time.monotonic() - connection.begun))
                    then(connection)
                else:
                    raise SystemExit(f"a set was answered with {said[-500:]!r}")

    def _answered(self) -> list[tuple[Connection, bytes]]:
        """Those whose answer is complete, with the answer."""
        ready = self._poll.poll(SILENCE_SECONDS_MAX)
        if not ready:
            raise SystemExit(f"the UNS says nothing for {SILENCE_SECONDS_MAX} s")
        found = []
        for number, _ in ready:
            connection = self._open[number]
            data = connection.socket.recv(65536)
            if not data:
                raise SystemExit(f"the UNS has closed; it said {connection.said[-500:]!r}")
            said = connection.said = connection.said + data
            if said.endswith((_LOGGED_IN, _ANSWERED)):
                connection.said = b""
                found.append((connection, said))
        return found

    def _tell(self, connection: Connection) -> None:
        page, self._next_page = self._next_page, next(self._pages, None)
        if page is None:
            self._close(connection)  # others have told the last one
            return
        connection.socket.sendall(
            f'<lococa:set set="partial" urlprefix="{ROOT.format(pid=connection.pid)}">\n'
            f'<url c="section{page % 97}/page-{page}.html" m="text/html"/>\n</lococa:set>\n'.encode()
        )

    def _tell_again(self, connection: Connection) -> None:
        connection.begun = time.monotonic()
        self._tell(connection)

    def _leave(self, connection: Connection) -> None:
        self._close(connection)
        if self._next_page is not None:
            self.connect()

    def _close(self, connection: Connection) -> None:
        del self._open[connection.socket.fileno()]
        connection.socket.close()


def main(port: str, kind: str, pids: str, at_once: str, count: str, first_page: str) -> None:
    """Tell all."""
    providers = Providers(int(port), int(pids), int(first_page), int(count))
    if kind == "sets":
        providers.log_in(int(at_once))
    begun, cpu = time.monotonic(), time.process_time()
    if kind == "sets":
        providers.sets()
    else:
        providers.sessions(int(at_once))
    ended = time.monotonic()
    found = {
        "begun": begun,
        "ended": ended,
        "cpu_seconds": time.process_time() - cpu,
        "times_ms": sorted(providers.times_ms),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
