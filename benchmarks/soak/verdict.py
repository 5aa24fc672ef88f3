"""What a soak has shown: each promise, whether it was kept, the figures and their limit.

The first quarter of the time at half the rate warms up; each of the others is judged.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import chain

from latency import percentile

from soak.facts import Facts
from soak.finding import Finding
from soak.losses import TRY_LATER, all_accepted, all_counted, named, nothing_lost
from soak.plan import PROBE_SECONDS
from soak.quarters import quarters
from soak.samples import ACCEPTED, SKIPPED, Window

GROWTH = 1.05
GROWTH_MB = 4.0
LATENCY_GROWTH = 1.5
LATENCY_SLACK_MS = 5.0
BACKLOG_SECONDS = 2.0
FETCHED_PART = 0.98
DRAIN_GROWTH = 2.0
DRAIN_SLACK_SECONDS = 10.0
REMOVAL_LAG_SECONDS_MAX = 15.0
"""[qm] looks for what has become due every ten seconds."""
MEMORY_MAX_MB = {"uns": 150.0, "qm": 150.0, "botm": 80.0, "bot": 80.0}
"""Under overload.  The limits of what waits in memory to be absorbed are [qm] absorb_backlog_max and _bytes."""
NOT_SEEN = "no window is whole"
LATENCY_LIMIT = f"{LATENCY_GROWTH:g} times the least, and {LATENCY_SLACK_MS:g} ms"


def flat_memory(found: Sequence[Window]) -> Finding:
    """What is resident is the same in each of the quarters."""
    texts, kept = [], True
    for role in found[0].resident_mb if found else ():
        sizes = [statistics.median(window.resident_mb[role] for window in part) for part in quarters(found)]
        kept = kept and max(sizes) <= GROWTH * min(sizes) + GROWTH_MB
        texts.append(f"{role} {_listed(sizes, 1)} MB")
    limit = f"{GROWTH:g} times the least, and {GROWTH_MB:g} MB"
    return Finding("memory is flat at half the rate", kept and bool(texts), ", ".join(texts), limit)


def _listed(values: Sequence[float], digits: int) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)


def _latency(part: Sequence[Window]) -> tuple[float, float]:
    """p50 and p99 of all single pages of these windows; infinite where nothing came through."""
    figures = list(chain.from_iterable(window.latencies_ms for window in part))
    if not figures:
        return float("inf"), float("inf")
    return statistics.median(figures), percentile(figures, 0.99)


def _is_flat(values: Sequence[float], least: float) -> bool:
    return least < float("inf") and max(values) <= LATENCY_GROWTH * least + LATENCY_SLACK_MS


def flat_latency(found: Sequence[Window]) -> Finding:
    """The latency is the same in each of the quarters."""
    p50s, p99s = zip(*(_latency(part) for part in quarters(found)), strict=True)
    kept = _is_flat(p50s, min(p50s)) and _is_flat(p99s, min(p99s))
    figures = f"p50 {_listed(p50s, 1)} ms, p99 of all {_listed(p99s, 0)} ms"
    return Finding("latency is flat at half the rate", kept, figures, LATENCY_LIMIT)


def latency_back(found: Sequence[Window], later: Sequence[Window]) -> Finding:
    """After the backlog the latency is what it was in the three quarters."""
    (p50, p99), (p50_later, p99_later) = _latency(list(chain.from_iterable(quarters(found)))), _latency(later)
    kept = _is_flat([p50_later], p50) and _is_flat([p99_later], p99)
    figures = f"p50 {p50:.1f} to {p50_later:.1f} ms, p99 of all {p99:.0f} to {p99_later:.0f} ms"
    limit = LATENCY_LIMIT.replace("the least", "what it was")
    return Finding("after the backlog latency is what it was", kept, figures, limit)


def keeps_up(found: Sequence[Window], meant: float) -> Finding:
    """In each of the quarters all that is told is fetched, and no backlog builds up; as much is told as was meant.

    :param meant: pages a second, single ones included, as in the windows.
    """
    what = "half the rate is kept up with"
    if not found:
        return Finding(what, False, NOT_SEEN, "")
    told = [statistics.mean(window.told for window in part) for part in quarters(found)]
    rates = [statistics.mean(window.rate for window in part) for part in quarters(found)]
    queues = [statistics.median(window.queued for window in part) for part in quarters(found)]
    kept = all(
        each >= FETCHED_PART * meant and rate >= FETCHED_PART * each and queued <= BACKLOG_SECONDS * each
        for each, rate, queued in zip(told, rates, queues, strict=True)
    )
    figures = (
        f"{_listed(told, 0)} pages/s accepted, {_listed(rates, 0)} fetched, single pages included;"
        f" {_listed(queues, 0)} queued at most, median of the windows"
    )
    limit = (
        f"{100 * FETCHED_PART:g} % of {meant:.0f} accepted, {100 * FETCHED_PART:g} % of these fetched,"
        f" {BACKLOG_SECONDS:g} s of them queued"
    )
    return Finding(what, kept, figures, limit)


def removed_in_time(found: Sequence[Window]) -> Finding:
    """The files of content that was replaced do not pile up."""
    what, limit = "replaced files are removed at half the rate", f"{REMOVAL_LAG_SECONDS_MAX:g} s"
    if not found:
        return Finding(what, False, NOT_SEEN, limit)
    lags = [statistics.median(window.removal_lag_seconds for window in part) for part in quarters(found)]
    figures = f"the oldest is {_listed(lags, 1)} s overdue, median of the windows"
    return Finding(what, max(lags) <= REMOVAL_LAG_SECONDS_MAX, figures, limit)


def overload_told(reasons: Sequence[str], sets: Mapping[int, int]) -> Finding:
    """The queue manager closed its port, and what did not fit was answered with "try again later", nothing else."""
    strange = set(sets) - {ACCEPTED, TRY_LATER, SKIPPED}
    kept = bool(reasons) and sets.get(TRY_LATER, 0) > 0 and not strange
    noticed = reasons[0] if reasons else "not noticed"
    more = f" (the first of {len(reasons)})" if len(reasons) > 1 else ""
    limit = '"try again later" comes, no other rejection, all sets are answered'
    return Finding("overload is noticed and told", kept, f"{noticed}{more}; {named(sets, 'sets')}", limit)


def bounded_memory(peaks_mb: Mapping[str, float]) -> Finding:
    """No role grows beyond its limit."""
    kept = bool(peaks_mb) and all(size <= MEMORY_MAX_MB[role] for role, size in peaks_mb.items())
    figures = ", ".join(f"{role} {size:.0f} MB" for role, size in peaks_mb.items())
    limit = ", ".join(f"{role} {MEMORY_MAX_MB[role]:.0f} MB" for role in peaks_mb)
    return Finding("memory is bounded under overload", kept, figures, limit)


def drained(seconds: float, backlog: int, rate: float) -> Finding:
    """The backlog is gone in about the time that it takes to fetch it."""
    expected = backlog / rate
    limit = DRAIN_GROWTH * expected + DRAIN_SLACK_SECONDS
    figures = f"{backlog} URLs in {seconds:.0f} s, at full rate {expected:.0f} s"
    text = f"{limit:.0f} s: {DRAIN_GROWTH:g} times that, and {DRAIN_SLACK_SECONDS:g} s"
    return Finding("the backlog drains", seconds <= limit, figures, text)


def judge(facts: Facts) -> list[Finding]:
    """All promises."""
    during, times = facts.during(), facts.times
    return [
        all_accepted(facts.half_sets, facts.half_probes),
        all_counted(facts.counted),
        keeps_up(during, facts.rate / 2 + 1 / PROBE_SECONDS),
        flat_memory(during),
        flat_latency(during),
        removed_in_time(during),
        overload_told(facts.overload_seen, facts.overload_sets),
        bounded_memory(facts.peaks_mb),
        drained(times.drained - times.overload, facts.backlog, facts.rate),
        nothing_lost(facts.left),
        latency_back(during, facts.after()),
    ]
