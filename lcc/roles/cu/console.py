"""What the content user API shows at the console."""

from __future__ import annotations

from typing import Protocol

import attrs

from lcc.domain.wording import Lines, number
from lcc.roles.cu.hub.engine import Hub
from lcc.roles.cu.packages.production import Workshop
from lcc.roles.cu.questions import Questions


class Waiting(Protocol):
    """Knows who waits for the next change."""

    @property
    def waiting(self) -> int: ...


@attrs.frozen
class CuEngine:
    """What the console and the metrics read.

    :ivar questions: to the database.
    :ivar watcher: of those who wait for the next change.
    :ivar workshop: where packages are made.
    :ivar hub: None: there is none.
    """

    questions: Questions
    watcher: Waiting
    workshop: Workshop
    hub: Hub | None = None


class CuCommands:
    """The commands of the content user API."""

    def __init__(self, engine: CuEngine) -> None:
        self.engine = engine

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        lines = [
            ("questions", f"{number(engine.questions.waiting, 'question')} to the database under way"),
            ("waiting", f"{number(engine.watcher.waiting, 'user')} waiting for the next change"),
            ("packages", f"{number(engine.workshop.count, 'package')} being made"),
        ]
        hub = engine.hub
        if hub is not None:
            deliveries = f"{hub.delivery.delivered:,} deliveries, {hub.delivery.failed:,} failed"
            lines.append(("hub", f"{number(hub.subscribers, 'subscriber')}, {hub.failing:,} failing; {deliveries}"))
            lines.append(("trouble of the hub", hub.trouble or "none"))
        return lines
