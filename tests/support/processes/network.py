"""Two hosts: network namespaces, and between them a network whose weather a test makes (:mod:`ether`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .namespace import Namespace, NoNetwork

ADDRESSES = ("10.77.0.1", "10.77.0.2")


class Network:
    """Two hosts, 0 and 1, with :data:`ADDRESSES`, that see each other, themselves, and nothing else.

    :raises NoNetwork: they cannot be made.
    """

    def __init__(self, seed: str = "1") -> None:
        self._ether: subprocess.Popen[str] | None = None
        self._hosts = []
        if not Path("/dev/net/tun").exists():
            raise NoNetwork("there is no /dev/net/tun")
        for _ in ADDRESSES:
            self._hosts.append(Namespace())
        places = [
            word for host, address in zip(self._hosts, ADDRESSES, strict=True) for word in (str(host.pid), address)
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
        return self._hosts[host].on

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
        for host in self._hosts:
            host.close()
        if self._ether is not None:
            self._ether.kill()
            self._ether.communicate()
