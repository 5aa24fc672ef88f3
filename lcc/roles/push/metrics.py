"""Metrics of a push server, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.model.metrics import Condition, Reading, counter, gauge, not_paused
from lcc.model.push.websub import HubState
from lcc.roles.metrics import DatabaseRoleMetrics
from lcc.roles.push.engine import PushServer

CONNECTED = gauge("lcc_push_uns_connected", "1: connected to the UNS")
PUSHES = counter("lcc_push_pushes", "Pushes that were accepted")
URLS = counter("lcc_push_urls", "URLs of these")
REFUSED = counter("lcc_push_pushes_refused", "Pushes that were not accepted")
PROVEN = counter("lcc_push_keys_proven", "Key files that were found, for the first time or again")
NOT_PROVEN = counter("lcc_push_keys_failed", "Attempts to fetch a key file that failed")
UNPROVEN = gauge("lcc_push_urls_unproven", "URLs waiting for the proof of their key")
UNTOLD = gauge("lcc_push_urls_untold", "URLs that the UNS has not answered")
TOLD = counter("lcc_push_urls_told", "URLs that the UNS has accepted")
URLS_REFUSED = counter("lcc_push_urls_refused", "URLs that the UNS has refused")
SUBSCRIPTIONS = gauge("lcc_push_hub_subscriptions", "Subscriptions of feeds at hubs, by state", "state")
HEARD = counter("lcc_push_hub_pushes", "Signed pushes of hubs")
FORGED = counter("lcc_push_hub_pushes_forged", "Pushes to callbacks of hubs that were not signed, or wrongly")
POLLS = counter("lcc_push_hub_polls", "Polls of feeds that were ordered because of hubs")
DROPPED = counter("lcc_push_hubs_dropped", "Subscriptions dropped because the hub did not confirm or use them")
SETS_ACCEPTED = counter("lcc_push_sets_accepted", "Sets by HTTP that were accepted")
SETS_URLS = counter("lcc_push_sets_urls", "Valid URLs of these")
SETS_REFUSED = counter("lcc_push_sets_refused", "Sets by HTTP that were not accepted")
SETS_REPEATED = counter("lcc_push_sets_repeated", "Requests whose Idempotency-Key had an answer")
SETS_NOW = gauge("lcc_push_sets_now", "Sets by HTTP that are being submitted")
PAUSED = gauge("lcc_push_paused", "1: paused by an operator, accepts nothing")


class PushMetrics(DatabaseRoleMetrics[PushServer]):
    """Metrics and conditions of a push server."""

    role = "push"

    def role_readings(self) -> Iterator[Reading]:
        """What its own metrics show now."""
        engine, counts = self._engine, self._engine.counters
        yield CONNECTED(self._is_connected)
        yield PUSHES(counts.pushes)
        yield URLS(counts.urls)
        yield REFUSED(counts.refused)
        yield PROVEN(counts.proven)
        yield NOT_PROVEN(counts.not_proven)
        yield UNPROVEN(engine.unproven)
        yield UNTOLD(engine.untold)
        yield TOLD(counts.told)
        yield URLS_REFUSED(counts.urls_refused)
        if engine.subscriber is not None:
            subscriptions = engine.subscriber.counts
            yield SUBSCRIPTIONS.by({state.value: subscriptions.get(state.value, 0) for state in HubState})
            yield HEARD(counts.pushes_heard)
            yield FORGED(counts.pushes_forged)
            yield POLLS(counts.polls_ordered)
            yield DROPPED(counts.hubs_dropped)
        if engine.sets is not None:
            sets = engine.sets.counters
            yield SETS_ACCEPTED(sets.accepted)
            yield SETS_URLS(sets.urls)
            yield SETS_REFUSED(sets.refused)
            yield SETS_REPEATED(sets.repeated)
            yield SETS_NOW(engine.sets.gateway.sets_now)
        yield PAUSED(engine.paused_since is not None)

    def role_conditions(self) -> Iterator[Condition]:
        """What it needs beside its database."""
        engine = self._engine
        yield Condition(
            "notifying",
            "" if self._is_connected else "cannot reach the UNS's port of notifiers",
            "start the UNS (twistd lcc-uns), and see [push] connect and [uns] listen_notifiers",
        )
        yield not_paused("push", engine.paused_since is not None, "it accepts nothing")

    @property
    def _is_connected(self) -> bool:
        link = self._engine.draws.link
        return link is not None and link.connected
