"""What a registration server shows and takes at the console."""

from __future__ import annotations

import attrs

from lcc.domain.wording import Lines, duration, number
from lcc.roles.pausing import PausingCommands
from lcc.roles.rs.registrar import Registrar


class RsCommands(PausingCommands[Registrar]):
    """The commands of a registration server."""

    PAUSED = 'who registers is told "try again later" until resume()'
    RESUMED = "registrations are taken again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        stands = "takes registrations"
        if engine.paused_since is not None:
            stands = f"PAUSED for {duration(engine.now() - engine.paused_since)}, takes no registrations"
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in attrs.asdict(engine.counters).items())
        return [
            ("registration", stands),
            ("approval", "the operator's is needed" if engine.settings.approval else "none is needed"),
            ("looked at", f"{number(engine.prover.running, 'site')} at present"),
            ("since start", ", ".join(counts)),
        ]
