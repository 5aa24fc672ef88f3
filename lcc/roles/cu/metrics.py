"""Metrics of the content user API, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge
from lcc.roles.cu.console import CuEngine
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.probe import DatabaseProbe

QUESTIONS = gauge("lcc_cu_questions", "Database queries in progress")
WAITING = gauge("lcc_cu_users_waiting", "Content users waiting for the next change")
PACKAGES = gauge("lcc_cu_packages_running", "Packages (tar, WARC) in progress")
SUBSCRIBERS = gauge("lcc_cu_hub_subscribers", "Subscribers of the hub")
FAILING = gauge("lcc_cu_hub_subscribers_failing", "Subscribers of the hub whose last delivery failed")
DELIVERED = counter("lcc_cu_hub_deliveries", "Deliveries to subscribers that were accepted")
FAILED = counter("lcc_cu_hub_deliveries_failed", "Deliveries to subscribers that were not")
DROPPED = counter("lcc_cu_hub_subscribers_dropped", "Subscribers that were dropped")


@implementer(IRoleMetrics)
class CuMetrics:
    """Metrics and conditions of the content user API.

    :param database: what is counted of its database.
    """

    def __init__(self, engine: CuEngine, database: DatabaseCounts, probe: DatabaseProbe) -> None:
        self._engine = engine
        self._database = database
        self._probe = probe
        self.background: Sequence[Any] = (probe,)

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
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
        yield from self._database.readings("cu")

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        yield self._probe.condition()
