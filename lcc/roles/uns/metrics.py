"""Metrics of a UNS, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.roles.metrics import DatabaseRoleMetrics
from lcc.roles.uns.engine import Uns

CONNECTIONS = gauge("lcc_uns_connections_open", "Open connections of providers")
CONNECTED = counter("lcc_uns_connections", "Connections of providers accepted")
REFUSED = counter("lcc_uns_connections_refused", "Connections refused: too many, or no sets are accepted")
LOGINS = counter("lcc_uns_logins", "Logins of providers: accepted, rejected", "result")
SETS = counter("lcc_uns_sets", "Sets: accepted, rejected, cut-off (the connection was lost)", "result")
URLS = counter("lcc_uns_urls", "Elements of sets: received, refused (with an error)", "result")
SET_BYTES = counter("lcc_uns_set_bytes", "Elements of complete sets, as they are spooled")
SETS_PASSED_ON = counter("lcc_uns_sets_passed_on", "Sets answered by the queue manager")
SETS_SECURED = counter("lcc_uns_sets_secured", "Sets answered from the spool because the QM was slow or unreachable")
SETS_REFUSED_LATE = counter(
    "lcc_uns_sets_refused_late", "Sets refused by the QM after they were accepted from the spool"
)
LINKS = counter("lcc_uns_qm_links", "Successful connections to a queue manager")
QM_CONNECTED = gauge("lcc_uns_qm_connected", "1: the queue manager is connected")
SPOOL_BYTES = gauge("lcc_uns_spool_bytes", "Size of the spool")
SPOOL_MAX_BYTES = gauge("lcc_uns_spool_max_bytes", "Size limit of the spool ([uns] spool_max_bytes)")
SPOOL_SETS = gauge("lcc_uns_spool_sets", "Complete sets not yet answered by a queue manager")
SPOOL_OLDEST = gauge("lcc_uns_spool_oldest_seconds", "Age of the oldest of these; 0: none")
SPOOL_DAMAGED = counter("lcc_uns_spool_damaged_files", "Damaged spool files, set aside")
NOTIFIERS = gauge("lcc_uns_notifiers_open", "Open connections of notifiers")
NOTIFIERS_CONNECTED = counter("lcc_uns_notifier_connections", "Connections of notifiers accepted")
NOTIFIERS_REFUSED = counter("lcc_uns_notifier_connections_refused", "Connections of notifiers refused: too many")
NOTIFIER_SETS = counter("lcc_uns_notifier_sets", "Sets of notifiers: accepted, rejected", "result")
NOTIFIER_URLS = counter("lcc_uns_notifier_urls", "Elements of notifiers' sets: received, refused", "result")
NOTIFIER_QUESTIONS = counter("lcc_uns_notifier_questions", "Answers to notifiers: watches, draws", "kind")
NOTIFIERS_HELD = gauge("lcc_uns_notifiers_held", "Notifiers that are told to hold their sets")
PAUSED = gauge("lcc_uns_paused", "1: paused by an operator, accepts no sets")


class UnsMetrics(DatabaseRoleMetrics[Uns]):
    """Metrics and conditions of a UNS."""

    role = "uns"

    def role_readings(self) -> Iterator[Reading]:
        """What its own metrics show now."""
        uns = self._engine
        counters, spool, forwarder = uns.counters, uns.spool, uns.forwarder
        yield CONNECTIONS(counters.connections_now)
        yield CONNECTED(counters.connections)
        yield REFUSED(counters.connections_refused)
        yield LOGINS.by({"accepted": counters.logins_accepted, "rejected": counters.logins_rejected})
        yield SETS.by(
            {
                "accepted": counters.sets_accepted,
                "rejected": counters.sets_rejected,
                "cut-off": counters.sets_cut_off,
            }
        )
        yield URLS.by({"received": counters.urls_received, "refused": counters.urls_refused})
        yield SET_BYTES(counters.set_bytes)
        yield SETS_PASSED_ON(counters.sets_passed_on)
        yield SETS_SECURED(counters.sets_secured)
        yield SETS_REFUSED_LATE(counters.sets_refused_late)
        yield LINKS(counters.links)
        yield QM_CONNECTED(forwarder.connected)
        yield SPOOL_BYTES(spool.size_bytes)
        yield SPOOL_MAX_BYTES(spool.size_max_bytes)
        yield SPOOL_SETS(forwarder.waiting_count)
        oldest = forwarder.oldest
        yield SPOOL_OLDEST(0 if oldest is None else max(0, uns.now() - oldest.entry.header.time))
        yield SPOOL_DAMAGED(spool.damaged_count)
        yield NOTIFIERS(len(uns.notifiers.open))
        yield NOTIFIERS_CONNECTED(counters.notifier_connections)
        yield NOTIFIERS_REFUSED(counters.notifier_connections_refused)
        yield NOTIFIER_SETS.by(
            {"accepted": counters.notifier_sets_accepted, "rejected": counters.notifier_sets_rejected}
        )
        yield NOTIFIER_URLS.by(
            {"received": counters.notifier_urls_received, "refused": counters.notifier_urls_refused}
        )
        yield NOTIFIER_QUESTIONS.by({"watches": counters.notifier_watches, "draws": counters.notifier_draws})
        yield NOTIFIERS_HELD(sum(each.is_held for each in uns.notifiers.open))
        yield PAUSED(uns.paused_since is not None)

    def role_conditions(self) -> Iterator[Condition]:
        """What it needs beside its database.  An unreachable queue manager is none: sets are answered from
        the spool."""
        uns = self._engine
        yield Condition(
            "spool",
            uns.spool.no_room() if uns.started else "the spool is not open yet",
            "free some space as indicated; if sets stay in it, check why the queue manager does not accept them",
        )
        yield not_paused("uns", uns.paused_since is not None, "it accepts no sets")
