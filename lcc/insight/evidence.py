"""What :mod:`lcc.insight.verdict` judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from lcc.config import WebConfig
from lcc.insight.qm_state import Live
from lcc.storage.tasks.figures import TaskFigures
from lcc.storage.views.failures import Failures

UNS, MACHINE, ROBOT, MANAGER = "uns", "machine", "robot", "manager"
FAILURES_MIN = 2
"""A process that fails fewer checks in a row may be restarting: it is no trouble."""
FAILING_SECONDS = 600.0
"""Results are judged over this time."""
Values = Mapping[str, float]


@attrs.frozen
class Disconnected:
    """Somebody who was connected to the queue manager and is not.

    :ivar kind: :data:`UNS`, :data:`MACHINE` or :data:`ROBOT`.
    :ivar name: a UNS's name; a machine's number; of a robot its machine's number, a space, and its name.
    :ivar since: when it was last seen, seconds since 1970.
    """

    kind: str
    name: str
    since: float


@attrs.frozen
class Fault:
    """A condition that does not hold, in the words of its role."""

    role: str
    text: str
    remedy: str


@attrs.frozen
class ProcessHealth:
    """Health of one process, from its ``/readyz``.

    :ivar address: of its metrics port.
    :ivar roles: that run in it; empty: it never answered.
    :ivar well: it can do its work; None: not polled yet.
    :ivar silent: why it does not answer; empty: it does.
    :ivar since: since when it is not well, seconds since 1970; None: it is.
    :ivar bad: failed polls in a row.
    :ivar notes: how its roles are, in their words.
    """

    address: str
    roles: tuple[str, ...] = ()
    well: bool | None = None
    silent: str = ""
    faults: tuple[Fault, ...] = ()
    since: float | None = None
    bad: int = 0
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people."""
        return f"{', '.join(self.roles)} at {self.address}" if self.roles else self.address

    @property
    def is_trouble(self) -> bool:
        """It has been unwell for more than a moment."""
        return self.bad >= FAILURES_MIN


@attrs.frozen
class Point:
    """A sample of what the queue manager does.

    :ivar time: its end, seconds since 1970.
    :ivar seconds: its length.
    :ivar values: rates per second and levels, by name; those of the web monitor's plots.
    """

    time: float
    seconds: float
    values: Values


@attrs.frozen
class Outcomes:
    """How many fetches ended, and failed, lately."""

    total: float
    failed: float

    @property
    def failed_share(self) -> float:
        """Of all; 0: there were none."""
        return self.failed / self.total if self.total else 0.0


def outcomes(points: Iterable[Point], now: float) -> Outcomes:
    """Of the last :data:`FAILING_SECONDS`."""
    lately = [point for point in points if point.time > now - FAILING_SECONDS]
    failed = sum(point.values["failed"] * point.seconds for point in lately)
    fine = sum((point.values["stored"] + point.values["unchanged"]) * point.seconds for point in lately)
    return Outcomes(failed + fine, failed)


@attrs.frozen
class Evidence:
    """All that a verdict is made from.

    :ivar now: seconds since 1970.
    :ivar database: why it cannot be read; empty: it can.
    :ivar live: the queue manager's state; None: not known yet.
    :ivar failures: None: not known yet.
    :ivar points: of the last minutes.
    :ivar thresholds: beyond which the verdict is amber, or red.
    :ivar providers: that are registered.
    :ivar lag_since: when the oldest set came that could be fetched now; None: none waits.
    :ivar disk: why the disk of a SQLite file is almost full; empty: it is not.
    :ivar waiting: registrations that wait for approval.
    :ivar wanted: reason -> providers asked for a full set.
    :ivar held: ``(providers, pages)`` whose deletion is held for approval.
    :ivar taken_away: machines removed for good.
    :ivar tasks: None: not known yet.
    :ivar managers_dismissed: managers that are down for good.
    """

    now: float
    database: str = ""
    live: Live | None = None
    failures: Failures | None = None
    points: tuple[Point, ...] = ()
    disk: str = ""
    waiting: int = 0
    wanted: dict[str, int] = attrs.field(factory=dict)
    held: tuple[int, int] = (0, 0)
    away: tuple[Disconnected, ...] = ()
    taken_away: frozenset[str] = frozenset()
    processes: tuple[ProcessHealth, ...] = ()
    tasks: TaskFigures | None = None
    managers_dismissed: frozenset[str] = frozenset()
    thresholds: WebConfig = attrs.field(factory=WebConfig)
    providers: int = 0
    lag_since: int | None = None
