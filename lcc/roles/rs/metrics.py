"""Metrics of a registration server, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.roles.metrics import DatabaseRoleMetrics
from lcc.roles.rs.registrar import Registrar

REGISTRATIONS = counter("lcc_rs_registrations", "Registrations: asked-for, proven, not-proven, expired", "step")
PROOFS = gauge("lcc_rs_proofs_running", "Fetches of secrets in progress")
PAUSED = gauge("lcc_rs_paused", "1: paused by an operator, accepts no registrations")


class RsMetrics(DatabaseRoleMetrics[Registrar]):
    """Metrics and conditions of a registration server."""

    role = "rs"

    def role_readings(self) -> Iterator[Reading]:
        """What its own metrics show now."""
        counters = self._engine.counters
        yield REGISTRATIONS.by(
            {
                "asked-for": counters.asked_for,
                "proven": counters.proven,
                "not-proven": counters.not_proven,
                "expired": counters.expired,
            }
        )
        yield PROOFS(self._engine.prover.running)
        yield PAUSED(self._engine.paused_since is not None)

    def role_conditions(self) -> Iterator[Condition]:
        """What it needs beside its database."""
        yield not_paused("rs", self._engine.paused_since is not None, "it accepts no registrations")
