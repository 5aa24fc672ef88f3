"""Collects old garbage once a minute.

Python looks for garbage among old objects only after some four million new ones
(:func:`lcc.services.common.collect_garbage_rarely`).  A role that is not busy never gets there: in an hour finished
sessions that happened to be alive during a collection would become megabytes.
"""

from __future__ import annotations

import gc
from typing import Any

from twisted.internet.task import LoopingCall

SECONDS = 60.0


def collect_old_garbage(reactor: Any) -> None:
    """Collect all garbage each minute, as long as the reactor runs.

    What the modules of a role consist of is left out (:func:`gc.freeze`), so that this takes milliseconds.
    """
    loop = LoopingCall(gc.collect)
    loop.clock = reactor
    reactor.callWhenRunning(loop.start, SECONDS, now=False)
