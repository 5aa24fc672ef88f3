"""Two hosts: network namespaces, and between them a network whose weather a test makes (:mod:`ether`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ADDRESSES = ("10.77.0.1", "10.77.0.2")


class NoNetwork(Exception):
    """This machine does not let tests make networks, and why."""


class Network:
    """Two hosts, 0 and 1, with :data:`ADDRESSES`, that see each other, themselves, and nothing else.

    :raises NoNetwork: they cannot be made.
    """

    def __init__(self, seed: str = "1") -> None:
        if os.geteuid() != 0:
            raise NoNetwork("only root may make network namespaces")
        if not Path("/dev/net/tun").exists():
            raise NoNetwork("there is no /dev/net/tun")
        # Each is there as long as the process is.
        self._holders = [
            subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in ADDRESSES
        ]
        for holder in self._holders:
            assert holder.stdin is not None and holder.stdout is not None
            holder.stdin.write(b"\n")
            holder.stdin.flush()
            if not holder.stdout.read(1):
                self.close()
                raise NoNetwork("no network namespace can be made here")
        places = [
            word
            for holder, address in zip(self._holders, ADDRESSES, strict=True)
            for word in (str(holder.pid), address)
        ]
        script = Path(__file__).with_name("ether.py")
        self._ether = subprocess.Popen(
            [sys.executable, str(script), *places, seed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._ether.stdin is not None and self._ether.stdout is not None
        self._say, self._heard = self._ether.stdin, self._ether.stdout
        if self._heard.readline() != "up\n":
            self.close()
            raise NoNetwork("no TUN device can be made here")

    def on(self, host: int) -> list[str]:
        """What stands before a command that is to run on a host."""
        return ["nsenter", f"--net=/proc/{self._holders[host].pid}/ns/net", "--"]

    def weather(self, **weather: Any) -> dict[str, int]:
        """Change it, as :mod:`ether` has it; what it does not name stays.

        :returns: packets ``carried`` and ``lost`` so far.
        """
        self._say.write(json.dumps(weather) + "\n")
        self._say.flush()
        counts: dict[str, int] = json.loads(self._heard.readline())
        return counts

    def close(self) -> None:
        """End it all; processes that still run on the hosts keep them."""
        for process in (*self._holders, getattr(self, "_ether", None)):
            if process is not None:
                process.kill()
                process.communicate()
