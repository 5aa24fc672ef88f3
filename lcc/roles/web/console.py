"""What the web monitor shows and takes at the console."""

from __future__ import annotations

import attrs

from lcc.domain.wording import Lines
from lcc.roles.web.engine import Monitor


class WebCommands:
    """The commands of a web monitor."""

    def __init__(self, engine: Monitor) -> None:
        self.engine = engine

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in attrs.asdict(engine.counters).items())
        return [
            ("verdict", engine.sentence),
            ("logged in", f"{engine.accounts.count}, live pages {len(engine.followers)}"),
            ("database", engine.database_trouble or "answers"),
            ("since start", ", ".join(counts)),
        ]
