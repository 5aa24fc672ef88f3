"""A second SIGTERM or SIGINT ends a role at once.

Twisted itself logs a traceback for a second SIGTERM or SIGINT (Ctrl-C) and goes on.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from twisted.logger import Logger

_log = Logger()


def end_at_second_signal(reactor: Any) -> None:
    """Once the reactor is stopping, let the next SIGTERM or SIGINT end the process at once.

    Call it before the reactor runs.

    It is like a crash: nothing promised is lost, but peers get no last answer.
    """

    def stopping() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end_at_once)

    reactor.addSystemEventTrigger("before", "shutdown", stopping)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    _log.warn("Received {name} while stopping: exiting at once", name=signal.Signals(number).name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
