"""What a registration server shows and takes at the console."""

from __future__ import annotations

import attrs

from lcc.domain.wording import Lines, duration
from lcc.roles.pausing import PausingCommands
from lcc.roles.rs.registrar import Registrar


class RsCommands(PausingCommands[Registrar]):
    """The commands of a registration server."""

    PAUSED = 'applicants are told "try again later" until resume()'
    RESUMED = "registrations are accepted again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        stands = "accepts registrations"
        if engine.paused_since is not None:
            stands = f"PAUSED for {duration(engine.now() - engine.paused_since)}, accepts no registrations"
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in attrs.asdict(engine.counters).items())
        return [
            ("registration", stands),
            ("approval", "by the operator" if engine.settings.approval else "not needed"),
            ("checking", f"{engine.prover.running} in progress"),
            ("since start", ", ".join(counts)),
        ]
