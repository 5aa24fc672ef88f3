"""What is seen of a soak: memory, rates, latency, by time."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
from latency import percentile
from lcc_site import LccSite

SAMPLE_SECONDS = 1.0
ACCEPTED = 0
NO_ANSWER = -1
SKIPPED = -2
NEVER_CACHED = -3
"""A single page that was told, and neither rejected nor cached in time."""


@attrs.frozen
class Sample:
    """
    :ivar time: seconds since 1970.
    :ivar resident_mb: by role.
    :ivar cpu_seconds: so far, by role.
    :ivar changes: of the cache so far.
    :ivar queued: URLs to be fetched.
    :ivar overload: why the queue manager takes nothing in; empty: it does (as it told at most five seconds before).
    :ivar removal_lag_seconds: for how long the oldest file of replaced content could have been removed.
    """

    time: float
    resident_mb: dict[str, float]
    cpu_seconds: dict[str, float]
    changes: int
    queued: int
    overload: str
    removal_lag_seconds: float


@attrs.frozen
class Probe:
    """A single page: when it was told, milliseconds until it was cached (None: it was rejected), and the code."""

    time: float
    latency_ms: float | None
    code: int


@attrs.frozen
class Sent:
    """A set of the load: see load.py."""

    time: float
    pid: int
    first: int
    count: int
    code: int


@attrs.frozen
class Window:
    """Some seconds.

    :ivar time: its middle, seconds since the soak's begin.
    :ivar seconds: how long it is.
    :ivar told: pages a second that were told and accepted, single ones, too.
    :ivar rate: pages a second that were fetched, single ones, too.
    :ivar queued: URLs, at most.
    :ivar p50_ms, p99_ms: of the probes that were accepted; None: there were none.
    :ivar latencies_ms: of each of those.
    :ivar removal_lag_seconds: of the samples, at most.
    """

    time: float
    seconds: float
    told: float
    rate: float
    queued: int
    resident_mb: dict[str, float]
    cpu_ms: float
    p50_ms: float | None
    p99_ms: float | None
    latencies_ms: list[float]
    removal_lag_seconds: float


class Sampler:
    """Looks at an LCC once a second, in a thread of its own."""

    def __init__(self, site: LccSite) -> None:
        self.samples: list[Sample] = []
        self._site = site
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def last(self) -> Sample:
        """The newest.

        :raises SystemExit: a role has ended, or the database does not answer.
        """
        while not self.samples and self._error is None:
            time.sleep(0.1)
        if self._error is not None:
            raise SystemExit(f"nothing can be seen of the LCC any longer: {self._error!r}")
        return self.samples[-1]

    def _run(self) -> None:
        try:
            while not self._ended.wait(SAMPLE_SECONDS):
                self.samples.append(self._look())
        except BaseException as error:
            self._error = error

    def _look(self) -> Sample:
        site = self._site
        state = site.state()
        return Sample(
            time.time(),
            site.resident_mb(),
            site.cpu_seconds(),
            site.changes(),
            site.queued(),
            str(state.get("overload") or ""),
            site.removal_lag_seconds(),
        )


def read_probes(log: Path) -> list[Probe]:
    """What probe.py has written."""
    found = []
    for line in log.read_text().splitlines():
        begun, told, fetched, code = line.split()
        latency = None if told == "-" else float(told) + float(fetched)
        found.append(Probe(float(begun), latency, int(code)))
    return found


def read_sent(log: Path) -> list[Sent]:
    """What load.py has written."""
    lines = (line.split() for line in log.read_text().splitlines())
    return [Sent(float(line[0]), *(int(each) for each in line[1:])) for line in lines]


def windows(
    samples: Sequence[Sample], probes: Iterable[Probe], sent: Iterable[Sent], begun: float, seconds: float
) -> list[Window]:
    """The samples in pieces of so many seconds; a last piece that is not full is left out."""
    latencies_of: dict[int, list[float]] = {}
    told: Counter[int] = Counter()
    for probe in probes:
        if probe.latency_ms is not None:
            latencies_of.setdefault(int((probe.time - begun) // seconds), []).append(probe.latency_ms)
            told[int((probe.time - begun) // seconds)] += 1
    for each in sent:
        if each.code == ACCEPTED:
            told[int((each.time - begun) // seconds)] += each.count
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(int((sample.time - begun) // seconds), []).append(sample)
    found = []
    for number in sorted(groups):
        some = groups[number]
        if number < 0 or len(some) < 2 or number + 1 not in groups:
            continue
        first, last = some[0], groups[number + 1][0]
        pages = last.changes - first.changes
        cpu = sum(last.cpu_seconds.values()) - sum(first.cpu_seconds.values())
        latencies = latencies_of.get(number, [])
        found.append(
            Window(
                (number + 0.5) * seconds,
                seconds,
                told[number] / seconds,
                pages / (last.time - first.time),
                max(sample.queued for sample in some),
                {role: max(sample.resident_mb[role] for sample in some) for role in first.resident_mb},
                1000 * cpu / pages if pages else 0.0,
                statistics.median(latencies) if latencies else None,
                percentile(latencies, 0.99) if latencies else None,
                latencies,
                max(sample.removal_lag_seconds for sample in some),
            )
        )
    return found
