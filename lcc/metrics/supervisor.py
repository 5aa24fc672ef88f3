"""What systemd is told of a process (``sd_notify``), and what it wants to hear.

A service of ``Type=notify`` counts as started when it says so; with ``WatchdogSec`` it has to say again and again
that it is well, or is restarted.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

import attrs
from twisted.logger import Logger

_log = Logger()

STATUS_CHARS = 500


@attrs.frozen
class Supervisor:
    """
    :ivar address: of its datagram socket; one that begins with a NUL is abstract.
    :ivar watchdog_seconds: it has to hear from a process that is well within this time; 0: it does not listen.
    """

    address: str
    watchdog_seconds: float = 0.0

    def tell(self, **words: str) -> bool:
        """Tell it something, such as ``READY="1"``.

        :returns: it was taken; False: nobody listens, or whoever does is behind.  That is no reason to wait, or to
            fail.
        """
        text = "\n".join(f"{name}={_line(value)}" for name, value in words.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as way:
                way.sendto(text.encode("utf-8", "replace"), self.address)
        except OSError as error:
            _log.debug("Cannot notify the supervisor at {address!r}: {error}", address=self.address, error=str(error))
            return False
        return True


def _line(text: str) -> str:
    return " ".join(text.split())[:STATUS_CHARS]


def supervisor_of(environment: MutableMapping[str, str], pid: int) -> Supervisor | None:
    """Who has started this process, and wants to hear of it; None: nobody.

    What says so is taken out of the environment: a process that this one starts is nobody's to watch.
    """
    path = environment.pop("NOTIFY_SOCKET", "")
    watched, limit = environment.pop("WATCHDOG_PID", ""), environment.pop("WATCHDOG_USEC", "")
    if not path.startswith(("/", "@")):
        return None
    mine = not watched or watched == str(pid)
    seconds = int(limit) / 1e6 if mine and limit.isascii() and limit.isdigit() else 0.0
    return Supervisor(f"\0{path[1:]}" if path.startswith("@") else path, seconds)


def own_supervisor() -> Supervisor | None:
    """That of this process."""
    return supervisor_of(os.environ, os.getpid())
