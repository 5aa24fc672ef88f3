"""A second SIGTERM or SIGINT ends a role at once.

Twisted takes the second SIGTERM or SIGINT (Ctrl-C) for a mistake: it logs a traceback and goes on as before.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from twisted.logger import Logger

_log = Logger()


def end_at_second_signal(reactor: Any) -> None:
    """Once the reactor is stopping, let the next SIGTERM or SIGINT end the process at once.  To be called before it
    runs.

    That is what a crash would do: nothing that was promised is lost, but nobody gets a last answer.
    """

    def stopping() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end_at_once)

    reactor.addSystemEventTrigger("before", "shutdown", stopping)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    _log.warn("Received {name} while stopping: exiting at once", name=signal.Signals(number).name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
