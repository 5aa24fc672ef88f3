"""What the queue manager tells of itself: right, and no more of it with very many providers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from lcc.errors import StoreUnavailable
from lcc.metrics.exposition import Exposition
from lcc.metrics.watched import Process, Watched
from lcc.model import FETCH_NOW
from lcc.model.metrics import Buckets, Condition
from lcc.model.survey import Survey
from lcc.roles.qm.metrics import MACHINES_SHOWN, STUCK_SECONDS, QmMetrics
from lcc.roles.qm.orders.machines import Machine
from lcc.roles.qm.surveyor import LAG_SECONDS, Surveyor
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.probe import LATE_SECONDS, PROBE_SECONDS, DatabaseProbe
from lcc.storage.views.survey import survey
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, World, pages

WORST = 20


def told(world: World) -> QmMetrics:
    """Its metrics, after a look at the whole queue."""

    def look() -> Deferred[Survey]:
        return world.database.interact(survey, NOW + int(world.clock.seconds()), WORST, LAG_SECONDS)

    surveyor = Surveyor(look, world.clock, 15.0)
    surveyor.start()
    surveyor.stop()
    return QmMetrics(world.engine, DatabaseCounts(), surveyor, asked(world.database.interact, world))


def asked(interact: Callable[..., Deferred[Any]], world: World) -> DatabaseProbe:
    """A probe that has begun to ask."""
    probe = DatabaseProbe(interact, world.clock)
    probe.start()
    _asking.append(probe)
    return probe


_asking: list[DatabaseProbe] = []


@pytest.fixture(autouse=True)
def probes_stopped(world: World) -> Iterator[None]:
    """Before the world ends."""
    yield
    while _asking:
        _asking.pop().stop()


def series(metrics: QmMetrics) -> dict[tuple[str, ...], float | Buckets]:
    """Metric and values of labels -> what it shows."""
    return {
        (reading.metric.name, *labels): value for reading in metrics.readings() for labels, value in reading.series
    }


def failing(metrics: QmMetrics) -> list[Condition]:
    return [each for each in metrics.conditions() if not each.holds]


def test_what_goes_on_is_told(world: World) -> None:
    pid = world.provider()
    uns, botm = FakeUns(world), FakeBotm(world, machine=3, capacity=4)
    uns.send_set(1, pid, pages(*range(1, 6)))
    world.advance(5)
    found = series(told(world))
    assert found["lcc_qm_orders_out",] == 1 == found["lcc_qm_machine_orders", "3", "b"]
    assert (found["lcc_qm_capacity",], found["lcc_qm_orders_free",]) == (4, 5)
    assert found["lcc_qm_waiting_urls", "0", "now"] == 5 == found["lcc_qm_provider_worst_urls", str(pid)]
    assert found["lcc_qm_providers", "active"] == 1 == found["lcc_qm_unses_connected",]
    assert found["lcc_qm_provider_worst_lag_seconds", str(pid)] == found["lcc_qm_oldest_seconds",] == 5
    lags = found["lcc_qm_provider_lag_seconds",]
    assert isinstance(lags, Buckets) and lags.upto[-1] == 1 and lags.total == 5
    fetch = next(iter(botm.out.values()))
    botm.done(fetch, 404, wire_bytes=70)
    botm.done(next(iter(botm.out.values())), 1302)
    world.advance(1)
    found = series(told(world))
    assert found["lcc_qm_results", "http-4xx"] == 1 == found["lcc_qm_results", "connect-refused"]
    assert found["lcc_qm_results", "stored"] == 0 == found["lcc_qm_content_bytes",]
    assert found["lcc_qm_wire_bytes",] == 70
    assert found["lcc_qm_providers_delayed", "site-error"] == 1
    assert found["lcc_qm_errors",] == 1


def test_a_scrape_does_not_grow_with_the_providers(world: World) -> None:
    def filled(upto: int) -> int:
        first = len(world.database.now(lambda txn: txn.query("SELECT pid FROM qpsdb"))) + 1
        rows = [(pid, FETCH_NOW, pid, 0, 1, 0, 1, 1, 1, NOW - pid) for pid in range(first, upto + 1)]
        columns = ["psetid", "slot", "pid", "pri", "connseq", "fullset", "firstseq", "lastseq", "nurls", "time"]
        for start in range(0, len(rows), 1000):
            world.database.now(lambda txn, start=start: txn.insert("qpsdb", columns, rows[start : start + 1000]))
        world.start()
        process = Process([Watched("qm", told(world), ())], world.clock)
        return Exposition(process.readings).text("")[1].count(b"\nlcc_qm")

    few, many = filled(100), filled(5_000)
    assert few == many
    found = series(told(world))
    assert found["lcc_qm_providers", "waiting"] == 5_000
    worst = [key[1] for key in found if key[0] == "lcc_qm_provider_worst_lag_seconds"]
    assert worst == [str(5_000 - number) for number in range(WORST)]
    for machine in range(1, MACHINES_SHOWN + 20):
        world.engine.dispatcher.machines[machine] = Machine(machine)
    found = series(told(world))
    assert len([key for key in found if key[0] == "lcc_qm_machine_orders"]) == MACHINES_SHOWN


def test_why_it_cannot_do_its_work(
    world: World, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    metrics = told(world)
    assert not failing(metrics)
    world.engine.pause()
    (condition,) = failing(metrics)
    assert condition.name == "not-paused" and not condition.alive and "resume()" in condition.remedy
    world.engine.resume()
    world.database.unavailable = True
    world.start()
    metrics = told(world)
    assert [each.name for each in failing(metrics)] == ["database", "claimed"]
    world.database.unavailable = False
    world.advance(10)
    assert not failing(metrics)

    def fail(_now: float) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setattr(world.engine, "_tick_once", fail)
    world.advance(STUCK_SECONDS - 5)
    assert not failing(metrics)
    world.advance(10)
    (condition,) = failing(metrics)
    assert condition.name == "ticking" and condition.alive
    assert logged_errors.flush("planted")


def test_a_database_that_hangs_is_told(world: World) -> None:
    """What it was asked fails only when the time for a statement is over, which is minutes."""
    answers = True

    def ask(function: Any) -> Deferred[Any]:
        return world.database.interact(function) if answers else Deferred()

    surveyor = Surveyor(lambda: Deferred(), world.clock, 15.0)
    metrics = QmMetrics(world.engine, DatabaseCounts(), surveyor, asked(ask, world))
    assert not failing(metrics)
    answers = False
    world.advance(PROBE_SECONDS + LATE_SECONDS + 2)
    (condition,) = failing(metrics)
    assert condition.name == "database" and "no answer for 12 s" in condition.fault and not condition.alive


def test_a_database_that_only_can_be_read_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: nothing is to be written but its own state, and that is not taken."""
    metrics = told(world)
    save, full = world.engine.store.save_state, StoreUnavailable("the disk is full")
    monkeypatch.setattr(world.engine.store, "save_state", lambda _: fail(full))
    world.advance(10)
    (condition,) = failing(metrics)
    assert condition.name == "database" and "the disk is full" in condition.fault and not condition.alive
    monkeypatch.setattr(world.engine.store, "save_state", save)
    world.advance(10)
    assert not failing(metrics)
