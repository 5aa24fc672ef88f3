"""An LCC on two hosts: queue, UNS and database on one; content, robots, web server and provider on the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .network import ADDRESSES, Network
from .system import BIN, OriginServer, Site, System

HERE, THERE = ADDRESSES
ORDERS, INTAKE = 9100, 9000
_PLACES = {"uns": 0, "qm": 0, "botm": 1, "bot": 1}


class Apart(System):
    """Its roles, ``uns`` and ``qm``, ``botm`` and ``bot``, on the two hosts of a network.

    :param root: of the web server's files.
    :param answer_ms: how long it takes for a request.
    """

    def __init__(
        self, folder: Path, network: Network, root: Path, database_url: str | None = None, answer_ms: float = 3
    ) -> None:
        self.network = network
        origin = OriginServer(root, folder / "origin.log", answer_ms, network.on(1), THERE)
        self.far = folder / "far.toml"
        unencrypted = "[tls]\ninsecure = true\n"
        super().__init__(
            folder, origin, database_url, f'[qm]\nlisten_botm = "tcp:{ORDERS}:interface={HERE}"\n{unencrypted}'
        )
        text = self.config.read_text()
        local = f"tcp:{self.port}:interface=127.0.0.1"
        self.config.write_text(text.replace(local, f"tcp:{INTAKE}:interface={HERE}"))
        url = database_url or f"sqlite:{folder}/home/lcc.db"
        self.far.write_text(
            f'home = "far"\n[database]\nurl = "{url}"\n[botm]\nconnect = "tcp:{HERE}:{ORDERS}"\n'
            f"[bot]\nconcurrency = 8\n{unencrypted}"
        )
        self.admin_config = self.far

    def config_of(self, name: str) -> Path:
        return self.far if _PLACES[name] else self.config

    def start(self, *names: str) -> None:
        for name in names:
            command = [
                sys.executable,
                str(BIN / "twistd"),
                "-n",
                f"lcc-{name}",
                "--config",
                str(self.config_of(name)),
            ]
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [*self.network.on(_PLACES[name]), *command],
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    env=self.environment,
                )

    def as_provider(self, site: Site, command: str) -> subprocess.CompletedProcess[str]:
        command = command.replace(f"127.0.0.1:{self.port}", f"{HERE}:{INTAKE}")
        return subprocess.run(
            [*self.network.on(1), "bash", "-c", command],
            capture_output=True,
            text=True,
            env=dict(self.environment, LCC_PASSWORD=site.password),
            timeout=300,
            check=False,
        )

    def close(self) -> None:
        """End all of it but the network."""
        self.stop_all()
        self.origin.stop()
