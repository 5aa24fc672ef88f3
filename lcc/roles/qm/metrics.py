"""Metrics of the queue manager, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Buckets, Condition, Kind, Metric, Reading, counter, gauge, histogram, not_paused
from lcc.model.providers import PRIORITIES
from lcc.model.survey import Queued, Survey
from lcc.roles.qm.engine import QmEngine
from lcc.roles.qm.schedule.delays import REASONS
from lcc.roles.qm.surveyor import LAG_SECONDS, Surveyor
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.probe import DatabaseProbe

MACHINES_SHOWN = 100
"""With series of their own."""
STUCK_SECONDS = 60.0
"""After so long without its second's work it is broken."""

RUN = gauge("lcc_qm_run", "Run number of the queue manager; 0: it does not own the database yet")
QUEUE = gauge("lcc_qm_queue_urls", "Length of the queue")
QUEUE_MAX = gauge("lcc_qm_queue_urls_max", "Queue length above which no sets are accepted ([qm] queue_rows_max)")
BUFFERED = gauge("lcc_qm_queue_buffered_urls", "Queued URLs in memory")
PROVIDERS = gauge("lcc_qm_providers", "Providers with work: active, waiting, delayed, withheld", "state")
SETS_ANSWERED = counter("lcc_qm_sets_answered", "Sets answered")
ABSORB_WAITING = gauge("lcc_qm_absorb_waiting_urls", "Elements in memory waiting to be absorbed")
ABSORB_BYTES = gauge("lcc_qm_absorb_waiting_bytes", "Memory used by these elements")
RESULTS = counter("lcc_qm_results", "Finished fetches by result (stored, unchanged, or the error's name)", "result")
RECORDED = counter("lcc_qm_results_recorded", "Results and removed rows recorded")
RESULTS_WAITING = gauge("lcc_qm_results_waiting", "Results and removed rows waiting to be recorded")
RESULTS_AGAIN = counter("lcc_qm_results_again", "Duplicate results, after a lost connection")
WIRE_BYTES = counter("lcc_qm_wire_bytes", "Bytes transferred by fetches, headers included")
CONTENT_BYTES = counter("lcc_qm_content_bytes", "Content stored by fetches")
ORDERS_OUT = gauge("lcc_qm_orders_out", "Outstanding orders")
ORDERS_FREE = gauge("lcc_qm_orders_free", "Free order slots at all BOT-Ms")
ORDERS_SENT = counter("lcc_qm_orders_sent", "Orders sent")
ORDERS_LOST = counter("lcc_qm_orders_lost", "Lost orders, sent again")
RUNS_RECALLED = counter("lcc_qm_runs_recalled", "Runs of orders recalled before all of them were begun")
ORDERS_BACK = counter("lcc_qm_orders_back", "Orders received back undone: hours-over, no-room, handed-back", "reason")
LEASES_PASSED = counter("lcc_qm_leases_passed", "Orders whose lease expired")
FILES_DELETED = counter("lcc_qm_files_deleted", "Content files removed by order")
UNSES = gauge("lcc_qm_unses_connected", "Connected UNSes")
MACHINES = gauge("lcc_qm_machines_connected", "Machines with a connected BOT-M")
CENTRALS = gauge("lcc_qm_centrals_connected", "Connected central BOT-Ms")
CAPACITY = gauge("lcc_qm_capacity", "Concurrent fetches of all robots")
MACHINE_CAPACITY = gauge(
    "lcc_qm_machine_capacity", f"Concurrent fetches by machine (the first {MACHINES_SHOWN})", "machine", "name"
)
MACHINE_ORDERS = gauge(
    "lcc_qm_machine_orders", f"Outstanding orders by machine (the first {MACHINES_SHOWN})", "machine", "name"
)
MACHINE_CONNECTED = gauge(
    "lcc_qm_machine_connected", f"1: connected, by machine (the first {MACHINES_SHOWN})", "machine", "name"
)
OVERLOADED = gauge("lcc_qm_overloaded", "1: overloaded, accepts no sets from UNSes")
PAUSED = gauge("lcc_qm_paused", "1: paused by an operator, sends no orders")
ASKED_AGAIN = counter("lcc_qm_database_asked_again", "Queries repeated because the database was unreachable")
MOVES = gauge("lcc_qm_moves", "Moves of providers to this LCC that are under way, by state", "state")
MOVE_STATE = gauge("lcc_qm_move_state_seconds", "Longest time that a move has been in this state; 0: none", "state")
MOVES_BEHIND = gauge("lcc_qm_moves_behind", "Moves that wait until the front end's database is repaired")
MOVES_ENDED = counter("lcc_qm_moves_ended", "Moves of providers: arrived, left, cancelled", "result")
MOVE_ROWS = counter("lcc_qm_move_rows", "Rows copied for moves to this LCC")
MOVE_BYTES = counter("lcc_qm_move_content_bytes", "Content of providers that have moved to this LCC")
MOVE_ROWS_BEHIND = gauge("lcc_qm_move_rows_behind", "Rows that had changed at the last check, of moves to this LCC")
MOVE_FILES_LEFT = gauge("lcc_qm_move_files_left", "Content files still to be copied, of moves to this LCC")
MOVE_FREEZES = histogram("lcc_qm_move_freeze_seconds", "How long providers were frozen while they moved to this LCC")
MOVE_FREEZES_GIVEN_UP = counter(
    "lcc_qm_move_freezes_given_up", "Freezes given up: the provider continued at its source"
)
MOVE_FROZEN = gauge("lcc_qm_move_frozen_seconds", "Longest time that a provider has been frozen; 0: none")
TICK_AGE = gauge("lcc_qm_tick_age_seconds", "Time since the last periodic tick")

