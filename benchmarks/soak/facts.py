"""What a soak has found: all that it is judged by.  It is kept, so that it can be judged again (``--judge``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from soak.samples import Probe, Sample, Sent, Window


@attrs.frozen
class Times:
    """Ends of the parts, seconds since the soak's begin.

    :ivar steady: of half the rate.
    :ivar settled: when all of that was cached; the overload begins.
    :ivar overload: of ten times as much.
    :ivar drained: when the backlog was gone.
    :ivar calm: of half the rate again.
    """

    steady: float
    settled: float
    overload: float
    drained: float
    calm: float

    def judged_part(self, moment: float) -> bool:
        """Whether everything that is told then has to be accepted."""
        return moment < self.settled or self.drained <= moment


@attrs.frozen
class Counted:
    """After half the rate, when nothing was told any longer.

    :ivar told: pages of sets that were accepted.
    :ivar single: single pages that were accepted.
    :ivar changes: of the cache that were recorded since the begin.
    :ivar queued: URLs that were still to be fetched.
    """

    told: int
    single: int
    changes: int
    queued: int


@attrs.frozen
class Left:
    """After the overload, when the backlog was gone.

    :ivar pages: that were in an accepted set.
    :ivar not_fetched: of these, those that were not recorded since the last set that named them.
    :ivar queued: URLs of the load that were still to be fetched.
    :ivar errors: of the load's fetches.
    :ivar single_missing: single pages that were accepted at any time of the soak and never cached.
    """

    pages: int
    not_fetched: int
    queued: int
    errors: int
    single_missing: int = 0


@attrs.frozen
class Facts:
    """One soak.

    :ivar rate: measured, pages a second; half of it is told.
    :ivar half_sets, half_probes: answers at half the rate, before the overload and after the backlog: code -> number.
    :ivar overload_sets: answers under overload.
    :ivar overload_seen: what the queue manager gave as reasons then.
    :ivar peaks_mb: by role, from the overload on.
    :ivar backlog: URLs to be fetched when the overload ended, those in the spool included.
    """

    rate: float
    times: Times
    windows: list[Window]
    half_sets: dict[int, int]
    half_probes: dict[int, int]
    overload_sets: dict[int, int]
    overload_seen: list[str]
    peaks_mb: dict[str, float]
    counted: Counted
    backlog: int
    left: Left

    def during(self) -> list[Window]:
        """Those of half the rate that are whole."""
        return [each for each in self.windows if each.time + each.seconds / 2 <= self.times.steady]

    def after(self) -> list[Window]:
        """Those of half the rate after the backlog."""
        return [
            each
            for each in self.windows
            if self.times.drained <= each.time - each.seconds / 2 and each.time + each.seconds / 2 <= self.times.calm
        ]

    def save(self, path: Path, **more: Any) -> None:
        """Keep it, and what else is to be known, as JSON."""
        path.write_text(json.dumps({"facts": attrs.asdict(self), **more}) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """What :meth:`save` has kept.

        :raises SystemExit: the file is none of those, or of an earlier version.
        """
        kept = json.loads(path.read_text()).get("facts")
        if kept is None:
            raise SystemExit(f"{path} does not hold what a soak is judged by; an earlier version wrote it")
        for name in ("half_sets", "half_probes", "overload_sets"):
            kept[name] = {int(code): number for code, number in kept[name].items()}
        try:
            kept["windows"] = [Window(**window) for window in kept["windows"]]
        except TypeError as error:
            raise SystemExit(f"an earlier version wrote {path}: {error}") from error
        for name, kind in (("times", Times), ("counted", Counted), ("left", Left)):
            kept[name] = kind(**kept[name])
        return cls(**kept)


def answers(found: Iterable[Sent | Probe]) -> dict[int, int]:
    """Code -> how many."""
    return dict(Counter(each.code for each in found))


def peaks(samples: Iterable[Sample]) -> dict[str, float]:
    """Role -> the most that was resident, MB."""
    most: dict[str, float] = {}
    for sample in samples:
        for role, size in sample.resident_mb.items():
            most[role] = max(size, most.get(role, 0.0))
    return most


def reasons(samples: Sequence[Sample]) -> list[str]:
    """Why nothing was taken in, each once, in their order."""
    return list(dict.fromkeys(sample.overload for sample in samples if sample.overload))
