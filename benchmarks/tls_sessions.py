"""What a TLS connection costs: with a new session, with a resumed one, between roles (both ends show certificates).

The ports of the LCC stand in a process of their own, whose CPU is told apart.  Connections are made one after the
other: by Python's own TLS (a content user), and by the robot's TLS over Twisted (:mod:`lcc.fetchers.tls`).  Each says
nothing, hears one line and closes; whether its session was resumed is looked at.  The ways take turns; medians of the
rounds.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common import cpu_seconds_of, scratch, spread, table
from rows import Row, add_options, give

HOST = "127.0.0.1"
LINE = b"hello\n"


def serve(folder: Path) -> None:
    """Ports: plain, public, between roles; their numbers on standard output."""
    from twisted.internet import reactor
    from twisted.internet.endpoints import serverFromString
    from twisted.internet.protocol import Factory, Protocol

    class Greeter(Protocol):
        def connectionMade(self) -> None:
            self.transport.write(LINE)  # type: ignore[union-attr]

    files = f"certificate={folder}/{{0}}.pem:key={folder}/{{0}}.key"
    endpoints = (
        f"tcp:0:interface={HOST}",
        f"lcctls:0:interface={HOST}:{files.format('public')}",
        f"lcctls:0:interface={HOST}:{files.format('qm')}:ca={folder}/ca.pem:roles=uns",
    )
    numbers: list[int] = []

    def opened(port: Any) -> None:
        numbers.append(port.getHost().port)
        if len(numbers) == len(endpoints):
            print(*numbers, flush=True)

    for endpoint in endpoints:
        serverFromString(reactor, endpoint).listen(Factory.forProtocol(Greeter)).addCallback(opened)
    reactor.run()  # type: ignore[attr-defined]


def context(folder: Path, role: str = "", newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Of a client that verifies."""
    made = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    made.maximum_version = newest
    if role:
        made.load_cert_chain(folder / f"{role}.pem", folder / f"{role}.key")
    return made


def connect(port: int, tls: ssl.SSLContext | None, session: Any, resumed: bool) -> Any:
    """One connection; gives its session."""
    plain = socket.create_connection((HOST, port))
    if tls is None:
        with plain:
            assert plain.recv(100) == LINE
        return None
    with tls.wrap_socket(plain, server_hostname=HOST, session=session) as secure:
        assert secure.recv(100) == LINE
        assert secure.session_reused == resumed
        return secure.session


def blocking(port: int, tls: ssl.SSLContext | None, count: int, resume: bool) -> None:
    """So many connections of Python's own TLS."""
    session = connect(port, tls, None, False) if resume else None
    for _ in range(count):
        session = connect(port, tls, session, resume) if resume else connect(port, tls, None, False) and None


async def robot(reactor: Any, port: int, folder: Path, count: int, resume: bool) -> None:
    """So many connections of the robot; the first has nothing to resume."""
    from OpenSSL import SSL
    from twisted.internet.defer import Deferred
    from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol, wrapClientTLS
    from twisted.internet.protocol import Protocol

    from lcc.fetchers.tls import TlsClient

    class Listener(Protocol):
        def __init__(self) -> None:
            self.heard: Deferred[None] = Deferred()
            self.lost: Deferred[None] = Deferred()

        def dataReceived(self, data: bytes) -> None:
            self.heard.callback(None)

        def connectionLost(self, reason: Any = None) -> None:
            self.lost.callback(None)

    library: Any = SSL._lib  # pyOpenSSL does not offer openly whether a session was resumed
    tls = TlsClient(str(folder / "ca.pem"))
    for number in range(count):
        endpoint = TCP4ClientEndpoint(reactor, HOST, port)
        protocol = Listener()
        creator = tls.creator("site", HOST, True, False)
        await connectProtocol(wrapClientTLS(creator, endpoint, reactor), protocol)
        await protocol.heard
        transport: Any = protocol.transport
        tls.verify(transport, HOST, True, False)
        assert bool(library.SSL_session_reused(transport.getHandle()._ssl)) == (resume and number > 0)
        if resume:
            tls.remember("site", transport)
        transport.loseConnection()
        await protocol.lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=500, help="of each way in each round")
    add_options(parser)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    from lcc.admin.setup.authority import Authority

    with scratch() as temporary:
        now = datetime.now(UTC)
        authority = Authority.create(temporary / "ca", "bench", 10, now)
        for role in ("public", "qm", "uns"):
            authority.add([HOST], role, 5, now)
        folder = temporary / "ca" / HOST
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(folder)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            measure(options, server.pid, folder, *map(int, server.stdout.readline().split()))
        finally:
            server.terminate()
            server.wait()


