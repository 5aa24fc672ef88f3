"""What is going on now: the first page, and that of the machines.  Neither asks the database."""

from __future__ import annotations

import math
from typing import Any

from twisted.logger import Logger

from lcc.numbers import parse_number
from lcc.protocols.work import ROBOTS_TOLD
from lcc.roles.web.engine import Monitor
from lcc.roles.web.pages.base import MonitorPage
from lcc.roles.web.plots import Plot, plot
from lcc.roles.web.samples import binned, highest
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

_log = Logger()

SPANS = {"hour": 3600, "day": 86400}
PARTS = 180
PARTS_MIN = 15
"""Of a plot that has just begun."""
PLOTS = (
    ("Fetches per second", "results_recorded", ""),
    ("Bandwidth", "wire_bytes", "B/s"),
    ("Failures per second", "failed", ""),
    ("URLs in the queue", "queue_rows", ""),
)
LISTED = {
    "sites": "/providers?only=unreachable",
    "wanted": "/providers?only=wanted",
    "deletions": "/providers?only=held",
    "failing": "/errors",
    "tasks": "/tasks?only=failing",
    "jobs": "/jobs?state=lost",
    "lag": "/providers?only=queued&order=lag",
    "registrations": "/registrations?only=proven",
    **dict.fromkeys(("no", "away", "machine", "robots", "manager", "process", "stuck", "uns", "paused"), "/machines"),
}
"""What the key of a trouble begins with -> the page that lists what it counts."""
REFRESH_MIN_SECONDS = 5
REFRESH_MAX_SECONDS = 9999
FETCHES_SHOWN = 100
ROBOTS_SHOWN = 5
"""Of each machine on the first page; that of the machines has all that are known."""


class OverviewPage(MonitorPage):
    """``/``: the state of the system on one page."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        span = query.get("span", "hour")
        span = span if span in SPANS else "hour"
        live = self.monitor.live
        self.front.page(
            request,
            "overview",
            "Overview",
            span=span,
            refresh=_refresh(query.get("refresh", "")),
            plots=plots(self.monitor, SPANS[span]),
            live=live,
            state={} if live is None else live.state,
            outcomes=self.monitor.outcomes,
            rates=self.monitor.samples.now(self.monitor.now()),
            robots_shown=ROBOTS_SHOWN,
            summary=self.monitor.summary,
            listed_at=_listed_at,
        )


def _listed_at(key: str) -> str:
    """Where that is listed of which the trouble with this key tells; empty: nowhere."""
    return LISTED.get(key.partition("-")[0], "")


def _refresh(text: str) -> int:
    try:
        return max(REFRESH_MIN_SECONDS, parse_number(text, REFRESH_MAX_SECONDS))
    except ValueError:
        return 0


class MachinesPage(MonitorPage):
    """``/machines``: machines and robots, and what is being fetched."""

    async def get(self, request: BodyRequest) -> None:
        live = self.monitor.live
        state: dict[str, Any] = {} if live is None else live.state
        self.front.page(
            request,
            "machines",
            "Machines and robots",
            live=live,
            state=state,
            robots_shown=ROBOTS_TOLD,
            processes=self.monitor.processes.health,
            fetches=self.monitor.fetching.fetches,
            fetches_shown=FETCHES_SHOWN,
            untold=self.monitor.fetching.troubles,
        )


class TakenAwayPage(MonitorPage):
    """``/taken-away``: forgets a member that is missing."""

    methods = (b"POST",)

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request)
        kind, name = fields.get("kind", ""), fields.get("name", "")
        if not self.monitor.taken_away(kind, name):
            raise HttpError(404, "Nothing with this name is missing.")
        session = self.front.session(request)
        _log.info(
            "Web monitor: {user!r} removed {kind} {name!r} from the members",
            user="?" if session is None else session.user.name,
            kind=kind,
            name=name,
        )
        self.front.redirect(request, "/")


def plots(monitor: Monitor, span_seconds: int) -> list[Plot]:
    """The plots of the last so many seconds, or from where the data begins."""
    width = span_seconds / PARTS
    # Parts begin at round times, so that a plot moves by whole parts.
    end = (monitor.now() // width + 1) * width
    points = monitor.samples.since(end - span_seconds)
    known = end - points[0].time + points[0].seconds if points else 0.0
    count = min(PARTS, max(PARTS_MIN, math.ceil(known / width)))
    start = end - count * width
    latest = monitor.samples.now(monitor.now()) or {}
    return [
        plot(
            title,
            binned(points, name, start, end, count),
            highest(points, name, start, end, count),
            [(point.time, point.seconds, point.values[name]) for point in points],
            start,
            end,
            unit,
            latest.get(name),
        )
        for title, name, unit in PLOTS
    ]
