"""A console in the test's own process, and the clients that reach it over real sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from twisted.application.service import MultiService
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.utils import getProcessOutputAndValue
from zope.interface import implementer

from lcc.config import parse_config
from lcc.domain.wording import Lines
from lcc.interfaces import IRoleMetrics
from lcc.services.common import RoleService
from lcc.services.process.manhole import ManholeService

PASSWORD = "correct horse"


class Engine:
    """Something to look into."""

    answer = 42


class FakeCommands:
    """Commands that remember what they were told."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.paused = False

    def est(self) -> Lines:
        return [("state", "paused" if self.paused else "at work"), ("", "hostile \x1b[2J\u202e text")]

    def queue(self, limit: int) -> Lines:
        return [("set", str(number)) for number in range(limit)]

    def provider(self, pid: int) -> Lines:
        return [("provider", str(pid))]

    def pause(self) -> Lines:
        self.paused = True
        return [("paused", "until resume()")]

    def resume(self) -> Lines:
        self.paused = False
        return [("resumed", "")]


class OnlyEst:
    """Commands without pause."""

    engine = Engine()

    def est(self) -> Lines:
        return [("state", "well")]


@implementer(IRoleMetrics)
class NoMetrics:
    """Nothing to tell."""

    background = ()

    def readings(self) -> tuple[()]:
        return ()

    def conditions(self) -> tuple[()]:
        return ()


def make_key(path: Path) -> str:
    """A key pair for ssh; gives the public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text()


@attrs.define
class Running:
    """A console that listens.

    :ivar port: on loopback; 0: it listens on a UNIX socket.
    """

    home: Path
    service: ManholeService
    commands: FakeCommands
    port: int
    socket: Path

    def ssh(
        self, *command: str, options: tuple[str, ...] = (), key: str = "key", typed: bytes = b"", asks: str = ""
    ) -> Deferred[Any]:
        """Run OpenSSH's client; fires with output, errors, exit code.

        :param asks: the program that it asks for a password.
        """
        if self.port:
            place = ["-p", str(self.port), "-o", "HostKeyAlias=lcc", "127.0.0.1"]
        else:
            relay = f"{sys.executable} -m lcc.admin.processes.relay {self.socket}"
            place = ["-o", f"ProxyCommand={relay}", "lcc"]
        known = self.home / "manhole-host-key.known"
        arguments = [
            *options,
            "-F",
            "none",
            "-i",
            str(self.home / key),
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "User=alice",
        ]
        arguments += ["-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=yes"]
        environment = dict(os.environ, SSH_ASKPASS=asks, SSH_ASKPASS_REQUIRE="force")
        return getProcessOutputAndValue("ssh", [*arguments, *place, *command], env=environment, stdinBytes=typed)


@contextmanager
def running(home: Path, settings: str = "", *, port: int = 0, names: tuple[str, ...] = ("qm",)) -> Iterator[Running]:
    """A console whose operator has the key ``key``; its settings are the table ``[manhole]``."""
    home.mkdir(exist_ok=True)
    socket = home / "c.sock"
    endpoint = f"tcp:{port}:interface=127.0.0.1" if port else f"unix:{socket}"
    config = parse_config(f'home = "{home}"\n[manhole]\nlisten = "{endpoint}"\n{settings}', home)
    keys = home / "manhole-keys"
    if not keys.exists():
        keys.write_text("# operators\n\n" + make_key(home / "key"))
        keys.chmod(0o600)
    commands = FakeCommands()
    roles = tuple(RoleService(name, commands if name == "qm" else OnlyEst(), NoMetrics()) for name in names)
    process = MultiService()
    for role in roles:
        role.setServiceParent(process)
    service = ManholeService(config, reactor, config.endpoint(endpoint), roles, process)
    service.startService()
    try:
        yield Running(home, service, commands, port, socket)
    finally:
        service.stopService()
