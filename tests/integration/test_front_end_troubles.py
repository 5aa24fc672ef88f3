"""What may come to lcc-fe-uns: real processes, one sub-LCC, two front ends before it."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes.front_end import FrontEnd, add_provider, login, sub_lcc
from tests.support.processes.system import System
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long

ROOT = "http://a.example.org/"
ELEMENT = '<url c="page%d.html" m="text/html"/>'
ELEMENTS = [(ELEMENT % number).encode() for number in range(100, 30_000)]
"""Of a set that never ends."""
PASSES_BYTES = 16 << 20
"""More than the proxy may take of memory meanwhile."""


class Troubles:
    """:ivar fronts: two front ends with one database; :ivar lcc: their only sub-LCC."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:{folder}/fe.sqlite"
        self.lcc = sub_lcc(folder, "one", None, url, 1)
        self.fronts = [FrontEnd(folder / name, url) for name in ("front1", "front2")]
        self.pid, self.password = add_provider(self.lcc, ROOT)

    def start(self) -> None:
        self.lcc.start("uns", "qm")
        self.fronts[0].add("one", self.lcc)
        for front in self.fronts:
            front.start("fe-uns")
            wait_for("a provider gets through", lambda front=front: self.gets_through(front))

    def gets_through(self, front: FrontEnd) -> bool:
        return "init_accepted" in self.login(front)

    def login(self, front: FrontEnd, piece: int = 1 << 16) -> str:
        return login(front.port, self.pid, self.password, piece)

    def begun(self) -> str:
        """What a provider says up to the URLs of a set."""
        return (
            '<l:init xmlns:l="http://www.lococa.org/1.0">'
            f'<provider id="{self.pid}" passwd="{self.password}"/></l:init><l:set set="partial" urlprefix="{ROOT}">'
        )

    def tell(self, front: FrontEnd, first: int, count: int) -> str:
        """The answer to a set of so many pages."""
        elements = "".join(ELEMENT % number for number in range(first, first + count))
        said = f"{self.begun()}{elements}</l:set>"
        with closing(socket.create_connection(("127.0.0.1", front.port), timeout=60)) as connection:
            connection.sendall(said.encode())
            heard = b""
            while data := connection.recv(65536):
                heard += data
                if b"set_accepted" in heard or b"_rejected>" in heard:
                    break
        return heard.decode()

    def queued(self, count: int) -> list[str]:
        """Which of the first pages are in the queue, with each view."""
        wanted = [f"{ROOT}page{number}.html" for number in range(count)]
        with closing(sqlite3.connect(self.lcc.folder / "home" / "lcc.db")) as database:
            marks = ", ".join("?" * count)
            rows = database.execute(f"SELECT curl FROM qdb WHERE curl IN ({marks}) ORDER BY curl", wanted)
            return [curl for (curl,) in rows]


@pytest.fixture
def troubles(tmp_path: Path) -> Iterator[Troubles]:
    troubles = Troubles(tmp_path)
    try:
        troubles.start()
        yield troubles
    finally:
        for each in (*troubles.fronts, troubles.lcc):
            each.stop_all()


def stalled(port: int, said: bytes) -> socket.socket:
    """A provider that never reads, and says all this as far as it is taken."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.settimeout(2.0)
    try:
        connection.sendall(said)
    except TimeoutError:
        pass
    return connection


def resident_bytes(system: System, name: str) -> int:
    status = Path(f"/proc/{system.processes[name].pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def test_what_may_come_to_the_proxy(troubles: Troubles) -> None:
    """One start for all of it: ``<init>`` in one-byte pieces, too long, of nobody; one who never reads; two proxies;
    a UNS that holds spooled sets, that is away, and that comes back."""
    first, second = troubles.fronts
    assert "init_accepted" in troubles.login(first, 1)
    assert "1010" in login(first.port, 9_999_999, "x") and "1010" in login(first.port, 77_000_000, "x")
    with closing(socket.create_connection(("127.0.0.1", first.port), timeout=30)) as connection:
        connection.sendall(b'<l:init xmlns:l="http://www.lococa.org/1.0" ' + b" " * (1 << 17))
        heard = b""
        while data := connection.recv(65536):
            heard += data
    assert b"init_rejected" in heard and b"1012" not in heard

    # Who never reads is not collected for.
    said = troubles.begun().encode()
    before = resident_bytes(first, "fe-uns")
    unread = [stalled(first.port, said + b"".join(ELEMENTS)) for _ in range(3)]
    assert resident_bytes(first, "fe-uns") - before < PASSES_BYTES
    for each in unread:
        each.close()
    assert "set_accepted" in troubles.tell(first, 0, 3)

    # The queue manager is away: the UNS spools.  One proxy is killed, the other one goes on.
    troubles.lcc.kill("qm")
    first.kill("fe-uns")
    assert "set_accepted" in troubles.tell(second, 3, 4)
    troubles.lcc.kill("uns")
    assert "1012" in troubles.login(second), "a UNS that is away means: try again later"
    first.start("fe-uns")
    wait_for("a proxy without a UNS tells so", lambda: "1012" in troubles.login(first))
    troubles.lcc.start("uns", "qm")
    wait_for("a provider gets through again", lambda: troubles.gets_through(first))
    assert "set_accepted" in troubles.tell(first, 7, 5)
    wait_for("all sets are in the queue", lambda: len(troubles.queued(12)) >= 12)
    assert len(set(troubles.queued(12))) == len(troubles.queued(12))