SURVEY_TIME = gauge("lcc_qm_survey_timestamp_seconds", "When the metrics below were read from the database; 0: never")
WAITING = gauge(
    "lcc_qm_waiting_urls",
    "Queued URLs by priority and state: now, later (outside hours), retrying (after an error)",
    *("priority", "state"),
)
OLDEST = gauge("lcc_qm_oldest_seconds", "Age of the oldest set with URLs that may be fetched now; 0: none")
LAGS = Metric(
    Kind.GAUGE_HISTOGRAM,
    "lcc_qm_provider_lag_seconds",
    "Lag of providers with URLs that may be fetched now: how long the first has waited",
)
WORST_LAG = gauge(
    "lcc_qm_provider_worst_lag_seconds",
    "Lag of the providers that have waited longest ([metrics] providers_shown)",
    "provider",
)
WORST_URLS = gauge("lcc_qm_provider_worst_urls", "URLs that may be fetched now, of the same providers", "provider")
DELAYED = gauge("lcc_qm_providers_delayed", f"Delayed providers: {', '.join(REASONS)}", "reason")
REGISTERED = gauge("lcc_qm_providers_registered", "Registered providers")
CACHED = gauge("lcc_qm_cached_urls", "URLs in the cache")
CACHED_BYTES = gauge("lcc_qm_cached_bytes", "Content in the cache")
ERRORS = gauge("lcc_qm_errors", "Errors of fetches not yet reported to providers")
WANTED = gauge("lcc_qm_full_sets_wanted", "Providers asked for a full set")


