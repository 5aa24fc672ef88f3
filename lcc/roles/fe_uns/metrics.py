"""Metrics of the front end's proxy, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.roles.fe_uns.engine import FeUns
from lcc.roles.metrics import DatabaseRoleMetrics

CONNECTIONS = gauge("lcc_fe_uns_connections_open", "Open connections of providers")
PASSING = gauge("lcc_fe_uns_connections_passing", "Of these, connected to their sub-LCC")
CONNECTED = counter("lcc_fe_uns_connections", "Connections of providers accepted")
REFUSED = counter("lcc_fe_uns_connections_refused", "Connections refused: too many, or paused")
LOGINS = counter("lcc_fe_uns_logins", "Logins of providers: passed (to a sub-LCC), rejected", "result")
HELD = counter("lcc_fe_uns_logins_held", "Logins that waited because their provider was being moved or created")
UNREACHABLE = counter("lcc_fe_uns_sublccs_unreachable", "Logins whose sub-LCC had no reachable UNS")
BYTES = counter("lcc_fe_uns_bytes", "Bytes passed on, in both directions")
SUBLCCS = gauge("lcc_fe_uns_sublccs", "Sub-LCCs in the front end's database")
NOTIFIERS = counter("lcc_fe_uns_notifier_connections", "Connections of notifiers accepted")
NOTIFIERS_REFUSED = counter("lcc_fe_uns_notifier_connections_refused", "Connections of notifiers refused: too many")
SETS = counter("lcc_fe_uns_notifier_sets", "Sets of notifiers by result: accepted, rejected", "result")
PAUSED = gauge("lcc_fe_uns_paused", "1: paused by an operator, accepts no connections")


class FeUnsMetrics(DatabaseRoleMetrics[FeUns]):
    """Metrics and conditions of the proxy.

    :param database: what is counted of the front end's database.
    :param probe: whether that answers: without it nobody can log in.
    """

    role = "fe_uns"

    def role_readings(self) -> Iterator[Reading]:
        """What its own metrics show now."""
        uns = self._engine
        counters = uns.counters
        yield CONNECTIONS(uns.connections)
        yield PASSING(len(uns.passing))
        yield CONNECTED(counters.connections)
        yield REFUSED(counters.connections_refused)
        yield LOGINS.by({"passed": counters.logins_passed, "rejected": counters.logins_rejected})
        yield HELD(counters.logins_held)
        yield UNREACHABLE(counters.sublccs_unreachable)
        yield BYTES(counters.bytes + sum(splice.bytes for splice in uns.passing))
        yield SUBLCCS(len(uns.sublccs or ()))
        yield NOTIFIERS(counters.notifier_connections)
        yield NOTIFIERS_REFUSED(counters.notifier_connections_refused)
        yield SETS.by({"accepted": counters.notifier_sets_accepted, "rejected": counters.notifier_sets_rejected})
        yield PAUSED(uns.paused_since is not None)

    def role_conditions(self) -> Iterator[Condition]:
        """What it needs beside its database."""
        yield not_paused("fe_uns", self._engine.paused_since is not None, "it lets nobody in")
