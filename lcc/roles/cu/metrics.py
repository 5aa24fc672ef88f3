"""Metrics of the content user API, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.model.metrics import Reading, counter, gauge
from lcc.roles.cu.console import CuEngine
from lcc.roles.metrics import DatabaseRoleMetrics

QUESTIONS = gauge("lcc_cu_questions", "Database queries in progress")
WAITING = gauge("lcc_cu_users_waiting", "Content users waiting for the next change")
PACKAGES = gauge("lcc_cu_packages_running", "Packages (tar, WARC) in progress")
SUBSCRIBERS = gauge("lcc_cu_hub_subscribers", "Subscribers of the hub")
FAILING = gauge("lcc_cu_hub_subscribers_failing", "Subscribers of the hub whose last delivery failed")
DELIVERED = counter("lcc_cu_hub_deliveries", "Deliveries to subscribers that were accepted")
FAILED = counter("lcc_cu_hub_deliveries_failed", "Deliveries to subscribers that failed")
DROPPED = counter("lcc_cu_hub_subscribers_dropped", "Subscribers that were dropped")


class CuMetrics(DatabaseRoleMetrics[CuEngine]):
    """Metrics and conditions of the content user API."""

    role = "cu"

    def role_readings(self) -> Iterator[Reading]:
        """What its own metrics show now."""
        engine = self._engine
        yield QUESTIONS(engine.questions.waiting)
        yield WAITING(engine.watcher.waiting)
        yield PACKAGES(engine.workshop.count)
        if engine.hub is not None:
            delivery = engine.hub.delivery
            yield SUBSCRIBERS(engine.hub.subscribers)
            yield FAILING(engine.hub.failing)
            yield DELIVERED(delivery.delivered)
            yield FAILED(delivery.failed)
            yield DROPPED(delivery.dropped)
