"""The LCC of a kill test: a tree of machines with several UNSes, a content user server, its database server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import attrs

from lcc.config import DatabaseConfig
from lcc.model import Provider
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.passwords import generate_password, hash_password
from lcc.storage.providers.providers import add_provider
from lcc.testing.galera import PrivateGalera
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.ports import free_port
from tests.support.processes.tree import Tree

LEASE_SECONDS = 12
SLOT_SECONDS = 10
SETTINGS = {
    # Nodes of a database may be on hosts of their own.
    "": f'timezone = "UTC"\nslots = 24\nslot_seconds = {SLOT_SECONDS}\n[tls]\ninsecure = true\n',
    "database": "connect_timeout = 2.0\nquery_timeout = 8.0\n",
    "uns": "errors_shown = 10000\nconnections_per_provider = 20\ndatabase_timeout = 8.0\n",
    "qm": f"lease = {LEASE_SECONDS}\nerrors_kept = 100000\nattempts_max = 3\nretry_initial = 0.5\n"
    "retry_maximum = 2.0\nhold_initial = 0.5\nhold_maximum = 2.0\nhold_attempts_max = 50\nquantum_urls = 10\n"
    "absorb_batch = 5\nrecord_batch = 20\nhousekeeping_period = 20\n",
    "botm": "names_block = 100\nsync_interval = 2.0\n",
    "bot": "concurrency = 8\nidle_timeout = 8.0\ndeadline = 10.0\nkeepalive = 2.0\n",
}
"""Short leases and delays, so that a test that waits for them is short; small batches, so that kills come between."""
DATABASE = "mariadbd"


@attrs.frozen
class Kind:
    """What is special about a provider of a kill test.

    :ivar hours, bandwidth_bytes, files_max, interval_seconds: as of :class:`lcc.model.Provider`.
    """

    hours: str = ""
    bandwidth_bytes: int | None = None
    files_max: int | None = None
    interval_seconds: float | None = None


EVERY_OTHER_SLOT = ",".join(str(slot) for slot in range(0, 24, 2))
ODD_SLOTS = ",".join(str(slot) for slot in range(1, 24, 2))
SLOW = Kind(interval_seconds=4.0)
KINDS = (
    *(Kind(hours=EVERY_OTHER_SLOT), Kind(bandwidth_bytes=5_000), SLOW, Kind(files_max=10)),
    *(Kind(hours=ODD_SLOTS), SLOW),
)
KINDS_EVERY = 3
"""Every third provider is special."""


@attrs.frozen
class Registered:
    """A provider of a kill test."""

    pid: int
    password: str
    name: str
    kind: Kind


class Cluster(Tree):
    """:class:`Tree` with more UNSes and a content user server, its home folders, its memory.

    :param server: the database server, or cluster of them, killed as well; None: SQLite.
    :ivar databases: its processes.
    :ivar peaks_kb: role -> the most memory that a process of it had (VmHWM).
    """

    def __init__(
        self,
        folder: Path,
        server: PrivateMariaDb | PrivateGalera | None,
        *,
        unses: int = 2,
        machines: int = 2,
        robots: int = 2,
        slow_central: bool = False,
    ) -> None:
        self.databases: dict[str, PrivateMariaDb] = {}
        if isinstance(server, PrivateGalera):
            self.databases = {f"{DATABASE} {node.name}": node for node in server.nodes}
        elif server is not None:
            self.databases = {DATABASE: server}
        self._server = server
        self.peaks_kb: dict[str, int] = {}
        url = server.new_database() if server is not None else None
        super().__init__(folder, None, url, machines, robots, SETTINGS, slow_central=slow_central)
        self.uns_ports = [self.port]
        for number in range(2, unses + 1):
            port = free_port()
            self.uns_ports.append(port)
            self._configure(
                f"uns{number}",
                f'[uns]\nname = "uns{number}"\nlisten = "tcp:{port}:interface=127.0.0.1"\n'
                f'connect = "unix:{folder}/home/qm.sock"\nanswer_timeout = 10.0\n{SETTINGS["uns"]}',
            )
        self._configure("cu", f'[cu]\ncontent = "unix:{folder}/central/content.sock"\n')

    # Processes.

    def start(self, *names: str) -> None:
        for name in names:
            if name in self.databases:
                self.databases[name].launch()
            else:
                super().start(name)

    def kill(self, name: str) -> None:
        if name in self.databases:
            self.databases[name].kill()
        else:
            self.note_memory(name)
            super().kill(name)

    def stand_still(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)
        self.still.add(name)

    def go_on(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)
        self.still.discard(name)

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self.databases[name].process if name in self.databases else self.processes[name]
        assert process
        process.send_signal(number)

    def role(self, name: str) -> str:
        """Of a process."""
        if name in self.databases:
            return DATABASE
        return name.rstrip("abcdef").rstrip("0123456789") if name != "central" else name

    def is_up(self, name: str) -> bool:
        """Whether this process has been started and has not ended."""
        if name in self.databases:
            process = self.databases[name].process
            return process is not None and process.poll() is None
        return name in self.processes and self.processes[name].poll() is None

    def recover(self) -> int:
        """Begin the database's cluster again, all of whose nodes were lost; 0: there is none."""
        if not isinstance(self._server, PrivateGalera):
            return 0
        self._server.recover()
        return 1

    def note_memory(self, name: str) -> None:
        """Look how much memory a process has had."""
        try:
            status = Path(f"/proc/{self.processes[name].pid}/status").read_text()
        except (OSError, KeyError):
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                role = self.role(name)
                self.peaks_kb[role] = max(self.peaks_kb.get(role, 0), int(line.split()[1]))

    def sockets(self) -> Path:
        """Where content users connect."""
        return self.folder / "cu" / "cu.sock"

    # The database and the folders.

    @property
    def database_name(self) -> str:
        """At its server."""
        return self._database_url.partition("?")[0].rpartition("/")[2]

    def open_database(self) -> BlockingDatabase:
        """A connection of the test's own."""
        return BlockingDatabase(
            self._database_url, self.folder / "home", DatabaseConfig(query_timeout=30.0), random=Random(1)
        )

    def spooled(self) -> list[Path]:
        """Sets that UNSes have accepted and not passed on."""
        return [
            path
            for home in ["home", *(name for name in self.configs if name.startswith("uns") and name != "uns")]
            for path in (self.folder / home / "spool").glob("*.set")
        ]

    def register(self, count: int, port: int, special: Sequence[Kind]) -> list[Registered]:
        """Register providers whose pages are on this port.

        :param special: some of them are of these kinds.
        """
        database = self.open_database()
        registered = [register(database, index, port, special) for index in range(count)]
        database.close()
        return registered

    def stop_in_order(self, patience_seconds: float = 30.0) -> list[str]:
        """SIGTERM to all; gives those that did not go."""
        for name, process in self.processes.items():
            self.note_memory(name)
            process.terminate()
        end = time.monotonic() + patience_seconds
        stuck = []
        for name, process in list(self.processes.items()):
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            if process.poll() is None:
                stuck.append(name)
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            del self.processes[name]
        return stuck


def register(database: BlockingDatabase, index: int, port: int, special: Sequence[Kind]) -> Registered:
    """Register a provider whose pages are on this port.

    :param index: of all that there are; it has its name from that.
    :param special: some are of these kinds.
    """
    name, password = f"p{index:02d}", generate_password()
    number, ordinary = divmod(index, KINDS_EVERY)
    kind = special[number % len(special)] if special and not ordinary else Kind()
    provider = Provider(
        0,
        (f"http://127.0.0.1:{port}/{name}/",),
        hash_password(password, generated=True),
        hours=kind.hours,
        bandwidth_bytes=kind.bandwidth_bytes,
        interval_seconds=kind.interval_seconds,
        files_max=kind.files_max,
        priority=index % 3,
        full_sets=None,
        allow_private=True,
    )

    def add(txn: Txn) -> int:
        return add_provider(txn, provider)

    return Registered(database.write(add), password, name, kind)
