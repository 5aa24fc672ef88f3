"""Start faults in two lines, what is wrong and what to do, however the role was started.

Later errors are logged by the reactor.
"""

from __future__ import annotations

import errno
import sys
from types import TracebackType
from typing import Any

from twisted.internet.error import BindError
from twisted.logger import Logger

from lcc.errors import Busy, ConfigError, StoreUnavailable

_log = Logger()

START_FAULTS = (Busy, ConfigError, StoreUnavailable, BindError, OSError, ValueError, OverflowError)
"""Exceptions that keep a role from starting.  ValueError, OverflowError: an invalid endpoint or port."""

_NEXT_PORT: dict[int | None, str] = {
    errno.EADDRINUSE: "find the process that uses it (ss -ltnp) and stop it, or set another port in lcc.toml",
    errno.EADDRNOTAVAIL: "this machine does not have that address: correct interface=… in lcc.toml",
    errno.EACCES: "use a port above 1023, or have systemd open it (doc/metrics.md, systemd)",
}
"""Why a port cannot be listened at -> what to do next."""
_NEXT_FILE = "check that it exists and is writable by this user, or set another home in lcc.toml"


def start_error_lines(error: BaseException) -> list[str]:
    """What is wrong and, if known, what to do next."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return [f"{error.filename}: {error.strerror}", f"next: {_NEXT_FILE}"]
    reason: Any = getattr(error, "socketError", None)
    step = _NEXT_PORT.get(getattr(reason, "errno", None))
    return [str(error).rstrip("."), *([f"next: {step}"] if step else [])]


def report_start_errors(role: str, to_terminal: bool) -> None:
    """From now on log an exception that keeps the role from starting in lines, without a traceback.  ``twistd`` lets
    it through, and the process exits with code 1.

    :param to_terminal: print them to standard error, too: the log goes elsewhere.
    """

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not isinstance(error, START_FAULTS):
            sys.__excepthook__(kind, error, traceback)
            return
        lines = start_error_lines(error)
        _log.critical("{role} cannot start: {lines}", role=role, lines="; ".join(lines))
        if to_terminal and sys.__stderr__ is not None:
            for line in lines:
                print(f"{role}: {line}", file=sys.__stderr__)

    sys.excepthook = hook
