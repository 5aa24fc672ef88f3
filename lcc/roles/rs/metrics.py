"""Metrics of a registration server, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.roles.rs.registrar import Registrar
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.probe import DatabaseProbe

REGISTRATIONS = counter("lcc_rs_registrations", "Registrations: asked-for, proven, not-proven, expired", "step")
PROOFS = gauge("lcc_rs_proofs_running", "Fetches of secrets in progress")
PAUSED = gauge("lcc_rs_paused", "1: paused by an operator, accepts no registrations")


@implementer(IRoleMetrics)
class RsMetrics:
    """Metrics and conditions of a registration server.

    :param database: what is counted of its database.
    """

    def __init__(self, engine: Registrar, database: DatabaseCounts, probe: DatabaseProbe) -> None:
        self._engine = engine
        self._database = database
        self._probe = probe
        self.background: Sequence[Any] = (probe,)

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
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
        yield from self._database.readings("rs")

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        yield self._probe.condition()
        yield not_paused("rs", self._engine.paused_since is not None, "it accepts no registrations")
