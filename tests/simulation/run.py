"""One run: a world, its troubles, its end."""

from __future__ import annotations

import gc

import attrs
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from lcc.roles.cu import watcher
from lcc.roles.uns import fast_set as uns_plain
from lcc.testing.simulated.timeline import EPOCH, Timeline

from .fault import Fault
from .faults import LOSING, heal, plan, schedule, with_restores
from .promises import Promises
from .system import System

DRAIN_SECONDS = 2400.0
"""At most: a world that has nothing left to do ends.  A robots.txt may be asked for again after some minutes, and
lead to another site, which has hours; and a site with 50 pages, an interval, little bandwidth and short hours, of
which all are fetched again, needs six days, which last four minutes."""
ASKED_SECONDS = 1.0
"""How often a content user API asks whether anything has changed: in earnest four times as often, which took a
fifteenth of a world's time."""
PLAIN = "p"
"""At the end of a seed: sites tell of pages in fast-path elements, and the UNS treats all sets as long ones."""
TASKS = "t"
"""Likewise: there are a scheduler, managers and tasks."""
CRAWLS = "s"
"""Likewise: there are spiders, sites that link to each other, and what they need of a scheduler and a manager."""
RESTORED = "r"
"""As :data:`CRAWLS`; and the queue's tables are put back from backups several times."""


MOVES = "m"
"""Likewise: there are several LCCs behind a front end, and providers move between them."""


def seed_number(seed: str) -> int:
    """Without what follows it."""
    return int(seed.rstrip(PLAIN + TASKS + CRAWLS + RESTORED + MOVES))


@attrs.define
class Result:
    """What came of a seed.

    :ivar digest: of every event, in order.
    :ivar violations: promises that were broken; empty: none.
    """

    seed: str
    digest: str = ""
    events: int = 0
    seconds: float = 0.0
    violations: list[str] = attrs.field(factory=list)
    counts: dict[str, int] = attrs.field(factory=dict)
    faults: list[Fault] = attrs.field(factory=list)


class Failures:
    """Tracebacks that were logged: nothing may be wrong in a way that nobody thought of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, event: LogEvent) -> None:
        failure = event.get("log_failure")
        if failure is not None and event["log_level"] >= LogLevel.error:
            self.texts.append(f"{formatEvent(event)}: {failure.getTraceback()}")


def run_seed(seed: str, faults: list[Fault] | None = None) -> Result:
    """Run one world to its end.

    :param seed: a number; :data:`PLAIN`, :data:`TASKS`, :data:`CRAWLS`, :data:`RESTORED` or :data:`MOVES` may follow.
    :param faults: None: those that the seed decides.
    """
    failures = Failures()
    globalLogPublisher.addObserver(failures)
    collecting = gc.isenabled()
    gc.disable()  # it would decide when what is lost is noticed
    timeline = Timeline(seed)
    plain = seed.endswith(PLAIN)
    long_set, asked_seconds = uns_plain.LONG_SET, watcher.PERIOD_SECONDS
    uns_plain.LONG_SET = 1 if plain else long_set
    watcher.PERIOD_SECONDS = ASKED_SECONDS
    system = System(timeline, plain, seed.endswith(TASKS), seed.endswith((CRAWLS, RESTORED)), seed.endswith(MOVES))
    try:
        return _run(seed, timeline, system, faults, failures)
    finally:
        globalLogPublisher.removeObserver(failures)
        system.close()
        uns_plain.LONG_SET, watcher.PERIOD_SECONDS = long_set, asked_seconds
        if collecting:
            gc.enable()


def _run(seed: str, timeline: Timeline, system: System, faults: list[Fault] | None, failures: Failures) -> Result:
    promises = Promises(system)
    if faults is None:
        faults = plan(system, timeline.random("faults"), system.trouble_seconds)
        if seed.endswith(RESTORED):
            faults = with_restores(system, faults, system.trouble_seconds)
    planned = faults
    promises.sets_may_be_lost = any(fault.kind in LOSING for fault in planned)
    system.start_all()
    if system.tasks is not None:
        system.tasks.begin()
    if system.crawl is not None:
        system.crawl.is_quiet &= not planned
        system.crawl.begin()
    if system.front is not None:
        system.front.is_quiet = not planned
    if system.operator is not None:
        system.operator.begin()
    schedule(system, promises, planned)
    timeline.run_until(EPOCH + system.trouble_seconds)
    heal(system, planned)
    system.copy.may_rest = False
    if any(fault.kind == "clock-step" for fault in planned):
        promises.clock_was_set()
    for site in system.all_sites:
        site.come_to_rest()
    if system.operator is not None:
        system.operator.working = False
    end = timeline.now + DRAIN_SECONDS
    while not promises.is_drained() and timeline.now < end and not promises.violations:
        timeline.run_until(timeline.now + 2.0)
    if not promises.violations:  # else nobody has waited for the end
        for text in promises.undone():
            promises.broken("P2", f"after {DRAIN_SECONDS:g} seconds without troubles: {text}")
        promises.check_the_end()
    for text in failures.texts[:3]:
        promises.broken("no surprises", text[-1500:])
    counts = {
        "faults": len(planned),
        "sets accepted": sum(site.accepted for site in system.sites),
        "sets rejected": sum(site.rejected for site in system.sites),
        "sets unanswered": sum(site.unanswered for site in system.sites),
        "notifier's sets accepted": sum(site.accepted for site in system.watched),
        "requests": sum(site.requests for site in system.sites),
        "commits": promises.commits,
        **promises.task_counts,
        **promises.crawl_counts,
        **promises.move_counts,
        **promises.bandwidth_counts,
        **promises.registration_counts,
        **promises.push_counts,
        "changes told": system.copy.rows_told,
        "changes told again": system.copy.told_again,
        **{f"fault {fault.kind}": 0 for fault in planned},
    }
    for fault in planned:
        counts[f"fault {fault.kind}"] += 1
    seconds = timeline.now - EPOCH
    return Result(seed, timeline.digest, timeline.events, seconds, promises.violations, counts, planned)