@implementer(IRoleMetrics)
class QmMetrics:
    """Reads them out of the engine; those that need a look at the whole queue were read in the background.

    :param database: what is counted of its database.
    :param probe: whether that answers: what a hanging one was asked may wait for minutes.
    """

    def __init__(
        self, engine: QmEngine, database: DatabaseCounts, surveyor: Surveyor[Survey], probe: DatabaseProbe
    ) -> None:
        self._engine = engine
        self._database = database
        self._surveyor = surveyor
        self._probe = probe
        self.background: Sequence[Any] = (surveyor, probe)

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        yield from self._queue()
        yield from self._results()
        yield from self._machines()
        yield from self._moves()
        yield from self._survey()
        yield from self._database.readings("qm")

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        engine = self._engine
        # It may be full, and answer all the same.
        asked, trouble = self._probe.condition(), engine.retry.trouble or engine.state_saver.trouble
        yield attrs.evolve(asked, fault=f"waits for the database: {trouble}") if trouble else asked
        yield Condition(
            "claimed",
            "" if engine.started else "it does not own the database yet, or is loading the queue",
            "wait; if this persists, check its log",
        )
        yield not_paused("qm", engine.dispatcher.paused_since is not None, "it sends no orders")
        age = self._tick_age()
        yield Condition(
            "ticking",
            f"no periodic tick for {age:.0f} s" if age > STUCK_SECONDS else "",
            "restart it, everything is in the database; please report the traceback in its log",
            alive=True,
        )

    def _tick_age(self) -> float:
        engine = self._engine
        return max(0.0, engine.clock.seconds() - engine.ticked) if engine.started else 0.0

    def _queue(self) -> Iterator[Reading]:
        engine = self._engine
        scheduler, intake, absorbers = engine.scheduler, engine.intake, engine.absorbers
        yield RUN(engine.run)
        yield QUEUE(intake.queue_rows)
        yield QUEUE_MAX(engine.settings.queue_rows_max)
        yield BUFFERED(scheduler.buffered_count)
        yield PROVIDERS.by(
            {
                "active": scheduler.active_count,
                "waiting": scheduler.turns_awaited,
                "delayed": scheduler.delayed_with_work,
                "withheld": len(scheduler.withheld),
            }
        )
        yield SETS_ANSWERED(engine.intake.sets_answered)
        yield ABSORB_WAITING(sum(absorber.waiting_count for absorber in absorbers))
        yield ABSORB_BYTES(sum(absorber.waiting_bytes for absorber in absorbers))
        yield UNSES(len({absorber.name for absorber in absorbers}))
        yield OVERLOADED(bool(engine.intake.reason))
        yield PAUSED(engine.dispatcher.paused_since is not None)
        yield ASKED_AGAIN(engine.retry.retries)
        yield TICK_AGE(self._tick_age())

    def _results(self) -> Iterator[Reading]:
        engine = self._engine
        dispatcher = engine.dispatcher
        yield RESULTS.by(dispatcher.results.by_name)
        yield RECORDED(engine.recorder.results_recorded)
        yield RESULTS_WAITING(engine.recorder.waiting_count)
        yield RESULTS_AGAIN(dispatcher.results_again)
        yield WIRE_BYTES(dispatcher.results.wire_bytes)
        yield CONTENT_BYTES(dispatcher.results.content_bytes)
        yield ORDERS_OUT(dispatcher.orders_out)
        yield ORDERS_FREE(dispatcher.slots()[0])
        yield ORDERS_SENT(dispatcher.orders_sent)
        yield ORDERS_LOST(dispatcher.orders_lost)
        yield ORDERS_BACK.by(
            {
                "hours-over": dispatcher.orders_too_late,
                "no-room": dispatcher.orders_no_room,
                "handed-back": dispatcher.orders_handed_back,
            }
        )
        yield RUNS_RECALLED(dispatcher.runs_recalled)
        yield LEASES_PASSED(dispatcher.leases_passed)
        yield FILES_DELETED(engine.deleter.files_deleted)

    def _machines(self) -> Iterator[Reading]:
        engine = self._engine
        machines = sorted(engine.machines, key=lambda machine: machine.number)
        connected = [machine for machine in machines if machine.connection is not None]
        shown = machines[:MACHINES_SHOWN]
        yield MACHINES(len(connected))
        yield CENTRALS(len(engine.centrals))
        yield CAPACITY(sum(machine.capacity for machine in connected if machine.ready))
        yield MACHINE_CAPACITY.by(
            ((machine.number, machine.name), machine.capacity if machine.ready else 0) for machine in shown
        )
        yield MACHINE_ORDERS.by(((machine.number, machine.name), len(machine.orders)) for machine in shown)
        yield MACHINE_CONNECTED.by(
            ((machine.number, machine.name), machine.connection is not None) for machine in shown
        )

    def _moves(self) -> Iterator[Reading]:
        moves = self._engine.moves
        now = self._engine.clock.seconds()
        yield MOVES.by(moves.by_state())
        yield MOVE_STATE.by(moves.state_seconds(now))
        yield MOVES_BEHIND(moves.waiting_for_repair)
        yield MOVES_ENDED.by(moves.ended)
        yield MOVE_ROWS(moves.rows)
        yield MOVE_BYTES(moves.content_bytes)
        yield MOVE_ROWS_BEHIND(moves.rows_behind)
        yield MOVE_FILES_LEFT(moves.files_left)
        yield MOVE_FREEZES(moves.freezes.shown())
        yield MOVE_FREEZES_GIVEN_UP(moves.given_up)
        yield MOVE_FROZEN(moves.frozen_seconds(now))

    def _survey(self) -> Iterator[Reading]:
        survey = self._surveyor.last
        yield SURVEY_TIME(0 if survey is None else survey.time)
        if survey is None:
            nothing = (
                WAITING,
                OLDEST,
                WORST_LAG,
                WORST_URLS,
                DELAYED,
                REGISTERED,
                CACHED,
                CACHED_BYTES,
                ERRORS,
                WANTED,
            )
            for metric in nothing:
                yield metric.by(())
            yield LAGS(Buckets(LAG_SECONDS, (0,) * (len(LAG_SECONDS) + 1), 0))
            return
        by_priority = {priority: Queued(priority, 0, 0, 0) for priority in range(PRIORITIES)}
        by_priority |= {queued.priority: queued for queued in survey.queued}
        yield WAITING.by(
            ((queued.priority, state), count)
            for queued in by_priority.values()
            for state, count in (("now", queued.now), ("later", queued.later), ("retrying", queued.retrying))
        )
        yield OLDEST(survey.oldest_seconds)
        yield LAGS(survey.lags)
        yield WORST_LAG.by((lag.pid, lag.seconds) for lag in survey.worst)
        yield WORST_URLS.by((lag.pid, lag.urls) for lag in survey.worst)
        yield DELAYED.by(dict.fromkeys(REASONS, 0) | survey.delayed)
        yield REGISTERED(survey.providers)
        yield CACHED(survey.files)
        yield CACHED_BYTES(survey.space_bytes)
        yield ERRORS(survey.errors)
        yield WANTED(survey.full_sets_wanted)
