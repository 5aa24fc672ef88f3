"""Metrics of the web monitor, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.insight.verdict import Level
from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge
from lcc.roles.web.engine import Monitor

LOOKS = counter("lcc_web_looks", "Polls of the LCC: done, failed", "result")
SESSIONS = gauge("lcc_web_sessions", "Users logged in")
FOLLOWERS = gauge("lcc_web_pages_following", "Open pages with live updates")
TROUBLES = gauge("lcc_web_troubles", "Problems by level: note, warning, bad", "level")


@implementer(IRoleMetrics)
class WebMetrics:
    """Metrics and conditions of a web monitor."""

    def __init__(self, engine: Monitor) -> None:
        self._engine = engine
        self.background: Sequence[Any] = ()

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        engine = self._engine
        yield LOOKS.by({"done": engine.counters.looks, "failed": engine.counters.looks_failed})
        yield SESSIONS(engine.accounts.count)
        yield FOLLOWERS(len(engine.followers))
        levels = [trouble.level for trouble in engine.troubles]
        yield TROUBLES.by({level.name.lower(): levels.count(level) for level in Level})
        yield from engine.database.counts.readings("web")

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        trouble = self._engine.database_trouble
        yield Condition(
            "database",
            f"cannot read the database: {trouble}" if trouble else "",
            "check the database server and [database] url (lcc-admin check)",
        )