def measure(options: argparse.Namespace, pid: int, folder: Path, plain: int, public: int, roles: int) -> None:
    """Run all ways in turn, and print the table."""
    from twisted.internet import reactor
    from twisted.internet.defer import ensureDeferred

    def with_robot(resume: bool) -> None:
        def done(result: Any) -> None:
            reactor.crash()  # type: ignore[attr-defined]
            outcome.append(result)

        outcome: list[Any] = []
        ensureDeferred(robot(reactor, public, folder, options.connections, resume)).addBoth(done)
        reactor.run(installSignalHandlers=False)  # type: ignore[attr-defined]
        if outcome[0] is not None:
            outcome[0].raiseException()

    count = options.connections
    older = ssl.TLSVersion.TLSv1_2
    ways: dict[str, Callable[[], None]] = {
        "plain TCP": lambda: blocking(plain, None, count, False),
        "public port, TLS 1.3, new": lambda: blocking(public, context(folder), count, False),
        "public port, TLS 1.3, resumed": lambda: blocking(public, context(folder), count, True),
        "public port, TLS 1.2, new": lambda: blocking(public, context(folder, newest=older), count, False),
        "public port, TLS 1.2, resumed": lambda: blocking(public, context(folder, newest=older), count, True),
        "between roles, TLS 1.3, always new": lambda: blocking(roles, context(folder, "uns"), count, False),
        "the robot, TLS 1.3, new": lambda: with_robot(False),
        "the robot, TLS 1.3, resumed": lambda: with_robot(True),
    }
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for turn in range(options.runs + 1):
        for name, run in ways.items():
            started, mine, theirs = time.perf_counter(), time.process_time(), cpu_seconds_of(pid)
            run()
            taken = time.perf_counter() - started, time.process_time() - mine, cpu_seconds_of(pid) - theirs
            if turn:  # the first round warms up
                figures[name].append(taken)
    rows = []
    for name, taken_each in figures.items():
        elapsed, mine, theirs = (
            [1000 * value / count for value in column] for column in zip(*taken_each, strict=True)
        )
        both = [sum(pair) for pair in zip(mine, theirs, strict=True)]
        ratio = ""
        if name.endswith("resumed"):
            new = [1000 * (row[1] + row[2]) / count for row in figures[name.replace("resumed", "new")]]
            ratio = spread([fresh / again for fresh, again in zip(new, both, strict=True)])
        rows.append([name, spread(mine), spread(theirs), ratio, spread(elapsed)])
    print(
        f"{options.runs} rounds of {count} connections; milliseconds a connection; Python has {ssl.OPENSSL_VERSION}"
    )
    heads = ["", "CPU of who connects", "CPU of the port", "CPU of both, new : resumed", "elapsed"]
    print(table(heads, rows))

    def both_ms(name: str) -> list[float]:
        return [1000 * (mine + theirs) / count for _, mine, theirs in figures[name]]

    give(
        options,
        [
            Row(
                f"TLS session, {what}, resumed against new",
                "ms",
                both_ms(f"{way}, TLS 1.3, resumed"),
                "new session",
                both_ms(f"{way}, TLS 1.3, new"),
                note="CPU of both ends for a connection",
            )
            for what, way in (("public port", "public port"), ("robot", "the robot"))
        ],
    )


if __name__ == "__main__":
    main()
