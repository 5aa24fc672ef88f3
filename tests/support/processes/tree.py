"""An LCC of several machines, each with a home folder of its own, behind a central BOT-M."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lcc.storage.disk.content_folder import ROBOTS
from lcc.storage.disk.content_paths import content_path
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS

from .links import Link
from .system import BIN, OriginServer, Site, System, files_of

FAR_SECONDS = 0.6
"""Between the queue manager and a central BOT-M that is far from it, each way: a BOT-M that has lost its connection
makes another one meanwhile, also on a machine that is busy."""
BRANCH_SECONDS = 0.8
"""Between two resets of a connection to that one, on average."""


class Tree(System):
    """One central BOT-M, ``machines`` BOT-Ms behind it, ``robots`` robots at each; all wires between them are TCP.

    :param settings: more lines of every process's configuration, see :class:`System`; ``central`` for those of the
        central BOT-M.
    :param slow_central: the queue manager is far from the central BOT-M, whose BOT-Ms lose their connections to it
        again and again, while :attr:`links` are there (:class:`tests.support.processes.links.Links`).
    :param reset_seconds: between two resets, on average.
    :ivar configs: name of a process -> its configuration.
    :ivar robot_names: of all robots.
    :ivar still: processes that stand still.
    """

    def __init__(
        self,
        folder: Path,
        origin: OriginServer | None,
        database_url: str | None,
        machines: int = 3,
        robots: int = 3,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        slow_central: bool = False,
        reset_seconds: float = BRANCH_SECONDS,
    ) -> None:
        self.settings = settings
        self.links: list[Link] = []
        self.still: set[str] = set()
        self.machines = range(1, machines + 1)
        self.robot_names = [f"bot{machine}{letter}" for machine in self.machines for letter in "abcdef"[:robots]]
        queue, central = free_port(), free_port()
        above, parent = queue, central
        if slow_central:
            above, parent = free_port(), free_port()
            self.links = [
                Link(above, queue, delay_seconds=FAR_SECONDS),
                Link(parent, central, reset_seconds=reset_seconds),
            ]
        super().__init__(
            folder,
            origin,
            database_url,
            f'[qm]\nlisten_botm = "tcp:{queue}:interface=127.0.0.1"\ndelete_grace = 1\n{settings.get("qm", "")}',
            settings,
        )
        self._database_url = database_url or f"sqlite:{folder}/home/lcc.db"
        self.configs = {"uns": self.config, "qm": self.config}
        self._configure(
            "central",
            f'[botm]\nname = "central"\nserves = "botms"\nlisten = "tcp:{central}:interface=127.0.0.1"\n'
            f'connect = "tcp:127.0.0.1:{above}"\n{settings.get("central", "")}',
        )
        for machine in self.machines:
            port, content = free_port(), free_port()
            self._configure(
                f"botm{machine}",
                f'[botm]\nname = "botm{machine}"\nmachine = {machine}\nlisten = "tcp:{port}:interface=127.0.0.1"\n'
                f'content_listen = "tcp:{content}:interface=127.0.0.1"\ncontent_url = "http://127.0.0.1:{content}"\n'
                f'parent = "tcp:127.0.0.1:{parent}"\n{settings.get("botm", "")}',
            )
            for name in self.robot_names:
                if name.startswith(f"bot{machine}"):
                    self._configure(
                        name,
                        f'[bot]\nname = "{name}"\nconnect = "tcp:127.0.0.1:{port}"\n'
                        f'user_agent = "{name}"\n{settings.get("bot", "concurrency = 2")}\n',
                        f"botm{machine}",
                    )

    def _configure(self, name: str, text: str, home: str = "") -> None:
        path = self.configs[name] = self.folder / f"{name}.toml"
        # lcc-admin works on every machine that reaches the database; SQLite's path is relative to the home folder.
        path.write_text(
            f'home = "{home or name}"\n{self.settings.get("", "")}[database]\nurl = "{self._database_url}"\n'
            f"{self.settings.get('database', '')}{text}"
        )

    @property
    def names(self) -> list[str]:
        """All processes."""
        return list(self.configs)

    def start(self, *names: str) -> None:
        for name in names:
            role = {"central": "botm"}.get(name, name.rstrip("abcdef").rstrip("0123456789"))
            self.start_role(name, f"lcc-{role}", self.configs[name])

    def stand_still(self, name: str) -> None:
        """``kill -STOP``: the process keeps all its connections and does nothing."""
        self.processes[name].send_signal(signal.SIGSTOP)
        self.still.add(name)

    def go_on(self, name: str) -> None:
        """``kill -CONT``."""
        self.processes[name].send_signal(signal.SIGCONT)
        self.still.discard(name)

    def content(self, machine: int) -> Path:
        """The content folder of a machine."""
        return self.folder / f"botm{machine}" / "content"

    def content_files(self) -> dict[tuple[int, str], Path]:
        """Every file that lies in a content folder, by machine and path, attempts included."""
        found: dict[tuple[int, str], Path] = {}
        for machine in self.machines:
            folder = self.content(machine)
            for path in folder.glob("*/**/*"):
                if path.is_file() and path.parent.name != ROBOTS:
                    found[machine, str(path.relative_to(folder))] = path
        return found

    def check_content(self, sites: list[Site]) -> set[tuple[int, str]]:
        """Each file of each site is cached exactly once, and its content is that of the origin.

        :returns: machine and path of the content files that belong to it.
        """
        files: set[tuple[int, str]] = set()
        for site in sites:
            expected = dict(files_of(site.folder))
            rows = [row for row in self.rows("urls", "--provider", str(site.pid)) if row["state"] == "cached"]
            assert sorted(row["curl"].removeprefix(site.url) for row in rows) == sorted(expected)
            for row in rows:
                where = row["fetched_machineid"], content_path(row["fetched_fileid"])
                assert where not in files, f"two URLs in one file: {where}"
                files.add(where)
                content = (self.content(where[0]) / where[1]).read_bytes()
                assert hashlib.md5(content).hexdigest() == expected[row["curl"].removeprefix(site.url)]
        return files

    def fsck(self, machine: int, *options: str) -> dict[str, int]:
        """Run ``lcc-admin fsck`` on a machine; gives how many faults of each kind it found."""
        result = subprocess.run(
            [BIN / "lcc-admin", "--config", str(self.configs[f"botm{machine}"]), "fsck", "--json", *options],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert lines, f"{result.stdout[-2000:]}{result.stderr}"
        return {kind: count for kind, count in lines[-1]["summary"]["found"].items() if count}

    def machine_states(self) -> list[dict[str, Any]]:
        """What the queue manager says of the machines."""
        qm = self.status().get("qm")
        return list(qm["machines"]) if qm else []

    def status(self) -> dict[str, Any]:
        """``lcc-admin status --json``."""
        (status,) = self.rows("status")
        return status
