"""Notifications to systemd (``sd_notify``).

A service of ``Type=notify`` is started once it sends ``READY``; with ``WatchdogSec`` it must send ``WATCHDOG``
regularly, or is restarted.
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
    :ivar watchdog_seconds: a healthy process notifies within this time; 0: no watchdog.
    """

    address: str
    watchdog_seconds: float = 0.0

    def tell(self, **words: str) -> bool:
        """Send a notification, such as ``READY="1"``.

        :returns: False: nobody listens, or its buffer is full, which is no reason to wait or to fail.
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
    """The supervisor that asked for notifications; None: there is none.

    Its variables are removed from the environment, so that child processes do not notify it.
    """
    path = environment.pop("NOTIFY_SOCKET", "")
    watched, limit = environment.pop("WATCHDOG_PID", ""), environment.pop("WATCHDOG_USEC", "")
    if not path.startswith(("/", "@")):
        return None
    mine = not watched or watched == str(pid)
    seconds = int(limit) / 1e6 if mine and limit.isascii() and limit.isdigit() else 0.0
    return Supervisor(f"\0{path[1:]}" if path.startswith("@") else path, seconds)


def own_supervisor() -> Supervisor | None:
    """The supervisor of this process."""
    return supervisor_of(os.environ, os.getpid())
