"""What the scheduler keeps of a provider that has its turn."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import NamedTuple

from lcc.domain.registration.sites import hosts_of
from lcc.domain.urls import Roots
from lcc.model import Cursor, Provider, QueueRow
from lcc.model.providers import clamp
from lcc.roles.qm.schedule.hosts import HostGroup
from lcc.roles.qm.schedule.ready_queue import Place

START = (0, 0)
"""The cursor before all rows."""


class Limits(NamedTuple):
    """What limits the fetches of a provider.

    :ivar rate: bytes per second; None: without limit.
    :ivar hours: as text; empty: always.
    :ivar timezone: of all its hours; empty: the LCC's.
    :ivar interval: seconds from the start of a fetch to that of the next, at least; 0: none.
    """

    rate: int | None = None
    hours: str = ""
    timezone: str = ""
    priority: int = 0
    interval: float = 0.0


class FetchInfo(NamedTuple):
    """What orders say of a provider, and when there may be any.

    :ivar roots: separated by spaces.
    :ivar prefixes: what its URLs begin with.
    :ivar hosts, watched: as in :class:`~lcc.model.ProviderHosts`.
    """

    roots: str
    private: bool = False
    insecure: bool = False
    limits: Limits = Limits()
    prefixes: tuple[str, ...] = ("",)
    hosts: tuple[str, ...] = ()
    watched: bool = False


def fetch_info(provider: Provider) -> FetchInfo:
    """What has to be known of this provider to fetch from it."""
    limits = Limits(
        provider.bandwidth_bytes,
        provider.hours,
        provider.timezone,
        clamp(provider.priority),
        provider.interval_seconds or 0.0,
    )
    prefixes = Roots(provider.roots).prefixes
    return FetchInfo(
        " ".join(provider.roots),
        provider.allow_private,
        provider.insecure,
        limits,
        prefixes,
        hosts_of(provider.roots),
        provider.watched,
    )


class ProviderWork:
    """An active provider.

    :ivar place: its place among those of its priority.
    :ivar rows_out: the rows that :meth:`Scheduler.take` gave last, each with the time (seconds since 1970; infinite:
        none) before which its fetch must begin.
    :ivar info: what has to be known of the provider, set with the first rows.
    :ivar group: those that it shares a host with; None: nobody.
    :ivar info_stale: what is being read of it is out of date.
    :ivar machine: where its last order went; for the dispatcher.
    :ivar busy: its orders that are out: a run, carried out one after the other.
    :ivar expected: what each of those is expected to bring, in bytes, by key; ``expected_bytes``: all of them.
    :ivar recalled: what is not begun of them was asked back; nothing is sent until they are answered.
    :ivar doubt: the key of a result that will hold the provider back once it is recorded; nothing is sent meanwhile.
    :ivar served, served_bytes: how much of its quantum is used up.
    :ivar page_seconds: how long a fetch of it takes, by the last ones; 0: that is not known.
    :ivar unpaid_bytes: that came before its limits were known.
    :ivar used: rows were handed out in this turn.
    :ivar open_since, open_until: between these its hours are known to be open for new orders.
    :ivar hours_end: a fetch must begin before this, then.
    :ivar start_by: the same for the row that was looked at last (infinite: at any time).
    :ivar buffer: rows read and not handed out, in queue order, all at or before ``cursor``.
    :ivar exhausted: the last read reached the end, and no work has come since.
    :ivar reading: the cursor of the read under way.
    :ivar rewind: where to rewind to once its rows have come.
    :ivar recent: keys and generations recorded while it is under way.
    :ivar passable: the cursor is in a full set of which more than a quantum is left: partial sets may pass it.
    :ivar express: rows of partial sets that pass the full set that the cursor is in; all behind the cursor's set.
    :ivar express_due: partial sets are to be looked for.
    :ivar express_done: they were, in this quantum, and have not been dropped.
    :ivar express_count: of this quantum: those handed out, and those in memory.
    :ivar express_stale: what is being read of them is out of date.
    """

    __slots__ = (
        *(
            "buffer",
            "busy",
            "cursor",
            "doubt",
            "exhausted",
            "gone",
            "group",
            "hours_end",
            "queued",
            "info",
            "info_stale",
        ),
        *("expected", "expected_bytes"),
        *("express", "express_count", "express_done", "express_due", "express_stale", "passable"),
        *("machine", "open_since", "open_until", "page_seconds", "place", "pid"),
        *("priority", "psetid", "reading", "recalled", "recent", "rewind", "rows_out", "served", "served_bytes"),
        *("start_by", "unpaid_bytes", "used"),
    )

    def __init__(self, pid: int, place: Place, priority: int) -> None:
        self.pid = pid
        self.place = place
        self.priority = priority
        self.psetid = place[0]
        self.rows_out: list[tuple[QueueRow, float]] = []
        self.info: FetchInfo | None = None
        self.group: HostGroup | None = None
        self.info_stale = False
        self.machine = 0
        self.busy = 0
        self.expected: dict[bytes, int] = {}
        self.expected_bytes = 0
        self.recalled = False
        self.doubt: bytes | None = None
        self.queued = False
        self.gone = False
        self.served = 0
        self.served_bytes = 0
        self.page_seconds = 0.0
        self.unpaid_bytes = 0
        self.used = False
        self.open_since = 0.0
        self.open_until = 0.0
        self.hours_end = inf
        self.start_by = inf
        self.buffer: deque[QueueRow] = deque()
        self.cursor: tuple[int, int] = START
        self.exhausted = False
        self.reading: Cursor | None = None
        self.rewind: tuple[int, int] | None = None
        self.recent: dict[bytes, int] = {}
        self.passable = False
        self.express: deque[QueueRow] = deque()
        self.express_count = 0
        self.express_due = False
        self.express_done = False
        self.express_stale = False

    @property
    def has_rows(self) -> bool:
        """There are rows to be handed out."""
        return bool(self.buffer or self.express)

    @property
    def rows(self) -> list[QueueRow]:
        """All of them, in the order in which they will be handed out."""
        before = [row for row in self.buffer if row.psetid < self.cursor[0]]
        return [*before, *self.express, *list(self.buffer)[len(before) :]]

    @property
    def finished(self) -> bool:
        """There is nothing left, neither here nor in the database."""
        return self.exhausted and not self.has_rows and self.reading is None

    def hand_out(self, row: QueueRow, expected_bytes: int) -> None:
        """A row goes out, with the others of ``rows_out``."""
        self.rows_out.append((row, self.start_by))
        self.expected[row.key] = expected_bytes
        self.expected_bytes += expected_bytes
        self.busy += 1
        self.served += 1
        self.used = True

    def came_back(self, key: bytes) -> None:
        """A row that was out is out no longer."""
        self.expected_bytes -= self.expected.pop(key, 0)
        if self.busy:
            self.busy -= 1
        if not self.busy:
            self.recalled = False

    def took(self, seconds: float) -> None:
        """A fetch of it took so long; 0: that is not known."""
        if seconds:
            self.page_seconds = (3 * self.page_seconds + seconds) / 4 if self.page_seconds else seconds

    def renew_quantum(self) -> None:
        """It gets another quantum."""
        self.served = self.served_bytes = 0
        self.express_done, self.express_count = False, len(self.express)
