"""Collects old garbage once a minute.

Python looks for garbage among old objects only after some four million new ones
(:func:`lcc.services.common.collect_garbage_rarely`).  A role that is not busy never gets there: in an hour finished
sessions that happened to be alive during a collection would become megabytes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

SECONDS = 60.0
SHARE_MAX = 0.001
"""Of the time, for these collections.  One takes a millisecond for some 10,000 objects, and nothing else is done
meanwhile."""


def collect_old_garbage(reactor: Any, collect: Callable[[], object] = gc.collect) -> None:
    """Collect all garbage each minute, less often where that takes long, as long as the reactor runs.

    What the modules of a role consist of is left out (:func:`gc.freeze`).
    """

    def again() -> None:
        began = reactor.seconds()
        collect()
        took = reactor.seconds() - began
        reactor.callLater(max(SECONDS, took / SHARE_MAX), again)

    reactor.callWhenRunning(lambda: reactor.callLater(SECONDS, again))
