"""A whole LCC for a benchmark: every role a process of its own, providers that are registered in bulk.

``whole_chain.py`` measures how fast it is; this is for what watches it over time, or wants many providers or robots.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from common import cpu_seconds_of, free_port, peak_memory_bytes

from lcc.config import DatabaseConfig
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.passwords import hash_password

BIN = Path(sys.executable).parent
PASSWORD = "0123456789abcdef0123456789abcdef"
START_SECONDS = 180.0
STOP_SECONDS = 60.0
_COLUMNS = ("pid", "password", "timeofday", "timezone", "priority", "allow_private", "insecure", "removed")
_AT_ONCE = 1000


class LccSite:
    """The roles on one database.

    :param database_url: None: SQLite in the home folder.
    :param settings: more settings, by table.
    :param robots: so many ``lcc-bot`` processes.
    :param roles: which are started.
    """

    def __init__(
        self,
        folder: Path,
        database_url: str | None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        robots: int = 1,
        roles: Iterable[str] = ("uns", "qm", "botm", "bot"),
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.home = folder / "lcc-home"
        self.config = folder / "lcc.toml"
        self.port = free_port()
        self.url = database_url or "sqlite:lcc.db"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names = [
            (f"bot{number + 1}" if role == "bot" and robots > 1 else role, role)
            for role in roles
            for number in range(robots if role == "bot" else 1)
        ]
        self.config.write_text(self._toml(settings or {}))
        command = [BIN / "lcc-admin", "--config", self.config, "init"]
        subprocess.run(command, check=True, capture_output=True)
        self.database = BlockingDatabase(self.url, self.home, DatabaseConfig(), random=Random())

    def _toml(self, settings: Mapping[str, Mapping[str, Any]]) -> str:
        tables: dict[str, dict[str, Any]] = {
            "database": {"url": self.url},
            "uns": {"listen": f"tcp:{self.port}:interface=127.0.0.1"},
        }
        for name, values in settings.items():
            tables.setdefault(name, {}).update(values)
        lines = []
        for name, values in tables.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        return "\n".join(lines) + "\n"

    def add_providers(self, roots: Mapping[int, str]) -> None:
        """Register providers by their ids, all with the same password; before the start."""
        password = hash_password(PASSWORD, generated=True)
        pids = sorted(roots)

        def put(txn: Txn, some: list[int]) -> None:
            txn.insert("pidb", _COLUMNS, [(pid, password, "", "", 0, 1, 0, 0) for pid in some])
            txn.insert("proots", ("pid", "position", "root"), [(pid, 0, roots[pid]) for pid in some])
            txn.execute("UPDATE meta SET value = ? WHERE name = 'pid'", [str(some[-1])])

        for first in range(0, len(pids), _AT_ONCE):
            self.database.write(put, pids[first : first + _AT_ONCE])

    def start(self, wait: bool = True) -> None:
        """Start the roles; returns when providers are welcome and the robots have said hello.

        :param wait: False: returns at once.
        :raises SystemExit: they do not come up.
        """
        for name, role in self._names:
            self.start_role(role, name)
        deadline = time.monotonic() + START_SECONDS
        while wait and not self._ready():
            self.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"the roles are not ready after {START_SECONDS:.0f} s")
            time.sleep(0.05)

    def start_role(self, role: str, name: str = "") -> None:
        """Start one process of a role; returns at once.

        :param name: of the process; empty: as the role.
        """
        name = name or role
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [BIN / "twistd", "-n", f"lcc-{role}", "--config", self.config]
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def check(self) -> None:
        """See that every role runs.

        :raises SystemExit: one has ended.
        """
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise SystemExit(f"{name} ended:\n{self.log(name)[-3000:]}")

    def _ready(self) -> bool:
        roles = {role for _, role in self._names}
        if "uns" in roles:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) != 0:
                    return False
        return "bot" not in roles or bool(self.state().get("capacity"))

    def stop(self) -> None:
        """End all roles."""
        end(self.processes.values())
        self.processes.clear()
        self.database.close()

    def log(self, name: str) -> str:
        """What a role has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def state(self) -> dict[str, Any]:
        """What the queue manager said of itself last; empty: nothing yet."""
        text = self.database.interact(lambda txn: txn.value("SELECT state FROM qmstate WHERE id = 1"))
        return dict(json.loads(text)) if text else {}

    def queued(self) -> int:
        """URLs to be fetched."""
        return int(self.database.interact(lambda txn: txn.value("SELECT SUM(nurlproc) FROM pstats")) or 0)

    def changes(self) -> int:
        """Changes of the cache so far: pages that came, came anew, or went."""
        return int(self.database.interact(lambda txn: txn.value("SELECT value FROM counters WHERE name = 'change'")))

    def removal_lag_seconds(self) -> float:
        """For how long the oldest file that is to be removed could have been."""
        due = self.database.interact(lambda txn: txn.value("SELECT not_before FROM fsmdb ORDER BY id LIMIT 1"))
        return 0.0 if due is None else max(0.0, time.time() - float(due))

    def cpu_seconds(self) -> dict[str, float]:
        """So far, by process."""
        return {name: cpu_seconds_of(process.pid) for name, process in self.processes.items()}

    def peaks_mb(self) -> dict[str, float]:
        """The most that was resident, by process."""
        return {name: peak_memory_bytes(process.pid) / 1e6 for name, process in self.processes.items()}

    def resident_mb(self) -> dict[str, float]:
        """What is resident now, by process."""
        return {name: _resident_bytes(process.pid) / 1e6 for name, process in self.processes.items()}


def end(processes: Collection[subprocess.Popen[bytes]]) -> None:
    """In order, all at once; those that do not go are killed."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


EVER_NEW = f'location / {{ set $part "{"$request_id" * 64}"; return 200 "{"$part" * 5}"; }}'
"""For nginx: a page of 10 KiB under every name, another one at each request, so that each fetch leaves a new file."""
