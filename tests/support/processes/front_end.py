"""A front end and its sub-LCCs made of real processes."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from lcc.protocols.cp_uns_client import init
from tests.support.ports import free_port

from .system import OriginServer, System


class FrontEnd(System):
    """A front end; the same commands for its providers.

    :param settings: more lines of the configuration.
    :param rs: more lines of its table ``[rs]``.
    """

    def __init__(self, folder: Path, database_url: str, settings: str = "", rs: str = "") -> None:
        folder.mkdir()
        self.folder, self.url = folder, database_url
        self.port, self.rs_port = free_port(), free_port()
        self.config = self.admin_config = folder / "lcc.toml"
        self.config.write_text(
            f'home = "home"\n{settings}[fe]\ndatabase = "{database_url}"\n'
            f'[fe_uns]\nlisten = "tcp:{self.port}:interface=127.0.0.1"\n'
            f'listen_notifiers = "unix:{{home}}/notify-{{role}}.sock"\n'
            f'[rs]\nlisten = "tcp:{self.rs_port}:interface=127.0.0.1"\nallow_private = true\nany_port = true\n{rs}'
        )
        self.processes = {}
        self.environment = dict(os.environ, PYTHONFAULTHANDLER="1")
        self.admin("fe", "init")

    def add(self, name: str, lcc: System) -> None:
        """Make this LCC a sub-LCC."""
        url = f"sqlite:{lcc.folder}/home/lcc.db"
        self.admin("fe", "add", name, "--uns", f"tcp:127.0.0.1:{lcc.port}", "--database", url)

    def add_whole(self, name: str, lcc: System) -> None:
        """The same, with its ports of notifiers and of content."""
        self.add(name, lcc)
        home = f"unix:{lcc.folder}/home"
        self.admin(
            "fe", "set", name, "--notifiers", f"{home}/notify-{{role}}.sock", "--content", f"{home}/content.sock"
        )


def sub_lcc(
    folder: Path, name: str, origin: OriginServer | None, front_url: str, machine: int, tables: str = ""
) -> System:
    """An LCC on SQLite that is to become a sub-LCC."""
    home = folder / name
    home.mkdir()
    extra = f'[fe]\ndatabase = "{front_url}"\nname = "{name}"\nreport_interval = 1.0\n'
    extra += f"[botm]\nmachine = {machine}\n{tables}"
    return System(home, origin, None, extra, {"uns": 'proxies = ["127.0.0.1"]\n'})


class SubLcc(System):
    """An LCC on SQLite whose providers can move: its content is read over TCP, because another one's robots do.

    :param origin: as of :class:`System`.
    :param extra, settings: as of :class:`System`.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        origin: OriginServer | None,
        front_url: str,
        machine: int,
        extra: str = "",
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        home = folder / name
        home.mkdir()
        self.name, self.machine, self.content_port = name, machine, free_port()
        own = f'[fe]\ndatabase = "{front_url}"\nname = "{name}"\nreport_interval = 1.0\n'
        own += f'[botm]\nmachine = {machine}\ncontent_listen = "tcp:{self.content_port}:interface=127.0.0.1"\n'
        own += settings.get("botm", "") + extra
        uns = 'proxies = ["127.0.0.1"]\n' + settings.get("uns", "")
        super().__init__(home, origin, None, own, {**settings, "uns": uns})

    @property
    def database(self) -> str:
        """URL of its database."""
        return f"sqlite:{self.folder}/home/lcc.db"

    def join(self, front: FrontEnd) -> None:
        """Become a sub-LCC."""
        options = ("--uns", f"tcp:127.0.0.1:{self.port}", "--content", f"http://127.0.0.1:{self.content_port}")
        front.admin("fe", "add", self.name, "--database", self.database, *options)


class SubLccs(NamedTuple):
    """A front end over two sub-LCCs whose providers can move."""

    front: FrontEnd
    one: SubLcc
    two: SubLcc


def add_provider(lcc: System, root: str) -> tuple[int, str]:
    """Register a provider that has no web server; its id and password."""
    answer = json.loads(lcc.admin("provider", "add", "--root", root, "--allow-private", "--json"))
    return answer["pid"], answer["password"]


def login(port: int, pid: int, password: str, piece: int = 1 << 16) -> str:
    """What a provider hears of its login, said in pieces of so many bytes; empty: nobody is there."""
    said = init(pid, password).encode()
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(said), piece):
                connection.sendall(said[start : start + piece])
            heard = b""
            while b"init_accepted>" not in heard and b"init_rejected>" not in heard:
                data = connection.recv(65536)
                if not data:
                    return ""
                heard += data
            return heard.decode()
    except OSError:
        return ""
