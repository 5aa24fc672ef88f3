"""What a soak has shown: each promise, whether it was kept, and the figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from soak.samples import ACCEPTED, Sample, Sent, Window

TRY_LATER = 1012
SKIPPED = -2
GROWTH = 1.05
GROWTH_MB = 4.0
LATENCY_GROWTH = 2.0
P50_SLACK_MS = 10.0
P99_SLACK_MS = 100.0
BACKLOG_SECONDS = 5.0
FETCHED_PART = 0.95
DRAIN_SLACK = 3.0
MEMORY_MAX_MB = {"uns": 150.0, "qm": 150.0, "botm": 80.0, "bot": 80.0}
"""Under overload.  The limits of what waits in memory to be absorbed are [qm] absorb_backlog_max and _bytes."""


@attrs.frozen
class Finding:
    """One promise."""

    what: str
    kept: bool
    figures: str

    def line(self) -> str:
        """For people."""
        return f"{'ok  ' if self.kept else 'FAIL'} {self.what}: {self.figures}"


def _parts(found: Sequence[Window]) -> tuple[Sequence[Window], Sequence[Window]]:
    """The second quarter (the first warms up) and the last quarter."""
    quarter = max(1, len(found) // 4)
    return found[quarter : 2 * quarter] or found[:1], found[-quarter:]


def flat_memory(found: Sequence[Window]) -> Finding:
    """What is resident in the last quarter is what was in the second."""
    early, late = _parts(found)
    texts, kept = [], True
    for role in found[0].resident_mb:
        before, after = (statistics.median(window.resident_mb[role] for window in part) for part in (early, late))
        kept = kept and after <= GROWTH * before + GROWTH_MB
        texts.append(f"{role} {before:.1f} to {after:.1f} MB")
    return Finding("memory is flat at half the rate", kept, ", ".join(texts))


def _latency(part: Sequence[Window]) -> tuple[float, float]:
    """Medians of the windows' p50 and p99; infinite where nothing came through."""
    figures = [(window.p50_ms, window.p99_ms) for window in part]
    known = [(p50, p99) for p50, p99 in figures if p50 is not None and p99 is not None]
    if not known:
        return float("inf"), float("inf")
    return statistics.median(p50 for p50, _ in known), statistics.median(p99 for _, p99 in known)


def flat_latency(found: Sequence[Window], later: Sequence[Window] | None = None) -> Finding:
    """The latency of the last quarter (or of these later windows) is that of the second quarter, about."""
    early, late = _parts(found)
    what = "latency is flat at half the rate"
    if later is not None:
        late, what = later, "after the backlog latency is what it was"
    (p50, p99), (p50_late, p99_late) = _latency(early), _latency(late)
    kept = p50_late <= LATENCY_GROWTH * p50 + P50_SLACK_MS and p99_late <= LATENCY_GROWTH * p99 + P99_SLACK_MS
    return Finding(what, kept, f"p50 {p50:.1f} to {p50_late:.1f} ms, p99 {p99:.0f} to {p99_late:.0f} ms")


def keeps_up(found: Sequence[Window], told: float) -> Finding:
    """What is told is fetched; no backlog builds up."""
    _, late = _parts(found)
    rate = statistics.mean(window.rate for window in late)
    queued = statistics.median(window.queued for window in late)
    kept = queued <= BACKLOG_SECONDS * told and rate >= FETCHED_PART * told
    figures = f"{told:.0f} pages/s told, {rate:.0f} fetched, {queued:.0f} queued at most in a window at the end"
    return Finding("half the rate is kept up with", kept, figures)


def overload_seen(samples: Iterable[Sample], sent: Iterable[Sent]) -> Finding:
    """The queue manager closed its port, and what did not fit was answered with "try again later", nothing else."""
    reasons = {sample.overload for sample in samples if sample.overload}
    codes = Counter(each.code for each in sent)
    strange = {code for code in codes if code not in (ACCEPTED, TRY_LATER, SKIPPED)}
    kept = bool(reasons) and codes[TRY_LATER] > 0 and not strange
    named = {ACCEPTED: "accepted", TRY_LATER: '"try again later"', SKIPPED: "not sent, others waited"}
    figures = ", ".join(f"{count} sets {named.get(code, code)}" for code, count in sorted(codes.items()))
    noticed = min(reasons, default="not noticed") + (f" (the first of {len(reasons)})" if len(reasons) > 1 else "")
    return Finding("overload is noticed and told", kept, f"{noticed}; {figures}")


def bounded_memory(samples: Iterable[Sample]) -> Finding:
    """No role grows beyond its limit."""
    peaks: dict[str, float] = {}
    for sample in samples:
        for role, size in sample.resident_mb.items():
            peaks[role] = max(size, peaks.get(role, 0.0))
    kept = all(size <= MEMORY_MAX_MB[role] for role, size in peaks.items())
    figures = ", ".join(f"{role} {size:.0f} MB of {MEMORY_MAX_MB[role]:.0f}" for role, size in peaks.items())
    return Finding("memory is bounded under overload", kept, figures)


def drained(seconds: float, backlog: int, rate: float) -> Finding:
    """The backlog is gone in about the time that it takes to fetch it."""
    expected = backlog / rate
    kept = seconds <= DRAIN_SLACK * expected + 30
    return Finding("the backlog drains", kept, f"{backlog} URLs in {seconds:.0f} s, at full rate {expected:.0f} s")


def accepted_last(sent: Iterable[Sent], window: int) -> dict[tuple[int, int], float]:
    """(provider, page) -> when it was told in the last set that was accepted."""
    last: dict[tuple[int, int], float] = {}
    for each in sent:
        if each.code == ACCEPTED:
            for number in range(each.first, each.first + each.count):
                key = each.pid, number % window
                last[key] = max(each.time, last.get(key, 0.0))
    return last


def nothing_lost(
    told: Mapping[tuple[int, int], float], fetched: Mapping[tuple[int, int], int], queued: int, errors: int
) -> Finding:
    """Each page of each accepted set was fetched after it was told.

    :param fetched: (provider, page) -> whole seconds since 1970.
    """
    lost = [key for key, time in told.items() if fetched.get(key, 0) < int(time)]
    kept = bool(told) and not lost and not queued and not errors
    figures = f"{len(told)} pages accepted, {len(lost)} not fetched since, {queued} still queued, {errors} errors"
    return Finding("nothing that was accepted is lost", kept, figures)
